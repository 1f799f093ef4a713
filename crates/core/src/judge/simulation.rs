//! What manifests say about a simulation of their Jobs, and what has to be assumed.

use crate::controllers::job::spec::JobSpec;
use crate::controllers::object_story::{ObjectStory, queue_of, subject};
use crate::controllers::pod::unreachable_tolerated;
use crate::controllers::program::Peers;
use crate::controllers::script::{INQUEUE, Termination};
use crate::controllers::story::Assumptions;
use crate::controllers::subject::{Subject, Together};
use crate::controllers::time::Time;
use crate::judge::api::{self, RefusedPod};
use crate::judge::commands::{CommandLine, Value as Given};
use crate::judge::peers::{joins, max_restarts, use_of_index, works_with_others};
use crate::judge::ranks::WorkloadReading;
use crate::judge::sigterm::ends_with_zero;
use crate::kinds::{AcceleratorCount, Entry, PodTemplate, Workload};
use crate::text::pointer::Pointer;
use crate::text::value::{Value, json};

/// What a policy assumes of programs, where nothing else says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramDefaults {
    /// The work of a run without a deadline; of one with a deadline, half of it is assumed.
    pub(crate) runtime: Time,
    /// From when all pods run until they work.
    pub(crate) startup: Time,
    /// How often work is saved; nothing if never.
    pub(crate) checkpoint: Option<Time>,
    /// How long ranks wait for one that is lost.
    pub(crate) peer_timeout: Time,
    /// How long a program takes to end after SIGTERM.
    pub(crate) grace: Time,
    /// How long Kueue waits for the pods of what it admitted (`waitForPodsReady`); nothing if it does not.
    pub(crate) wait_for_pods_ready: Option<Time>,
}

impl Default for ProgramDefaults {
    fn default() -> Self {
        Self {
            runtime: Time::from_seconds(12 * 3_600),
            startup: Time::from_seconds(120),
            checkpoint: Some(Time::from_seconds(1_800)),
            // `init_process_group` of PyTorch waits for ten minutes with NCCL.
            peer_timeout: Time::from_seconds(600),
            grace: Time::from_seconds(1),
            // On by default since Kueue 0.19.
            wait_for_pods_ready: Some(Time::from_seconds(1_800)),
        }
    }
}

/// A Job in a manifest, to simulate.
#[derive(Clone, Debug)]
pub struct SimulatedJob<'a> {
    /// Where its `spec` is.
    pub pointer: Pointer,
    /// Its `spec`.
    pub spec: &'a Value,
    /// Its `spec`, as its controller reads it.
    pub job_spec: JobSpec,
    /// The Job as Kueue sees it, where it waits in a queue.
    pub queued: Option<QueuedJob>,
    /// The accelerators of each pod.
    pub accelerators: i64,
    /// What is assumed. Where the peers are not known, the others are [`Self::or_peers`].
    pub assumptions: Assumptions,
    /// What the other ranks may do instead, where that is not known.
    pub or_peers: Option<Peers>,
    /// Why the peers are assumed to do what they do.
    pub because: String,
}

/// A Job in a queue of Kueue.
#[derive(Clone, Debug)]
pub struct QueuedJob {
    /// The Job as it is created.
    manifest: Value,
    /// Its pods.
    pub subject: Subject,
}

/// An object whose operator is modelled, to simulate.
#[derive(Clone, Debug)]
pub struct SimulatedObject<'a> {
    /// The object.
    pub manifest: &'a Value,
    /// Objects that are there before it.
    pub before: &'a [Value],
    /// Its pods.
    pub subject: Subject,
    /// Whether its pods have accelerators.
    pub has_accelerators: bool,
    /// What is assumed. Where the peers are not known, the others are [`Self::or_peers`].
    pub assumptions: Assumptions,
    /// What the other ranks may do instead, where that is not known.
    pub or_peers: Option<Peers>,
    /// Why the peers are assumed to do what they do.
    pub because: String,
    /// Why the API server refuses pods of its templates, from the beginning.
    pub refused: Vec<String>,
    /// Whether its templates are validated; not if its `spec` is too large for that.
    pub is_validated: bool,
    /// The object as the model reads it, where pods are refused.
    marked: Option<Value>,
}

/// Returns what is simulated of an object whose operator is modelled; nothing for others, or where it needs an object that is
/// not there.
#[must_use]
pub fn object<'a>(
    workload: &Workload<'a>,
    before: &'a [Value],
    defaults: &ProgramDefaults,
) -> Option<SimulatedObject<'a>> {
    let object = read_object(workload, &WorkloadReading::from_workload(workload), before, defaults)?;
    let Some(refused) = api::refused_pods(workload.kind, object.manifest) else {
        return Some(SimulatedObject { is_validated: false, ..object });
    };
    if refused.is_empty() {
        return Some(object);
    }
    let marked = marked(workload, &refused);
    let refused = refused.into_iter().map(|refused| refused.finding.message.into_owned()).collect();
    Some(SimulatedObject { refused, marked: Some(marked), ..object })
}

/// Returns why the API server refuses the pods that are made from now on of an object in a cluster, and the object as the model
/// reads it then; nothing if it accepts them. What is missing may be added by a webhook, as it was for the pods that are there.
#[must_use]
pub fn refused_from_now_on(object: &Value) -> Option<(Vec<String>, Value)> {
    let workload = Workload::from_object(object)?;
    // Other operators make pods of what they made before, which an edit leaves alone: Jobs, a JobSet, a Ray cluster.
    if !workload.kind.made.is_silent {
        return None;
    }
    let mut refused = api::refused_pods(workload.kind, object)?;
    refused.retain(|refused| !refused.is_missing);
    if refused.is_empty() {
        return None;
    }
    let marked = marked(&workload, &refused);
    Some((refused.into_iter().map(|refused| refused.finding.message.into_owned()).collect(), marked))
}

/// Returns an object in which the templates whose pods are refused have a container without a name: the model knows no more of
/// validation than the mistakes that are made most, and that is one of them.
fn marked(workload: &Workload<'_>, refused: &[RefusedPod]) -> Value {
    let mut marked = workload.object.value.cloned().unwrap_or_default();
    for pod in &workload.pods {
        let template = &pod.template.pointer;
        if !refused.iter().any(|refused| refused.finding.path.below(template).is_some()) {
            continue;
        }
        let container = pod.spec.get("containers").pointer / 0;
        if let Some(fields) = marked.pointer_mut(&container.to_json_pointer()).and_then(Value::as_object_mut)
        {
            fields.insert("name", Value::from(""));
        }
    }
    marked
}

/// Does the same with a workload whose texts are read.
pub(super) fn read_object<'a>(
    workload: &Workload<'a>,
    reading: &WorkloadReading<'_>,
    before: &'a [Value],
    defaults: &ProgramDefaults,
) -> Option<SimulatedObject<'a>> {
    let manifest = workload.object.value?;
    let mut subject = subject(manifest, before)?;
    let has_accelerators = weigh(&mut subject, workload);
    let program = program_of(workload, reading, subject.together(), subject.deadline, defaults);
    let (assumptions, or_peers, because) = program;
    Some(SimulatedObject {
        manifest,
        before,
        has_accelerators,
        assumptions,
        subject,
        or_peers,
        because,
        refused: Vec::new(),
        is_validated: true,
        marked: None,
    })
}

/// What the other ranks do when one is lost, what they may do instead where that is not known, and why.
type PeersBecause = (Peers, Option<Peers>, String);
/// What is assumed of a program, with the last two of those.
type AssumedProgram = (Assumptions, Option<Peers>, String);

/// Returns what is assumed of the program of an object that runs in a cluster, whose pods work together so.
#[must_use]
pub fn live_program(
    workload: &Workload<'_>,
    together: Together,
    deadline: Option<Time>,
    defaults: &ProgramDefaults,
) -> AssumedProgram {
    program_of(workload, &WorkloadReading::from_workload(workload), together, deadline, defaults)
}

fn program_of(
    workload: &Workload<'_>,
    reading: &WorkloadReading<'_>,
    together: Together,
    deadline: Option<Time>,
    defaults: &ProgramDefaults,
) -> AssumedProgram {
    let pods = || (0..workload.pods.len()).map(|index| reading.commands(index).containers.as_slice());
    let lines: Vec<&CommandLine<'_>> = pods().flatten().collect();
    let (peers, or_peers, because) = peers_of_object(workload, together, &lines, defaults.peer_timeout);
    let ends_with_zero = pods().any(|lines| ends_with_zero(lines).is_some());
    let tolerations = workload.pods.iter().map(|pod| pod.spec.get("tolerations"));
    let tolerated = tolerations.map(|part| unreachable_tolerated(part.values()));
    // Where the object has no pods of its own, its runtime has them.
    let unreachable = tolerated.max().unwrap_or_else(|| unreachable_tolerated([]));
    (assumed(peers, deadline, ends_with_zero, unreachable, defaults), or_peers, because)
}

/// Returns what is assumed of a program: half of its deadline as work, where there is one.
fn assumed(
    peers: Peers,
    deadline: Option<Time>,
    ends_with_zero: bool,
    unreachable: Option<Time>,
    defaults: &ProgramDefaults,
) -> Assumptions {
    let half = |deadline: Time| Time::from_millis(deadline.millis() / 2);
    let term = Termination { after: Some(defaults.grace), ..Termination::default() };
    Assumptions {
        runtime: deadline.map_or(defaults.runtime, half),
        startup: defaults.startup,
        checkpoint: defaults.checkpoint,
        peers,
        pods_per_node: 1,
        term: if ends_with_zero { Termination { code: 0, ..term } } else { term },
        unreachable,
        wait_for_pods_ready: defaults.wait_for_pods_ready,
        gang_after: Some(INQUEUE),
    }
}

/// Lets each pod count for its accelerators. Returns whether any has one.
pub(super) fn weigh(subject: &mut Subject, workload: &Workload<'_>) -> bool {
    let held = |pod: &PodTemplate<'_>| AcceleratorCount::from_pod(pod).map_or(0, |held| held.total());
    // Those of a kind with runtimes are in the object, for each node.
    let nodes = subject.roles.iter().map(|role| i64::from(role.count)).max().unwrap_or_default().max(1);
    let of_run = workload.kind.runs_in.and_then(|_| AcceleratorCount::from_run(workload, 0));
    let of_node = of_run.map_or(0, |held| held.total() / nodes);
    if of_node == 0 && workload.pods.iter().all(|pod| held(pod) == 0) {
        return false;
    }
    for role in &mut subject.roles {
        let of_role = workload.pods.iter().find(|pod| role.is_named(name_of(pod)));
        let held = of_role.map_or(of_node, held).max(of_node);
        role.weight = u32::try_from(held).unwrap_or(u32::MAX);
    }
    true
}

/// Returns what a role is called in the manifest: the key or the name of the item above its template.
pub(super) fn name_of<'a>(pod: &PodTemplate<'a>) -> &'a str {
    let group = |entry: &Entry<'a>| entry.part.get("groupName").text().set();
    let entry = pod.entry.as_ref();
    entry.and_then(|entry| entry.name.or_else(|| group(entry))).unwrap_or_default()
}

/// Returns what the other ranks of an object do when one is lost: those of kubeflow.org are joined by their operator.
fn peers_of_object(
    workload: &Workload<'_>,
    together: Together,
    lines: &[&CommandLine<'_>],
    timeout: Time,
) -> PeersBecause {
    if together.count <= 1 {
        return one_at_a_time();
    }
    if together.has_dashboard {
        let because = "what Ray makes of a lost pod is not simulated";
        return (Peers::Independent, None, because.to_owned());
    }
    if let Some(peers) = peers_by_command(lines.iter().copied(), timeout) {
        return peers;
    }
    if together.is_gang {
        let because = format!("the pods of {} are the ranks of one program", workload.kind.as_str());
        return (Peers::Exit(timeout), None, because);
    }
    unknown_peers(timeout)
}

fn one_at_a_time() -> PeersBecause {
    (Peers::Independent, None, "one pod runs at a time".to_owned())
}

fn unknown_peers(timeout: Time) -> PeersBecause {
    let because = "the command does not show whether the pods need one another";
    (Peers::Exit(timeout), Some(Peers::Independent), because.to_owned())
}

/// Returns what the other ranks do when one is lost, where a command line says it.
fn peers_by_command<'a, 'l: 'a>(
    lines: impl Iterator<Item = &'a CommandLine<'l>> + Clone,
    timeout: Time,
) -> Option<PeersBecause> {
    if let Some((restarts, written)) = lines.clone().find_map(restarts_inside) {
        return Some((
            Peers::Restart(restarts),
            None,
            format!("`{written}` restarts the ranks in their pods"),
        ));
    }
    let (_, command) = lines.clone().find_map(joins)?;
    Some((Peers::Exit(timeout), None, format!("{command} joins the pods")))
}

/// Returns the Jobs of a workload.
#[must_use]
pub fn jobs<'a>(workload: &Workload<'a>, defaults: &ProgramDefaults) -> Vec<SimulatedJob<'a>> {
    let reading = WorkloadReading::from_workload(workload);
    let pods = workload.pods.iter().enumerate();
    let mut jobs: Vec<SimulatedJob<'a>> = pods
        .filter_map(|(index, pod)| SimulatedJob::from_pod(pod, &reading.commands(index).containers, defaults))
        .collect();
    for job in &mut jobs {
        job.queued = workload.object.value.and_then(|object| QueuedJob::from_object(object, &job.pointer));
    }
    jobs
}

impl QueuedJob {
    /// Returns the Job whose `spec` is at a place, if it is a whole object or the template of a CronJob, and waits in a queue.
    #[must_use]
    pub fn from_object(object: &Value, spec: &Pointer) -> Option<Self> {
        let around = spec.parent().and_then(|around| around.find(object))?;
        if around.get("kind").is_some_and(|kind| kind.as_str() != Some("Job")) {
            return None;
        }
        let metadata = around.get("metadata").filter(|metadata| metadata.is_object());
        let mut metadata = metadata.cloned().unwrap_or_else(|| json!({}));
        // The API server gives a Job without labels those of its pods.
        let has_labels = |labels: &Value| labels.as_object().is_some_and(|labels| !labels.is_empty());
        if !metadata.get("labels").is_some_and(has_labels)
            && let Some(labels) = around.pointer("/spec/template/metadata/labels")
        {
            metadata["labels"] = labels.clone();
        }
        let mut manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata});
        queue_of(&manifest)?;
        manifest["metadata"]["name"] = "job".into();
        manifest["spec"] = around.get("spec")?.clone();
        let subject = Subject::from_job_manifest(&manifest);
        Some(Self { manifest, subject })
    }

    /// Returns what it needs to be simulated.
    #[must_use]
    pub fn story(&self) -> ObjectStory<'_> {
        ObjectStory { manifest: &self.manifest, before: &[], subject: &self.subject }
    }
}

impl SimulatedObject<'_> {
    /// Returns what it needs to be simulated.
    #[must_use]
    pub fn story(&self) -> ObjectStory<'_> {
        ObjectStory {
            manifest: self.marked.as_ref().unwrap_or(self.manifest),
            before: self.before,
            subject: &self.subject,
        }
    }
}

impl<'a> SimulatedJob<'a> {
    /// Returns the Job around a pod template, if there is one. Its containers have these command lines.
    pub(super) fn from_pod(
        pod: &PodTemplate<'a>,
        lines: &[CommandLine<'_>],
        defaults: &ProgramDefaults,
    ) -> Option<Self> {
        let spec = pod.around.value.filter(|_| pod.form.is_job())?;
        let job_spec = JobSpec::from_spec(spec);
        let (peers, or_peers, because) = peers(&job_spec, lines, defaults.peer_timeout);
        let unreachable = unreachable_tolerated(pod.spec.get("tolerations").values());
        let ends_with_zero = ends_with_zero(lines).is_some();
        Some(Self {
            pointer: pod.around.pointer.clone(),
            spec,
            accelerators: AcceleratorCount::from_pod(pod).map_or(0, |held| held.total()),
            assumptions: assumed(peers, job_spec.deadline, ends_with_zero, unreachable, defaults),
            job_spec,
            queued: None,
            or_peers,
            because,
        })
    }
}

/// Returns what the other ranks do when one is lost, what they may do instead where that is not known, and why.
fn peers(spec: &JobSpec, lines: &[CommandLine<'_>], timeout: Time) -> PeersBecause {
    if spec.at_once() <= 1 {
        return one_at_a_time();
    }
    if let Some(peers) = peers_by_command(lines.iter(), timeout) {
        return peers;
    }
    let is_sweep = spec.indexed
        && lines.iter().any(|line| use_of_index(line).is_some())
        && !lines.iter().any(works_with_others);
    if is_sweep {
        return (Peers::Independent, None, "each pod works on its own index".to_owned());
    }
    if spec.completions.is_none_or(|all| all > spec.parallelism) {
        return (Peers::Independent, None, "the pods come in waves".to_owned());
    }
    unknown_peers(timeout)
}

/// Returns how often an elastic launcher restarts its ranks in their pods, and the option that says so.
fn restarts_inside(line: &CommandLine<'_>) -> Option<(u32, String)> {
    line.launches().find_map(|launch| {
        let Given::Known(times) = max_restarts(&launch)? else { return None };
        let times = times.parse().ok()?;
        Some((times, format!("--max-restarts {times}")))
    })
}
