//! The environment variables that controllers add to the containers of a pod template.
//!
//! They come after the container's own, so that they win, and `$(X)` in `env` cannot refer to them
//! (docs/internals/training.md#variables-from-controllers).

use crate::kinds::field::{Field, Part};
use crate::kinds::pod::PodTemplate;

/// Returns the variables that a controller adds, each with its value if the object determines it; nothing if
/// there may be others.
pub(crate) type Variables = fn(&Part<'_>, &PodTemplate<'_>) -> Option<Vec<PodVariable>>;

/// A variable, and its value if the object determines it.
pub(crate) type PodVariable = (&'static str, Option<String>);

/// The Job controller numbers the pods of an Indexed Job.
pub(super) fn of_job(_: &Part<'_>, pod: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    let is_indexed = pod.around.get("completionMode").text() == Field::Set("Indexed");
    Some(if is_indexed { vec![("JOB_COMPLETION_INDEX", None)] } else { Vec::new() })
}

/// JobSet's Jobs are Indexed unless they say otherwise.
pub(super) fn of_indexed_job(_: &Part<'_>, pod: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    let not = pod.around.get("completionMode").text() == Field::Set("NonIndexed");
    Some(if not { Vec::new() } else { vec![("JOB_COMPLETION_INDEX", None)] })
}

/// The training operator since 1.9, for PyTorch (docs/internals/training.md#variables-of-a-pytorchjob).
pub(super) fn of_py_torch_job(object: &Part<'_>, _: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    let spec = object.get("spec");
    let elastic = spec.get("elasticPolicy");
    let roles = spec.get("pytorchReplicaSpecs");
    let text = |field: Field<'_, &str>, unset: &str| match field {
        Field::Unset => Some(unset.to_owned()),
        Field::Set(text) => Some(text.to_owned()),
        Field::Placeholder(_) | Field::Wrong => None,
    };
    let number = |field: Field<'_, i64>| field.set().map(|number| number.to_string());
    let processes = text(spec.get("nprocPerNode").text(), "auto");
    // As the operator counts them: all replicas, whatever they may scale to. It rejects other roles, which are
    // not read: there may be thousands, each with variables.
    let known = ["Master", "Worker"].map(|role| roles.get(role));
    let known = known.into_iter().filter(|role| role.value.is_some());
    let pods = known.map(|role| role.get("replicas").int().or_default(1));
    let pods = pods.into_iter().try_fold(0_i64, |sum, count| Some(sum.saturating_add(count?)));
    let mut all = vec![("PYTHONUNBUFFERED", Some("1".to_owned()))];
    if elastic.is_set() {
        let (least, most) = (elastic.get("minReplicas"), elastic.get("maxReplicas"));
        let nodes =
            number(least.int()).zip(number(most.int())).map(|(least, most)| format!("{least}:{most}"));
        let own = match elastic.get("nProcPerNode").int() {
            Field::Unset => processes,
            own => number(own),
        };
        all.extend([
            ("PET_NPROC_PER_NODE", own),
            ("PET_NNODES", nodes),
            ("PET_RDZV_ENDPOINT", None),
            ("PET_RDZV_BACKEND", text(elastic.get("rdzvBackend").text(), "c10d")),
        ]);
        let optional = [
            ("maxRestarts", "PET_MAX_RESTARTS"),
            ("rdzvId", "PET_RDZV_ID"),
            ("rdzvConf", "PET_RDZV_CONF"),
            ("standalone", "PET_STANDALONE"),
        ];
        all.extend(
            optional
                .into_iter()
                .filter(|(field, _)| elastic.get(field).is_set())
                .map(|(_, name)| (name, None)),
        );
    } else {
        all.push(("PET_NPROC_PER_NODE", processes.clone()));
        all.push(("PET_NNODES", pods.map(|pods| pods.to_string())));
    }
    if roles.get("Master").is_set() {
        let each = match spec.get("nprocPerNode").text() {
            Field::Unset => Some(1),
            Field::Set(text) => Some(text.parse().unwrap_or(1)),
            Field::Placeholder(_) | Field::Wrong => None,
        };
        let world = pods.zip(each).map(|(pods, each): (i64, i64)| pods.saturating_mul(each).to_string());
        all.extend([("MASTER_ADDR", None), ("MASTER_PORT", None), ("RANK", None), ("WORLD_SIZE", world)]);
        if !elastic.is_set() {
            all.extend([("PET_MASTER_ADDR", None), ("PET_MASTER_PORT", None), ("PET_NODE_RANK", None)]);
        }
    }
    Some(all)
}

/// The training operator, for JAX.
pub(super) fn of_jax_job(_: &Part<'_>, _: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    let names =
        ["PYTHONUNBUFFERED", "COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID"];
    Some(names.map(|name| (name, None)).into())
}

/// The training operator, for XGBoost.
pub(super) fn of_xg_boost_job(_: &Part<'_>, _: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    let names = [
        "PYTHONUNBUFFERED",
        "MASTER_ADDR",
        "MASTER_PORT",
        "WORLD_SIZE",
        "RANK",
        "WORKER_ADDRS",
        "WORKER_PORT",
    ];
    Some(names.map(|name| (name, None)).into())
}

/// The training operator, for TensorFlow.
pub(super) fn of_tf_job(_: &Part<'_>, _: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    Some(vec![("TF_CONFIG", None)])
}

/// Volcano, which adds variables by plugins; those of most are named after tasks.
pub(super) fn of_volcano_job(object: &Part<'_>, _: &PodTemplate<'_>) -> Option<Vec<PodVariable>> {
    let plugins = object.at(&["spec", "plugins"]);
    let mut all = Vec::new();
    for (plugin, _) in plugins.entries() {
        match plugin {
            "env" => all.extend(["VC_TASK_INDEX", "VK_TASK_INDEX"].map(|name| (name, None))),
            "ssh" => {}
            _ => return None,
        }
    }
    Some(all)
}
