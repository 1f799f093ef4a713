//! Adds keys and items.

use std::ops::Range;

use super::editor::Splices;
use super::{Editor, Splice, splice, tail};
use crate::value::Value;
use crate::yaml::tree::{NodeKind, Style};

impl Editor<'_> {
    /// Adds a key to a mapping: at the place from [`Editor::above`], or as its last.
    pub(super) fn add_key(&self, mapping: usize, key: &str, value: &Value) -> Splices {
        let node = self.tree.node(mapping);
        let look = self.look(mapping);
        let Some((last, last_value)) = self.tree.entries(mapping).last() else {
            let inside = node.content as usize + 1..self.clamp(node.end as usize) - 1;
            return Ok(vec![splice(self.blank(inside), look.entry(key, value))]);
        };
        let at_end = self.is_open && tail::is_last(self.tree, last_value);
        let place =
            self.above(mapping, value).or_else(|| at_end.then_some(Above { behind: None, large: last }));
        if node.style == Style::Flow {
            let print = |spread: Option<(&str, &str)>| match spread {
                Some((indent, step)) => {
                    format!("{}{}{}", look.key(key, true), look.colon, look.spread(value, indent, step))
                }
                None => look.entry(key, value),
            };
            let start = |key: usize| self.tree.node(key).start as usize;
            return Ok(match place {
                Some(Above { behind: Some((before, before_value)), .. }) if self.is_first(start(before)) => {
                    self.append(mapping, start(before), self.span(before_value).end, print)
                }
                Some(Above { behind: Some((_, before)), .. }) => {
                    let end = self.span(before).end;
                    vec![splice(end..end, look.comma.to_owned() + &print(None))]
                }
                Some(Above { behind: None, large }) => self.prepend(mapping, start(large), print),
                None => self.append(mapping, start(last), self.span(last_value).end, print),
            });
        }
        let column = self.column(node.content as usize);
        let entry = look.block_entry(key, value, column);
        let end = match place {
            Some(Above { behind: Some((_, before)), .. }) => {
                self.end_of_line(self.clamp(self.tree.node(before).end as usize))?
            }
            Some(Above { behind: None, large }) => {
                let at = self.head(self.tree.node(large).start as usize);
                return Ok(vec![splice(at..at, entry + &look.line(column))]);
            }
            None => self.end_of_line(self.clamp(node.end as usize))?,
        };
        let end = self.with_comments(end, column);
        Ok(vec![splice(end..end, look.line(column) + &entry)])
    }

    pub(super) fn insert(&self, list: usize, items: &[usize], index: usize, value: &Value) -> Splices {
        let node = self.tree.node(list);
        let look = self.look(list);
        if items.is_empty() {
            let inside = node.content as usize + 1..self.clamp(node.end as usize) - 1;
            return Ok(vec![splice(self.blank(inside), look.inline(value, true))]);
        }
        let print = |spread: Option<(&str, &str)>| match spread {
            Some((indent, step)) => look.spread(value, indent, step),
            None => look.inline(value, true),
        };
        if node.style == Style::Flow {
            if index == items.len() {
                let last = items[index - 1];
                return Ok(self.append(
                    list,
                    self.tree.node(last).start as usize,
                    self.span(last).end,
                    print,
                ));
            }
            return Ok(self.prepend(list, self.tree.node(items[index]).start as usize, print));
        }
        let start = node.content as usize;
        let column = self.column(start);
        let item = format!("- {}", look.block(value, column + 2));
        if index == 0 {
            return Ok(vec![splice(start..start, item + &look.line(column))]);
        }
        if self.is_open && tail::is_last(self.tree, items[index - 1]) {
            return Err(self.layout());
        }
        let end = self.with_comments(
            self.end_of_line(self.clamp(self.tree.node(items[index - 1]).end as usize))?,
            column,
        );
        Ok(vec![splice(end..end, look.line(column) + &item)])
    }

    /// Appends to a container in brackets. `print` gets the indentation if each part has its own line.
    pub(super) fn append(
        &self,
        container: usize,
        last: usize,
        end: usize,
        print: impl Fn(Option<(&str, &str)>) -> String,
    ) -> Vec<Splice> {
        let look = self.look(container);
        let rest = &self.text[end..];
        let comma = rest
            .trim_start_matches([' ', '\t', '\n', '\r'])
            .starts_with(',')
            .then(|| end + rest.find(',').unwrap_or_default() + 1);
        let behind = comma.unwrap_or(end);
        if !self.is_first(last) {
            let space = if look.comma == "," { "" } else { " " };
            let text = print(None);
            return vec![splice(
                behind..behind,
                if comma.is_some() { format!("{space}{text}") } else { format!("{}{text}", look.comma) },
            )];
        }
        let indent = self.indent(last);
        let outer = self.indent(self.tree.node(container).content as usize);
        let step = indent.strip_prefix(outer).unwrap_or_default();
        let text = format!(
            "{}{indent}{}{}",
            look.newline,
            print((!step.is_empty()).then_some((indent, step))),
            if comma.is_some() { "," } else { "" }
        );
        let line =
            self.end_of_line(behind).map_or(behind, |line| self.with_comments(line, self.column(last)));
        if comma.is_some() {
            return vec![splice(line..line, text)];
        }
        if self.text[end..line].trim().is_empty() {
            return vec![splice(end..end, format!(",{text}"))];
        }
        vec![splice(end..end, ","), splice(line..line, text)]
    }

    /// Inserts a part into a container in brackets, before the one that starts at `start`.
    pub(super) fn prepend(
        &self,
        container: usize,
        start: usize,
        print: impl Fn(Option<(&str, &str)>) -> String,
    ) -> Vec<Splice> {
        let look = self.look(container);
        if !self.is_first(start) {
            return vec![splice(start..start, print(None) + look.comma)];
        }
        let indent = self.indent(start);
        let step =
            indent.strip_prefix(self.indent(self.tree.node(container).content as usize)).unwrap_or_default();
        let text = print((!step.is_empty()).then_some((indent, step)));
        let start = self.head(start);
        vec![splice(start..start, format!("{text},{}{indent}", look.newline))]
    }

    /// Returns what to replace inside empty brackets: spaces, but not lines.
    pub(super) fn blank(&self, inside: Range<usize>) -> Range<usize> {
        let blank = self.text[inside.clone()].bytes().all(|byte| byte == b' ');
        if blank { inside } else { inside.start..inside.start }
    }
}

/// See [`Editor::above`].
struct Above {
    /// The key and value to insert after, if any.
    behind: Option<(usize, usize)>,
    /// The key of the long value to insert above.
    large: usize,
}

impl Editor<'_> {
    /// Returns where to insert a value, such as a limit or a failure policy, in a mapping that has a long one,
    /// such as a pod template: above the long one, after the scalars there if it is a scalar itself. Lists,
    /// such as tolerations, go to the end.
    fn above(&self, mapping: usize, value: &Value) -> Option<Above> {
        if value.is_array() {
            return None;
        }
        let is_mapping = value.is_object();
        let mut behind = None;
        for (key, value) in self.tree.entries(mapping) {
            if self.is_long(value) {
                return Some(Above { behind, large: key });
            }
            if is_mapping || self.tree.node(value).kind == NodeKind::Scalar {
                behind = Some((key, value));
            }
        }
        None
    }

    /// Tells whether a value is a mapping with containers three levels deep or with many nodes.
    fn is_long(&self, at: usize) -> bool {
        const MANY_NODES: usize = 200;
        let node = self.tree.node(at);
        let inner = |at: usize| {
            self.tree
                .children(at)
                .filter(|child| matches!(self.tree.node(*child).kind, NodeKind::Mapping | NodeKind::Sequence))
        };
        node.kind == NodeKind::Mapping
            && (node.next as usize - at > MANY_NODES
                || inner(at).any(|inside| inner(inside).any(|inside| inner(inside).next().is_some())))
    }
}
