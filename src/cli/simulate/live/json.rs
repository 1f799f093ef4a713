//! A Job of a cluster as JSON.

use super::advice::advice;
use super::course::{course, end};
use super::standing::{Standing, Told};
use super::words::sentence;
use crate::controllers::time::Time;
use crate::text::value::{Value, json};

pub(in crate::cli::simulate) fn job(standing: &Standing) -> Value {
    let Standing { job, moment, waits, next, stories, .. } = standing;
    let stamp = |at: Option<Time>| at.and_then(|at| moment.stamp(at)).map_or(Value::Null, Value::from);
    let texts = |list: &[String]| Value::Array(list.iter().map(|text| text.as_str().into()).collect());
    let waits: Vec<Value> = waits
        .iter()
        .map(|wait| {
            json!({
                "for": wait.what.word(),
                "text": sentence(standing, wait),
                "since": stamp(wait.since),
                "until": stamp(wait.until),
                "pods": texts(&wait.pods),
                "nodes": texts(&wait.nodes),
            })
        })
        .collect();
    let conditions: Vec<Value> = job
        .conditions
        .iter()
        .map(|one| {
            json!({
                "type": one.sort.as_str(), "reason": one.reason.as_str(), "message": one.message.as_str(),
                "since": stamp(Some(one.at)),
            })
        })
        .collect();
    let status = &job.status;
    let failed = status.failed_indexes.clone().unwrap_or_default();
    let mut document = json!({
        "kind": "Job",
        "name": job.name.as_str(),
        "namespace": job.namespace.clone().unwrap_or_default(),
        "now": stamp(Some(Time::START)),
        "created": stamp(Some(job.created)),
        "started": stamp(status.start),
        "deadlineAt": stamp(job.deadline()),
        "deleted": stamp(job.expiry()),
        "active": i64::from(status.active),
        "ready": i64::from(status.ready.unwrap_or_default()),
        "terminating": i64::from(status.terminating.unwrap_or_default()),
        "succeeded": i64::from(status.succeeded),
        "failed": i64::from(status.failed),
        "backoffLimit": i64::from(job.spec.backoff_limit),
        "completedIndexes": status.completed.to_string(),
        "failedIndexes": failed.to_string(),
        "conditions": conditions,
        "waits": waits,
        "do": texts(&advice(standing)),
    });
    if let Some(fields) = document.as_object_mut() {
        if let Some(next) = next {
            fields.insert("assumed", standing.assumed.as_str().into());
            let value = match next {
                Ok(told) => self::told(standing, told),
                Err(problem) => json!({ "problem": problem.as_str() }),
            };
            fields.insert("next", value);
        }
        let stories: Vec<Value> = stories.iter().map(|one| told(standing, one)).collect();
        fields.insert("stories", Value::Array(stories));
    }
    document
}

fn told(standing: &Standing, told: &Told) -> Value {
    let moment = standing.moment;
    let stamp = |at: Time| moment.stamp(at).map_or(Value::Null, Value::from);
    let (entries, left_out) = course(standing, told);
    let entries: Vec<Value> =
        entries.iter().map(|(at, what)| json!({ "at": stamp(*at), "what": what.as_str() })).collect();
    let outcome = &told.outcome.outcome;
    let mut value = json!({
        "ends": outcome.ending.word(),
        "at": stamp(outcome.at),
        "text": end(standing, told),
        "reason": outcome.reason.as_deref().unwrap_or_default(),
        "podsMade": i64::from(told.outcome.made),
        "podsFailed": i64::from(told.outcome.failed),
        "happens": entries,
        "leftOut": i64::try_from(left_out).unwrap_or(i64::MAX),
    });
    if let Some(fields) = value.as_object_mut() {
        if !told.story.is_empty() {
            fields.insert("story", told.story.as_str().into());
        }
        if let Some((or, because)) = &told.or {
            let or = json!({
                "ends": or.outcome.ending.word(), "at": stamp(or.outcome.at), "because": because.words(),
            });
            fields.insert("or", or);
        }
        if !told.outcome.unused.is_empty() {
            let unused = told.outcome.unused.iter().map(|text| text.as_str().into());
            fields.insert("unused", Value::Array(unused.collect()));
        }
    }
    value
}
