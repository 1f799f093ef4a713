//! The launchers of distributed runs, with the pods that run them together: what the rules about them share.
//!
//! Numbers are compared with numbers only. What a variable, a config file or another object may say is unknown,
//! and rules are silent about it.

mod edit;
mod gang;
mod told;

use std::borrow::Cow;
use std::rc::Rc;

pub(super) use gang::Gang;
use gang::Gangs;
use told::Told;
pub(super) use told::Topic;

use crate::judge::commands::{CommandLine, Given, Launch, Launcher, PodCommands, Token, Variable, is_python};
use crate::judge::finding::{Finding, Part, Place};
use crate::judge::rule::Cx;
use crate::kinds::{PodTemplate, Ranks, Workload};
use crate::text::lines::cut;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::{SPREADS, UNKNOWN};

/// The longest part of a command line to repeat, in bytes.
const MAX_QUOTE_BYTES: usize = 80;

/// How many launchers of a container are looked at: each may be a finding, and a script may have thousands.
const MAX_LAUNCHERS: usize = 32;

/// A launcher, with what is around it.
pub(super) struct Started<'s, 'a> {
    pub(super) workload: &'a Workload<'a>,
    /// Its pod template, and the index of that.
    pub(super) pod: &'a PodTemplate<'a>,
    /// The command line of its container.
    pub(super) line: &'s CommandLine<'a>,
    pub(super) launch: Launch<'s>,
    /// Whether it is the only one of its container.
    pub(super) is_alone: bool,
    /// What the container's texts name.
    pub(super) told: &'s Told<'a>,
    gang: Option<&'s Gang>,
}

/// What a launcher is told by an option or a variable.
#[derive(Clone, Debug)]
pub(super) enum Setting<'s> {
    /// It is certainly not told.
    Absent,
    /// By an option; nothing if the value is unknown.
    Option(&'s Given<'s>, Option<&'s str>),
    /// By a variable; nothing if the value is unknown.
    Variable(&'static str, &'s Variable, Option<&'s str>),
    /// It may be told.
    Unknown,
}

impl<'s> Setting<'s> {
    /// Returns the value, if it is known.
    pub(super) fn known(&self) -> Option<&'s str> {
        match self {
            Self::Option(_, value) | Self::Variable(_, _, value) => *value,
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Tells whether it is certainly not told, or empty.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent) || self.known() == Some("")
    }

    /// Tells whether it certainly is told something.
    pub(super) fn is_given(&self) -> bool {
        matches!(self, Self::Option(..) | Self::Variable(..)) && self.known() != Some("")
    }

    /// Returns the value as a number, if it is one.
    pub(super) fn number(&self) -> Option<i64> {
        self.known()?.trim().parse().ok()
    }
}

/// How many nodes a launcher waits for.
#[derive(Clone, Debug)]
pub(super) struct Nodes<'s> {
    pub(super) least: i64,
    pub(super) most: i64,
    /// What says so; absent for the launcher's default.
    pub(super) by: Setting<'s>,
}

/// Calls a function with each launcher that a workload's containers certainly start, in their own pods.
pub(super) fn each<'a>(cx: &mut Cx<'a>, check: impl Fn(&mut Cx<'a>, &Started<'_, 'a>)) {
    walk(cx, |cx, started| {
        if started.launch.is_certain() {
            check(cx, started);
        }
    });
}

/// Calls a function with each launcher that a workload's containers may start.
pub(super) fn walk<'a>(cx: &mut Cx<'a>, check: impl Fn(&mut Cx<'a>, &Started<'_, 'a>)) {
    let workload = cx.workload;
    let commands: Vec<Rc<PodCommands<'a>>> =
        (0..workload.pods.len()).map(|index| cx.commands(index)).collect();
    let launches: Vec<Vec<Vec<Launch<'_>>>> = commands
        .iter()
        .map(|pod| pod.containers.iter().map(|line| line.launches().take(MAX_LAUNCHERS).collect()).collect())
        .collect();
    if launches.iter().flatten().all(Vec::is_empty) {
        return;
    }
    let gangs = Gangs::of(workload, &launches);
    for (index, (pod, launches)) in commands.iter().zip(launches).enumerate() {
        for (line, launches) in pod.containers.iter().zip(launches) {
            if launches.is_empty() {
                continue;
            }
            let told = Told::of(workload, line);
            let is_alone = launches.len() == 1;
            for launch in launches {
                let gang = gangs.of_launch(index, launch.launcher);
                let pod = &workload.pods[index];
                check(cx, &Started { workload, pod, line, launch, is_alone, told: &told, gang });
            }
        }
    }
}

/// Calls a function with each plain Python program of pods that their controller tells how many they are, but not
/// where they meet: its place, and the number of pods.
pub(super) fn plain(cx: &mut Cx<'_>, report: impl Fn(&mut Cx<'_>, &Pointer, i64)) {
    let workload = cx.workload;
    if !matches!(workload.kind.ranks, Ranks::Each { .. }) {
        return;
    }
    for (index, pod) in workload.pods.iter().enumerate() {
        let Some(count) = gang::count(workload, pod).filter(|count| *count > 1 && pod.form.roles().is_some())
        else {
            continue;
        };
        let commands = cx.commands(index);
        for line in &commands.containers {
            let environment = &line.environment;
            let is_added = |name: &str| environment.get(name).is_some_and(|set| set.pointer.is_none());
            let is_blind =
                is_added("PET_NNODES") && !is_added("MASTER_ADDR") && !is_added("PET_RDZV_ENDPOINT");
            // One program, with nothing around it that may know more.
            let [program] = line.commands.as_slice() else { continue };
            let words = &program.words;
            let is_python = is_python(&program.program)
                && words.get(1).and_then(Token::known).is_some_and(|script| script.ends_with(".py"));
            if !is_blind
                || !is_python
                || environment.is_open
                || environment.iter().any(|(name, _)| meets(name))
            {
                continue;
            }
            if words.iter().filter_map(Token::known).any(meets) {
                continue;
            }
            report(cx, &line.place(&words[0]), count);
        }
    }
}

/// Tells whether a name or word is of where processes meet.
fn meets(text: &str) -> bool {
    meter::spend_text(text);
    let lower = text.to_ascii_lowercase();
    ["master", "rdzv", "dist", "init", "addr", "host", "coordinator"].iter().any(|word| lower.contains(word))
}

impl<'s, 'a> Started<'s, 'a> {
    /// Returns the pods that run the command together, if their number is known, and each runs its own.
    pub(super) fn gang(&self) -> Option<&'s Gang> {
        self.gang.filter(|_| matches!(self.workload.kind.ranks, Ranks::Each { .. }))
    }

    /// Returns an option of the launcher, or the variable that counts where it is not given.
    pub(super) fn setting(&'s self, option: &str, variable: &'static str) -> Setting<'s> {
        if let Some(given) = self.launch.option(option) {
            return Setting::Option(given, given.value.filter(|_| given.known));
        }
        if self.launch.open {
            return Setting::Unknown;
        }
        if variable.is_empty() {
            return Setting::Absent;
        }
        if self.told.names(Topic::Torchrun) {
            return Setting::Unknown;
        }
        match self.line.environment.get(variable) {
            Some(set) => Setting::Variable(variable, set, set.value.as_deref()),
            None if self.line.environment.is_open || self.told.reads_more => Setting::Unknown,
            None => Setting::Absent,
        }
    }

    /// Returns an option that no variable stands in for.
    pub(super) fn option(&'s self, option: &str) -> Setting<'s> {
        self.setting(option, "")
    }

    /// Returns how many nodes the launcher waits for, where that is known.
    pub(super) fn nodes(&'s self) -> Option<Nodes<'s>> {
        let by = match self.launch.launcher {
            Launcher::Torchrun | Launcher::TorchLaunch => self.setting("nnodes", "PET_NNODES"),
            Launcher::Accelerate => self.option("num_machines"),
            Launcher::DeepSpeed => self.option("num_nodes"),
            Launcher::Mpi | Launcher::Ray => return None,
        };
        if matches!(by, Setting::Absent) {
            return Some(Nodes { least: 1, most: 1, by });
        }
        let text = by.known()?;
        let number = |text: &str| text.trim().parse().ok().filter(|number: &i64| *number > 0);
        let (least, most) = match text.split_once(':') {
            Some((least, most)) if self.launch.launcher.is_torch() => (number(least)?, number(most)?),
            _ => (number(text)?, number(text)?),
        };
        Some(Nodes { least, most, by })
    }

    /// Returns where a setting is: its word, its variable, or the command.
    pub(super) fn place(&self, setting: &Setting<'_>) -> Pointer {
        match setting {
            Setting::Option(given, _) => self.line.place(given.token),
            Setting::Variable(_, Variable { pointer: Some(pointer), .. }, _) => pointer.clone(),
            _ => self.place_of_command(),
        }
    }

    /// Returns which part of the place is meant.
    pub(super) fn part(&self, setting: &Setting<'_>) -> Part {
        match setting {
            Setting::Option(given, _) => self.line.part(given.token),
            Setting::Variable(_, Variable { pointer: Some(_), .. }, _) => Part::Value,
            _ => self.launch.command.words.first().map_or(Part::Value, |token| self.line.part(token)),
        }
    }

    /// Returns where the command is.
    pub(super) fn place_of_command(&self) -> Pointer {
        let first = self.launch.command.words.first();
        first.map_or_else(|| self.line.container.part.pointer.clone(), |token| self.line.place(token))
    }

    /// Returns an option as it is written, for a message.
    pub(super) fn quoted(&self, given: &Given<'_>) -> String {
        let words = &self.launch.command.words;
        let words = words.iter().skip(given.at).take(1 + given.behind);
        let written: Vec<Cow<'_, str>> = words.map(|token| self.written(token)).collect();
        cut(&written.join(" "), MAX_QUOTE_BYTES, "…").into_owned()
    }

    /// Tells whether an option's value is written as it is, without variables.
    pub(super) fn is_literal(&self, given: &Given<'_>) -> bool {
        given.value.is_some_and(|value| self.quoted(given).ends_with(value))
    }

    /// Returns a setting as it is written, for a message.
    pub(super) fn shown(&self, setting: &Setting<'_>) -> String {
        match setting {
            Setting::Option(given, value) => {
                let written = self.quoted(given);
                match value.filter(|value| !written.ends_with(*value)) {
                    // A variable stands there.
                    Some(value) => format!("`{written}`, which is {},", cut(value, MAX_QUOTE_BYTES, "…")),
                    None => format!("`{written}`"),
                }
            }
            Setting::Variable(name, _, value) => {
                format!("`{name}={}`", cut(value.unwrap_or("…"), MAX_QUOTE_BYTES, "…"))
            }
            Setting::Absent | Setting::Unknown => format!("`{}`", self.name()),
        }
    }

    /// Returns the launcher's name as people call it.
    pub(super) fn name(&self) -> &'static str {
        match self.launch.launcher {
            Launcher::Torchrun => "torchrun",
            Launcher::TorchLaunch => "torch.distributed.launch",
            Launcher::Accelerate => "accelerate launch",
            Launcher::DeepSpeed => "deepspeed",
            Launcher::Mpi => "mpirun",
            Launcher::Ray => "ray job submit",
        }
    }

    /// Tells whether the kind's controller sets a variable.
    pub(super) fn is_added(&self, variable: &str) -> bool {
        self.line.environment.get(variable).is_some_and(|set| set.pointer.is_none())
    }
}

impl Gang {
    /// Labels where the number of pods is written.
    pub(super) fn label(&self, finding: &mut Finding) {
        for (pointer, count) in &self.said_by {
            let text = if *count == 1 { "1 pod".to_owned() } else { format!("{count} pods") };
            finding.label(Place::Here(pointer.clone(), Part::Value), text);
        }
    }
}

/// Returns a text without what stands for unknown parts.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    if text.contains([UNKNOWN, SPREADS]) {
        return Cow::Owned(text.replace([UNKNOWN, SPREADS], "…"));
    }
    Cow::Borrowed(text)
}

/// Returns the host of an address.
pub(super) fn host(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, address)| address);
    match address.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, _)) => host,
        None if address.bytes().filter(|byte| *byte == b':').count() > 1 => address,
        None => address.split_once(':').map_or(address, |(host, _)| host),
    }
}

/// Tells whether an address is that of the pod itself, in each pod.
pub(super) fn is_here(address: &str) -> bool {
    matches!(host(address), "localhost" | "127.0.0.1" | "0.0.0.0" | "::1" | "::")
}

/// Writes a number with its noun.
pub(super) fn counted(number: i64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests;
