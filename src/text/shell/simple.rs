//! Simple commands: their words, their assignments, and what builtin commands do.

use super::lex::{Token, name_length};
use super::parse::{Parser, Unread};
use super::{After, Simple, UNKNOWN, Word};

impl Parser<'_, '_> {
    pub(super) fn simple(&mut self) -> Result<bool, Unread> {
        let (mut assignments, mut words) = (Vec::new(), Vec::<Word>::new());
        while let Token::Word(_) = self.peek()? {
            let Token::Word(word) = self.next()? else { return Err(Unread) };
            if words.is_empty()
                && let Some(assignment) = self.assignment(&word)?
            {
                assignments.push(assignment);
                continue;
            }
            words.push(word);
            // `name () { …; }`
            if words.len() == 1 && assignments.is_empty() && self.is_operator("(")? {
                self.next()?;
                if self.next()? != Token::Op(")") {
                    return Err(Unread);
                }
                return self.function();
            }
        }
        if self.is_operator("(")? {
            return Err(Unread);
        }
        let assigns_only = words.is_empty();
        if assigns_only {
            for (name, value) in &assignments {
                self.variables.set(name, value.known().map(str::to_owned));
            }
        }
        let declares = self.builtin(&words);
        if self.place.depth == 0 {
            self.last = Some(self.script.commands.len());
            self.last_loop = None;
        }
        self.script.commands.push(Simple { words, after: After::End, place: self.place });
        Ok(assigns_only || declares)
    }

    /// Reads a word as an assignment, if it is one: `X=1`, `X+=1`, `X[0]=1`, `X=(1 2)`.
    fn assignment(&mut self, word: &Word) -> Result<Option<(String, Word)>, Unread> {
        let raw = &self.text[word.span.clone()];
        let length = name_length(raw);
        let (name, rest) = raw.split_at(length);
        if length == 0 {
            return Ok(None);
        }
        let unknown = Word { text: UNKNOWN.to_string(), span: word.span.clone(), plain: false };
        if let Some(value) = rest.strip_prefix('=') {
            if value.is_empty() && self.token.is_none() && self.rest().starts_with('(') {
                self.next()?;
                loop {
                    match self.next()? {
                        Token::Op(")") => return Ok(Some((name.to_owned(), unknown))),
                        Token::Word(_) | Token::NewLine => {}
                        _ => return Err(Unread),
                    }
                }
            }
            if value.starts_with('~') {
                return Ok(Some((name.to_owned(), unknown)));
            }
            let text = word.text.get(length + 1..).unwrap_or_default().to_owned();
            return Ok(Some((name.to_owned(), Word { text, span: word.span.clone(), plain: false })));
        }
        let is_item = || rest.starts_with('[') && rest.contains("]=");
        Ok((rest.starts_with("+=") || is_item()).then(|| (name.to_owned(), unknown)))
    }

    /// Does what a builtin command does to variables, options and loops. Tells whether it only declares.
    fn builtin(&mut self, words: &[Word]) -> bool {
        let Some((program, arguments)) = words.split_first() else { return false };
        match program.known().unwrap_or_default() {
            "export" | "readonly" | "declare" | "typeset" | "local" => {
                for argument in arguments {
                    let length = name_length(&argument.text);
                    if let Some(value) = argument.text[length..].strip_prefix('=').filter(|_| length > 0) {
                        let value = Word { text: value.to_owned(), ..Word::default() };
                        let name = argument.text[..length].to_owned();
                        self.variables.set(&name, value.known().map(str::to_owned));
                    } else if argument.known().is_none() {
                        self.variables.tainted = true;
                    }
                }
                return true;
            }
            "unset" | "read" | "mapfile" | "readarray" | "getopts" | "let" | "printf" => {
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
                if let Some(at) = self.loops.last() {
                    self.script.loops[*at].leaves = true;
                }
            }
            "exit" | "return" | "exec" | "kill" => {
                for at in &self.loops {
                    self.script.loops[*at].leaves = true;
                }
            }
            _ => {}
        }
        false
    }

    /// Reads `set -e`, `set -o pipefail`, `set -euo pipefail`.
    fn set_options(&mut self, arguments: &[Word]) {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.start();
            let on = text.starts_with('-') && !self.place.branch;
            if !text.starts_with(['-', '+']) || text == "--" {
                return;
            }
            if text.contains('e') {
                self.script.errexit = on;
            }
            if text.contains('o') {
                match words.next().and_then(Word::known) {
                    Some("pipefail") => self.script.pipefail = on,
                    Some("errexit") => self.script.errexit = on,
                    _ => {}
                }
            }
        }
    }
}
