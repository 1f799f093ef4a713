//! `jobgate review`: one AdmissionReview in, its answer out. The code of the webhook without a network, to
//! debug an answer.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use jiff::civil::Date;

use super::{Exit, facts, policy_named, today};
use crate::admission::{self, Endpoint, Pass, Subject};
use crate::cli::args::Review;
use crate::judge::facts::{Fact, Facts};
use crate::judge::policy::Policy;
use crate::local::lint::{self, MAX_FILE_SIZE, Options, STDIN};
use crate::report::{ObjectId, Reason, Unjudged, clean};
use crate::text::value::Value;

/// Runs the command: reads the arguments' files, then calls [`run`].
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
    // The answer is exactly the webhook's; what it could not judge is reported separately.
    for unjudged in not_judged(&body, &facts) {
        let (message, help) = (unjudged.message(), unjudged.help());
        let help = if help.is_empty() { String::new() } else { format!("; {help}") };
        writeln!(io::stderr(), "jobgate: not judged: {}", clean(&format!("{message}{help}")))?;
    }
    Ok(Exit::Clean)
}

/// Returns what was not judged in a review: an object of another kind, and unknown claims that could cause a
/// denial.
fn not_judged(body: &[u8], facts: &dyn Facts) -> Vec<Unjudged> {
    let Ok(review) = admission::Review::read(body) else { return Vec::new() };
    let unjudged = |reason: Reason| {
        let head = &review.head;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let object = ObjectId {
            api_version: head.group.to_string(),
            kind: head.kind.to_string(),
            namespace: some(&head.namespace),
            name: some(&head.name),
        };
        Unjudged { location: None, document: None, object: Some(Arc::new(object)), reason }
    };
    match &review.subject {
        Subject::Pass(Pass::Kind) => vec![unjudged(Reason::Kind)],
        Subject::Object(_) => {
            let unknown = review
                .claims
                .iter()
                .filter(|claim| claim.shared && facts.claim(&claim.namespace, &claim.name) == Fact::Unknown);
            unknown.map(|claim| unjudged(Reason::Claim(claim.name.as_str().into()))).collect()
        }
        _ => Vec::new(),
    }
}

/// Answers the review in `body` and writes the answer to `out`, indented.
///
/// # Errors
/// The body is not a valid AdmissionReview, or `out` cannot be written.
pub fn run(
    body: &[u8],
    endpoint: Endpoint,
    policy: &Policy,
    facts: &dyn Facts,
    today: Option<Date>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let answer = admission::answer(endpoint, policy, facts, body, today);
    if answer.status != 200 {
        bail!("{}", String::from_utf8_lossy(&answer.body).trim_end());
    }
    let response: Value = serde_json::from_slice(&answer.body).context("read the answer back")?;
    serde_json::to_writer_pretty(&mut *out, &response)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(out))
        .context("write the answer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::facts::NoFacts;

    fn review(body: &[u8]) -> anyhow::Result<String> {
        let policy = Policy::builtin("default").context("the default policy")?;
        let mut out = Vec::new();
        run(body, Endpoint::Mutate, &policy, &NoFacts, None, &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn prints_the_answer_indented() {
        let answer = review(br#"{"kind":"AdmissionReview","request":{"uid":"u","operation":"DELETE"}}"#)
            .expect("an answer");
        assert!(answer.contains("\n    \"allowed\": true") && answer.ends_with("}\n"), "{answer}");
    }

    #[test]
    fn says_what_is_wrong_with_a_body_that_cannot_be_answered() {
        let error = review(b"{}").expect_err("no review").to_string();
        assert_eq!(error, "read the AdmissionReview: `kind` is not `AdmissionReview`");
    }
}
