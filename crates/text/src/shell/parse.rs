//! The grammar of scripts: lists, pipelines and compound commands.

use super::lex::{Heredoc, ShellToken};
use super::word::{Piece, Word};
use super::{After, Bound, End, MAX_NESTING, Place, Simple, Unreadable};
use crate::shell::variables::Variables;

/// The script has a syntax error or unsupported syntax; or it exceeds a bound, which the parser has recorded.
#[derive(Debug)]
pub(super) struct UnreadScript;

/// Reserved words that end a list.
const ENDS: [&str; 8] = ["then", "do", "done", "fi", "elif", "else", "esac", "}"];

/// The other reserved words.
const RESERVED: [&str; 12] =
    ["!", "{", "if", "while", "until", "for", "case", "function", "[[", "select", "coproc", "in"];

/// The longest reserved word, in bytes.
const MAX_RESERVED: usize = 8;

/// Reads a script.
pub(super) fn script<'t>(
    text: &'t str,
    variables: &mut Variables<'_>,
    show: &mut dyn FnMut(&Simple<'t>),
) -> Result<End, Unreadable> {
    let mut parser = Parser {
        text,
        at: 0,
        variables,
        show,
        heredocs: Vec::new(),
        token: None,
        waiting: None,
        spare: Vec::new(),
        shown: 0,
        hidden: 0,
        end: End::default(),
        place: Place::default(),
        behind: None,
        is_compound: false,
        has_started: false,
        loops: Vec::new(),
        all_loops: 0,
        nested: 0,
        is_last: false,
    };
    let is_whole = parser.list().is_ok() && matches!(parser.next(), Ok(ShellToken::End));
    if !is_whole && !parser.end.is_cut {
        return Err(Unreadable);
    }
    if parser.end.is_cut {
        (parser.is_last, parser.end.last_loop) = (false, None);
    }
    if parser.variables.is_full() {
        parser.end.beyond.get_or_insert(Bound::Variables);
    }
    if let Some(mut simple) = parser.waiting.take() {
        simple.is_final = true;
        simple.is_last = parser.is_last && matches!(simple.after, After::End | After::Next);
        (parser.show)(&simple);
    }
    Ok(parser.end)
}

/// A script that is being read.
pub(super) struct Parser<'t, 'r, 'v> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) variables: &'r mut Variables<'v>,
    show: &'r mut dyn FnMut(&Simple<'t>),
    /// Here-documents whose text starts on the next line.
    pub(super) heredocs: Vec<Heredoc<'t>>,
    /// The token that was peeked at, and not taken.
    pub(super) token: Option<ShellToken<'t>>,
    /// The command that was read last: what comes after it may not be known yet.
    pub(super) waiting: Option<Simple<'t>>,
    /// The list of words of a command that was shown, for reuse.
    spare: Vec<Word<Piece<'t>>>,
    /// The number of commands shown or waiting.
    pub(super) shown: usize,
    /// The number of substitutions around: their commands make words, and are not shown.
    hidden: usize,
    pub(super) end: End,
    pub(super) place: Place,
    /// What comes after the compound command that was read last, if no command was read since.
    behind: Option<After>,
    /// Whether what was read last is a compound command.
    is_compound: bool,
    /// Whether `&` has put something in the background.
    pub(super) has_started: bool,
    /// The loops around, outermost first.
    pub(super) loops: Vec<OpenLoop>,
    /// The number of loops so far.
    pub(super) all_loops: usize,
    nested: usize,
    /// Whether the command that was read last is at the top, with nothing after it.
    pub(super) is_last: bool,
}

/// A loop that is being read.
pub(super) struct OpenLoop {
    pub(super) is_at_top: bool,
    pub(super) has_head: bool,
    pub(super) leaves: bool,
}

impl<'t> Parser<'t, '_, '_> {
    /// Records that the script exceeds a bound; reading goes on.
    pub(super) fn pass(&mut self, bound: Bound) {
        self.end.beyond.get_or_insert(bound);
    }

    /// Ends reading at a bound.
    pub(super) fn stop(&mut self, bound: Bound) -> UnreadScript {
        self.pass(bound);
        self.end.is_cut = true;
        UnreadScript
    }

    /// Takes a command, and shows the one before it.
    pub(super) fn take(&mut self, words: Vec<Word<Piece<'t>>>) {
        if self.hidden > 0 {
            self.spare = words;
            return;
        }
        let mut heads_loop = false;
        if let Some(open) = self.loops.last_mut() {
            heads_loop = open.is_at_top && !open.has_head;
            open.has_head = true;
        }
        let simple = Simple {
            words,
            after: After::End,
            place: Place { behind: self.behind.take(), started: self.has_started, ..self.place },
            heads_loop,
            is_final: false,
            is_last: false,
        };
        self.shown += 1;
        self.is_compound = false;
        if let Some(before) = self.waiting.replace(simple) {
            (self.show)(&before);
            self.spare = before.words;
        }
    }

    /// Returns an empty list of words.
    pub(super) fn words(&mut self) -> Vec<Word<Piece<'t>>> {
        let mut words = std::mem::take(&mut self.spare);
        words.clear();
        words
    }

    pub(super) fn peek(&mut self) -> Result<&ShellToken<'t>, UnreadScript> {
        if self.token.is_none() {
            self.token = Some(self.lex()?);
        }
        self.token.as_ref().ok_or(UnreadScript)
    }

    pub(super) fn next(&mut self) -> Result<ShellToken<'t>, UnreadScript> {
        match self.token.take() {
            Some(token) => Ok(token),
            None => self.lex(),
        }
    }

    pub(super) fn is_operator(&mut self, operator: &str) -> Result<bool, UnreadScript> {
        Ok(matches!(self.peek()?, ShellToken::Op(text) if *text == operator))
    }

    /// Returns the next word if it is reserved.
    pub(super) fn reserved(&mut self) -> Result<Option<&'static str>, UnreadScript> {
        let ShellToken::Word(word) = self.peek()? else { return Ok(None) };
        if !word.plain || word.text.len() > MAX_RESERVED {
            return Ok(None);
        }
        Ok(RESERVED.into_iter().chain(ENDS).find(|reserved| word.text == *reserved))
    }

    pub(super) fn expect(&mut self, reserved: &str) -> Result<(), UnreadScript> {
        match self.next()? {
            ShellToken::Word(word) if word.plain && word.text == reserved => Ok(()),
            _ => Err(UnreadScript),
        }
    }

    pub(super) fn skip_new_lines(&mut self) -> Result<(), UnreadScript> {
        while matches!(self.peek()?, ShellToken::NewLine) {
            self.next()?;
        }
        Ok(())
    }

    /// Reads a nested part at a place.
    pub(super) fn inside(
        &mut self,
        place: Place,
        read: impl FnOnce(&mut Self) -> Result<(), UnreadScript>,
    ) -> Result<(), UnreadScript> {
        self.deepen()?;
        let around = std::mem::replace(&mut self.place, place);
        self.variables.enter();
        let result = read(self);
        self.variables.leave();
        self.place = around;
        self.nested -= 1;
        result
    }

    fn deepen(&mut self) -> Result<(), UnreadScript> {
        if self.nested == MAX_NESTING {
            return Err(self.stop(Bound::Nesting));
        }
        self.nested += 1;
        Ok(())
    }

    pub(super) fn deeper(&self) -> Place {
        Place { depth: self.place.depth + 1, ..self.place }
    }

    pub(super) fn subshell(&self) -> Place {
        Place { in_subshell: true, ..self.deeper() }
    }

    pub(super) fn branch(&self) -> Place {
        Place { branch: true, ..self.deeper() }
    }

    /// Reads a command substitution after its bracket. Its commands make a word, and are not shown.
    pub(super) fn substitution(&mut self) -> Result<(), UnreadScript> {
        let heredocs = std::mem::take(&mut self.heredocs);
        let token = self.token.take();
        let (all_loops, is_last) = (self.all_loops, self.is_last);
        let End { last_loop, pipefail, errexit, .. } = self.end;
        self.hidden += 1;
        self.inside(self.branch(), |inner| {
            inner.list()?;
            if inner.next()? == ShellToken::Op(")") && inner.heredocs.is_empty() {
                Ok(())
            } else {
                Err(UnreadScript)
            }
        })?;
        self.hidden -= 1;
        (self.all_loops, self.is_last) = (all_loops, is_last);
        self.end = End { last_loop, pipefail, errexit, ..self.end };
        (self.heredocs, self.token) = (heredocs, token);
        Ok(())
    }

    /// Reads commands up to something that ends a list.
    pub(super) fn list(&mut self) -> Result<(), UnreadScript> {
        loop {
            self.skip_new_lines()?;
            let ends = match self.peek()? {
                ShellToken::End => true,
                ShellToken::Op(operator) => matches!(*operator, ")" | ";;"),
                ShellToken::Word(word) => word.plain && ENDS.contains(&word.text.as_ref()),
                ShellToken::NewLine => false,
            };
            if ends {
                return Ok(());
            }
            self.and_or()?;
            let after = match self.peek()? {
                ShellToken::Op(";") | ShellToken::NewLine => After::Next,
                ShellToken::Op("&") => After::Background,
                _ => return Ok(()),
            };
            self.next()?;
            self.mark(after);
        }
    }

    /// Records what comes after the command that was read last.
    fn mark(&mut self, after: After) {
        let depth = self.place.depth;
        // The script goes on beside such a loop, or ends.
        if depth == 0 && after == After::Background {
            self.end.last_loop = None;
        }
        if self.hidden > 0 {
            return;
        }
        self.has_started |= after == After::Background;
        if self.is_compound {
            self.behind = Some(after);
        }
        if let Some(last) = self.waiting.as_mut().filter(|last| last.place.depth == depth) {
            last.after = after;
        }
    }

    fn and_or(&mut self) -> Result<(), UnreadScript> {
        let around = self.place;
        let mut certain = self.pipeline()?;
        let mut inside = false;
        loop {
            let after = match self.peek()? {
                ShellToken::Op("&&") => After::And,
                ShellToken::Op("||") => After::Or,
                _ => break,
            };
            self.next()?;
            self.skip_new_lines()?;
            self.mark(after);
            if after == After::Or && inside {
                self.variables.leave();
                inside = false;
            }
            if !inside {
                self.variables.enter();
                inside = true;
            }
            if after == After::Or {
                certain = false;
                self.place.branch = true;
            }
            certain &= self.pipeline()?;
        }
        self.place = around;
        match (inside, certain) {
            (true, true) => self.variables.leave_certain(),
            (true, false) => self.variables.leave(),
            (false, _) => {}
        }
        Ok(())
    }

    /// Reads a pipeline. Returns whether it cannot fail, since it only assigns variables.
    fn pipeline(&mut self) -> Result<bool, UnreadScript> {
        while self.reserved()? == Some("!") {
            self.next()?;
        }
        let mut certain = self.command()?;
        while self.is_operator("|")? {
            self.next()?;
            self.skip_new_lines()?;
            self.mark(After::Pipe);
            self.variables.enter();
            let is_own = !std::mem::replace(&mut self.place.in_subshell, true);
            let read = self.command();
            self.place.in_subshell &= !is_own;
            self.variables.leave();
            read?;
            certain = false;
        }
        Ok(certain)
    }

    pub(super) fn command(&mut self) -> Result<bool, UnreadScript> {
        match self.peek()? {
            ShellToken::Op("(") => {
                self.next()?;
                if self.rest().starts_with('(') {
                    self.at += 1;
                    let from = self.at;
                    self.arithmetic()?;
                    self.forget_names(from..self.at);
                    return self.compound();
                }
                self.inside(self.subshell(), |inner| {
                    inner.list()?;
                    if inner.next()? == ShellToken::Op(")") { Ok(()) } else { Err(UnreadScript) }
                })?;
                return self.compound();
            }
            ShellToken::Word(_) => {}
            _ => return Err(UnreadScript),
        }
        let Some(reserved) = self.reserved()? else { return self.simple() };
        match reserved {
            "{" => {
                self.next()?;
                // A group runs in this shell: what it assigns stays known.
                let deeper = self.deeper();
                let around = std::mem::replace(&mut self.place, deeper);
                self.deepen()?;
                self.list()?;
                self.nested -= 1;
                self.place = around;
                self.expect("}")?;
                self.compound()
            }
            "if" => self.conditional(),
            "while" | "until" => self.while_loop(reserved == "until"),
            "for" | "select" => self.for_loop(reserved == "for"),
            "coproc" => self.coproc(),
            "case" => self.case(),
            "function" => {
                self.next()?;
                let ShellToken::Word(_) = self.next()? else { return Err(UnreadScript) };
                if self.is_operator("(")? {
                    self.next()?;
                    if self.next()? != ShellToken::Op(")") {
                        return Err(UnreadScript);
                    }
                }
                self.function()
            }
            "[[" => {
                self.next()?;
                self.test()?;
                self.compound()
            }
            word if ENDS.contains(&word) => Err(UnreadScript),
            _ => self.simple(),
        }
    }

    /// Records the end of a compound command.
    pub(super) fn compound(&mut self) -> Result<bool, UnreadScript> {
        self.is_compound = true;
        if self.place.depth == 0 {
            self.is_last = false;
            self.end.last_loop = None;
        }
        // Only redirections, which are skipped, may follow it.
        match self.peek()? {
            ShellToken::Word(word) if word.plain && ENDS.contains(&word.text.as_ref()) => Ok(false),
            ShellToken::Word(_) | ShellToken::Op("(") => Err(UnreadScript),
            _ => Ok(false),
        }
    }
}
