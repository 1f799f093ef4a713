//! The grammar of scripts: lists, pipelines and compound commands.

use super::lex::{Heredoc, Token, name_length, spend_bytes};
use super::word::{Piece, Word};
use super::{After, Bound, End, Loop, MAX_NESTING, Place, Simple, Unreadable, Variables};
use crate::text::meter;

/// The script has a syntax error, or something that is not read; or it is beyond a bound, and the parser
/// says so.
#[derive(Debug)]
pub(super) struct Unread;

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
        loops: Vec::new(),
        all_loops: 0,
        nested: 0,
        is_last: false,
    };
    let is_whole = parser.list().is_ok() && matches!(parser.next(), Ok(Token::End));
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
    /// Here-documents whose text comes at the next new line.
    pub(super) heredocs: Vec<Heredoc<'t>>,
    /// The token that was looked at, and not taken.
    pub(super) token: Option<Token<'t>>,
    /// The command that was read last: what comes after it may not be known yet.
    waiting: Option<Simple<'t>>,
    /// The list of words of a command that was shown, to use again.
    spare: Vec<Word<Piece<'t>>>,
    /// How many commands were shown, or wait.
    shown: usize,
    /// In how many substitutions it is: their commands make words, and are not shown.
    hidden: usize,
    pub(super) end: End,
    pub(super) place: Place,
    /// The loops around, outermost first.
    pub(super) loops: Vec<Open>,
    /// How many loops there were.
    all_loops: usize,
    nested: usize,
    /// Whether the command that was read last is at the top, with nothing behind it.
    pub(super) is_last: bool,
}

/// A loop that is being read.
pub(super) struct Open {
    is_at_top: bool,
    has_head: bool,
    pub(super) leaves: bool,
}

impl<'t> Parser<'t, '_, '_> {
    /// Notes that the script is beyond a bound, and that reading goes on.
    pub(super) fn pass(&mut self, bound: Bound) {
        self.end.beyond.get_or_insert(bound);
    }

    /// Ends reading at a bound.
    pub(super) fn stop(&mut self, bound: Bound) -> Unread {
        self.pass(bound);
        self.end.is_cut = true;
        Unread
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
            place: self.place,
            heads_loop,
            is_final: false,
            is_last: false,
        };
        self.shown += 1;
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

    pub(super) fn peek(&mut self) -> Result<&Token<'t>, Unread> {
        if self.token.is_none() {
            self.token = Some(self.lex()?);
        }
        self.token.as_ref().ok_or(Unread)
    }

    pub(super) fn next(&mut self) -> Result<Token<'t>, Unread> {
        match self.token.take() {
            Some(token) => Ok(token),
            None => self.lex(),
        }
    }

    pub(super) fn is_operator(&mut self, operator: &str) -> Result<bool, Unread> {
        Ok(matches!(self.peek()?, Token::Op(text) if *text == operator))
    }

    /// Returns the reserved word that comes, if one does.
    fn reserved(&mut self) -> Result<Option<&'static str>, Unread> {
        let Token::Word(word) = self.peek()? else { return Ok(None) };
        if !word.plain || word.text.len() > MAX_RESERVED {
            return Ok(None);
        }
        Ok(RESERVED.into_iter().chain(ENDS).find(|reserved| word.text == *reserved))
    }

    fn expect(&mut self, reserved: &str) -> Result<(), Unread> {
        match self.next()? {
            Token::Word(word) if word.plain && word.text == reserved => Ok(()),
            _ => Err(Unread),
        }
    }

    fn skip_new_lines(&mut self) -> Result<(), Unread> {
        while matches!(self.peek()?, Token::NewLine) {
            self.next()?;
        }
        Ok(())
    }

    /// Reads something inside the place where it stands.
    fn inside(
        &mut self,
        place: Place,
        read: impl FnOnce(&mut Self) -> Result<(), Unread>,
    ) -> Result<(), Unread> {
        self.deepen()?;
        let around = std::mem::replace(&mut self.place, place);
        self.variables.enter();
        let result = read(self);
        self.variables.leave();
        self.place = around;
        self.nested -= 1;
        result
    }

    fn deepen(&mut self) -> Result<(), Unread> {
        if self.nested == MAX_NESTING {
            return Err(self.stop(Bound::Nesting));
        }
        self.nested += 1;
        Ok(())
    }

    fn deeper(&self) -> Place {
        Place { depth: self.place.depth + 1, ..self.place }
    }

    fn branch(&self) -> Place {
        Place { branch: true, ..self.deeper() }
    }

    /// Reads a command substitution after its bracket. Its commands make a word, and are not listed.
    pub(super) fn substitution(&mut self) -> Result<(), Unread> {
        let heredocs = std::mem::take(&mut self.heredocs);
        let token = self.token.take();
        let (all_loops, is_last) = (self.all_loops, self.is_last);
        let End { last_loop, pipefail, errexit, .. } = self.end;
        self.hidden += 1;
        self.inside(self.branch(), |inner| {
            inner.list()?;
            if inner.next()? == Token::Op(")") && inner.heredocs.is_empty() { Ok(()) } else { Err(Unread) }
        })?;
        self.hidden -= 1;
        (self.all_loops, self.is_last) = (all_loops, is_last);
        self.end = End { last_loop, pipefail, errexit, ..self.end };
        (self.heredocs, self.token) = (heredocs, token);
        Ok(())
    }

    /// Reads commands up to something that ends a list.
    fn list(&mut self) -> Result<(), Unread> {
        loop {
            self.skip_new_lines()?;
            let ends = match self.peek()? {
                Token::End => true,
                Token::Op(operator) => matches!(*operator, ")" | ";;"),
                Token::Word(word) => word.plain && ENDS.contains(&word.text.as_ref()),
                Token::NewLine => false,
            };
            if ends {
                return Ok(());
            }
            self.and_or()?;
            let after = match self.peek()? {
                Token::Op(";") | Token::NewLine => After::Next,
                Token::Op("&") => After::Background,
                _ => return Ok(()),
            };
            self.next()?;
            self.mark(after);
        }
    }

    /// Says what comes after the command that was read last.
    fn mark(&mut self, after: After) {
        let depth = self.place.depth;
        // The script goes on beside such a loop, or ends.
        if depth == 0 && after == After::Background {
            self.end.last_loop = None;
        }
        let waiting = self.waiting.as_mut().filter(|last| self.hidden == 0 && last.place.depth == depth);
        if let Some(last) = waiting {
            last.after = after;
        }
    }

    fn and_or(&mut self) -> Result<(), Unread> {
        let around = self.place;
        let mut certain = self.pipeline()?;
        let mut inside = false;
        loop {
            let after = match self.peek()? {
                Token::Op("&&") => After::And,
                Token::Op("||") => After::Or,
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

    /// Reads a pipeline. Tells whether it cannot fail, as it only assigns variables.
    fn pipeline(&mut self) -> Result<bool, Unread> {
        while self.reserved()? == Some("!") {
            self.next()?;
        }
        let mut certain = self.command()?;
        while self.is_operator("|")? {
            self.next()?;
            self.skip_new_lines()?;
            self.mark(After::Pipe);
            self.variables.enter();
            let read = self.command();
            self.variables.leave();
            read?;
            certain = false;
        }
        Ok(certain)
    }

    fn command(&mut self) -> Result<bool, Unread> {
        match self.peek()? {
            Token::Op("(") => {
                self.next()?;
                if self.rest().starts_with('(') {
                    self.at += 1;
                    let from = self.at;
                    self.arithmetic()?;
                    self.forget_names(from..self.at);
                    return self.compound();
                }
                self.inside(self.deeper(), |inner| {
                    inner.list()?;
                    if inner.next()? == Token::Op(")") { Ok(()) } else { Err(Unread) }
                })?;
                return self.compound();
            }
            Token::Word(_) => {}
            _ => return Err(Unread),
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
            "for" => self.for_loop(),
            "case" => self.case(),
            "function" => {
                self.next()?;
                let Token::Word(_) = self.next()? else { return Err(Unread) };
                if self.is_operator("(")? {
                    self.next()?;
                    if self.next()? != Token::Op(")") {
                        return Err(Unread);
                    }
                }
                self.function()
            }
            "[[" => {
                self.next()?;
                self.test()?;
                self.compound()
            }
            "select" | "coproc" => Err(Unread),
            word if ENDS.contains(&word) => Err(Unread),
            _ => self.simple(),
        }
    }

    /// Ends a compound command, which is no simple one.
    fn compound(&mut self) -> Result<bool, Unread> {
        if self.place.depth == 0 {
            self.is_last = false;
            self.end.last_loop = None;
        }
        // Only redirections, which are skipped, may stand behind it.
        match self.peek()? {
            Token::Word(word) if word.plain && ENDS.contains(&word.text.as_ref()) => Ok(false),
            Token::Word(_) | Token::Op("(") => Err(Unread),
            _ => Ok(false),
        }
    }

    fn conditional(&mut self) -> Result<bool, Unread> {
        self.next()?;
        let mut place = Place { condition: true, ..self.deeper() };
        loop {
            self.inside(place, Self::list)?;
            self.expect("then")?;
            self.inside(self.branch(), Self::list)?;
            place = Place { condition: true, ..self.branch() };
            let Token::Word(word) = self.next()? else { return Err(Unread) };
            match word.text.as_ref() {
                "elif" => {}
                "else" => {
                    self.inside(self.branch(), Self::list)?;
                    self.expect("fi")?;
                    return self.compound();
                }
                "fi" => return self.compound(),
                _ => return Err(Unread),
            }
        }
    }

    fn while_loop(&mut self, until: bool) -> Result<bool, Unread> {
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

    fn for_loop(&mut self) -> Result<bool, Unread> {
        self.next()?;
        let mut endless = false;
        match self.next()? {
            Token::Op("(") if self.rest().starts_with('(') => {
                self.at += 1;
                let from = self.at;
                self.arithmetic()?;
                let inner = &self.text[from..self.at.saturating_sub(2)];
                endless = inner.split(';').nth(1).is_some_and(|condition| condition.trim().is_empty());
                self.forget_names(from..self.at);
            }
            Token::Word(name) => {
                self.variables.set(&name.text, None);
                self.skip_new_lines()?;
                if self.reserved()? == Some("in") {
                    self.next()?;
                    while matches!(self.peek()?, Token::Word(_)) {
                        self.next()?;
                    }
                }
            }
            _ => return Err(Unread),
        }
        if self.is_operator(";")? {
            self.next()?;
        }
        self.skip_new_lines()?;
        self.body(endless)
    }

    /// Reads the body of a loop.
    fn body(&mut self, endless: bool) -> Result<bool, Unread> {
        self.expect("do")?;
        let number = self.all_loops;
        self.all_loops += 1;
        let is_at_top = self.place.depth == 0;
        self.loops.push(Open { is_at_top, has_head: false, leaves: false });
        let result = self.inside(Place { in_loop: Some(number), ..self.deeper() }, Self::list);
        let open = self.loops.pop().ok_or(Unread)?;
        result?;
        self.expect("done")?;
        let certain = self.compound()?;
        if is_at_top {
            let Open { has_head, leaves, .. } = open;
            self.end.last_loop = Some(Loop { endless, leaves, has_head });
        }
        Ok(certain)
    }

    fn case(&mut self) -> Result<bool, Unread> {
        self.next()?;
        let Token::Word(_) = self.next()? else { return Err(Unread) };
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
                let Token::Word(_) = self.next()? else { return Err(Unread) };
                match self.next()? {
                    Token::Op("|") => {}
                    Token::Op(")") => break,
                    _ => return Err(Unread),
                }
            }
            self.inside(self.branch(), Self::list)?;
            if self.is_operator(";;")? {
                self.next()?;
            } else if self.reserved()? != Some("esac") {
                return Err(Unread);
            }
        }
    }

    /// Reads the body of a function, which runs when and if it is called, with variables of that moment.
    pub(super) fn function(&mut self) -> Result<bool, Unread> {
        self.skip_new_lines()?;
        let tainted = std::mem::replace(&mut self.variables.tainted, true);
        self.inside(self.branch(), |inner| inner.command().map(|_| ()))?;
        self.variables.tainted = tainted;
        self.compound()
    }

    /// Skips `[[ … ]]` after its beginning.
    fn test(&mut self) -> Result<(), Unread> {
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
    fn forget_names(&mut self, span: std::ops::Range<usize>) {
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
