//! What a finding costs: hours of accelerators, or of pods, in which nothing is done that counts.

use std::cmp::Ordering;
use std::fmt;

use crate::controllers::incident::Duration;
use crate::controllers::time::Time;
use crate::text::number::thousands;

/// What an incident costs. The order is by size: hours of accelerators are more than any of pods without them, and hours
/// without a limit more than any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The time of all accelerators, or of all pods if they have none; nothing if it has no limit.
    pub(crate) time: Option<Time>,
    /// Whether the pods have accelerators.
    pub(crate) has_accelerators: bool,
    /// How often the program is assumed to save its work; nothing if never, or if that does not matter.
    pub(crate) checkpoint: Option<Time>,
}

impl Loss {
    /// Returns the loss of pods without accelerators that nothing ends.
    pub(crate) const PODS_WITHOUT_LIMIT: Self =
        Self { time: None, has_accelerators: false, checkpoint: None };

    /// Returns the hours, rounded to tenths; nothing if they have no limit.
    #[must_use]
    pub fn hours(&self) -> Option<f64> {
        self.time.map(|time| (time.seconds() / 360.0).round() / 10.0)
    }

    /// Returns what the hours are of: `accelerator` or `pod`.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        if self.has_accelerators { "accelerator" } else { "pod" }
    }

    fn key(&self) -> (bool, bool, Option<Time>) {
        (self.has_accelerators, self.time.is_none(), self.time)
    }
}

impl PartialOrd for Loss {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Loss {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key()).then_with(|| self.checkpoint.cmp(&other.checkpoint))
    }
}

impl fmt::Display for Loss {
    /// Writes `14 accelerator hours with a checkpoint every 30m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit();
        let Some(time) = self.time else { return write!(f, "{unit} hours without a limit") };
        let tenths = time.millis() / 360_000;
        match tenths {
            ..100 => write!(f, "{}.{}", tenths / 10, tenths % 10)?,
            _ => f.write_str(&thousands(usize::try_from(tenths / 10).unwrap_or(usize::MAX)))?,
        }
        match self.checkpoint {
            Some(every) => write!(f, " {unit} hours with a checkpoint every {}", Duration(every)),
            None => write!(f, " {unit} hours without checkpoints"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_larger_with_accelerators_and_without_a_limit() {
        let loss = |hours: Option<i64>, has_accelerators| Loss {
            time: hours.map(|hours| Time::from_seconds(hours * 3_600)),
            has_accelerators,
            checkpoint: None,
        };
        let mut all = [
            loss(None, true),
            loss(Some(1), true),
            loss(None, false),
            loss(Some(9), false),
            loss(Some(8), false),
        ];
        all.sort();
        let words: Vec<String> = all.iter().map(Loss::to_string).collect();
        let expected = [
            "8.0 pod hours without checkpoints",
            "9.0 pod hours without checkpoints",
            "pod hours without a limit",
            "1.0 accelerator hours without checkpoints",
            "accelerator hours without a limit",
        ];
        assert_eq!(words, expected);
    }
}
