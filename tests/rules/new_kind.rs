//! A kind is one value, which may be made at run time: with its definition, and nothing else, it is linted, filled,
//! registered and documented.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use jobgate::admission::{self, Endpoint};
use jobgate::cli::pages;
use jobgate::judge::facts::NoFacts;
use jobgate::kinds::registration::{Target, configurations};
use jobgate::kinds::{
    self, Api, CUSTOM, Count, Definition, Finished, Kind, NotAdded, Pods, Restart, TEMPLATE, Ttl,
};
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

/// Kinds as a file might have them: where the pods of each are, and where its limits.
const KINDS: &str = r#"[
    {"name": "SwarmJob", "resource": "swarmjobs", "limits": "spec.policy", "pods": "spec.tasks.*"},
    {"name": "HiveJob", "resource": "hivejobs", "limits": "spec.policy", "pods": "spec.bees.*"}
]"#;

/// Makes a kind from a value.
fn kind(value: &Value) -> Definition {
    let text = |key: &str| -> &'static str { value[key].as_str().unwrap().to_owned().leak() };
    let path = |key: &str| -> &'static [&'static str] { text(key).split('.').collect::<Vec<_>>().leak() };
    Definition {
        group: "example.dev",
        version: "v1",
        name: text("name"),
        resource: text("resource"),
        limits: path("limits"),
        ttl: Ttl::Deletes { what: "the finished swarm is", deletes_pods: true, of_job: None },
        pods: vec![Pods {
            at: path("pods"),
            template: TEMPLATE,
            count: Count::Replicas { unset: |_| 1, elastic: None },
            restart: Restart::Beside { words: &["Never", "OnFailure"], ignored: None, unset: &[] },
        }]
        .leak(),
        api: Api::Custom { schema: r#"{"type": "object"}"#, operator: None },
        finished: Finished::Conditions(&["Done"]),
        ..CUSTOM
    }
}

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

/// Adds the kinds to this process and returns the trials. Nothing may ask for kinds before.
pub(crate) fn trials() -> Vec<Trial> {
    let made: Value = serde_json::from_str(KINDS).unwrap();
    let job = || vec![Definition { name: "Job", group: "batch", version: "v1", ..CUSTOM }];
    assert_eq!(kinds::add(job()).unwrap_err().to_string(), "the kind Job of batch/v1 is known");
    kinds::add(made.as_array().unwrap().iter().map(kind).collect()).unwrap();
    assert_eq!(kinds::add(Vec::new()), Err(NotAdded::TooLate));
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
    let policy = jobgate::policies::builtin("default").unwrap();
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
    let policy = jobgate::policies::builtin("default").unwrap();
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
        let ours = rules.iter().find(|rule| rule["apiGroups"] == json!(["example.dev"])).unwrap();
        assert_eq!(ours["resources"], json!(["swarmjobs", "hivejobs"]));
    }
}

fn documented() {
    let [swarm, hive] = ["SwarmJob", "HiveJob"].map(|name| Kind::named("example.dev", name).unwrap());
    assert!(swarm != hive && swarm < hive && Kind::JOB < swarm);
    assert!(pages::page_for_editor("deadline").unwrap().contains("`SwarmJob`"));
}
