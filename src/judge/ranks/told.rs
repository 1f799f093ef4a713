//! What the texts of a container name: enough to know that a rule cannot know.

use std::collections::BTreeSet;

use crate::judge::commands::CommandLine;
use crate::kinds::{Ranks, Workload, accelerator};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// What the texts of a container name.
pub(crate) struct Told<'a> {
    /// Whether they name the index of the pod.
    pub(crate) index: bool,
    /// Whether they name `MASTER_ADDR`.
    pub(crate) master: bool,
    /// Whether they name a file of hosts.
    pub(crate) hostfile: bool,
    /// Whether they say which devices are visible.
    pub(crate) devices: bool,
    /// Whether they let hosts take more processes than they have slots.
    pub(crate) oversubscribes: bool,
    /// Whether they are of a program that splits one model over devices in one process.
    pub(crate) one_process: bool,
    /// Whether a script reads another file, so that it may have any variable.
    pub(crate) reads_more: bool,
    /// Whether each item is as it was written, without replaced variables.
    pub(super) verbatim: Vec<bool>,
    /// Variables of `torchrun` that a script names.
    named: BTreeSet<&'static str>,
    /// Whether variables of `accelerate` may be set.
    pub(crate) configures_accelerate: bool,
    /// The accelerators that each process has to itself: their number, where it is written, and their name.
    pub(crate) accelerators: Option<(i64, Pointer, &'a str)>,
    /// The items of `command` and `args` as they are written.
    pub(crate) items: Vec<&'a str>,
}

/// Variables that launchers read.
const VARIABLES: [&str; 7] = [
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_RDZV_BACKEND",
    "PET_RDZV_ENDPOINT",
    "PET_STANDALONE",
];

/// Texts of programs of which one process uses several devices.
const ONE_PROCESS: [&str; 7] =
    ["jax", "tensorflow", "tf_", "pipeline", "tensor_parallel", "tensor-parallel", "device_map"];

impl<'a> Told<'a> {
    pub(super) fn of(workload: &Workload<'_>, line: &CommandLine<'a>) -> Self {
        let container = &line.container.part;
        let items: Vec<&'a str> = ["command", "args"]
            .into_iter()
            .flat_map(|list| container.get(list).items())
            .filter_map(|item| item.value?.as_str())
            .collect();
        let mut texts = items.clone();
        for variable in container.get("env").items() {
            let path = variable.at(&["valueFrom", "fieldRef", "fieldPath"]);
            let parts = [variable.get("name"), variable.get("value"), path];
            texts.extend(parts.into_iter().filter_map(|part| part.value.and_then(Value::as_str)));
        }
        let names = |word: &str| texts.iter().any(|text| contains(text, word));
        let index = match workload.kind.ranks {
            Ranks::Each { index, .. } => index,
            Ranks::Hosts(_) | Ranks::Unknown => &[],
        };
        let reads = |program: &str| matches!(program, "source" | "." | "eval");
        Self {
            index: index.iter().any(|word| names(word)),
            master: names("MASTER_ADDR"),
            hostfile: names("hostfile") || names("HOSTFILE"),
            devices: names("VISIBLE_DEVICES"),
            oversubscribes: ["oversubscribe", "OVERSUBSCRIBE"].into_iter().any(names),
            one_process: ONE_PROCESS.into_iter().any(names),
            reads_more: line.unread || line.commands.iter().any(|command| reads(&command.program)),
            verbatim: line.argv.iter().zip(&items).map(|(item, written)| item.text == *written).collect(),
            named: VARIABLES
                .into_iter()
                .filter(|name| items.iter().any(|text| contains(text, name)))
                .collect(),
            configures_accelerate: names("ACCELERATE_"),
            accelerators: accelerator::one_each(container),
            items,
        }
    }

    /// Tells whether a script may set a variable.
    pub(super) fn assigns(&self, variable: &str) -> bool {
        self.named.contains(variable)
    }
}

fn contains(text: &str, word: &str) -> bool {
    meter::spend_text(text);
    memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some()
}
