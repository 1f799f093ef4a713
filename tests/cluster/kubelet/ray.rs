//! The Ray in a scenario: the dashboards of its clusters, which live and die with the heads of those, the
//! programs that they know, and the containers that submit programs.

use std::collections::BTreeMap;
use std::time::Duration;

use jobgate::text::value::Value;

use super::event::Dashboard;
use super::role;
use super::script::{End, Exit, Life, Plan, ProgramPlan, Script, Submit};
use super::timeline::{self, Seen, Timeline, tenths};

/// The dashboards of a scenario.
#[derive(Debug, Default)]
pub(super) struct Ray {
    is_down: bool,
    /// What each cluster's dashboard knows, while its head is the same.
    clusters: BTreeMap<String, Known>,
    programs: Vec<Program>,
}

#[derive(Debug, Default)]
struct Known {
    head: Head,
    /// Programs by their ids.
    programs: BTreeMap<String, usize>,
}

/// The head of a cluster: what its dashboard knows is gone with the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Head {
    uid: String,
    restarts: u64,
}

#[derive(Debug)]
struct Program {
    plan: ProgramPlan,
    cluster: String,
    head: Head,
    id: String,
    by: &'static str,
    submitted: Duration,
    stopped: Option<Duration>,
    /// Whether KubeRay had it stopped.
    is_stopped_by_operator: bool,
    /// When it was forgotten.
    lost: Option<Duration>,
}

/// What a dashboard says of a program.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// There is no answer.
    Silence,
    Unknown,
    Is(Stand),
}

/// How far a program has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stand {
    pub(super) state: &'static str,
    pub(super) message: String,
    pub(super) started: Option<Duration>,
    pub(super) ended: Option<Duration>,
}

impl Stand {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, "SUCCEEDED" | "FAILED" | "STOPPED")
    }
}

impl Program {
    fn stand(&self, now: Duration) -> Stand {
        let started = self.submitted + self.plan.pending;
        let end = self.plan.run.map(|run| started + run);
        let (state, started, ended) = match self.stopped {
            Some(stopped) if end.is_none_or(|end| stopped < end) => ("STOPPED", Some(started), Some(stopped)),
            _ if now < started => ("PENDING", None, None),
            _ => match end.filter(|end| *end <= now) {
                None => ("RUNNING", Some(started), None),
                ended => (name_of(self.plan.end), Some(started), ended),
            },
        };
        let message = match self.plan.message.as_str() {
            "" => format!("program {}", state.to_lowercase()),
            message => message.to_owned(),
        };
        Stand { state, message, started, ended }
    }
}

fn name_of(end: End) -> &'static str {
    match end {
        End::Succeeded => "SUCCEEDED",
        End::Failed => "FAILED",
        End::Stopped => "STOPPED",
    }
}

impl Ray {
    /// Returns what the dashboard of a cluster knows; none: it does not answer.
    fn known(&mut self, timeline: &Timeline, cluster: &str, now: Duration) -> Option<&mut Known> {
        let head = timeline.head(cluster).filter(|_| !self.is_down)?;
        let head = Head { uid: head.uid.clone(), restarts: head.restarts };
        let known = self.clusters.entry(cluster.to_owned()).or_default();
        if known.head != head {
            for place in known.programs.values() {
                if let Some(program) = self.programs.get_mut(*place) {
                    program.lost.get_or_insert(now);
                }
            }
            *known = Known { head, programs: BTreeMap::new() };
        }
        Some(known)
    }

    /// Asks about a program.
    pub(super) fn ask(&mut self, timeline: &Timeline, cluster: &str, id: &str, now: Duration) -> Answer {
        let Some(known) = self.known(timeline, cluster, now) else { return Answer::Silence };
        let place = known.programs.get(id).copied();
        let program = place.and_then(|place| self.programs.get(place));
        program.map_or(Answer::Unknown, |program| Answer::Is(program.stand(now)))
    }

    /// Submits a program, and tells whether its id was free; none: there is no answer.
    pub(super) fn submit(
        &mut self,
        timeline: &Timeline,
        script: &Script,
        (cluster, id): (&str, &str),
        by: &'static str,
        now: Duration,
    ) -> Option<bool> {
        let place = self.programs.len();
        let known = self.known(timeline, cluster, now)?;
        if known.programs.contains_key(id) {
            return Some(false);
        }
        known.programs.insert(id.to_owned(), place);
        let head = known.head.clone();
        self.programs.push(Program {
            plan: script.program(u64::try_from(place).unwrap_or(u64::MAX)),
            cluster: cluster.to_owned(),
            head,
            id: id.to_owned(),
            by,
            submitted: now,
            stopped: None,
            is_stopped_by_operator: false,
            lost: None,
        });
        Some(true)
    }

    /// Stops a program, and tells whether it ran.
    pub(super) fn stop(&mut self, timeline: &Timeline, cluster: &str, id: &str, now: Duration) -> bool {
        let place = self.known(timeline, cluster, now).and_then(|known| known.programs.get(id).copied());
        let Some(program) = place.and_then(|place| self.programs.get_mut(place)) else { return false };
        let runs = !program.stand(now).is_over();
        if runs {
            program.stopped = Some(now);
            program.is_stopped_by_operator = true;
        }
        runs
    }

    /// Has something happen to all dashboards.
    pub(super) fn happen(&mut self, what: Dashboard, now: Duration) {
        match what {
            Dashboard::Down => self.is_down = true,
            Dashboard::Up => self.is_down = false,
            Dashboard::Forget => {
                for program in &mut self.programs {
                    program.lost.get_or_insert(now);
                }
                for known in self.clusters.values_mut() {
                    known.programs.clear();
                }
            }
            Dashboard::Stop => {
                for program in self.programs.iter_mut().filter(|program| !program.stand(now).is_over()) {
                    program.stopped = Some(now);
                }
            }
        }
    }

    /// Returns what became of all programs.
    pub(super) fn programs(&self, timeline: &Timeline, now: Duration) -> Vec<timeline::Program> {
        let one = |program: &Program| {
            let stand = program.stand(now);
            let (mut state, mut ended) = (stand.state, stand.ended.map(tenths));
            // A program is gone with its head.
            let head = timeline.pods.iter().find(|pod| pod.uid == program.head.uid);
            let gone = |pod: &Seen| [pod.deleting, pod.ended, pod.gone].into_iter().flatten().next();
            let lost = [program.lost.map(tenths), head.and_then(gone)].into_iter().flatten();
            if let Some(lost) = lost.reduce(f64::min).filter(|lost| ended.is_none_or(|ended| *lost < ended)) {
                (state, ended) = ("LOST", Some(lost));
            }
            timeline::Program {
                cluster: timeline.cluster(&program.cluster).map(|(number, _)| number).unwrap_or_default(),
                id: program.id.clone(),
                by: program.by,
                submitted: tenths(program.submitted),
                stopped: program.stopped.filter(|_| program.is_stopped_by_operator).map(tenths),
                state,
                ended,
            }
        };
        self.programs.iter().map(one).collect()
    }
}

/// How often a container that submits asks its dashboard.
const POLL: Duration = Duration::from_millis(200);

/// A container that submits a program: the first one of a submitter's pod, or one beside the head.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) container: String,
    pub(super) is_sidecar: bool,
    submit: Submit,
    /// From the start to the end of a sidecar that does not follow its program.
    run: Option<Duration>,
    exit: i64,
    id: String,
    /// The cluster, or the Service of its head.
    cluster: String,
    /// Whether it has submitted a program, or found its own.
    is_known: bool,
    /// When it ends, and how.
    end: Option<(Duration, i64)>,
}

/// The container that KubeRay puts beside a head.
const SIDECAR: &str = "ray-job-submitter";

impl Submission {
    /// Finds the container of a pod that submits, if it has one.
    pub(super) fn of(pod: &Value, plan: &Plan) -> Option<Self> {
        let is_submitter = role::of(pod).life == Life::Follows;
        let containers = pod["spec"]["containers"].as_array()?;
        let named = containers.iter().find(|container| container["name"] == SIDECAR);
        let container = named.or_else(|| containers.first().filter(|_| is_submitter))?;
        let variable = |name: &str| {
            let variables = container["env"].as_array().into_iter().flatten();
            let found = variables.into_iter().find(|variable| variable["name"] == name);
            found.and_then(|variable| variable["value"].as_str()).unwrap_or_default().to_owned()
        };
        let own = pod["metadata"]["labels"]["ray.io/cluster"].as_str().filter(|_| !is_submitter);
        let service = || {
            let address = variable("RAY_DASHBOARD_ADDRESS");
            let host = address.rsplit("://").next().unwrap_or_default();
            host.split('.').next().unwrap_or_default().to_owned()
        };
        let (submit, run, exit) = if is_submitter {
            let exit = match &plan.exit {
                Exit::First(code) => *code,
                Exit::Each(_) => 0,
            };
            (plan.submit.clone(), None, exit)
        } else {
            (plan.submitter.submit.clone(), plan.submitter.run, plan.submitter.exit)
        };
        Some(Self {
            container: container["name"].as_str().unwrap_or_default().to_owned(),
            is_sidecar: !is_submitter,
            submit,
            run,
            exit,
            id: variable("RAY_JOB_SUBMISSION_ID"),
            cluster: own.map_or_else(service, str::to_owned),
            is_known: false,
            end: None,
        })
    }

    /// Returns how long after this moment it does something next, if nothing happens; `since` is from its start.
    pub(super) fn next(&self, since: Duration) -> Duration {
        match self.submit.after {
            Some(after) if since < after => after - since,
            _ => POLL,
        }
    }

    /// Does what the container does at this moment; `since` is from its start, `now` from the beginning of the
    /// scenario. Returns its exit code when it ends.
    pub(super) fn act(
        &mut self,
        (ray, timeline, script): (&mut Ray, &Timeline, &Script),
        since: Duration,
        now: Duration,
    ) -> Option<i64> {
        if let Some((at, code)) = self.end {
            return (since >= at).then_some(code);
        }
        let name = timeline.cluster(&self.cluster).map(|(_, name)| name.to_owned());
        if let (Some(cluster), true) = (name, self.submit.after.is_some_and(|after| since >= after)) {
            match ray.ask(timeline, &cluster, &self.id, now) {
                Answer::Is(stand) => {
                    self.is_known = true;
                    if self.submit.follows && stand.is_over() {
                        self.end = Some((since + Duration::from_millis(500), self.exit));
                    }
                }
                // Its stream of output breaks off.
                Answer::Silence | Answer::Unknown if self.is_known && self.submit.follows => {
                    self.end = Some((since + Duration::from_secs(1), self.submit.on_loss));
                }
                Answer::Silence => {}
                Answer::Unknown => {
                    let by = if self.is_sidecar { "sidecar" } else { "submitter" };
                    ray.submit(timeline, script, (&cluster, &self.id), by, now);
                    self.is_known = true;
                }
            }
        }
        let ends = self.is_sidecar && !self.submit.follows && self.run.is_some_and(|run| since >= run);
        ends.then_some(self.exit)
    }
}

#[cfg(test)]
#[path = "ray_tests.rs"]
mod tests;
