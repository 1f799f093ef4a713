//! Laws of the admission answers, over generated objects of every kind for which the webhook is registered,
//! with any JSON type in any field.
//!
//! 12 thousand cases in the ordinary test run; the long run is
//!
//! ```text
//! JOBGATE_CASES=1000000 cargo test --release --test integration property_admission
//! ```
//!
//! A failing case prints its number; `JOBGATE_CASE=<number>` runs that one alone. Every case is made from its
//! number, on any machine alike.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use jobgate::admission::{
    self, Answer, Endpoint, Fault, LONGEST_LINE, LONGEST_WARNING, MOST_FINDINGS, MOST_WARNINGS, Review,
};
use jobgate::judge::facts::{Fact, FactTable};
use jobgate::judge::finding::Level;
use jobgate::judge::policy::Policy;
use jobgate::judge::verdict::Skipped;
use jobgate::kinds::{Kind, OnUpdate};
use jobgate::text::value::{Value, json};

use crate::support::generate::fills::{self, Fill};
use crate::support::generate::{self, Case, Random, places};

/// How many cases an ordinary run has: enough for each law to be put to the test with each kind.
const CASES: u64 = 12_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
fn answers_are_well_formed_and_patches_fit() {
    let policies = generate::policies();
    if let Some(case) = number("JOBGATE_CASE") {
        let case = generate::case(&mut Random::new(case), policies.len());
        println!("{}", case.review(false));
        ByKind::default().check(&policies, &case);
        return;
    }
    let cases = number("JOBGATE_CASES").unwrap_or(CASES);
    let next = AtomicU64::new(0);
    let work = || {
        let mut seen = ByKind::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= cases {
                return seen;
            }
            let case = generate::case(&mut Random::new(number), policies.len());
            if catch_unwind(AssertUnwindSafe(|| seen.check(&policies, &case))).is_err() {
                next.store(cases, Ordering::Relaxed);
                panic!("case {number}: {}", case.review(false));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let seen = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no case fails"))
            .fold(ByKind::default(), ByKind::plus)
    });
    println!("{cases} cases");
    for (kind, seen) in &seen.0 {
        println!("{}: {seen:?}", kind.api_version() + "/" + kind.as_str());
    }
    if cases < CASES {
        return;
    }
    // Laws that are never put to the test hold too easily.
    let kinds = places::kinds();
    let enough = cases / kinds.len() as u64 / 100;
    let mut restored: BTreeMap<String, u64> = BTreeMap::new();
    for kind in kinds {
        let seen = seen.0.get(&kind).cloned().unwrap_or_default();
        let title = kind.title();
        let fills: Vec<String> = fills::fills(kind).iter().map(Fill::place).collect();
        if !fills.is_empty() && kind.on_update != OnUpdate::NextRuns {
            *restored.entry(format!("{:?}", kind.on_update)).or_default() += seen.restored;
        }
        for place in fills {
            assert!(seen.filled.contains_key(&place), "{title}: nothing was filled in at {place}");
        }
        let has_parents = kind.parents().next().is_some();
        assert!(
            seen.denied > enough
                && seen.warned > enough
                && seen.passed > enough
                && (seen.made > enough || !has_parents),
            "{title}: {seen:?}"
        );
    }
    assert!(restored.values().all(|times| *times > enough), "restored: {restored:?}");
}

/// What the cases of each kind were like.
#[derive(Debug, Default)]
struct ByKind(BTreeMap<Kind, Seen>);

impl ByKind {
    fn plus(mut self, other: Self) -> Self {
        for (kind, seen) in other.0 {
            let sum = self.0.entry(kind).or_default();
            *sum = std::mem::take(sum).plus(seen);
        }
        self
    }

    fn check(&mut self, policies: &[Policy], case: &Case) {
        self.0.entry(case.kind).or_default().check(policies, case);
    }
}

/// What the cases were like.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// How often each place was filled in.
    filled: BTreeMap<String, u64>,
    restored: u64,
    denied: u64,
    denied_early: u64,
    warned: u64,
    passed: u64,
    made: u64,
    faults: u64,
}

impl Seen {
    fn plus(mut self, other: Self) -> Self {
        for (place, times) in other.filled {
            *self.filled.entry(place).or_default() += times;
        }
        Self {
            filled: self.filled,
            restored: self.restored + other.restored,
            denied: self.denied + other.denied,
            denied_early: self.denied_early + other.denied_early,
            warned: self.warned + other.warned,
            passed: self.passed + other.passed,
            made: self.made + other.made,
            faults: self.faults + other.faults,
        }
    }

    fn check(&mut self, policies: &[Policy], case: &Case) {
        let policy = &policies[case.policy];
        let (wet, dry) = (case.review(false).to_string(), case.review(true).to_string());
        let ask =
            |endpoint, body: &str| admission::answer(endpoint, policy, &case.facts, body.as_bytes(), None);
        let (mutate, validate) = (ask(Endpoint::Mutate, &wet), ask(Endpoint::Validate, &wet));
        let ops = well_formed(case, &mutate).unwrap_or_default();
        assert_eq!(well_formed(case, &validate), None, "/validate never patches");
        assert_eq!(mutate.body, ask(Endpoint::Mutate, &dry).body, "a dry run is answered alike");
        assert_eq!(validate.body, ask(Endpoint::Validate, &dry).body, "a dry run is answered alike");
        for (endpoint, skimmed) in [(Endpoint::Mutate, &mutate), (Endpoint::Validate, &validate)] {
            let whole = Review::read_whole(wet.as_bytes())
                .map(|review| admission::judge(endpoint, policy, &case.facts, review, None));
            assert_eq!(
                whole.ok().as_ref(),
                Some(skimmed),
                "what is passed over while reading changes no answer"
            );
        }
        for answer in [&mutate, &validate] {
            assert!(
                !matches!(answer.meta.fault, Some(Fault::Patch(_) | Fault::Malformed | Fault::Panic)),
                "{:?}",
                answer.meta.fault
            );
            self.faults += u64::from(answer.meta.fault.is_some());
        }
        let denied = denials(&validate);
        assert_eq!(allowed(&validate), denied == 0, "/validate rejects for a denial and for nothing else");
        assert!(
            allowed(&mutate) || (denied > 0 && ops.is_empty()),
            "/mutate rejects nothing that /validate would not"
        );
        if !allowed(&mutate) {
            assert!(
                mutate.meta.findings.contains_key(&("restart-policy".into(), Level::Deny))
                    && case.kind.is_built_in()
            );
            self.denied_early += 1;
        }
        self.unknown_claims_never_deny(policy, case, &wet);
        if case.is_none_of_ours() {
            assert!(allowed(&mutate) && allowed(&validate) && ops.is_empty());
            self.passed += 1;
        } else if mutate.meta.fault.is_none() {
            for answer in [&mutate, &validate] {
                let is_trusted = answer.meta.skipped.is_some_and(Skipped::is_trusted);
                assert_eq!(
                    is_trusted,
                    case.is_made(),
                    "only what a controller made of its own is let through"
                );
                assert!(!is_trusted || answer.meta.findings.is_empty() && answer.meta.patch_ops == 0);
            }
            self.made += u64::from(case.is_made());
        }
        self.denied += u64::from(denied > 0);
        self.warned += u64::from(validate.meta.warnings > 0);
        if ops.is_empty() {
            return;
        }
        let patched = crate::support::evanphx::apply(&case.object, &Value::Array(ops))
            .expect("the API server's engine applies it");
        assert_ne!(patched, case.object, "a patch changes something");
        for place in fills::assert_only_fills(case.kind, &case.object, &patched) {
            *self.filled.entry(place).or_default() += 1;
        }
        if case.operation == "UPDATE" && case.kind.on_update != OnUpdate::NextRuns {
            self.restored += 1;
            let old = case.old.as_ref().expect("an UPDATE has an old object");
            fills::assert_restored(case.kind, &case.object, &patched, old);
        }
        let again = case.with_object(patched);
        let second = ask(Endpoint::Mutate, &again.review(false).to_string());
        assert_eq!(well_formed(&again, &second), None, "the patched object is not patched again");
        let after = ask(Endpoint::Validate, &again.review(false).to_string());
        assert!(denials(&after) <= denied, "a patch makes nothing worse");
    }

    fn unknown_claims_never_deny(&self, policy: &Policy, case: &Case, body: &str) {
        let unknown = FactTable {
            claims: case.facts.claims.keys().map(|key| (key.clone(), Fact::Unknown)).collect(),
            ..case.facts.clone()
        };
        let answer = admission::answer(Endpoint::Validate, policy, &unknown, body.as_bytes(), None);
        assert!(
            !answer.meta.findings.contains_key(&("checkpoint-volume-access".into(), Level::Deny)),
            "nobody knows the claim"
        );
    }
}

fn response(answer: &Answer) -> Value {
    let mut review: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    review["response"].take()
}

fn allowed(answer: &Answer) -> bool {
    response(answer)["allowed"].as_bool().expect("a boolean")
}

fn denials(answer: &Answer) -> usize {
    answer.meta.findings.iter().filter(|(finding, _)| finding.1 == Level::Deny).map(|(_, count)| count).sum()
}

/// Checks everything that an API server would, and returns the operations of the patch.
fn well_formed(case: &Case, answer: &Answer) -> Option<Vec<Value>> {
    assert_eq!(answer.status, 200);
    let response = response(answer);
    let known = ["allowed", "auditAnnotations", "patch", "patchType", "status", "uid", "warnings"];
    assert!(response.as_object().expect("a mapping").keys().all(|key| known.contains(&key)), "{response}");
    assert_eq!(response["uid"], case.uid, "the uid is echoed");
    let plain = |text: &str| !text.contains(|c: char| c.is_control());
    let warnings: Vec<&str> = response.get("warnings").map_or_else(Vec::new, |list| {
        list.as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
    });
    assert!(warnings.len() <= MOST_WARNINGS && warnings.len() == answer.meta.warnings);
    assert!(
        warnings
            .iter()
            .all(|text| !text.is_empty() && plain(text) && text.chars().count() <= LONGEST_WARNING),
        "{warnings:?}"
    );
    assert!(
        warnings
            .iter()
            .enumerate()
            .all(|(at, text)| !warnings[..at].contains(text) && !text.starts_with("Warning:")),
        "{warnings:?}"
    );
    for (key, value) in response["auditAnnotations"].as_object().expect("annotations") {
        assert!(!key.is_empty() && key.len() <= 63 && key.chars().all(|c| c.is_ascii_lowercase()), "{key}");
        assert!(plain(value.as_str().expect("text")), "{key}: {value}");
    }
    if response["allowed"] == true {
        assert_eq!(response.get("status"), None);
    } else {
        let status = &response["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
        denial_reads_well(status["message"].as_str().expect("text"), denials(answer));
    }
    assert_eq!(response.get("patch").is_some(), response.get("patchType").is_some(), "both or neither");
    let patch = response.get("patch")?;
    assert_eq!((&response["patchType"], &response["allowed"]), (&json!("JSONPatch"), &json!(true)));
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(patch.as_str().expect("text")).expect("base64");
    let ops: Vec<Value> = serde_json::from_slice(&bytes).expect("a list");
    assert!(!ops.is_empty() && ops.len() == answer.meta.patch_ops);
    Some(ops)
}

fn denial_reads_well(message: &str, count: usize) {
    let mut lines = message.split('\n');
    let noun = if count == 1 { "problem" } else { "problems" };
    assert_eq!(lines.next(), Some(&*format!("{count} {noun}:")), "the count comes first");
    let lines: Vec<&str> = lines.collect();
    assert!(lines.len() <= MOST_FINDINGS + 3, "{} lines", lines.len());
    assert!(
        lines.iter().all(|line| !line.is_empty()
            && line.len() <= LONGEST_LINE
            && !line.contains(|c: char| c.is_control())),
        "{message:?}"
    );
    let problems =
        lines.iter().take_while(|line| !line.ends_with(" warning:") && !line.ends_with(" warnings:"));
    assert!(problems.count() >= count.min(MOST_FINDINGS), "every problem is listed: {message}");
}
