//! The style of the surrounding text: quotes, commas, indentation.

use super::Editor;
use crate::yaml::print::PrintStyle;
use crate::yaml::tree::{NodeKind, Style};

impl Editor<'_> {
    pub(super) fn quote(&self, at: usize) -> Option<char> {
        match self.tree.node(at).style {
            Style::Double => Some('"'),
            Style::Single => Some('\''),
            _ => None,
        }
    }

    /// Returns the style of a container's text.
    pub(super) fn look(&self, container: usize) -> PrintStyle {
        let json = self.document.is_json();
        let node = self.tree.node(container);
        let mapping = (container..node.next as usize).chain(0..container).find(|at| {
            self.tree.node(*at).kind == NodeKind::Mapping && self.tree.node(*at).next as usize > at + 1
        });
        let key = mapping.map(|mapping| mapping + 1);
        let key_quote = if json { Some('"') } else { key.and_then(|key| self.quote(key)) };
        // Quoted keys in braces mean JSON.
        let quote = (json || node.style == Style::Flow && key_quote == Some('"')).then_some('"');
        let tight = |at: usize, mark: char| {
            let rest =
                self.text[self.clamp(self.tree.node(at).end as usize)..].trim_start_matches([' ', '\t']);
            rest.strip_prefix(mark).is_some_and(|rest| !rest.starts_with([' ', '\t', '\n', '\r']))
        };
        let flow_mapping = mapping.filter(|at| self.tree.node(*at).style == Style::Flow);
        let colon =
            if quote.is_some() && flow_mapping.is_some_and(|at| tight(at + 1, ':')) { ":" } else { ": " };
        let first = self.tree.children(container).nth(usize::from(node.kind == NodeKind::Mapping));
        let comma = match first {
            Some(at) if self.tree.node(at).next < node.next => tight(at, ','),
            _ => colon == ":",
        };
        let (step, indented_lists) = *self.tree.indentation.get_or_init(|| self.indentation());
        PrintStyle {
            newline: self.newline,
            step,
            indented_lists,
            key_quote,
            quote,
            colon,
            comma: if comma { "," } else { ", " },
            names_first: true,
        }
    }

    /// Returns the spaces per level and whether lists are indented, as in their first use in the document.
    pub(super) fn indentation(&self) -> (usize, bool) {
        let (mut step, mut lists) = (None, None);
        let mut stack = vec![0];
        while let Some(at) = stack.pop() {
            let node = self.tree.node(at);
            if node.kind != NodeKind::Mapping || node.style != Style::Block {
                continue;
            }
            let column = self.column(node.content as usize);
            for (_, value) in self.tree.entries(at) {
                let child = self.tree.node(value);
                if child.style == Style::Block && self.is_first(child.content as usize) {
                    let deeper = self.column(child.content as usize).saturating_sub(column);
                    match child.kind {
                        NodeKind::Sequence => _ = lists.get_or_insert(deeper > 0),
                        _ => _ = step.get_or_insert(deeper),
                    }
                }
                if child.kind == NodeKind::Sequence {
                    stack.extend(self.tree.children(value));
                } else {
                    stack.push(value);
                }
            }
            if step.is_some() && lists.is_some() {
                break;
            }
        }
        (step.filter(|step| (1..=8).contains(step)).unwrap_or(2), lists.unwrap_or(true))
    }
}
