//! `jobgate review`: AdmissionReviews in, their answers out. The code of the webhook without a network, to
//! debug an answer. With `--from`, manifests in and their AdmissionReviews out.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use jiff::civil::Date;
use serde_json::value::RawValue;

use super::stderr::say;
use super::{Exit, facts, policy_named, today};
use crate::admission::{self, Endpoint, Pass, Subject};
use crate::cli::args::Review;
use crate::judge::facts::{Fact, Facts};
use crate::judge::policy::Policy;
use crate::judge::rule::Needs;
use crate::local::files;
use crate::local::lint::{self, Claims, FactsError, MAX_FILE_SIZE, Options, STDIN, path_text};
use crate::local::reviews::{Sent, reviews};
use crate::report::{ObjectId, Reason, Unjudged, clean};
use crate::text::value::Value;

/// Runs the command: reads the arguments' files, then calls [`run`].
///
/// # Errors
/// The policy, the facts or the review cannot be read, and those of [`run`].
pub fn command(args: &Review, out: &mut dyn Write) -> anyhow::Result<Exit> {
    if let Some(from) = &args.from {
        return make(from, args, out);
    }
    let policy = policy_named(&args.policy)?;
    let facts = facts(&args.facts, None, &Options::default())?;
    let body = if args.file.as_os_str() == STDIN {
        say_what_is_read(AWAITED)?;
        lint::stdin(MAX_FILE_SIZE).context("read standard input")?
    } else {
        files::named(&args.file, MAX_FILE_SIZE).with_context(|| format!("read {}", path_text(&args.file)))?
    };
    for body in apart(&body) {
        answer(body, args.endpoint.into(), &policy, &facts, out)?;
    }
    Ok(Exit::Clean)
}

/// A hint for a person who may not know what the program waits for.
const AWAITED: &str = "an AdmissionReview from standard input; `jobgate review --from job.yaml` makes one";

/// Announces what is read from standard input, if it is a terminal.
fn say_what_is_read(what: &str) -> io::Result<()> {
    if io::stdin().is_terminal() { say(&format!("reading {what}")) } else { Ok(()) }
}

/// Splits a text into reviews: JSON values one after the other. Anything else is one review, so that the webhook
/// reports what is wrong with it.
fn apart(body: &[u8]) -> Vec<&[u8]> {
    let values: Result<Vec<&RawValue>, _> = serde_json::Deserializer::from_slice(body).into_iter().collect();
    match values {
        Ok(values) if values.len() > 1 => values.into_iter().map(|value| value.get().as_bytes()).collect(),
        _ => vec![body],
    }
}

/// Writes the reviews that an API server sends for the manifests of a file, one per line.
fn make(from: &Path, args: &Review, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let namespace = args.namespace.as_deref().unwrap_or("default");
    let options = Options { namespace, ..Options::default() };
    let drained = |path: &Path| lint::drained(path, MAX_FILE_SIZE);
    if from.as_os_str() == STDIN {
        say_what_is_read("manifests from standard input")?;
    }
    let old = lint::collect(&args.old, drained);
    if let Some(error) = old.unreadable.into_iter().next() {
        return Err(error).context("read the objects that exist");
    }
    let old = lint::against_in(&old.files, &options).context("read the objects that exist")?;
    let files = lint::collect(&[from.to_owned()], drained);
    if let Some(error) = files.unreadable.into_iter().next() {
        return Err(error.into());
    }
    let mut written = 0;
    for input in &files.files {
        let sent = reviews(input, &old, &options).map_err(|error| match error {
            FactsError::Syntax { path, line, source } if path == STDIN => {
                anyhow!("standard input, line {line}: {source}")
            }
            FactsError::Syntax { path, line, source } => anyhow!("{}:{line}: {source}", clean(&path)),
            FactsError::TooLarge { path, limit } => {
                anyhow!("{}: larger than the limit of {limit}", clean(&path))
            }
            FactsError::Unreadable(error) => error.into(),
        })?;
        for Sent { object, review } in sent {
            match review {
                Some(review) => {
                    writeln!(out, "{review}")?;
                    written += 1;
                }
                None => say(&format!(
                    "no review of {object}: Jobgate does not judge the kind, so the API server does not ask"
                ))?,
            }
        }
    }
    if written == 0 {
        bail!("no object of a kind that Jobgate judges in {}", clean(&path_text(from)));
    }
    Ok(Exit::Clean)
}

/// Answers one review and reports what was not judged.
fn answer(
    body: &[u8],
    endpoint: Endpoint,
    policy: &Policy,
    facts: &Claims,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    run(body, endpoint, policy, facts, Some(today()), out)?;
    // The answer is exactly the webhook's; what it could not judge is reported separately.
    for unjudged in not_judged(body, facts) {
        let (message, help) = (unjudged.message(), unjudged.help());
        let help = if help.is_empty() { String::new() } else { format!("; {help}") };
        say(&format!("not judged: {message}{help}"))?;
    }
    Ok(())
}

/// Returns what was not judged in a review: an object of another kind, and unknown claims that could cause a
/// denial.
fn not_judged(body: &[u8], facts: &dyn Facts) -> Vec<Unjudged> {
    let Ok(review) = admission::Review::read(body, Needs::CLAIMS | Needs::RUNTIMES | Needs::MANAGERS) else {
        return Vec::new();
    };
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
pub(crate) fn run(
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
        let policy = crate::policies::builtin("default").context("the default policy")?;
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
    fn reviews_one_after_the_other_are_taken_apart() {
        for (body, count) in [
            ("{\"a\":1}\n{\"b\":[{}]}\n", 2),
            ("{\n \"a\": 1\n}\n\n{}\n{}", 3),
            ("{\"a\":1}", 1),
            // What is wrong is for the webhook to say.
            ("{\"a\":1}\n{\"b\":", 1),
            ("{} x", 1),
            ("", 1),
        ] {
            assert_eq!(apart(body.as_bytes()).len(), count, "{body}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_a_body_that_cannot_be_answered() {
        let error = review(b"{}").expect_err("no review").to_string();
        assert_eq!(error, "read the AdmissionReview: `kind` is not `AdmissionReview`");
    }
}
