//! What was seen of the pods of a scenario, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use jobgate::text::value::Value;
use serde::Serialize;

use super::role::{self, Role};
use super::script::{Life, Name};

/// The pods of a scenario in the order of their creation.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Timeline {
    pub(crate) pods: Vec<Seen>,
    /// What could not be carried out: a request that the API server refused, and when.
    pub(crate) refused: Vec<(f64, String)>,
    /// The programs that were submitted to Ray.
    pub(crate) programs: Vec<Program>,
    #[serde(skip)]
    jobs: Vec<String>,
    /// Ray clusters, in the order of their first pods.
    #[serde(skip)]
    clusters: Vec<String>,
}

/// One program. Times are as those of pods.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Program {
    /// The number of its cluster.
    pub(crate) cluster: u64,
    pub(crate) id: String,
    /// Who submitted it: `submitter`, `sidecar` or `operator`.
    pub(crate) by: &'static str,
    pub(crate) submitted: f64,
    /// When KubeRay had it stopped, while it ran.
    pub(crate) stopped: Option<f64>,
    /// As Ray has it, or `LOST` with the head of its cluster.
    pub(crate) state: &'static str,
    pub(crate) ended: Option<f64>,
}

/// One pod. Times are in seconds since the scenario began; none: it did not happen.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Seen {
    #[serde(skip)]
    pub(crate) uid: String,
    #[serde(skip)]
    pub(crate) path: String,
    #[serde(skip)]
    pub(crate) life: Life,
    /// The name of its Ray cluster.
    #[serde(skip)]
    pub(crate) cluster: Option<String>,
    /// The name of its group of pods.
    #[serde(skip)]
    pub(crate) group: Option<String>,
    /// What its annotations count of the failures of its index: those that count, and those that are ignored.
    #[serde(skip)]
    pub(crate) index_failures: (Option<u64>, Option<u64>),
    /// Why its first container ended, where its status says it.
    #[serde(skip)]
    pub(crate) container_reason: Option<String>,
    pub(crate) role: String,
    pub(crate) index: Option<u64>,
    pub(crate) attempt: u64,
    pub(crate) set: Option<u64>,
    pub(crate) job: Option<u64>,
    pub(crate) created: f64,
    pub(crate) started: Option<f64>,
    pub(crate) ended: Option<f64>,
    pub(crate) phase: String,
    /// The exit code of each container that has ended.
    pub(crate) exit: BTreeMap<String, i64>,
    pub(crate) reason: Option<String>,
    pub(crate) restarts: u64,
    /// When the container beside it that submits a program to Ray ended, and how.
    pub(crate) sidecar: Option<(f64, i64)>,
    pub(crate) deleting: Option<f64>,
    pub(crate) gone: Option<f64>,
}

impl Seen {
    /// Tells whether it was deleted again at once and never ran: a race of an operator with its own cache. One that was
    /// rejected before that is none.
    pub(crate) fn is_blink(&self) -> bool {
        let is_one =
            |deleting: f64| deleting - self.created <= 0.5 && self.ended.is_none_or(|ended| ended > deleting);
        self.started.is_none() && self.deleting.is_some_and(is_one)
    }
}

impl Timeline {
    /// Notes a pod that was not seen before.
    pub(crate) fn created(&mut self, at: Duration, path: &str, pod: &Value) {
        let Role { role, index, set, job, cluster, life } = role::of(pod);
        let job = job.map(|name| number(&mut self.jobs, &name));
        let set = cluster.as_ref().map(|name| number(&mut self.clusters, name)).or(set);
        // Volcano makes pods of what its caches do not show yet: they are no attempts.
        let is_one = |other: &&Seen| {
            let is_counted = other.group.is_none() || !other.is_blink();
            other.role == role && other.index == index && other.job == job && is_counted
        };
        let attempt = u64::try_from(self.pods.iter().filter(is_one).count()).unwrap_or_default();
        let annotations = &pod["metadata"]["annotations"];
        let group = &annotations["scheduling.k8s.io/group-name"];
        let count =
            |of: &str| annotations[format!("batch.kubernetes.io/{of}").as_str()].as_str()?.parse().ok();
        self.pods.push(Seen {
            index_failures: (count("job-index-failure-count"), count("job-index-ignored-failure-count")),
            uid: text(&pod["metadata"]["uid"]).to_owned(),
            path: path.to_owned(),
            life,
            cluster,
            group: group.as_str().map(str::to_owned),
            role,
            index,
            attempt,
            set,
            job,
            created: tenths(at),
            phase: "Pending".to_owned(),
            ..Seen::default()
        });
    }

    /// Returns the name of a pod, as rules have it.
    pub(crate) fn name(&self, uid: &str) -> Option<Name> {
        let seen = self.pods.iter().find(|seen| seen.uid == uid)?;
        let Seen { role, index, attempt, set, job, life, .. } = seen.clone();
        Some(Name { role, index, attempt, set, job, life })
    }

    /// Returns the newest Ray cluster that is meant by the name of a Service of it, and its number; the newest
    /// of all if there is none.
    pub(crate) fn cluster(&self, service: &str) -> Option<(u64, &str)> {
        let all = || self.clusters.iter().enumerate().rev();
        let (place, name) = all().find(|(_, name)| service.starts_with(*name)).or_else(|| all().next())?;
        Some((u64::try_from(place).ok()?, name))
    }

    /// Returns the newest head of a Ray cluster that runs and is not being deleted.
    pub(crate) fn head(&self, cluster: &str) -> Option<&Seen> {
        let is_it = |pod: &&Seen| {
            pod.role == "head"
                && pod.cluster.as_deref() == Some(cluster)
                && pod.phase == "Running"
                && pod.deleting.is_none()
                && pod.gone.is_none()
        };
        self.pods.iter().rev().find(is_it)
    }

    /// Returns how many pods of a group run.
    pub(crate) fn running_in(&self, group: &str) -> usize {
        let runs =
            |pod: &&Seen| pod.group.as_deref() == Some(group) && pod.phase == "Running" && pod.gone.is_none();
        self.pods.iter().filter(runs).count()
    }

    /// Notes the end of a container that submitted beside a pod.
    pub(crate) fn sidecar_ended(&mut self, at: Duration, uid: &str, code: i64) {
        if let Some(seen) = self.pods.iter_mut().find(|seen| seen.uid == uid) {
            seen.sidecar = Some((tenths(at), code));
        }
    }

    /// Returns the name of the n-th Job.
    pub(crate) fn job(&self, number: u64) -> Option<&str> {
        self.jobs.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// Tells whether a pod was seen before.
    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.pods.iter().any(|pod| pod.uid == uid)
    }

    /// Notes what has become of a pod.
    pub(crate) fn changed(&mut self, at: Duration, pod: &Value, is_gone: bool) {
        let uid = text(&pod["metadata"]["uid"]);
        let Some(seen) = self.pods.iter_mut().find(|seen| seen.uid == uid) else { return };
        let (at, status) = (tenths(at), &pod["status"]);
        if pod["metadata"].get("deletionTimestamp").is_some() {
            seen.deleting.get_or_insert(at);
        }
        let phase = text(&status["phase"]);
        if !phase.is_empty() && phase != seen.phase {
            phase.clone_into(&mut seen.phase);
            match phase {
                "Running" => seen.started = Some(at),
                "Succeeded" | "Failed" => {
                    seen.ended = Some(at);
                    seen.exit = exits(status);
                    seen.reason = reason(status);
                    seen.container_reason = container_reason(status);
                }
                _ => {}
            }
        }
        let containers = status["containerStatuses"].as_array().into_iter().flatten();
        let restarts: u64 = containers.filter_map(|container| container["restartCount"].as_u64()).sum();
        seen.restarts = seen.restarts.max(restarts);
        if is_gone {
            seen.gone = Some(at);
        }
    }
}

/// Returns the place of a name in a list, at the end of which it is put if it is new.
fn number(names: &mut Vec<String>, name: &str) -> u64 {
    let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u64::try_from(place).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn exits(status: &Value) -> BTreeMap<String, i64> {
    let all = ["initContainerStatuses", "containerStatuses"].into_iter();
    let all = all.flat_map(|key| status[key].as_array().into_iter().flatten());
    all.filter_map(|container| {
        let code = container["state"]["terminated"]["exitCode"].as_i64()?;
        Some((text(&container["name"]).to_owned(), code))
    })
    .collect()
}

fn reason(status: &Value) -> Option<String> {
    let disrupted = || {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions
            .find(|condition| condition["type"] == "DisruptionTarget")
            .map(|condition| &condition["reason"])
    };
    status.get("reason").or_else(disrupted).map(|reason| text(reason).to_owned())
}

fn container_reason(status: &Value) -> Option<String> {
    let all = ["containerStatuses", "initContainerStatuses"].into_iter();
    let mut ends = all.flat_map(|key| status[key].as_array().into_iter().flatten());
    ends.find_map(|container| {
        let reason = container["state"]["terminated"]["reason"].as_str()?;
        (reason != "Completed").then(|| reason.to_owned())
    })
}

/// Returns a time in seconds, to a tenth.
pub(crate) fn tenths(at: Duration) -> f64 {
    (at.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use jobgate::text::value::json;

    use super::*;

    fn pod(uid: &str, index: &str, more: Value) -> Value {
        let labels = json!({"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": index});
        let mut pod =
            json!({"metadata": {"name": format!("j-worker-{index}"), "uid": uid, "labels": labels}});
        for (key, value) in more.as_object().expect("a mapping").iter() {
            pod[key] = value.clone();
        }
        pod
    }

    fn seconds(number: f64) -> Duration {
        Duration::from_secs_f64(number)
    }

    fn named(timeline: &mut Timeline, uid: &str, pod: &Value) -> Name {
        timeline.created(seconds(1.0), "/p", pod);
        timeline.name(uid).expect("it was created")
    }

    #[test]
    fn attempts_count_pods_of_a_role_and_number() {
        let mut timeline = Timeline::default();
        let attempts = [("a", "0"), ("b", "1"), ("c", "0"), ("d", "0")]
            .map(|(uid, index)| named(&mut timeline, uid, &pod(uid, index, json!({}))).attempt);
        assert_eq!(attempts, [0, 0, 1, 2]);
        assert!(timeline.knows("c") && !timeline.knows("e"));
    }

    #[test]
    fn a_pod_of_volcano_that_is_deleted_at_once_is_no_attempt() {
        for (annotations, attempt) in [(json!({"scheduling.k8s.io/group-name": "g"}), 0), (json!({}), 1)] {
            let mut timeline = Timeline::default();
            let mut first = pod("a", "0", json!({}));
            first["metadata"]["annotations"] = annotations;
            timeline.created(seconds(1.0), "/p", &first);
            let dying = json!({"metadata": {"uid": "a", "deletionTimestamp": "2030-01-01T00:00:00Z"}});
            timeline.changed(seconds(1.4), &dying, true);
            assert_eq!(named(&mut timeline, "b", &pod("b", "0", json!({}))).attempt, attempt);
        }
    }

    #[test]
    fn a_pod_that_is_rejected_before_it_is_deleted_is_an_attempt() {
        let mut timeline = Timeline::default();
        let mut first = pod("a", "0", json!({"status": {"phase": "Failed"}}));
        first["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "g"});
        timeline.created(seconds(1.0), "/p", &first);
        timeline.changed(seconds(1.5), &first, false);
        let dying = json!({"metadata": {"uid": "a", "deletionTimestamp": "2030-01-01T00:00:00Z"}});
        timeline.changed(seconds(1.5), &dying, true);
        assert_eq!(named(&mut timeline, "b", &pod("b", "0", json!({}))).attempt, 1);
    }

    #[test]
    fn what_is_seen_of_a_pod_is_noted_when_it_is_seen_first() {
        let mut timeline = Timeline::default();
        timeline.created(seconds(0.04), "/p", &pod("a", "0", json!({})));
        let status = |phase: &str, state: Value, restarts: u32| {
            let container = json!({"name": "main", "restartCount": restarts, "state": state});
            pod("a", "0", json!({"status": {"phase": phase, "containerStatuses": [container]}}))
        };
        timeline.changed(seconds(0.5), &status("Running", json!({"running": {}}), 0), false);
        timeline.changed(seconds(2.5), &status("Running", json!({"running": {}}), 1), false);
        let ended = json!({"terminated": {"exitCode": 3}});
        timeline.changed(seconds(4.26), &status("Failed", ended.clone(), 1), false);
        timeline.changed(seconds(9.0), &status("Failed", ended, 1), true);
        let seen = &timeline.pods[0];
        assert_eq!(
            (seen.created, seen.started, seen.ended, seen.gone),
            (0.0, Some(0.5), Some(4.3), Some(9.0))
        );
        assert_eq!((seen.phase.as_str(), seen.restarts, seen.deleting), ("Failed", 1, None));
        assert_eq!(seen.exit, BTreeMap::from([("main".to_owned(), 3)]));
    }

    #[test]
    fn jobs_are_numbered_by_their_first_pods() {
        let mut timeline = Timeline::default();
        let of = |uid: &str, job: &str| json!({"metadata": {"uid": uid, "labels": {"batch.kubernetes.io/job-name": job}}});
        let names = [("a", "run-1"), ("b", "run-2"), ("c", "run-1")]
            .map(|(uid, job)| named(&mut timeline, uid, &of(uid, job)));
        assert_eq!(names.map(|name| (name.job, name.attempt)), [(Some(0), 0), (Some(1), 0), (Some(0), 1)]);
        assert_eq!((timeline.job(1), timeline.job(2)), (Some("run-2"), None));
    }

    #[test]
    fn ray_clusters_are_numbered_and_have_a_head_while_it_runs() {
        let mut timeline = Timeline::default();
        let of = |uid: &str, node: &str, cluster: &str| {
            let labels = json!({"ray.io/node-type": node, "ray.io/group": "g", "ray.io/cluster": cluster});
            json!({"metadata": {"uid": uid, "labels": labels}})
        };
        let sets = [("a", "head", "j-x"), ("b", "worker", "j-x"), ("c", "head", "j-y")]
            .map(|(uid, node, cluster)| named(&mut timeline, uid, &of(uid, node, cluster)).set);
        assert_eq!(sets, [Some(0), Some(0), Some(1)]);
        assert_eq!(timeline.cluster("j-x-head-svc"), Some((0, "j-x")));
        assert_eq!(timeline.cluster("other"), Some((1, "j-y")));
        assert!(timeline.head("j-x").is_none());
        let change = |uid: &str, more: Value| {
            let mut pod = of(uid, "head", "j-x");
            pod["status"] = json!({"phase": "Running"});
            for (key, value) in more.as_object().expect("a mapping").iter() {
                pod["metadata"][key] = value.clone();
            }
            pod
        };
        timeline.changed(seconds(2.0), &change("a", json!({})), false);
        assert_eq!(timeline.head("j-x").map(|head| head.uid.as_str()), Some("a"));
        timeline.changed(
            seconds(3.0),
            &change("a", json!({"deletionTimestamp": "2030-01-01T00:00:00Z"})),
            false,
        );
        assert!(timeline.head("j-x").is_none());
    }

    #[test]
    fn running_pods_of_a_group_are_counted() {
        let mut timeline = Timeline::default();
        for (uid, group) in [("a", "g"), ("b", "g"), ("c", "h")] {
            let annotations = json!({"scheduling.k8s.io/group-name": group});
            let pod = json!({"metadata": {"uid": uid, "annotations": annotations}});
            timeline.created(seconds(0.0), "/p", &pod);
            timeline.changed(
                seconds(1.0),
                &json!({"metadata": {"uid": uid}, "status": {"phase": "Running"}}),
                false,
            );
        }
        timeline.changed(seconds(2.0), &json!({"metadata": {"uid": "b"}, "status": {}}), true);
        assert_eq!((timeline.running_in("g"), timeline.running_in("h")), (1, 1));
    }
}
