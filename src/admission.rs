//! One AdmissionReview in, its answer out: the webhook without the server. Pure, as the engine is.
//!
//! ```text
//! body ──> Review ──> claims_needed ──> (the adapter looks them up) ──> judge ──> Answer
//!            │                                                            │
//!            └─ malformed: 400, or a well-formed answer to its uid        ├─ engine: findings and operations
//!                                                                         └─ check: the patch fits, or is not sent
//! ```
//!
//! The two endpoints do not trust one another. `/mutate` fills values in and denies only what the API server would refuse before `/validate` is
//! asked; `/validate` judges the object as it came out of all mutating webhooks. Warnings are `/validate`'s too: others may still mend what
//! `/mutate` sees.
//!
//! No answer may break a request that would have passed without us, other than a deliberate denial: whatever goes wrong here is a [`Fault`],
//! which is counted, and the request is allowed.

mod check;
mod respond;
mod review;

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;

pub use check::Doubt;
pub use respond::{LONGEST_LINE, LONGEST_WARNING, MOST_FINDINGS, MOST_WARNINGS};
pub use review::{Change, Head, Malformed, Review, Subject, Version};

use crate::engine::{self, Origin, Request, Skipped, Verdict};
use crate::facts::Facts;
use crate::finding::{Finding, Level};
use crate::policy::{Action, Policy};
use crate::rules::RULES;
use crate::workload::Kind;
use respond::Reply;

/// The rule whose denials `/mutate` makes already, with all others: the API server refuses such a Job or CronJob between the two calls, and its
/// author would learn of the rest only at the next attempt (kubernetes.md §0.6).
const REFUSED_BETWEEN_THE_CALLS: &str = "restart-policy";

/// Which of the two webhooks is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// `/mutate`: fills values in.
    Mutate,
    /// `/validate`: refuses. Never sends a patch.
    Validate,
}

impl Endpoint {
    /// Returns the word in paths, metrics and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// Why a request is none of Jobgate's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// DELETE, CONNECT, or an operation of the future.
    Operation,
    /// `status`, `scale`, or another subresource.
    Subresource,
    /// A kind that is not judged.
    Kind,
}

/// Something that went wrong on our side, or on the way. The request is allowed and the fault is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The body is no AdmissionReview, but has a `uid` to answer.
    Malformed,
    /// `object`, or `oldObject` of an UPDATE, is missing.
    ObjectMissing,
    /// `object` or `oldObject` cannot be read.
    ObjectUnreadable,
    /// The object is of another kind than the request says.
    KindMismatch,
    /// A patch was made and does not fit.
    Patch(Doubt),
    /// A rule panicked.
    Panic,
    /// The answer was not ready in time.
    Deadline,
}

impl Fault {
    /// Returns a word for metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::ObjectMissing => "object_missing",
            Self::ObjectUnreadable => "object_unreadable",
            Self::KindMismatch => "kind_mismatch",
            Self::Patch(doubt) => doubt.as_str(),
            Self::Panic => "panic",
            Self::Deadline => "deadline",
        }
    }

    /// Returns what the user is told. One warning, and not an error: the object is admitted.
    fn warning(self) -> &'static str {
        match self {
            Self::Malformed => "jobgate could not read the review and let the object pass unchecked",
            Self::ObjectMissing | Self::ObjectUnreadable => "jobgate could not read the object and let it pass unchecked",
            Self::KindMismatch => "jobgate was sent an object of another kind than announced and let it pass unchecked",
            Self::Patch(_) => "jobgate could not fill defaults into this object safely and left it as it is",
            Self::Panic => "jobgate failed while it checked the object and let it pass unchecked",
            Self::Deadline => "jobgate could not check the object in time and let it pass unchecked",
        }
    }
}

/// How a request was answered, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Admitted as it is.
    Allowed,
    /// Admitted with a patch.
    Patched,
    /// Refused.
    Denied,
    /// Not judged; admitted.
    Passed,
    /// Answered with HTTP 400.
    Rejected,
}

impl Outcome {
    /// Returns a word for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Patched => "patched",
            Self::Denied => "denied",
            Self::Passed => "passed",
            Self::Rejected => "rejected",
        }
    }
}

/// What is worth a line in a log and a count in a metric. Nothing of it is the object's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Which webhook was called.
    pub endpoint: Endpoint,
    /// The request's uid; empty where none was readable.
    pub uid: String,
    /// The operation as sent.
    pub operation: String,
    /// The kind, where it is one that is judged.
    pub kind: Option<Kind>,
    /// The namespace.
    pub namespace: String,
    /// The name; empty where it is yet to be generated.
    pub name: String,
    /// The user who asks.
    pub user: String,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// How it was answered.
    pub outcome: Outcome,
    /// Rule ids and levels of the findings, in the verdict's order.
    pub findings: Vec<(&'static str, Level)>,
    /// How many findings were lifted by exemptions and annotations.
    pub lifted: usize,
    /// How many operations the patch has.
    pub patch_ops: usize,
    /// Why the request was not looked at, if it was not.
    pub pass: Option<Pass>,
    /// Why the object was not judged, if it was not.
    pub skipped: Option<Skipped>,
    /// What went wrong, if something did.
    pub fault: Option<Fault>,
}

/// An answer to an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status: 200, or 400 where there was nobody to answer.
    pub status: u16,
    /// The body: an AdmissionReview in JSON, or one line of text under 400.
    pub body: Vec<u8>,
    /// What to log and count.
    pub meta: Meta,
}

/// Answers one review. Facts are to be at hand already: see [`claims_needed`].
#[must_use]
pub fn answer(endpoint: Endpoint, policy: &Policy, facts: &dyn Facts, body: &[u8], today: Option<Date>) -> Answer {
    match Review::read(body) {
        Ok(review) => judge(endpoint, policy, facts, &review, today),
        Err(malformed) => reject(endpoint, &malformed),
    }
}

/// Returns the claims whose access modes a judgement may ask for, as (namespace, name), sorted, at most 64.
#[must_use]
pub fn claims_needed(review: &Review<'_>) -> Vec<(String, String)> {
    review.claims_needed()
}

/// Answers a review that was read already.
#[must_use]
pub fn judge(endpoint: Endpoint, policy: &Policy, facts: &dyn Facts, review: &Review<'_>, today: Option<Date>) -> Answer {
    let head = &review.head;
    let mut meta = Meta::of(endpoint, head);
    let change = match &review.subject {
        Subject::Object(change) => change,
        Subject::Pass(pass) => {
            meta.pass = Some(*pass);
            return finish(head, Reply::default(), meta);
        }
        Subject::Fault(fault) => return allow(endpoint, head, *fault),
        Subject::TooDeep => return too_deep(endpoint, policy, head),
    };
    let request = Request {
        operation: change.operation,
        origin: Origin::Admission,
        object: &change.object,
        old: change.old.as_ref(),
        namespace: &head.namespace,
        user: Some(&*head.user).filter(|user| !user.is_empty()),
        today,
    };
    let verdict = engine::evaluate(policy, facts, &request);
    let mut reply = Reply { audit: audit(policy, &verdict), ..Reply::default() };
    let denied = match endpoint {
        Endpoint::Validate => verdict.level() == Some(Level::Deny),
        Endpoint::Mutate => change.kind != Kind::PyTorchJob && refused_between(&verdict.findings),
    };
    if denied {
        reply.denial = Some(respond::denial(&verdict.findings));
    } else if endpoint == Endpoint::Validate {
        reply.warnings = respond::warnings(&verdict.findings);
    } else {
        match check::checked_patch(policy, facts, &request, &verdict) {
            Ok(ops) => reply.patch = ops,
            Err(doubt) => meta.fault = Some(Fault::Patch(doubt)),
        }
    }
    meta.findings = verdict.findings.iter().map(|finding| (finding.rule, finding.level)).collect();
    meta.lifted = verdict.lifted.len();
    meta.skipped = verdict.skipped;
    finish(head, reply, meta)
}

/// Tells whether the API server refuses the object before `/validate` would be asked.
fn refused_between(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::Deny && finding.rule == REFUSED_BETWEEN_THE_CALLS)
}

/// Answers a review of which only the beginning was read, because it is larger than the server takes: a denial, not HTTP 413, which a webhook that
/// fails open would turn into an admission (reliability.md F9). `limit` is in MiB, for the message.
#[must_use]
pub fn refuse_oversized(endpoint: Endpoint, prefix: &[u8], limit: usize) -> Answer {
    let head = review::head_of_prefix(prefix);
    let meta = Meta::of(endpoint, &head);
    if head.uid.is_empty() {
        return Answer {
            status: 413,
            body: format!("the review is larger than {limit} MiB\n").into_bytes(),
            meta: Meta { outcome: Outcome::Rejected, ..meta },
        };
    }
    let message = format!("1 problem:\nsize: the review of this object is larger than {limit} MiB and was not read; make the object smaller");
    finish(&head, Reply { denial: Some(message), ..Reply::default() }, meta)
}

/// Allows the request of a body with one warning: for a server whose worker panicked, or whose deadline is near.
#[must_use]
pub fn fail_open(endpoint: Endpoint, body: &[u8], fault: Fault) -> Answer {
    let head = review::head_of_prefix(body);
    if head.uid.is_empty() {
        return reject(endpoint, &Malformed { reason: "`request.uid` is missing".to_owned(), head });
    }
    allow(endpoint, &head, fault)
}

/// Allows a request that could not be judged.
fn allow(endpoint: Endpoint, head: &Head<'_>, fault: Fault) -> Answer {
    finish(head, Reply::default(), Meta { fault: Some(fault), ..Meta::of(endpoint, head) })
}

/// Answers a body that is no review: by its uid, where it has one.
fn reject(endpoint: Endpoint, malformed: &Malformed<'_>) -> Answer {
    if !malformed.head.uid.is_empty() {
        return allow(endpoint, &malformed.head, Fault::Malformed);
    }
    let meta = Meta { outcome: Outcome::Rejected, fault: Some(Fault::Malformed), ..Meta::of(endpoint, &malformed.head) };
    Answer { status: 400, body: format!("{}\n", respond::one_line(&malformed.to_string())).into_bytes(), meta }
}

/// Answers for an object nested beyond what is read. `/validate` refuses it, where the policy refuses anything; `/mutate` leaves it alone.
fn too_deep(endpoint: Endpoint, policy: &Policy, head: &Head<'_>) -> Answer {
    let denies = RULES
        .iter()
        .any(|entry| policy.rules().get(entry.rule.id).and_then(|settings| settings.action).unwrap_or(entry.rule.default) == Action::Deny);
    if endpoint == Endpoint::Mutate || !denies {
        return allow(endpoint, head, Fault::ObjectUnreadable);
    }
    let message = "1 problem:\ndepth: the object is nested deeper than 128 levels and was not read; make it flatter".to_owned();
    finish(head, Reply { denial: Some(message), ..Reply::default() }, Meta::of(endpoint, head))
}

/// Makes the answer of a decision.
fn finish(head: &Head<'_>, mut reply: Reply, mut meta: Meta) -> Answer {
    if let Some(fault) = meta.fault {
        reply.warnings.insert(0, fault.warning().to_owned());
        reply.audit.insert("fault", fault.as_str().to_owned());
    }
    meta.outcome = match (&reply.denial, meta.pass, meta.skipped) {
        (Some(_), ..) => Outcome::Denied,
        (None, None, None) if reply.patch.is_empty() => Outcome::Allowed,
        (None, None, None) => Outcome::Patched,
        _ => Outcome::Passed,
    };
    meta.patch_ops = reply.patch.len();
    // A webhook may be called twice for one request, and the API server drops an annotation that changes between the calls: so `verdict` does not
    // tell a patch from none.
    reply.audit.insert("verdict", if reply.denial.is_some() { "denied" } else { "allowed" }.to_owned());
    if !reply.patch.is_empty() {
        let places: Vec<String> = reply.patch.iter().map(|op| op.pointer().to_json_pointer()).collect();
        reply.audit.insert("patch", respond::annotation(&places.join(" ")));
    }
    Answer { status: 200, body: respond::body(head, &reply), meta }
}

/// Returns the audit annotations of a verdict.
fn audit(policy: &Policy, verdict: &Verdict) -> BTreeMap<&'static str, String> {
    let mut audit = BTreeMap::new();
    let mut rules: BTreeMap<&str, Level> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.level > Level::Note) {
        let level = rules.entry(finding.rule).or_insert(finding.level);
        *level = finding.level.max(*level);
    }
    let join = |rules: &mut dyn Iterator<Item = String>| rules.collect::<Vec<_>>().join(",");
    if !rules.is_empty() {
        audit.insert("rules", join(&mut rules.iter().map(|(rule, level)| format!("{rule}={}", level.as_str()))));
    }
    let lifted: BTreeSet<&str> = verdict.lifted.iter().map(|lifted| lifted.finding.rule).collect();
    if !lifted.is_empty() {
        audit.insert("lifted", join(&mut lifted.iter().map(|rule| (*rule).to_owned())));
    }
    if let Some(skipped) = verdict.skipped {
        audit.insert("skipped", skipped.as_str().to_owned());
    }
    if !policy.hash.is_empty() {
        audit.insert("policy", respond::annotation(&policy.hash));
    }
    audit
}

impl Meta {
    fn of(endpoint: Endpoint, head: &Head<'_>) -> Self {
        Self {
            endpoint,
            uid: head.uid.to_string(),
            operation: head.operation.to_string(),
            kind: Kind::named(&head.group, &head.kind),
            namespace: head.namespace.to_string(),
            name: head.name.to_string(),
            user: head.user.to_string(),
            dry_run: head.dry_run,
            outcome: Outcome::Allowed,
            findings: Vec::new(),
            lifted: 0,
            patch_ops: 0,
            pass: None,
            skipped: None,
            fault: None,
        }
    }
}
