//! Holds [`Schedule`] to answers recorded from `robfig/cron`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobgate::k8s::cron::Schedule;
use jobgate::text::value::{Value, json};

fn answer(row: &Value) -> Value {
    let text = row["schedule"].as_str().expect("schedule is text");
    let schedule = match Schedule::parse(text) {
        Ok(schedule) => schedule,
        Err(error) => return json!({"schedule": text, "error": error.to_string()}),
    };
    let Some(after) = row["after"].as_str() else { return json!({"schedule": text, "error": null}) };
    let start: Timestamp = after.parse().expect("after is a time");
    let runs: Vec<Value> =
        std::iter::successors(schedule.next(&start.to_zoned(TimeZone::UTC)), |run| schedule.next(run))
            .take(5)
            .map(|run| json!(run.timestamp().to_string()))
            .collect();
    let next = if runs.is_empty() { Value::Null } else { runs.into() };
    json!({"schedule": text, "after": after, "next": next})
}

#[test]
fn agrees_with_the_oracle() {
    let Some(rows) = crate::support::shared::rows("oracles/cron.jsonl") else { return };
    assert!(rows.len() >= 70, "only {} rows", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter(|row| answer(row) != **row)
        .map(|row| format!("expected {row}\n   given {}", answer(row)))
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}
