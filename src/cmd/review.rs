//! `jobgate review`: one AdmissionReview in, its answer out. The webhook's own code without a network, to see why it said what it said.

use std::io::{self, Write};

use anyhow::{Context as _, bail};
use jiff::civil::Date;

use crate::admission::{self, Endpoint};
use crate::facts::Facts;
use crate::policy::Policy;

/// Answers the review in `body` and writes the answer to `out`, indented.
///
/// # Errors
/// The body is no AdmissionReview that could be answered, or `out` cannot be written.
pub fn run(body: &[u8], endpoint: Endpoint, policy: &Policy, facts: &dyn Facts, today: Option<Date>, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = admission::answer(endpoint, policy, facts, body, today);
    if answer.status != 200 {
        bail!("{}", String::from_utf8_lossy(&answer.body).trim_end());
    }
    let response: serde_json::Value = serde_json::from_slice(&answer.body).context("read the answer back")?;
    serde_json::to_writer_pretty(&mut *out, &response).map_err(io::Error::from).and_then(|()| writeln!(out)).context("write the answer")
}
