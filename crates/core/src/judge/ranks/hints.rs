//! Hints from a container's arguments and environment, which show where a rule cannot be certain.

use std::cell::OnceCell;

use crate::judge::commands::CommandLine;
use crate::kinds::{Ranks, Workload, accelerator};
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::value::Value;

/// Hints from a container's arguments and environment.
#[derive(Debug)]
pub(crate) struct EnvironmentHints<'a> {
    /// Whether a script reads another file, so that it may have any variable.
    pub(crate) reads_more: bool,
    /// The accelerators that each process has to itself: their number, where it is written, and their name.
    pub(crate) accelerators: Option<(i64, Pointer, &'a str)>,
    /// Words by which the container learns which pod it is in.
    index: &'static [&'static str],
    /// The items, then names, values and sources of variables, a line each.
    texts: String,
    /// The length of the items in `texts`.
    items_end: usize,
    topics: [OnceCell<bool>; TOPICS],
}

/// A topic that a container's texts may mention.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TextTopic {
    /// The index of the pod.
    Index,
    /// `MASTER_ADDR`.
    Master,
    /// A file of hosts.
    Hostfile,
    /// Which devices are visible.
    Devices,
    /// Whether hosts may take more processes than they have slots.
    Oversubscribes,
    /// A program that uses several devices in one process.
    OneProcess,
    /// Variables of `accelerate`.
    Accelerate,
    /// Variables of `torchrun`, in `command` or `args`.
    Torchrun,
}

const TOPICS: usize = 8;

impl<'a> EnvironmentHints<'a> {
    pub(super) fn new(workload: &Workload<'_>, line: &CommandLine<'a>) -> Self {
        let container = &line.container.part;
        let mut texts = String::new();
        for item in &line.argv {
            texts.push_str(item.written);
            texts.push('\n');
        }
        let items_end = texts.len();
        for variable in container.get("env").values() {
            meter::spend(1);
            let path = variable.get("valueFrom").and_then(|from| from.get("fieldRef")?.get("fieldPath"));
            for text in [variable.get("name"), variable.get("value"), path] {
                texts.push('\n');
                texts.push_str(text.and_then(Value::as_str).unwrap_or_default());
            }
        }
        let index = match workload.kind.ranks {
            Ranks::Each { index, .. } => index,
            Ranks::Hosts(_) | Ranks::Unknown => &[],
        };
        let reads = |program: &str| matches!(program, "source" | "." | "eval");
        Self {
            reads_more: line.unread || line.commands.iter().any(|command| reads(&command.program)),
            accelerators: accelerator::one_each(container),
            index,
            texts,
            items_end,
            topics: [const { OnceCell::new() }; TOPICS],
        }
    }

    /// Tells whether the texts mention a topic.
    pub(crate) fn names(&self, topic: TextTopic) -> bool {
        let words: &[&str] = match topic {
            TextTopic::Index => self.index,
            TextTopic::Master => &["MASTER_ADDR"],
            TextTopic::Hostfile => &["hostfile", "HOSTFILE"],
            TextTopic::Devices => &["VISIBLE_DEVICES"],
            TextTopic::Oversubscribes => &["oversubscribe", "OVERSUBSCRIBE"],
            TextTopic::OneProcess => {
                &["jax", "tensorflow", "tf_", "pipeline", "tensor_parallel", "tensor-parallel", "device_map"]
            }
            TextTopic::Accelerate => &["ACCELERATE_"],
            TextTopic::Torchrun => &["PET_"],
        };
        *self.topics[topic as usize].get_or_init(|| {
            let is_of_items = matches!(topic, TextTopic::Torchrun);
            let texts = if is_of_items { &self.texts[..self.items_end] } else { self.texts.as_str() };
            words.iter().any(|word| {
                meter::spend_text(texts);
                memchr::memmem::find(texts.as_bytes(), word.as_bytes()).is_some()
            })
        })
    }
}
