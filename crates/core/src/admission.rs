//! One AdmissionReview in, its answer out: the webhook without the server. Pure, as the engine is.
//!
//! ```text
//! body ──> Review ──> its claims ──> (the adapter looks them up) ──> judge ──> Answer
//!            │                                                            │
//!            └─ malformed: 400, or a well-formed answer to its uid        ├─ engine: findings and operations
//!                                                                         └─ check: the patch fits, or is not sent
//! ```
//!
//! The two endpoints do not trust one another. `/mutate` fills values in and denies only what the API server
//! would reject before `/validate` is called; `/validate` judges the object as it came out of all mutating
//! webhooks. It also gives the warnings: other webhooks may still fix what `/mutate` sees.
//!
//! No answer may break a request that would have passed without us, other than a deliberate denial: whatever
//! goes wrong here is a [`Fault`], which is counted, and the request is allowed.

mod check;
pub mod dry_run;
mod envelope;
mod fault;
mod parent;
mod request;
mod respond;
mod review;
mod skim;
mod wanted_facts;
mod weight;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::civil::Date;

use crate::text::value::Value;

pub use check::Doubt;
pub(crate) use check::checked_patch;
pub use fault::Fault;
pub use request::request;
pub use respond::{LONGEST_LINE, LONGEST_WARNING, MOST_FINDINGS, MOST_WARNINGS};
pub use review::{Change, Head, Malformed, Review, Subject, Unreadable, Version};
pub use weight::{Estimate, estimate, weight};

use crate::judge::engine::{self, Operation, Origin, Request, Which};
use crate::judge::facts::Facts;
use crate::judge::finding::{Finding, Level};
use crate::judge::policy::Policy;
use crate::judge::rule::RuleId;
use crate::judge::rules::RuleSet;
use crate::judge::trust;
use crate::judge::verdict::{Skipped, Verdict};
use crate::kinds::Kind;
use respond::Reply;
use review::Texts;

/// The warning about an update whose old object cannot be read.
const JUDGED_AS_NEW: &str =
    "jobgate could not read the old object and judged the new one as if it were created";

/// A placeholder for an object that is not known yet.
static NOTHING: Value = Value::Null;

/// Which of the two webhooks is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// `/mutate`: fills values in.
    Mutate,
    /// `/validate`: rejects. Never sends a patch.
    Validate,
}

impl Endpoint {
    /// Both, in the order in which the API server calls them.
    pub const ALL: [Self; 2] = [Self::Mutate, Self::Validate];

    /// Returns the path that the API server posts to.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Mutate => "/mutate",
            Self::Validate => "/validate",
        }
    }

    /// Returns the word in logs, metrics and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        &self.path()[1..]
    }
}

/// Why Jobgate passes a request without judging it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pass {
    /// DELETE, CONNECT, or a future operation.
    Operation,
    /// `status`, `scale`, or another subresource.
    Subresource,
    /// A kind that is not judged.
    Kind,
}

/// How a request was answered, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Admitted without warnings.
    #[default]
    Allowed,
    /// Admitted with a patch, and perhaps warnings.
    Patched,
    /// Admitted with warnings.
    Warned,
    /// Rejected.
    Denied,
    /// Admitted with a warning because of a fault of Jobgate.
    Faulted,
    /// Malformed, or not judged because of a fault of the sender.
    Malformed,
}

impl Outcome {
    /// Returns the word in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Patched => "patched",
            Self::Warned => "warned",
            Self::Denied => "denied",
            Self::Faulted => "faulted",
            Self::Malformed => "malformed",
        }
    }
}

/// The data about an answer for logs and metrics, without content of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The request's uid; empty where none was readable.
    pub uid: String,
    /// The kind, if it is judged.
    pub kind: Option<Kind>,
    /// The namespace.
    pub namespace: String,
    /// The name; empty if it is generated.
    pub name: String,
    /// The operation, in the API's word; empty if it is not judged.
    pub operation: &'static str,
    /// The user of the request.
    pub user: String,
    /// Whether it is a dry run, which stores nothing.
    pub dry_run: bool,
    /// How it was answered.
    pub outcome: Outcome,
    /// The number of findings by rule and level: an object may have too many to list. `/mutate` counts those that it
    /// fills in, or all if it denies the object; `/validate` counts all.
    pub findings: BTreeMap<(RuleId, Level), usize>,
    /// Whether `/validate` finds something to fill in: somebody removed what `/mutate` had filled in, or `/mutate` was
    /// not called or sent no patch.
    pub is_unfilled: bool,
    /// How many warnings were sent.
    pub warnings: usize,
    /// How many operations the patch has.
    pub patch_ops: usize,
    /// Why the object was not judged, if it was not.
    pub skipped: Option<Skipped>,
    /// What went wrong, if something did.
    pub fault: Option<Fault>,
}

/// An answer to an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status: 200, or 400 without a readable uid.
    pub status: u16,
    /// The body: an AdmissionReview in JSON, or one line of text under 400.
    pub body: Vec<u8>,
    /// What to log and count.
    pub meta: Meta,
}

/// Answers one review. Facts must have been looked up before: see [`Review::claims`].
#[must_use]
pub fn answer(
    endpoint: Endpoint,
    policy: &Policy,
    facts: &dyn Facts,
    body: &[u8],
    today: Option<Date>,
) -> Answer {
    match Review::read(body, policy.needs()) {
        Ok(review) => judge(endpoint, policy, facts, review, today),
        Err(malformed) => reject(&malformed),
    }
}

/// Answers a review that has already been read.
#[must_use]
pub fn judge(
    endpoint: Endpoint,
    policy: &Policy,
    facts: &dyn Facts,
    review: Review<'_>,
    today: Option<Date>,
) -> Answer {
    let Review { head, subject, .. } = review;
    let head = &head;
    let mut meta = Meta::new(head);
    let change = match subject {
        Subject::Object(change) => change,
        Subject::Pass(pass) => {
            let warnings = respond::not_judged(endpoint, head, pass).into_iter().collect();
            return finish(head, Reply { warnings, ..Reply::default() }, meta);
        }
        Subject::Fault(fault) => return allow(head, fault),
        Subject::SameSpec => return keep_spec(policy, head),
        Subject::Unread(unreadable) => return unread(endpoint, policy, head, unreadable.problem()),
    };
    let Change { operation, kind, object, old, same_spec, texts } = *change;
    let user = Some(&*head.user).filter(|user| !user.is_empty());
    let request = Request {
        operation,
        origin: Origin::Admission,
        object: &NOTHING,
        old: None,
        same_spec: Some(same_spec),
        namespace: &head.namespace,
        user,
        today,
    };
    let judged = |which: Which<'_>, object: &Value, old: Option<&Value>| {
        engine::evaluate_by(which, policy, facts, &Request { object, old, ..request })
    };
    let denies = |verdict: &Verdict| denies(policy.rules(), endpoint, kind, verdict);
    let Decided { verdict, is_denied, object, old } =
        decided(endpoint, (object, old), texts, &judged, &denies);
    let old = old.as_ref();
    let mut reply = Reply { audit: respond::audit(policy, &verdict), ..Reply::default() };
    if is_denied {
        let advice = trust::advice(policy, &object, &head.user);
        reply.denial = Some(respond::denial(&verdict.findings, advice.as_deref()));
    } else if endpoint == Endpoint::Validate {
        reply.warnings = respond::warnings(&verdict.findings);
        let caveat = match verdict.skipped {
            None => facts.caveat(),
            Some(Skipped::TrustedUnseen) => facts.caveat().or(Some(parent::UNSEEN)),
            Some(_) => None,
        };
        reply.warnings.extend(caveat.map(respond::shorten));
    } else if operation == Operation::Update && old.is_none() {
        // What a patch may change depends on the old object.
    } else {
        let again = |which: Which<'_>, object: &Value| {
            let request = Request { object, old, same_spec: None, ..request };
            engine::evaluate_by(which, policy, facts, &request)
        };
        match checked_patch(object, &verdict, policy.rules(), again) {
            Ok(ops) => {
                reply.warnings.extend(
                    respond::filled_in(&verdict.findings).filter(|_| policy.report_fills && !ops.is_empty()),
                );
                reply.warnings.extend(respond::put_back(&verdict.restore).filter(|_| !ops.is_empty()));
                reply.patch = ops;
            }
            Err(doubt) => meta.fault = Some(Fault::Patch(doubt)),
        }
    }
    let is_unread = operation == Operation::Update && old.is_none() && verdict.skipped.is_none();
    if endpoint == Endpoint::Validate && is_unread {
        reply.warnings.insert(0, JUDGED_AS_NEW.to_owned());
    }
    meta.count(endpoint, is_denied, &verdict);
    finish(head, reply, meta)
}

/// The decision about an object, and the objects that it is based on.
struct Decided {
    verdict: Verdict,
    is_denied: bool,
    object: Value,
    old: Option<Value>,
}

/// Runs the rules that an endpoint needs.
fn decided(
    endpoint: Endpoint,
    (mut object, mut old): (Value, Option<Value>),
    texts: Option<Texts<'_>>,
    judged: &dyn Fn(Which<'_>, &Value, Option<&Value>) -> Verdict,
    denies: &dyn Fn(&Verdict) -> bool,
) -> Decided {
    if endpoint == Endpoint::Validate {
        let verdict = judged(Which::Answered, &object, old.as_ref());
        return Decided { is_denied: denies(&verdict), verdict, object, old };
    }
    let mut verdict = judged(Which::Mutating, &object, old.as_ref());
    let mut is_denied = denies(&verdict);
    if !is_denied && !verdict.restore.is_empty() {
        // Skipped fields may differ, and then restoring does not undo the change. The objects are dropped
        // first: the weight of a review allows for one copy.
        (object, old) = (Value::Null, None);
        match texts.and_then(|texts| texts.whole()) {
            Some((new, before)) => {
                verdict = judged(Which::Mutating, &new, Some(&before));
                is_denied = denies(&verdict);
                (object, old) = (new, Some(before));
            }
            None => verdict.restore.clear(),
        }
    }
    if is_denied {
        // The denial lists all findings at once.
        verdict = judged(Which::All, &object, old.as_ref());
    }
    Decided { verdict, is_denied, object, old }
}

/// Tells whether a webhook denies an object for its findings.
pub(crate) fn denies(rules: &RuleSet, endpoint: Endpoint, kind: Kind, verdict: &Verdict) -> bool {
    match endpoint {
        Endpoint::Validate => verdict.level() == Some(Level::Deny),
        Endpoint::Mutate => kind.is_built_in() && refused_between(rules, &verdict.findings),
    }
}

/// Tells whether the API server rejects the object before it calls `/validate`.
fn refused_between(rules: &RuleSet, findings: &[Finding]) -> bool {
    let before = |finding: &Finding| rules.find(&finding.rule).is_some_and(|rule| rule.before_validate);
    findings.iter().any(|finding| finding.level == Level::Deny && before(finding))
}

/// Answers a review that is larger than the server accepts, from its beginning: a denial, since a webhook
/// that fails open would turn HTTP 413 into an admission (docs/internals/webhook.md#large-reviews). `limit`
/// is in bytes.
#[must_use]
pub fn refuse_oversized(prefix: &[u8], limit: usize) -> Answer {
    let head = review::head_of_prefix(prefix);
    let limit = limit >> 20;
    if head.uid.is_empty() {
        let body = format!("the review is larger than {limit} MiB\n").into_bytes();
        return Answer { status: 413, body, meta: Meta { outcome: Outcome::Malformed, ..Meta::new(&head) } };
    }
    let message = format!(
        "1 problem:\nsize: the review of this object is larger than {limit} MiB and was not read; make it smaller"
    );
    finish(&head, Reply { denial: Some(message), ..Reply::default() }, Meta::new(&head))
}

/// Answers a review that would take too much memory to parse. It is denied, where the policy can deny,
/// because admitting it would bypass every rule. An update of an unchanged spec is admitted: the object may
/// have to lose a finalizer. One that changes the spec is not, even if it makes the object lighter: an object
/// that was judged at its creation may be too heavy only together with what replaces it.
#[must_use]
pub fn refuse_heavy(endpoint: Endpoint, policy: &Policy, body: &[u8]) -> Answer {
    // Any bytes are accepted, as when a review is read.
    let text = envelope::legible(body);
    let body = &*text;
    let head = review::head_of_prefix(body);
    if head.uid.is_empty() {
        return reject(&Malformed { reason: "`request.uid` is missing".to_owned(), head: Box::new(head) });
    }
    match review::concern(&head) {
        Err(_) => finish(&head, Reply::default(), Meta::new(&head)),
        Ok((Operation::Update, _)) if review::keeps_spec(body) => keep_spec(policy, &head),
        Ok((operation, _)) => unread(endpoint, policy, &head, too_heavy(operation)),
    }
}

/// How many bytes of a body are searched for its head first: the API server writes it before the objects.
const HEAD_BYTES: usize = 16 << 10;

/// Allows a request with one warning, for a server whose worker panicked or whose deadline is near.
#[must_use]
pub fn fail_open(body: &[u8], fault: Fault) -> Answer {
    let head = review::head_of_prefix(&body[..body.len().min(HEAD_BYTES)]);
    let head = if head.uid.is_empty() { review::head_of_prefix(body) } else { head };
    if head.uid.is_empty() {
        return reject(&Malformed { reason: "`request.uid` is missing".to_owned(), head: Box::new(head) });
    }
    allow(&head, fault)
}

/// Allows a request that could not be judged.
fn allow(head: &Head<'_>, fault: Fault) -> Answer {
    finish(head, Reply::default(), Meta { fault: Some(fault), ..Meta::new(head) })
}

/// Answers a body that is not a review, by its uid if it has one.
fn reject(malformed: &Malformed<'_>) -> Answer {
    if !malformed.head.uid.is_empty() {
        return allow(&malformed.head, Fault::Malformed);
    }
    let meta =
        Meta { outcome: Outcome::Malformed, fault: Some(Fault::Malformed), ..Meta::new(&malformed.head) };
    Answer {
        status: 400,
        body: format!("{}\n", respond::one_line(&malformed.to_string())).into_bytes(),
        meta,
    }
}

/// Returns the problem of an object that is too heavy.
fn too_heavy(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "size: the object has too many parts and was not read; make it smaller",
        Operation::Update => {
            "size: the object has too many parts, old and new, and was not read; make it smaller or create it anew"
        }
    }
}

/// Admits an update of an object that is not read, and whose spec does not change.
fn keep_spec(policy: &Policy, head: &Head<'_>) -> Answer {
    let skipped = Some(Skipped::SameSpec);
    let audit = respond::audit(policy, &Verdict { skipped, ..Verdict::default() });
    finish(head, Reply { audit, ..Reply::default() }, Meta { skipped, ..Meta::new(head) })
}

/// Answers for an object that is beyond a limit and was not read: `/validate` denies it, or warns if the policy
/// denies nothing, as with any other problem.
fn unread(endpoint: Endpoint, policy: &Policy, head: &Head<'_>, problem: &str) -> Answer {
    let mut reply = Reply::default();
    match endpoint {
        Endpoint::Mutate => {}
        Endpoint::Validate if policy.can_deny() => reply.denial = Some(format!("1 problem:\n{problem}")),
        Endpoint::Validate => reply.warnings.push(respond::shorten(problem)),
    }
    finish(head, reply, Meta::new(head))
}

/// Builds the answer of a decision.
fn finish(head: &Head<'_>, mut reply: Reply, mut meta: Meta) -> Answer {
    if let Some(fault) = meta.fault {
        reply.warnings.insert(0, fault.warning().to_owned());
        reply.audit.insert("fault", fault.as_str().to_owned());
    }
    meta.outcome = match (&reply.denial, meta.fault) {
        (Some(_), _) => Outcome::Denied,
        (None, Some(fault)) if fault.is_ours() => Outcome::Faulted,
        (None, Some(_)) => Outcome::Malformed,
        (None, None) if !reply.patch.is_empty() => Outcome::Patched,
        (None, None) if !reply.warnings.is_empty() => Outcome::Warned,
        (None, None) => Outcome::Allowed,
    };
    meta.patch_ops = reply.patch.len();
    meta.warnings = reply.warnings.len();
    // A webhook may be called twice for one request, and the API server drops annotations that differ between
    // the calls, so `verdict` is the same with a patch and without.
    reply.audit.insert("verdict", if reply.denial.is_some() { "denied" } else { "allowed" }.to_owned());
    if !reply.patch.is_empty() {
        let places: Vec<String> = reply.patch.iter().map(|op| op.pointer().to_json_pointer()).collect();
        reply.audit.insert("patch", respond::annotation(&places.join(" ")));
    }
    Answer { status: 200, body: respond::body(head, &reply), meta }
}

impl Meta {
    /// Counts findings: for `/mutate` those that it fills in, or all if it denies; for `/validate` all.
    fn count(&mut self, endpoint: Endpoint, is_denied: bool, verdict: &Verdict) {
        let counts = |finding: &&Finding| endpoint == Endpoint::Validate || is_denied || finding.fills;
        for finding in verdict.findings.iter().filter(counts) {
            self.is_unfilled |= endpoint == Endpoint::Validate && finding.is_filled_in();
            *self.findings.entry((finding.rule.clone(), finding.level)).or_default() += 1;
        }
        self.skipped = verdict.skipped;
    }

    fn new(head: &Head<'_>) -> Self {
        Self {
            uid: head.uid.to_string(),
            kind: Kind::named(&head.group, &head.kind),
            namespace: head.namespace.to_string(),
            name: head.name.to_string(),
            operation: review::concern(head).map_or("", |(operation, _)| operation.as_str()),
            user: head.user.to_string(),
            dry_run: head.dry_run,
            ..Self::default()
        }
    }

    /// Returns the kind as the value of a metric's label: one of a short list, whatever was sent.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind.map_or("other", Kind::as_str)
    }

    /// Returns `namespace/name`, or the name where there is no namespace.
    #[must_use]
    pub fn object(&self) -> Cow<'_, str> {
        if self.namespace.is_empty() {
            (&*self.name).into()
        } else {
            format!("{}/{}", self.namespace, self.name).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::facts::{Claim, Fact, NoFacts};
    use crate::text::value::{Value, json};

    fn review(version: &str, operation: &str, user: &str, object: &Value, old: &Value) -> String {
        json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": {
            "uid": "u", "kind": {"group": "batch", "version": "v1", "kind": object["kind"]}, "operation": operation, "namespace": "n",
            "userInfo": {"username": user}, "object": object, "oldObject": old,
        }})
        .to_string()
    }

    fn job(spec: &Value) -> Value {
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {
            "podReplacementPolicy": "Failed", "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 60,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        }});
        merge(&mut job["spec"], spec);
        job
    }

    /// RFC 7396.
    fn merge(target: &mut Value, patch: &Value) {
        let (Value::Object(target), Value::Object(patch)) = (&mut *target, patch) else {
            *target = patch.clone();
            return;
        };
        for (key, value) in patch {
            if value.is_null() {
                drop(target.remove(key));
            } else {
                merge(target.get_or_insert_with(key, || Value::Null), value);
            }
        }
    }

    fn ask(endpoint: Endpoint, body: &str) -> (Answer, Value) {
        let policy = Policy::builtin("default").expect("the default policy");
        let answer = answer(endpoint, &policy, &NoFacts, body.as_bytes(), None);
        let response = serde_json::from_slice::<Value>(&answer.body)
            .map(|mut review| review["response"].take())
            .unwrap_or_default();
        (answer, response)
    }

    fn update(endpoint: Endpoint, object: &Value, old: &Value) -> (Answer, Value) {
        ask(endpoint, &review("v1", "UPDATE", "admin", object, old))
    }

    #[test]
    fn both_versions_are_answered_alike_but_for_their_name() {
        for version in ["v1", "v1beta1"] {
            let (answer, response) = ask(
                Endpoint::Validate,
                &review(
                    version,
                    "CREATE",
                    "admin",
                    &job(&json!({"activeDeadlineSeconds": null})),
                    &Value::Null,
                ),
            );
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(body["apiVersion"], format!("admission.k8s.io/{version}"));
            assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
            assert_eq!(response["auditAnnotations"]["rules"], "deadline=deny");
            assert_eq!(response["auditAnnotations"]["verdict"], "denied");
        }
    }

    #[test]
    fn a_body_without_a_uid_is_a_bad_request_and_one_with_it_is_answered() {
        let (answer, _) = ask(Endpoint::Mutate, "{\"kind\":\"x\x1b\"}");
        assert_eq!(
            (answer.status, answer.meta.outcome, answer.meta.fault),
            (400, Outcome::Malformed, Some(Fault::Malformed))
        );
        let (answer, response) = ask(Endpoint::Mutate, r#"{"kind":"AdmissionReview","request":{"uid":"u""#);
        assert_eq!(
            (answer.status, answer.meta.fault, &response["allowed"]),
            (200, Some(Fault::Malformed), &json!(true))
        );
        assert_eq!(answer.meta.outcome, Outcome::Malformed);
        assert_eq!(response["warnings"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn a_review_that_is_too_large_is_denied_by_its_first_bytes() {
        let body = review("v1", "CREATE", "admin", &job(&json!({})), &Value::Null);
        // The API server writes the uid before the object, unlike a map that is sorted by key.
        let body = body.replace("\"request\":{", "\"request\":{\"uid\":\"u\",");
        let prefix = &body.as_bytes()[..body.find("\"object\"").expect("an object")];
        let answer = refuse_oversized(prefix, 32 << 20);
        let response = &serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"];
        assert_eq!(
            (&response["uid"], &response["allowed"], answer.meta.outcome),
            (&json!("u"), &json!(false), Outcome::Denied)
        );
        assert!(response["status"]["message"].as_str().is_some_and(|text| text.contains("32 MiB")));
        assert_eq!(refuse_oversized(b"{", 32 << 20).status, 413);
    }

    #[test]
    fn a_heavy_review_is_denied_where_it_would_be_judged() {
        let audit = Policy::builtin("audit").unwrap();
        let denying = Policy::default();
        let answered = |endpoint, policy: &Policy, operation: &str| {
            let body = review("v1", operation, "admin", &job(&json!({})), &Value::Null);
            let answer = refuse_heavy(endpoint, policy, body.as_bytes());
            let response = serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"].clone();
            (
                response["allowed"] == true,
                answer.meta.fault.is_some(),
                response["status"]["message"].as_str().unwrap_or_default().contains("size:"),
            )
        };
        assert_eq!(answered(Endpoint::Validate, &denying, "CREATE"), (false, false, true));
        assert_eq!(answered(Endpoint::Validate, &denying, "UPDATE"), (false, false, true));
        assert_eq!(
            answered(Endpoint::Mutate, &denying, "CREATE"),
            (true, false, false),
            "the other one denies it"
        );
        assert_eq!(answered(Endpoint::Validate, &audit, "CREATE"), (true, false, false), "nothing is denied");
        let body = review("v1", "CREATE", "admin", &job(&json!({})), &Value::Null);
        let warned = refuse_heavy(Endpoint::Validate, &audit, body.as_bytes());
        assert_eq!((warned.meta.outcome, warned.meta.warnings), (Outcome::Warned, 1), "but it is said");
        assert_eq!(
            answered(Endpoint::Validate, &denying, "DELETE"),
            (true, false, false),
            "none of our business"
        );
        assert_eq!(refuse_heavy(Endpoint::Validate, &denying, b"{").status, 400);

        let update = |object: &Value, old: &Value| {
            let body = review("v1", "UPDATE", "admin", object, old);
            let answer = refuse_heavy(Endpoint::Validate, &denying, body.as_bytes());
            serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"]["allowed"] == true
        };
        let (small, large) = (job(&json!({"a": 1})), job(&json!({"a": [1, 2], "b": {"c": 3}})));
        let mut finalized = large.clone();
        finalized["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
        assert!(update(&finalized, &large), "its spec stays as it is");
        assert!(!update(&small, &large), "lighter does not mean that it breaks no rule");
        assert!(!update(&large, &small), "it grows");
    }

    #[test]
    fn a_fault_allows_with_one_warning() {
        let body = review("v1", "CREATE", "admin", &job(&json!({})), &Value::Null);
        for fault in [Fault::Panic, Fault::Deadline] {
            let answer = fail_open(body.as_bytes(), fault);
            let response = &serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"];
            assert_eq!(
                (&response["allowed"], answer.meta.fault, answer.meta.warnings),
                (&json!(true), Some(fault), 1)
            );
            assert_eq!(answer.meta.outcome, Outcome::Faulted);
        }
        assert_eq!(fail_open(b"", Fault::Panic).status, 400);
        let faults =
            [Fault::Malformed, Fault::ObjectMissing, Fault::KindMismatch, Fault::Panic, Fault::Deadline];
        let doubts = [
            Doubt::DoesNotApply,
            Doubt::StraysOutside,
            Doubt::NotIdempotent,
            Doubt::NewDenial,
            Doubt::TooLarge,
        ];
        for fault in faults.into_iter().chain(doubts.map(Fault::Patch)) {
            assert_eq!(fault.warning(), respond::shorten(fault.warning()), "it fits");
            assert_eq!(fault.is_ours(), Fault::OURS.contains(&fault), "{fault:?}");
        }
    }

    #[test]
    fn who_creates_batch_work_of_another_kind_is_told_that_nothing_was_checked() {
        let asked = |endpoint, group: &str, kind: &str, operation: &str| {
            let object =
                json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "x"}});
            let request = json!({"uid": "u", "operation": operation, "kind": {"group": group, "version": "v1", "kind": kind}, "object": object});
            let body =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
                    .to_string();
            let answer = answer(endpoint, &Policy::default(), &NoFacts, body.as_bytes(), None);
            let response = serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"].clone();
            assert_eq!(response["allowed"], true);
            assert_eq!(
                answer.meta.outcome,
                if answer.meta.warnings > 0 { Outcome::Warned } else { Outcome::Allowed }
            );
            response["warnings"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(asked(Endpoint::Validate, "training.kubedl.io", "MPIJob", "CREATE"), 1);
        assert_eq!(
            asked(Endpoint::Mutate, "training.kubedl.io", "MPIJob", "CREATE"),
            0,
            "one of the two says it"
        );
        assert_eq!(asked(Endpoint::Validate, "training.kubedl.io", "MPIJob", "UPDATE"), 0);
        assert_eq!(asked(Endpoint::Validate, "apps", "Deployment", "CREATE"), 0);
    }

    #[test]
    fn what_is_not_known_of_claims_is_a_warning_of_validate() {
        struct Unknown;
        impl Facts for Unknown {
            fn claim(&self, _: &str, _: &str) -> Fact<Claim> {
                Fact::Unknown
            }

            fn caveat(&self) -> Option<&str> {
                Some(
                    "jobgate could not look up 1 claim and did not check it (no answer in time): a-claim-with-a-name-that-is-rather-long-itself",
                )
            }
        }

        let asked = |endpoint, object: &Value, old: &Value| {
            let policy = Policy::builtin("default").expect("the default policy");
            let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
            let answer = answer(
                endpoint,
                &policy,
                &Unknown,
                review("v1", operation, "admin", object, old).as_bytes(),
                None,
            );
            let response = serde_json::from_slice::<Value>(&answer.body).expect("JSON")["response"].clone();
            (
                response["allowed"] == true,
                response["warnings"].as_array().map_or(0, Vec::len),
                response["warnings"][0].clone(),
            )
        };
        let good = job(&json!({}));
        let (allowed, warnings, text) = asked(Endpoint::Validate, &good, &Value::Null);
        let text = text.as_str().expect("a warning");
        assert!(allowed && warnings == 1 && text.starts_with("jobgate could not look up 1 claim"), "{text}");
        assert_eq!(text.chars().count(), LONGEST_WARNING);
        assert_eq!(asked(Endpoint::Mutate, &good, &Value::Null).1, 0, "the author gets it once");
        let mut gone = good.clone();
        gone["metadata"]["deletionTimestamp"] = "2026-11-21T08:00:00Z".into();
        assert_eq!(asked(Endpoint::Validate, &gone, &gone).1, 0, "what is not judged needs no claims");
        assert!(!asked(Endpoint::Validate, &job(&json!({"activeDeadlineSeconds": null})), &Value::Null).0);
    }

    #[test]
    fn what_an_apply_took_out_is_put_back_and_nothing_else_is_filled_on_update() {
        let gpu = json!({"template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}, "ttlSecondsAfterFinished": null});
        let tolerated = json!({"template": {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}}});
        let new = job(&gpu);
        let mut old = new.clone();
        merge(&mut old["spec"], &tolerated);
        let (answer, response) = update(Endpoint::Mutate, &new, &old);
        assert_eq!(response["auditAnnotations"]["patch"], "/spec/template/spec/tolerations");
        assert_eq!((answer.meta.patch_ops, answer.meta.outcome), (1, Outcome::Patched));
        merge(&mut old["spec"], &json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}));
        assert_eq!(
            update(Endpoint::Mutate, &new, &old).0.meta.patch_ops,
            0,
            "the template would still differ"
        );
        assert_eq!(
            update(Endpoint::Mutate, &new, &new).0.meta.patch_ops,
            0,
            "an object older than the webhook is left as it is"
        );
    }

    /// A denial names its rules, also where removed fills could have been restored.
    #[test]
    fn what_is_denied_says_so_where_something_could_be_restored() {
        let gpu = json!({"template": {"spec": {"restartPolicy": "Always", "containers": [
            {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}});
        let new = job(&gpu);
        let mut old = new.clone();
        merge(
            &mut old["spec"],
            &json!({"template": {"spec": {"restartPolicy": "Never",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}}}),
        );
        let body = review("v1", "UPDATE", "admin", &new, &old);
        let policy = Policy::builtin("default").expect("the default policy");
        // As it is, and from a body that is not UTF-8, of which no text is kept.
        let mut broken = body.replace("train", "tr?in").into_bytes();
        broken.iter_mut().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xFF);
        for body in [body.into_bytes(), broken] {
            let answer = answer(Endpoint::Mutate, &policy, &NoFacts, &body, None);
            let text = String::from_utf8_lossy(&answer.body);
            assert_eq!(answer.meta.outcome, Outcome::Denied, "{text}");
            assert!(text.contains("restart-policy:"), "{text}");
        }
    }

    #[test]
    fn what_is_found_is_counted_where_it_matters() {
        let create = |endpoint: Endpoint, spec: &Value| {
            let object = job(spec);
            ask(endpoint, &review("v1", "CREATE", "admin", &object, &Value::Null)).0.meta
        };
        let counts = |rules: &[(&'static str, Level)]| -> BTreeMap<(RuleId, Level), usize> {
            rules.iter().map(|(rule, level)| ((RuleId::new(rule), *level), 1)).collect()
        };
        let (deadline, ttl) = (("deadline", Level::Deny), ("ttl-after-finished", Level::Note));
        let bare = json!({"activeDeadlineSeconds": null, "ttlSecondsAfterFinished": null});
        let meta = create(Endpoint::Mutate, &bare);
        assert_eq!((meta.findings, meta.is_unfilled), (counts(&[ttl]), false));
        let meta = create(Endpoint::Validate, &bare);
        assert_eq!((meta.findings, meta.is_unfilled), (counts(&[deadline, ttl]), true));
        let meta = create(Endpoint::Validate, &json!({"activeDeadlineSeconds": null}));
        assert_eq!((meta.findings, meta.is_unfilled), (counts(&[deadline]), false));
        // What `/mutate` denies does not come to `/validate`.
        let always =
            json!({"activeDeadlineSeconds": null, "template": {"spec": {"restartPolicy": "Always"}}});
        let meta = create(Endpoint::Mutate, &always);
        assert_eq!(meta.findings, counts(&[deadline, ("restart-policy", Level::Deny)]));
    }

    #[test]
    fn an_update_is_denied_only_for_what_is_new() {
        let (bounded, unbounded) = (job(&json!({})), job(&json!({"activeDeadlineSeconds": null})));
        let mut suspended = unbounded.clone();
        suspended["spec"]["suspend"] = true.into();
        let allowed =
            |object: &Value, old: &Value| update(Endpoint::Validate, object, old).1["allowed"].clone();
        assert_eq!(allowed(&unbounded, &bounded), false);
        assert_eq!(allowed(&suspended, &unbounded), true);
        let (answer, response) = update(Endpoint::Validate, &suspended, &unbounded);
        assert_eq!(
            (answer.meta.findings, response["warnings"].as_array().map(Vec::len)),
            (BTreeMap::from([((RuleId::new("deadline"), Level::Warn), 1)]), Some(1))
        );
    }

    #[test]
    fn finalizers_go_whatever_the_object_is_like() {
        let mut old = job(&json!({"activeDeadlineSeconds": null}));
        old["metadata"] = json!({"name": "train", "deletionTimestamp": "2026-11-21T08:00:00Z", "finalizers": ["foregroundDeletion"]});
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!([]);
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            let (answer, response) = update(endpoint, &new, &old);
            assert_eq!(
                (&response["allowed"], answer.meta.skipped, answer.meta.warnings),
                (&json!(true), Some(Skipped::BeingDeleted), 0)
            );
        }
        new["spec"]["parallelism"] = 2.into();
        assert_eq!(
            update(Endpoint::Validate, &new, &old).0.meta.skipped,
            None,
            "a timestamp is no way around the rules"
        );
    }

    #[test]
    fn texts_for_authors_of_what_is_not_read_fit() {
        let problems = [Unreadable::TooDeep, Unreadable::OutOfRange].map(Unreadable::problem);
        let heavy = [Operation::Create, Operation::Update].map(too_heavy);
        for text in problems.iter().chain(&heavy).chain([&JUDGED_AS_NEW]) {
            assert_eq!(respond::shorten(text), *text);
        }
    }

    /// A field that is deeper than anything that is read.
    fn deep() -> Value {
        (0..200).fold(json!("x"), |inside, _| json!([inside]))
    }

    #[test]
    fn an_old_object_that_cannot_be_read_exempts_nothing() {
        let violator = json!({"activeDeadlineSeconds": null, "deep": deep()});
        let (old, mut new) = (job(&violator), job(&json!({"activeDeadlineSeconds": null})));
        for endpoint in Endpoint::ALL {
            let (answer, response) = update(endpoint, &new, &old);
            let denies = endpoint == Endpoint::Validate;
            assert_eq!((&response["allowed"], answer.meta.fault), (&json!(!denies), None));
            assert_eq!(response["warnings"][0].as_str(), denies.then_some(JUDGED_AS_NEW));
            assert_eq!((answer.meta.patch_ops, answer.meta.skipped), (0, None));
        }
        new["spec"]["activeDeadlineSeconds"] = 60.into();
        let (answer, response) = update(Endpoint::Validate, &new, &old);
        assert_eq!(
            (&response["allowed"], answer.meta.outcome),
            (&json!(true), Outcome::Warned),
            "it is fixed"
        );
        // A CronJob is filled on UPDATE, but not over an old object that cannot be read.
        let of = |job: &Value| json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "n"}, "spec": {"jobTemplate": {"spec": job["spec"]}}});
        merge(&mut new["spec"], &json!({"ttlSecondsAfterFinished": null}));
        let readable = job(&json!({}));
        assert!(update(Endpoint::Mutate, &of(&new), &of(&readable)).0.meta.patch_ops > 0);
        assert_eq!(update(Endpoint::Mutate, &of(&new), &of(&old)).0.meta.patch_ops, 0);
    }

    #[test]
    fn what_cannot_be_read_passes_with_the_spec_that_it_had_and_with_no_other() {
        let old = job(&json!({"activeDeadlineSeconds": null, "deep": deep()}));
        let edit = |change: &dyn Fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            new
        };
        for new in [
            edit(&|new| new["metadata"]["labels"] = json!({"a": "b"})),
            edit(&|new| new["metadata"]["finalizers"] = json!([])),
            edit(&|new| new["status"] = json!({"active": 1, "deep": deep()})),
        ] {
            for endpoint in Endpoint::ALL {
                let (answer, response) = update(endpoint, &new, &old);
                assert_eq!(
                    (&response["allowed"], answer.meta.skipped, answer.meta.fault, answer.meta.outcome),
                    (&json!(true), Some(Skipped::SameSpec), None, Outcome::Allowed)
                );
                assert_eq!(response["auditAnnotations"]["skipped"], "same-spec");
            }
        }
        let new = edit(&|new| new["spec"]["parallelism"] = 2.into());
        for (policy, denied) in [("default", true), ("audit", false)] {
            let policy = Policy::builtin(policy).expect("a policy");
            let body = review("v1", "UPDATE", "admin", &new, &old);
            let ask = |endpoint| answer(endpoint, &policy, &NoFacts, body.as_bytes(), None);
            let (mutate, validate) = (ask(Endpoint::Mutate), ask(Endpoint::Validate));
            assert_eq!((mutate.meta.outcome, mutate.meta.fault), (Outcome::Allowed, None));
            let outcome = if denied { Outcome::Denied } else { Outcome::Warned };
            assert_eq!((validate.meta.outcome, validate.meta.fault), (outcome, None));
            assert!(str::from_utf8(&validate.body).expect("text").contains("depth: the object is nested"));
        }
    }

    #[test]
    fn nothing_is_put_back_where_what_was_passed_over_has_changed() {
        let gpu = json!({"template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}, "livenessProbe": {"periodSeconds": 5}}]}}});
        let tolerated = json!({"template": {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}}});
        let new = job(&gpu);
        let mut old = new.clone();
        merge(&mut old["spec"], &tolerated);
        let patched = |new: &Value, old: &Value| update(Endpoint::Mutate, new, old).0.meta.patch_ops;
        assert_eq!(patched(&new, &old), 1);
        let probe = |object: &Value, value: Value| {
            let mut object = object.clone();
            object["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["periodSeconds"] = value;
            object
        };
        assert_eq!(patched(&probe(&new, 6.into()), &old), 0, "the template would still differ");
        assert_eq!(patched(&probe(&new, deep()), &probe(&old, deep())), 0, "nobody can tell");
    }

    #[test]
    fn only_a_known_controller_makes_children_that_are_not_judged() {
        let mut child = job(&json!({"activeDeadlineSeconds": null}));
        let controller = "system:serviceaccount:kube-system:cronjob-controller";
        let asked = |child: &Value, user: &str| {
            ask(Endpoint::Validate, &review("v1", "CREATE", user, child, &Value::Null)).1["allowed"].clone()
        };
        assert_eq!(asked(&child, controller), false, "it has no parent");
        child["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": true}]);
        assert_eq!(asked(&child, controller), true);
        assert_eq!(
            asked(&child, "system:serviceaccount:jobset-system:jobset-controller"),
            false,
            "it has no CronJobs"
        );
        for user in [
            "admin",
            "system:serviceaccount:kube-system:cronjob-controller ",
            "system:serviceaccount:evil:cronjob-controller",
            "",
        ] {
            assert_eq!(asked(&child, user), false, "{user:?}");
        }
    }

    #[test]
    fn a_denial_between_the_calls_says_everything_and_is_for_what_the_api_server_refuses() {
        let refused =
            job(&json!({"activeDeadlineSeconds": null, "template": {"spec": {"restartPolicy": "Always"}}}));
        let (_, response) = ask(Endpoint::Mutate, &review("v1", "CREATE", "admin", &refused, &Value::Null));
        let message = response["status"]["message"].as_str().expect("a denial");
        assert!(
            message.starts_with("2 problems:\ndeadline: spec.activeDeadlineSeconds: ")
                && message.contains("\nrestart-policy: "),
            "{message}"
        );
        let (_, response) = ask(
            Endpoint::Mutate,
            &review("v1", "CREATE", "admin", &job(&json!({"activeDeadlineSeconds": null})), &Value::Null),
        );
        assert_eq!(response["allowed"], true, "the rest is for /validate to reject");
    }
}
