//! An AdmissionReview request: borrowed, lenient, and readable even if it is cut off.
//!
//! Nothing here is derived, for three reasons: of two equal keys the last one counts, as in the API server's
//! decoder, where derived code fails; a field of an unexpected type reads as unset; and a truncated review can
//! still be answered by the `uid` that was read before the end.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::de::DeserializeSeed as _;
use serde_json::value::RawValue;

use super::Pass;
use super::envelope::{Envelope, have_same_spec, legible};
use super::skim::SkimKeep;
use super::wanted_facts::{self, WantedFacts};
use crate::admission::fault::Fault;
use crate::judge::engine::Operation;
use crate::judge::facts::{Facts, NoFacts, WantedClaim, WantedObject};
use crate::judge::rule::Needs;
use crate::kinds::Kind;
use crate::text::value::{Value, ValueReader};

/// The version of `admission.k8s.io` that a review came in, and is answered in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// `admission.k8s.io/v1`.
    #[default]
    V1,
    /// `admission.k8s.io/v1beta1`, which API servers before 1.22 could send.
    V1Beta1,
}

impl Version {
    /// Returns the `apiVersion` of a review.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The head of a review: what an answer, a log line and a metric need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// The version to answer in.
    pub(crate) version: Version,
    /// The request's identity, to be echoed.
    pub(crate) uid: Cow<'a, str>,
    /// `CREATE`, `UPDATE`, or whatever else was sent.
    pub operation: Cow<'a, str>,
    /// API group of the object in the request.
    pub group: Cow<'a, str>,
    /// Kind of the object in the request.
    pub kind: Cow<'a, str>,
    /// The namespace; empty for objects without one.
    pub namespace: Cow<'a, str>,
    /// The name; empty where the API server has yet to generate it.
    pub name: Cow<'a, str>,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: Cow<'a, str>,
    /// The user of the request.
    pub user: Cow<'a, str>,
    /// Whether it is a dry run, which stores nothing.
    pub dry_run: bool,
}

impl Head<'_> {
    /// Returns a head that borrows nothing.
    fn into_owned(self) -> Head<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Head {
            version: self.version,
            uid: own(self.uid),
            operation: own(self.operation),
            group: own(self.group),
            kind: own(self.kind),
            namespace: own(self.namespace),
            name: own(self.name),
            subresource: own(self.subresource),
            user: own(self.user),
            dry_run: self.dry_run,
        }
    }

    /// Returns the kind of the object, if the request is to create one that is judged.
    pub(super) fn creates(&self) -> Option<Kind> {
        let whole = self.operation == "CREATE" && self.subresource.is_empty();
        whole.then(|| Kind::named(&self.group, &self.kind)).flatten()
    }
}

/// One review, read as far as judging it needs.
#[derive(Clone, Debug)]
pub struct Review<'a> {
    /// User and target of the request.
    pub head: Head<'a>,
    /// The object to judge, or why there is none.
    pub subject: Subject<'a>,
    /// The claims whose access modes a rule may look up, each once: those that can cause a denial first, and
    /// of these the ones with names like checkpoints. The caller decides how many to look up.
    pub claims: Vec<WantedClaim>,
    /// The other objects that a rule may look up. Runtimes decide which claims are used: see [`Self::know`].
    pub objects: BTreeSet<WantedObject>,
    needs: Needs,
}

/// The subject of a review.
#[derive(Clone, Debug)]
pub enum Subject<'a> {
    /// An object of a kind that is judged.
    Object(Box<Change<'a>>),
    /// A request that Jobgate does not judge.
    Pass(Pass),
    /// Something that no API server sends.
    Fault(Fault),
    /// An update that keeps the spec of an object that cannot be read, or could not be before: labels,
    /// finalizers and status are up to controllers.
    SameSpec,
    /// An object beyond a documented limit; admitting it unread would bypass every rule.
    Unread(Unreadable),
}

/// Why an object is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The part that rules read nests deeper than 128 levels.
    TooDeep,
    /// It has a number or a character that does not exist: `1e999`, or half of a surrogate pair.
    OutOfRange,
}

impl Unreadable {
    /// Returns the message for the author.
    #[must_use]
    pub(crate) fn problem(self) -> &'static str {
        match self {
            Self::TooDeep => {
                "depth: the object is nested deeper than 128 levels and was not read; make it flatter"
            }
            Self::OutOfRange => {
                "syntax: the object has a number or a character that does not exist and was not read; correct it"
            }
        }
    }
}

/// The change in a review.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// CREATE or UPDATE.
    pub operation: Operation,
    /// The kind in `request.kind`, which is also that of the object.
    pub kind: Kind,
    /// The object, without the parts that no rule reads.
    pub object: Value,
    /// On UPDATE: the object that it replaces, read in the same way; nothing if that cannot be read, so that
    /// the object is judged as a new one.
    pub old: Option<Value>,
    /// On UPDATE: whether both have the same spec, byte for byte.
    pub(crate) same_spec: bool,
    /// On UPDATE, if both are read: their texts.
    pub(super) texts: Option<Texts<'a>>,
}

/// The objects of an UPDATE as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    object: &'a str,
    old: &'a str,
}

impl Texts<'_> {
    /// Reads both in full, the new one first; nothing if one of them cannot be read that way.
    pub(super) fn whole(&self) -> Option<(Value, Value)> {
        let read = |text: &str| parse(text, SkimKeep::Whole).ok();
        Some((read(self.object)?, read(self.old)?))
    }
}

/// A body that is not a review.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read the AdmissionReview: {reason}")]
pub struct Malformed<'a> {
    /// What is wrong.
    pub(crate) reason: String,
    /// What could be read; without a `uid`, no answer is possible.
    pub head: Box<Head<'a>>,
}

impl<'a> Review<'a> {
    /// Reads a review for rules with these needs, without the parts that none of them reads: nothing there
    /// makes an object unreadable, or exempts it.
    ///
    /// # Errors
    ///
    /// The body is not one JSON document, not an AdmissionReview, or has no readable `request.uid`.
    pub fn read(body: &'a [u8], needs: Needs) -> Result<Self, Malformed<'a>> {
        Self::skim(body, needs).map_or_else(|| Self::read_with(SkimKeep::Object(needs), needs, body), Ok)
    }

    /// Reads a review with its whole objects, where [`Self::read`] may omit what no rule reads.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_whole(body: &'a [u8]) -> Result<Self, Malformed<'a>> {
        Self::read_with(SkimKeep::Whole, Needs::ALL, body)
    }

    /// Reads the selected part of the objects.
    ///
    /// The API server passes on what a user wrote into `fieldsV1` unchecked, so it may not be UTF-8.
    fn read_with(keep: SkimKeep, needs: Needs, body: &'a [u8]) -> Result<Self, Malformed<'a>> {
        match legible(body) {
            Cow::Borrowed(body) => Self::read_text(keep, needs, body),
            Cow::Owned(text) => match Review::read_text(keep, needs, &text) {
                Ok(review) => Ok(review.into_owned()),
                Err(Malformed { reason, head }) => {
                    Err(Malformed { reason, head: Box::new(head.into_owned()) })
                }
            },
        }
    }

    fn read_text(keep: SkimKeep, needs: Needs, body: &'a [u8]) -> Result<Self, Malformed<'a>> {
        let (envelope, error) = Envelope::read(body);
        let Envelope { head, is_review, has_request, object, old, .. } = envelope;
        let reason = if let Some(error) = error {
            error.to_string()
        } else if !is_review {
            "`kind` is not `AdmissionReview`".to_owned()
        } else if !has_request {
            "`request` is missing".to_owned()
        } else if head.uid.is_empty() {
            "`request.uid` is missing".to_owned()
        } else {
            let subject = examine(keep, &head, object, old);
            return Ok(Self::new(head, subject, needs));
        };
        Err(Malformed { reason, head: Box::new(head) })
    }

    /// Returns a review that borrows nothing. It drops the texts of the objects: the weight of a review does
    /// not allow for another copy.
    fn into_owned(self) -> Review<'static> {
        let Self { head, subject, claims, objects, needs } = self;
        let subject = match subject {
            Subject::Object(change) => {
                let Change { operation, kind, object, old, same_spec, texts: _ } = *change;
                Subject::Object(Box::new(Change { operation, kind, object, old, same_spec, texts: None }))
            }
            Subject::Pass(pass) => Subject::Pass(pass),
            Subject::Fault(fault) => Subject::Fault(fault),
            Subject::SameSpec => Subject::SameSpec,
            Subject::Unread(unreadable) => Subject::Unread(unreadable),
        };
        Review { head: head.into_owned(), subject, claims, objects, needs }
    }

    /// Reads a review in one pass over the body, in which a new object is skimmed; nothing for an unusual
    /// review.
    ///
    /// It reads nothing differently from [`Self::read_with`], and leaves to it what it cannot read.
    fn skim(body: &'a [u8], needs: Needs) -> Option<Self> {
        let keep = SkimKeep::Object(needs);
        let Envelope { head, is_review, object, old, skimmed, .. } = Envelope::skim(body, keep)?;
        if !is_review || head.uid.is_empty() {
            return None;
        }
        let Some((kind, skimmed)) = skimmed else {
            let subject = examine(keep, &head, object, old);
            return Some(Self::new(head, subject, needs));
        };
        // Later fields may have changed what the object was skimmed for, or replaced the object.
        let sound =
            object.is_none() && head.creates() == Some(kind) && Kind::from_object(&skimmed) == Some(kind);
        let change = Change {
            operation: Operation::Create,
            kind,
            object: skimmed,
            old: None,
            same_spec: false,
            texts: None,
        };
        let subject = Subject::Object(Box::new(change));
        sound.then(|| Self::new(head, subject, needs))
    }

    fn new(head: Head<'a>, subject: Subject<'a>, needs: Needs) -> Self {
        let WantedFacts { claims, objects } = wanted_facts::wanted(&head, &subject, needs, &NoFacts);
        Self { head, subject, claims, objects, needs }
    }

    /// Adds the claims that the pods of these runtimes use.
    pub fn know(&mut self, runtimes: &dyn Facts) {
        self.claims = wanted_facts::wanted(&self.head, &self.subject, self.needs, runtimes).claims;
    }
}

/// Reads the head of a truncated body, to answer a review that is too large.
#[must_use]
pub(super) fn head_of_prefix(prefix: &[u8]) -> Head<'_> {
    Envelope::read(prefix).0.head
}

/// Tells whether the object in a body has the spec of the object that it replaces, without parsing values.
pub(super) fn keeps_spec(body: &[u8]) -> bool {
    let (Envelope { object, old, .. }, _) = Envelope::read(body);
    object.zip(old).is_some_and(|(object, old)| have_same_spec(object, old))
}

/// Returns the operation and kind, or why the request is not judged.
pub(super) fn concern(head: &Head<'_>) -> Result<(Operation, Kind), Pass> {
    let operation = match &*head.operation {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        _ => return Err(Pass::Operation),
    };
    if !head.subresource.is_empty() {
        return Err(Pass::Subresource);
    }
    Ok((operation, Kind::named(&head.group, &head.kind).ok_or(Pass::Kind)?))
}

/// Decides what there is to judge. Only then are objects parsed.
fn examine<'a>(
    keep: SkimKeep,
    head: &Head<'_>,
    object: Option<&'a RawValue>,
    old: Option<&'a RawValue>,
) -> Subject<'a> {
    let (operation, kind) = match concern(head) {
        Ok(concern) => concern,
        Err(pass) => return Subject::Pass(pass),
    };
    let Some(text) = object else { return Subject::Fault(Fault::ObjectMissing) };
    let old_text = old.filter(|_| operation == Operation::Update);
    let same_spec = old_text.is_some_and(|old| have_same_spec(text, old));
    let read = |text: &str| read(text, keep, kind);
    let object = match read(text.get()) {
        Ok(object) => object,
        Err(_) if same_spec => return Subject::SameSpec,
        Err(unreadable) => return Subject::Unread(unreadable),
    };
    // The object's version decides between kinds that differ in nothing else.
    let Some(kind) = Kind::from_object(&object).filter(|of_object| of_object.is_same(kind)) else {
        return Subject::Fault(Fault::KindMismatch);
    };
    let old = match old_text.map(|old| read(old.get())) {
        Some(Err(_)) if same_spec => return Subject::SameSpec,
        // An unreadable old object exempts nothing.
        Some(Err(_)) | None => None,
        // Nor does one of another kind: the API server sends both objects in one version.
        Some(Ok(old)) => {
            Some(old).filter(|old| Kind::from_object(old).is_some_and(|of_old| of_old.is_same(kind)))
        }
    };
    let same_spec = same_spec && old.is_some();
    let texts = old_text.filter(|_| old.is_some()).map(|old| Texts { object: text.get(), old: old.get() });
    Subject::Object(Box::new(Change { operation, kind, object, old, same_spec, texts }))
}

/// Reads an object. One whose status or unknown fields cannot be read is read without them: it counts as
/// unfinished, so they exempt nothing. What cannot be read in a container of a custom resource is passed over.
fn read(text: &str, keep: SkimKeep, kind: Kind) -> Result<Value, Unreadable> {
    let of_kind = keep.of_kind(kind);
    let whole = parse(text, of_kind);
    let read = if of_kind == keep { whole } else { whole.or_else(|_| parse(text, keep)) };
    match (read, keep) {
        (Err(unreadable), SkimKeep::Object(needs)) => {
            parse(text, SkimKeep::Judged(needs)).map_err(|_| unreadable)
        }
        (read, _) => read,
    }
}

/// Parses the selected part of an object. The rest may nest to any depth.
fn parse(text: &str, keep: SkimKeep) -> Result<Value, Unreadable> {
    let mut json = serde_json::Deserializer::from_str(text);
    ValueReader(keep).deserialize(&mut json).map_err(|error| {
        // The envelope was read to its end, so the JSON is well-formed: only depth, numbers and escapes can
        // be out of range. serde_json has no error category for its depth limit (128).
        if error.to_string().starts_with("recursion limit exceeded") {
            Unreadable::TooDeep
        } else {
            Unreadable::OutOfRange
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::envelope::LONGEST_UID;
    use crate::admission::skim::{self, SkimPlace};
    use crate::judge::facts::{FactKind, FactTable};
    use crate::text::value::json;

    const JOB: &str = r#"{"apiVersion":"batch/v1","kind":"Job","spec":{}}"#;

    /// What the built-in rules need.
    fn needs() -> Needs {
        Needs::CLAIMS | Needs::RUNTIMES | Needs::MANAGERS
    }

    fn body(request: &str) -> String {
        format!(r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{request}}}"#)
    }

    fn request(fields: &str) -> String {
        body(&format!(
            r#"{{"uid":"u","kind":{{"group":"batch","version":"v1","kind":"Job"}},"operation":"CREATE",{fields}}}"#
        ))
    }

    fn subject(body: &str) -> Subject<'_> {
        Review::read(body.as_bytes(), needs()).expect("a review").subject
    }

    #[test]
    fn of_equal_keys_the_last_one_counts() {
        let body = body(&format!(
            r#"{{"uid":"a","uid":"b","kind":{{"kind":"Pod","group":"batch","kind":"Job"}},"operation":"DELETE","operation":"CREATE",
            "object":null,"object":{}}}"#,
            r#"{"apiVersion":"batch/v1","kind":"Pod","kind":"Job","spec":1,"spec":2}"#
        ));
        let review = Review::read(body.as_bytes(), needs()).expect("a review");
        assert_eq!((&*review.head.uid, &*review.head.operation), ("b", "CREATE"));
        let Subject::Object(change) = review.subject else { panic!("{:?}", review.subject) };
        assert_eq!((change.kind, &change.object["spec"]), (Kind::JOB, &json!(2)));
    }

    #[test]
    fn fields_of_other_types_read_as_unset() {
        let body = body(
            r#"{"uid":"u","operation":["CREATE"],"kind":"Job","name":5,"namespace":null,"userInfo":[],"dryRun":"true","new":{"a":[1]}}"#,
        );
        let review = Review::read(body.as_bytes(), needs()).expect("a review");
        assert_eq!(review.head, Head { uid: "u".into(), ..Head::default() });
        assert!(matches!(review.subject, Subject::Pass(Pass::Operation)));
    }

    #[test]
    fn text_may_have_escapes() {
        let review =
            Review::read(br#"{"\u006bind":"Admission\u0052eview","request":{"uid":"a\"b"}}"#, needs())
                .expect("a review");
        assert_eq!(review.head.uid, "a\"b");
    }

    #[test]
    fn what_is_no_review_says_why_and_keeps_its_uid() {
        for (body, uid, reason) in [
            ("", "", "EOF while parsing"),
            ("[]", "", "`kind`"),
            ("null", "", "`kind`"),
            ("7", "", "`kind`"),
            (r#"{"kind":"AdmissionReview"}"#, "", "`request` is missing"),
            (r#"{"kind":"AdmissionReview","request":null}"#, "", "`request` is missing"),
            (r#"{"kind":"AdmissionReview","request":{"uid":null}}"#, "", "`request.uid` is missing"),
            (r#"{"kind":"Pod","request":{"uid":"u"}}"#, "u", "`kind`"),
            (r#"{"kind":"AdmissionReview","request":{"uid":"u"}} {}"#, "u", "trailing characters"),
            (r#"{"kind":"AdmissionReview","request":{"uid":"u","object":{"a":"#, "u", "EOF"),
        ] {
            let error = Review::read(body.as_bytes(), needs()).expect_err(body);
            assert_eq!(error.head.uid, uid, "{body}");
            assert!(error.reason.contains(reason), "{body}: {}", error.reason);
        }
        let long = body(&format!(r#"{{"uid":"{}"}}"#, "u".repeat(LONGEST_UID + 1)));
        assert!(Review::read(long.as_bytes(), needs()).is_err(), "a uid is not echoed at any length");
    }

    #[test]
    fn every_prefix_of_a_review_is_read_without_a_panic_and_says_its_uid_once_it_is_there() {
        let body = request(&format!(r#""name":"ü","object":{JOB}"#));
        let uid = body.find(r#""u""#).expect("a uid") + 3;
        for end in 0..body.len() {
            let head = head_of_prefix(&body.as_bytes()[..end]);
            assert_eq!(
                &*head.uid,
                if end >= uid { "u" } else { "" },
                "{}",
                &String::from_utf8_lossy(&body.as_bytes()[..end])
            );
        }
    }

    #[test]
    fn beta_reviews_are_answered_in_beta() {
        let review =
            br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"u"}}"#;
        assert_eq!(Review::read(review, needs()).expect("a review").head.version, Version::V1Beta1);
    }

    #[test]
    fn objects_are_skimmed_the_new_one_and_the_old_one_alike() {
        let pod = r#"{"containers":[{"name":"c","image":"i","ports":[{"name":"A"}],"command":["x"]}],"volumes":[]}"#;
        let job = format!(
            r#"{{"apiVersion":"batch/v1","kind":"Job","spec":{{"new":1,"completions":[{{"env":1}}],"template":{{"spec":{pod}}}}},"status":{{"active":1}}}}"#
        );
        let left = json!({"containers": [{"name": "c", "image": "i", "command": ["x"]}], "volumes": []});
        let left = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"new": 1, "completions": [{"env": 1}], "template": {"spec": left}}, "status": {"active": 1}});
        let read = |body: &str| {
            let Subject::Object(change) = subject(body) else { panic!("{body}") };
            (change.object, change.old, change.texts.map(|texts| texts.whole()))
        };
        assert_eq!(read(&request(&format!(r#""object":{job}"#))), (left.clone(), None, None));
        let whole: Value = serde_json::from_str(&job).expect("JSON");
        let rest = r#""operation":"UPDATE""#;
        for order in [
            format!(r#"{rest},"object":{job},"oldObject":{job}"#),
            format!(r#"{rest},"oldObject":{job},"object":{job}"#),
            format!(r#""oldObject":{job},"object":{job},{rest}"#),
            format!(r#""oldObject":1,"object":{job},{rest},"oldObject":{job}"#),
        ] {
            assert_eq!(
                read(&request(&order)),
                (left.clone(), Some(left.clone()), Some(Some((whole.clone(), whole.clone())))),
                "{order}"
            );
        }
    }

    /// Returns this many lists in one another.
    fn nested(levels: usize) -> String {
        ["[".repeat(levels), "]".repeat(levels)].concat()
    }

    /// Far more than a stack has room for.
    const BOTTOMLESS: usize = 1_000_000;

    /// Returns a Job with the value of one field that is passed over.
    fn job_with(place: SkimPlace, field: &str, value: &str, extra: &str) -> String {
        let field = format!(r#""{field}":{value}"#);
        let (metadata, container) = match place {
            SkimPlace::Container => (String::new(), field),
            SkimPlace::Manager => (format!(r#""managedFields":[{{"manager":"m",{field}}}]"#), String::new()),
            SkimPlace::Owned => (
                format!(r#""managedFields":[{{"fieldsV1":{{"f:spec":{{{field}}},{field}}}}}]"#),
                String::new(),
            ),
            SkimPlace::BelowOwned => {
                let levels = usize::from(skim::DEEPEST_OWNED);
                let (open, close) = (r#"{"f:spec":"#.repeat(levels), "}".repeat(levels));
                (format!(r#""managedFields":[{{"fieldsV1":{open}{{{field}}}{close}}}]"#), String::new())
            }
        };
        format!(
            r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{{metadata}}},"spec":{{{extra}"template":{{"spec":{{"containers":[{{{container}}}]}}}}}}}}"#
        )
    }

    #[test]
    fn what_is_passed_over_may_nest_without_end_in_either_object() {
        let deep = nested(BOTTOMLESS);
        let (other, plain) = (r#""parallelism":2,"#, JOB);
        for (place, field) in skim::fields() {
            let (old, new) = (job_with(place, field, &deep, ""), job_with(place, field, &deep, other));
            let create = request(&format!(r#""object":{new}"#));
            let Subject::Object(change) = subject(&create) else { panic!("{place:?} {field}") };
            let read = change.object;
            for (old, new, changed) in
                [(&*old, &*new, true), (plain, &*new, true), (&*new, plain, true), (&*new, &*new, false)]
            {
                let update = request(&format!(r#""operation":"UPDATE","oldObject":{old},"object":{new}"#));
                let Subject::Object(change) = subject(&update) else { panic!("{place:?} {field}") };
                assert!(change.old.is_some(), "{field}: both are read");
                assert_eq!(change.same_spec, !changed, "{field}");
                assert_eq!(change.object == read, new != plain, "{field}: as at its creation");
            }
        }
    }

    #[test]
    fn a_kind_that_changes_its_mind_behind_the_object_is_read_again() {
        let job = r#"{"apiVersion":"batch/v1","kind":"Job","status":{"active":1}}"#;
        for after in [
            r#""operation":"UPDATE","oldObject":{}"#,
            r#""kind":{"group":"batch","kind":"CronJob"}"#,
            r#""subResource":"status""#,
        ] {
            let body = request(&format!(r#""object":{job},{after}"#));
            let whole = Review::read_whole(body.as_bytes()).expect("a review");
            let read = Review::read(body.as_bytes(), needs()).expect("a review");
            let text = |review: &Review<'_>| format!("{:?} {:?}", review.head, review.subject);
            assert_eq!(text(&read), text(&whole), "{after}");
        }
        let last =
            request(&format!(r#""object":{{"apiVersion":"batch/v1","kind":"Job","spec":1}},"object":{job}"#));
        let Subject::Object(change) = subject(&last) else { panic!("{last}") };
        assert_eq!(
            change.object,
            json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1}}),
            "of two objects the last one counts"
        );
    }

    #[test]
    fn what_is_not_judged() {
        assert!(matches!(subject(&request(r#""object":{}"#)), Subject::Fault(Fault::KindMismatch)));
        assert!(matches!(
            subject(&request(r#""object":{"apiVersion":"batch/v1","kind":"CronJob"}"#)),
            Subject::Fault(Fault::KindMismatch)
        ));
        assert!(matches!(subject(&request(r#""object":null"#)), Subject::Fault(Fault::ObjectMissing)));
        assert!(matches!(
            subject(&request(&format!(r#""subResource":"status","object":{JOB}"#))),
            Subject::Pass(Pass::Subresource)
        ));
        assert!(matches!(
            subject(&request(&format!(
                r#""kind":{{"group":"execution.furiko.io","kind":"Job"}},"object":{JOB}"#
            ))),
            Subject::Pass(Pass::Kind)
        ));
        for spec in ["1e999", r#""\ud800""#, r#"{"\udfff":1}"#] {
            let body =
                request(&format!(r#""object":{{"apiVersion":"batch/v1","kind":"Job","spec":{spec}}}"#));
            assert!(matches!(subject(&body), Subject::Unread(Unreadable::OutOfRange)), "{spec}");
        }
    }

    #[test]
    fn an_update_without_its_old_object_is_judged_as_a_creation() {
        for old in ["", r#","oldObject":null"#, r#","oldObject":[1e999]"#] {
            let body = request(&format!(r#""operation":"UPDATE","object":{JOB}{old}"#));
            let Subject::Object(change) = subject(&body) else { panic!("{body}") };
            assert!(change.old.is_none() && !change.same_spec);
        }
    }

    #[test]
    fn an_old_object_of_another_kind_exempts_nothing() {
        for old in [JOB.replace("batch/v1", "batsh/v1"), JOB.replace(r#""Job""#, r#""CronJob""#)] {
            assert_ne!(old, JOB);
            let body = request(&format!(r#""operation":"UPDATE","object":{JOB},"oldObject":{old}"#));
            let Subject::Object(change) = subject(&body) else { panic!("{body}") };
            assert!(change.old.is_none() && !change.same_spec);
        }
    }

    #[test]
    fn an_object_beyond_the_depth_limit_is_told_from_a_broken_one() {
        let job = |spec: &str| format!(r#"{{"apiVersion":"batch/v1","kind":"Job","spec":{spec}}}"#);
        for levels in [200, BOTTOMLESS] {
            let (deep, other) = (job(&nested(levels)), job(&nested(levels + 1)));
            let update =
                |new: &str, old: &str| format!(r#""operation":"UPDATE","object":{new},"oldObject":{old}"#);
            let too_deep =
                |fields: &str| matches!(subject(&request(fields)), Subject::Unread(Unreadable::TooDeep));
            assert!(too_deep(&format!(r#""object":{deep}"#)));
            assert!(too_deep(&update(&deep, JOB)) && too_deep(&update(&deep, &other)));
            let same = request(&update(&deep, &deep));
            assert!(matches!(subject(&same), Subject::SameSpec), "it may lose its finalizers");
            let body = request(&update(JOB, &deep));
            let Subject::Object(change) = subject(&body) else { panic!("{levels}") };
            assert!(change.old.is_none() && !change.same_spec, "what cannot be read exempts nothing");
        }
    }

    #[test]
    fn what_stands_beside_the_spec_makes_no_object_unreadable() {
        let object = |parallelism: u8, rest: &str| {
            format!(
                r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"labels":{{"a":"b"}}}},"spec":{{"parallelism":{parallelism}}},{rest}}}"#
            )
        };
        let left = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 1}});
        for rest in [format!(r#""status":{}"#, nested(BOTTOMLESS)), r#""data":1e999"#.to_owned()] {
            let (deep, plain) = (object(1, &rest), object(1, r#""status":{}"#));
            for (new, old) in [(&deep, &plain), (&plain, &deep), (&deep, &deep)] {
                let body = request(&format!(r#""operation":"UPDATE","object":{new},"oldObject":{old}"#));
                let Subject::Object(change) = subject(&body) else { panic!("{rest:.20}") };
                assert!(change.same_spec && change.old.is_some(), "{rest:.20}");
            }
            let create = request(&format!(r#""object":{deep}"#));
            let Subject::Object(change) = subject(&create) else { panic!("{rest:.20}") };
            assert_eq!(change.object, left);
        }
    }

    #[test]
    fn both_objects_and_creations_have_one_limit() {
        // The innermost level that is read is the same however a review is read: in one pass or two.
        let job =
            |levels: usize| format!(r#"{{"apiVersion":"batch/v1","kind":"Job","spec":{}}}"#, nested(levels));
        for levels in 120..136 {
            let object = job(levels);
            let create = request(&format!(r#""object":{object}"#));
            let is_read = matches!(subject(&create), Subject::Object(_));
            assert_eq!(is_read, levels < 127, "{levels}");
            let new = request(&format!(r#""operation":"UPDATE","oldObject":{JOB},"object":{object}"#));
            assert_eq!(matches!(subject(&new), Subject::Object(_)), is_read, "{levels}");
            let old = request(&format!(r#""operation":"UPDATE","oldObject":{object},"object":{JOB}"#));
            let Subject::Object(change) = subject(&old) else { panic!("{levels}") };
            assert_eq!(change.old.is_some(), is_read, "{levels}");
        }
    }

    #[test]
    fn whether_the_spec_changed_is_told_from_its_bytes() {
        let deep = nested(300);
        let object = |fields: &str| format!(r#"{{"apiVersion":"batch/v1","kind":"Job",{fields}}}"#);
        let spec = |value: &str| format!(r#""spec":{value}"#);
        let kept = |new: &str, old: &str| {
            let body = request(&format!(
                r#""operation":"UPDATE","object":{},"oldObject":{}"#,
                object(new),
                object(old)
            ));
            assert_eq!(keeps_spec(body.as_bytes()), matches!(subject(&body), Subject::SameSpec), "{body}");
            matches!(subject(&body), Subject::SameSpec)
        };
        let status =
            |value: &str| format!(r#""status":{value},"metadata":{{"labels":{{"a":"b"}}}},"spec":{deep}"#);
        assert!(kept(&spec(&deep), &status("{}")) && kept(&status(&deep), &spec(&deep)));
        assert!(kept(&format!(r#""spec":{{}},{}"#, status("{}")), &spec(&deep)), "the last one counts");
        assert!(kept(&format!(r#""\u0073pec":{deep}"#), &spec(&deep)), "a key may have escapes");
        assert!(!kept(&format!(r#"{},"spec":{{}}"#, spec(&deep)), &spec(&deep)));
        assert!(!kept(&spec(&deep), &spec(&nested(301))));
        assert!(!kept(&spec(&deep), r#""status":{}"#));
        let unclear = format!(r#""\ud800":1,{}"#, spec(&deep));
        assert!(!kept(&unclear, &unclear), "a key that cannot be read may be any");
    }

    #[test]
    fn bytes_that_are_no_text_are_no_way_around_the_rules() {
        let job = r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"managedFields":[{"fieldsV1":{"f:spec":{"f:?":{}},"f:metadata":{"f:?":{}}}}]},"spec":{"parallelism":2}}"#;
        for operation in ["CREATE", "UPDATE"] {
            let body = request(&format!(r#""operation":"{operation}","object":{job},"oldObject":{JOB}"#));
            let bytes: Vec<u8> = body.bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
            let review = Review::read(&bytes, needs()).expect("a review");
            assert_eq!((&*review.head.uid, &*review.head.operation), ("u", operation));
            let Subject::Object(change) = review.subject else { panic!("{:?}", review.subject) };
            assert_eq!(change.object["spec"]["parallelism"], json!(2));
        }
        let cut = Review::read(b"{\"request\":{\"uid\":\"u\",\"name\":\"\xff\"", needs())
            .expect_err("it breaks off");
        assert_eq!((&*cut.head.uid, &*cut.head.name), ("u", "?"));
    }

    #[test]
    fn claims_of_the_new_and_the_old_object_are_asked_for() {
        let job = |claims: &[String]| {
            let volumes: Vec<Value> =
                claims.iter().map(|claim| json!({"persistentVolumeClaim": {"claimName": claim}})).collect();
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"volumes": volumes}}}}).to_string()
        };
        let fields = |new: &[String], old: &[String]| {
            format!(r#""namespace":"n","operation":"UPDATE","object":{},"oldObject":{}"#, job(new), job(old))
        };
        let needed = |body: &str| Review::read(body.as_bytes(), needs()).expect("a review").claims;
        let name =
            |name: &str| WantedClaim { namespace: "n".to_owned(), name: name.to_owned(), shared: false };
        assert_eq!(
            needed(&request(&fields(&["b".into(), "a".into()], &["c".into(), "a".into()]))),
            [name("a"), name("b"), name("c")]
        );
        let many: Vec<String> = (0..1000).map(|at| at.to_string()).collect();
        assert_eq!(
            needed(&request(&fields(&many, &[]))).len(),
            1000,
            "how many are looked up is not decided here"
        );
    }

    /// Returns the names of the claims that a PyTorchJob asks for, the shared ones marked by `*`.
    fn wanted(replicas: &Value) -> Vec<String> {
        let object = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": replicas}});
        let body = body(&format!(
            r#"{{"uid":"u","kind":{{"group":"kubeflow.org","kind":"PyTorchJob"}},"operation":"CREATE","namespace":"n","object":{object}}}"#
        ));
        let claims = Review::read(body.as_bytes(), needs()).expect("a review").claims;
        claims.into_iter().map(|claim| if claim.shared { claim.name + "*" } else { claim.name }).collect()
    }

    fn replica(replicas: &Value, volumes: &[(&str, &str)]) -> Value {
        let volume = |(name, claim): &(&str, &str)| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        let volumes: Vec<Value> = volumes.iter().map(volume).collect();
        json!({"replicas": replicas, "template": {"spec": {"volumes": volumes}}})
    }

    #[test]
    fn a_namespace_that_cannot_exist_has_no_claims() {
        let spec = r#"{"template":{"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"c"}}]}}}"#;
        let job = format!(r#"{{"apiVersion":"batch/v1","kind":"Job","spec":{spec}}}"#);
        for (length, claims) in
            [(wanted_facts::LONGEST_NAMESPACE, 1), (wanted_facts::LONGEST_NAMESPACE + 1, 0)]
        {
            let body = request(&format!(r#""namespace":"{}","object":{job}"#, "n".repeat(length)));
            assert_eq!(Review::read(body.as_bytes(), needs()).expect("a review").claims.len(), claims);
        }
    }

    /// Returns the names of the claims that an object in a namespace asks for.
    fn claims_of(kind: (&str, &str, &str), spec: &Value) -> Vec<String> {
        let (group, version, kind) = kind;
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": spec});
        let body = body(&format!(
            r#"{{"uid":"u","kind":{{"group":"{group}","kind":"{kind}"}},"operation":"CREATE","namespace":"n","object":{object}}}"#
        ));
        Review::read(body.as_bytes(), needs())
            .expect("a review")
            .claims
            .into_iter()
            .map(|claim| claim.name)
            .collect()
    }

    #[test]
    fn claims_of_wrapped_objects_are_asked_for_and_those_of_no_namespace_are_not() {
        let template =
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}});
        let wrapper = json!({"components": [{"template": job}]});
        assert_eq!(claims_of(("workload.codeflare.dev", "v1beta2", "AppWrapper"), &wrapper), ["c"]);
        let jobs = json!([{"name": "node", "template": {"spec": {"template": template}}}]);
        let runtime = json!({"template": {"spec": {"replicatedJobs": jobs}}});
        let group = "trainer.kubeflow.org";
        assert_eq!(claims_of((group, "v1alpha1", "TrainingRuntime"), &runtime), ["c"]);
        assert_eq!(claims_of((group, "v1alpha1", "ClusterTrainingRuntime"), &runtime), [""; 0]);
    }

    #[test]
    fn claims_that_can_be_denied_are_asked_for_first() {
        let object = json!({
            "Decoy": replica(&json!(0), &[("v", "a-decoy"), ("w", "ckpt-decoy"), ("x", "shared")]),
            "Master": replica(&json!(1), &[("v", "alone"), ("w", "shared"), ("x", "alone")]),
            "Worker": replica(&json!(3), &[("v", "a-cache"), ("w", "shared"), ("x", "outputs"), ("checkpoints", "z-volume")]),
        });
        assert_eq!(wanted(&object), ["outputs*", "z-volume*", "a-cache*", "shared*", "alone"]);
    }

    #[test]
    fn a_claim_of_an_unknown_number_of_pods_is_not_shared() {
        let object = json!({
            "Master": replica(&json!(1), &[("v", "a")]),
            "Worker": replica(&json!("$WORKERS"), &[("v", "a"), ("w", "b")]),
        });
        assert_eq!(wanted(&object), ["a", "b"]);
    }

    #[test]
    fn a_template_with_two_volumes_of_a_claim_counts_once() {
        assert_eq!(wanted(&json!({"Master": replica(&json!(1), &[("v", "a"), ("w", "a")])})), ["a"]);
    }

    fn of_train_jobs(number: usize) -> String {
        let job = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}},
        });
        let components: Vec<Value> = (0..number).map(|_| json!({"template": job})).collect();
        let object = json!({
            "apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": {"components": components},
        });
        body(&format!(
            r#"{{"uid":"u","kind":{{"group":"workload.codeflare.dev","kind":"AppWrapper"}},"operation":"CREATE","namespace":"n","object":{object}}}"#
        ))
    }

    #[test]
    fn a_runtime_is_asked_for_before_its_claims() {
        let body = of_train_jobs(2);
        let mut review = Review::read(body.as_bytes(), needs()).expect("a review");
        let kind = Kind::from_runtime("ClusterTrainingRuntime").expect("a kind");
        let wanted = WantedObject::new(FactKind::Runtime(kind), "n", "torch");
        assert_eq!((&review.objects, review.claims.len()), (&[wanted.clone()].into(), 0));
        let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
        let pod = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
        let node = json!({
            "name": "node",
            "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}},
        });
        let runtime = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
            "spec": {"template": {"spec": {"replicatedJobs": [node]}}},
        });
        let mut facts = FactTable::default();
        facts.enter(wanted, Some(&runtime));
        review.know(&facts);
        let claims: Vec<_> = review.claims.iter().map(|claim| (&*claim.name, claim.shared)).collect();
        assert_eq!(claims, [("c", true)]);
    }

    #[test]
    fn the_runtimes_of_many_jobs_in_one_object_are_not_asked_for() {
        for (number, runtimes) in [(8, 1), (9, 0)] {
            let body = of_train_jobs(number);
            assert_eq!(
                Review::read(body.as_bytes(), needs()).expect("a review").objects.len(),
                runtimes,
                "{number}"
            );
        }
    }

    #[test]
    fn a_claim_that_all_tasks_mount_is_shared_and_one_that_is_described_is_not_asked_for() {
        let body = |volumes: &Value| {
            let task = json!({"replicas": 1, "template": {"spec": {"containers": []}}});
            let object = json!({
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
                "spec": {"volumes": volumes, "tasks": [task, task]},
            });
            body(&format!(
                r#"{{"uid":"u","kind":{{"group":"batch.volcano.sh","kind":"Job"}},"operation":"CREATE","namespace":"n","object":{object}}}"#
            ))
        };
        let spec = json!({"accessModes": ["ReadWriteOnce"]});
        let text = body(&json!([
            {"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/b", "volumeClaim": spec},
            {"mountPath": "/c", "volumeClaimName": "c", "volumeClaim": spec},
        ]));
        let review = Review::read(text.as_bytes(), needs()).expect("a review");
        let claims: Vec<_> = review.claims.iter().map(|claim| (&*claim.name, claim.shared)).collect();
        assert_eq!(claims, [("a", true)]);
    }
}
