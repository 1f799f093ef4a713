//! Arguments that take a name or something else: any text is accepted, and completions offer the names.

use clap::Command;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;

use crate::cli::topics::TOPICS;
use crate::judge::rules::RuleSet;
use crate::judge::selection;
use crate::policies::BUILTINS;

/// Accepts any text, and offers names for completion.
#[derive(Clone)]
pub(super) struct NameParser(fn() -> Vec<&'static str>);

/// Reads a policy: a file, or the name of a built-in one.
pub(super) fn policies() -> NameParser {
    NameParser(|| BUILTINS.iter().map(|builtin| builtin.name).collect())
}

/// Reads the id of a rule or check, or a glob.
pub(super) fn rules_and_checks() -> NameParser {
    NameParser(|| ids().collect())
}

/// Reads the name of a manual page.
pub(super) fn page_names() -> NameParser {
    NameParser(|| page_ids().collect())
}

/// Returns the names of all manual pages.
pub(crate) fn page_ids() -> impl Iterator<Item = &'static str> {
    ids().chain(TOPICS.iter().map(|topic| topic.id))
}

/// Returns the ids of the built-in rules, and of the checks.
fn ids() -> impl Iterator<Item = &'static str> {
    let ids: Vec<_> = selection::ids(&RuleSet::built_in()).collect();
    ids.into_iter().filter_map(|id| id.as_static())
}

impl TypedValueParser for NameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
