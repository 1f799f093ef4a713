//! RayJobs and RayClusters that run: what their dashboard knows, as far as the status and the pods say.

use super::super::dashboard::HEAD;
use super::super::dashboard::programs::{
    DASHBOARD_ADDRESS, HEAD_SERVICE, ProgramState, SUBMISSION_ID, SUBMITTER, SubmittedBy,
};
use super::super::time::Time;
use super::super::world::GivenProgram;
use super::assumptions::ago;
use super::fields::{items, owned, text, time};
use super::object::LiveObject;
use super::pod::{LivePod, PodStage};
use crate::text::value::{Value, json};

/// The finalizer by which the operator keeps a RayJob until it has stopped the program.
pub(super) const FINALIZER: &str = "ray.io/rayjob-finalizer";

impl LiveObject {
    /// Returns the RayCluster of a RayJob, of those that are here.
    fn ray_cluster(&self) -> Option<&Self> {
        let name = text(&self.object, "/status/rayClusterName")?;
        self.objects.iter().find(|object| object.kind == "RayCluster" && object.name == name)
    }

    fn asks_for(&self, kind: &str) -> bool {
        self.asked.objects.iter().any(|asked| asked.kind == kind)
    }

    /// Returns in words why a RayJob is not simulated; nothing where it is.
    pub(super) fn ray_problem(&self) -> Option<String> {
        if self.kind != "RayJob" {
            return None;
        }
        let name = text(&self.object, "/status/rayClusterName").unwrap_or_default();
        if !self.asks_for("RayCluster") {
            return Some("it runs on a RayCluster that it did not make, and that is not modelled".to_owned());
        }
        // What is not there yet is made; later it is only not given.
        let is_running = matches!(self.state(), Some("Waiting" | "Running"));
        let cluster = self.ray_cluster();
        if is_running && cluster.is_none() {
            return Some(format!("its RayCluster {name} is not here"));
        }
        if self.state() == Some("Running")
            && self.asks_for("Job")
            && !self.jobs.iter().any(|job| job.name == self.name)
        {
            return Some(format!("its submitter Job {} is not here", self.name));
        }
        let problem = self.objects.iter().find_map(|object| Some((object, object.is_unknown()?)));
        problem.map(|(object, problem)| format!("of its RayCluster {}: {problem}", object.name))
    }

    /// Returns the pod of the head of a RayCluster: the newest that is active.
    fn head(&self) -> Option<&LivePod> {
        let heads = self.pods.iter().filter(|pod| pod.role.as_deref() == Some(HEAD) && pod.is_active());
        heads.max_by_key(|pod| pod.created)
    }

    /// Returns since when the dashboard has known what it knows: the start of the container of the head; nothing where the head
    /// does not run, or its node does not answer.
    fn dashboard_since(&self) -> Option<Time> {
        let head = self.ray_cluster()?.head()?;
        head.started.filter(|_| matches!(head.stage(), PodStage::Runs | PodStage::Crashes))
    }

    /// Returns when the head was lost; now, where that is not known.
    fn head_lost(&self) -> Time {
        let Some(cluster) = self.ray_cluster() else { return Time::START };
        if let Some(head) = cluster.head() {
            let silent = head.ready.map(|(_, at)| at).filter(|_| head.stage() == PodStage::Silent);
            return silent.unwrap_or(head.created);
        }
        let heads = cluster.pods.iter().filter(|pod| pod.role.as_deref() == Some(HEAD));
        let lost = heads.filter_map(|pod| pod.deletion.map(|(at, _)| at).or_else(|| pod.last_end()));
        lost.max().unwrap_or_default()
    }

    /// Returns what the dashboard last said of the program of a RayJob, while it is watched.
    fn program_state(&self) -> Option<ProgramState> {
        let is_watched = self.kind == "RayJob" && self.state() == Some("Running");
        ProgramState::parse(text(&self.object, "/status/jobStatus").filter(|_| is_watched)?)
    }

    /// Returns when the program of a RayJob started, as the dashboard said.
    fn program_start(&self) -> Option<Time> {
        time(&self.object, "/status/rayJobInfo/startTime", self.now)
    }

    /// Returns the program of a RayJob; nothing where its dashboard is not known to know one.
    pub(super) fn ray_program(&self) -> Option<GivenProgram> {
        let state = self.program_state()?;
        let since = self.dashboard_since();
        let start = self.program_start();
        let is_forgotten = since.is_none_or(|since| start.is_some_and(|start| start < since));
        let ended = state.is_terminal().then(|| {
            let at = time(&self.object, "/status/rayJobInfo/endTime", self.now).unwrap_or_default();
            (at, state, owned(&self.object, "/status/message").unwrap_or_default())
        });
        Some(GivenProgram {
            cluster: owned(&self.object, "/status/rayClusterName").unwrap_or_default(),
            id: owned(&self.object, "/status/jobId").unwrap_or_default(),
            by: match text(&self.object, "/spec/submissionMode") {
                Some("HTTPMode" | "InteractiveMode") => SubmittedBy::Operator,
                Some("SidecarMode") => SubmittedBy::Sidecar,
                _ => SubmittedBy::Submitter,
            },
            submitted: start.or(since).or(self.start).unwrap_or_default().min(Time::START),
            ended,
            lost: is_forgotten.then(|| since.unwrap_or_else(|| self.head_lost())),
        })
    }

    /// Returns since when the dashboard of a RayJob does not answer though its head runs; nothing where it does, as far as that
    /// is known.
    pub(super) fn dashboard_silence(&self) -> Option<Time> {
        if self.kind != "RayJob" || self.state() != Some("Running") {
            return None;
        }
        let silent = time(&self.object, "/status/jobStatusCheckFailureStartTime", self.now)?;
        self.dashboard_since().filter(|since| *since <= silent).map(|_| silent)
    }

    /// Returns what is assumed of a RayJob or of a RayCluster, in words.
    pub(super) fn assumed_of_ray(&self) -> Vec<String> {
        let mut assumed = Vec::new();
        let cluster = if self.kind == "RayJob" { self.ray_cluster() } else { Some(self) };
        let is_scaled = |cluster: &&Self| {
            cluster.object.pointer("/spec/enableInTreeAutoscaling").and_then(Value::as_bool) == Some(true)
        };
        if cluster.filter(is_scaled).is_some() {
            assumed.push("the autoscaler changes nothing".to_owned());
        }
        if self.kind == "RayCluster" {
            assumed.push("which programs run in it is not known: none is looked at".to_owned());
            return assumed;
        }
        if let Some(silent) = self.dashboard_silence() {
            assumed.push(format!("the dashboard, which has not answered for {}, stays silent", ago(silent)));
        }
        match self.ray_program() {
            None if self.state() == Some("Running") => {
                assumed.push("its dashboard knows no program yet".to_owned());
            }
            Some(program) if program.lost.is_some() => {
                assumed.push(
                    "its head was lost after the program had started: no dashboard knows the program"
                        .to_owned(),
                );
            }
            Some(_) if self.program_start().is_none() => {
                assumed.push(
                    "the program has run since its head has, as the status does not say since when"
                        .to_owned(),
                );
            }
            _ => {}
        }
        assumed
    }

    /// Returns it with what names its program where a container submits that: a person may have left that out of a template.
    pub(super) fn with_submission(&self, container: &mut Value) {
        let status = |key: &str| owned(&self.object, key).unwrap_or_default();
        let address = format!("{}{HEAD_SERVICE}:8265", status("/status/rayClusterName"));
        let added = json!([
            { "name": DASHBOARD_ADDRESS, "value": address },
            { "name": SUBMISSION_ID, "value": status("/status/jobId") },
        ]);
        let own = items(container, "/env").cloned().chain(items(&added, "").cloned()).collect();
        if let Some(fields) = container.as_object_mut() {
            fields.insert("env", Value::Array(own));
        }
    }

    /// Returns the manifest of an object that this one made, with what names its program beside the head.
    pub(super) fn with_sidecar(&self, mut cluster: Value) -> Value {
        let containers = cluster.pointer_mut("/spec/headGroupSpec/template/spec/containers");
        for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
            if text(container, "/name") == Some(SUBMITTER) {
                self.with_submission(container);
            }
        }
        cluster
    }
}
