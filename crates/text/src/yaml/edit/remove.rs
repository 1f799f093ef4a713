//! Removes keys and items.

use std::ops::Range;

use super::editor::Splices;
use super::{Editor, Withheld, splice};
use crate::value::Value;
use crate::yaml::tree::{NodeKind, Style};

impl Editor<'_> {
    /// Removes all occurrences of a key from a mapping.
    pub(super) fn remove_key(&self, mapping: usize, name: &str) -> Splices {
        let text = self.document.text();
        let entries: Vec<(usize, usize)> = self.tree.entries(mapping).collect();
        let named = |key: usize| !text.is_merge(key) && text.key(key).is_ok_and(|(key, _)| key == name);
        let removed: Vec<usize> = (0..entries.len()).filter(|index| named(entries[*index].0)).collect();
        if removed.is_empty() {
            return Err(self.layout());
        }
        let parts: Vec<Range<usize>> = entries
            .iter()
            .map(|(key, value)| {
                let end = self.tree.node(*value).end.max(self.tree.node(*key).end) as usize;
                self.clamp(self.tree.node(*key).start as usize)..self.clamp(end)
            })
            .collect();
        if removed.iter().any(|index| self.tree.is_shared(entries[*index].1)) {
            return Err(self.shared());
        }
        self.remove(mapping, &parts, &removed, &Value::Object(Default::default()))
    }

    pub(super) fn remove_item(&self, list: usize, items: &[usize], index: usize) -> Splices {
        if self.tree.is_shared(items[index]) {
            return Err(self.shared());
        }
        let is_flow = self.tree.node(list).style == Style::Flow;
        let part = |item: &usize| {
            let start = if is_flow { self.tree.node(*item).start as usize } else { self.dash(*item)? };
            Ok(self.clamp(start)..self.clamp(self.tree.node(*item).end as usize))
        };
        let parts: Vec<Range<usize>> = items.iter().map(part).collect::<Result<_, Withheld>>()?;
        self.remove(list, &parts, &[index], &Value::Array(Vec::new()))
    }

    /// Removes parts of a container, which becomes `empty` if none is left.
    pub(super) fn remove(
        &self,
        container: usize,
        parts: &[Range<usize>],
        removed: &[usize],
        empty: &Value,
    ) -> Splices {
        let node = self.tree.node(container);
        if removed.len() == parts.len() {
            let place = (container > 0).then(|| self.place(container));
            return self.replace(place, container, empty);
        }
        let mut splices = Vec::new();
        for index in removed.iter().copied() {
            let part = parts[index].clone();
            if node.style == Style::Flow {
                let span = match parts.get(index + 1) {
                    Some(next) => part.start..next.start,
                    // With the comma before it, and the parts before it that are removed too.
                    None => {
                        let stays =
                            (0..index).rev().find(|index| !removed.contains(index)).unwrap_or_default();
                        parts[stays].end..part.end
                    }
                };
                splices.push(splice(span, ""));
            } else if self.is_first(part.start) {
                splices.push(splice(self.lines(part.start, part.end)?, ""));
            } else {
                // The first part, after a dash: the next one moves up.
                let next = parts.get(index + 1).ok_or_else(|| self.layout())?;
                let line = self.end_of_line(part.end)?;
                if self.text[line..next.start].contains('#') || removed.contains(&(index + 1)) {
                    return Err(self.layout());
                }
                splices.push(splice(part.start..next.start, ""));
            }
        }
        Ok(splices)
    }

    /// Returns the parent of a container, and its key there.
    pub(super) fn place(&self, at: usize) -> (usize, Option<usize>) {
        let parent = (0..at).rev().find(|parent| {
            let node = self.tree.node(*parent);
            matches!(node.kind, NodeKind::Mapping | NodeKind::Sequence) && at < node.next as usize
        });
        let parent = parent.unwrap_or_default();
        let key = match self.tree.node(parent).kind {
            NodeKind::Mapping => {
                self.tree.entries(parent).find(|(_, value)| *value == at).map(|(key, _)| key)
            }
            _ => None,
        };
        (parent, key)
    }
}
