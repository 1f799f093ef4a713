//! Pods of a distributed run find each other: one address for all, and a rank for each.
//!
//! ## Why
//!
//! The pods of a run meet at an address before training starts. If each of them looks at its own `localhost`,
//! or all of them say that they are rank 0, nobody meets: every pod waits with its GPUs, stops after some
//! minutes, and is started again. Nothing in the logs names the cause. `torchrun` has `127.0.0.1` and rank 0 as
//! its defaults, so leaving something out is enough.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running, backoffLimit: 24}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 8
//!       template:
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, --nnodes=8, train.py]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running, backoffLimit: 24}
//!   elasticPolicy: {minReplicas: 8, maxReplicas: 8}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 8
//!       template:
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, --nnodes=8, train.py]
//! ```
//!
//! ## Fix
//!
//! None: which address the pods have depends on what else there is. In a PyTorchJob, add an `elasticPolicy`, or
//! call one of the pods `Master`: the training operator then tells `torchrun` the address. In a Job, give the
//! template a `subdomain` with a headless Service, and write `--rdzv-backend=c10d` and
//! `--rdzv-endpoint=JOB-0.SUBDOMAIN:29500`.
//!
//! ## Details
//!
//! Where several pods run the same command, these are reported:
//!
//! * the backend `static`, which is the default, without `--node-rank` or without an address;
//! * the same `--node-rank` or `--machine_rank` in each pod of a template;
//! * the backend `c10d` or `etcd` without `--rdzv-endpoint`, which means `localhost`;
//! * an address that is `localhost`, `127.0.0.1` or `0.0.0.0`;
//! * `--standalone`, with which `torchrun` meets nobody, beside a number of nodes or the address of a master;
//! * the backend `etcd` with the address of a training pod, in which no etcd runs;
//! * in a Job, the host name of one of its own pods without `subdomain` in the pod spec: it never resolves;
//! * in a PyTorchJob without Master and `elasticPolicy`, plain `python`, to which the operator says nothing of
//!   the other pods. This is a note, since Jobgate does not see what the program does. `python -c` counts if its
//!   code names `init_process_group`.
//!
//! `MASTER_ADDR` is no option of `torchrun`: it sets the variable, and does not read it. Who writes another host
//! there starts several nodes, whatever the number in `--nnodes` will be.
//!
//! The rule is silent where something is not in the object, such as variables of a ConfigMap and command
//! substitutions, about ports, about an etcd of your own, for launchers in branches of a script, where each pod
//! runs alone (`--nnodes=1`, see `launcher-nodes-match-pods`), and for training runtimes.
//!
//! ## References
//!
//! * <https://docs.pytorch.org/docs/stable/elastic/run.html>
//! * <https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/>

use crate::judge::commands::Launcher;
use crate::judge::finding::Level;
use crate::judge::policy::Action;
use crate::judge::ranks::{Gang, LauncherNodes, LauncherSetting, Started, TextTopic, counted, host, is_here};
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::kinds::Ranks;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods that cannot find each other".into(),
        summary: "Pods of a distributed run find each other: one address for all, and a rank for each".into(),
        kinds: Kinds::WithPods,
        default: Action::Warn,
        export: Exportable::No("the addresses are in command lines and scripts, which CEL does not take apart"),
        ..Rule::new("launcher-rendezvous-reachable", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    for started in cx.certain_launchers() {
        let Some(gang) = started.gang().filter(|gang| gang.least > 1) else { continue };
        match started.launch.launcher {
            Launcher::Torchrun | Launcher::TorchLaunch => torch(cx, started, gang),
            Launcher::Accelerate => with_ranks(cx, started, gang, "main_process_ip", "machine_rank"),
            Launcher::DeepSpeed if matches!(started.option("no_ssh"), LauncherSetting::Option(..)) => {
                with_ranks(cx, started, gang, "master_addr", "node_rank");
            }
            Launcher::DeepSpeed | Launcher::Mpi | Launcher::Ray => {}
        }
    }
    for (place, count) in cx.reading.programs_that_cannot_meet() {
        let message = format!(
            "the training operator tells {count} pods nothing of each other without a Master or an `elasticPolicy`"
        );
        cx.report(&place, message).at_most(Level::Note).help(
            "call one of the pods `Master`, or ignore this if the program does not train on several pods",
        );
    }
}

/// The wrong setting, the message and the help.
type Wrong<'s> = (LauncherSetting<'s>, String, String);

fn torch(cx: &mut Cx<'_>, started: &Started<'_>, gang: &Gang) {
    let wrong = match standalone(started, gang) {
        Some(found) => found,
        None => apart(started, gang),
    };
    if let Some((by, message, help)) = wrong {
        let place = started.place(&by);
        let finding = cx.report(&place, message).at(started.part(&by));
        gang.label(finding);
        finding.help(help);
    }
}

/// Returns what is wrong with `--standalone`, if it is there.
fn standalone<'s>(started: &'s Started<'_>, gang: &Gang) -> Option<Option<Wrong<'s>>> {
    let by = started.setting("standalone", "PET_STANDALONE");
    let LauncherSetting::Option(given, _) = &by else { return if by.is_absent() { None } else { Some(None) } };
    let other = |option, variable| matches!(started.setting(option, variable), LauncherSetting::Option(..));
    let several = started.nodes().is_some_and(|nodes| nodes.most > 1);
    let has_master = started.hints.names(TextTopic::Master) || started.is_added("MASTER_ADDR");
    let meets = other("rdzv_endpoint", "") || other("master_addr", "") || has_master;
    if !several && !meets {
        return Some(None);
    }
    let message =
        format!("`{}` meets nobody: each of {} pods is a run of its own", started.quoted(given), gang.least);
    Some(Some((by, message, "leave the option out".to_owned())))
}

fn apart<'s>(started: &'s Started<'_>, gang: &Gang) -> Option<Wrong<'s>> {
    if !is_of_several(started) {
        return None;
    }
    let endpoint = started.setting("rdzv_endpoint", "PET_RDZV_ENDPOINT");
    let backend = started.setting("rdzv_backend", "PET_RDZV_BACKEND");
    let name = if backend.is_absent() { "static" } else { backend.known()? };
    let pods = counted(gang.least, "pod", "pods");
    if matches!(name, "c10d" | "etcd" | "etcd-v2") {
        if endpoint.is_absent() {
            let message = format!(
                "the backend `{name}` has no endpoint: without `--rdzv-endpoint` it is `localhost`, \
                 so each of {pods} waits for itself"
            );
            return Some((backend, message, help(started)));
        }
        if name != "c10d"
            && let Some(message) = etcd(started, &endpoint, name)
        {
            let help = "write `--rdzv-backend=c10d`, or the address of an etcd".to_owned();
            return Some((endpoint, message, help));
        }
        return address(started, gang, endpoint);
    }
    if name != "static" {
        return None;
    }
    // All pods of this template have the same settings.
    if gang.own < 2 {
        return None;
    }
    let rank = started.setting("node_rank", "PET_NODE_RANK");
    if let (LauncherSetting::Option(..), Some(number)) = (&rank, rank.number()) {
        let shown = started.shown(&rank);
        let message = format!(
            "{shown} is the rank of each of {}: all of them are rank {number}",
            counted(gang.own, "pod", "pods")
        );
        return Some((rank, message, rank_help(started)));
    }
    let master = started.setting("master_addr", "PET_MASTER_ADDR");
    if rank.is_absent() {
        let nobody = endpoint.is_absent() && master.is_absent();
        let message = format!(
            "without `--node-rank`{} `{}` is rank 0 in each of {pods}{}",
            if nobody { " and an address," } else { "," },
            started.name(),
            if nobody { ", and each waits for itself" } else { ": all wait for the others" },
        );
        return Some((rank, message, help(started)));
    }
    if rank.is_given() && endpoint.is_absent() && master.is_absent() {
        let message =
            format!("without `--master-addr` the address is `127.0.0.1`: each of {pods} waits for itself");
        return Some((master, message, help(started)));
    }
    if endpoint.is_absent() { address(started, gang, master) } else { address(started, gang, endpoint) }
}

/// Tells whether several nodes meet: by their number, or, if that is unknown, by the author's `MASTER_ADDR` of
/// the first one. `torchrun` does not read that.
fn is_of_several(started: &Started<'_>) -> bool {
    match started.nodes() {
        Some(LauncherNodes { most, .. }) => most > 1,
        None => {
            let is_given = started.setting("nnodes", "PET_NNODES").is_given();
            let environment = &started.line.environment;
            let master = environment.get("MASTER_ADDR").filter(|variable| !variable.is_added());
            is_given
                && master.and_then(|variable| variable.value.as_deref()).is_some_and(|host| !is_here(host))
        }
    }
}

/// Returns what is wrong with an address.
fn address<'s>(started: &'s Started<'_>, gang: &Gang, by: LauncherSetting<'s>) -> Option<Wrong<'s>> {
    let text = by.known()?;
    let shown = started.shown(&by);
    if is_here(text) && gang.own > 1 {
        let message = format!(
            "{shown} is the pod itself in each of {}: each waits for itself",
            counted(gang.own, "pod", "pods")
        );
        return Some((by, message, help(started)));
    }
    let message = unresolved(started, text)?;
    let message = format!("{shown} {message}");
    let help = "write `subdomain` in the pod spec, and make a headless Service of that name".to_owned();
    Some((by, message, help))
}

/// Returns why the host name of one of the job's own pods does not resolve.
fn unresolved(started: &Started<'_>, text: &str) -> Option<String> {
    let Ranks::Each { subdomain: true, .. } = started.workload.kind.ranks else { return None };
    if started.pod.spec.get("subdomain").is_set()
        || started.pod.spec.get("hostNetwork").bool().set() == Some(true)
    {
        return None;
    }
    let job = started.workload.object.at(&["metadata", "name"]).text().set()?;
    let name = host(text).split('.').next()?;
    let index = name.strip_prefix(job)?.strip_prefix('-')?;
    let is_pod = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    is_pod.then(|| "never resolves: the pod spec has no `subdomain`".to_owned())
}

/// Returns why an address is not that of an etcd.
fn etcd(started: &Started<'_>, endpoint: &LauncherSetting<'_>, backend: &str) -> Option<String> {
    let LauncherSetting::Option(given, value) = endpoint else { return None };
    let written = started.quoted(given);
    let is_pod = |text: &str| {
        let job = started.workload.object.at(&["metadata", "name"]).text().set();
        let rest = job.and_then(|job| host(text).strip_prefix(job));
        started.pod.form.roles().is_some()
            && rest.is_some_and(|rest| rest.starts_with("-master-0") || rest.starts_with("-worker-0"))
    };
    let names_master =
        ["$(MASTER_ADDR)", "${MASTER_ADDR}", "$MASTER_ADDR"].iter().any(|name| written.contains(name));
    let is_added = names_master && started.is_added("MASTER_ADDR");
    (is_added || value.is_some_and(is_pod))
        .then(|| format!("the backend `{backend}` needs an etcd: `{written}` is a pod of the run"))
}

fn help(started: &Started<'_>) -> String {
    if started.pod.form.roles().is_some() && started.is_added("PET_NNODES") {
        return "add an `elasticPolicy`, or call one of the pods `Master`: \
                the training operator then says where the pods meet"
            .to_owned();
    }
    "write `--rdzv-backend=c10d` and `--rdzv-endpoint=HOST:PORT` with the name of one of the pods".to_owned()
}

fn rank_help(started: &Started<'_>) -> String {
    if started.is_added("PET_NODE_RANK") {
        return "leave the option out: the training operator says the rank in `PET_NODE_RANK`".to_owned();
    }
    if started.is_added("JOB_COMPLETION_INDEX") {
        return "write the index of the pod, `$(JOB_COMPLETION_INDEX)`".to_owned();
    }
    "write the index of the pod".to_owned()
}

/// Checks launchers that take an address and a rank.
fn with_ranks(cx: &mut Cx<'_>, started: &Started<'_>, gang: &Gang, address_option: &str, rank_option: &str) {
    if started.nodes().is_none_or(|nodes| nodes.most < 2) || gang.own < 2 {
        return;
    }
    let rank = started.option(rank_option);
    let wrong = if let Some(number) = rank.number() {
        let shown = started.shown(&rank);
        let message = format!(
            "{shown} is the rank of each of {}: all of them are rank {number}",
            counted(gang.own, "pod", "pods")
        );
        Some((rank, message, rank_help(started)))
    } else {
        address(started, gang, started.option(address_option))
    };
    if let Some((by, message, _)) = wrong {
        let place = started.place(&by);
        let is_rank = message.contains("is the rank");
        let finding = cx.report(&place, message).at(started.part(&by));
        gang.label(finding);
        finding.help(if is_rank {
            rank_help(started)
        } else {
            format!("write the name of one of the pods in `--{address_option}`")
        });
    }
}
