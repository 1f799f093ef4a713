//! The launchers of distributed runs, and the pods that run them together, for the rules about them.
//!
//! Only known numbers are compared. What a variable, a config file or another object may set is unknown, and
//! rules are silent about it.

mod edit;
mod gang;
mod hints;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;

pub(super) use gang::Gang;
use gang::Gangs;
use hints::EnvironmentHints;
pub(super) use hints::TextTopic;

use crate::judge::checks;
use crate::judge::commands::{
    CommandLine, Given, Launch, Launcher, PodCommands, Room, Token, Variable, is_python,
};
use crate::judge::finding::{Finding, Part, Place};
use crate::judge::mounts::{PodMounts, Volumes};
use crate::kinds::{PodTemplate, Ranks, Workload};
use crate::text::lines::cut;
use crate::text::meter;
use crate::text::pointer::Pointer;
use crate::text::shell::{SPREADS, UNKNOWN};

/// The longest part of a command line to repeat, in bytes.
const MAX_QUOTE_BYTES: usize = 80;

/// Maximum launchers of a container that are checked: each may be a finding, and a script may have thousands.
const MAX_LAUNCHERS: usize = 32;

/// A launcher and its context.
#[derive(Debug)]
pub(super) struct Started<'a> {
    pub(super) workload: &'a Workload<'a>,
    /// Its pod template.
    pub(super) pod: &'a PodTemplate<'a>,
    /// The command line of its container.
    pub(super) line: &'a CommandLine<'a>,
    pub(super) launch: Launch<'a>,
    /// Whether it is the only one of its container.
    pub(super) is_alone: bool,
    /// Hints from the container's arguments and environment.
    pub(super) hints: Rc<EnvironmentHints<'a>>,
    gang: Option<Rc<Gang>>,
}

/// The value of an option or variable of a launcher.
#[derive(Clone, Debug)]
pub(super) enum LauncherSetting<'s> {
    /// It is certainly not set.
    Absent,
    /// It is set by an option; nothing if the value is unknown.
    Option(&'s Given<'s>, Option<&'s str>),
    /// It is set by a variable; nothing if the value is unknown.
    Variable(&'static str, &'s Variable<'s>, Option<&'s str>),
    /// It may be set.
    Unknown,
}

impl<'s> LauncherSetting<'s> {
    /// Returns the value, if it is known.
    pub(super) fn known(&self) -> Option<&'s str> {
        match self {
            Self::Option(_, value) | Self::Variable(_, _, value) => *value,
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Tells whether it is certainly not set, or empty.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent) || self.known() == Some("")
    }

    /// Tells whether it certainly is set to something.
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
pub(super) struct LauncherNodes<'s> {
    pub(super) least: i64,
    pub(super) most: i64,
    /// The setting with the number; absent for the launcher's default.
    pub(super) by: LauncherSetting<'s>,
}

/// The commands and mounts of a workload's containers, read once, when the first rule asks.
#[derive(Debug)]
pub(super) struct WorkloadReading<'a> {
    workload: &'a Workload<'a>,
    /// The room for the commands of all containers together.
    room: Rc<Room>,
    pods: Vec<PodReading<'a>>,
    launchers: OnceCell<Vec<Started<'a>>>,
}

/// The commands, volumes and mounts of one pod template.
#[derive(Debug, Default)]
struct PodReading<'a> {
    commands: OnceCell<PodCommands<'a>>,
    volumes: OnceCell<Volumes<'a>>,
    mounts: OnceCell<PodMounts<'a>>,
}

impl<'a> WorkloadReading<'a> {
    pub(super) fn from_workload(workload: &'a Workload<'a>) -> Self {
        let pods = workload.pods.iter().map(|_| PodReading::default()).collect();
        Self { workload, room: Rc::default(), pods, launchers: OnceCell::new() }
    }

    /// Returns the commands of a pod template's containers, by the template's index.
    pub(super) fn commands(&self, pod: usize) -> &PodCommands<'a> {
        let workload = self.workload;
        let read = || PodCommands::new(workload, &workload.pods[pod], &self.room);
        self.pods[pod].commands.get_or_init(read)
    }

    /// Returns the volumes of a pod template, by its index.
    pub(super) fn volumes(&self, pod: usize) -> &Volumes<'a> {
        self.pods[pod].volumes.get_or_init(|| Volumes::from_pod(&self.workload.pods[pod]))
    }

    /// Returns the mounts of a pod template's containers, by the template's index.
    pub(super) fn mounts(&self, pod: usize) -> &PodMounts<'a> {
        self.pods[pod].mounts.get_or_init(|| PodMounts::from_pod(&self.workload.pods[pod]))
    }

    /// Returns a finding if a part of the commands was not judged, at the first such container.
    pub(super) fn beyond(&self) -> Option<Finding> {
        let read = self.pods.iter().filter_map(|pod| pod.commands.get());
        let lines = read.flat_map(|pod| &pod.containers);
        let mut beyond = lines.filter_map(|line| Some((line, line.beyond()?)));
        let (line, what) = beyond.next()?;
        Some(checks::beyond_bounds(&line.container.part.pointer, what.message(), beyond.count()))
    }

    /// Returns the launchers that the containers may start, each in its own pod.
    pub(super) fn launchers(&'a self) -> &'a [Started<'a>] {
        self.launchers.get_or_init(|| self.started())
    }

    fn started(&'a self) -> Vec<Started<'a>> {
        let workload = self.workload;
        let commands: Vec<&'a PodCommands<'a>> =
            (0..workload.pods.len()).map(|index| self.commands(index)).collect();
        let launches: Vec<Vec<Vec<Launch<'a>>>> = commands
            .iter()
            .map(|pod| {
                pod.containers.iter().map(|line| line.launches().take(MAX_LAUNCHERS).collect()).collect()
            })
            .collect();
        let mut all = Vec::new();
        if launches.iter().flatten().all(Vec::is_empty) {
            return all;
        }
        let gangs = Gangs::new(workload, &launches);
        for (index, (commands, launches)) in commands.into_iter().zip(launches).enumerate() {
            let pod = &workload.pods[index];
            for (line, launches) in commands.containers.iter().zip(launches) {
                if launches.is_empty() {
                    continue;
                }
                let hints = Rc::new(EnvironmentHints::new(workload, line));
                let is_alone = launches.len() == 1;
                all.extend(launches.into_iter().map(|launch| {
                    let gang = gangs.of_launch(index, launch.launcher);
                    Started { workload, pod, line, launch, is_alone, hints: Rc::clone(&hints), gang }
                }));
            }
        }
        all
    }

    /// Returns the plain Python programs whose pods get their number from the controller, but no address to meet
    /// at: the place of each, and the number of pods.
    pub(super) fn programs_that_cannot_meet(&self) -> Vec<(Pointer, i64)> {
        let workload = self.workload;
        let mut found = Vec::new();
        if !matches!(workload.kind.ranks, Ranks::Each { .. }) {
            return found;
        }
        for (index, pod) in workload.pods.iter().enumerate() {
            let count = gang::count(workload, pod);
            let Some(count) = count.filter(|count| *count > 1 && pod.form.roles().is_some()) else {
                continue;
            };
            for line in &self.commands(index).containers {
                let environment = &line.environment;
                let is_blind = environment.adds("PET_NNODES")
                    && !environment.adds("MASTER_ADDR")
                    && !environment.adds("PET_RDZV_ENDPOINT");
                // Only one program, without anything around it that may know more.
                let [program] = &*line.commands else { continue };
                let words = &program.words;
                let is_script = words.get(1).and_then(Token::known).is_some_and(|one| one.ends_with(".py"));
                let is_python = is_python(&program.program);
                let knows_more = || {
                    environment.is_open
                        || environment.names().any(meets)
                        || is_script && words.iter().filter_map(Token::known).any(meets)
                };
                let is_apart = is_python && (is_script || meets_by_variables(words));
                if is_blind && is_apart && !knows_more() {
                    found.push((line.place(&words[0]), count));
                }
            }
        }
        found
    }
}

/// Tells whether Python gets inline code that joins other processes, and finds them by variables alone.
fn meets_by_variables(words: &[Token]) -> bool {
    let at = words.iter().position(|word| word.known() == Some("-c"));
    let Some(code) = at.and_then(|at| words.get(at + 1)).and_then(Token::known) else { return false };
    let has = |part: &str| {
        meter::spend_text(code);
        memchr::memmem::find(code.as_bytes(), part.as_bytes()).is_some()
    };
    has("init_process_group")
        && !["ADDR", "://", "init_method", "store", "Store", "host", "rdzv"].iter().any(|part| has(part))
}

/// Tells whether a name or word may be about the address where processes meet.
fn meets(text: &str) -> bool {
    meter::spend_text(text);
    let lower = text.to_ascii_lowercase();
    ["master", "rdzv", "dist", "init", "addr", "host", "coordinator"].iter().any(|word| lower.contains(word))
}

impl Started<'_> {
    /// Returns the pods that run the command together, if their number is known, and each runs its own.
    pub(super) fn gang(&self) -> Option<&Gang> {
        self.gang.as_deref().filter(|_| matches!(self.workload.kind.ranks, Ranks::Each { .. }))
    }

    /// Returns an option of the launcher, or the variable that applies if the option is not given.
    pub(super) fn setting(&self, option: &str, variable: &'static str) -> LauncherSetting<'_> {
        if let Some(given) = self.launch.option(option) {
            return LauncherSetting::Option(given, given.value.filter(|_| given.known));
        }
        if self.launch.open {
            return LauncherSetting::Unknown;
        }
        if variable.is_empty() {
            return LauncherSetting::Absent;
        }
        if self.hints.names(TextTopic::Torchrun) {
            return LauncherSetting::Unknown;
        }
        match self.line.environment.get(variable) {
            Some(set) => LauncherSetting::Variable(variable, set, set.value.as_deref()),
            None if self.line.environment.is_open || self.hints.reads_more => LauncherSetting::Unknown,
            None => LauncherSetting::Absent,
        }
    }

    /// Returns an option that no variable can replace.
    pub(super) fn option(&self, option: &str) -> LauncherSetting<'_> {
        self.setting(option, "")
    }

    /// Returns how many nodes the launcher waits for, where that is known.
    pub(super) fn nodes(&self) -> Option<LauncherNodes<'_>> {
        let by = match self.launch.launcher {
            Launcher::Torchrun | Launcher::TorchLaunch => self.setting("nnodes", "PET_NNODES"),
            Launcher::Accelerate => self.option("num_machines"),
            Launcher::DeepSpeed => self.option("num_nodes"),
            Launcher::Mpi | Launcher::Ray => return None,
        };
        if matches!(by, LauncherSetting::Absent) {
            return Some(LauncherNodes { least: 1, most: 1, by });
        }
        let text = by.known()?;
        let number = |text: &str| text.trim().parse().ok().filter(|number: &i64| *number > 0);
        let (least, most) = match text.split_once(':') {
            Some((least, most)) if self.launch.launcher.is_torch() => (number(least)?, number(most)?),
            _ => (number(text)?, number(text)?),
        };
        Some(LauncherNodes { least, most, by })
    }

    /// Returns where a setting is: its word, its variable, or the command.
    pub(super) fn place(&self, setting: &LauncherSetting<'_>) -> Pointer {
        match setting {
            LauncherSetting::Option(given, _) => self.line.place(given.token),
            LauncherSetting::Variable(_, variable, _) if !variable.is_added() => {
                self.line.environment.place(variable).unwrap_or_else(|| self.place_of_command())
            }
            _ => self.place_of_command(),
        }
    }

    /// Returns which part of the place is meant.
    pub(super) fn part(&self, setting: &LauncherSetting<'_>) -> Part {
        match setting {
            LauncherSetting::Option(given, _) => self.line.part(given.token),
            LauncherSetting::Variable(_, variable, _) if !variable.is_added() => Part::Value,
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

    /// Tells whether an option's value is written literally, without variables.
    pub(super) fn is_literal(&self, given: &Given<'_>) -> bool {
        given.value.is_some_and(|value| self.quoted(given).ends_with(value))
    }

    /// Returns a setting as it is written, for a message.
    pub(super) fn shown(&self, setting: &LauncherSetting<'_>) -> String {
        match setting {
            LauncherSetting::Option(given, value) => {
                let written = self.quoted(given);
                match value.filter(|value| !written.ends_with(*value)) {
                    // The option is written with a variable.
                    Some(value) => format!("`{written}`, which is {},", cut(value, MAX_QUOTE_BYTES, "…")),
                    None => format!("`{written}`"),
                }
            }
            LauncherSetting::Variable(name, _, value) => {
                format!("`{name}={}`", cut(value.unwrap_or("…"), MAX_QUOTE_BYTES, "…"))
            }
            LauncherSetting::Absent | LauncherSetting::Unknown => format!("`{}`", self.name()),
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
        self.line.environment.adds(variable)
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

/// Returns a text with `…` in place of unknown parts.
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
