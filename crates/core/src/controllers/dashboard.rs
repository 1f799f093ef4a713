//! The dashboards of Ray clusters: which programs they know, and what they answer. A dashboard lives in the head of its
//! cluster, and forgets every program when that is a new pod or its container starts again (without GCS fault tolerance).

pub mod programs;

use super::cluster::Cluster;
use super::pod::{Phase, PodGroup};
use super::pod_set::Owner;
use super::time::Time;
use programs::{RayProgram, RayProgramPlan, SubmittedBy};

/// The role of the pod that a dashboard runs in.
pub(crate) const HEAD: &str = "head";

/// What a dashboard says when it is asked for a program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    /// Nothing: there is no head, or it does not answer.
    Silence,
    /// It knows no program of this id.
    Unknown,
    /// The program.
    Known(&'a RayProgram),
}

impl Cluster {
    /// Tells whether pods are of a RayCluster of a name. One that is made again under its name finds the pods of the old
    /// one: they are found by their labels.
    #[must_use]
    pub(crate) fn is_of_ray_cluster(&self, pods: &PodGroup, name: &str) -> bool {
        let Some(Owner::Object(owner)) = self.owner_of(pods) else { return false };
        self.objects.get(owner).is_some_and(|owner| owner.kind == "RayCluster" && owner.name == name)
    }

    /// Returns the head of a RayCluster whose dashboard answers.
    fn answering_head(&self, name: &str) -> Option<(usize, u32)> {
        if self.dashboards.is_down {
            return None;
        }
        let is_up = |pods: &PodGroup| {
            pods.phase == Phase::Running
                && pods.gone.is_none()
                && pods.deletion.is_none()
                && self.is_of_ray_cluster(pods, name)
        };
        let mut answering = self.dashboards.heads.iter().rev().filter(|(_, answers)| *answers);
        answering.find_map(|(nth, _)| {
            let pods = self.pods.get(*nth).filter(|pods| is_up(pods))?;
            Some((*nth, pods.restarts))
        })
    }

    /// Asks the dashboard of a RayCluster for a program.
    #[must_use]
    pub(crate) fn ask_dashboard(&self, name: &str, id: &str) -> Answer<'_> {
        let Some(head) = self.answering_head(name) else { return Answer::Silence };
        let mut programs = self.dashboards.programs.iter().rev();
        let known =
            programs.find(|program| program.head == head && program.id == id && !program.is_forgotten);
        known.map_or(Answer::Unknown, Answer::Known)
    }

    /// Submits a program to the dashboard of a RayCluster. Returns whether it took it: it answers, and knows none of its id.
    pub(crate) fn submit_program(
        &mut self,
        name: &str,
        id: &str,
        by: SubmittedBy,
        plan: RayProgramPlan,
        at: Time,
    ) -> bool {
        let (Some(head), Answer::Unknown) = (self.answering_head(name), self.ask_dashboard(name, id)) else {
            return false;
        };
        self.dashboards.programs.push(RayProgram {
            cluster: name.to_owned(),
            id: id.to_owned(),
            by,
            submitted: at,
            plan,
            stopped: None,
            stopped_by_operator: false,
            head,
            is_forgotten: false,
        });
        true
    }

    /// Lets the dashboard of a RayCluster know a program that it runs already, or ran; nothing comes of it without a head.
    pub(crate) fn resume_program(
        &mut self,
        name: &str,
        id: &str,
        (by, submitted): (SubmittedBy, Time),
        plan: RayProgramPlan,
    ) {
        let up = |(nth, _): &&(usize, bool)| {
            let pods = self.pods.get(*nth);
            pods.is_some_and(|pods| pods.phase == Phase::Running && self.is_of_ray_cluster(pods, name))
        };
        let Some((nth, _)) = self.dashboards.heads.iter().rev().find(up) else { return };
        let head = (*nth, self.pods.get(*nth).map_or(0, |pods| pods.restarts));
        let (cluster, id) = (name.to_owned(), id.to_owned());
        self.dashboards.programs.push(RayProgram {
            cluster,
            id,
            by,
            submitted,
            plan,
            stopped: None,
            stopped_by_operator: false,
            head,
            is_forgotten: false,
        });
    }

    /// Asks the dashboard of a RayCluster to stop a program.
    pub(crate) fn stop_program(&mut self, name: &str, id: &str, at: Time) {
        let Some(head) = self.answering_head(name) else { return };
        let is_it =
            |program: &&mut RayProgram| program.head == head && program.id == id && !program.is_forgotten;
        if let Some(program) = self.dashboards.programs.iter_mut().rev().find(is_it) {
            program.stop(at);
            program.stopped_by_operator |= program.stopped == Some(at);
        }
    }
}
