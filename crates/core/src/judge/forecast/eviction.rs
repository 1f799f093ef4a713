//! How often Kueue would evict a Job in a queue, for rules that ask.

use std::cell::Cell;

use super::objects::small_size;
use super::{MOST_WORK, is_short};
use crate::controllers::incident::{Incident, Occurrence};
use crate::controllers::job::spec::JobSpec;
use crate::controllers::object_story::lower_object;
use crate::controllers::story::Assumptions;
use crate::controllers::time::Time;
use crate::judge::commands::CommandLine;
use crate::judge::loss::Loss;
use crate::judge::simulation::{ProgramDefaults, QueuedJob, SimulatedJob};
use crate::kinds::PodTemplate;
use crate::text::meter;
use crate::text::value::Value;

/// When an incident happens, from when the program works: early, so that what follows is what it may cost at most.
const SOON: Time = Time::from_seconds(600);
/// How long what it takes lasts until a pod on a lost node is not ready, and Kueue admits again what it evicted.
const BETWEEN: Time = Time::from_seconds(600);

/// What Kueue does to a Job after an incident.
#[derive(Clone, Copy, Debug)]
pub(in crate::judge) struct Evicted {
    /// How often it evicts it within twice the time that it waits, and some more.
    pub(in crate::judge) count: u32,
    /// Whether the Job has ended by then.
    pub(in crate::judge) has_ended: bool,
    /// How long Kueue waits for pods that are not ready.
    pub(in crate::judge) wait: Time,
    /// What it costs, if no work is saved before the next eviction.
    pub(in crate::judge) loss: Option<Loss>,
}

/// Returns what Kueue does to the Job around a pod template, in the object that has it, after an incident; nothing if it is in no
/// queue, Kueue does not wait for pods, or there is no short answer.
pub(in crate::judge) fn evicted(
    object: &Value,
    pod: &PodTemplate<'_>,
    lines: &[CommandLine<'_>],
    defaults: &ProgramDefaults,
    incident: Incident,
    left_of_rule: &Cell<u64>,
) -> Option<Evicted> {
    let mut left = MOST_WORK.min(left_of_rule.get());
    let most = left;
    let spec = pod.around.value.filter(|_| pod.form.is_job())?;
    if left == 0 || JobSpec::placeholder(spec).is_some() || !is_short(spec) {
        return None;
    }
    small_size(object)?;
    let queued = QueuedJob::from_object(object, &pod.around.pointer)?;
    let job = SimulatedJob::from_pod(pod, lines, defaults)?;
    let wait = job.assumptions.wait_for_pods_ready?;
    let at = job.assumptions.startup + SOON;
    let occurrence = Occurrence { at: Some(at), ..Occurrence::from(incident) };
    // Long enough for two evictions.
    let until = at + wait + wait + BETWEEN;
    let mut ask = |peers| {
        let assumptions = Assumptions { peers, ..job.assumptions };
        let script = lower_object(&queued.subject, std::slice::from_ref(&occurrence), &assumptions);
        queued.story().evictions(&script, until, &mut left).ok()
    };
    let first = ask(job.assumptions.peers);
    let other = first.zip(job.or_peers).map(|(_, peers)| ask(peers));
    let work = most - left;
    meter::spend(work);
    left_of_rule.set(left_of_rule.get() - work);
    let (count, has_ended) = first?;
    // What depends on more than is known has no answer.
    if other.is_some_and(|other| other.is_none_or(|(_, other)| other != has_ended)) {
        return None;
    }
    let count = other.flatten().map_or(count, |(other, _)| count.min(other));
    let startup = job.assumptions.startup;
    let is_lost = job.assumptions.checkpoint.is_none_or(|every| startup + every > wait);
    let loss =
        Loss { time: None, has_accelerators: job.accelerators > 0, checkpoint: job.assumptions.checkpoint };
    Some(Evicted { count, has_ended, wait, loss: is_lost.then_some(loss) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::forecast::MOST_WORK_OF_RULE;
    use crate::kinds::Workload;
    use crate::text::value::json;

    fn job(pods: i64, completions: i64) -> Value {
        let container = json!({"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}});
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
            "spec": {
                "completionMode": "Indexed", "parallelism": pods, "completions": completions, "backoffLimitPerIndex": 1,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        })
    }

    fn ask(job: &Value, incident: Incident, defaults: &ProgramDefaults) -> (Option<Evicted>, u64) {
        let workload = Workload::from_object(job).expect("a Job");
        let left = Cell::new(MOST_WORK_OF_RULE);
        let asked = || evicted(job, &workload.pods[0], &[], defaults, incident, &left);
        meter::run(meter::Bounds::default(), asked).expect("no bounds")
    }

    #[test]
    fn a_failed_index_lets_kueue_evict_the_others_again_and_again() {
        let told = |job: &Value| ask(job, Incident::CrashLoop, &ProgramDefaults::default()).0;
        let again = told(&job(4, 4)).expect("an answer");
        assert_eq!((again.count, again.has_ended, again.loss.is_some()), (2, false, true));
        let waves = told(&job(4, 40)).expect("an answer");
        assert_eq!((waves.count, waves.has_ended), (0, false));
        let mut ends = job(4, 4);
        ends["spec"]["maxFailedIndexes"] = 0.into();
        assert!(told(&ends).expect("an answer").has_ended);
        let mut alone = job(4, 4);
        alone["metadata"] = json!({});
        assert!(told(&alone).is_none());
        let waits_not = ProgramDefaults { wait_for_pods_ready: None, ..ProgramDefaults::default() };
        assert!(ask(&job(4, 4), Incident::CrashLoop, &waits_not).0.is_none());
    }

    #[test]
    fn work_that_is_saved_in_time_is_not_lost() {
        let saves = |seconds| ProgramDefaults {
            checkpoint: Some(Time::from_seconds(seconds)),
            ..ProgramDefaults::default()
        };
        let loss = |defaults: &ProgramDefaults| {
            ask(&job(4, 4), Incident::CrashLoop, defaults).0.expect("an answer").loss
        };
        assert!(loss(&saves(1_800)).is_some() && loss(&saves(600)).is_none());
    }

    #[test]
    fn a_question_about_a_queue_has_a_bound() {
        for pods in [4, 64, 5_000, i64::from(i32::MAX)] {
            for incident in [Incident::CrashLoop, Incident::NodeLost] {
                let (_, steps) = ask(&job(pods, pods), incident, &ProgramDefaults::default());
                assert!(steps <= 2 * MOST_WORK, "{pods} {incident} {steps}");
            }
        }
    }
}
