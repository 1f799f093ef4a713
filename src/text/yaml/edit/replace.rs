//! Replaces values.

use std::ops::Range;

use super::editor::Splices;
use super::{Editor, splice};
use crate::text::value::Value;
use crate::text::yaml::print::{Look, is_inline};
use crate::text::yaml::tree::{Kind, Style, Tag};

impl Editor<'_> {
    /// Replaces a node, whose parent and key are given.
    pub(super) fn replace(&self, place: Option<(usize, Option<usize>)>, at: usize, value: &Value) -> Splices {
        if self.tree.is_shared(at) {
            return Err(self.shared());
        }
        let node = self.tree.node(at);
        let parent = place.map(|(parent, _)| parent);
        let mut look = self.look(parent.unwrap_or(at));
        if value.is_string() && matches!(node.style, Style::Single | Style::Double) {
            look.quote = self.quote(at);
        }
        // Keep an anchor that nothing refers to; a tag belongs to the old value.
        let start = if node.tag == Tag::None { node.content } else { node.start } as usize;
        let (start, end) = (self.clamp(start), self.clamp(node.end as usize));
        let is_flow = parent.is_some_and(|parent| self.tree.node(parent).style == Style::Flow)
            || self.document.is_json();
        if is_flow {
            if node.is_absent() {
                let colon = if self.text[..start].trim_end().ends_with(':') { " " } else { ": " };
                return Ok(vec![splice(start..start, colon.to_owned() + &look.inline(value, true))]);
            }
            let own_line =
                place.map_or(start, |(_, key)| key.map_or(start, |key| self.tree.node(key).start as usize));
            let outer = || Some(self.indent(self.tree.node(parent?).content as usize));
            let indent = self.is_first(own_line).then(|| self.indent(own_line));
            let step = indent.and_then(|indent| indent.strip_prefix(outer()?)).unwrap_or_default();
            let text = match indent {
                Some(indent) if !step.is_empty() => look.spread(value, indent, step),
                _ => look.inline(value, true),
            };
            return Ok(vec![splice(start..end, text)]);
        }
        if let Some(text) = self.literal(start..end, node.style, value) {
            return Ok(vec![splice(start..end, text)]);
        }
        if node.style == Style::Flow && !is_inline(value) {
            return Ok(vec![splice(start..end, look.inline(value, true))]);
        }
        match (is_inline(value), node.style == Style::Block) {
            (true, false) => {
                let space = if node.is_absent() && !self.text[..start].ends_with([' ', '\t', '\n', '\r']) {
                    " "
                } else {
                    ""
                };
                Ok(vec![splice(start..end, space.to_owned() + &look.inline(value, false))])
            }
            (true, true) => self.replace_block(place, at, &look.inline(value, false)),
            (false, true) => {
                let column = self.column(node.content as usize);
                let outer = parent.map(|parent| self.column(self.tree.node(parent).content as usize));
                if value.is_object()
                    && node.kind == Kind::Sequence
                    && outer.is_some_and(|outer| outer >= column)
                {
                    return Err(self.layout());
                }
                Ok(vec![splice(node.content as usize..end, look.block(value, column))])
            }
            (false, false) => self.replace_inline(place, at, &look, value),
        }
    }

    /// Returns a text of several lines in the form that a script has already: `|`, and its lines below.
    fn literal(&self, old: Range<usize>, style: Style, value: &Value) -> Option<String> {
        let (header, body) = self.text[old].split_once('\n').filter(|_| style == Style::Literal)?;
        let text = value.as_str()?;
        let text = match header.trim_end() {
            "|" => text.strip_suffix('\n')?,
            "|-" => text,
            _ => return None,
        };
        // The first line tells how far all are indented, and the header how many breaks are at the end.
        let is_sound = text.contains('\n')
            && !text.starts_with([' ', '\n', '\t'])
            && !text.ends_with('\n')
            && text
                .chars()
                .all(|char| matches!(char, '\n' | '\t') || !char.is_control() && char != '\u{feff}');
        let first = body.lines().find(|line| !line.trim().is_empty()).filter(|_| is_sound)?;
        let indent = &first[..first.len() - first.trim_start_matches(' ').len()];
        let mut new = header.to_owned();
        for line in text.split('\n') {
            new.push('\n');
            if !line.is_empty() {
                new += indent;
                new += line;
            }
        }
        Some(new)
    }

    /// Replaces a block container with text on one line.
    pub(super) fn replace_block(
        &self,
        place: Option<(usize, Option<usize>)>,
        at: usize,
        text: &str,
    ) -> Splices {
        let node = self.tree.node(at);
        let (start, end) = (node.content as usize, self.clamp(node.end as usize));
        let Some((_, key)) = place.filter(|_| self.is_first(start)) else {
            return Ok(vec![splice(start..end, text)]);
        };
        if node.start != node.content {
            return Err(self.layout());
        }
        let introducer = match key {
            Some(key) => self.colon(key)?,
            None => self.dash(at)? + 1,
        };
        Ok(vec![splice(introducer..introducer, format!(" {text}")), splice(self.lines(start, end)?, "")])
    }

    /// Replaces a scalar with a block container.
    pub(super) fn replace_inline(
        &self,
        place: Option<(usize, Option<usize>)>,
        at: usize,
        look: &Look,
        value: &Value,
    ) -> Splices {
        let node = self.tree.node(at);
        let (start, end) = (self.clamp(node.start as usize), self.clamp(node.end as usize));
        let Some((parent, key)) = place else { return Ok(vec![splice(start..end, look.block(value, 0))]) };
        let column = self.column(self.tree.node(parent).content as usize);
        let Some(key) = key else {
            let space = if node.is_absent() { " " } else { "" };
            return Ok(vec![splice(start..end, space.to_owned() + &look.block(value, column + 2))]);
        };
        if self.is_first(start) {
            return Ok(vec![splice(start..end, look.block(value, self.column(start)))]);
        }
        let colon = self.colon(key)?;
        let line = self.end_of_line(end)?;
        let text = look.behind_colon(value, column);
        if line == end {
            return Ok(vec![splice(colon..end, text)]);
        }
        Ok(vec![splice(colon..end, ""), splice(line..line, text)])
    }
}
