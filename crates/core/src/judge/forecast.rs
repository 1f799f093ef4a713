//! What would happen to a Job or an object of an operator, for rules that ask: the model answers that `jobgate simulate` shows,
//! within bounds that hold for whatever the object says.

pub(super) mod eviction;
pub(super) mod objects;

use std::cell::Cell;

use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::job::spec::JobSpec;
use crate::controllers::program::times;
use crate::controllers::story::{Assumptions, Ending, Outcome, lower, tell_within};
use crate::controllers::time::Time;
use crate::judge::commands::CommandLine;
use crate::judge::loss::Loss;
use crate::judge::simulation::{ProgramDefaults, SimulatedJob};
use crate::kinds::PodTemplate;
use crate::text::meter;
use crate::text::value::Value;

/// Maximum work of a question, see [`tell_within`]: some 0.2 ms.
const MOST_WORK: u64 = 4_000;
/// Maximum work of all questions of a rule about an object, which may have hundreds of templates. It is of each rule alone:
/// what a rule finds does not depend on others.
pub(super) const MOST_WORK_OF_RULE: u64 = 4 * MOST_WORK;
/// Maximum items of lists, and maximum rules of a policy, that a question reads: the API server takes no more of either,
/// except containers.
const MOST_ITEMS: usize = 255;
const MOST_RULES: usize = 20;
/// Maximum bytes of a text that a question reads.
const MOST_BYTES: usize = 4_096;

/// What would happen to the Job around a pod template.
#[derive(Debug)]
pub(super) struct Forecast {
    /// What becomes of it.
    pub(super) outcome: Outcome,
    /// How many pods there are at once.
    pub(super) at_once: u32,
    /// Time of pods, or of their accelerators if they have any, in which they do nothing that counts, beside their first start.
    wasted: Time,
    /// How often work is saved; nothing if never.
    checkpoint: Option<Time>,
    /// Whether the pods have accelerators.
    has_accelerators: bool,
    /// Why it fails, where its operator says that.
    pub(super) why: Option<&'static str>,
}

impl Forecast {
    /// Tells whether its failures are more than its `backoffLimit`.
    pub(super) fn exceeds_limit(&self) -> bool {
        self.outcome.ending == Ending::Fails && self.outcome.reason.as_deref() == Some("BackoffLimitExceeded")
    }

    /// Returns what it costs, and what of the program that rests on.
    pub(super) fn loss(&self) -> Loss {
        Loss { time: Some(self.wasted), has_accelerators: self.has_accelerators, checkpoint: self.checkpoint }
    }
}

/// Returns what would happen to the Job around a pod template whose containers have these command lines; nothing if it has no
/// Job, depends on what is not known, such as the part of the second in which it is created, or would take too long.
pub(super) fn forecast(
    pod: &PodTemplate<'_>,
    lines: &[CommandLine<'_>],
    defaults: &ProgramDefaults,
    incident: Incident,
    left_of_rule: &Cell<u64>,
) -> Option<Forecast> {
    let most = MOST_WORK.min(left_of_rule.get());
    if most == 0 {
        return None;
    }
    let spec = pod.around.value.filter(|_| pod.form.is_job())?;
    if JobSpec::placeholder(spec).is_some() || !is_short(spec) {
        return None;
    }
    let job = SimulatedJob::from_pod(pod, lines, defaults)?;
    // Somebody resumes it; what comes then is the question.
    let spec = JobSpec { suspend: false, ..job.job_spec };
    let story = [Occurrence::from(incident)];
    let mut left = most;
    let mut end = |peers| {
        let assumptions = Assumptions { peers, ..job.assumptions };
        tell_within(&spec, &lower(&spec, &story, &assumptions), &mut left).ok().flatten()
    };
    let outcome = end(job.assumptions.peers);
    let other = outcome.as_ref().zip(job.or_peers).map(|(_, peers)| end(peers));
    let work = most - left;
    meter::spend(work);
    left_of_rule.set(left_of_rule.get() - work);
    let outcome = outcome?;
    // What depends on more than is known has no answer.
    let is_known = other.is_none_or(|other| other.is_some_and(|other| other.ending == outcome.ending));
    let at_once = spec.at_once();
    let wasted = outcome.idle() + outcome.lost - times(job.assumptions.startup, at_once);
    is_known.then_some(Forecast {
        at_once,
        wasted: Time::from_millis(wasted.max(Time::START).millis().saturating_mul(job.accelerators.max(1))),
        checkpoint: job.assumptions.checkpoint,
        outcome,
        has_accelerators: job.accelerators > 0,
        why: None,
    })
}

/// Tells whether the lists and texts that a question reads are short.
fn is_short(spec: &Value) -> bool {
    let list = |pointer: &str| spec.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let containers = ["/template/spec/containers", "/template/spec/initContainers"].map(|at| list(at).len());
    let [failures, successes] = ["/podFailurePolicy/rules", "/successPolicy/rules"].map(list);
    let parts = failures.iter().flat_map(|rule| {
        [rule.pointer("/onExitCodes/values"), rule.get("onPodConditions")].into_iter().flatten()
    });
    let mut indexes = successes.iter().filter_map(|rule| rule.get("succeededIndexes")?.as_str());
    containers.iter().sum::<usize>() <= MOST_ITEMS
        && failures.len().max(successes.len()) <= MOST_RULES
        && parts.filter_map(Value::as_array).all(|list| list.len() <= MOST_ITEMS)
        && indexes.all(|text| text.len() <= MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::story::tell;
    use crate::judge::cost::Cost;
    use crate::judge::engine::{self, Request};
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;
    use crate::kinds::Workload;
    use crate::text::patch;
    use crate::text::value::json;

    const HOUR: i64 = 3_600;
    /// The accelerators of each pod.
    const GPUS: i64 = 8;

    fn job(spec: &Value) -> Value {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": GPUS}}});
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
        for (key, value) in spec.as_object().expect("a spec") {
            job["spec"][key] = value.clone();
        }
        job
    }

    fn ask(job: &Value, incident: Incident) -> (Option<Forecast>, u64) {
        let workload = Workload::from_object(job).expect("a Job");
        let left = Cell::new(MOST_WORK_OF_RULE);
        let asked = || forecast(&workload.pods[0], &[], &ProgramDefaults::default(), incident, &left);
        meter::run(meter::Bounds::default(), asked).expect("no bounds")
    }

    fn gang(ranks: i64) -> Value {
        json!({"completionMode": "Indexed", "parallelism": ranks, "completions": ranks, "backoffLimit": 2_000_000_000})
    }

    #[test]
    fn a_question_takes_no_longer_for_more_pods() {
        for incident in Incident::USUAL {
            let (few, steps) = ask(&job(&gang(16)), incident);
            let (many, more) = ask(&job(&gang(500)), incident);
            assert!(more <= steps + steps / 4, "{incident}: {steps} {more}");
            assert_eq!(few.map(|few| few.outcome.ending), many.map(|many| many.outcome.ending), "{incident}");
            // The controller makes 500 at a time.
            let (_, most) = ask(&job(&gang(i64::from(i32::MAX))), incident);
            assert!(most <= MOST_WORK + MOST_WORK / 10, "{incident}: {most}");
        }
    }

    #[test]
    fn the_questions_about_many_templates_have_a_bound_together() {
        let spec = &job(&gang(16))["spec"];
        let jobs: Vec<Value> = (0..2_000)
            .map(|nth| json!({"name": nth.to_string(), "template": {"spec": spec.clone()}}))
            .collect();
        let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": jobs}});
        let workload = Workload::from_object(&set).expect("a JobSet");
        let left = Cell::new(MOST_WORK_OF_RULE);
        let asked = |pod| forecast(pod, &[], &ProgramDefaults::default(), Incident::Drain, &left).is_some();
        let count = || workload.pods.iter().filter(|pod| asked(pod)).count();
        let (answers, steps) = meter::run(meter::Bounds::default(), count).expect("no bounds");
        assert!((10..1_000).contains(&answers), "{answers}");
        // With what it takes to read the templates.
        assert!(steps <= 2 * MOST_WORK_OF_RULE, "{steps}");
        assert_eq!(left.get(), 0);
    }

    #[test]
    fn a_question_that_takes_too_long_has_no_answer() {
        let waves = json!({"parallelism": 1, "completions": 2_000_000_000, "backoffLimit": 2_000_000_000});
        let (told, steps) = ask(&job(&waves), Incident::Drain);
        assert!(told.is_none() && steps <= 2 * MOST_WORK, "{steps}");
        let (told, steps) = ask(&job(&json!({"backoffLimit": 1_000_000_000})), Incident::CrashLoop);
        assert!(told.is_none() && steps <= 2 * MOST_WORK, "{steps}");
        let mut crowded = job(&gang(16));
        crowded["spec"]["template"]["spec"]["containers"] = vec![json!({"name": "c"}); 10_000].into();
        assert!(ask(&crowded, Incident::Drain).0.is_none());
        let mut placeholder = job(&gang(16));
        placeholder["spec"]["parallelism"] = "${RANKS}".into();
        assert!(ask(&placeholder, Incident::Drain).0.is_none());
    }

    #[test]
    fn what_falls_on_one_moment_has_no_answer() {
        // Half of the deadline is the work. A pod that fails in the middle of it, and one that does it again after 10 s, with
        // 2 m to start each: 250 s and three quarters of the deadline.
        let told =
            |deadline: i64| ask(&job(&json!({"activeDeadlineSeconds": deadline})), Incident::Exit(1)).0;
        let ending = |deadline: i64| told(deadline).map(|told| told.outcome.ending);
        assert_eq!(ending(980), Some(Ending::Fails));
        assert_eq!(ending(1_030), Some(Ending::Completes));
        let unknown: Vec<i64> = (980..1_030).filter(|deadline| told(*deadline).is_none()).collect();
        assert!((1..=8).contains(&unknown.len()), "{unknown:?}");
        assert!(unknown.windows(2).all(|pair| pair[1] == pair[0] + 1), "{unknown:?}");
        let is_before = |deadline: &i64| *deadline < unknown[0];
        for deadline in 980..1_030 {
            let expected = if is_before(&deadline) { Ending::Fails } else { Ending::Completes };
            assert!(unknown.contains(&deadline) || ending(deadline) == Some(expected), "{deadline}");
        }
    }

    #[test]
    fn a_limit_of_zero_replaces_no_pod() {
        for (limit, of_index) in
            [(0, None), (0, Some(0)), (0, Some(1)), (6, Some(0)), (6, Some(1)), (6, None)]
        {
            let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimit": limit});
            if let Some(of_index) = of_index {
                spec["backoffLimitPerIndex"] = of_index.into();
            }
            spec["podReplacementPolicy"] = "TerminatingOrFailed".into();
            let job = job(&spec);
            let told = ask(&job, Incident::DeletePod).0;
            let is_replaced = told.map(|told| told.outcome.made > 4);
            assert_eq!(
                is_replaced.unwrap_or_default(),
                limit > 0 && of_index != Some(0),
                "{limit} {of_index:?}"
            );
        }
    }

    /// What the rules about time and hours say without asking is what the model says.
    #[test]
    fn a_deadline_bounds_the_hours() {
        let hang = |spec: &Value| ask(&job(spec), Incident::Hang).0.expect("an answer");
        for pods in [1, 4, 64] {
            let mut spec = gang(pods);
            assert_eq!(hang(&spec).outcome.ending, Ending::RunsOn, "no deadline");
            for hours in [1, 24, 700] {
                spec["activeDeadlineSeconds"] = (hours * HOUR).into();
                let told = hang(&spec);
                assert_eq!(told.outcome.reason.as_deref(), Some("DeadlineExceeded"));
                let object = job(&spec);
                let workload = Workload::from_object(&object).expect("a Job");
                let most =
                    Cost::from_workload(&workload, false).and_then(|cost| cost.hours()).expect("hours");
                let used = told.outcome.used.millis() * GPUS / 3_600_000;
                let used = u64::try_from(used).expect("a time");
                // Pods get their grace period after the deadline.
                assert!(used <= most + most / 100 && used + used / 100 + 1 >= most, "{used} {most}");
            }
        }
    }

    /// How bad an end is: how it ends, what is not done, and what failed.
    fn badness(outcome: &Outcome) -> (u8, u32, u32) {
        let ending = match outcome.ending {
            Ending::Completes => 0,
            Ending::Fails => 1,
            Ending::CompletesHalfDone => 2,
            Ending::RunsOn | Ending::Waits | Ending::Wedged => 3,
        };
        (ending, u32::MAX - outcome.status.succeeded, outcome.status.failed)
    }

    #[test]
    fn a_fix_helps_in_the_incident_that_its_message_names() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rules");
        let policy = Policy::default();
        for (rule, named, incident) in [
            ("deadline", "hang", Incident::Hang),
            ("spot-disruption-not-counted", "loss of a spot node", Incident::Spot),
            ("sweep-retries-per-index", "bad index", Incident::CrashLoop),
        ] {
            let (mut better, mut same) = (0, 0);
            let files = std::fs::read_dir(root.join(rule.replace('-', "_"))).expect("the fixtures");
            for file in files.map(|entry| entry.expect("a file").path()) {
                if !file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bad-")) {
                    continue;
                }
                let text = std::fs::read(&file).expect("a file");
                let limits = crate::text::yaml::Limits::default();
                let chunk =
                    crate::text::yaml::split(&text, &limits).next().expect("a document").expect("a document");
                let Ok(document) = crate::text::yaml::parse(&text, &chunk, &limits) else { continue };
                // In a template that others run, a deadline is what the fix takes away.
                if !["Job", "CronJob", "JobSet"].iter().any(|kind| document.value["kind"] == **kind) {
                    continue;
                }
                let verdict = engine::evaluate(&policy, &NoFacts, &Request::from_file(&document.value, None));
                let fixes = verdict
                    .findings
                    .iter()
                    .filter(|finding| &*finding.rule == rule && finding.message.contains(named));
                for fix in fixes.filter_map(|finding| finding.fix.as_ref()) {
                    let fixed = patch::apply(&document.value, &fix.ops).expect("a fix that applies");
                    let ends = |object: &Value| -> Vec<(u8, u32, u32)> {
                        let Some(workload) = Workload::from_object(object) else { return Vec::new() };
                        let jobs = crate::judge::simulation::jobs(&workload, &policy.assumptions);
                        let told = jobs.iter().map(|job| {
                            let story = [Occurrence::from(incident)];
                            tell(job.spec, lower(&job.job_spec, &story, &job.assumptions)).expect("an end")
                        });
                        told.map(|outcome| badness(&outcome)).collect()
                    };
                    for (before, after) in ends(&document.value).into_iter().zip(ends(&fixed)) {
                        assert!(after <= before, "{rule} {}: {before:?} {after:?}", file.display());
                        better += usize::from(after < before);
                        same += usize::from(after == before);
                    }
                }
            }
            assert!(better >= 3 && better > same, "{rule}: {better} better, {same} the same");
        }
    }

    #[test]
    fn hours_are_written_with_their_unit() {
        let limited = json!({"parallelism": 16, "completions": 16, "backoffLimit": 6});
        let told = ask(&job(&limited), Incident::Drain).0;
        assert!(told.is_none(), "the commands do not show whether the pods need one another");
        let told = ask(&job(&json!({})), Incident::Drain).0.expect("an answer");
        assert_eq!(told.loss().to_string(), "2.2 accelerator hours with a checkpoint every 30m");
    }
}
