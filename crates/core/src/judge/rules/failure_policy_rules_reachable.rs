//! Each rule of a `podFailurePolicy` is reached by the failures that it is for, and none lets a Job start again forever.
//!
//! ## Why
//!
//! The first rule that matches a failed pod decides. A rule after a wider one is never reached; one for an exit
//! code that the container does not end with, or for a condition that no pod has, never matches. Nothing says
//! so: the Job counts the failure, and retries what should have ended it, or ends at what it should have
//! survived. And a rule that ignores what a broken program ends with starts it again without a limit,
//! whatever `backoffLimit` is.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   backoffLimit: 3
//!   podFailurePolicy:
//!     rules:
//!     - action: Count
//!       onExitCodes: {operator: NotIn, values: [0]}
//!     - action: FailJob
//!       onExitCodes: {operator: In, values: [42]}
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   backoffLimit: 3
//!   podFailurePolicy:
//!     rules:
//!     - action: Ignore
//!       onPodConditions: [{type: DisruptionTarget, status: "True"}]
//!     - action: FailJob
//!       onExitCodes: {containerName: trainer, operator: In, values: [42]}
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py]
//! ```
//!
//! ## Fix
//!
//! None, except for a misspelled condition: unsafe, writes `DisruptionTarget`. Which rule comes first, and what
//! a program ends with, is up to the author.
//!
//! ## Details
//!
//! **Shadowed.** A rule is reported if earlier ones, for the same container or for any, match all that it does,
//! and another action follows from that. So is a rule for `DisruptionTarget` after one for exit codes that has
//! 1, 137 and 143: a pod that is drained ends with one of them. A wide `Count` before a narrow rule is not the
//! usual way to say "all others": those count anyway, without a rule.
//!
//! **Codes.** torchrun ends with 1 whatever its workers end with. So a rule that only lists codes from 3 to 125
//! is reported where the container runs torchrun as its last command, or a script that ends with `echo`, with
//! `| tee` or with `|| true`, and nothing in it may `exit` elsewhere. Codes above 255 do not exist on Linux. A
//! sidecar (an init container with `restartPolicy: Always`) is started again whatever it exits with; only what it
//! ends with after the others counts. `mpirun` and `deepspeed` pass codes on, and are not reported.
//!
//! **Conditions.** Reported are near misses of `DisruptionTarget`, its reasons (`EvictionByEvictionAPI`), and
//! reasons of a pod's status (`Evicted`, `OOMKilled`). Other conditions may be set by some controller.
//!
//! **Ignored.** `Ignore` for exit code 1 or 137 is reported: 1 is any error of a program, and 137 is that of one
//! without enough memory, which comes again. The failures are not counted, so `backoffLimit` never ends the Job;
//! the controller starts the next pod after a wait of ten minutes at most, until the deadline, or without end. 143 alone
//! is not reported.
//!
//! **Containers.** In a Job or CronJob, a `containerName` that the pod template lacks is an error of the API server. In
//! the Jobs of other kinds it is reported here, since the API server refuses the Job that their operator creates. That a
//! webhook adds containers to pods later does not help: it is the template that counts.
//!
//! Each message is checked against the model of `jobgate simulate`, with an exit code that the rule is for, or a drained
//! node: where the Job would end in the same way without the problem, nothing is reported. Rules with placeholders are left
//! out, and so are training runtimes, whose commands a TrainJob may replace.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy>
//! * <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/job/pod_failure_policy.go>

use crate::controllers::incident::Incident;
use crate::controllers::job::spec::FailureAction;
use crate::controllers::story::Ending;
use crate::judge::exit_codes::{HiddenCode, hidden_code, is_own};
use crate::judge::failure_rules::{CodeSet, KnownRule, MOST_CODE, RuleMatch, word};
use crate::judge::finding::{Part as FindingPart, Place, Safety, listed};
use crate::judge::forecast::Forecast;
use crate::judge::loss::Loss;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::{ContainerSlot, Deadline, Field, Part, PodTemplate};
use crate::text::lines::cut;
use crate::text::patch::Op;
use crate::text::placeholder::is_placeholder;
use crate::text::suggest::is_slip;
use crate::text::value::{Value, json};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Rule of a podFailurePolicy without effect".into(),
        summary: "Each rule of a `podFailurePolicy` is reached by the failures that it is for, and none lets a Job \
                  start again forever".into(),
        kinds: Kinds::JobSpecs,
        default: Action::Warn,
        export: Exportable::No("it reads command lines, and asks what happens next"),
        ..Rule::new("failure-policy-rules-reachable", check)
    }
}

/// The condition of a pod that is drained, preempted or evicted.
const DISRUPTED: &str = "DisruptionTarget";

/// Reasons that are no conditions, and the incident that each is about: those of `DisruptionTarget`, and of a pod's status.
const REASONS: [(&str, Incident); 11] = [
    ("DeletionByPodGC", Incident::NodeGone),
    ("DeletionByTaintManager", Incident::NodeLost),
    ("Evicted", Incident::Pressure),
    ("EvictionByEvictionAPI", Incident::Drain),
    ("NodeLost", Incident::NodeGone),
    ("NodeShutdown", Incident::Pressure),
    ("OOMKilled", Incident::Oom),
    ("Preempted", Incident::Preempt),
    ("Preempting", Incident::Preempt),
    ("PreemptionByScheduler", Incident::Preempt),
    ("TerminationByKubelet", Incident::Pressure),
];

/// What a pod ends with that is deleted: of a program that handles SIGTERM, of one that is killed after its grace period, and
/// of one that does not handle it.
const DISRUPTED_CODES: [i64; 3] = [1, 137, 143];

/// Codes with which a broken program ends whenever it starts: any error, and no memory.
const BROKEN: [(i64, &str); 2] =
    [(1, "a program that fails whenever it starts"), (137, "a program that has not enough memory")];

/// The longest name to repeat, in bytes.
const MAX_NAME_BYTES: usize = 60;

/// Maximum rules that are looked at: the API server takes no more.
const MOST_RULES: usize = 20;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let is_replaced = matches!(workload.kind.deadline, Deadline::OfOthers { .. });
    for (index, pod) in workload.pods.iter().enumerate() {
        let list = pod.around.at(&["podFailurePolicy", "rules"]);
        let count = list.values().len();
        if !pod.form.is_job() || is_replaced || count == 0 || count > MOST_RULES {
            continue;
        }
        let rules = KnownRule::all(&list);
        for (at, rule) in rules.iter().enumerate() {
            let policy = PolicyAt { index, list: &list, earlier: &rules[..at] };
            unknown_container(cx, pod, rule);
            if shadowed(cx, &policy, rule) {
                continue;
            }
            match &rule.on {
                RuleMatch::Codes(container, codes) => {
                    if !never_ends_with(cx, &policy, rule, (container.as_deref(), codes)) {
                        ignored(cx, &policy, rule, codes);
                    }
                }
                RuleMatch::Conditions(_) => conditions(cx, &policy, rule),
            }
        }
    }
}

/// The policy around a rule.
struct PolicyAt<'p, 'a> {
    /// The index of the pod template.
    index: usize,
    /// The list of its rules.
    list: &'p Part<'a>,
    /// The rules before it.
    earlier: &'p [KnownRule<'a>],
}

/// Tells whether two courses differ in how they end, how many failures count, or how many pods there are; also where one is not
/// known. Why a Job fails only matters to a set of Jobs.
fn differ(cx: &Cx<'_>, one: Option<&Forecast>, other: Option<&Forecast>) -> bool {
    let in_set = matches!(cx.workload.kind.deadline, Deadline::EndsEachJob { .. });
    let told = |forecast: &Forecast| {
        let outcome = &forecast.outcome;
        (outcome.ending, outcome.reason.clone().filter(|_| in_set), outcome.status.failed, outcome.made)
    };
    one.zip(other).is_none_or(|(one, other)| told(one) != told(other))
}

/// Returns the operations that put a rule before others.
fn moved(policy: &PolicyAt<'_, '_>, rule: &KnownRule<'_>, before: usize) -> Option<[Op; 2]> {
    let value = rule.part.value?.clone();
    let to = &policy.list.pointer / before;
    Some([Op::Remove(rule.part.pointer.clone()), Op::Add(to, value)])
}

/// Reports a rule that earlier ones hide. Returns whether they do.
fn shadowed(cx: &mut Cx<'_>, policy: &PolicyAt<'_, '_>, rule: &KnownRule<'_>) -> bool {
    let all = rule.shadowed_by(policy.earlier);
    let (by, incident) = if let Some(first) = all.first() {
        let incident = match &rule.on {
            RuleMatch::Codes(_, codes) => codes.first().map(Incident::Exit),
            on @ RuleMatch::Conditions(_) => on.is_disruption().then_some(Incident::Drain),
        };
        (*first, incident)
    } else if rule.on.is_disruption() {
        let pod = &cx.workload.pods[policy.index];
        let is_main = |name: &str| {
            let mut main = pod.containers().filter(|container| container.slot == ContainerSlot::Main);
            main.any(|container| container.part.get("name").text() == Field::Set(name))
        };
        let takes = |earlier: &&KnownRule<'_>| match &earlier.on {
            RuleMatch::Codes(container, codes) => {
                container.as_deref().is_none_or(is_main) && DISRUPTED_CODES.iter().all(|code| codes.contains(*code))
            }
            RuleMatch::Conditions(_) => false,
        };
        let Some(by) = policy.earlier.iter().find(takes) else { return false };
        (by, Some(Incident::Drain))
    } else {
        return false;
    };
    if all.iter().all(|earlier| earlier.action == rule.action) && by.action == rule.action {
        return true;
    }
    if let (Some(incident), Some(ops)) = (incident, moved(policy, rule, by.nth)) {
        let now = cx.forecast(policy.index, incident);
        if !differ(cx, now.as_ref(), cx.forecast_after(policy.index, incident, &ops).as_ref()) {
            return true;
        }
    }
    let names: Vec<String> = all.iter().map(|rule| rule.name()).collect();
    let message = if all.is_empty() {
        let (own, by) = (rule.name(), by.name());
        format!("{own} is never reached: a drained pod ends with an exit code, which {by} matches first")
    } else {
        let verb = if names.len() == 1 { "matches" } else { "match" };
        let what = if matches!(rule.on, RuleMatch::Codes(..)) { "exit codes" } else { "conditions" };
        format!("{} is never reached: {} {verb} all its {what} first", rule.name(), listed(&names, "and"))
    };
    let finding = cx.report(&rule.part.pointer, message);
    finding.at_key().help(format!("put it before `rules[{}]`: the first rule that matches decides", by.nth));
    finding.label(Place::Here(by.part.pointer.clone(), FindingPart::Key), "matches first");
    finding.incident = incident;
    true
}

/// Returns why the container that a rule is about, or every one of the pod, never ends with its codes.
fn why_never(cx: &Cx<'_>, policy: &PolicyAt<'_, '_>, container: Option<&str>) -> Option<HiddenCode> {
    let pod = &cx.workload.pods[policy.index];
    let lines = &cx.commands(policy.index).containers;
    let named = |name: &str| lines.iter().find(|line| line.container.part.get("name").text() == Field::Set(name));
    match container {
        Some(name) => hidden_code(named(name)?),
        None => {
            let has_others = pod.containers().any(|container| container.slot != ContainerSlot::Main);
            let mut all = lines.iter().map(hidden_code);
            let first = all.next().flatten().filter(|_| !has_others)?;
            all.all(|other| other.is_some()).then_some(first)
        }
    }
}

/// Reports a rule for codes that its container never ends with. Returns whether it does.
fn never_ends_with(
    cx: &mut Cx<'_>,
    policy: &PolicyAt<'_, '_>,
    rule: &KnownRule<'_>,
    (container, codes): (Option<&str>, &CodeSet),
) -> bool {
    let CodeSet::In(codes) = codes else { return false };
    let pod = &cx.workload.pods[policy.index];
    let values = rule.part.get("onExitCodes").get("values");
    let all: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    let shown = if all.len() > 4 { format!("its {} codes", all.len()) } else { listed(&all, "and") };
    if codes.iter().all(|code| !(0..=MOST_CODE).contains(code)) && !is_of_windows(pod) {
        let message = format!("{} never matches: no process on Linux ends with {shown}", rule.name());
        cx.report(&values.pointer, message).help(format!("write codes from 1 to {MOST_CODE}"));
        return true;
    }
    if let Some(sidecar) = container.and_then(|name| sidecar(pod, name)) {
        if codes.iter().any(|code| DISRUPTED_CODES.contains(code)) {
            return false;
        }
        let name = cut(container.unwrap_or_default(), MAX_NAME_BYTES, "…").escape_debug().to_string();
        let message = format!(
            "{} never matches: the sidecar `{name}` starts again whatever it exits with, until the other containers end",
            rule.name()
        );
        let finding = cx.report(&values.pointer, message);
        finding.help("let the main container exit with the code, or make the sidecar one of `containers`");
        finding.label(Place::Here(sidecar.pointer, FindingPart::Value), "makes it a sidecar");
        return true;
    }
    let Some(hidden) = why_never(cx, policy, container).filter(|_| codes.iter().all(|code| is_own(*code))) else {
        return false;
    };
    // What happens, and what the author expects.
    let expected = codes.first().and_then(|code| u8::try_from(*code).ok()).map(Incident::Exit);
    if let Some(incident) = expected {
        let now = cx.forecast(policy.index, Incident::Exit(1));
        if !differ(cx, now.as_ref(), cx.forecast(policy.index, incident).as_ref()) {
            return true;
        }
    }
    let message = format!("{} never matches: {}, so the container does not end with {shown}", rule.name(), hidden.why);
    let finding = cx.report(&values.pointer, message);
    finding.help("let the program's exit code be that of the container, or remove the rule");
    finding.label(Place::Here(hidden.place, hidden.part), "decides the exit code");
    finding.incident = expected;
    true
}

/// Tells whether a pod is for nodes with Windows, whose processes have larger exit codes.
fn is_of_windows(pod: &PodTemplate<'_>) -> bool {
    let of = |path: &[&'static str]| pod.spec.at(path).text().set().is_some_and(|os| os == "windows");
    of(&["os", "name"]) || of(&["nodeSelector", "kubernetes.io/os"])
}

/// Returns the `restartPolicy` that makes a container of this name a sidecar.
fn sidecar<'a>(pod: &PodTemplate<'a>, name: &str) -> Option<Part<'a>> {
    let init = pod.containers().filter(|container| container.slot == ContainerSlot::Init);
    let mut named = init.filter(|container| container.part.get("name").text() == Field::Set(name));
    let policy = named.next()?.part.get("restartPolicy");
    (policy.text() == Field::Set("Always")).then_some(policy)
}

/// Reports a rule that ignores what a broken program ends with.
fn ignored(cx: &mut Cx<'_>, policy: &PolicyAt<'_, '_>, rule: &KnownRule<'_>, codes: &CodeSet) {
    if rule.action != FailureAction::Ignore {
        return;
    }
    let is_taken = |code: i64| {
        policy.earlier.iter().any(|earlier| matches!(&earlier.on, RuleMatch::Codes(_, codes) if codes.contains(code)))
    };
    let reached: Vec<(i64, &str)> =
        BROKEN.into_iter().filter(|(code, _)| codes.contains(*code) && !is_taken(*code)).collect();
    let Some((code, program)) = reached.first().copied() else { return };
    let pod = &cx.workload.pods[policy.index];
    let around = pod.around.get("podFailurePolicy");
    // A program that exits with 1 each time stands for any code, so the question is one about that.
    let question = json!({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]});
    let ignores = Op::Replace(around.pointer.clone(), question);
    let now = cx.forecast_after(policy.index, Incident::CrashAll, &[ignores]);
    let counted = cx.forecast_after(policy.index, Incident::CrashAll, &[Op::Remove(around.pointer)]);
    let end = |forecast: &Forecast| (forecast.outcome.ending, forecast.outcome.reason.clone());
    let is_same = now.as_ref().zip(counted.as_ref()).is_some_and(|(now, counted)| end(now) == end(counted));
    if is_same || now.as_ref().is_some_and(Forecast::exceeds_limit) {
        return;
    }
    let deadline = pod.around.get("activeDeadlineSeconds");
    let ends = now.as_ref().filter(|now| now.outcome.ending == Ending::Fails);
    let endless = Loss { time: None, has_accelerators: pod.holds_accelerators(), checkpoint: None };
    let loss = ends.map_or(endless, Forecast::loss);
    let limits = ["backoffLimitPerIndex", "backoffLimit"];
    let limit = limits.into_iter().find(|limit| pod.around.get(limit).is_set()).unwrap_or(limits[1]);
    let until = if deadline.is_set() { "until the deadline" } else { "without end" };
    let which = if reached.len() == 1 { format!("exit code {code}") } else { "exit codes 1 and 137".to_owned() };
    let message = format!(
        "{} does not count {which}: {program} is started again {until}, and `{limit}` never ends it",
        rule.name()
    );
    let finding = cx.report(&rule.part.get("onExitCodes").get("values").pointer, message);
    finding.help(format!("ignore the condition `{DISRUPTED}` instead, which a drained or preempted pod has"));
    finding.about(if code == 1 { Incident::CrashAll } else { Incident::Oom });
    if deadline.is_set() {
        finding.label(Place::Here(deadline.pointer, FindingPart::Value), "ends it");
        finding.costs(ends.map(|_| loss));
    } else {
        finding.costs(loss);
    }
}

/// Reports conditions that no pod has.
fn conditions(cx: &mut Cx<'_>, policy: &PolicyAt<'_, '_>, rule: &KnownRule<'_>) {
    for condition in rule.part.get("onPodConditions").items() {
        let field = condition.get("type");
        let Some(sort) = field.text().set().filter(|sort| *sort != DISRUPTED) else { continue };
        let reason = REASONS.iter().find(|(reason, _)| *reason == sort);
        if reason.is_none() && !is_slip(sort, DISRUPTED) {
            continue;
        }
        let incident = reason.map_or(Incident::Drain, |(_, incident)| *incident);
        let is_memory = incident == Incident::Oom;
        let fix = Op::Replace(field.pointer.clone(), DISRUPTED.into());
        if !is_memory {
            let now = cx.forecast(policy.index, incident);
            let fixed = cx.forecast_after(policy.index, incident, std::slice::from_ref(&fix));
            if !differ(cx, now.as_ref(), fixed.as_ref()) {
                continue;
            }
        }
        let shown = cut(sort, MAX_NAME_BYTES, "…").escape_debug().to_string();
        let what = if reason.is_some() { "is a reason, and no condition of a pod" } else { "is no condition of a pod" };
        let message = format!("{} never matches: `{shown}` {what}", rule.name());
        let help = if is_memory {
            "write `onExitCodes` with 137, which is what a container without enough memory ends with".to_owned()
        } else {
            format!("write `{DISRUPTED}`, which pods have that are drained, preempted or evicted")
        };
        let finding = cx.report(&field.pointer, message).help(help).about(incident);
        if reason.is_none() {
            finding.fix(Safety::Unsafe, vec![fix]);
        }
    }
}

/// Reports a container that the pod template lacks, in a Job that an operator creates.
fn unknown_container(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, rule: &KnownRule<'_>) {
    // The API server's own check is reported.
    if cx.workload.kind.is_built_in() || cx.partial {
        return;
    }
    let field = rule.part.get("onExitCodes").get("containerName");
    let Some(name) = field.text().set() else { return };
    let names = || pod.container_values().map(|(_, container)| container.get("name").and_then(Value::as_str));
    if names().any(|known| known.is_none_or(|known| known == name || is_placeholder(known))) {
        return;
    }
    let shown = cut(name, MAX_NAME_BYTES, "…").escape_debug().to_string();
    let message = format!(
        "`rules[{}]` (`{}`) names the container `{shown}`, which the pod template lacks: the API server refuses the Job",
        rule.nth,
        word(rule.action)
    );
    cx.report(&field.pointer, message).help("write the name of one of its containers").about(Incident::CreateRefused);
}
