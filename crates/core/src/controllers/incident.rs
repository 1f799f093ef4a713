//! What may happen to a run, in words of the command line: `node-lost@2h:index=3`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use super::time::Time;

/// Something that happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A node stops answering, and the Node object stays.
    NodeLost,
    /// A node stops answering, and the Node object goes.
    NodeGone,
    /// A node is drained.
    Drain,
    /// A spot node is taken back, after its notice.
    Spot,
    /// The scheduler preempts the pod.
    Preempt,
    /// Kueue preempts the Job, and admits it again after a time.
    KueuePreempt(Time),
    /// The kubelet evicts the pod for want of memory or disk.
    Pressure,
    /// Somebody deletes the pod.
    DeletePod,
    /// The kernel ends the container for its memory.
    Oom,
    /// The program exits with a code.
    Exit(u8),
    /// The program of one pod fails whenever it starts.
    CrashLoop,
    /// The program of every pod fails whenever it starts.
    CrashAll,
    /// The program hangs.
    Hang,
    /// The image cannot be pulled.
    ImagePull,
    /// No node has room; nothing for no end of it.
    Pending(Option<Time>),
    /// The API server refuses the pods.
    CreateRefused,
    /// The run takes twice as long as its deadline, or as was assumed.
    Overrun,
    /// The Job controller is away for a time.
    ControllerAway(Time),
    /// The operator of the kind is away for a time.
    OperatorAway(Time),
    /// The dashboard of a Ray cluster does not answer for a time.
    DashboardSilent(Time),
    /// The pod that submits a RayJob is deleted.
    SubmitterLost,
    /// The CronJob controller is away for a time, when a run is due.
    Missed(Time),
}

/// How long the CronJob controller is down by default.
const MISSED: Time = Time::from_seconds(3_600);

/// Which pods an incident is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncidentPlace {
    /// One, or those that share its node.
    #[default]
    One,
    /// That of an index, or those that share its node.
    Index(u32),
    /// So many.
    Count(u32),
    /// Those of the indexes from the first to the last. It has no words of its own: of a Job that runs, it is what `n=2`
    /// means.
    Between(u32, u32),
    /// All.
    All,
}

/// An incident, when it happens and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// What happens.
    pub incident: Incident,
    /// When, from when the pods run; nothing for the middle of the run.
    pub at: Option<Time>,
    /// To the pods of which role; nothing for the role that has most.
    pub role: Option<String>,
    /// To which pods.
    pub place: IncidentPlace,
}

impl From<Incident> for Occurrence {
    fn from(incident: Incident) -> Self {
        Self { incident, at: None, role: None, place: IncidentPlace::One }
    }
}

/// What is wrong with the text of an incident.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncidentError {
    /// No such incident.
    #[error("no incident `{0}`; there are {names}", names = names())]
    Unknown(String),
    /// A part that is neither a time nor a place.
    #[error(
        "`{0}` is neither a duration (`30m`) nor a place (`index=3`, `n=2`, `role=worker,index=1`, `all`)"
    )]
    Part(String),
    /// An incident without its number or duration.
    #[error("`{0}` needs {1}")]
    Missing(&'static str, &'static str),
    /// A duration that cannot be read.
    #[error("`{0}` is no duration; write `90s`, `30m` or `1h30m`")]
    Duration(String),
}

/// The incidents that are a word alone.
const WORDS: [(&str, Incident); 16] = [
    ("node-lost", Incident::NodeLost),
    ("node-gone", Incident::NodeGone),
    ("drain", Incident::Drain),
    ("spot", Incident::Spot),
    ("preempt", Incident::Preempt),
    ("pressure", Incident::Pressure),
    ("delete-pod", Incident::DeletePod),
    ("oom", Incident::Oom),
    ("crash-loop", Incident::CrashLoop),
    ("crash-all", Incident::CrashAll),
    ("hang", Incident::Hang),
    ("image-pull", Incident::ImagePull),
    ("pending", Incident::Pending(None)),
    ("create-refused", Incident::CreateRefused),
    ("overrun", Incident::Overrun),
    ("submitter-lost", Incident::SubmitterLost),
];

fn names() -> String {
    let mut names: Vec<&str> = WORDS.iter().map(|(name, _)| *name).collect();
    names.extend([
        "exit=N",
        "kueue-preempt:30m",
        "controller-away:3m",
        "operator-away:3m",
        "dashboard-silent:6m",
        "missed:1h",
    ]);
    names.join(", ")
}

impl Incident {
    /// The incidents that are tried where none is asked for.
    pub const USUAL: [Self; 9] = [
        Self::NodeLost,
        Self::NodeGone,
        Self::Drain,
        Self::Oom,
        Self::Exit(1),
        Self::CrashAll,
        Self::Hang,
        Self::ImagePull,
        Self::Overrun,
    ];

    /// Those of a CronJob that are tried beside them.
    pub const OF_SCHEDULE: Self = Self::Missed(MISSED);

    /// That of what waits in a queue of Kueue, which is tried beside them.
    pub const OF_QUEUE: Self = Self::KueuePreempt(Time::from_seconds(1_800));

    /// Tells whether it takes all the pods of a node.
    #[must_use]
    pub(crate) fn is_of_node(self) -> bool {
        matches!(self, Self::NodeLost | Self::NodeGone | Self::Drain | Self::Spot)
    }

    /// Tells whether it is about all pods where no place is given.
    #[must_use]
    pub(crate) fn is_of_all(self) -> bool {
        matches!(self, Self::CrashAll | Self::Hang | Self::ImagePull | Self::Pending(_))
    }
}

impl Incident {
    /// Returns its name, without its duration.
    fn write_name(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit={code}"),
            Self::KueuePreempt(_) => f.write_str("kueue-preempt"),
            Self::ControllerAway(_) => f.write_str("controller-away"),
            Self::OperatorAway(_) => f.write_str("operator-away"),
            Self::DashboardSilent(_) => f.write_str("dashboard-silent"),
            Self::Pending(_) => f.write_str("pending"),
            Self::Missed(_) => f.write_str("missed"),
            other => {
                let name = WORDS.iter().find(|(_, incident)| *incident == other).map_or("", |(name, _)| name);
                f.write_str(name)
            }
        }
    }

    fn duration(self) -> Option<Time> {
        match self {
            Self::KueuePreempt(time)
            | Self::ControllerAway(time)
            | Self::OperatorAway(time)
            | Self::DashboardSilent(time)
            | Self::Pending(Some(time))
            | Self::Missed(time) => Some(time),
            _ => None,
        }
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Occurrence::from(*self).fmt(f)
    }
}

impl fmt::Display for Occurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.incident.write_name(f)?;
        if let Some(at) = self.at {
            write!(f, "@{}", Duration(at))?;
        }
        if let Some(time) = self.incident.duration() {
            write!(f, ":{}", Duration(time))?;
        }
        let mut before = ':';
        if let Some(role) = &self.role {
            write!(f, ":role={role}")?;
            before = ',';
        }
        match self.place {
            IncidentPlace::One => Ok(()),
            IncidentPlace::Index(index) => write!(f, "{before}index={index}"),
            IncidentPlace::Count(count) => write!(f, "{before}n={count}"),
            IncidentPlace::Between(first, last) => write!(f, "{before}index={first}-{last}"),
            IncidentPlace::All => write!(f, "{before}all"),
        }
    }
}

/// A duration as people write it: `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration(pub Time);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.millis();
        if millis < 10_000 && millis % 1_000 != 0 {
            return write!(f, "{:.1}s", self.0.seconds());
        }
        let seconds = (millis + 500) / 1_000;
        let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        match (hours, minutes, rest) {
            (0, 0, rest) => write!(f, "{rest}s"),
            (0, minutes, 0) => write!(f, "{minutes}m"),
            (0, minutes, rest) => write!(f, "{minutes}m{rest}s"),
            (hours, 0, _) => write!(f, "{hours}h"),
            (hours, minutes, _) => write!(f, "{hours}h{minutes}m"),
        }
    }
}

impl FromStr for Duration {
    type Err = IncidentError;

    fn from_str(text: &str) -> Result<Self, IncidentError> {
        let fail = || IncidentError::Duration(text.to_owned());
        let mut rest = text;
        let mut seconds = 0_i64;
        while !rest.is_empty() {
            let digits = rest.find(|char: char| !char.is_ascii_digit()).ok_or_else(fail)?;
            let number: i64 = rest[..digits].parse().map_err(|_| fail())?;
            let unit = match rest[digits..].chars().next() {
                Some('d') => 86_400,
                Some('h') => 3_600,
                Some('m') => 60,
                Some('s') => 1,
                _ => return Err(fail()),
            };
            seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more)).ok_or_else(fail)?;
            rest = &rest[digits + 1..];
        }
        let is_known = !text.is_empty() && seconds <= 10 * 366 * 86_400;
        if is_known { Ok(Self(Time::from_seconds(seconds))) } else { Err(fail()) }
    }
}

impl FromStr for Occurrence {
    type Err = IncidentError;

    fn from_str(text: &str) -> Result<Self, IncidentError> {
        let mut parts = text.trim().split(':');
        let head = parts.next().unwrap_or_default();
        let (name, at) = match head.split_once('@') {
            Some((name, at)) => (name, Some(at.parse::<Duration>()?.0)),
            None => (head, None),
        };
        let (mut time, mut role, mut place) = (None, None, IncidentPlace::One);
        for part in parts.flat_map(|part| part.split(',')) {
            let fail = || IncidentError::Part(part.to_owned());
            match part.split_once('=') {
                Some(("role", name)) if !name.is_empty() => role = Some(name.to_owned()),
                Some(("index", index)) => place = IncidentPlace::Index(index.parse().map_err(|_| fail())?),
                Some(("n", count)) => {
                    let count: NonZeroU32 = count.parse().map_err(|_| fail())?;
                    place = IncidentPlace::Count(count.get());
                }
                None if part == "all" => place = IncidentPlace::All,
                None if part == "ray-head" => role = Some("head".to_owned()),
                None => time = Some(part.parse::<Duration>().map_err(|_| fail())?.0),
                Some(_) => return Err(fail()),
            }
        }
        let incident =
            match (name, name.strip_prefix("exit=")) {
                (_, Some(code)) => {
                    let code: u8 =
                        code.parse().map_err(|_| IncidentError::Missing("exit=", "a code from 0 to 255"))?;
                    Incident::Exit(code)
                }
                ("kueue-preempt", _) => Incident::KueuePreempt(time.take().ok_or(IncidentError::Missing(
                    "kueue-preempt",
                    "how long it takes: `kueue-preempt:30m`",
                ))?),
                ("controller-away", _) => Incident::ControllerAway(time.take().ok_or(
                    IncidentError::Missing("controller-away", "how long it takes: `controller-away:3m`"),
                )?),
                ("operator-away", _) => Incident::OperatorAway(time.take().ok_or(IncidentError::Missing(
                    "operator-away",
                    "how long it takes: `operator-away:3m`",
                ))?),
                ("dashboard-silent", _) => Incident::DashboardSilent(time.take().ok_or(
                    IncidentError::Missing("dashboard-silent", "how long it takes: `dashboard-silent:6m`"),
                )?),
                ("pending", _) => Incident::Pending(time.take()),
                ("missed", _) => Incident::Missed(time.take().unwrap_or(MISSED)),
                _ => {
                    let known = WORDS.iter().find(|(word, _)| *word == name);
                    known
                        .map(|(_, incident)| *incident)
                        .ok_or_else(|| IncidentError::Unknown(name.to_owned()))?
                }
            };
        if let Some(time) = time {
            return Err(IncidentError::Part(Duration(time).to_string()));
        }
        Ok(Self { incident, at, role, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_are_read_as_they_are_written() {
        for text in [
            "node-lost@2h:index=3",
            "oom",
            "exit=42@1h30m",
            "kueue-preempt:30m",
            "kueue-preempt@2h:30m",
            "drain:n=2",
            "crash-all",
            "pending:5m",
            "pending",
            "hang:all",
            "controller-away:3m",
            "missed",
            "missed@2h:30m",
            "exit=1:role=worker,index=3",
            "drain@1h:role=ps",
            "operator-away:1m",
            "dashboard-silent@1h:6m",
            "node-lost:ray-head",
            "submitter-lost",
        ] {
            let read: Occurrence = text.parse().unwrap();
            let again: Occurrence = read.to_string().parse().unwrap();
            assert_eq!(read, again, "{text} {read}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, expected) in [
            ("explode", "no incident `explode`"),
            ("oom:3x", "neither a duration"),
            ("oom:5m", "`5m` is neither"),
            ("exit=300", "a code from 0 to 255"),
            ("kueue-preempt", "how long"),
            ("oom@soon", "is no duration"),
            ("oom:index=-1", "neither"),
            ("oom:n=0", "neither"),
        ] {
            let error = text.parse::<Occurrence>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
