//! A Job of a cluster, or an object of an operator, as JSON.

use super::advice::advice;
use super::course::{course, end};
use super::status::{Standing, Told};
use super::subject::Subject;
use super::words::sentence;
use crate::controllers::live::{LiveJob, LiveObject};
use crate::controllers::time::Time;
use crate::text::value::{Value, json};

pub(in crate::cli::simulate) fn standing(standing: &Standing) -> Value {
    let Standing { subject, moment, waits, next, stories, .. } = standing;
    let stamp = |at: Option<Time>| at.and_then(|at| moment.stamp(at)).map_or(Value::Null, Value::from);
    let texts = |list: &[String]| Value::Array(list.iter().map(|text| text.as_str().into()).collect());
    let waits: Vec<Value> = waits
        .iter()
        .map(|wait| {
            json!({
                "of": texts(&wait.of),
                "for": wait.what.word(),
                "text": sentence(standing, wait),
                "since": stamp(wait.since),
                "until": stamp(wait.until),
                "pods": texts(&wait.pods),
                "nodes": texts(&wait.nodes),
            })
        })
        .collect();
    let conditions: Vec<Value> = subject
        .conditions()
        .iter()
        .map(|one| {
            json!({
                "type": one.sort.as_str(), "reason": one.reason.as_str(), "message": one.message.as_str(),
                "since": stamp(Some(one.at)),
            })
        })
        .collect();
    let mut document = json!({
        "kind": subject.kind(),
        "name": subject.name(),
        "namespace": subject.namespace().unwrap_or_default(),
        "now": stamp(Some(Time::START)),
        "created": stamp(Some(subject.created())),
        "started": stamp(subject.start()),
        "deadlineAt": stamp(subject.deadline()),
        "deleted": stamp(subject.expiry()),
        "conditions": conditions,
        "waits": waits,
        "refused": texts(&standing.refused),
        "do": texts(&advice(standing)),
    });
    let more = match subject {
        Subject::Job(job) => of_job(job),
        Subject::Object(object) => of_object(object),
    };
    if let (Some(fields), Value::Object(more)) = (document.as_object_mut(), &more) {
        for (key, value) in more.iter() {
            fields.insert(key, value.clone());
        }
    }
    if let Some(fields) = document.as_object_mut() {
        if let Some(next) = next {
            let assumed: Vec<&str> =
                standing.work.iter().chain(&standing.others).map(String::as_str).collect();
            fields.insert("assumed", assumed.join("; ").into());
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

fn of_job(job: &LiveJob) -> Value {
    let status = &job.status;
    let failed = status.failed_indexes.clone().unwrap_or_default();
    json!({
        "active": i64::from(status.active),
        "ready": i64::from(status.ready.unwrap_or_default()),
        "terminating": i64::from(status.terminating.unwrap_or_default()),
        "succeeded": i64::from(status.succeeded),
        "failed": i64::from(status.failed),
        "backoffLimit": i64::from(job.spec.backoff_limit),
        "completedIndexes": status.completed.to_string(),
        "failedIndexes": failed.to_string(),
    })
}

fn of_object(object: &LiveObject) -> Value {
    let roles = object.roles().into_iter().map(|role| {
        json!({
            "role": role.name,
            "wanted": role.wanted.map(i64::from),
            "active": i64::from(role.active),
            "ready": i64::from(role.ready),
            "terminating": i64::from(role.terminating),
            "succeeded": i64::from(role.succeeded),
            "failed": i64::from(role.failed),
        })
    });
    let (restarts, limit) =
        object.restarts().map_or((None, None), |(restarts, limit)| (Some(restarts), limit));
    json!({
        "operator": object.operator(),
        "state": object.state(),
        "restarts": restarts.map(i64::from),
        "restartLimit": limit.map(i64::from),
        "roles": roles.collect::<Vec<Value>>(),
    })
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
