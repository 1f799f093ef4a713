//! Every body is answered: a review by its uid, anything else by 400; a patch fits, and none is needed after
//! it; only a denial refuses. An object is read in one way, as a new one and as one that is replaced.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobgate::admission::{
    self, Answer, Doubt, Endpoint, Fault, LONGEST_LINE, LONGEST_WARNING, MOST_WARNINGS, Outcome, Review,
    Subject,
};
use jobgate::judge::engine::Operation;
use jobgate::judge::facts::{Claim, Fact, Facts, NoFacts};
use jobgate::judge::finding::{Level, Source};
use jobgate::judge::policy::Policy;
use serde_json::Value;
use serde_json::value::RawValue;

/// Every claim is known, and only one node can mount it.
struct OneNode;

impl Facts for OneNode {
    fn claim(&self, _namespace: &str, _name: &str) -> Fact<Claim> {
        Fact::Known(Claim { access_modes: vec!["ReadWriteOnce".to_owned()], source: Source::Cluster })
    }
}

static DEFAULT: LazyLock<Policy> = LazyLock::new(Policy::default);
static AUDIT: LazyLock<Policy> =
    LazyLock::new(|| jobgate::policies::builtin("audit").expect("a built-in policy"));

/// Takes a body as it is posted.
pub fn check(body: &[u8]) {
    let _ = admission::weight(body);
    let read = serde_json::from_slice::<Value>(body).ok();
    for (policy, facts) in [(&*DEFAULT, &NoFacts as &dyn Facts), (&DEFAULT, &OneNode), (&AUDIT, &OneNode)] {
        let ask = |endpoint, body: &[u8]| admission::answer(endpoint, policy, facts, body, None);
        let (mutate, validate) = (ask(Endpoint::Mutate, body), ask(Endpoint::Validate, body));
        assert_eq!(well_formed(&validate, read.as_ref()), None, "/validate never patches");
        let patch = well_formed(&mutate, read.as_ref());
        let denied = denials(&validate);
        // What is not read at all is denied without a finding.
        let unread = validate.meta.outcome == Outcome::Denied && validate.meta.findings.is_empty();
        assert!(
            allowed(&validate) == (denied == 0) || unread,
            "/validate refuses for a denial and for nothing else"
        );
        assert!(allowed(&mutate) || denied > 0, "/mutate refuses nothing that /validate would not");
        for (endpoint, answer) in [(Endpoint::Mutate, &mutate), (Endpoint::Validate, &validate)] {
            let bad = matches!(answer.meta.fault, Some(Fault::Patch(doubt)) if doubt != Doubt::TooLarge);
            assert!(!bad && answer.meta.fault != Some(Fault::Panic), "{:?}", answer.meta.fault);
            match Review::read_whole(body) {
                Ok(review) if !is_read(&review.subject) => {}
                Ok(review) => {
                    let whole = admission::judge(endpoint, policy, facts, review, None);
                    assert_eq!(*answer, whole, "what is passed over changes no answer");
                }
                Err(_) => assert_eq!(answer.meta.fault, Some(Fault::Malformed)),
            }
            for fault in [Fault::Deadline, Fault::Panic] {
                let open = admission::fail_open(body, fault);
                assert_eq!(well_formed(&open, read.as_ref()), None);
                assert!(allowed(&open));
            }
        }
        if let (Some(patch), Some(mut review)) = (patch, read.clone()) {
            assert!(allowed(&mutate));
            json_patch::patch(&mut review["request"]["object"], &patch).expect("a patch applies");
            let body = serde_json::to_vec(&review).expect("JSON");
            let second = ask(Endpoint::Mutate, &body);
            assert_eq!(well_formed(&second, Some(&review)), None, "the patched object is patched again");
            assert!(denials(&ask(Endpoint::Validate, &body)) <= denied, "a patch makes nothing worse");
        }
    }
    alone_and_together(body);
    for endpoint in Endpoint::ALL {
        well_formed(&admission::refuse_heavy(endpoint, &DEFAULT, body), read.as_ref());
        let cut = &body[..body.len() / 2];
        let oversized = admission::refuse_oversized(cut, 3 << 20);
        assert!(!allowed(&oversized) || oversized.status == 413);
    }
}

/// Tells whether all of the objects was read: in what is passed over, neither half of a surrogate pair nor
/// nesting beyond the limit is noticed.
fn is_read(subject: &Subject<'_>) -> bool {
    match subject {
        Subject::Object(change) => change.operation == Operation::Create || change.old.is_some(),
        Subject::Pass(_) | Subject::Fault(_) => true,
        Subject::SameSpec | Subject::Unread(_) => false,
    }
}

/// The objects of a body, each as a new one alone, and together in both roles and either order.
fn alone_and_together(body: &[u8]) {
    type Fields<'a> = HashMap<&'a str, &'a RawValue>;
    let fields = |text| serde_json::from_str::<Fields<'_>>(text).ok();
    let request =
        str::from_utf8(body).ok().and_then(fields).and_then(|review| fields(review.get("request")?.get()));
    let Some(request) = request else { return };
    let (Some(kind), Some(first), Some(second)) =
        (request.get("kind"), request.get("object"), request.get("oldObject"))
    else {
        return;
    };
    let body = |operation: &str, objects: &[(&str, &RawValue)]| {
        let objects: String = objects.iter().map(|(key, object)| format!(",\"{key}\":{object}")).collect();
        format!(
            r#"{{"kind":"AdmissionReview","request":{{"uid":"u","kind":{kind},"operation":"{operation}"{objects}}}}}"#
        )
    };
    for (new, old) in [(first, second), (second, first), (first, first)] {
        let [created, replaced] = [new, old].map(|object| body("CREATE", &[("object", object)]));
        let [created, replaced] = [&created, &replaced]
            .map(|body| Review::read(body.as_bytes(), DEFAULT.needs()).expect("a review").subject);
        for objects in [[("object", *new), ("oldObject", *old)], [("oldObject", *old), ("object", *new)]] {
            let update = body("UPDATE", &objects);
            let update = Review::read(update.as_bytes(), DEFAULT.needs()).expect("a review").subject;
            match (&created, &update) {
                (Subject::Object(created), Subject::Object(update)) => {
                    assert_eq!(created.object, update.object, "{}", new.get());
                    match &replaced {
                        Subject::Object(replaced) => assert_eq!(Some(&replaced.object), update.old.as_ref()),
                        Subject::Unread(_) => assert_eq!(update.old, None, "{}", old.get()),
                        // One of another kind, or none.
                        _ => {}
                    }
                }
                (Subject::Object(_) | Subject::Unread(_), Subject::SameSpec) => {
                    let unread = [&created, &replaced].map(|subject| matches!(subject, Subject::Unread(_)));
                    assert!(unread.contains(&true), "what is read is judged");
                }
                (Subject::Unread(created), Subject::Unread(update)) => assert_eq!(created, update),
                (Subject::Pass(created), Subject::Pass(update)) => assert_eq!(created, update),
                (Subject::Fault(created), Subject::Fault(update)) => assert_eq!(created, update),
                (created, update) => panic!("{created:?} was {update:?}"),
            }
        }
    }
}

fn denials(answer: &Answer) -> usize {
    answer.meta.findings.iter().filter(|(finding, _)| finding.1 == Level::Deny).map(|(_, count)| count).sum()
}

/// Tells whether an answer lets the object through; one that says nothing does where a webhook fails open.
fn allowed(answer: &Answer) -> bool {
    !matches!(answer.meta.outcome, Outcome::Denied)
}

/// Checks what an API server would, and returns the patch.
fn well_formed(answer: &Answer, body: Option<&Value>) -> Option<json_patch::Patch> {
    // Of a body that breaks off, the uid may be read or not; of a whole one it must be, if it is one.
    let sent = body.map(|body| body["request"]["uid"].as_str().filter(|uid| (1..=256).contains(&uid.len())));
    if answer.status != 200 {
        let text = str::from_utf8(&answer.body).expect("text");
        assert!(
            answer.status == 400 && text.ends_with('\n') && text.lines().count() == 1,
            "{} {text:?}",
            answer.status
        );
        assert!(answer.meta.uid.is_empty() && answer.meta.outcome == Outcome::Malformed, "{:?}", answer.meta);
        assert_eq!(sent.flatten(), None, "there is a uid to answer: {text:?}");
        return None;
    }
    let review: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let response = &review["response"];
    assert_eq!(review["kind"], "AdmissionReview");
    assert_eq!(response["uid"].as_str(), Some(&*answer.meta.uid));
    assert!(sent.is_none_or(|sent| sent == Some(&*answer.meta.uid)), "the uid is echoed");
    assert_eq!(response["allowed"].as_bool(), Some(allowed(answer)));
    let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control());
    let warnings: Vec<&str> = texts(response.get("warnings"));
    assert!(warnings.len() <= MOST_WARNINGS, "{warnings:?}");
    assert!(
        warnings.iter().all(|text| plain(text) && text.chars().count() <= LONGEST_WARNING),
        "{warnings:?}"
    );
    if let Some(status) = response.get("status") {
        assert_eq!((&status["code"], response["allowed"].as_bool()), (&403.into(), Some(false)));
        let message = status["message"].as_str().expect("text");
        assert!(message.split('\n').all(|line| plain(line) && line.len() <= LONGEST_LINE), "{message:?}");
    }
    for (key, value) in response.get("auditAnnotations").and_then(Value::as_object).into_iter().flatten() {
        assert!(
            plain(key) && !value.as_str().expect("text").contains(|c: char| c.is_control()),
            "{key}: {value}"
        );
    }
    assert_eq!(response.get("patch").is_some(), response.get("patchType").is_some(), "both or neither");
    let bytes = STANDARD.decode(response.get("patch")?.as_str().expect("text")).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&bytes).expect("a patch");
    assert!(!patch.is_empty() && patch.len() == answer.meta.patch_ops && allowed(answer));
    Some(patch)
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    let items = list.map_or(&[][..], |list| list.as_array().expect("a list"));
    items.iter().map(|text| text.as_str().expect("text")).collect()
}
