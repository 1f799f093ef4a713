//! Accelerators that the jobs of a report hold, by namespace and team.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::text::{clean, plural, thousands};
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::rule::Holding;
use jobgate_core::kinds::{AcceleratorCount, Workload};
use jobgate_core::text::value::Value;

/// Maximum rows without `--full`.
const ROWS: usize = 5;

/// Accelerators that the jobs of each namespace and team hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings(BTreeMap<(String, String), JobShare>);

/// Accelerators that some jobs hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JobShare {
    jobs: usize,
    /// Those without a time limit.
    unbounded: AcceleratorCount,
    /// Those with a time limit.
    bounded: AcceleratorCount,
    /// The hours of the latter.
    hours: u64,
}

/// Accelerators that the jobs of one namespace and team hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'h> {
    /// The namespace; may be empty.
    pub(super) namespace: &'h str,
    /// The team; may be empty.
    pub(super) team: &'h str,
    /// The number of jobs that hold any.
    pub(super) jobs: usize,
    /// Accelerators without a time limit.
    pub(super) unbounded: AcceleratorCount,
    /// The hours of those with a time limit.
    pub(super) hours: u64,
}

impl JobShare {
    fn add(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.unbounded += other.unbounded;
        self.bounded += other.bounded;
        self.hours = self.hours.saturating_add(other.hours);
    }
}

impl Holdings {
    /// Adds the accelerators that an object holds. `namespace` may be empty.
    pub fn add(&mut self, object: &Value, namespace: &str, policy: &Policy) {
        let Some((holding, settings)) = policy.bases().find_map(|(rule, base)| Some((rule.holding?, base)))
        else {
            return;
        };
        let workloads = Workload::all_in(object);
        let Some(outer) = workloads.last() else { return };
        for workload in &workloads {
            let wraps = workload.object.pointer != outer.object.pointer;
            let inside = wraps.then(|| outer.object.clone());
            let workload = Workload { inside, ..workload.clone() };
            let Some(Holding { cost, team }) = holding(&workload, settings) else { continue };
            let team = team.unwrap_or_default();
            let (none, held) = (AcceleratorCount::default(), cost.held);
            let share = match cost.hours() {
                Some(hours) => JobShare { jobs: 1, unbounded: none, bounded: held, hours },
                None => JobShare { jobs: 1, unbounded: held, bounded: none, hours: 0 },
            };
            self.0.entry((namespace.to_owned(), team.to_owned())).or_default().add(share);
        }
    }

    /// Adds those of another report.
    pub fn append(&mut self, other: Self) {
        for (who, share) in other.0 {
            self.0.entry(who).or_default().add(share);
        }
    }

    /// Tells whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the holders, those with most first.
    pub(super) fn holders<'h>(&'h self) -> Vec<Holder<'h>> {
        let mut shares: Vec<_> = self.0.iter().collect();
        shares.sort_by_key(|(_, share)| Reverse((share.unbounded.total(), share.bounded.total())));
        let holder = |((namespace, team), share): (&'h (String, String), &JobShare)| Holder {
            namespace,
            team,
            jobs: share.jobs,
            unbounded: share.unbounded,
            hours: share.hours,
        };
        shares.into_iter().map(holder).collect()
    }

    /// Returns the total in words, if there is any.
    pub(super) fn in_short(&self) -> Option<String> {
        let mut all = JobShare::default();
        self.0.values().for_each(|share| all.add(*share));
        (all.jobs > 0).then(|| phrase(&all))
    }

    /// Writes the total, and the largest holders.
    pub(super) fn write(&self, full: bool, out: &mut dyn io::Write) -> io::Result<()> {
        let Some(all) = self.in_short() else { return Ok(()) };
        writeln!(out, "accelerators: {all}")?;
        if self.0.len() == 1 {
            return Ok(());
        }
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, share)| Reverse((share.unbounded.total(), share.bounded.total())));
        // A line about one more row takes as much space as the row.
        let shown = if full || rows.len() <= ROWS + 1 { rows.len() } else { ROWS };
        for ((namespace, team), share) in &rows[..shown] {
            let who = match (&**namespace, &**team) {
                ("", "") => "no namespace".to_owned(),
                (namespace, "") => clean(namespace).into_owned(),
                ("", team) => format!("team {}", clean(team)),
                (namespace, team) => format!("{}, team {}", clean(namespace), clean(team)),
            };
            writeln!(out, "  {who}: {}", phrase(share))?;
        }
        if shown < rows.len() {
            writeln!(out, "  … and {} more (`--full`)", thousands(rows.len() - shown))?;
        }
        Ok(())
    }
}

/// Returns a share in words.
fn phrase(share: &JobShare) -> String {
    let JobShare { jobs, bounded, unbounded, hours } = share;
    let hours = usize::try_from(*hours).unwrap_or(usize::MAX);
    let hours = || plural(hours, &format!("{} hour", bounded.noun()));
    let what = match (unbounded.is_none(), bounded.is_none()) {
        (true, _) => format!("{bounded} for {} at most", hours()),
        (false, true) => format!("{unbounded} without a time limit"),
        (false, false) => format!("{unbounded} without a time limit, and {bounded} for {} at most", hours()),
    };
    format!("{} may hold {what}", plural(*jobs, "job"))
}

/// A row in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HoldingsRow<'r> {
    namespace: Option<&'r str>,
    team: Option<&'r str>,
    objects: usize,
    #[serde(serialize_with = "units")]
    held: AcceleratorCount,
    #[serde(serialize_with = "units")]
    unbounded: AcceleratorCount,
    hours: u64,
}

fn units<S: Serializer>(held: &AcceleratorCount, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (unit, number) in held.units() {
        map.serialize_entry(unit.key(), &number)?;
    }
    map.end()
}

impl Serialize for Holdings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held = |share: &JobShare| {
            let mut held = share.unbounded;
            held += share.bounded;
            held
        };
        serializer.collect_seq(self.0.iter().map(|((namespace, team), share)| HoldingsRow {
            namespace: Some(&**namespace).filter(|name| !name.is_empty()),
            team: Some(&**team).filter(|name| !name.is_empty()),
            objects: share.jobs,
            held: held(share),
            unbounded: share.unbounded,
            hours: share.hours,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::value::json;

    fn job(labels: Value, deadline: Value, gpus: i64) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": labels}, "spec": {
            "activeDeadlineSeconds": deadline,
            "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}}})
    }

    fn written(holdings: &Holdings, full: bool) -> String {
        let mut out = Vec::new();
        holdings.write(full, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn teams_are_told_apart_by_the_first_label_that_there_is() {
        let policy = Policy::default();
        let mut holdings = Holdings::default();
        holdings.add(&job(json!({"team": "vision"}), 3600.into(), 8), "ml", &policy);
        holdings.add(
            &job(json!({"team": "vision", "app.kubernetes.io/part-of": "x"}), Value::Null, 4),
            "ml",
            &policy,
        );
        holdings.add(
            &job(json!({"team": "$TEAM", "kueue.x-k8s.io/queue-name": "speech"}), 7200.into(), 1),
            "ml",
            &policy,
        );
        holdings.add(&job(Value::Null, 7200.into(), 2), "", &policy);
        holdings.add(&job(Value::Null, 7200.into(), 0), "cpu", &policy);
        holdings.add(&json!({"apiVersion": "v1", "kind": "Pod"}), "ml", &policy);
        assert_eq!(
            written(&holdings, false),
            "accelerators: 4 jobs may hold 4 GPUs without a time limit, and 11 GPUs for 14 GPU hours at most\n  \
             ml, team vision: 2 jobs may hold 4 GPUs without a time limit, and 8 GPUs for 8 GPU hours at most\n  \
             no namespace: 1 job may hold 2 GPUs for 4 GPU hours at most\n  \
             ml, team speech: 1 job may hold 1 GPU for 2 GPU hours at most\n"
        );
        let rows = serde_json::to_value(&holdings).unwrap();
        assert_eq!(
            rows,
            serde_json::json!([
                {"namespace": null, "team": null, "objects": 1, "held": {"gpu": 2}, "unbounded": {}, "hours": 4},
                {"namespace": "ml", "team": "speech", "objects": 1, "held": {"gpu": 1}, "unbounded": {}, "hours": 2},
                {"namespace": "ml", "team": "vision", "objects": 2, "held": {"gpu": 12}, "unbounded": {"gpu": 4}, "hours": 8},
            ])
        );
    }

    #[test]
    fn few_rows_are_shown() {
        let policy = Policy::default();
        let mut holdings = Holdings::default();
        for nth in 0..8 {
            holdings.add(&job(json!({"team": format!("t{nth}")}), Value::Null, 8), "ml", &policy);
        }
        assert_eq!(written(&holdings, false).lines().count(), 1 + ROWS + 1);
        assert_eq!(written(&holdings, true).lines().count(), 1 + 8);
        assert_eq!(written(&Holdings::default(), true), "");
    }

    #[test]
    fn what_is_in_a_wrapper_is_of_the_wrappers_team() {
        let wrapper = json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
            "metadata": {"labels": {"team": "vision"}},
            "spec": {"components": [{"template": job(Value::Null, 3600.into(), 8)}, {"template": job(Value::Null, 3600.into(), 8)}]}});
        let mut holdings = Holdings::default();
        holdings.add(&wrapper, "ml", &Policy::default());
        let rows = serde_json::to_value(&holdings).unwrap();
        let row = serde_json::json!({"namespace": "ml", "team": "vision", "objects": 2, "held": {"gpu": 16}, "unbounded": {}, "hours": 64});
        assert_eq!(rows, serde_json::json!([row]));
    }
}
