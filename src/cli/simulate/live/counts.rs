//! Where a Job, or an object of an operator, stands: line by line.

use super::status::Standing;
use super::subject::Subject;
use super::times::since;
use super::words::quoted;
use crate::cli::simulate::timeline::shortened;
use crate::controllers::indexes::Indexes;
use crate::controllers::live::{LiveJob, LiveObject, RoleCount};

/// How many roles are listed: a JobSet may have hundreds.
const MOST_ROLES: usize = 12;

/// A line: what it is about, and what it says.
type Line = (&'static str, String);

/// Returns where it stands.
pub(super) fn status(standing: &Standing) -> Vec<Line> {
    let Standing { subject, moment, .. } = standing;
    let mut lines = vec![("age", since(subject.created()))];
    if let Some(start) = subject.start().filter(|start| since(*start) != since(subject.created())) {
        lines.push(("started", format!("{} ago", since(start))));
    }
    match subject {
        Subject::Job(job) => of_job(job, &mut lines),
        Subject::Object(object) => of_object(object, &mut lines),
    }
    for condition in subject.conditions() {
        let reason = if condition.reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", quoted(&condition.reason))
        };
        let text = if condition.message.is_empty() {
            String::new()
        } else {
            format!(": {}", quoted(&condition.message))
        };
        lines.push((
            "condition",
            format!("{}{reason}, {} ago{text}", quoted(&condition.sort), since(condition.at)),
        ));
    }
    if let Some(at) = subject.deadline().filter(|_| subject.ended().is_none()) {
        lines.push(("ends by", moment.with_distance(at)));
    }
    lines
}

fn of_job(job: &LiveJob, lines: &mut Vec<Line>) {
    let status = &job.status;
    let ready = status.ready.map_or_else(String::new, |ready| format!(", {ready} ready"));
    let terminating = match status.terminating {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} terminating"),
    };
    let of = match job.completions() {
        Some(all) => format!("{} of {all} succeeded", status.succeeded),
        None => format!("{} succeeded", status.succeeded),
    };
    lines.push(("pods", format!("{} active{ready}{terminating}; {of}", status.active)));
    lines.push(("failures", failures(job)));
    if job.spec.indexed {
        let failed = status.failed_indexes.clone().unwrap_or_default();
        let list = |indexes: &Indexes| {
            if indexes.is_empty() { "none".to_owned() } else { shortened(indexes) }
        };
        let mut text = format!("{} done", list(&status.completed));
        if job.is_per_index() {
            text.push_str(&format!(", {} failed", list(&failed)));
        }
        lines.push(("indexes", text));
    }
}

fn failures(job: &LiveJob) -> String {
    let (limit, failed) = (job.spec.backoff_limit, job.status.failed);
    if job.is_per_index() && limit == i32::MAX.unsigned_abs() {
        return format!("{failed}, with a limit for each index");
    }
    match limit.checked_sub(failed) {
        Some(left) => format!("{failed} of `backoffLimit` {limit}, {left} left"),
        None => format!("{failed}, more than `backoffLimit` {limit}"),
    }
}

fn of_object(object: &LiveObject, lines: &mut Vec<Line>) {
    if let Some(state) = object.state() {
        lines.push(("state", quoted(state)));
    }
    let roles = object.roles();
    if roles.is_empty() {
        lines.push(("pods", "none".to_owned()));
    }
    for role in roles.iter().take(MOST_ROLES) {
        lines.push(("pods", of_role(role)));
    }
    if let Some(more) = roles.len().checked_sub(MOST_ROLES).filter(|more| *more > 0) {
        lines.push(("pods", format!("... of {more} more roles")));
    }
    if let Some((restarts, limit)) = object.restarts() {
        let field = match object.kind {
            "JobSet" => "maxRestarts",
            "VolcanoJob" => "maxRetry",
            _ => "backoffLimit",
        };
        lines.push((
            "restarts",
            match limit.map(|limit| (limit, limit.checked_sub(restarts))) {
                None => restarts.to_string(),
                Some((limit, Some(left))) => format!("{restarts} of `{field}` {limit}, {left} left"),
                Some((limit, None)) => format!("{restarts}, more than `{field}` {limit}"),
            },
        ));
    }
    for below in &object.objects {
        let conditions = below.conditions.iter().map(|one| {
            let reason =
                if one.reason.is_empty() { String::new() } else { format!(" ({})", quoted(&one.reason)) };
            format!("{}{reason}, {} ago", quoted(&one.sort), since(one.at))
        });
        let conditions: Vec<String> = conditions.collect();
        let text = if conditions.is_empty() { "no condition".to_owned() } else { conditions.join("; ") };
        lines.push(("below", format!("{} {}: {text}", below.kind, quoted(&below.name))));
    }
}

/// Returns the pods of a role: `worker: 3 of 4 active, 3 ready; 1 failed`.
fn of_role(role: &RoleCount) -> String {
    let of = role.wanted.map_or_else(String::new, |wanted| format!(" of {wanted}"));
    let mut text = format!("{}: {}{of} active, {} ready", quoted(&role.name), role.active, role.ready);
    for (count, what) in
        [(role.terminating, "terminating"), (role.succeeded, "succeeded"), (role.failed, "failed")]
    {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}
