//! What is there of an object of an operator, for a world: objects, Jobs, and pods in groups that are alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::indexes::Indexes;
use super::super::object::{self, Object, ObjectStatus};
use super::super::operators;
use super::super::operators::demand::{AskedRole, Numbers};
use super::super::pod_set::{Owner, PodSet, PodTemplate};
use super::super::world::{GivenJob, GivenProgram};
use super::fields::text;
use super::groups::{Alike, LiveGroup, groups, groups_of};
use super::job::LiveJob;
use super::object::LiveObject;
use super::pod::{Containers, LivePod};
use super::ray::FINALIZER;
use super::story::propagation;
use crate::text::value::{Value, json};

/// What is there of an object, for a world.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) objects: Vec<Object>,
    pub(super) jobs: Vec<GivenJob>,
    pub(super) sets: Vec<PodSet>,
    pub(super) groups: Vec<LiveGroup>,
    pub(super) programs: Vec<GivenProgram>,
    pub(super) is_dashboard_down: bool,
}

/// Pods of a role that were made in one round, each with its number.
type Round<'p> = (u32, Vec<(Option<u32>, &'p LivePod)>);

impl LiveObject {
    /// Returns what is there of it.
    pub(super) fn parts(&self) -> Parts {
        let mut parts = Parts::default();
        if let Some(runtime) = self.runtime()
            && let Some(kind) = operators::kind_of(&runtime)
        {
            let name = text(&runtime, "/metadata/name").unwrap_or_default().to_owned();
            parts.objects.push(Object::new(kind, &name, None, runtime, self.created));
        }
        self.add_to(&mut parts, None);
        parts.programs.extend(self.ray_program());
        parts.is_dashboard_down = self.dashboard_silence().is_some();
        parts
    }

    /// Adds itself and what it made. Returns its number.
    fn add_to(&self, parts: &mut Parts, above: Option<(usize, &Self)>) -> usize {
        let number = parts.objects.len();
        let owner = above.map(|(number, _)| Owner::Object(number));
        let manifest = match above {
            Some((_, ray_job)) if self.kind == "RayCluster" => ray_job.with_sidecar(self.object.clone()),
            _ => self.object.clone(),
        };
        let object = Object::new(self.kind, &self.name, owner, manifest, self.created);
        parts.objects.push(Object {
            conditions: object::conditions::conditions(&self.object, self.created, self.now),
            status: ObjectStatus::from_live(self.kind, &self.object, self.now).unwrap_or_default(),
            deletion: self.deletion.map(|at| (at, propagation(&self.finalizers))),
            finalizer: self.finalizers.iter().any(|finalizer| finalizer == FINALIZER),
            ..object
        });
        if self.kind == "VolcanoJob" {
            parts.objects.extend(self.pod_group_of(number));
        }
        let pods = self.pods_by_role();
        for role in &self.asked.pods {
            let pods = pods.get(role.name.as_str()).map_or(&[][..], Vec::as_slice);
            self.add_role(parts, number, (role, pods));
        }
        for job in &self.jobs {
            parts.add_job(job, self, number);
        }
        for object in &self.objects {
            object.add_to(parts, Some((number, self)));
        }
        number
    }

    /// Adds the pods of a role, of each round in a set of its own.
    fn add_role(&self, parts: &mut Parts, number: usize, (role, pods): (&AskedRole, &[&LivePod])) {
        let Some(template) = &role.template else { return };
        let containers = Containers::new(&template.containers);
        let indexed = role.numbers == Numbers::Index;
        let newest = if self.kind == "VolcanoJob" { self.version() } else { 0 };
        for (round, pods) in rounds(role, pods, newest) {
            let set = parts.sets.len();
            // Of indexes that have no pod, the next one is of the newest round.
            let indexes = if indexed && round == newest { self.indexes(role) } else { Indexes::default() };
            // A policy of a Volcano Job may count from them.
            let has_ends = self.kind == "VolcanoJob";
            let alike = Alike {
                containers: &containers,
                pods,
                indexes: Some(indexes),
                created: self.created,
                has_ends,
            };
            parts.add(set, groups_of(&alike));
            let (owner, role) = (Owner::Object(number), Arc::from(role.name.as_str()));
            parts.sets.push(PodSet { owner, role, round, indexed, template: template.clone() });
        }
    }

    /// Returns the indexes that the pods of a role may have.
    fn indexes(&self, role: &AskedRole) -> Indexes {
        let (first, count) = (self.first_index(), role.count.or(role.most).unwrap_or_default());
        match first.checked_add(count).and_then(|end| end.checked_sub(1)) {
            Some(last) if count > 0 => Indexes::from_range(first, last),
            _ => Indexes::default(),
        }
    }

    /// Returns the first index of its workers: 1 where the launcher of an MPIJob counts as one.
    pub(super) fn first_index(&self) -> u32 {
        let is_shifted = self.object.pointer("/spec/runLauncherAsWorker").and_then(Value::as_bool);
        let has_first = self.pods.iter().any(|pod| pod.replica == Some(0));
        u32::from(self.kind == "MPIJob" && is_shifted == Some(true) && !has_first)
    }

    /// Returns a runtime that makes the JobSet of a TrainJob again as it is: what its own one says is not known.
    pub(super) fn runtime(&self) -> Option<Value> {
        let job_set =
            self.objects.iter().find(|object| self.kind == "TrainJob" && object.kind == "JobSet")?;
        let reference =
            |key: &str| self.object.pointer(&format!("/spec/runtimeRef/{key}")).and_then(Value::as_str);
        let spec = job_set.object.get("spec").cloned().unwrap_or_default();
        let manifest = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": reference("kind").unwrap_or("ClusterTrainingRuntime"),
            "metadata": { "name": reference("name").unwrap_or_default() },
            "spec": { "template": { "spec": spec } },
        });
        Some(manifest)
    }
}

/// Returns the pods of a role by round, the newest round too where it has none, each with its number.
fn rounds<'p>(role: &AskedRole, pods: &[&'p LivePod], newest: u32) -> Vec<Round<'p>> {
    let numbers = match role.numbers {
        Numbers::Index => pods.iter().map(|pod| pod.replica).collect(),
        Numbers::Order => by_order(pods),
        Numbers::Hosts(hosts) => by_hosts(pods, hosts),
    };
    let mut rounds: BTreeMap<u32, Vec<(Option<u32>, &LivePod)>> = BTreeMap::new();
    rounds.entry(newest).or_default();
    for (pod, number) in pods.iter().zip(numbers) {
        // One that does not say it is new.
        let round = pod.version.filter(|_| newest > 0).map_or(newest, |version| version.min(newest));
        rounds.entry(round).or_default().push((number, *pod));
    }
    rounds.into_iter().collect()
}

/// Numbers pods in their order, the active ones first: those are the ones that incidents name.
fn by_order(pods: &[&LivePod]) -> Vec<Option<u32>> {
    let active = pods.iter().filter(|pod| pod.is_active()).count();
    let (mut first, mut others) = (0_u32.., u32::try_from(active).unwrap_or(u32::MAX)..);
    pods.iter().map(|pod| if pod.is_active() { first.next() } else { others.next() }).collect()
}

/// Numbers pods in groups of `hosts`: a replica has that many, and its pods get consecutive numbers.
fn by_hosts(pods: &[&LivePod], hosts: u32) -> Vec<Option<u32>> {
    let replica = |pod: &'_ &LivePod| pod.host.as_ref().map(|(replica, _)| replica.clone());
    let replicas: BTreeSet<String> = pods.iter().filter_map(replica).collect();
    let places: BTreeMap<String, u32> = replicas.into_iter().zip(0_u32..).collect();
    let number = |pod: &&LivePod| {
        let (replica, host) = pod.host.as_ref()?;
        places.get(replica)?.checked_mul(hosts)?.checked_add((*host).min(hosts.saturating_sub(1)))
    };
    pods.iter().map(number).collect()
}

impl Parts {
    fn add(&mut self, set: usize, groups: Vec<LiveGroup>) {
        self.groups.extend(groups.into_iter().map(|mut group| {
            group.pods.set = set;
            group
        }));
    }

    fn add_job(&mut self, job: &LiveJob, of: &LiveObject, owner: usize) {
        let role = match job.number() {
            Some(number) => format!("{}-{number}", job.role().unwrap_or_default()),
            None => job.role().unwrap_or(&job.name).to_owned(),
        };
        let round = job.attempt().filter(|_| of.kind == "JobSet").unwrap_or_default();
        let set = self.sets.len();
        self.add(set, groups(job));
        self.sets.push(PodSet {
            owner: Owner::Job(self.jobs.len()),
            role: Arc::from(role),
            round,
            indexed: job.spec.indexed,
            template: PodTemplate::from_job(&job.spec),
        });
        let mut given = job.given(Some(Owner::Object(owner)), set);
        if of.kind == "RayJob"
            && let Some(container) = given.spec.pointer_mut("/template/spec/containers/0")
        {
            of.with_submission(container);
        }
        self.jobs.push(given);
    }
}
