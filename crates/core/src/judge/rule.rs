//! The parts of a rule.
//!
//! A built-in rule is a [`Rule`] in `rules/<id>.rs`; the doc comment of that file is its manual page. Others can be
//! made at run time. The check of either gets a [`Cx`] and reports findings. A policy owns the
//! [set](crate::judge::rules::RuleSet) of its rules.

mod questions;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use crate::controllers::incident::Incident;
use crate::judge::action::Action;
use crate::judge::checks;
use crate::judge::commands::PodCommands;
use crate::judge::cost::Cost;
use crate::judge::effective::Effective;
use crate::judge::facts::Facts;
use crate::judge::finding::{Finding, Level};
use crate::judge::fold::Folded;
use crate::judge::mounts::{PodMounts, Volumes};
pub use crate::judge::needs::Needs;
pub(crate) use crate::judge::needs::OF_CONTAINER;
pub use crate::judge::params::{Flag, Mapping, Number, Param, ParamDefault, Strings, Word};
use crate::judge::ranks::{Started, WorkloadReading};
use crate::judge::request::Request;
pub use crate::judge::rule_id::RuleId;
use crate::judge::simulation::ProgramDefaults;
use crate::kinds::{Count, Deadline, Kind, Part, Ranks, Restart, Times, Ttl, Workload};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;

/// One rule: its data, and its check.
#[derive(Clone)]
pub struct Rule {
    /// The file, the fixture folder and the page of a built-in rule are named after it.
    pub id: RuleId,
    /// The problem, in a few words: the title of an alert.
    pub problem: Cow<'static, str>,
    /// One line: what must hold.
    pub summary: Cow<'static, str>,
    /// The manual page.
    pub page: Page,
    /// The kinds that it checks.
    pub kinds: Kinds,
    /// The default action.
    pub default: Action,
    /// Its needs besides the object as all rules read it.
    pub needs: Needs,
    /// Whether `/mutate` denies its violations, too: the API server rejects such a Job or CronJob before
    /// `/validate` is called, so its author would see the other findings only at the next attempt.
    pub before_validate: bool,
    /// Where its fills may write.
    pub fills: Fills,
    /// Its parameters.
    pub params: &'static [Param],
    /// The parameter that defines accelerators, also for `match.accelerators`: resource, taint.
    pub accelerators: Option<Mapping>,
    /// The parameter that makes its notes warnings if it is above zero.
    pub warns_by: Option<Number>,
    /// Whether an API server can check it without Jobgate.
    pub export: Exportable,
    /// On UPDATE of a Job or PyTorchJob: returns operations that restore fills which an apply of the author's
    /// manifest removed, whatever the policy's action: fills under an earlier policy must not block an apply.
    pub restore: Option<fn(&Cx<'_>) -> Vec<Op>>,
    /// What makes a violation a new one on UPDATE, besides its place.
    pub ratchet: Ratchet,
    /// Returns what an object holds according to the rule's parameters, for the sums in reports.
    pub holding: Option<for<'a> fn(&Workload<'a>, &Effective) -> Option<Holding<'a>>>,
    /// What has to happen for its findings to matter, in the words of `jobgate simulate`; nothing if it depends.
    pub incident: Option<Incident>,
    /// Whether no fill changes what it finds: `/mutate` does without it.
    pub ignores_fills: bool,
    /// Whether its findings give way to those of other rules about the same field, which say more.
    pub gives_way: bool,
    /// The check.
    pub check: Arc<dyn RuleCheck>,
}

/// The manual page of a rule, in Markdown.
#[derive(Clone, Debug)]
pub enum Page {
    /// The doc comment of a Rust file with this text.
    OfFile(&'static str),
    /// A page as text.
    Text(String),
}

impl Page {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::OfFile(source) => {
                let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
                let page = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
                page.fold(String::new(), |page, line| page + line + "\n").into()
            }
            Self::Text(text) => text.into(),
        }
    }
}

/// The check of a rule: a function, or a value that was built from data.
pub trait RuleCheck: Send + Sync {
    /// Reports what is wrong.
    fn check(&self, cx: &mut Cx<'_>);
}

impl<F: Fn(&mut Cx<'_>) + Send + Sync> RuleCheck for F {
    fn check(&self, cx: &mut Cx<'_>) {
        self(cx);
    }
}

/// What an object holds, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Holding<'a> {
    /// What is held, and for how long.
    pub cost: Cost,
    /// The team that owns the object, if a label names one.
    pub team: Option<&'a str>,
}

/// What makes a violation new on UPDATE, besides its place. Only new ones are denied.
#[derive(Clone, Copy, Debug)]
pub struct Ratchet {
    /// Labels that the rule reads. If the spec is unchanged, only a change of one of these may be denied.
    pub(crate) labels: &'static [&'static str],
    /// The size of the violation, if it has one: a larger violation is new.
    pub(crate) measure: Option<Measure>,
}

/// The size of a violation, in code and in CEL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// The number.
    pub(crate) of: fn(&Workload<'_>) -> i64,
    /// The same number as an expression over `o`, for rules with CEL.
    pub(crate) cel: &'static str,
}

impl Ratchet {
    /// Only the place counts.
    pub(crate) const BY_PLACE: Self = Self { labels: &[], measure: None };
}

/// The kinds that a rule checks, by their features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// All kinds.
    All,
    /// Kinds with pods of their own, or of an object that they name.
    WithPods,
    /// Kinds with pods that should end by themselves.
    WithRestart,
    /// Kinds with runs of their own.
    WithRuns,
    /// Kinds with runs of their own, and kinds with Jobs that others run.
    WithLimits,
    /// Kinds with a TTL that deletes finished objects.
    WithTtl,
    /// Kinds whose runs are batch/v1 Job specs.
    JobSpecs,
    /// Kinds with batch/v1 Jobs, and those of kubeflow.org whose operator restarts or replaces a pod alone.
    Gangs,
    /// Kinds with a pod template for each role, whose operator runs pods that always restart.
    Roles,
    /// Kinds whose pods may keep running when the run has ended.
    WithRelease,
    /// Kinds with one deadline, which ends the run.
    WithDeadline,
    /// Kinds with pods of their own.
    OwnPods,
    /// Custom resources with pods of their own, or of an object that they name.
    CustomPods,
    /// Kinds with batch/v1 Jobs that set the number of their pods.
    Jobs,
    /// Kinds with a schedule.
    WithSchedule,
    /// Kinds whose operator restarts failed pods without a limit by default, or lets their nodes do so.
    WithRetries,
    /// Kinds whose handling of node loss is known.
    WithDisruption,
    /// Kinds with lifecycle policies.
    WithPolicies,
    /// Kinds whose manifests ask for retries in other ways than a Job.
    AsksForRetries,
    /// Kinds that Kueue queues.
    Queued,
    /// Those of Kubernetes itself: Jobs, alone or by a schedule.
    QueuedJobs,
    /// Kinds whose `managedBy` may name another controller.
    Managed,
}

impl Kinds {
    /// Tells whether a kind is among them.
    #[must_use]
    pub fn contains(self, kind: Kind) -> bool {
        match self {
            Self::All => true,
            Self::WithPods => !kind.pods.is_empty() || kind.runs_in.is_some(),
            Self::WithRestart => kind.pods.iter().any(|pods| !matches!(pods.restart, Restart::Free)),
            Self::WithRuns => !matches!(kind.deadline, Deadline::OfOthers { .. }),
            Self::WithLimits => !matches!(kind.deadline, Deadline::OfOthers { run_by: None }),
            Self::WithTtl => kind.ttl != Ttl::None,
            Self::JobSpecs => kind.has_jobs(),
            Self::Gangs => kind.has_jobs() || kind.retries.is_some() || matches!(kind.ranks, Ranks::Hosts(_)),
            Self::Roles => {
                kind.pods.iter().any(|pods| matches!(pods.restart, Restart::Beside { ignored: None, .. }))
            }
            Self::WithRelease => kind.release.is_some() || kind.leak.is_some(),
            Self::WithDeadline => matches!(kind.deadline, Deadline::Ends | Deadline::Marks),
            Self::OwnPods => !kind.pods.is_empty(),
            Self::CustomPods => (!kind.pods.is_empty() || kind.runs_in.is_some()) && !kind.is_built_in(),
            Self::Jobs => {
                kind.pods.iter().any(|pods| matches!(pods.count, Count::Jobs(Times::Once | Times::Replicas)))
            }
            Self::WithSchedule => kind.schedule.is_some(),
            Self::WithRetries => kind.retries.is_some() || kind.in_place.is_some(),
            Self::WithDisruption => kind.disruption.is_some(),
            Self::WithPolicies => kind.policies.is_some(),
            Self::AsksForRetries => {
                kind.retries.is_some() || kind.runs_counted.is_some() || kind.submitter.is_some()
            }
            Self::Queued => kind.queued_by_kueue,
            Self::QueuedJobs => kind.queued_by_kueue && kind.is_built_in(),
            Self::Managed => kind.manager.is_some() || kind.has_jobs(),
        }
    }

    /// Returns the kinds for which a `ValidatingAdmissionPolicy` is exported.
    pub(crate) fn exported(self) -> impl Iterator<Item = Kind> {
        self.iter().filter(|kind| !kind.untested)
    }

    /// Returns the kinds, in the order in which they are listed to people.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::all().filter(move |kind| self.contains(*kind))
    }
}

/// The fields that a rule may fill, by role: the path depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fills {
    /// Nowhere: the rule cannot fill.
    Nothing,
    /// The TTL of the limits; missing mappings are added with it.
    Ttl,
    /// The field of the limits that releases pods, likewise.
    Release,
    /// A field of the batch/v1 Job spec.
    JobSpec(&'static str),
    /// A list of the pod specs, and its items.
    Pods(&'static str),
}

impl Fills {
    /// Returns the places in all kinds: JSON Pointers with `*` for any one step.
    #[must_use]
    pub fn places(self) -> Vec<String> {
        let at = |path: &[&str]| path.iter().map(|key| format!("/{key}")).collect::<String>();
        let in_limits = |kind: Kind, field: &[&'static str]| {
            let field = [kind.limits, field].concat();
            (kind.body.len() + 1..=field.len()).map(|end| at(&field[..end])).collect()
        };
        let of_kind = |kind: Kind| match self {
            Self::Nothing => Vec::new(),
            Self::Ttl if matches!(kind.ttl, Ttl::Deletes { .. }) => in_limits(kind, kind.ttl_at),
            Self::Release => {
                kind.release.map(|release| in_limits(kind, &[release.field])).unwrap_or_default()
            }
            Self::Ttl => Vec::new(),
            Self::JobSpec(field) => kind
                .pods
                .iter()
                .filter(|pods| pods.is_job())
                .map(|pods| format!("{}/{field}", at(pods.at)))
                .collect(),
            Self::Pods(list) => kind
                .pods
                .iter()
                .flat_map(|pods| {
                    std::iter::once(pods.spec_path()).chain(pods.template.shared.map(<[_]>::to_vec))
                })
                .map(|spec| format!("{}/{list}", at(&spec)))
                .flat_map(|list| [list.clone(), format!("{list}/*")])
                .collect(),
        };
        Kind::all().flat_map(of_kind).collect()
    }
}

/// Whether an API server can check a rule without Jobgate.
#[derive(Clone, Copy, Debug)]
pub enum Exportable {
    /// Yes, with this expression.
    Cel(Cel),
    /// No; the reason, to follow "no;".
    No(&'static str),
}

/// A rule in the Common Expression Language, for a `ValidatingAdmissionPolicy`.
#[derive(Clone, Copy, Debug)]
pub struct Cel {
    /// The kinds that need it: for the others, the API server itself rejects what breaks the rule.
    pub kinds: Kinds,
    /// The parameters of the rule that `places` names, each as `$name`: booleans and whole numbers.
    pub params: &'static [&'static str],
    /// The paths that violate the rule, as a list of strings: an expression over `o`, a valid object of one
    /// of the kinds. `$deadline`, `$deadlinePlace`, `$labels`, `$roles` and `$rolesPlace` depend on the kind.
    pub(crate) places: &'static str,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.id).finish()
    }
}

impl Rule {
    /// Creates a rule that checks all kinds, warns, and has no other properties.
    #[must_use]
    pub fn new(id: impl Into<RuleId>, check: impl RuleCheck + 'static) -> Self {
        Self {
            id: id.into(),
            problem: Cow::Borrowed(""),
            summary: Cow::Borrowed(""),
            page: Page::Text(String::new()),
            kinds: Kinds::All,
            default: Action::Warn,
            needs: Needs::NONE,
            before_validate: false,
            fills: Fills::Nothing,
            params: &[],
            accelerators: None,
            warns_by: None,
            export: Exportable::No("it has no expression"),
            restore: None,
            ratchet: Ratchet::BY_PLACE,
            holding: None,
            incident: None,
            ignores_fills: false,
            gives_way: false,
            check: Arc::new(check),
        }
    }

    /// Tells whether the rule can fill values in.
    #[must_use]
    pub fn can_fill(&self) -> bool {
        self.fills != Fills::Nothing
    }

    /// Returns a parameter by name.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&'static Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// Returns the rule's file name without ending, which is also the name of its fixture folder.
    #[must_use]
    pub fn file(&self) -> String {
        self.id.replace('-', "_")
    }
}

/// The context of one rule that checks one object. It collects the findings.
#[allow(missing_debug_implementations, reason = "facts are a trait object")]
pub struct Cx<'a> {
    /// The rule that runs.
    pub(crate) rule: &'a Rule,
    /// The object, its old state and its origin.
    pub(crate) request: &'a Request<'a>,
    /// The object, seen as a workload.
    pub workload: &'a Workload<'a>,
    pub(crate) facts: &'a dyn Facts,
    pub(crate) settings: &'a Effective,
    /// The findings of this rule and those before it.
    pub(crate) findings: Folded<Finding>,
    /// Whether the object is partial, so that missing fields are not reported.
    pub(crate) partial: bool,
    pub(super) reading: &'a WorkloadReading<'a>,
    /// What is assumed of programs.
    pub(super) assumptions: &'a ProgramDefaults,
    /// Whether only what is denied or filled in counts.
    pub(super) is_binding: bool,
    /// Whether notes are part of the answer: a webhook says nothing of them, so what only a note needs is not asked.
    pub(super) says_notes: bool,
    /// The work that is left for questions of this rule about what would happen.
    pub(super) forecast_work: Cell<u64>,
}

impl<'a> Cx<'a> {
    /// Returns the facts about the world around the object.
    #[must_use]
    pub fn facts(&self) -> &'a dyn Facts {
        self.facts
    }

    /// Returns the commands of a pod template's containers, by the template's index.
    #[must_use]
    pub(crate) fn commands(&self, pod: usize) -> &'a PodCommands<'a> {
        self.reading.commands(pod)
    }

    /// Returns the volumes of a pod template, by its index.
    pub(super) fn volumes(&self, pod: usize) -> &'a Volumes<'a> {
        self.reading.volumes(pod)
    }

    /// Returns the mounts of a pod template's containers, by the template's index.
    pub(super) fn mounts(&self, pod: usize) -> &'a PodMounts<'a> {
        self.reading.mounts(pod)
    }

    /// Returns the launchers that the containers may start, each in its own pod.
    pub(super) fn launchers(&self) -> &'a [Started<'a>] {
        self.reading.launchers()
    }

    /// Returns the launchers that the containers certainly start, each in its own pod.
    pub(super) fn certain_launchers(&self) -> impl Iterator<Item = &'a Started<'a>> + use<'a> {
        self.launchers().iter().filter(|started| started.launch.is_certain())
    }

    /// Reports that something is wrong at an existing place. The level is the policy's for this rule.
    pub fn report(&mut self, at: &Pointer, message: impl Into<Cow<'static, str>>) -> &mut Finding {
        meter::spend(4);
        let (level, fills) = match self.settings.action {
            Action::Deny => (Level::Deny, false),
            Action::Warn => (Level::Warn, false),
            Action::Note | Action::Ignore => (Level::Note, false),
            Action::Fill => (Level::Note, true),
        };
        let finding = checks::finding(self.rule.id.clone(), level, at.clone(), message, "");
        let incident = self.rule.incident;
        self.findings.push(Finding { fills, incident, ..finding })
    }

    /// Reports that a field is missing, unless the object is partial.
    ///
    /// The finding points at the nearest existing mapping around the field.
    pub fn missing(
        &mut self,
        field: &Pointer,
        message: impl Into<Cow<'static, str>>,
    ) -> Option<&mut Finding> {
        if self.partial {
            return None;
        }
        let found = self.report(&field.nearest(self.request.object), message);
        Some(found.field(field.clone()).at_key())
    }

    /// Reports a field: what is wrong with its value, or that it is [missing](Self::missing).
    pub(crate) fn report_field(
        &mut self,
        field: &Part<'_>,
        message: impl Into<Cow<'static, str>>,
    ) -> Option<&mut Finding> {
        if field.is_set() {
            Some(self.report(&field.pointer, message))
        } else {
            self.missing(&field.pointer, message)
        }
    }

    /// Returns a boolean parameter.
    #[must_use]
    pub(crate) fn flag(&self, param: &Flag) -> bool {
        self.settings.flag(param)
    }

    /// Returns an integer parameter.
    #[must_use]
    pub(crate) fn number(&self, param: &Number) -> i64 {
        self.settings.number(param)
    }

    /// Returns a list parameter.
    pub(crate) fn strings(&self, param: &Strings) -> impl Iterator<Item = &'a str> + use<'a> {
        self.settings.strings(param)
    }

    /// Returns a parameter with a fixed set of values.
    #[must_use]
    pub(crate) fn word(&self, param: &Word) -> &'a str {
        self.settings.word(param)
    }

    /// Returns a mapping parameter, in key order.
    pub(crate) fn mapping(&self, param: &Mapping) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.settings.mapping(param)
    }
}
