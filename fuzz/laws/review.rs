//! Every body is answered: a review by its uid, anything else by 400; a patch fits, and none is needed after
//! it; only a denial refuses.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobgate::admission::{
    self, Answer, Doubt, Endpoint, Fault, LONGEST_LINE, LONGEST_WARNING, MOST_WARNINGS, Outcome, Review,
};
use jobgate::judge::facts::{Claim, Fact, Facts, NoFacts};
use jobgate::judge::finding::{Level, Source};
use jobgate::judge::policy::Policy;
use serde_json::Value;

/// Every claim is known, and only one node can mount it.
struct OneNode;

impl Facts for OneNode {
    fn claim(&self, _namespace: &str, _name: &str) -> Fact<Claim> {
        Fact::Known(Claim { access_modes: vec!["ReadWriteOnce".to_owned()], source: Source::Cluster })
    }
}

static DEFAULT: LazyLock<Policy> = LazyLock::new(Policy::default);
static AUDIT: LazyLock<Policy> = LazyLock::new(|| Policy::builtin("audit").expect("a built-in policy"));

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
            let whole = Review::read_whole(body)
                .map(|review| admission::judge(endpoint, policy, facts, review, None));
            assert!(
                whole.map_or(answer.meta.fault == Some(Fault::Malformed), |whole| alike(answer, &whole)),
                "skimmed: {answer:?}"
            );
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
    for endpoint in Endpoint::ALL {
        well_formed(&admission::refuse_heavy(endpoint, &DEFAULT, body), read.as_ref());
        let cut = &body[..body.len() / 2];
        let oversized = admission::refuse_oversized(cut, 3 << 20);
        assert!(!allowed(&oversized) || oversized.status == 413);
    }
}

/// Tells whether an object was judged alike when all of it was read, if all of it can be: in what is passed
/// over, neither half of a surrogate pair nor nesting beyond the limit is noticed.
fn alike(skimmed: &Answer, whole: &Answer) -> bool {
    let meta = &whole.meta;
    let unread = meta.fault == Some(Fault::ObjectUnreadable)
        || meta.outcome == Outcome::Denied && meta.findings.is_empty();
    skimmed == whole || unread
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
