//! A kind is one value: with its definition, and nothing else, it is linted, filled, registered and
//! documented.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use jobgate::admission::{self, Endpoint};
use jobgate::cli::pages;
use jobgate::judge::facts::NoFacts;
use jobgate::judge::policy::Policy;
use jobgate::kinds::registration::{Target, configurations};
use jobgate::kinds::{self, Api, CUSTOM, Count, Definition, Finished, Pods, Restart, Ttl};
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

static SWARM_JOB: Definition = Definition {
    group: "example.dev",
    version: "v1",
    name: "SwarmJob",
    resource: "swarmjobs",
    limits: &["spec", "policy"],
    ttl: Ttl::Deletes { what: "the finished swarm is", deletes_pods: true, of_job: None },
    pods: &[Pods {
        at: &["spec", "tasks", "*"],
        template: "template",
        count: Count::Replicas { unset: |_| 1, elastic: None },
        restart: Restart::Beside { words: &["Never", "OnFailure"], ignored: None, unset: &[] },
    }],
    api: Api::Custom { schema: r#"{"type": "object"}"#, operator: None },
    finished: Finished::Conditions(&["Done"]),
    ..CUSTOM
};

const MANIFEST: &str = "\
apiVersion: example.dev/v1
kind: SwarmJob
metadata: {name: train, namespace: ml}
spec:
  tasks:
    Worker:
      replicas: 2
      restartPolicy: Always
      template: {spec: {containers: [{name: c, image: 'i:v1', resources: {limits: {nvidia.com/gpu: 1}}}]}}
";

/// Adds the kind to this process and returns the trials.
pub(crate) fn trials() -> Vec<Trial> {
    kinds::add_for_testing(&SWARM_JOB);
    let trial = |name: &str, run: fn()| {
        Trial::test(format!("new_kind::{name}"), move || {
            run();
            Ok(())
        })
    };
    vec![
        trial("linted", linted),
        trial("filled", filled),
        trial("registered", registered),
        trial("documented", documented),
    ]
}

fn linted() {
    let input = Input::text("swarm.yaml", MANIFEST.as_bytes());
    let policy = Policy::builtin("default").unwrap();
    let report = lint::lint(&[input], &policy, &Claims::default(), &Options::default()).report;
    let found: Vec<String> = report
        .findings
        .iter()
        .map(|located| format!("{} {}", located.finding.rule, located.finding.path.to_path()))
        .collect();
    assert_eq!(
        found,
        [
            "deadline spec.policy.activeDeadlineSeconds",
            "ttl-after-finished spec.policy.ttlSecondsAfterFinished",
            "restart-policy spec.tasks.Worker.restartPolicy",
            "gpu-toleration spec.tasks.Worker.template.spec.tolerations",
        ]
    );
    assert!(report.unjudged.is_empty() && report.objects == 1);
}

fn filled() {
    let object = serde_json::to_string(
        &jobgate::text::yaml::documents(MANIFEST.as_bytes()).next().unwrap().unwrap().value,
    )
    .unwrap();
    let body = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"example.dev","version":"v1","kind":"SwarmJob"}},"operation":"CREATE","namespace":"ml","object":{object}}}}}"#
    );
    let policy = Policy::builtin("default").unwrap();
    let answer = admission::answer(Endpoint::Mutate, &policy, &NoFacts, body.as_bytes(), None);
    assert_eq!((answer.status, answer.meta.fault, answer.meta.patch_ops), (200, None, 2), "{answer:?}");
    let refused = admission::answer(Endpoint::Validate, &policy, &NoFacts, body.as_bytes(), None);
    let refused: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(refused["response"]["allowed"], json!(false));
}

fn registered() {
    let [mutating, validating] =
        configurations("jobgate", &Target::Url("https://127.0.0.1".to_owned()), None);
    for configuration in [mutating, validating] {
        let rules = configuration["webhooks"][0]["rules"].as_array().unwrap();
        assert!(
            rules.iter().any(|rule| rule["apiGroups"] == json!(["example.dev"])
                && rule["resources"] == json!(["swarmjobs"]))
        );
    }
}

fn documented() {
    assert!(pages::page_for_editor("deadline").unwrap().contains("`SwarmJob`"));
}
