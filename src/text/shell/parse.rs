//! The grammar of scripts: lists, pipelines and compound commands.

use super::lex::{Heredoc, Token, name_length};
use super::{After, Loop, Place, Script, Variables, Word};
use crate::text::meter;

/// The script has a syntax error, or something that is not read.
#[derive(Debug)]
pub(super) struct Unread;

/// Compound commands in one another, substitutions included: no script that people write has more.
const MAX_DEPTH: usize = 40;

/// Reserved words that end a list.
const ENDS: [&str; 8] = ["then", "do", "done", "fi", "elif", "else", "esac", "}"];

/// The other reserved words.
const RESERVED: [&str; 12] =
    ["!", "{", "if", "while", "until", "for", "case", "function", "[[", "select", "coproc", "in"];

/// Reads a script.
pub(super) fn script(text: &str, variables: &mut Variables<'_>) -> Option<Script> {
    let mut parser = Parser {
        text,
        at: 0,
        variables,
        heredocs: Vec::new(),
        token: None,
        script: Script::default(),
        place: Place::default(),
        loops: Vec::new(),
        nested: 0,
        last: None,
        last_loop: None,
    };
    parser.list().ok()?;
    if parser.next().ok()? != Token::End {
        return None;
    }
    let Parser { mut script, last, last_loop, .. } = parser;
    script.last = last.filter(|at| matches!(script.commands[*at].after, After::End | After::Next));
    if let Some(last) = last_loop.and_then(|at| script.loops.get_mut(at)) {
        last.last = true;
    }
    Some(script)
}

/// A script that is being read.
pub(super) struct Parser<'t, 'v> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) variables: &'t mut Variables<'v>,
    /// Here-documents whose text comes at the next new line.
    pub(super) heredocs: Vec<Heredoc>,
    /// The token that was looked at, and not taken.
    pub(super) token: Option<Token>,
    pub(super) script: Script,
    pub(super) place: Place,
    /// The loops around, outermost first.
    pub(super) loops: Vec<usize>,
    nested: usize,
    /// The command that came last at the top, if nothing else did.
    pub(super) last: Option<usize>,
    /// The loop that came last at the top, if nothing else did.
    pub(super) last_loop: Option<usize>,
}

impl Parser<'_, '_> {
    pub(super) fn peek(&mut self) -> Result<&Token, Unread> {
        if self.token.is_none() {
            self.token = Some(self.lex()?);
        }
        self.token.as_ref().ok_or(Unread)
    }

    pub(super) fn next(&mut self) -> Result<Token, Unread> {
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
        let mut all = RESERVED.into_iter().chain(ENDS);
        Ok(all.find(|reserved| word.plain && word.text == *reserved))
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
        if self.nested == MAX_DEPTH {
            return Err(Unread);
        }
        self.nested += 1;
        let around = std::mem::replace(&mut self.place, place);
        self.variables.enter();
        let result = read(self);
        self.variables.leave();
        self.place = around;
        self.nested -= 1;
        result
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
        let (commands, loops) = (self.script.commands.len(), self.script.loops.len());
        let (last, last_loop) = (self.last, self.last_loop);
        let options = (self.script.pipefail, self.script.errexit);
        self.inside(self.branch(), |inner| {
            inner.list()?;
            if inner.next()? == Token::Op(")") && inner.heredocs.is_empty() { Ok(()) } else { Err(Unread) }
        })?;
        self.script.commands.truncate(commands);
        self.script.loops.truncate(loops);
        (self.last, self.last_loop) = (last, last_loop);
        (self.script.pipefail, self.script.errexit) = options;
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
                Token::Word(word) => word.plain && ENDS.contains(&word.text.as_str()),
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
            self.last_loop = None;
        }
        if let Some(last) = self.script.commands.last_mut().filter(|last| last.place.depth == depth) {
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
        let start = match self.peek()? {
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
            Token::Word(word) => word.span.start,
            _ => return Err(Unread),
        };
        let Some(reserved) = self.reserved()? else { return self.simple() };
        match reserved {
            "{" => {
                self.next()?;
                // A group runs in this shell: what it assigns stays known.
                let deeper = self.deeper();
                let around = std::mem::replace(&mut self.place, deeper);
                self.nested += 1;
                if self.nested > MAX_DEPTH {
                    return Err(Unread);
                }
                self.list()?;
                self.nested -= 1;
                self.place = around;
                self.expect("}")?;
                self.compound()
            }
            "if" => self.conditional(),
            "while" | "until" => self.while_loop(start, reserved == "until"),
            "for" => self.for_loop(start),
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
            self.last = None;
            self.last_loop = None;
        }
        // Only redirections, which are skipped, may stand behind it.
        match self.peek()? {
            Token::Word(word) if word.plain && ENDS.contains(&word.text.as_str()) => Ok(false),
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
            match word.text.as_str() {
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

    fn while_loop(&mut self, start: usize, until: bool) -> Result<bool, Unread> {
        self.next()?;
        let first = self.script.commands.len();
        self.inside(Place { condition: true, ..self.deeper() }, Self::list)?;
        let endless = match &self.script.commands[first..] {
            [only] => {
                let words: Vec<Option<&str>> = only.words.iter().map(Word::known).collect();
                match words.as_slice() {
                    [Some("true" | ":")] | [Some("sleep"), ..] => !until,
                    [Some("false")] => until,
                    _ => false,
                }
            }
            _ => false,
        };
        self.body(start, endless)
    }

    fn for_loop(&mut self, start: usize) -> Result<bool, Unread> {
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
        self.body(start, endless)
    }

    /// Reads the body of a loop.
    fn body(&mut self, start: usize, endless: bool) -> Result<bool, Unread> {
        self.expect("do")?;
        let index = self.script.loops.len();
        self.script.loops.push(Loop { span: start..start, endless, ..Loop::default() });
        self.loops.push(index);
        let result = self.inside(Place { in_loop: Some(index), ..self.deeper() }, Self::list);
        self.loops.pop();
        result?;
        self.expect("done")?;
        self.script.loops[index].span = start..self.at;
        let certain = self.compound()?;
        if self.place.depth == 0 {
            self.last_loop = Some(index);
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
            scratch.text.clear();
        }
    }

    /// Forgets the variables whose names are in an arithmetic expression, which may assign them.
    fn forget_names(&mut self, span: std::ops::Range<usize>) {
        let text = &self.text[span];
        let mut at = 0;
        while at < text.len() {
            meter::spend(1);
            let length = name_length(&text[at..]);
            if length > 0 {
                self.variables.set(&text[at..at + length], None);
            }
            at += length.max(text[at..].chars().next().map_or(1, char::len_utf8));
        }
    }
}
