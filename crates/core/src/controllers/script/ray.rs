//! What a script says of Ray: programs, dashboards, and the containers that submit programs.

use super::super::dashboard::programs::{ProgramState, RayProgramPlan};
use super::super::time::Time;
use super::{Range, Read, codes, flag, integer, range, seconds, seconds_or_never};
use crate::text::value::Value;

/// What programs do, by their numbers in order of submission.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramRule {
    /// Which programs.
    programs: Option<Range>,
    /// What they do.
    plan: RayProgramPlan,
}

/// What a container that submits a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    /// From its start until it submits the program, unless the dashboard knows one of its id; nothing if it never does.
    pub(crate) after: Option<Time>,
    /// Whether it ends with the program.
    pub(crate) follows: bool,
    /// Its exit code.
    pub(crate) exit: i64,
    /// Its exit code when the dashboard goes away.
    pub(crate) on_loss: i64,
    /// Beside a head: how long it runs, where it does not follow the program; nothing if it never ends.
    pub(crate) run: Option<Time>,
}

impl Default for Submission {
    fn default() -> Self {
        Self { after: Some(Time::from_millis(500)), follows: false, exit: 0, on_loss: 1, run: None }
    }
}

/// What happens to the dashboards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DashboardEvent {
    /// They do not answer any more.
    Down,
    /// They answer again.
    Up,
    /// They forget every program.
    Forget,
    /// Somebody stops every program.
    Stop,
}

impl ProgramRule {
    /// Returns that of the first program or of all: how long they run, and whether they fail.
    pub(crate) fn new(is_of_all: bool, run: Option<Time>, fails: bool) -> Self {
        let programs = Range { first: 0, last: Some(0) };
        let end = if fails { ProgramState::Failed } else { ProgramState::Succeeded };
        Self {
            programs: (!is_of_all).then_some(programs),
            plan: RayProgramPlan { run, end, ..RayProgramPlan::default() },
        }
    }

    /// Reads `{"program": …}`.
    pub(super) fn parse(value: &Value) -> Read<Self> {
        const KEYS: [&str; 5] = ["program", "pending", "run", "end", "message"];
        if let Some(key) = value.as_object().and_then(|map| map.keys().find(|key| !KEYS.contains(key))) {
            return Err(format!("unknown key `{key}` of a program"));
        }
        let default = RayProgramPlan::default();
        let end = match value.get("end").map(Value::as_str) {
            None => default.end,
            Some(Some("SUCCEEDED")) => ProgramState::Succeeded,
            Some(Some("FAILED")) => ProgramState::Failed,
            Some(_) => return Err("`end` is `SUCCEEDED` or `FAILED`".to_owned()),
        };
        let message = value.get("message").filter(|message| !message.is_null());
        let message = message.map(|message| message.as_str().ok_or("`message` is a text")).transpose()?;
        Ok(Self {
            programs: range(value, "program")?,
            plan: RayProgramPlan {
                pending: seconds(value, "pending")?.unwrap_or_default(),
                run: seconds_or_never(value, "run", default.run)?,
                end,
                message: message.map(str::to_owned),
            },
        })
    }
}

/// Returns what a program does, by its number in order of submission: what the first rule says that names it.
#[must_use]
pub(crate) fn program_plan(rules: &[ProgramRule], number: usize) -> Option<RayProgramPlan> {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let rule = rules.iter().find(|rule| rule.programs.is_none_or(|programs| programs.contains(number)));
    rule.map(|rule| rule.plan.clone())
}

/// Returns what the first program does that has been running for a time, from its submission on: times of a rule that is for
/// it alone count from now.
#[must_use]
pub(crate) fn running_plan(rules: &[ProgramRule], ran: Time) -> Option<RayProgramPlan> {
    let rule = rules.iter().find(|rule| rule.programs.is_none_or(|programs| programs.contains(0)))?;
    let from_now = |run: Time| if rule.programs.is_some() { ran + run } else { run.max(ran) };
    Some(RayProgramPlan { pending: Time::START, run: rule.plan.run.map(from_now), ..rule.plan.clone() })
}

impl Submission {
    /// Reads the keys of a plan, or of `submitter` in one.
    pub(super) fn parse(value: &Value) -> Read<Self> {
        let default = Self::default();
        let exit = codes(value, "exit")?.first().map_or(default.exit, |(_, code)| *code);
        Ok(Self {
            after: seconds_or_never(value, "submit", default.after)?,
            follows: flag(value, "follow")?,
            exit,
            on_loss: value.get("on_loss").map_or(Ok(default.on_loss), |code| integer(code, "on_loss"))?,
            run: seconds_or_never(value, "run", default.run)?,
        })
    }

    /// Reads `submitter` of a plan; a container of which nothing is said follows the program.
    pub(super) fn parse_sidecar(value: &Value) -> Read<Self> {
        const KEYS: [&str; 5] = ["exit", "follow", "on_loss", "run", "submit"];
        let Some(value) = value.get("submitter").filter(|submitter| !submitter.is_null()) else {
            return Ok(Self::following());
        };
        let Some(map) = value.as_object() else { return Err("`submitter` is a mapping".to_owned()) };
        if let Some(key) = map.keys().find(|key| !KEYS.contains(key)) {
            return Err(format!("unknown key `{key}` of `submitter`"));
        }
        Self::parse(value)
    }

    /// Returns what a container does that submits the program and follows it to its end.
    #[must_use]
    pub(crate) fn following() -> Self {
        Self { follows: true, ..Self::default() }
    }
}

impl DashboardEvent {
    pub(super) fn parse(value: &Value) -> Read<Self> {
        match value.as_str() {
            Some("down") => Ok(Self::Down),
            Some("up") => Ok(Self::Up),
            Some("forget") => Ok(Self::Forget),
            Some("stop") => Ok(Self::Stop),
            _ => Err("`dashboard` is `down`, `up`, `forget` or `stop`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;
    use crate::text::value::json;

    #[test]
    fn the_first_rule_that_names_a_program_is_its_plan() {
        let script = Script::parse(&json!([
            {"program": 0, "run": 5, "end": "FAILED"},
            {"program": [0, null], "run": null},
        ]));
        let rules = script.unwrap().programs;
        let plans = [0, 1].map(|number| program_plan(&rules, number).unwrap());
        assert_eq!(plans.each_ref().map(|plan| plan.run), [Some(Time::from_seconds(5)), None]);
        assert_eq!(plans.map(|plan| plan.end), [ProgramState::Failed, ProgramState::Succeeded]);
    }

    #[test]
    fn a_wrong_program_is_refused() {
        for (item, expected) in [
            (json!({"program": "x"}), "`program` is a number"),
            (json!({"program": 0, "end": "LOST"}), "`end` is"),
            (json!({"program": 0, "exit": 1}), "unknown key `exit`"),
            (json!({"submitter": 3}), "`submitter` is a mapping"),
            (json!({"submitter": {"index": 3}}), "unknown key `index`"),
            (json!({"at": 3, "dashboard": "on"}), "`dashboard` is"),
        ] {
            let error = Script::parse(&json!([item])).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
