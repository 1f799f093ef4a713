//! What a TrainJob asks for, as far as what it waits for depends on it.

use super::super::super::managers;
use super::super::super::time::Time;
use super::super::demand::{Asked, AskedObjects, other_manager};
use super::build::is_suspended;
use crate::text::value::Value;

/// Returns what a TrainJob asks for.
pub(in super::super) fn asked(manifest: &Value) -> Asked {
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    let deadline = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    Asked {
        operator: "Trainer v2.3.0",
        is_suspended: is_suspended(spec),
        suspend: &["suspend"],
        manager: other_manager(spec, managers::TRAINER),
        deadline: deadline.filter(|seconds| *seconds != 0).map(Time::from_seconds),
        deadline_at: &["activeDeadlineSeconds"],
        objects: vec![AskedObjects::one("JobSet")],
        ..Asked::default()
    }
}
