//! What a script says of Volcano: when a scheduler takes PodGroups, and Commands.

use super::super::object::PodGroupPhase;
use super::super::time::Time;
use super::{Range, Read, Script, ScriptEvent, range, seconds_or_never, target};
use crate::text::value::Value;

/// How long after its creation a scheduler takes a PodGroup.
pub const INQUEUE: Time = Time::from_millis(500);

/// When a scheduler takes PodGroups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodGroupRule {
    /// Which, in order of creation.
    pub(crate) pod_groups: Range,
    /// From its creation until it is Inqueue; nothing if it stays Pending.
    pub(crate) inqueue: Option<Time>,
}

impl PodGroupRule {
    /// Returns the rule for all PodGroups.
    pub(crate) fn all(inqueue: Option<Time>) -> Self {
        Self { pod_groups: Range { first: 0, last: None }, inqueue }
    }

    pub(super) fn parse(value: &Value) -> Read<Self> {
        let known = |key: &str| ["podgroup", "inqueue"].contains(&key);
        if let Some(key) = value.as_object().and_then(|map| map.keys().find(|key| !known(key))) {
            return Err(format!("unknown key `{key}`"));
        }
        let any = Range { first: 0, last: None };
        Ok(Self {
            pod_groups: range(value, "podgroup")?.unwrap_or(any),
            inqueue: seconds_or_never(value, "inqueue", Some(INQUEUE))?,
        })
    }
}

impl Script {
    /// Returns how long after its creation a scheduler takes a PodGroup; nothing if it never does.
    #[must_use]
    pub(crate) fn enqueued_after(&self, nth: u32) -> Option<Time> {
        let rule = self.pod_groups.iter().find(|rule| rule.pod_groups.contains(nth));
        rule.map_or(Some(INQUEUE), |rule| rule.inqueue)
    }
}

/// Reads an event: the `status` of a PodGroup, or the `command` to a job.
pub(super) fn event(value: &Value) -> Read<Option<ScriptEvent>> {
    if let Some(phase) = value.pointer("/status/phase") {
        let phase = phase.as_str().and_then(PodGroupPhase::parse);
        let phase = phase.ok_or("`status.phase` is the phase of a PodGroup")?;
        return Ok(Some(ScriptEvent::Phase(target(value)?, phase)));
    }
    let Some(action) = value.get("command") else { return Ok(None) };
    let action = action.as_str().ok_or("`command` is the name of an action")?;
    Ok(Some(ScriptEvent::Command(action.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::super::{ControllerName, Target};
    use super::*;
    use crate::text::value::json;

    #[test]
    fn pod_groups_have_rules_of_their_own_and_operators_are_named() {
        let script = json!([
            {"podgroup": [1, null], "inqueue": null}, {"podgroup": 0, "inqueue": 3},
            {"at": 1, "command": "AbortJob"}, {"at": 2, "on": "PodGroup", "status": {"phase": "Unknown"}},
            {"at": 3, "controller": "restart-volcano-cm"},
        ]);
        let script = Script::parse(&script).unwrap();
        assert_eq!((script.enqueued_after(0), script.enqueued_after(7)), (Some(Time::from_seconds(3)), None));
        assert_eq!(Script::default().enqueued_after(0), Some(INQUEUE));
        let events: Vec<&ScriptEvent> = script.events.iter().map(|(_, event)| event).collect();
        assert!(matches!(
            events[..],
            [
                ScriptEvent::Command(_),
                ScriptEvent::Phase(Target::Object { .. }, PodGroupPhase::Unknown),
                ScriptEvent::Restart(ControllerName::Operator)
            ]
        ));
        assert!(Script::parse(&json!([{"podgroup": 0, "start": 3}])).is_err());
    }
}
