//! Compound commands: branches, loops, functions and tests.

use super::lex::{ShellToken, name_length, spend_bytes};
use super::parse::{OpenLoop, Parser, UnreadScript};
use super::word::Word;
use super::{After, Loop, Place};
use crate::meter;

/// Words that start a compound command after the name of a coprocess.
const STARTS: [&str; 8] = ["[[", "case", "for", "if", "select", "until", "while", "{"];

impl Parser<'_, '_, '_> {
    pub(super) fn conditional(&mut self) -> Result<bool, UnreadScript> {
        self.next()?;
        let mut place = Place { condition: true, ..self.deeper() };
        loop {
            self.inside(place, Self::list)?;
            self.expect("then")?;
            self.inside(self.branch(), Self::list)?;
            place = Place { condition: true, ..self.branch() };
            let ShellToken::Word(word) = self.next()? else { return Err(UnreadScript) };
            match word.text.as_ref() {
                "elif" => {}
                "else" => {
                    self.inside(self.branch(), Self::list)?;
                    self.expect("fi")?;
                    return self.compound();
                }
                "fi" => return self.compound(),
                _ => return Err(UnreadScript),
            }
        }
    }

    pub(super) fn while_loop(&mut self, until: bool) -> Result<bool, UnreadScript> {
        self.next()?;
        let before = self.shown;
        self.inside(Place { condition: true, ..self.deeper() }, Self::list)?;
        let endless = match self.waiting.as_ref().filter(|_| self.shown == before + 1) {
            Some(only) => match (only.words.first().and_then(Word::known), only.words.len()) {
                (Some("true" | ":"), 1) | (Some("sleep"), _) => !until,
                (Some("false"), 1) => until,
                _ => false,
            },
            None => false,
        };
        self.body(endless)
    }

    /// Reads `for` or `select`, which differ in that only `for` has a form with `((…))`.
    pub(super) fn for_loop(&mut self, is_for: bool) -> Result<bool, UnreadScript> {
        self.next()?;
        let mut endless = false;
        match self.next()? {
            ShellToken::Op("(") if is_for && self.rest().starts_with('(') => {
                self.at += 1;
                let from = self.at;
                self.arithmetic()?;
                let inner = &self.text[from..self.at.saturating_sub(2)];
                endless = inner.split(';').nth(1).is_some_and(|condition| condition.trim().is_empty());
                self.forget_names(from..self.at);
            }
            ShellToken::Word(name) => {
                self.variables.set(&name.text, None);
                if !is_for {
                    self.variables.set("REPLY", None);
                }
                self.skip_new_lines()?;
                if self.reserved()? == Some("in") {
                    self.next()?;
                    while matches!(self.peek()?, ShellToken::Word(_)) {
                        self.next()?;
                    }
                }
            }
            _ => return Err(UnreadScript),
        }
        if self.is_operator(";")? {
            self.next()?;
        }
        self.skip_new_lines()?;
        self.body(endless)
    }

    /// Reads the body of a loop.
    fn body(&mut self, endless: bool) -> Result<bool, UnreadScript> {
        self.expect("do")?;
        let number = self.all_loops;
        self.all_loops += 1;
        let is_at_top = self.place.depth == 0;
        self.loops.push(OpenLoop { is_at_top, has_head: false, leaves: false });
        let result = self.inside(Place { in_loop: Some(number), ..self.deeper() }, Self::list);
        let open = self.loops.pop().ok_or(UnreadScript)?;
        result?;
        self.expect("done")?;
        let certain = self.compound()?;
        if is_at_top {
            let OpenLoop { has_head, leaves, .. } = open;
            self.end.last_loop = Some(Loop { endless, leaves, has_head });
        }
        Ok(certain)
    }

    pub(super) fn case(&mut self) -> Result<bool, UnreadScript> {
        self.next()?;
        let ShellToken::Word(_) = self.next()? else { return Err(UnreadScript) };
        self.skip_new_lines()?;
        self.expect("in")?;
        loop {
            self.skip_new_lines()?;
            if self.reserved()? == Some("esac") {
                self.next()?;
                return self.compound();
            }
            if self.is_operator("(")? {
                self.next()?;
            }
            loop {
                let ShellToken::Word(_) = self.next()? else { return Err(UnreadScript) };
                match self.next()? {
                    ShellToken::Op("|") => {}
                    ShellToken::Op(")") => break,
                    _ => return Err(UnreadScript),
                }
            }
            self.inside(self.branch(), Self::list)?;
            if self.is_operator(";;")? {
                self.next()?;
            } else if self.reserved()? != Some("esac") {
                return Err(UnreadScript);
            }
        }
    }

    /// Reads the body of a function, which runs when and if it is called, with variables of that moment.
    pub(super) fn function(&mut self) -> Result<bool, UnreadScript> {
        self.skip_new_lines()?;
        let tainted = std::mem::replace(&mut self.variables.tainted, true);
        let place = Place { in_function: true, ..self.branch() };
        self.inside(place, |inner| inner.command().map(|_| ()))?;
        self.variables.tainted = tainted;
        self.compound()
    }

    /// Reads `coproc command` or `coproc NAME { …; }`, which run in the background in a shell of their own.
    pub(super) fn coproc(&mut self) -> Result<bool, UnreadScript> {
        self.next()?;
        let mut is_simple = false;
        if matches!(self.peek()?, ShellToken::Word(_)) && self.reserved()?.is_none() {
            let ShellToken::Word(word) = self.next()? else { return Err(UnreadScript) };
            // The text after it shows whether it is a name: a token is not read twice, since it may be long.
            let behind = self.at;
            self.skip_blanks();
            let rest = self.rest();
            let starts = |start: &str| {
                rest.strip_prefix(start).is_some_and(|rest| rest.starts_with([' ', '\t', '\n', '(']))
            };
            is_simple = !rest.starts_with('(') && !STARTS.iter().any(|start| starts(start));
            if is_simple {
                self.at = behind;
                self.token = Some(ShellToken::Word(word));
            } else {
                self.variables.set(&word.text, None);
            }
        }
        let before = self.shown;
        self.inside(self.subshell(), |inner| inner.command().map(|_| ()))?;
        if let Some(only) = self.waiting.as_mut().filter(|_| is_simple && self.shown == before + 1) {
            only.after = After::Background;
            self.has_started = true;
        }
        self.compound()
    }

    /// Skips `[[ … ]]` after its beginning.
    pub(super) fn test(&mut self) -> Result<(), UnreadScript> {
        let mut scratch = Word::default();
        loop {
            meter::spend(1);
            let rest = self.rest();
            if rest.starts_with([' ', '\t', '\n']) {
                let behind = rest[1..].strip_prefix("]]");
                if behind.is_some_and(|behind| {
                    behind.is_empty() || behind.starts_with([' ', '\t', '\n', ';', '&', '|', ')'])
                }) {
                    self.at += 3;
                    return Ok(());
                }
            }
            self.skip_part(&mut scratch)?;
            scratch = Word::default();
        }
    }

    /// Forgets the variables whose names are in an arithmetic expression, which may assign them.
    pub(super) fn forget_names(&mut self, span: std::ops::Range<usize>) {
        let text = &self.text[span];
        let mut at = 0;
        spend_bytes(text.len());
        while at < text.len() {
            let length = name_length(&text[at..]);
            if length > 0 {
                self.variables.set(&text[at..at + length], None);
            }
            at += length.max(text[at..].chars().next().map_or(1, char::len_utf8));
        }
    }
}
