//! What one run showed, as a row of a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::schedule::{Lost, Tally, Unready};

/// How many lost reviews are shown one by one.
const MAX_SHOWN: usize = 8;

/// One run.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) tally: Tally,
    /// How often readiness was probed.
    pub(crate) probes: u64,
    pub(crate) unready: Vec<Unready>,
    /// `jobgate_faults_total`; nothing where the metrics could not be read.
    pub(crate) faults: Option<f64>,
    /// The most resident memory that the server has had, in KiB.
    pub(crate) peak: u64,
    /// What the attackers saw.
    pub(crate) note: String,
}

impl Row {
    /// Returns the time within which this share of the right answers came.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let times = &self.tally.latencies;
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index of a sample"
        )]
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// Returns how many were lost, by the word that the cause begins with.
    pub(crate) fn causes(&self) -> BTreeMap<&str, usize> {
        let mut causes = BTreeMap::new();
        for lost in &self.tally.lost {
            *causes.entry(lost.cause.split(':').next().unwrap_or_default()).or_default() += 1;
        }
        causes
    }

    /// Fails if a review or a probe was lost, or if the answers came late.
    pub(crate) fn check(&self, p99: Duration) -> Result<(), String> {
        let mut wrong = String::new();
        if !self.tally.lost.is_empty() {
            let _ = writeln!(
                wrong,
                "{} of {} reviews lost: {:?}",
                self.tally.lost.len(),
                self.tally.sent,
                self.causes()
            );
            for Lost { at, review, path, cause } in self.tally.lost.iter().take(MAX_SHOWN) {
                let _ =
                    writeln!(wrong, "  after {:.3} s, {review} to {path}: {cause:.300}", at.as_secs_f64());
            }
        }
        if !self.unready.is_empty() {
            let _ = writeln!(wrong, "{} of {} readiness probes failed", self.unready.len(), self.probes);
            for Unready { at, cause } in self.unready.iter().take(MAX_SHOWN) {
                let _ = writeln!(wrong, "  after {:.3} s: {cause}", at.as_secs_f64());
            }
        }
        if self.percentile(0.99) > p99 {
            let _ = writeln!(wrong, "p99 is {:?}, and {p99:?} is allowed", self.percentile(0.99));
        }
        let limit = memory_limit();
        if self.peak >> 10 >= limit {
            let _ = writeln!(wrong, "{} MiB at most, and the container has {limit}", self.peak >> 10);
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong}{}\n{HEAD}{self}", self.note)) }
    }
}

/// Returns what the manifests give the container, in MiB.
fn memory_limit() -> u64 {
    let mut objects = jobgate::text::yaml::documents(include_bytes!("../../deploy/install.yaml"))
        .filter_map(|document| Some(document.ok()?.value));
    let deployment = objects.find(|object| object["kind"] == "Deployment").expect("a Deployment");
    let limit = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"];
    limit.as_str().and_then(|text| text.strip_suffix("Mi")?.parse().ok()).expect("a limit in Mi")
}

pub(crate) const HEAD: &str = "\
| attack | reviews | lost | p50 ms | p99 ms | p99.9 ms | max ms | 429 | readiness lost | faults | peak MiB | attackers |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
";

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |share| self.percentile(share).as_secs_f64() * 1e3;
        let causes: Vec<String> =
            self.causes().iter().map(|(cause, count)| format!("{count} {cause}")).collect();
        let lost = if causes.is_empty() {
            "0".to_owned()
        } else {
            format!("{} ({})", self.tally.lost.len(), causes.join(", "))
        };
        // More than this says that the machine was too busy for the figures to mean much.
        const LATE: Duration = Duration::from_millis(50);
        let late = if self.tally.late > LATE {
            format!(" (the generator was up to {} ms late)", self.tally.late.as_millis())
        } else {
            String::new()
        };
        let faults = self.faults.map_or_else(|| "unknown".to_owned(), |faults| faults.to_string());
        write!(
            f,
            "| {} | {} | {lost} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} of {} | {faults} | {} | {}{late} |",
            self.name,
            self.tally.sent,
            ms(0.5),
            ms(0.99),
            ms(0.999),
            ms(1.0),
            self.tally.put_off,
            self.unready.len(),
            self.probes,
            self.peak >> 10,
            self.note
        )?;
        writeln!(f)
    }
}
