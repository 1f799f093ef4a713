//! Edits of options: of their items, or of the script that they are in.

use std::borrow::Cow;
use std::ops::Range;

use super::{Started, readable};
use crate::judge::commands::{Given, Token};
use crate::text::patch::Op;

impl Started<'_> {
    /// Returns a word as it is written, with its quotes and variables.
    pub(super) fn written<'t>(&'t self, token: &'t Token) -> Cow<'t, str> {
        let Some(item) = self.line.argv.get(token.item).map(|item| item.written) else {
            return readable(&token.word.text);
        };
        if self.launch.command.shell.is_none() {
            return Cow::Borrowed(item);
        }
        match self.span(token).and_then(|span| item.get(span)) {
            Some(text) if text.starts_with('-') || token.word.known().is_none() => Cow::Borrowed(text),
            _ => readable(&token.word.text),
        }
    }

    /// Returns the bytes of a word in its script, if nothing in the script was replaced.
    fn span(&self, token: &Token) -> Option<Range<usize>> {
        // A nested script is inside the quotes of a word.
        let shell = self.line.shells.get(self.launch.command.shell?)?;
        let is_outer = shell.item == token.item && self.launch.command.shell == Some(0);
        (is_outer && self.line.argv.get(token.item)?.is_verbatim()).then(|| token.word.span.clone())
    }

    /// Returns the operations that replace options with a text, or remove them. Nothing if they are not as plain
    /// as they seem, or there are other launchers in the script.
    pub(in crate::judge) fn replace(&self, options: &[&Given<'_>], by: Option<&str>) -> Option<Vec<Op>> {
        // A script with many launchers would be written out once for each.
        if !self.is_alone {
            return None;
        }
        let words = &self.launch.command.words;
        let mut tokens: Vec<&Token> = Vec::new();
        for given in options {
            tokens.extend(words.get(given.at..=given.at + given.behind)?);
        }
        let first = tokens.first()?;
        if self.launch.command.shell.is_some() {
            return self.replace_in_script(&tokens, by).map(|op| vec![op]);
        }
        // Removing two adjacent items would change the same bytes twice.
        if options.iter().any(|given| given.behind > 0) {
            return None;
        }
        let mut ops = Vec::new();
        if let Some(by) = by {
            ops.push(Op::Replace(self.line.place(first), by.into()));
        }
        // From the end, so that those before stay where they are.
        let mut others: Vec<&&Token> = tokens.iter().skip(usize::from(by.is_some())).collect();
        others.sort_by_key(|token| std::cmp::Reverse(token.item));
        ops.extend(others.into_iter().map(|token| Op::Remove(self.line.place(token))));
        Some(ops)
    }

    fn replace_in_script(&self, tokens: &[&Token], by: Option<&str>) -> Option<Op> {
        let first = tokens.first()?;
        let script = self.line.argv.get(first.item)?.written;
        let mut edits: Vec<(Range<usize>, &str)> = Vec::new();
        for (nth, token) in tokens.iter().enumerate() {
            let span = self.span(token).filter(|_| token.item == first.item)?;
            if script.get(span.clone())? != token.word.text {
                return None;
            }
            match by.filter(|_| nth == 0) {
                Some(by) => edits.push((span, by)),
                None => edits.push((blank_before(script, span.start)..span.end, "")),
            }
        }
        edits.sort_by_key(|(span, _)| span.start);
        let mut out = String::with_capacity(script.len());
        let mut at = 0;
        for (span, by) in edits {
            out.push_str(script.get(at..span.start)?);
            out.push_str(by);
            at = span.end;
        }
        out.push_str(script.get(at..)?);
        Some(Op::Replace(self.line.place(first), out.into()))
    }
}

/// Returns where the blanks and continued lines in front of a word begin.
fn blank_before(script: &str, mut at: usize) -> usize {
    let bytes = script.as_bytes();
    loop {
        match bytes[..at] {
            [.., b' ' | b'\t'] => at -= 1,
            [.., b'\\', b'\n'] => at -= 2,
            _ => return at,
        }
    }
}
