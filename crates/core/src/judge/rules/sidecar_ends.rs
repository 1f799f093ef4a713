//! A second container does not keep the pod from ending: a server or agent beside the main program is a sidecar.
//!
//! ## Why
//!
//! A pod ends when all of its containers have ended, so a server or agent beside the training program keeps it running
//! after the work is done. The Job does not complete: its GPUs stay taken, what waits for it does not start, and
//! with a deadline it has *failed* in the end, though nothing went wrong.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py]
//!       - name: tensorboard
//!         image: registry.example.com/trainer:v1
//!         command: [tensorboard, --logdir=/logs]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       initContainers:
//!       - name: tensorboard
//!         image: registry.example.com/trainer:v1
//!         restartPolicy: Always
//!         command: [tensorboard, --logdir=/logs]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py]
//! ```
//!
//! ## Fix
//!
//! None: move the container into `initContainers`, and write `restartPolicy: Always` into it. The kubelet starts it
//! before the others, and ends it when they have ended. Kubernetes has such sidecars by default since 1.29, and as
//! a stable feature since 1.33.
//!
//! ## Details
//!
//! What never ends:
//!
//! * `sleep infinity` or for a day and more, `tail -f`, and a loop such as `while true; do …; done` without `break`
//!   or `exit`, as the only command of a container or the last one of its script;
//! * a server: `tensorboard --logdir`, `mlflow server`, `nginx` with `daemon off;`, `vllm serve`, `dockerd`,
//!   `python -m http.server`;
//! * a proxy: `cloud-sql-proxy`, `alloydb-auth-proxy`, `oauth2-proxy`, `envoy`;
//! * an agent: `fluent-bit`, `fluentd`, `filebeat`, `promtail`, `vector`, `otelcol`, `prometheus`, `dcgm-exporter`,
//!   `node_exporter`.
//!
//! A container without a `command` is one of these by its image, such as `fluent/fluent-bit`, `prom/prometheus` and
//! `docker:dind`. A subcommand or option with which a program ends is read: `vector validate`, `promtail --stdin`,
//! `filebeat --once`.
//!
//! Another container of the pod must certainly end: it has a command, and the last program of it is Python with a
//! script, a launcher such as `torchrun`, or a tool that does one thing (`cp`, `curl`, `pytest`). Where that is not
//! known, a container with accelerators is expected to end, and the finding is a note.
//!
//! The rule is silent
//!
//! * where the containers share their processes (`shareProcessNamespace`), so that one may end another;
//! * where a script or variable speaks of `/quitquitquit`, `/-/quit` or the like, a script of the sidecar has a `kill`, or
//!   an option lets others stop it (`--web.enable-lifecycle`);
//! * where OpenKruise ends sidecars (`KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT`);
//! * for containers that a webhook adds, such as Istio's: nothing of them is in the manifest;
//! * for pods that others decide about: workers beside a master or launcher, tasks of Volcano beside other tasks, Jobs
//!   of a JobSet whose `successPolicy` names others, the pods of a Ray cluster, and runtimes.
//!
//! The operators of kubeflow.org read the phase of the pod: a master succeeds when all of its containers have ended,
//! not the one that is called `pytorch`. A container with an accelerator that waits forever is a finding of
//! `accelerator-container-ends`.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>
//! * <https://kubernetes.io/docs/tutorials/configuration/pod-sidecar-containers/>

use crate::judge::commands::{Command, CommandLine, IDLE, PodCommands, base_name};
use crate::judge::container_end::{EndlessCommand, deadline, follows, is_endless, waits, waits_for};
use crate::judge::finding::{Level, Part as FindingPart, Place};
use crate::judge::loss::Loss;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::servers::{Served, is_image_of_server, serves};
use crate::judge::training::{is_trainer, quote};
use crate::kinds::{Deadline, Field, PodTemplate, Restart, Workload, accelerator};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Second container that never ends".into(),
        summary: "A second container does not keep the pod from ending: a server or agent beside the main program is \
                  a sidecar".into(),
        kinds: Kinds::WithRestart,
        default: Action::Warn,
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("sidecar-ends", check)
    }
}

/// Roles whose pods decide whether a job of several has succeeded.
const DECIDING: [&str; 3] = ["Chief", "Launcher", "Master"];

/// Programs that do one thing and end, besides those that train.
const FINITE: [&str; 24] = [
    "alembic",
    "aws",
    "cp",
    "curl",
    "dbt",
    "flyway",
    "gcloud",
    "gsutil",
    "make",
    "mv",
    "mysqldump",
    "pg_dump",
    "pip",
    "psql",
    "pytest",
    "rake",
    "rclone",
    "rm",
    "rsync",
    "s5cmd",
    "tar",
    "unzip",
    "wget",
    "zip",
];

/// Words of a Python program that may be a server itself.
const MAY_SERVE: [&str; 24] = [
    "agent",
    "api",
    "app",
    "bot",
    "celery",
    "consumer",
    "daemon",
    "exporter",
    "flask",
    "gradio",
    "gunicorn",
    "jupyter",
    "listener",
    "proxy",
    "runserver",
    "scheduler",
    "serve",
    "server",
    "serving",
    "streamlit",
    "uvicorn",
    "watch",
    "watcher",
    "worker",
];

/// Texts of those that ask another container to end.
const QUITS: [&str; 5] = ["/-/quit", "/exit", "/quit", "quitquitquit", "shutdown"];

/// With this variable OpenKruise ends a sidecar when the others have ended.
const KRUISE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";

/// The most containers of a pod that are reported.
const MAX_SIDECARS: usize = 8;

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    if cx.partial || matches!(workload.kind.deadline, Deadline::OfOthers { .. }) {
        return;
    }
    for (index, pod) in workload.pods.iter().enumerate() {
        let lines = cx.commands(index);
        if lines.containers.len() < 2 || !decides(workload, pod) || is_ended_by_another(pod) {
            continue;
        }
        in_pod(cx, pod, lines);
    }
}

/// Tells whether a run has certainly not succeeded as long as a pod of a template runs.
fn decides(workload: &Workload<'_>, pod: &PodTemplate<'_>) -> bool {
    if pod.form.is_job() {
        let success = workload.limits.get("successPolicy");
        let names = success.get("targetReplicatedJobs");
        let name = pod.entry.as_ref().and_then(|entry| entry.name);
        let is_of_others = !names.values().is_empty()
            && !names.values().iter().any(|other| other.as_str().is_some_and(|other| Some(other) == name));
        return !pod.form.is_in_list()
            || success.get("operator").text() != Field::Set("Any") && !is_of_others;
    }
    let is_alone = workload.pods.len() == 1;
    match pod.form.restart {
        Restart::Beside { .. } => pod.role().is_some_and(|role| DECIDING.contains(&role) || is_alone),
        Restart::OfTemplate { ends_run, .. } => ends_run.is_some() && is_alone,
        Restart::Free => false,
    }
}

/// Tells whether a container of a pod may end another one.
fn is_ended_by_another(pod: &PodTemplate<'_>) -> bool {
    if !matches!(pod.spec.get("shareProcessNamespace").bool(), Field::Unset | Field::Set(false)) {
        return true;
    }
    let quits = |value: &Value| {
        value.as_str().is_some_and(|text| {
            meter::spend_text(text);
            let text = text.to_ascii_lowercase();
            QUITS.iter().any(|quit| text.contains(quit))
        })
    };
    pod.container_values().any(|(_, container)| {
        let items = |list: &str| container.get(list).and_then(Value::as_array).into_iter().flatten();
        let hooks = ["postStart", "preStop"]
            .map(|hook| container.pointer(&format!("/lifecycle/{hook}/exec/command")));
        let hooks = hooks.into_iter().flatten().filter_map(Value::as_array).flatten();
        items("command").chain(items("args")).chain(hooks).any(quits)
            || items("env")
                .filter_map(|item| item.get("name"))
                .any(|name| quits(name) || name.as_str() == Some(KRUISE))
    })
}

/// A container that never ends.
struct Sidecar {
    /// What it does, for a message.
    what: String,
    at: Pointer,
    /// Whether others can always ask it to end.
    is_asked: bool,
}

fn in_pod(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, lines: &PodCommands<'_>) {
    let lines = lines.containers.as_slice();
    let holds = |line: &CommandLine<'_>| line.container.part.value.is_some_and(accelerator::is_requested_by);
    // `accelerator-container-ends` reports it.
    if lines.iter().any(|line| holds(line) && waits(line).is_some()) {
        return;
    }
    let (mut sidecars, mut main) = (Vec::new(), Vec::new());
    for line in lines {
        match sidecar(line) {
            Some(sidecar) => sidecars.push(sidecar),
            None => main.push(line),
        }
    }
    let sure = main.iter().find(|line| certainly_ends(line));
    let Some(ended) = sure.or_else(|| main.iter().find(|line| holds(line))) else { return };
    let all_are_read = main.iter().all(|line| certainly_ends(line));
    let deadline = deadline(cx.workload, pod);
    let of_whom = if pod.form.is_job() { "Job" } else { "job" };
    let until = match deadline {
        Some(_) => format!("the {of_whom} fails at its deadline, with the work done"),
        None => format!("the {of_whom} never completes"),
    };
    let holding = if pod.holds_accelerators() { ", with its accelerators," } else { "" };
    let name = ended.container.part.get("name").text().set().map_or_else(|| "the others".to_owned(), quote);
    let have = if name.starts_with('`') { "has" } else { "have" };
    for one in sidecars.iter().filter(|one| !one.is_asked || all_are_read).take(MAX_SIDECARS) {
        let message = format!("{}, so the pod runs on{holding} after {name} {have} ended: {until}", one.what);
        let finding = cx.report(&one.at, message);
        finding.help(
            "make it a sidecar: an item of `initContainers` with `restartPolicy: Always` (Kubernetes 1.29)",
        );
        if sure.is_none() {
            finding.at_most(Level::Note);
        }
        if deadline.is_none() {
            finding.costs(Loss { time: None, has_accelerators: pod.holds_accelerators(), checkpoint: None });
        }
        if let Some(deadline) = &deadline {
            finding.label(Place::Here(deadline.clone(), FindingPart::Value), "the deadline");
        }
    }
}

/// Returns what is known of a container that never ends, and that nobody ends.
fn sidecar(line: &CommandLine<'_>) -> Option<Sidecar> {
    let part = &line.container.part;
    if let Some(Served { is_asked }) = is_image_of_server(line) {
        let image = part.get("image");
        let what = format!("the server in {} never ends", quote(image.text().set()?));
        return Some(Sidecar { what, at: image.pointer, is_asked });
    }
    let never_ends = |command: &Command| is_endless(command) || follows(command) || serves(command).is_some();
    let end = waits_for(line, &never_ends)?;
    if end.after_failure || may_be_ended(line, &end) {
        return None;
    }
    let is_it = |command: &&Command| std::ptr::eq(command.words.as_slice(), end.words);
    let served = line.commands.iter().find(is_it).and_then(serves);
    let at = end.words.first().map_or_else(|| part.pointer.clone(), |word| line.place(word));
    Some(Sidecar { what: end.what(), at, is_asked: served.is_some_and(|served| served.is_asked) })
}

/// Tells whether a script may end itself: by a signal, or where a command of its loop fails.
fn may_be_ended(line: &CommandLine<'_>, end: &EndlessCommand<'_>) -> bool {
    let kills = line.argv.iter().any(|item| {
        meter::spend_text(&item.text);
        memchr::memmem::find(item.text.as_bytes(), b"kill").is_some()
    });
    line.unread || kills || end.of_loop && line.shells.iter().any(|shell| shell.errexit)
}

/// Tells whether a container has a command that certainly ends.
fn certainly_ends(line: &CommandLine<'_>) -> bool {
    if line.is_of_image() || line.unread || line.left_out || line.beyond().is_some() {
        return false;
    }
    let last = match line.shells.first() {
        None => line.commands.first(),
        Some(shell) if shell.first && shell.last_loop.is_none() => {
            shell.last.and_then(|last| line.commands.get(last))
        }
        Some(_) => None,
    };
    let never = |command: &Command| is_endless(command) || follows(command) || serves(command).is_some();
    meter::spend(line.commands.len() as u64);
    let is_end = |program: &str| IDLE.contains(&program) || matches!(program, "exit" | "wait");
    last.is_some_and(|last| is_work(last) || is_end(&last.program) && line.commands.iter().any(is_work))
        && !line.commands.iter().any(never)
}

/// Tells whether a command does something and ends.
fn is_work(command: &Command) -> bool {
    let program = command.program.as_str();
    if FINITE.contains(&program) {
        return true;
    }
    let may_serve = || {
        command.words.iter().skip(1).any(|word| {
            let name = base_name(&word.word.text).trim_end_matches(".py").to_ascii_lowercase();
            let parts = name.split(|char: char| !char.is_ascii_alphanumeric());
            parts.into_iter().any(|part| MAY_SERVE.contains(&part))
        })
    };
    is_trainer(command) && !may_serve()
}
