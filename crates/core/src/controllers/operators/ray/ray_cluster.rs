//! RayCluster (`raycluster_controller.go`).

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::super::cluster::{Action, Cluster, Event};
use super::super::super::dashboard::HEAD;
use super::super::super::indexes::Indexes;
use super::super::super::object::{Object, ObjectStatus};
use super::super::super::pod::PodGroup;
use super::super::super::pod_set::Owner;
use super::super::super::time::Time;
use super::super::queue::{Operator, WorkQueue};
use super::cluster_spec::ClusterSpec;
use super::cluster_status::{PROVISIONED, Suspension, calculate, status_of};
use super::workers::{
    ClusterPods, Failure, delete, delete_all, is_dead, lost, made, multiple_hosts, new_numbers, single_hosts,
};
use super::{cluster_number, is_managed_by_other, validation};

/// How long a reconcile takes that makes what a new cluster needs beside pods: Services, and so on.
const SERVICES: Time = Time::from_millis(40);
/// After which time it looks again when it wrote the status. The look after 300 s without that sees nothing new.
const SOON: Time = Time::from_seconds(2);
/// The annotation that keeps it from making another head.
pub(super) const NO_HEAD_RESTART: &str = "ray.io/disable-provisioned-head-restart";

/// The controller of RayClusters. Pods, Services and `spec` are watched; its own writes of the status are not.
#[derive(Debug, Default)]
pub(super) struct RayClusterController {
    queue: WorkQueue,
    /// Pods that it deleted and whose objects have to be gone before it looks at their role again
    /// (`expectations/scale_expectations.go`).
    expected: BTreeMap<(usize, Arc<str>), Indexes>,
    /// When it last looked at replicas of several hosts.
    looked: BTreeMap<usize, Time>,
}

impl RayClusterController {
    fn forget(&mut self, number: usize) {
        self.queue.remove(number);
        self.expected.retain(|(object, _), _| *object != number);
        self.looked.remove(&number);
    }

    /// Deletes and makes pods. What comes after an error waits for the next time.
    fn reconcile_pods(
        &mut self,
        cluster: &Cluster,
        (number, object): (usize, &Object),
        spec: &ClusterSpec,
        pods: &ClusterPods<'_>,
        at: Time,
        actions: &mut Vec<Action>,
    ) -> Result<(), Failure> {
        match Suspension::from_object(object) {
            Suspension::Suspending => {
                actions.extend(delete_all(pods.all()));
                return Ok(());
            }
            Suspension::Suspended => return Ok(()),
            Suspension::None if spec.is_suspended() => return Ok(()),
            Suspension::None => {}
        }
        if !self.reconcile_head(cluster, (number, object), spec, pods, actions)? {
            return Ok(());
        }
        let since = self.looked.insert(number, at).unwrap_or_default();
        // There may be thousands of groups: each looks at its own pods only.
        let there = pods.by_role(cluster);
        let lost = LazyCell::new(|| lost(cluster, &object.name, since));
        let made = LazyCell::new(|| (cluster_number(cluster, number), made(cluster)));
        for group in &spec.groups {
            let there = there.get(&*group.name).map_or(&[][..], Vec::as_slice);
            if !self.is_satisfied(number, &group.name, there) {
                continue;
            }
            if group.is_suspended {
                actions.extend(delete_all(there.iter().copied()));
                continue;
            }
            let change = if group.hosts > 1 {
                let lost = lost.get(&*group.name).map_or(&[][..], Vec::as_slice);
                multiple_hosts(cluster, group, there, lost, spec.is_autoscaled)
            } else {
                single_hosts(cluster, group, there, spec.is_autoscaled)
            };
            for (nth, members) in &change.deleted {
                actions.push(delete(*nth, members));
                self.expect(number, &group.name, members);
            }
            if change.is_error {
                return Err(Failure::Deleted);
            }
            if change.created > 0 {
                if cluster.refuses_pods {
                    return Err(Failure::CreateWorker);
                }
                let (round, made) = &*made;
                let made = made.get(&*group.name).copied().unwrap_or_default();
                actions.push(Action::CreateMembers {
                    object: number,
                    role: Arc::clone(&group.name),
                    round: *round,
                    indexes: new_numbers(made, change.created),
                    indexed: false,
                    template: group.template.clone(),
                });
            }
        }
        Ok(())
    }

    /// Looks at the head. Returns whether the workers come next.
    fn reconcile_head(
        &mut self,
        cluster: &Cluster,
        (number, object): (usize, &Object),
        spec: &ClusterSpec,
        pods: &ClusterPods<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<bool, Failure> {
        if !self.is_satisfied(number, HEAD, &pods.heads) {
            return Ok(true);
        }
        match pods.heads.as_slice() {
            [] => {
                if object.condition(PROVISIONED).is_some() && keeps_no_head(object) {
                    return Ok(false);
                }
                if cluster.refuses_pods {
                    return Err(Failure::CreateHead);
                }
                actions.push(Action::CreateMembers {
                    object: number,
                    role: Arc::from(HEAD),
                    round: cluster_number(cluster, number),
                    indexes: new_numbers(made(cluster).get(HEAD).copied().unwrap_or_default(), 1),
                    indexed: false,
                    template: spec.head.clone(),
                });
                Ok(true)
            }
            [(nth, head)] if head.count() == 1 => {
                if is_dead(cluster, head) {
                    actions.push(delete(*nth, &head.members));
                    self.expect(number, HEAD, &head.members);
                    return Err(Failure::Deleted);
                }
                Ok(true)
            }
            _ => Err(Failure::Heads),
        }
    }

    fn expect(&mut self, number: usize, role: &str, members: &Indexes) {
        let expected = self.expected.entry((number, Arc::from(role))).or_default();
        *expected = expected.union(members);
    }

    /// Tells whether the pods of a role are gone that it deleted.
    fn is_satisfied(&mut self, number: usize, role: &str, there: &[(usize, &PodGroup)]) -> bool {
        let key = (number, Arc::from(role));
        let Some(expected) = self.expected.get(&key) else { return true };
        let is_gone = there.iter().all(|(_, pods)| pods.members.intersection(expected).is_empty());
        if is_gone {
            self.expected.remove(&key);
        }
        is_gone
    }
}

/// Tells whether a RayCluster that was ready once gets no other head: one of a RayJob in SidecarMode.
fn keeps_no_head(object: &Object) -> bool {
    let annotations = object.manifest.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(NO_HEAD_RESTART)).and_then(|value| value.as_str()) == Some("true")
}

/// Returns the RayCluster that is there, of those of a name.
fn there(cluster: &Cluster, number: usize) -> Option<usize> {
    let object = cluster.objects.get(number).filter(|object| RayClusterController::is_its(object))?;
    if object.is_there() {
        return Some(number);
    }
    cluster.object("RayCluster", &object.name).map(|(number, _)| number)
}

impl Operator for RayClusterController {
    fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut WorkQueue {
        &mut self.queue
    }

    fn is_its(object: &Object) -> bool {
        object.kind == "RayCluster"
    }

    fn notice(&mut self, event: Event, cluster: &Cluster, at: Time) {
        let (number, at) = match event {
            Event::Object(number) => (there(cluster, number), at + SERVICES),
            Event::Pod(Owner::Object(number)) => (there(cluster, number), at),
            Event::ObjectGone(number) => {
                self.forget(number);
                return;
            }
            _ => return,
        };
        if let Some(number) = number {
            self.queue.add_alone(number, at);
        }
    }

    fn take(&mut self, at: Time) -> Option<usize> {
        self.queue.take_alone(at)
    }

    fn reconcile(&mut self, cluster: &Cluster, number: usize, object: &Object, at: Time) -> Vec<Action> {
        if is_managed_by_other(object.spec())
            || validation::cluster_metadata(&object.manifest).is_err()
            || validation::cluster_spec(object.spec()).is_err()
            || object.deletion.is_some()
        {
            return Vec::new();
        }
        let spec = ClusterSpec::parse(object.spec());
        let pods = ClusterPods::find(cluster, &object.name);
        let mut actions = Vec::new();
        let failure = self.reconcile_pods(cluster, (number, object), &spec, &pods, at, &mut actions).err();
        let status = calculate(cluster, object, &spec, &pods, failure, at);
        let is_changed = match status {
            Some((conditions, status)) if conditions != object.conditions || status != status_of(object) => {
                let status = ObjectStatus::RayCluster(status);
                actions.push(Action::WriteObject { object: number, conditions, status });
                true
            }
            Some(_) => false,
            None => {
                self.queue.fail(number, at);
                return actions;
            }
        };
        if failure.is_some() {
            self.queue.fail(number, at);
        } else if is_changed {
            self.queue.add_at(number, at + SOON);
        }
        actions
    }

    fn lose(&mut self) {
        *self = Self::default();
    }
}
