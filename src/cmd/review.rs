//! `jobgate review`: one AdmissionReview in, its answer out. The webhook's own code without a network, to see why it said what it said.

use std::io::{self, Write};

use anyhow::{Context as _, bail};
use jiff::civil::Date;

use super::{Exit, facts, policy_named, today};
use crate::admission::{self, Endpoint};
use crate::cli::Review;
use crate::facts::Facts;
use crate::lint::{self, MAX_FILE_SIZE, Options, STDIN};
use crate::policy::Policy;
use crate::value::Value;

/// Runs the command: reads what its arguments name, then does what [`run`] does.
///
/// # Errors
/// The policy, the facts or the review cannot be read, and those of [`run`].
pub fn command(args: &Review, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let policy = policy_named(&args.policy)?;
    let facts = facts(&args.facts, &Options::default())?;
    let body = if args.file.as_os_str() == STDIN {
        lint::stdin(MAX_FILE_SIZE).context("read standard input")?
    } else {
        std::fs::read(&args.file).with_context(|| format!("read {}", args.file.display()))?
    };
    run(&body, args.endpoint.into(), &policy, &facts, Some(today()), out)?;
    Ok(Exit::Clean)
}

/// Answers the review in `body` and writes the answer to `out`, indented.
///
/// # Errors
/// The body is no AdmissionReview that could be answered, or `out` cannot be written.
pub fn run(body: &[u8], endpoint: Endpoint, policy: &Policy, facts: &dyn Facts, today: Option<Date>, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = admission::answer(endpoint, policy, facts, body, today);
    if answer.status != 200 {
        bail!("{}", String::from_utf8_lossy(&answer.body).trim_end());
    }
    let response: Value = serde_json::from_slice(&answer.body).context("read the answer back")?;
    serde_json::to_writer_pretty(&mut *out, &response).map_err(io::Error::from).and_then(|()| writeln!(out)).context("write the answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NoFacts;

    fn review(body: &[u8]) -> anyhow::Result<String> {
        let policy = Policy::builtin("default").context("the default policy")?;
        let mut out = Vec::new();
        run(body, Endpoint::Mutate, &policy, &NoFacts, None, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn prints_the_answer_indented() {
        let answer = review(br#"{"kind":"AdmissionReview","request":{"uid":"u","operation":"DELETE"}}"#).expect("an answer");
        assert!(answer.contains("\n    \"allowed\": true") && answer.ends_with("}\n"), "{answer}");
    }

    #[test]
    fn says_what_is_wrong_with_a_body_that_cannot_be_answered() {
        let error = review(b"{}").expect_err("no review").to_string();
        assert_eq!(error, "read the AdmissionReview: `kind` is not `AdmissionReview`");
    }
}
