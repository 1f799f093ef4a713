//! Simple commands: their words, their assignments, and what builtin commands do.

use std::borrow::Cow;

use super::lex::{ShellToken, name_length};
use super::parse::{Parser, UnreadScript};
use super::word::{Piece, UNKNOWN, Word};
use super::{Bound, MAX_COMMAND_BYTES};

/// Commands that take assignments as arguments.
const DECLARE: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

/// The name of a variable, and what it is set to.
type Assignment<'t> = (&'t str, Word<Piece<'t>>);

impl<'t> Parser<'t, '_, '_> {
    pub(super) fn simple(&mut self) -> Result<bool, UnreadScript> {
        let (mut assignments, mut words) = (Vec::<Assignment<'t>>::new(), self.words());
        let mut bytes = 0;
        let mut is_cut = false;
        while let ShellToken::Word(_) = self.peek()? {
            let ShellToken::Word(mut word) = self.next()? else { return Err(UnreadScript) };
            // Each word is followed by a blank or the like.
            bytes += word.text.len() + 1;
            let is_beyond = word.cut || bytes > MAX_COMMAND_BYTES;
            if words.is_empty()
                && let Some(assignment) = self.assignment(&word)?
            {
                if is_cut || is_beyond {
                    is_cut = true;
                } else {
                    assignments.push(assignment);
                }
                continue;
            }
            let declares = words.first().and_then(Word::known).is_some_and(|first| DECLARE.contains(&first));
            if declares && self.array(&word)? {
                word.push(UNKNOWN);
            }
            if !is_cut && !is_beyond {
                words.push(word);
            } else if !is_cut || words.is_empty() {
                words.push(Word::spread(word.span));
                is_cut = true;
            }
            // `name () { …; }`
            if words.len() == 1 && assignments.is_empty() && self.is_operator("(")? {
                self.next()?;
                if self.next()? != ShellToken::Op(")") {
                    return Err(UnreadScript);
                }
                return self.function();
            }
        }
        if self.is_operator("(")? {
            return Err(UnreadScript);
        }
        if is_cut {
            self.pass(Bound::Command);
        }
        let assigns_only = words.is_empty();
        if assigns_only {
            for (name, value) in &assignments {
                self.variables.set(name, value.known());
            }
            if is_cut {
                self.variables.forget_all();
            }
        }
        let declares = self.builtin(&words, is_cut);
        if self.place.depth == 0 {
            self.is_last = true;
            self.end.last_loop = None;
        }
        self.take(words);
        Ok(assigns_only || declares)
    }

    /// Reads a word as an assignment, if it is one: `X=1`, `X+=1`, `X[0]=1`, `X=(1 2)`.
    fn assignment(&mut self, word: &Word<Piece<'t>>) -> Result<Option<Assignment<'t>>, UnreadScript> {
        let raw = &self.text[word.span.clone()];
        let length = name_length(raw);
        let (name, rest) = raw.split_at(length);
        if length == 0 {
            return Ok(None);
        }
        let unknown = Word::spread(word.span.clone());
        if let Some(value) = rest.strip_prefix('=') {
            if self.array(word)? || value.starts_with('~') {
                return Ok(Some((name, unknown)));
            }
            let text = match &word.text {
                Cow::Borrowed(text) => Cow::Borrowed(text.get(length + 1..).unwrap_or_default()),
                Cow::Owned(text) => Cow::Owned(text.get(length + 1..).unwrap_or_default().to_owned()),
            };
            return Ok(Some((name, Word { text, span: word.span.clone(), ..Word::default() })));
        }
        let is_item = || rest.starts_with('[') && (rest.contains("]=") || rest.contains("]+="));
        let is_assignment = self.array(word)? || rest.starts_with("+=") || is_item();
        Ok(is_assignment.then_some((name, unknown)))
    }

    /// Skips the items of an array after `X=` or `X+=`, if there are any.
    fn array(&mut self, word: &Word<Piece<'t>>) -> Result<bool, UnreadScript> {
        let raw = &self.text[word.span.clone()];
        let length = name_length(raw);
        let assigns = length > 0 && matches!(&raw[length..], "=" | "+=");
        if !assigns || self.token.is_some() || !self.rest().starts_with('(') {
            return Ok(false);
        }
        self.next()?;
        loop {
            match self.next()? {
                ShellToken::Op(")") => return Ok(true),
                ShellToken::Word(_) | ShellToken::NewLine => {}
                _ => return Err(UnreadScript),
            }
        }
    }

    /// Applies the effects of a builtin command on variables, options and loops. Returns whether it only
    /// declares.
    fn builtin(&mut self, words: &[Word<Piece<'t>>], is_cut: bool) -> bool {
        let Some((program, arguments)) = words.split_first() else { return false };
        let name = program.known().unwrap_or_default();
        let sets = ["unset", "read", "mapfile", "readarray", "getopts", "let", "printf"].contains(&name);
        if is_cut && sets {
            self.variables.forget_all();
        }
        match name {
            _ if DECLARE.contains(&name) => {
                for argument in arguments {
                    let length = name_length(&argument.text);
                    if length > 0 && argument.text[length..].starts_with("+=") {
                        self.variables.set(&argument.text[..length], None);
                    } else if let Some(value) =
                        argument.text[length..].strip_prefix('=').filter(|_| length > 0)
                    {
                        let value = Word { text: value, ..Word::default() };
                        self.variables.set(&argument.text[..length], value.known());
                    } else if argument.known().is_none() {
                        self.variables.tainted = true;
                    }
                }
                return true;
            }
            _ if sets => {
                for argument in arguments {
                    let length = name_length(&argument.text);
                    if length > 0 {
                        self.variables.set(&argument.text[..length], None);
                    }
                }
            }
            "eval" | "source" | "." => self.variables.tainted = true,
            "set" => self.set_options(arguments),
            "break" => {
                if let Some(open) = self.loops.last_mut() {
                    open.leaves = true;
                }
            }
            "exit" | "return" | "exec" | "kill" => {
                for open in &mut self.loops {
                    open.leaves = true;
                }
            }
            _ => {}
        }
        false
    }

    /// Reads `set -e`, `set -o pipefail`, `set -euo pipefail`.
    fn set_options(&mut self, arguments: &[Word<Piece<'t>>]) {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.start();
            let on = text.starts_with('-') && !self.place.branch;
            if !text.starts_with(['-', '+']) || text == "--" {
                return;
            }
            if text.contains('e') {
                self.end.errexit = on;
            }
            if text.contains('o') {
                match words.next().and_then(Word::known) {
                    Some("pipefail") => self.end.pipefail = on,
                    Some("errexit") => self.end.errexit = on,
                    _ => {}
                }
            }
        }
    }
}
