//! The kubelet and whoever else ends pods, as a script says.

mod live;

use super::cluster::Cluster;
use super::job::spec::ContainerSort;
use super::pod::{ContainerStatus, Deletion, Phase, PodGroup};
use super::pod_set::PodTemplate;
use super::script::{DisruptionCause, Plan, Submission};
use super::time::Time;
pub(super) use live::Course;

/// How long after its creation a pod that does not start at once has its first status.
const FIRST_STATUS: Time = Time::from_millis(300);
/// A pod that starts within this time has no status before.
const AT_ONCE: Time = Time::from_seconds(1);
/// How long it takes until others see that a pod runs, or has ended.
const START_LAG: Time = Time::from_millis(20);
const END_LAG: Time = Time::from_millis(40);
/// The same, where the kubelet first has to see that it is to end the pod.
const TERMINATION_LAG: Time = Time::from_millis(60);
/// How long it takes to end a pod that never ran.
const NEVER_RAN: Time = Time::from_millis(200);
/// How long after the last status of a pod in deletion the kubelet takes its object away.
const REMOVAL: Time = Time::from_millis(30);
/// The first wait of a crash loop, and the longest (`pkg/kubelet/kubelet.go`).
const CRASH_WAIT: Time = Time::from_seconds(10);
const MOST_CRASH_WAIT: Time = Time::from_seconds(300);

/// What a kubelet does with pods of a group.
#[derive(Clone, Debug)]
pub(super) struct PodProgram {
    plan: Plan,
    /// What comes next, in order of time.
    steps: Vec<(Time, PodStep)>,
    /// How often it crashed.
    crashes: u32,
    /// Whether its node no longer answers.
    is_silent: bool,
    /// Whether it waits for a rank that is lost.
    pub(super) is_stale: bool,
}

/// A step of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodStep {
    /// The kubelet writes a first status.
    Status,
    /// It runs.
    Start,
    /// The kubelet refuses it.
    Reject,
    /// An init container fails.
    InitFailure,
    /// A container restarts: so many are left.
    Restart(Option<u32>),
    /// It ends by itself.
    End,
    /// Its node no longer answers.
    Silence,
    /// The node controller sees that.
    Unready,
    /// Somebody ends it.
    Disrupt,
    /// It ends after SIGTERM.
    Terminated(i64),
    /// The pod garbage collector ends it.
    Collect,
    /// It has ended, and the kubelet takes its object away.
    Remove,
}

/// The surroundings of a pod.
pub(super) struct PodContext<'a> {
    /// The template.
    pub(super) template: &'a PodTemplate,
    /// Whether pods never report that they are ready.
    pub(super) is_never_ready: bool,
    /// Whether the end of pods is seen only when their objects are gone.
    pub(super) is_seen_late: bool,
}

impl PodProgram {
    pub(super) fn new(plan: Plan, created: Time) -> Self {
        let mut program = Self { plan, steps: Vec::new(), crashes: 0, is_silent: false, is_stale: false };
        let Plan { start, is_unscheduled, is_rejected, .. } = program.plan;
        let start = start.filter(|_| !is_unscheduled);
        match start {
            Some(start) => {
                program.push(
                    created + start + START_LAG,
                    if is_rejected { PodStep::Reject } else { PodStep::Start },
                );
            }
            None if program.never_runs() => program.disrupt_from(created),
            None => {}
        }
        if !is_unscheduled && !is_rejected && start.is_none_or(|start| start > AT_ONCE) {
            program.push(created + FIRST_STATUS, PodStep::Status);
        }
        if start.is_some() && program.never_runs() {
            program.disrupt_from(created);
        }
        program
    }

    pub(super) fn is_bound(&self) -> bool {
        !self.plan.is_unscheduled
    }

    fn never_runs(&self) -> bool {
        self.plan.start.is_none() || self.plan.is_unscheduled || !self.plan.init.is_empty()
    }

    fn disrupt_from(&mut self, at: Time) {
        if let Some(disruption) = self.plan.disruption {
            self.push(at + disruption.after, PodStep::Disrupt);
        }
    }

    fn push(&mut self, at: Time, step: PodStep) {
        let place = self.steps.partition_point(|(other, _)| *other <= at);
        self.steps.insert(place, (at, step));
    }

    /// Returns when something happens next.
    pub(super) fn due(&self) -> Option<Time> {
        self.steps.first().map(|(at, _)| *at)
    }

    fn is_silent(&self) -> bool {
        self.is_silent
            || self.plan.disruption.is_some_and(|disruption| disruption.cause == DisruptionCause::LostNode)
    }

    /// Tells whether a process runs in the pods.
    pub(super) fn is_running(&self, pods: &PodGroup) -> bool {
        pods.phase == Phase::Running && pods.deletion.is_none() && !self.is_silent
    }

    /// Tells whether the program runs in the pods.
    pub(super) fn is_working(&self, pods: &PodGroup) -> bool {
        self.plan.follows_program && self.is_running(pods)
    }

    /// Tells whether the pods end with the program.
    pub(super) fn ends_with_program(&self) -> bool {
        !self.plan.serves
    }

    /// Tells whether their node no longer answers, and nobody has noticed.
    pub(super) fn fell_silent(&self) -> bool {
        self.is_silent
    }

    /// Returns what they do where they submit a program to a Ray cluster.
    pub(super) fn submission(&self) -> Submission {
        self.plan.submission
    }

    /// Returns what the container beside a head does that submits a program.
    pub(super) fn sidecar_submission(&self) -> Submission {
        self.plan.sidecar_submission
    }

    /// Tells whether pods that run the program ended before it did.
    pub(super) fn ended_early(&self, pods: &PodGroup) -> bool {
        let ran = pods.started.zip(pods.ended).map(|(started, ended)| ended - started);
        self.plan.follows_program && (self.plan.fails_by_itself || ran < self.plan.run)
    }

    /// Takes notice of the deletion of a pod.
    pub(super) fn on_deletion(&mut self, pods: &PodGroup, at: Time) {
        let Some(deletion) = pods.deletion.filter(|_| !pods.is_ended()) else { return };
        // Whatever it was about to do, it is to end now.
        self.steps.retain(|(_, step)| matches!(step, PodStep::Collect | PodStep::Terminated(_)));
        if self.is_silent() {
            if let Some(after) = self.plan.disruption.and_then(|disruption| disruption.collected)
                && self.steps.is_empty()
            {
                self.push(at + after, PodStep::Collect);
            }
            return;
        }
        if !self.is_bound() {
            return;
        }
        if pods.phase == Phase::Pending {
            self.steps.clear();
            self.push(at + NEVER_RAN, PodStep::Terminated(0));
            return;
        }
        let is_ending = |(_, step): &(Time, PodStep)| matches!(step, PodStep::Terminated(_));
        if self.steps.iter().any(is_ending) {
            return;
        }
        let grace = deletion.grace;
        let (after, code) = match self.plan.term.after {
            Some(after) if after <= grace => (after, self.plan.term.code),
            _ => (grace, 137),
        };
        self.push(at + after + TERMINATION_LAG, PodStep::Terminated(code));
    }

    /// Does the next step. Returns whether the pod changed.
    pub(super) fn step(&mut self, cluster: &mut Cluster, number: usize, around: &PodContext<'_>) -> bool {
        if self.steps.is_empty() {
            return false;
        }
        let (at, step) = self.steps.remove(0);
        let Some(pods) = cluster.pods.get_mut(number) else { return false };
        if pods.gone.is_some() || pods.is_ended() && !matches!(step, PodStep::Collect | PodStep::Remove) {
            self.steps.clear();
            return false;
        }
        match step {
            PodStep::Status => pods.ready = Some((false, at)),
            PodStep::Start => self.start(pods, around, at),
            PodStep::Reject => {
                pods.phase = Phase::Failed;
                (pods.ended, pods.reason) = (Some(at), Some("UnexpectedAdmissionError"));
            }
            PodStep::InitFailure => {
                for status in &mut pods.containers {
                    let name =
                        around.template.containers.get(status.nth).map(|container| container.name.as_str());
                    let code = self.plan.init.iter().find(|(init, _)| Some(init.as_str()) == name);
                    status.terminated = code.map(|(_, code)| (*code, at)).or(status.terminated);
                }
                end(pods, Phase::Failed, at);
            }
            PodStep::Restart(left) => {
                pods.restarts = pods.restarts.saturating_add(1);
                self.restart(left.map(|left| left.saturating_sub(1)), at);
            }
            PodStep::End => self.end(pods, around, None, at),
            PodStep::Terminated(_) if pods.phase == Phase::Pending => end(pods, Phase::Failed, at),
            PodStep::Terminated(code) => self.end(pods, around, Some(code), at),
            PodStep::Silence => {
                self.is_silent = true;
                self.steps.retain(|(_, step)| matches!(step, PodStep::Collect | PodStep::Disrupt));
                if let Some(after) = self.plan.unready {
                    self.push(at + after, PodStep::Unready);
                }
            }
            PodStep::Unready => pods.ready = Some((false, at)),
            PodStep::Disrupt => return self.disrupt(cluster, number, around, at),
            PodStep::Collect => {
                if !pods.is_ended() {
                    end_without_status(pods, at);
                }
                cluster.delete_pods(number, Time::START, at);
            }
            PodStep::Remove => {}
        }
        if step == PodStep::Remove || !self.removes_later(cluster, number, around, at) {
            cluster.collect(number, at);
        }
        true
    }

    /// Lets others see how a pod ended before its object goes. A finalizer does that by itself.
    fn removes_later(&mut self, cluster: &Cluster, number: usize, around: &PodContext<'_>, at: Time) -> bool {
        let Some(pods) = cluster.pods.get(number) else { return false };
        let waits = pods.is_ended()
            && !pods.finalizer
            && pods.gone.is_none()
            && pods.deletion.is_some()
            && !(around.is_seen_late && pods.started.is_some());
        if waits {
            self.steps.clear();
            self.push(at + REMOVAL, PodStep::Remove);
        }
        waits
    }

    fn start(&mut self, pods: &mut PodGroup, around: &PodContext<'_>, at: Time) {
        pods.containers = around
            .template
            .containers
            .iter()
            .enumerate()
            .map(|(nth, container)| {
                let is_done = container.sort == ContainerSort::Init && self.plan.init.is_empty();
                ContainerStatus { nth, sort: container.sort, terminated: is_done.then_some((0, at)) }
            })
            .collect();
        if !self.plan.init.is_empty() {
            pods.ready.get_or_insert((false, at));
            if let Some(run) = self.plan.run {
                self.push(at + run, PodStep::InitFailure);
            }
            return;
        }
        pods.phase = Phase::Running;
        pods.started = Some(at);
        if !around.is_never_ready {
            pods.ready = Some((true, at));
        }
        self.disrupt_from(at);
        if let Some(after) = self.plan.silent {
            self.push(at + after, PodStep::Silence);
        }
        self.restart(self.plan.restarts.map_or(Some(0), |restarts| restarts.count), at);
    }

    /// Returns how long the kubelet waits before the next restart, and counts it.
    fn crash_wait(&mut self) -> Time {
        let wait = CRASH_WAIT.millis().checked_shl(self.crashes).unwrap_or(i64::MAX);
        self.crashes = (self.crashes + 1).min(16);
        Time::from_millis(wait.min(MOST_CRASH_WAIT.millis()))
    }

    /// Plans the next restart, or the last run.
    fn restart(&mut self, left: Option<u32>, at: Time) {
        match (self.plan.restarts, left) {
            (Some(restarts), left) if left != Some(0) => {
                let wait = if restarts.is_backed_off { self.crash_wait() } else { Time::START };
                self.push(at + restarts.every + wait, PodStep::Restart(left));
            }
            _ => {
                if let Some(run) = self.plan.run {
                    self.push(at + run + END_LAG, PodStep::End);
                }
            }
        }
    }

    /// Ends pods with an exit code of their program; where the kubelet starts it again in its pod, that is a restart.
    pub(super) fn exit(
        &mut self,
        cluster: &mut Cluster,
        number: usize,
        around: &PodContext<'_>,
        code: i64,
        at: Time,
    ) {
        self.is_stale = false;
        if let Some(pods) = cluster.pods.get_mut(number) {
            if around.template.restart.restarts_after(code) {
                pods.restarts = pods.restarts.saturating_add(1);
                return;
            }
            self.end(pods, around, Some(code), at);
        }
        cluster.collect(number, at);
    }

    /// Ends one container of a pod that runs on.
    pub(super) fn end_container(
        &self,
        cluster: &mut Cluster,
        number: usize,
        around: &PodContext<'_>,
        (name, code): (&str, i64),
        at: Time,
    ) {
        let Some(pods) = cluster.pods.get_mut(number).filter(|pods| pods.phase == Phase::Running) else {
            return;
        };
        for status in &mut pods.containers {
            if around.template.containers.get(status.nth).is_some_and(|container| container.name == name) {
                status.terminated.get_or_insert((code, at));
            }
        }
        pods.ready = Some((false, at));
    }

    /// Ends the containers of a pod that runs; with one exit code, where it got SIGTERM.
    fn end(&mut self, pods: &mut PodGroup, around: &PodContext<'_>, code: Option<i64>, at: Time) {
        let mut is_failed = false;
        let mut is_first = true;
        for status in &mut pods.containers {
            let name = around.template.containers.get(status.nth).map_or("", |container| &container.name);
            match status.sort {
                ContainerSort::Init => {}
                ContainerSort::Sidecar => {
                    status.terminated = Some((code.unwrap_or(self.plan.sidecar), at));
                }
                ContainerSort::Main => {
                    let planned = self
                        .plan
                        .exit
                        .iter()
                        .find(|(of, _)| if of.is_empty() { is_first } else { of == name })
                        .map_or(0, |(_, code)| *code);
                    // SIGTERM ends the first container, and the others with it.
                    let code = code.map_or(planned, |code| if is_first { code } else { 0 });
                    is_first = false;
                    let (code, at) = status.terminated.unwrap_or((code, at));
                    is_failed |= code != 0;
                    status.terminated = Some((code, at));
                    if code == 137 && self.plan.is_oom {
                        pods.reason = Some("OOMKilled");
                    }
                }
            }
        }
        end(pods, if is_failed { Phase::Failed } else { Phase::Succeeded }, at);
        self.steps.clear();
    }

    fn disrupt(&mut self, cluster: &mut Cluster, number: usize, around: &PodContext<'_>, at: Time) -> bool {
        let (Some(disruption), Some(pods)) = (self.plan.disruption, cluster.pods.get_mut(number)) else {
            return false;
        };
        let mut grace = around.template.grace;
        match disruption.cause {
            // The API server writes the deletion, and takes the object away after that: two events for all who watch.
            DisruptionCause::ForcedDeletion
                if pods.phase == Phase::Running
                    && !pods.finalizer
                    && !around.is_seen_late
                    && pods.deletion.is_none() =>
            {
                pods.deletion = Some(Deletion { since: at, at, grace: Time::START });
                self.steps.clear();
                self.push(at + REMOVAL, PodStep::Remove);
                return true;
            }
            DisruptionCause::Pressure => {
                pods.disrupted = true;
                pods.reason = Some("Evicted");
                if pods.phase == Phase::Running {
                    self.end(pods, around, None, at);
                    for status in &mut pods.containers {
                        let code = if status.nth == 0 { 137 } else { 0 };
                        status.terminated = status.terminated.map(|(_, at)| (code, at));
                    }
                    pods.phase = Phase::Failed;
                } else {
                    end(pods, Phase::Failed, at);
                }
                cluster.collect(number, at);
                return true;
            }
            DisruptionCause::Deletion => {}
            DisruptionCause::ForcedDeletion => grace = Time::START,
            cause => {
                pods.disrupted = true;
                pods.reason = reason_of(cause).or(pods.reason);
            }
        }
        cluster.delete_pods(number, grace, at);
        if let Some(pods) = cluster.pods.get(number) {
            self.on_deletion(pods, at);
        }
        true
    }
}

/// Returns the reason of the condition `DisruptionTarget`.
fn reason_of(cause: DisruptionCause) -> Option<&'static str> {
    match cause {
        DisruptionCause::Eviction => Some("EvictionByEvictionAPI"),
        DisruptionCause::Preemption => Some("PreemptionByScheduler"),
        DisruptionCause::Taint | DisruptionCause::LostNode => Some("DeletionByTaintManager"),
        DisruptionCause::Deletion | DisruptionCause::ForcedDeletion | DisruptionCause::Pressure => None,
    }
}

fn end(pods: &mut PodGroup, phase: Phase, at: Time) {
    pods.phase = phase;
    pods.ended = Some(at);
    if pods.ready.is_none_or(|(is_ready, _)| is_ready) {
        pods.ready = Some((false, at));
    }
}

/// Ends pods of a node that is gone: no container has ended.
fn end_without_status(pods: &mut PodGroup, at: Time) {
    (pods.phase, pods.reason) = (Phase::Failed, Some("DeletionByPodGC"));
    pods.ended = Some(at);
    pods.reason = Some("DeletionByPodGC");
}
