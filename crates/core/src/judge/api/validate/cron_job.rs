//! CronJobs: schedule, time zone and Job template.

use super::cause::{CausePlace as _, Causes};
use super::job::job_spec;
use super::metadata::metadata;
use super::object_part::ObjectPart;
use crate::k8s::cron::{Schedule, load_location};

/// Checks a `CronJob`. On UPDATE, some invalid values of the old one are allowed.
pub(super) fn cron_job(object: &ObjectPart<'_, '_>, old: Option<&ObjectPart<'_, '_>>, causes: &mut Causes) {
    metadata(&object.get("metadata"), causes);
    let spec = object.get("spec");
    let schedule = spec.get("schedule");
    if schedule.text().is_empty() {
        causes.required(&schedule, "");
    } else {
        let names_zone = |schedule: &ObjectPart<'_, '_>| schedule.text().contains("TZ");
        let may_name_zone = old.is_some_and(|old| names_zone(&old.at(&["spec", "schedule"])));
        if let Err(error) = Schedule::parse(schedule.text()) {
            causes.invalid(&schedule, &error.to_string());
        }
        if names_zone(&schedule) && !may_name_zone {
            causes.invalid(&schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        } else if names_zone(&schedule) && spec.get("timeZone").is_set() {
            causes.invalid(&schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
    }
    causes.not_negative(&spec.get("startingDeadlineSeconds"));
    let zone = spec.get("timeZone");
    if old.is_none_or(|old| old.at(&["spec", "timeZone"]).value != zone.value) {
        time_zone(&zone, causes);
    }
    let policy = spec.get("concurrencyPolicy");
    match policy.text() {
        "" => _ = causes.required(&policy, ""),
        _ => causes.one_of(&policy, &["Allow", "Forbid", "Replace"]),
    }
    let job = spec.at(&["jobTemplate", "spec"]);
    job_spec(&job, causes);
    if job.get("selector").is_set() {
        causes.invalid_value(&job.get("selector"), "`selector` will be auto-generated");
    }
    if job.get("manualSelector").is_true() {
        causes.one_of(&job.get("manualSelector"), &["nil", "false"]);
    }
    causes.not_negative(&spec.get("successfulJobsHistoryLimit"));
    causes.not_negative(&spec.get("failedJobsHistoryLimit"));
    let name = object.at(&["metadata", "name"]);
    if old.is_none() && name.text().len() > 52 {
        causes.invalid(&name, "must be no more than 52 characters");
    }
    let prefix = object.at(&["metadata", "generateName"]);
    // The server cuts a prefix at 58 characters and appends five.
    if old.is_none() && name.text().is_empty() && prefix.text().len() > 47 {
        let generated = format!("{}xxxxx", prefix.text().chars().take(58).collect::<String>());
        causes.invalid_text(&name, &generated, "must be no more than 52 characters").pointer =
            prefix.pointer();
    }
}

fn time_zone(field: &ObjectPart<'_, '_>, causes: &mut Causes) {
    if !field.is_set() {
        return;
    }
    let name = field.text();
    if name.is_empty() {
        causes.invalid(field, "timeZone must be nil or non-empty string");
        return;
    }
    let fine = |part: &str| {
        (1..=14).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if !name.split('/').all(fine) {
        causes.invalid(field, &format!("unknown time zone {name}"));
        return;
    }
    if name.eq_ignore_ascii_case("Local") {
        causes.invalid(
            field,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }
    if let Err(error) = load_location(name) {
        causes.invalid(field, &error.to_string());
    }
}
