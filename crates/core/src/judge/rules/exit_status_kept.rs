//! The exit status of the main program is that of its container: a failure is not taken for success.
//!
//! ## Why
//!
//! A container succeeds or fails by the exit status of its script. In a pipeline such as
//! `python train.py | tee log`, that is the status of `tee`, and after `|| true` there is none. The program
//! fails, the container succeeds, and the Job is complete: nothing is retried, there is no alert, and what
//! comes next in the workflow takes a checkpoint that is not there.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [bash, -c, python train.py 2>&1 | tee /logs/train.log]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [bash, -o, pipefail, -c, python train.py 2>&1 | tee /logs/train.log]
//! ```
//!
//! ## Fix
//!
//! Unsafe: writes `set -o pipefail` before the script, if bash or zsh reads it, or `set -eo pipefail` where
//! other commands follow. A job that seemed to succeed may then fail. There is no fix for `|| true`.
//!
//! ## Details
//!
//! Only what the container is for counts: a launcher such as `torchrun`, or Python with a script or module,
//! but not `pip`, `venv` and `python -c`. It is reported
//!
//! * where it is piped into `tee` without `pipefail`, and the script ends there or with a command such as
//!   `echo`, relies on the status (`set -e`, `&&`), or only copies files (`mkdir`, `cp`, `mv`, `tar`);
//! * where `|| true`, `|| :` or `|| echo …` follows, and the script ends there.
//!
//! The shells `sh` and `dash` of Debian and Ubuntu do not know `set -o pipefail`: they print an error and end
//! with status 2 before the program starts. That is a finding of its own: a warning if the image is
//! known to be based on them, and a note if it is not.
//!
//! The rule is silent where the script reads `PIPESTATUS`, where the program runs in a branch or loop, where
//! what follows names the file that `tee` writes to look at it, and where other commands follow that may look at
//! the result. It does not report `python train.py; echo done`, which loses the status as well: most scripts of
//! this form do something else.
//!
//! ## References
//!
//! * <https://www.gnu.org/software/bash/manual/html_node/Pipelines.html>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#handling-pod-and-container-failures>

use crate::judge::commands::{Command, CommandLine, Gap, IDLE, Shell, Token, base_name};
use crate::judge::finding::{Level, Safety};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::{is_trainer, quoted};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::shell::After;
use crate::text::value::Value;

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Failure hidden from the job".into(),
        summary: "The exit status of the main program is that of its container: a failure is not taken for success".into(),
        kinds: Kinds::WithPods,
        default: Action::Warn,
        export: Exportable::No("it reads scripts"),
        ..Rule::new("exit-status-kept", check)
    }
}

/// Maximum pipelines checked in a script and in all scripts of a container, and maximum files of each: the rest
/// of the script is searched for them. One line fixes all pipelines.
const MAX_PIPELINES: usize = 4;
const MAX_PIPELINES_OF_ALL: usize = 16;
const MAX_FILES: usize = 2;

/// Images that are based on Debian or Ubuntu, by the name behind the last `/`, if the tag names nothing else.
const DEBIAN: [&str; 8] =
    ["debian", "jax", "nemo", "pytorch", "pytorch-gpu", "python", "tensorflow", "ubuntu"];

/// Words of tags that name a release of Debian or Ubuntu.
const RELEASES: [&str; 9] =
    ["bionic", "bookworm", "bullseye", "buster", "focal", "jammy", "noble", "trixie", "ubuntu"];

fn check(cx: &mut Cx<'_>) {
    for index in 0..cx.workload.pods.len() {
        for line in &cx.commands(index).containers {
            let mut own: Vec<Vec<&Command>> = vec![Vec::new(); line.shells.len()];
            meter::spend(line.commands.len() as u64);
            for command in &line.commands {
                if let Some(shell) = command.shell {
                    own[shell].push(command);
                }
            }
            let (mut known, mut pipelines) = (None, 0);
            for (at, own) in own.iter().enumerate() {
                // Nested scripts are parts of one text.
                let item = line.shells[at].item;
                let text = match known {
                    Some(text @ Outermost { item: same, .. }) if same == item => text,
                    _ => Outermost::new(line, item),
                };
                known = Some(text);
                in_script(cx, line, (at, text), own, &mut pipelines);
            }
        }
    }
}

/// The text of an item of a command line with a script, and what it names.
#[derive(Clone, Copy)]
struct Outermost<'s> {
    item: usize,
    script: &'s str,
    /// Whether it reads the statuses of a pipeline.
    names_statuses: bool,
    has_pipefail: bool,
    /// Whether it has tests or substitutions, which are not among the commands.
    has_tests: bool,
}

impl<'s> Outermost<'s> {
    fn new(line: &'s CommandLine<'_>, item: usize) -> Self {
        let script = line.argv.get(item).map_or("", |item| &*item.text);
        meter::spend_text(script);
        let has = |part: &str| memchr::memmem::find(script.as_bytes(), part.as_bytes()).is_some();
        let names_statuses = has("PIPESTATUS") || has("pipestatus");
        let has_tests = ["[[", "((", "$(", "`"].iter().any(|part| has(part));
        Self { item, script, names_statuses, has_pipefail: has("pipefail"), has_tests }
    }
}

fn in_script(
    cx: &mut Cx<'_>,
    line: &CommandLine<'_>,
    (at, text): (usize, Outermost<'_>),
    own: &[&Command],
    all_pipelines: &mut usize,
) {
    let shell = &line.shells[at];
    let Outermost { script, has_pipefail, .. } = text;
    if matches!(shell.name, "sh" | "dash") && own.iter().any(|command| is_trainer(command)) {
        unknown_option(cx, line, own);
    }
    if text.names_statuses {
        return;
    }
    let is_top = |command: &Command| command.place.depth == 0 && !command.place.branch;
    // The script may end with another status only by `exit`.
    let ends_well = own.last().is_some_and(|last| is_top(last) && IDLE.contains(&last.program.as_str()))
        && !own.iter().any(|command| matches!(command.program.as_str(), "exit" | "exec" | "return"));
    let mut pipelines = 0;
    for (position, command) in own.iter().enumerate() {
        meter::spend(1);
        if !is_top(command) || !is_trainer(command) {
            continue;
        }
        let next = own.get(position + 1).filter(|next| next.gap == Gap::None);
        let Some(next) = next else { continue };
        let Some(program) = command.words.first() else { continue };
        match command.after {
            After::Pipe if next.program == "tee" && !shell.pipefail && !has_pipefail => {
                let relies = shell.errexit || next.after == After::And;
                let rest = &own[position + 1..];
                let copies = !text.has_tests && only_copies(rest);
                let goes_on = copies && !relies;
                if next.after == After::Pipe || !(relies || is_end(rest) || ends_well || goes_on) {
                    continue;
                }
                pipelines += 1;
                *all_pipelines += 1;
                let is_enough = pipelines > MAX_PIPELINES || *all_pipelines > MAX_PIPELINES_OF_ALL;
                // A copy does not look at the file's contents.
                if is_enough || !copies && is_read(script, at, next, rest) {
                    continue;
                }
                // The later commands would hide the failure as well.
                let is_last = relies || next.after == After::End || rest.len() == 1;
                let option = if is_last { "set -o pipefail" } else { "set -eo pipefail" };
                let counts =
                    if copies { "the script goes on" } else { "the pipeline returns that of `tee`" };
                let message = format!("the exit status of {} is lost: {counts}", quoted(&command.words));
                let finding = cx.report(&line.place(program), message);
                finding.at(line.part(program));
                if matches!(shell.name, "bash" | "zsh") {
                    finding.help(format!("write `{option}` before it"));
                    if let Some(op) = with_option(line, shell, option) {
                        finding.fix(Safety::Unsafe, vec![op]);
                    }
                } else {
                    finding
                        .help(format!("run the script with `bash` and `{option}`; `sh` may lack `pipefail`"));
                }
            }
            After::Or if matches!(next.program.as_str(), "true" | ":" | "echo") && next.place.depth == 0 => {
                if !is_end(&own[position + 1..]) {
                    continue;
                }
                let message = format!("a failure of {} counts as success", quoted(&command.words));
                let help = format!("remove {}, so that the container fails", quoted_after_or(next));
                cx.report(&line.place(program), message).at(line.part(program)).help(help);
            }
            _ => {}
        }
    }
}

fn quoted_after_or(command: &Command) -> String {
    quoted(&command.words).replacen('`', "`|| ", 1)
}

/// Tells whether all commands but the first do nothing, so that the script ends with success.
fn is_end(commands: &[&Command]) -> bool {
    commands.iter().enumerate().all(|(at, command)| {
        meter::spend(1);
        let is_idle = at == 0 || IDLE.contains(&command.program.as_str()) && command.gap <= Gap::Quiet;
        is_idle && command.place.depth == 0 && matches!(command.after, After::End | After::Next)
    })
}

/// Programs that put files elsewhere, whatever came before.
const COPY: [&str; 9] = ["chmod", "chown", "cp", "ln", "ls", "mkdir", "mv", "rsync", "tar"];

/// Tells whether only copies follow a pipeline, which do not depend on how it ended. `rest` begins with `tee`.
fn only_copies(rest: &[&Command]) -> bool {
    rest.len() > 1
        && rest.iter().enumerate().all(|(at, command)| {
            meter::spend(1);
            let program = command.program.as_str();
            let is_copy = at == 0 || COPY.contains(&program) || IDLE.contains(&program);
            let is_plain = command.place.depth == 0 && !command.place.branch;
            is_copy
                && is_plain
                && command.gap == Gap::None
                && matches!(command.after, After::End | After::Next)
        })
}

/// Tells whether the rest of a script names a file that `tee` writes, so that it may look at the result. `rest`
/// begins with `tee`.
fn is_read(script: &str, shell: usize, tee: &Command, rest: &[&Command]) -> bool {
    let Some(last) = tee.words.last().filter(|_| tee.words.len() > 1) else { return false };
    // A nested script is in quotes, and its words have no place of their own.
    let is_outermost = shell == 0;
    let behind = if is_outermost { script.get(last.word.span.end..).unwrap_or_default() } else { script };
    meter::spend_text(behind);
    let has = |part: &str| memchr::memmem::find(behind.as_bytes(), part.as_bytes()).is_some();
    let only_prints = || {
        rest[1..].iter().all(|command| IDLE.contains(&command.program.as_str()) && command.gap <= Gap::Idle)
    };
    if behind.trim().is_empty() || only_prints() && !["[[", "$(", "`"].iter().any(|test| has(test)) {
        return false;
    }
    let least = if is_outermost { 1 } else { 2 };
    let files = || tee.words.iter().skip(1).filter(|word| is_file(word));
    files().count() > MAX_FILES
        || files().any(|token| {
            let file = token.known().map(base_name).filter(|file| !file.is_empty());
            let raw = if is_outermost { script.get(token.word.span.clone()).unwrap_or_default() } else { "" };
            let variable = || {
                let (_, name) = raw.split_once('$')?;
                let name = name.trim_start_matches('{');
                let end = name.find(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
                Some(&name[..end.unwrap_or(name.len())]).filter(|name| !name.is_empty())
            };
            file.is_some_and(|file| is_named(behind, file, least))
                || variable().is_some_and(|name| is_named(behind, name, least))
        })
}

/// Tells whether a word of `tee` is not an option.
fn is_file(token: &Token) -> bool {
    !token.word.text.starts_with('-')
}

/// Tells whether a text has a name at least `least` times, not as a part of another name.
fn is_named(text: &str, name: &str, least: usize) -> bool {
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let bytes = text.as_bytes();
    meter::spend_text(text);
    let whole = memchr::memmem::find_iter(bytes, name.as_bytes()).filter(|at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !before.is_some_and(goes_on) && !bytes.get(at + name.len()).is_some_and(goes_on)
    });
    whole.take(least).count() == least
}

/// Returns the operation that writes an option before a script.
fn with_option(line: &CommandLine<'_>, shell: &Shell, option: &str) -> Option<Op> {
    let item = line.argv.get(shell.item)?;
    let script = item.written;
    // A nested script is in quotes.
    let is_outermost = line.shells.first().is_some_and(|first| std::ptr::eq(first, shell));
    let (first, rest) = match script.strip_prefix("#!").and_then(|_| script.split_once('\n')) {
        Some((first, rest)) => (format!("{first}\n"), rest),
        None => (String::new(), script),
    };
    let end = if script.contains('\n') { "\n" } else { "; " };
    is_outermost.then(|| Op::Replace(item.pointer(), format!("{first}{option}{end}{rest}").into()))
}

/// Reports `set -o pipefail` in a shell that may not have it.
fn unknown_option(cx: &mut Cx<'_>, line: &CommandLine<'_>, own: &[&Command]) {
    let sets = |command: &&&Command| {
        command.program == "set"
            && !command.place.branch
            && command.words.iter().any(|word| word.known() == Some("pipefail"))
    };
    let Some(command) = own.iter().find(sets) else { return };
    // It is tried, or its failure is expected.
    if command.after == After::Or || command.place.condition {
        return;
    }
    let image = line.container.part.get("image").value.and_then(Value::as_str).unwrap_or_default();
    let Some(first) = command.words.first() else { return };
    let (message, level) = match is_debian(image) {
        Some(true) => ("is an error in `sh` of Debian and Ubuntu, so the script ends there", Level::Deny),
        None => ("is an error in `sh` of Debian and Ubuntu, where the script would end there", Level::Note),
        Some(false) => return,
    };
    let finding = cx.report(&line.place(first), format!("{} {message}", quoted(&command.words)));
    finding.at(line.part(first));
    finding.at_most(level).help("start the script by `bash`");
}

/// Tells whether an image is based on Debian or Ubuntu; nothing if its name does not say so.
fn is_debian(image: &str) -> Option<bool> {
    let last = image.rsplit('/').next().unwrap_or_default();
    let (name, tag) = last.split_once([':', '@']).unwrap_or((last, ""));
    let has = |words: &[&str]| words.iter().any(|word| tag.contains(word));
    if name == "alpine" || has(&["alpine", "ubi", "rocky", "centos", "rhel", "ol8", "ol9"]) {
        return Some(false);
    }
    (has(&RELEASES) || DEBIAN.contains(&name)).then_some(true)
}
