//! What a job may cost: how many accelerators its pods hold, and for how long at most.

use std::fmt;

use crate::controllers::time::Time as ModelTime;
use crate::judge::kueue::Kueue;
use crate::judge::loss::Loss;
use crate::kinds::{AcceleratorCount, Attempts, Deadline, Field, PodTemplate, Release, Run, Ttl, Workload};
use crate::text::number::thousands;

/// The deadline of a batch/v1 Job, and that of a pod.
pub(super) const FIELD: &str = "activeDeadlineSeconds";
/// Above this many seconds the Job controller's product with nanoseconds overflows
/// (docs/internals/kubernetes.md#deadlines-and-ttl).
pub(super) const MAX_SECONDS: i64 = 9_223_372_036;

/// The accelerators that pods hold at once, and for how long at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// What is held at once.
    pub held: AcceleratorCount,
    time: PodTime,
    attempts: Attempts,
}

/// For how long pods run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodTime {
    /// The longest in seconds, and the sum of all accelerators' seconds.
    AtMost(i64, i128),
    NoLimit,
}

/// How long a run holds its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Seconds(i64),
    None,
    Unknown,
}

impl Cost {
    /// Returns the cost of accelerators that are held for a number of seconds, or without a limit; nothing if
    /// there are none.
    pub(super) fn new(held: AcceleratorCount, seconds: Option<i64>) -> Option<Self> {
        let time = seconds.map_or(PodTime::NoLimit, |seconds| {
            PodTime::AtMost(seconds, i128::from(held.total()) * i128::from(seconds))
        });
        (!held.is_none()).then_some(Self { held, time, attempts: Attempts::Times(1) })
    }

    /// Returns the cost of one run of a workload, which may start `attempts` times.
    pub(super) fn from_run(
        workload: &Workload<'_>,
        run: usize,
        (seconds, attempts): (Option<i64>, Attempts),
    ) -> Option<Self> {
        let cost = Self::new(AcceleratorCount::from_run(workload, run)?, seconds)?;
        Some(Self { attempts, ..cost })
    }

    /// Returns the maximum cost of a workload; nothing if it holds no accelerators, or if their number or time
    /// is hidden. `kueue` is whether Kueue's label for the longest run counts.
    #[must_use]
    pub(crate) fn from_workload(workload: &Workload<'_>, kueue: bool) -> Option<Self> {
        if matches!(workload.kind.deadline, Deadline::OfOthers { .. }) {
            return None;
        }
        let mut all = AcceleratorCount::default();
        let mut sum = Some((0_i64, 0_i128));
        for (index, run) in workload.runs.iter().enumerate() {
            let held = AcceleratorCount::from_run(workload, index)?;
            if held.is_none() {
                continue;
            }
            all += held;
            sum = match limit(workload, (index, run), kueue) {
                Limit::Seconds(seconds) => sum.map(|(longest, sum)| {
                    let own = i128::from(held.total()) * i128::from(seconds);
                    (longest.max(seconds), sum.saturating_add(own))
                }),
                Limit::None => None,
                Limit::Unknown => return None,
            };
        }
        let time = sum.map_or(PodTime::NoLimit, |(longest, sum)| PodTime::AtMost(longest, sum));
        (!all.is_none()).then(|| Self { held: all, time, attempts: attempts(workload) })
    }

    /// Returns the hours of all accelerators, rounded up; nothing without a limit. Runs that a schedule or a
    /// queue starts count once.
    #[must_use]
    pub fn hours(&self) -> Option<u64> {
        let PodTime::AtMost(_, sum) = self.time else { return None };
        let times = match self.attempts {
            Attempts::Times(times) => times,
            Attempts::Runs => 1,
            Attempts::NoLimit | Attempts::Unknown => return None,
        };
        let hours = sum.saturating_mul(times.into()).saturating_add(3599) / 3600;
        Some(u64::try_from(hours).unwrap_or(u64::MAX))
    }

    /// Returns the same as a loss: for a run that does nothing that counts.
    pub(super) fn loss(&self) -> Loss {
        // As many hours as a time in milliseconds can hold.
        const MOST_HOURS: i64 = i64::MAX / 3_600_000;
        let hours =
            self.hours().map(|hours| i64::try_from(hours).map_or(MOST_HOURS, |hours| hours.min(MOST_HOURS)));
        let time = hours.map(|hours| ModelTime::from_seconds(hours * 3_600));
        Loss { time, has_accelerators: true, checkpoint: None }
    }

    /// Tells whether a placeholder hides how often it may start.
    pub(super) fn is_open(&self) -> bool {
        self.attempts == Attempts::Unknown
    }

    /// Tells whether one attempt has a limit.
    pub(super) fn ends(&self) -> bool {
        self.time != PodTime::NoLimit
    }
}

impl fmt::Display for Cost {
    /// Writes `64 GPUs, up to 24 h: 1,536 GPU hours`, or `64 GPUs without a time limit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held;
        let PodTime::AtMost(longest, sum) = self.time else {
            return write!(f, "{held} without a time limit");
        };
        let each = match self.attempts {
            Attempts::Times(times) if times > 1 => {
                format!(" each of {} attempts", thousands(usize::try_from(times).unwrap_or(usize::MAX)))
            }
            Attempts::Times(_) => String::new(),
            Attempts::NoLimit | Attempts::Unknown => " each attempt".to_owned(),
            Attempts::Runs => " each run".to_owned(),
        };
        let once = Self { time: PodTime::AtMost(longest, sum), attempts: Attempts::Runs, ..*self };
        let hours = self.hours().or(once.hours()).unwrap_or_default();
        let hours = usize::try_from(hours).unwrap_or(usize::MAX);
        let plural = if hours == 1 { "" } else { "s" };
        write!(f, "{held}, up to {}{each}: {} {} hour{plural}", time(longest), thousands(hours), held.noun())
    }
}

/// Returns a time in a short unit, rounded up.
fn time(seconds: i64) -> String {
    let tenths = (i128::from(seconds) + 359) / 360;
    let whole = usize::try_from(tenths / 10).unwrap_or(usize::MAX);
    match seconds {
        ..=60 => format!("{seconds} s"),
        61..3600 => format!("{} min", (seconds + 59) / 60),
        _ if tenths % 10 == 0 => format!("{} h", thousands(whole)),
        _ => format!("{}.{} h", thousands(whole), tenths % 10),
    }
}

/// Returns how often a workload may start, including the starts of an object around it.
pub(super) fn attempts(workload: &Workload<'_>) -> Attempts {
    let around = workload.inside.as_ref().and_then(|around| Workload::from_part(around.clone()));
    let outer = around.map_or(Attempts::Times(1), |around| (around.kind.attempts)(&around.object));
    (workload.kind.attempts)(&workload.object).each(outer)
}

/// Returns how long a run holds its pods.
fn limit(workload: &Workload<'_>, (index, run): (usize, &Run<'_>), kueue: bool) -> Limit {
    let by_kueue = Kueue::new(workload, run, kueue).filter(|kueue| kueue.seconds.is_ok());
    if by_kueue.as_ref().is_some_and(|kueue| kueue.hidden) {
        return Limit::Unknown;
    }
    let by_kueue = by_kueue.and_then(|kueue| kueue.seconds.ok());
    let own = match workload.kind.deadline {
        Deadline::Ends | Deadline::EndsEachJob { .. } => of_field(run.deadline().int()),
        Deadline::Marks => match of_field(run.deadline().int()) {
            Limit::Seconds(seconds) => held_behind(workload, seconds),
            other => other,
        },
        Deadline::Missing => of_pods(workload.pods_of(index)),
        Deadline::OfOthers { .. } => Limit::Unknown,
    };
    match (own, by_kueue) {
        (Limit::Seconds(own), Some(kueue)) => Limit::Seconds(own.min(kueue)),
        (Limit::None, Some(kueue)) => Limit::Seconds(kueue),
        (own, _) => own,
    }
}

fn of_field(field: Field<'_, i64>) -> Limit {
    match field {
        Field::Set(seconds) if seconds <= 0 || seconds > MAX_SECONDS => Limit::Seconds(0),
        Field::Set(seconds) => Limit::Seconds(seconds),
        Field::Unset => Limit::None,
        Field::Placeholder(_) | Field::Wrong => Limit::Unknown,
    }
}

/// Returns how long pods hold accelerators if they outlive the deadline of their run
/// (docs/internals/batch-kinds.md#pods-that-outlive-a-job).
fn held_behind(workload: &Workload<'_>, seconds: i64) -> Limit {
    let ttl = workload.ttl().int();
    let longer = |unset: Limit| match ttl {
        Field::Set(ttl) => Limit::Seconds(seconds.saturating_add(ttl.max(0))),
        Field::Unset => unset,
        Field::Placeholder(_) | Field::Wrong => Limit::Unknown,
    };
    let is_field = |release: Release| !release.unless.iter().any(|field| workload.limits.get(field).is_set());
    let Some(release) = workload.kind.release else { return Limit::Seconds(seconds) };
    match (release.releases(&workload.object, &workload.limits), workload.kind.ttl) {
        (None, _) => Limit::Unknown,
        // The kind has no TTL of its own, so the field is that of a cluster that keeps running.
        (Some(true), Ttl::None) if is_field(release) => longer(Limit::Seconds(seconds)),
        (Some(true), _) => Limit::Seconds(seconds),
        (Some(false), Ttl::Deletes { deletes_pods: true, .. }) if workload.fails_without_end().is_none() => {
            longer(Limit::None)
        }
        (Some(false), _) => Limit::None,
    }
}

/// Returns the longest deadline of pods that hold accelerators, if all of them have one.
fn of_pods(pods: &[PodTemplate<'_>]) -> Limit {
    let mut longest = 0;
    for pod in pods.iter().filter(|pod| pod.holds_accelerators()) {
        match of_field(pod.spec.get(FIELD).int()) {
            Limit::Seconds(seconds) => longest = seconds.max(longest),
            other => return other,
        }
    }
    Limit::Seconds(longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::{Value, json};

    fn said(object: &Value) -> Option<String> {
        Cost::from_workload(&Workload::from_object(object).expect("a workload"), false)
            .map(|cost| cost.to_string())
    }

    fn template(gpus: i64) -> Value {
        json!({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}})
    }

    fn job(deadline: Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {
            "parallelism": 8, "activeDeadlineSeconds": deadline, "template": template(8)}})
    }

    #[test]
    fn a_job_costs_its_pods_for_its_deadline() {
        for (deadline, words) in [
            (json!(86_400), "64 GPUs, up to 24 h: 1,536 GPU hours"),
            (json!(5400), "64 GPUs, up to 1.5 h: 96 GPU hours"),
            (json!(90), "64 GPUs, up to 2 min: 2 GPU hours"),
            (json!(30), "64 GPUs, up to 30 s: 1 GPU hour"),
            (json!(9_223_372_036_i64), "64 GPUs, up to 2,562,047.8 h: 163,971,059 GPU hours"),
            (Value::Null, "64 GPUs without a time limit"),
        ] {
            assert_eq!(said(&job(deadline.clone())).as_deref(), Some(words), "{deadline}");
        }
        assert_eq!(said(&job("$DEADLINE".into())), None, "a placeholder hides it");
        assert_eq!(
            said(&json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template(0)}})),
            None
        );
    }

    #[test]
    fn attempts_multiply_it() {
        let set = |policy: Value| {
            let job = |replicas: i64, deadline: Value| json!({"replicas": replicas, "template": {"spec": {"activeDeadlineSeconds": deadline, "template": template(8)}}});
            json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {
                "failurePolicy": policy, "replicatedJobs": [job(1, 3600.into()), job(3, 7200.into())]}})
        };
        for (policy, words) in [
            (Value::Null, "32 GPUs, up to 2 h: 56 GPU hours"),
            (json!({"maxRestarts": 3}), "32 GPUs, up to 2 h each of 4 attempts: 224 GPU hours"),
            (json!({"maxRestarts": "$N"}), "32 GPUs, up to 2 h each attempt: 56 GPU hours"),
            (
                json!({"maxRestarts": 3, "rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts"}]}),
                "32 GPUs, up to 2 h each attempt: 56 GPU hours",
            ),
            // No Job has a policy for its pods.
            (
                json!({"maxRestarts": 3, "rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}]}),
                "32 GPUs, up to 2 h each of 4 attempts: 224 GPU hours",
            ),
            (
                json!({"maxRestarts": 3, "rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["DeadlineExceeded"]}]}),
                "32 GPUs, up to 2 h each attempt: 56 GPU hours",
            ),
            // The first rule that matches decides.
            (
                json!({"maxRestarts": 3, "rules": [{"action": "FailJobSet"}, {"action": "RestartJobSetAndIgnoreMaxRestarts"}]}),
                "32 GPUs, up to 2 h: 56 GPU hours",
            ),
            (
                json!({"maxRestarts": 3, "rules": [{"action": "RestartJobSet"}, {"action": "RestartJobSetAndIgnoreMaxRestarts"}]}),
                "32 GPUs, up to 2 h each of 4 attempts: 224 GPU hours",
            ),
            (
                json!({"maxRestarts": 3, "rules": [{"action": "$ACTION"}]}),
                "32 GPUs, up to 2 h each attempt: 56 GPU hours",
            ),
        ] {
            assert_eq!(said(&set(policy.clone())).as_deref(), Some(words), "{policy}");
        }
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {
            "activeDeadlineSeconds": 3600, "template": template(8)}}}});
        assert_eq!(said(&cron).as_deref(), Some("8 GPUs, up to 1 h each run: 8 GPU hours"));
        let wrapper = json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "spec": {"components": [{"template": job(3600.into())}]}});
        let all = Workload::all_in(&wrapper);
        let inner = Workload { inside: Some(all[1].object.clone()), ..all[0].clone() };
        let words = Cost::from_workload(&inner, false).map(|cost| cost.to_string());
        assert_eq!(words.as_deref(), Some("64 GPUs, up to 1 h each of 4 attempts: 256 GPU hours"));
    }

    #[test]
    fn a_deadline_that_frees_nothing_is_no_limit() {
        let torch = |policy: Value| {
            let worker = json!({"replicas": 2, "template": template(8)});
            json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}}})
        };
        for (policy, words) in [
            (json!({}), Some("16 GPUs without a time limit")),
            (json!({"activeDeadlineSeconds": 3600}), Some("16 GPUs without a time limit")),
            (
                json!({"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 1800}),
                Some("16 GPUs, up to 1.5 h: 24 GPU hours"),
            ),
            (
                json!({"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 1800, "cleanPodPolicy": "Running"}),
                Some("16 GPUs, up to 1 h: 16 GPU hours"),
            ),
            (json!({"activeDeadlineSeconds": 3600, "cleanPodPolicy": "$POLICY"}), None),
        ] {
            assert_eq!(said(&torch(policy.clone())).as_deref(), words, "{policy}");
        }
        // After a permanent exit code the TTL never begins.
        let mut by_code = torch(json!({"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 1800}));
        by_code["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode".into();
        assert_eq!(said(&by_code).as_deref(), Some("16 GPUs without a time limit"));
        let ray = |mut spec: Value| {
            spec["activeDeadlineSeconds"] = 3600.into();
            spec["rayClusterSpec"] = json!({"headGroupSpec": {"template": template(8)}});
            json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": spec})
        };
        for (spec, words) in [
            (json!({}), "8 GPUs without a time limit"),
            (json!({"shutdownAfterJobFinishes": true}), "8 GPUs, up to 1 h: 8 GPU hours"),
            (
                json!({"shutdownAfterJobFinishes": true, "ttlSecondsAfterFinished": 3600, "backoffLimit": 1}),
                "8 GPUs, up to 2 h each of 2 attempts: 32 GPU hours",
            ),
        ] {
            assert_eq!(said(&ray(spec.clone())).as_deref(), Some(words), "{spec}");
        }
    }

    #[test]
    fn a_volcano_job_ends_with_its_pods() {
        let job = |deadline: Value, retries: Value| {
            let mut pod = template(8);
            pod["spec"]["activeDeadlineSeconds"] = deadline;
            json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"maxRetry": retries, "tasks": [{"replicas": 2, "template": pod}]}})
        };
        assert_eq!(said(&job(Value::Null, 1.into())).as_deref(), Some("16 GPUs without a time limit"));
        assert_eq!(said(&job(3600.into(), 1.into())).as_deref(), Some("16 GPUs, up to 1 h: 16 GPU hours"));
        for (retries, words) in
            [(json!(2), "2 attempts: 32"), (json!(0), "3 attempts: 48"), (Value::Null, "3 attempts: 48")]
        {
            let words = format!("16 GPUs, up to 1 h each of {words} GPU hours");
            assert_eq!(said(&job(3600.into(), retries)), Some(words));
        }
    }

    #[test]
    fn kueues_label_counts_where_kueue_runs() {
        let mut queued = job(Value::Null);
        queued["metadata"] = json!({"labels": {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/max-exec-time-seconds": "3600"}});
        assert_eq!(said(&queued).as_deref(), Some("64 GPUs without a time limit"));
        let hours =
            Cost::from_workload(&Workload::from_object(&queued).unwrap(), true).and_then(|cost| cost.hours());
        assert_eq!(hours, Some(64));
    }
}
