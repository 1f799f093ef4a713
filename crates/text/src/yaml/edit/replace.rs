//! Replaces values.

use super::editor::Splices;
use super::{Editor, splice};
use crate::value::Value;
use crate::yaml::print::{PrintStyle, is_inline};
use crate::yaml::tree::{NodeKind, Style, Tag};

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
        if node.style == Style::Literal {
            // The parser leaves out spaces at the end of the last line, which are part of the text.
            let behind = &self.text[end..];
            let end = end + behind.len() - behind.trim_start_matches(' ').len();
            if let Some(text) = value.as_str().and_then(|new| literal(&self.text[start..end], new)) {
                return Ok(vec![splice(start..end, text)]);
            }
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
                    && node.kind == NodeKind::Sequence
                    && outer.is_some_and(|outer| outer >= column)
                {
                    return Err(self.layout());
                }
                Ok(vec![splice(node.content as usize..end, look.block(value, column))])
            }
            (false, false) => self.replace_inline(place, at, &look, value),
        }
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
        look: &PrintStyle,
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

/// Writes a text in the form of the old block scalar `|`, with its header and indentation. Nothing if it would
/// not be read as the same text.
fn literal(old: &str, new: &str) -> Option<String> {
    if old.contains('\r') {
        let plain = old.replace("\r\n", "\n");
        let is_mixed = plain.contains('\r') || old.len() - plain.len() != plain.matches('\n').count();
        return if is_mixed { None } else { literal(&plain, new).map(|text| text.replace('\n', "\r\n")) };
    }
    let (header, body) = old.split_once('\n')?;
    let sign = header.split([' ', '\t', '#']).next()?;
    let text = match sign {
        "|" => new.strip_suffix('\n')?,
        "|-" => new,
        // Other headers set the indentation, or keep what follows the last line.
        _ => return None,
    };
    let is_odd = |char: char| {
        char.is_control() && !matches!(char, '\n' | '\t')
            || matches!(char, '\u{2028}' | '\u{2029}' | '\u{FEFF}')
    };
    if text.is_empty() || text.starts_with([' ', '\t', '\n']) || text.ends_with('\n') || text.contains(is_odd)
    {
        return None;
    }
    let first = body.lines().find(|line| !line.trim().is_empty())?;
    let indent = &first[..first.len() - first.trim_start_matches(' ').len()];
    // The parser takes what follows the last line as part of it.
    let behind = &body[body.trim_end_matches([' ', '\n']).len()..];
    // Spaces at the end of the last line are the text's own.
    let behind = behind.trim_start_matches(' ');
    if indent.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(old.len() + new.len());
    out.push_str(header);
    for line in text.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.push_str(indent);
            out.push_str(line);
        }
    }
    out.push_str(behind);
    Some(out)
}
