//! Options of `torchrun` exist: `--min-nodes` and `--num-nodes` are none of them.
//!
//! ## Why
//!
//! `torchrun` stops at an option that it does not know, with `unrecognized arguments` and exit code 2, before
//! any training code runs. With `restartPolicy: OnFailure` and no limit of retries, the pods start again and
//! again and hold their GPUs meanwhile. Several such options are in many tutorials: `--min-nodes` and
//! `--max-nodes`, `--num-nodes`, `--num-gpus`, `--gpus`, `--world-size` and `--nproc`.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running, backoffLimit: 24}
//!   elasticPolicy: {minReplicas: 2, maxReplicas: 4}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 4
//!       template:
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, --min-nodes=2, --max-nodes=4, train.py]
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
//!   elasticPolicy: {minReplicas: 2, maxReplicas: 4}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 4
//!       template:
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [torchrun, --nnodes=2:4, train.py]
//! ```
//!
//! ## Fix
//!
//! Safe: writes `--nnodes=MIN:MAX` in the place of `--min-nodes` and `--max-nodes`, if both are there with
//! numbers and `--nnodes` is not. The command cannot run as it is.
//!
//! ## Details
//!
//! Only options in front of the script are reported: those behind it belong to the script, whatever their
//! names. Only the options above are: what else a release of `torchrun` may have, Jobgate does not guess. The
//! command is found in `command` and `args` of any container, in scripts of shells, also where `mpirun`
//! starts the shell.
//!
//! ## References
//!
//! * <https://docs.pytorch.org/docs/stable/elastic/run.html>

use crate::judge::commands::Given;
use crate::judge::finding::Safety;
use crate::judge::policy::Action;
use crate::judge::ranks::Started;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Launcher option that does not exist".into(),
        summary: "Options of `torchrun` exist: `--min-nodes` and `--num-nodes` are none of them".into(),
        kinds: Kinds::WithPods,
        default: Action::Warn,
        export: Exportable::No("the options are in command lines and scripts, which CEL does not take apart"),
        ..Rule::new("launcher-flags-exist", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    for started in cx.launchers() {
        // Words that are not known may be options whose values look like these.
        if let Some(wrong) = started.launch.options.iter().find(|given| !given.exists) {
            report(cx, started, wrong);
        }
    }
}

/// Returns the help for an option that does not exist.
fn meant(name: &str) -> &'static str {
    match name {
        "min_nodes" | "max_nodes" => "write `--nnodes=MIN:MAX` instead",
        "num_nodes" => "write `--nnodes` instead",
        "world_size" => {
            "leave it out: `torchrun` computes the world size from `--nnodes` and `--nproc-per-node`"
        }
        _ => "write `--nproc-per-node` instead",
    }
}

fn report(cx: &mut Cx<'_>, started: &Started<'_>, wrong: &Given<'_>) {
    let options = &started.launch.options;
    let of = |name: &str| {
        let mut found = options.iter().filter(|given| given.name == name);
        found.next().filter(|_| found.next().is_none())
    };
    let number = |given: &Given<'_>| given.value.filter(|_| given.known)?.parse().ok();
    let both = of("min_nodes").zip(of("max_nodes"));
    let range = both.and_then(|(least, most)| Some((number(least)?, number(most)?)));
    let range: Option<(u32, u32)> = range.filter(|(least, most)| 0 < *least && least <= most);
    let others = options.iter().filter(|given| !given.exists).count();
    let is_given = options.iter().any(|given| given.name == "nnodes");
    let written = started.quoted(wrong);
    let message = format!(
        "`{}` has no option `{}`: it stops with an error before anything runs",
        started.name(),
        written.split(['=', ' ']).next().unwrap_or_default()
    );
    let place = started.line.place(wrong.token);
    let finding = cx.report(&place, message).at(started.line.part(wrong.token));
    finding.help(meant(wrong.name));
    if let (Some((min, max)), Some((least, most)), 2, false) = (both, range, others, is_given) {
        finding.help(format!("write `--nnodes={least}:{most}` instead"));
        if let Some(ops) = started.replace(&[min, max], Some(&format!("--nnodes={least}:{most}"))) {
            finding.fix(Safety::Safe, ops);
        }
    }
}
