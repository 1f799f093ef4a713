//! What the API server says by exported policies, beside what Jobgate says: each of the fixtures of all rules, by
//! each built-in policy and by policies with overrides and exemptions.

use std::path::{Path, PathBuf};

use jobgate::judge::finding::Level;
use jobgate::judge::policy::{Action, Policy, RuleSettings};
use jobgate::kinds::Kind;
use jobgate::policies::BUILTINS;
use jobgate::text::value::{Value, json};

use crate::api::Api;
use crate::cel::{InForce, OWN, RULES, documents, files, wrapped};
use crate::cluster::shared;
use crate::manifests::{endless, job, over, pytorch_job};
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("policies_in_the_api_server_agree_on_fixtures_and_corpus", default_policy)
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_agree_by_each_built_in_policy", built_in)
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_agree_by_overrides_and_exemptions", own)
        .ungated()
        .needs(Needs::CustomResources),
    Scenario::new("policies_in_the_api_server_judge_what_is_inside", inside)
        .ungated()
        .needs(Needs::CustomResources),
];

/// Overrides and exemptions of kinds that share a name, of accelerators, and of names and labels.
const BY_KIND: &str = r#"
apiVersion: jobgate.dev/v1alpha1
kind: Policy
metadata: {name: by-kind}
spec:
  rules:
    restart-policy: {action: warn}
  overrides:
  - match: {kinds: [Job.batch.volcano.sh, CronJob]}
    rules: {deadline: {action: warn}}
  - match: {kinds: [TFJob, MPIJob], accelerators: true}
    rules: {restart-policy: {action: deny}}
  - match: {kinds: [RayJob, TrainJob], accelerators: false}
    rules: {deadline: {action: ignore}}
  - match: {accelerators: true, labels: {app: trainer}}
    rules: {deadline: {action: deny, params: {maximum: 7200}}}
  exemptions:
  - match: {kinds: [Job.batch.volcano.sh, JobSet]}
    rules: [deadline]
    reason: neither has a deadline of its own
  - match: {kinds: [PyTorchJob], names: ["*-exempt"]}
    reason: moves to the trainer
  optOut: denials
"#;

fn fixtures() -> Vec<PathBuf> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules"))
}

fn default_policy(place: &Place<'_>) {
    let mut all = fixtures();
    all.extend(shared("corpus").iter().flat_map(|folder| files(folder)));
    let counts = compare(place, Policy::default(), &all);
    assert!(
        counts
            .is_none_or(|Counts { denied, admitted, .. }| denied[0] >= 5 && denied[1] >= 1 && admitted >= 5),
        "{counts:?}"
    );
}

fn built_in(place: &Place<'_>) {
    for builtin in BUILTINS.iter().filter(|builtin| builtin.name != "default") {
        let policy = jobgate::policies::builtin(builtin.name).expect("a built-in policy");
        println!("{}: {:?}", builtin.name, compare(place, policy, &fixtures()));
    }
}

fn own(place: &Place<'_>) {
    for source in [OWN, BY_KIND] {
        let policy = Policy::parse(source, "own.yaml").expect("a policy");
        let counts = compare(place, policy, &fixtures());
        assert!(counts.is_none_or(|counts| counts.warned >= 5 && counts.denied[0] >= 5), "{counts:?}");
    }
}

/// How many objects there were.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    denied: [usize; 2],
    warned: usize,
    admitted: usize,
    not_valid: usize,
}

/// Compares what is said of each object of some files. `None` where the API server knows no such policies.
fn compare(place: &Place<'_>, policy: Policy, files: &[PathBuf]) -> Option<Counts> {
    let strict = as_denials(policy.clone());
    let policies = InForce::of(place, policy)?;
    let api = Api::admin(place.cluster);
    let mut counts = Counts::default();
    for file in files {
        for mut object in documents(file) {
            let Some(kind) = Kind::from_object(&object) else { continue };
            if object["apiVersion"] != kind.api_version().as_str() || !object["metadata"].is_object() {
                continue;
            }
            object["metadata"]["namespace"] = place.namespace.as_str().into();
            let (status, said) = api.dry_run(&place.namespace, &object);
            let theirs = RULES.map(|rule| policies.says(&said, rule));
            if status >= 300 && theirs == [None; 2] {
                // What is not valid is rejected before any policy is asked.
                counts.not_valid += 1;
                continue;
            }
            // Jobgate warns of more by the same rules, whatever the action is; that is not exported.
            let ours = RULES.map(|rule| match policies.ours(&object, rule) {
                Some(Level::Warn) if policies.judged(&strict, &object, rule) != Some(Level::Deny) => None,
                level => level.filter(|level| *level > Level::Note),
            });
            let denied = |levels: [Option<Level>; 2]| levels.map(|level| level == Some(Level::Deny));
            let place = file.display();
            if denied(ours).contains(&true) || denied(theirs).contains(&true) {
                // The first policy that denies is in the answer, and the API server asks in no order.
                assert!(denied(theirs).contains(&true), "{place}: {ours:?}: {status} {said}");
                for (index, rule) in RULES.iter().enumerate() {
                    let (ours, theirs) = (denied(ours)[index], denied(theirs)[index]);
                    assert!(ours || !theirs, "{place}: {rule}: {said}");
                    counts.denied[index] += usize::from(theirs);
                }
            } else {
                assert_eq!(ours, theirs, "{place}: {status} {said}");
                counts.warned += usize::from(theirs != [None; 2]);
                counts.admitted += 1;
            }
        }
    }
    assert_eq!(policies.errors(), [""; 0]);
    Some(counts)
}

/// Returns a policy that denies what this one warns of, by the rules that are exported.
fn as_denials(mut policy: Policy) -> Policy {
    let stricter = |settings: &mut RuleSettings| {
        if settings.action == Some(Action::Warn) {
            settings.action = Some(Action::Deny);
        }
    };
    for over in &mut policy.overrides {
        over.rules
            .iter_mut()
            .filter(|(id, _)| RULES.contains(&id.as_str()))
            .for_each(|(_, own)| stricter(own));
    }
    let mut all = policy.settings().clone();
    for id in RULES {
        let base = policy.base(id).expect("a rule").action;
        let settings = all.entry(id.to_owned()).or_default();
        settings.action = Some(base);
        stricter(settings);
    }
    policy.with_settings(all)
}

/// Objects in an `AppWrapper`, which nobody has validated.
fn inside(place: &Place<'_>) {
    let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: inside}\nspec:
  exemptions:
  - match: {kinds: [PyTorchJob], labels: {tier: free}}
    rules: [deadline]
    reason: runs on idle nodes
  - match: {names: [exempt]}
    reason: moves to the trainer
  optOut: denials";
    let Some(policies) = InForce::of(place, Policy::parse(policy, "own.yaml").expect("a policy")) else {
        return;
    };
    let api = Api::admin(place.cluster);
    let good = || job("good", json!({}));
    let deadline = |value: Value| {
        let mut object = good();
        object["spec"]["activeDeadlineSeconds"] = value;
        object
    };
    let no_run_policy = |change: Value| over(pytorch_job("p", json!({"spec": {"runPolicy": null}})), change);
    let ignored = json!({"metadata": {"annotations": {"jobgate.dev/ignore": "deadline"}}});
    let volcano = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": {}});
    let cases = [
        (wrapped("good", [good(), good()]), false),
        (wrapped("second", [good(), endless("b")]), true),
        (wrapped("exempt", [endless("b")]), false),
        (wrapped("p", [no_run_policy(json!({}))]), true),
        (wrapped("p", [no_run_policy(json!({"metadata": {"labels": {"tier": "free"}}}))]), false),
        (wrapped("other", [volcano]), false),
        (wrapped("null", [deadline(Value::Null)]), true),
        (wrapped("word", [deadline("60".into())]), false),
        (wrapped("zero", [deadline(0.into())]), true),
        (wrapped("own", [over(endless("b"), ignored.clone())]), false),
        (over(wrapped("outer", [endless("b")]), ignored), false),
        (
            wrapped(
                "no-mapping",
                [json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "n"}, "spec": "x"})],
            ),
            false,
        ),
        (
            wrapped("no-spec", [json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "n"}})]),
            false,
        ),
    ];
    for (object, denies) in &cases {
        let (status, said) = api.dry_run(&place.namespace, object);
        let theirs = policies.says(&said, "deadline") == Some(Level::Deny);
        assert_eq!((theirs, status < 300), (*denies, !denies), "{object:#}: {said}");
        assert_eq!(policies.ours(object, "deadline") == Some(Level::Deny), *denies, "{object:#}");
    }
    assert_eq!(policies.errors(), [""; 0]);
    // What cannot be evaluated hides nothing beside it.
    let errors = |name: &str| policies.errors().iter().filter(|line| line.contains(name)).count();
    let mut broken = pytorch_job("broken", json!({}));
    broken["spec"]["pytorchReplicaSpecs"] = "x".into();
    let mut always = pytorch_job("always", json!({}));
    always["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Always".into();
    for objects in [[broken.clone(), always.clone()], [always, broken.clone()]] {
        let object = wrapped("beside", objects);
        let (_, said) = api.dry_run(&place.namespace, &object);
        assert_eq!(policies.says(&said, "restart-policy"), Some(Level::Deny), "{object:#}: {said}");
    }
    let (status, said) = api.dry_run(&place.namespace, &wrapped("alone", [broken]));
    assert!(status < 300, "{said}");
    assert_eq!(errors("jobgate-restart-policy-in-appwrapper"), 1, "where it passes, that is counted");
}
