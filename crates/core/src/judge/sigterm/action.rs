//! What the action of a `trap` does: whether the shell ends in it, and with which status.

use std::cell::Cell;

use super::SUCCEED;
use crate::judge::commands::Token;
use crate::text::meter;
use crate::text::shell::{self, After, SPREADS, Simple, Variables};

/// What a `trap` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrapAction {
    /// The shell ends with this status: whether it is 0.
    Exit(bool),
    /// The shell goes on.
    GoesOn,
    /// The signal is ignored.
    Ignored,
    Unknown,
}

/// Commands whose status is an answer, or comes from another program.
const TESTS: [&str; 20] = [
    "[",
    "cmp",
    "command",
    "diff",
    "egrep",
    "expr",
    "false",
    "fgrep",
    "grep",
    "hash",
    "killall",
    "let",
    "mountpoint",
    "pgrep",
    "pidof",
    "pkill",
    "read",
    "test",
    "wait",
    "which",
];

/// Maximum depth of nested functions, and maximum functions of one action, that are looked up in a script.
const MAX_DEPTH: usize = 3;
const MAX_LOOKUPS: usize = 8;

/// The script around an action.
pub(super) struct Around<'s> {
    /// The script, if known. A nested script is in quotes, so its functions are not read.
    pub(super) script: Option<&'s str>,
    pub(super) is_bash: bool,
    /// Whether the shell ends at the first command that fails, also in the action.
    pub(super) errexit: bool,
    lookups: Cell<usize>,
}

impl<'s> Around<'s> {
    pub(super) fn new(script: Option<&'s str>, is_bash: bool, errexit: bool) -> Self {
        Self { script, is_bash, errexit, lookups: Cell::new(0) }
    }

    /// Returns what an action does: a script, or the name of a function of the script around.
    pub(super) fn does(&self, action: &Token) -> TrapAction {
        let text = action.word.text.as_str();
        meter::spend_text(text);
        if text.contains(SPREADS) {
            return TrapAction::Unknown;
        }
        if text.trim().is_empty() {
            return TrapAction::Ignored;
        }
        let is_name = text.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char));
        if self.script.is_none() && is_name {
            return TrapAction::Unknown;
        }
        self.ends(text, 0)
    }

    /// Returns the body of the function of this name, if the script has one.
    pub(super) fn body(&self, name: &str) -> Option<&'s str> {
        body(name, self.script?)
    }

    /// Like [`Self::body`], for a few functions; an error for more.
    fn looked_up(&self, name: &str) -> Result<Option<&'s str>, ()> {
        if self.script.is_none() || SUCCEED.contains(&name) || TESTS.contains(&name) || name == "kill" {
            return Ok(None);
        }
        let lookups = self.lookups.get();
        self.lookups.set(lookups + 1);
        if lookups < MAX_LOOKUPS { Ok(self.body(name)) } else { Err(()) }
    }

    /// Returns how a short script that a signal starts ends.
    fn ends(&self, text: &str, depth: usize) -> TrapAction {
        let mut reading = ActionReading::new(self, text, depth);
        let nothing = |_: &str| None;
        match shell::read(text, &mut Variables::new(&nothing), &mut |simple| reading.take(simple)) {
            Ok(end) if !end.is_cut => reading.end(),
            _ => TrapAction::Unknown,
        }
    }
}

/// An action that is being read.
struct ActionReading<'r, 's> {
    around: &'r Around<'s>,
    text: &'r str,
    depth: usize,
    /// Its end, once known.
    first: Option<TrapAction>,
    /// Whether there may be a `!`, which inverts a status and does not appear in the commands.
    has_not: bool,
    /// Whether there is no syntax that changes the status of a command without appearing in the commands.
    is_simple: bool,
    /// Whether the shell may end at a command before, with its status.
    may_fail: bool,
    /// Whether the next command depends on the unknown status of those before.
    is_open: bool,
    /// What comes after the command before.
    before: After,
    /// Whether the command before ends with 0.
    has_succeeded: bool,
    /// Whether the command is a function of the script that ends with 0.
    calls_well: bool,
    /// Whether no earlier command may assign a variable without the text showing it.
    is_own: bool,
    /// Whether a signal has another action now.
    has_changed: bool,
}

impl<'r, 's> ActionReading<'r, 's> {
    fn new(around: &'r Around<'s>, text: &'r str, depth: usize) -> Self {
        let has_test = text.contains("[[") || text.contains("((");
        Self {
            around,
            text,
            depth,
            first: None,
            has_not: text.contains('!'),
            is_simple: !text.contains(['!', '<', '>']) && !has_test,
            may_fail: has_test,
            is_open: false,
            before: After::Next,
            has_succeeded: false,
            calls_well: false,
            is_own: true,
            has_changed: false,
        }
    }

    fn end(self) -> TrapAction {
        let fails = self.around.errexit && self.may_fail;
        match self.first {
            Some(action) => action,
            None if fails || self.has_changed => TrapAction::Unknown,
            None => TrapAction::GoesOn,
        }
    }

    fn take(&mut self, simple: &Simple<'_>) {
        if self.first.is_some() {
            return;
        }
        let place = &simple.place;
        self.calls_well = false;
        // A command joined by `&&` runs only if those before it succeed.
        let is_joined = self.before == After::And || place.behind == Some(After::And);
        let is_open = is_joined && (self.is_open || place.behind.is_some() || self.has_not);
        let is_sure = place.depth == 0
            && !place.branch
            && !place.in_subshell
            && !matches!(simple.after, After::Background | After::Pipe);
        let program = simple.words.first().and_then(|word| word.known());
        let action = match program {
            Some("exit") if is_sure && !is_open => Some(self.exit(simple)),
            Some("exit" | "exec" | "return" | "eval" | "." | "source") => Some(TrapAction::Unknown),
            Some("trap") => self.trap(simple),
            Some("kill") if self.is_of_itself(simple) => Some(TrapAction::Unknown),
            Some(name) => self.function(name, is_sure && !is_open),
            None => None,
        };
        self.first = action;
        let is_test = program.is_none_or(|program| TESTS.contains(&program)) && !simple.words.is_empty()
            || program == Some("kill") && self.is_question(simple);
        self.is_own &= simple.words.is_empty()
            || program.is_some_and(|program| {
                SUCCEED.contains(&program) || matches!(program, "kill" | "wait" | "trap")
            });
        let is_protected = place.condition
            || matches!(simple.after, After::And | After::Or | After::Pipe | After::Background);
        self.may_fail |= is_test && !is_protected;
        self.is_open = is_test || self.before == After::And && self.is_open;
        self.before = simple.after;
        // An unset variable may be an error.
        self.has_succeeded = self.is_simple
            && is_sure
            && matches!(simple.after, After::Next | After::And)
            && (self.calls_well || matches!(program, Some(":" | "echo" | "true")))
            && simple.words.iter().all(|word| word.known().is_some());
    }

    fn exit(&self, simple: &Simple<'_>) -> TrapAction {
        if self.around.errexit && self.may_fail {
            return TrapAction::Unknown;
        }
        let Some(word) = simple.words.get(1) else {
            // The status of the command before; in dash, that from before the signal.
            let is_zero = self.has_succeeded && self.around.is_bash;
            return if is_zero { TrapAction::Exit(true) } else { TrapAction::Unknown };
        };
        let raw = &self.text[word.span.clone()];
        match word.known().map(str::parse::<i64>) {
            // A shell uses the last byte.
            Some(Ok(status)) if self.is_own || !raw.contains('$') => TrapAction::Exit(status & 0xff == 0),
            _ if self.has_succeeded && matches!(raw, "$?" | "\"$?\"") => TrapAction::Exit(true),
            _ => TrapAction::Unknown,
        }
    }

    /// Records that a signal has another action, which applies to later signals, not to this one.
    fn trap(&mut self, simple: &Simple<'_>) -> Option<TrapAction> {
        let word = |at: usize| simple.words.get(at).map(|word| word.known());
        let is_of_exit =
            (2..simple.words.len()).any(|at| !matches!(word(at).flatten(), Some(name) if !is_exit(name)));
        self.has_changed = true;
        let resets = matches!(word(1), Some(Some("-" | "")));
        (!resets && is_of_exit || simple.words.len() < 3).then_some(TrapAction::Unknown)
    }

    /// Returns the effect of calling a function of the script.
    fn function(&mut self, name: &str, is_sure: bool) -> Option<TrapAction> {
        let body = match self.around.looked_up(name) {
            Ok(None) => return None,
            Ok(Some(body)) if self.depth < MAX_DEPTH => body,
            _ => return Some(TrapAction::Unknown),
        };
        match self.around.ends(body, self.depth + 1) {
            TrapAction::GoesOn => {
                self.calls_well = succeeds(body);
                // Its status is unknown.
                self.may_fail |= self.around.errexit && !self.calls_well;
                None
            }
            action if is_sure => Some(action),
            _ => Some(TrapAction::Unknown),
        }
    }

    /// Tells whether a `kill` signals the shell itself.
    fn is_of_itself(&self, simple: &Simple<'_>) -> bool {
        let raw = |at: usize| self.text[simple.words[at].span.clone()].trim_matches(['"', '\'']);
        (1..simple.words.len()).any(|at| {
            let is_signal = at == 1 && raw(at).starts_with('-') || matches!(raw(at - 1), "-s" | "-n");
            raw(at).contains("$$")
                || raw(at).contains("BASHPID")
                || !is_signal && matches!(raw(at), "0" | "1" | "-0" | "-1")
        })
    }

    /// Tells whether a `kill` only asks whether a program runs.
    fn is_question(&self, simple: &Simple<'_>) -> bool {
        simple.words.get(1).and_then(|word| word.known()) == Some("-0")
    }
}

/// Tells whether a signal of `trap` is the end of the shell.
pub(crate) fn is_exit(name: &str) -> bool {
    name.eq_ignore_ascii_case("EXIT") || name == "0"
}

/// Tells whether the last command of a function ends with 0.
fn succeeds(body: &str) -> bool {
    let last = body.trim().trim_end_matches(';').rsplit([';', '\n']).next().unwrap_or_default().trim();
    let program = last.split([' ', '\t']).next().unwrap_or_default();
    SUCCEED.contains(&program) && !last.contains(['&', '|', '$', '`', '<', '>'])
}

/// Returns the body of a function in a script.
fn body<'s>(name: &str, script: &'s str) -> Option<&'s str> {
    meter::spend_text(script);
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
    if name.is_empty() {
        return None;
    }
    for (at, _) in script.match_indices(name) {
        let (before, behind) = (&script[..at], script[at + name.len()..].trim_start());
        if before.ends_with(is_part) {
            continue;
        }
        let is_function = before.trim_end().ends_with("function");
        let behind = match behind.strip_prefix('(') {
            Some(behind) => behind.trim_start().strip_prefix(')').map(str::trim_start),
            None => is_function.then_some(behind),
        };
        let Some(inner) = behind.and_then(|behind| behind.strip_prefix('{')) else { continue };
        let mut open = 1_usize;
        for (end, byte) in inner.bytes().enumerate() {
            match byte {
                b'{' => open += 1,
                b'}' => open -= 1,
                _ => continue,
            }
            if open == 0 {
                return Some(&inner[..end]);
            }
        }
        return None;
    }
    None
}

/// Tells whether a function does nothing but wait.
pub(super) fn only_waits(body: &str) -> bool {
    let (mut commands, mut waits) = (0, false);
    let nothing = |_: &str| None;
    let read = shell::read(body, &mut Variables::new(&nothing), &mut |simple| {
        commands += 1;
        let is_plain = simple.place.depth == 0 && matches!(simple.after, After::End | After::Next);
        waits = is_plain && simple.words.first().and_then(|word| word.known()) == Some("wait");
    });
    commands == 1 && waits && read.is_ok_and(|end| !end.is_cut) && !body.contains(['!', '[', '('])
}
