//! How pods end, by a script: restarts, what ends them from outside, and what they do on SIGTERM.

use super::super::time::Time;
use super::{
    Disruption, DisruptionCause, Read, Restarts, Termination, flag, integer, seconds, seconds_or_never,
};
use crate::text::value::Value;

pub(super) fn restarts(value: &Value) -> Read<Option<Restarts>> {
    let count = match value.get("restarts") {
        None => return Ok(None),
        Some(Value::Null) => None,
        Some(count) => {
            Some(u32::try_from(integer(count, "restarts")?).map_err(|_| "`restarts` is too large")?)
        }
    };
    if count == Some(0) {
        return Ok(None);
    }
    let every = seconds(value, "every")?.unwrap_or(Time::from_seconds(5));
    let is_backed_off = flag(value, "crashLoop")?;
    Ok(Some(Restarts { count, every: every.max(Time::from_millis(1)), is_backed_off }))
}

pub(super) fn disruption(value: &Value) -> Read<Disruption> {
    let cause = match value.get("cause").and_then(Value::as_str) {
        Some("evict") => DisruptionCause::Eviction,
        Some("preempt") => DisruptionCause::Preemption,
        Some("taint") => DisruptionCause::Taint,
        Some("delete") => DisruptionCause::Deletion,
        Some("force") => DisruptionCause::ForcedDeletion,
        Some("kubelet") => DisruptionCause::Pressure,
        Some("lost") => DisruptionCause::LostNode,
        _ => {
            return Err(
                "`cause` is `evict`, `preempt`, `taint`, `delete`, `force`, `kubelet` or `lost`".to_owned()
            );
        }
    };
    Ok(Disruption {
        after: seconds(value, "after")?.unwrap_or_default(),
        cause,
        collected: seconds(value, "gc")?,
    })
}

pub(super) fn termination(value: &Value) -> Read<Termination> {
    let default = Termination::default();
    Ok(Termination {
        after: seconds_or_never(value, "after", default.after)?,
        code: value.get("code").map_or(Ok(default.code), |code| integer(code, "code"))?,
    })
}
