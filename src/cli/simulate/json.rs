//! The simulation as one JSON document.

use std::io::{self, Write};

use super::human::hours;
use super::live::{self, Standing};
use super::stories::{Row, Simulated};
use crate::controllers::story::Outcome;
use crate::text::value::{Value, json};

pub(super) fn write(jobs: &[Simulated], live: &[Standing], out: &mut dyn Write) -> io::Result<()> {
    let jobs: Vec<Value> = jobs.iter().map(job).collect();
    let mut document = json!({ "version": 1, "kubernetes": "1.36", "jobs": jobs });
    if !live.is_empty() {
        document["live"] = Value::Array(live.iter().map(live::to_json).collect());
    }
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn job(job: &Simulated) -> Value {
    let rows: Vec<Value> = job.rows.iter().map(|one| row(job, one)).collect();
    json!({
        "file": job.path.as_str(),
        "kind": job.object.kind.as_str(),
        "name": job.object.full_name(),
        "spec": job.pointer.as_str(),
        "operator": (!job.operators.is_empty()).then(|| job.operators.join(", ")),
        "bySource": job.by_source,
        "acceleratorsPerPod": job.accelerators,
        "retries": job.retries.map(i64::from),
        "refused": job.refused.clone(),
        "assumed": job.assumed_in_words(),
        "stories": rows,
    })
}

fn row(job: &Simulated, row: &Row) -> Value {
    let mut value = outcome(job, &row.outcome);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("story", Value::from(row.story.as_str()));
        if let Some((or, _)) = &row.or {
            fields.insert("or", outcome(job, or));
        }
        if let Some(Ok(runs)) = &row.runs {
            fields.insert(
                "runs",
                json!({
                    "withinSeconds": runs.within.millis() / 1_000,
                    "due": i64::from(runs.due),
                    "started": i64::from(runs.started),
                    "atOnce": i64::from(runs.at_once),
                    "replaced": i64::from(runs.replaced),
                    "lateSeconds": runs.late.map(|late| late.millis() / 1_000),
                }),
            );
        }
        if let Some(decision) = &row.decision {
            let (line, column) = row.place.unwrap_or_default();
            let (line, column) =
                (i64::try_from(line).unwrap_or_default(), i64::try_from(column).unwrap_or_default());
            fields.insert(
                "decidedBy",
                json!({ "field": decision.name(), "why": decision.why.as_str(), "line": line, "column": column }),
            );
        }
    }
    value
}

fn outcome(job: &Simulated, outcome: &Outcome) -> Value {
    let number = |number: f64| serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number);
    json!({
        "ends": outcome.ending.word(),
        "afterSeconds": number(outcome.at.seconds()),
        "reason": outcome.reason.as_deref().unwrap_or_default(),
        "pods": i64::from(outcome.made),
        "failed": i64::from(outcome.status.failed),
        "succeeded": i64::from(outcome.status.succeeded),
        "hoursUsed": number(hours(job, outcome.used)),
        "hoursIdle": number(hours(job, outcome.idle())),
        "hoursLost": number(hours(job, outcome.lost)),
    })
}
