//! A script that is played from the moment of a Job of a cluster on: its times count from then, and its plans are for the
//! pods that are made from then on. What of it cannot apply is an error.

use super::super::incident::Duration;
use super::super::indexes::Indexes;
use super::super::job::spec::{ContainerSort, JobSpec};
use super::super::pod::PodGroup;
use super::super::program::ProgramPlan;
use super::super::script::{ControllerName, Plan, PlanRule, Range, Script, ScriptEvent, Target};
use super::super::story::{Assumptions, Outcome};
use super::groups::ENDED;
use super::job::LiveJob;
use super::story::LiveScript;
use crate::text::patch::merge;
use crate::text::value::Value;

/// The fields of a Job's `spec` that may change while it runs (`pkg/apis/batch/validation`, `ValidateJobSpecUpdate`).
const CHANGEABLE: [&str; 9] = [
    "activeDeadlineSeconds",
    "backoffLimit",
    "completions",
    "manualSelector",
    "maxFailedIndexes",
    "parallelism",
    "podReplacementPolicy",
    "suspend",
    "ttlSecondsAfterFinished",
];

/// Returns a script as it is for a Job that runs. The pods that are there, and those that no plan names, run the work that is
/// assumed.
///
/// # Errors
///
/// What of it cannot apply to the Job, in words.
pub fn from_now(
    job: &LiveJob,
    script: &Script,
    assumptions: &Assumptions,
) -> Result<LiveScript, Vec<String>> {
    let assumptions = job.assumed(assumptions);
    let mut problems = Vec::new();
    let specs = patched(job, script, &mut problems);
    let most = specs.iter().filter_map(|spec| spec.completions).max();
    for rule in &script.plans {
        problems.extend(job.misfit(rule, most).map(|problem| format!("the plan {}: {problem}", named(rule))));
    }
    problems.dedup();
    if !problems.is_empty() {
        return Err(problems);
    }
    let first = job.first_new();
    let mut played = script.clone();
    for rule in &mut played.plans {
        let range = rule.attempt.unwrap_or(Range { first: 0, last: None });
        let later = |number: u32| number.saturating_add(first);
        // Pods without an index that have ended have numbers, too, from `ENDED` on.
        let last =
            if job.spec.indexed { range.last.map(later) } else { Some(range.last.map_or(ENDED, later)) };
        rule.attempt = Some(Range { first: later(range.first), last: last.map(|last| last.min(ENDED - 1)) });
    }
    let rest = Plan { term: assumptions.term, ..Plan::default() };
    played.plans.push(PlanRule { plan: rest, ..PlanRule::default() });
    played.program = Some(ProgramPlan {
        runtime: assumptions.runtime,
        startup: assumptions.startup,
        checkpoint: assumptions.checkpoint,
        peers: assumptions.peers,
    });
    Ok(LiveScript { script: played, is_of_new_pods: true })
}

/// Returns which pods a plan names: `of index 3, attempt 0`.
fn named(rule: &PlanRule) -> String {
    let range = |range: Range| match range.last {
        Some(last) if last == range.first => last.to_string(),
        Some(last) => format!("{}-{last}", range.first),
        None => format!("{} and later", range.first),
    };
    let parts = [("index", rule.index), ("attempt", rule.attempt), ("job", rule.job)];
    let parts = parts.into_iter().filter_map(|(name, of)| Some(format!("{name} {}", range(of?))));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "of all pods".to_owned() } else { format!("of {}", parts.join(", ")) }
}

/// Plays the patches of a script on the `spec`, and returns the `spec` and what it becomes.
fn patched(job: &LiveJob, script: &Script, problems: &mut Vec<String>) -> Vec<JobSpec> {
    let mut spec = job.object.get("spec").cloned().unwrap_or_default();
    let mut specs = vec![job.spec.clone()];
    let mut is_deleted = job.deletion.is_some();
    for (at, event) in &script.events {
        let problem = match event {
            ScriptEvent::Patch(Target::Main, patch) => {
                let unfit = unfit(&spec, patch);
                if unfit.is_none() {
                    merge(&mut spec, patch);
                    specs.push(JobSpec::from_spec(&spec));
                }
                unfit
            }
            ScriptEvent::Delete(Target::Run(number), _) if *number > 0 => {
                Some(format!("`job: {number}` is of a CronJob, and this is one Job"))
            }
            ScriptEvent::Delete(Target::Main | Target::Run(_), _) if is_deleted => {
                Some("the Job is in deletion by then".to_owned())
            }
            ScriptEvent::Delete(Target::Main | Target::Run(_), _) => {
                is_deleted = true;
                None
            }
            ScriptEvent::Stop(ControllerName::CronJob) | ScriptEvent::Start(ControllerName::CronJob) => {
                Some("`which: cron` is about the controller of CronJobs, and this is a Job".to_owned())
            }
            ScriptEvent::RefusePods(_)
            | ScriptEvent::Stop(ControllerName::Job)
            | ScriptEvent::Start(ControllerName::Job) => None,
            _ => Some("it is about another object or an operator, and this is a Job alone".to_owned()),
        };
        problems.extend(problem.map(|problem| format!("the event at {}: {problem}", Duration(*at))));
    }
    specs
}

/// Returns in words why the API server does not take a patch of a `spec`.
fn unfit(spec: &Value, patch: &Value) -> Option<String> {
    let Some(fields) = patch.as_object() else { return Some("`patch` is a mapping".to_owned()) };
    let mut after = spec.clone();
    merge(&mut after, patch);
    let fixed = fields.keys().find(|key| !CHANGEABLE.contains(key) && after.get(key) != spec.get(key));
    if let Some(field) = fixed {
        return Some(format!("`{field}` of a Job that runs cannot be changed"));
    }
    for (key, value) in fields.iter() {
        let is_right = match key {
            "suspend" => value.as_bool().is_some(),
            "podReplacementPolicy" => {
                value.as_str().is_some_and(|text| ["Failed", "TerminatingOrFailed"].contains(&text))
            }
            _ => value.as_i64().is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number)),
        };
        if CHANGEABLE.contains(&key) && !value.is_null() && !is_right {
            return Some(format!("`{key}` cannot be {value}"));
        }
    }
    let is_taken = JobSpec::from_spec(&after).may_replace(&JobSpec::from_spec(spec));
    let tandem = "`completions` changes only of an Indexed Job, and together with `parallelism`";
    (!is_taken).then(|| tandem.to_owned())
}

impl LiveJob {
    /// Returns the number of the first pod that is made from now on: of its index, or of all pods.
    fn first_new(&self) -> u32 {
        if self.spec.indexed {
            return 1;
        }
        let active = self.pods.iter().filter(|pod| pod.is_active()).count();
        u32::try_from(active).unwrap_or(u32::MAX)
    }

    /// Returns in words why a plan is for no pod of it; nothing where it may be. The Job has so many indexes at most.
    fn misfit(&self, rule: &PlanRule, most: Option<u32>) -> Option<String> {
        let spec = &self.spec;
        if let Some(job) = rule.job.filter(|job| !job.contains(0)) {
            return Some(format!("`job: {}` is of a CronJob, and this is one Job", job.first));
        }
        if let Some(range) = rule.index {
            if !spec.indexed {
                return Some("the Job has no completion indexes".to_owned());
            }
            let named = range.indexes();
            let is_added = named.last() >= self.spec.completions && range.first < most.unwrap_or_default();
            if let Some(problem) = self.is_settled(&named).filter(|_| !is_added) {
                return Some(problem);
            }
        }
        let has = |name: &str, is_init: bool| {
            let is_one = |sort: ContainerSort| {
                if is_init { sort == ContainerSort::Init } else { sort == ContainerSort::Main }
            };
            name.is_empty() || spec.containers.iter().any(|one| one.name == name && is_one(one.sort))
        };
        let unknown = |list: &[(String, i64)], is_init: bool| {
            list.iter().map(|(name, _)| name.clone()).find(|name| !has(name, is_init))
        };
        if let Some(name) = unknown(&rule.plan.exit, false) {
            return Some(format!("`exit`: the pod template has no container `{name}`"));
        }
        if let Some(name) = unknown(&rule.plan.init, true) {
            return Some(format!("`init`: the pod template has no init container `{name}`"));
        }
        if rule.plan.restarts.is_some() && !spec.restarts_in_place {
            return Some(
                "`restarts`: containers restart in place only with `restartPolicy: OnFailure`".to_owned(),
            );
        }
        None
    }
}

impl LiveScript {
    /// Returns which plans no pod had, and how many events came after the end, in words.
    pub(super) fn unused(&self, job: &LiveJob, outcome: &Outcome, events_left: usize) -> Vec<String> {
        let mut unused: Vec<String> = Vec::new();
        let first = job.first_new();
        let is_new = |pods: &&PodGroup| {
            if job.spec.indexed {
                pods.attempt >= first
            } else {
                pods.members.first().is_some_and(|one| (first..ENDED).contains(&one))
            }
        };
        let made = outcome.pods.iter().filter(is_new).map(|pods| (pods.members.clone(), pods.attempt));
        let mut left: Vec<(Indexes, u32)> = made.collect();
        let Some((_, plans)) = self.script.plans.split_last() else { return unused };
        for rule in plans {
            let mut is_used = false;
            for (members, attempt) in &mut left {
                let range = if job.spec.indexed {
                    let is_one = rule.attempt.is_none_or(|range| range.contains(*attempt));
                    rule.index.map(Range::indexes).or_else(|| Some(members.clone())).filter(|_| is_one)
                } else {
                    rule.attempt.map(Range::indexes)
                };
                let here = members.intersection(&range.unwrap_or_default());
                is_used |= !here.is_empty();
                *members = members.without(&here);
            }
            if !is_used {
                let back = |number: u32| number.saturating_sub(first);
                let attempt = rule.attempt.map(|range| Range {
                    first: back(range.first),
                    last: range.last.filter(|last| *last < ENDED - 1).map(back),
                });
                let attempt = attempt.filter(|range| (range.first, range.last) != (0, None));
                let rule = PlanRule { attempt, ..rule.clone() };
                unused.push(format!("the plan {}: no such pod is made", named(&rule)));
            }
        }
        let events = &self.script.events;
        let late = events.iter().skip(events.len().saturating_sub(events_left));
        unused.extend(
            late.map(|(at, _)| format!("the event at {}: nothing is left of the Job by then", Duration(*at))),
        );
        unused
    }
}
