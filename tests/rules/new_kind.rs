//! A kind is one value, which may be made at run time: with its definition, and nothing else, it is linted, filled,
//! registered and documented.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its input fails")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobgate::admission::{self, Endpoint};
use jobgate::cli::pages;
use jobgate::judge::cel::export;
use jobgate::judge::facts::NoFacts;
use jobgate::kinds::registration::{Target, configurations};
use jobgate::kinds::{
    self, Api, CUSTOM, ContainerField, ContainerSlot, Count, Definition, Finished, Kind, NotAdded, Pods,
    Restart, TEMPLATE, Template, Ttl,
};
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::report::Located;
use jobgate::text::value::{Value, json};
use libtest_mimic::Trial;

/// Kinds as a file might have them: where the pods of each are, and where its limits.
const KINDS: &str = r#"[
    {"name": "SwarmJob", "resource": "swarmjobs", "limits": "spec.policy", "pods": "spec.tasks.*"},
    {"name": "HiveJob", "resource": "hivejobs", "limits": "spec.policy", "pods": "spec.bees.*"},
    {"name": "FlockJob", "resource": "flockjobs", "limits": "spec", "pods": "spec.steps.*", "container": "program",
     "shared": "spec", "deadline": "end.afterSeconds", "ttl": "cleanUp.after.seconds"}
]"#;

/// Makes a kind from a value.
fn kind(value: &Value) -> Definition {
    let text = |key: &str| -> &'static str { value[key].as_str().unwrap().to_owned().leak() };
    let path = |key: &str| -> &'static [&'static str] { text(key).split('.').collect::<Vec<_>>().leak() };
    let or = |key: &str, usual| if value.get(key).is_some() { path(key) } else { usual };
    let replicas = (
        TEMPLATE,
        Count::Replicas { unset: |_| 1, elastic: None },
        Restart::Beside { words: &["Never", "OnFailure"], ignored: None, unset: &[] },
    );
    // A list of pods without a template: each has one container, and what it lacks is in the mapping around the list.
    let steps = || {
        let field = ContainerField { name: text("container"), slot: ContainerSlot::Main, is_list: false };
        let shared = Some(path("shared"));
        let form = Template { at: &[], spec: &[], shared, containers: vec![field].leak() };
        (form, Count::One, Restart::Free)
    };
    let (template, count, restart) = if value.get("container").is_some() { steps() } else { replicas };
    Definition {
        group: "example.dev",
        version: "v1",
        name: text("name"),
        resource: text("resource"),
        limits: path("limits"),
        deadline_at: or("deadline", CUSTOM.deadline_at),
        ttl_at: or("ttl", CUSTOM.ttl_at),
        ttl: Ttl::Deletes { deletes_pods: true, jobs_run_again: false },
        pods: vec![Pods { at: path("pods"), template, count, restart }].leak(),
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

/// A kind of another form, with the claim that it uses.
const STEPS: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ml}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: example.dev/v1
kind: FlockJob
metadata: {name: train, namespace: ml}
spec:
  tolerations: [{key: dedicated, operator: Exists}]
  volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: data}}]
  steps:
  - name: plan
    then: [train, evaluate, report]
  - name: train
    program: {image: 'i:v1', resources: {limits: {nvidia.com/gpu: 1}}, volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]}
  - name: evaluate
    program: {image: 'i:v1', resources: {limits: {nvidia.com/gpu: 1}}}
  - name: report
    tolerations: [{key: other, operator: Exists}]
    program: {image: 'i:v1', resources: {limits: {nvidia.com/gpu: 1}}}
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
        trial("linted_in_another_form", linted_in_another_form),
        trial("filled_in_another_form", filled_in_another_form),
        trial("exported_in_another_form", exported_in_another_form),
        trial("registered", registered),
        trial("documented", documented),
    ]
}

/// Returns the rules and places of what is found in a manifest with one object to judge.
fn found(manifest: &str) -> Vec<String> {
    let input = Input::text("manifest.yaml", manifest.as_bytes());
    let policy = jobgate::policies::builtin("default").unwrap();
    let report = lint::lint(&[input], &policy, &Claims::default(), &Options::default()).report;
    assert!(report.unjudged.is_empty() && report.objects == 1);
    let place = |located: &Located| format!("{} {}", located.finding.rule, located.finding.path.to_path());
    report.findings.iter().map(place).collect()
}

fn linted() {
    assert_eq!(
        found(MANIFEST),
        [
            "deadline spec.policy.activeDeadlineSeconds",
            "ttl-after-finished spec.policy.ttlSecondsAfterFinished",
            "restart-policy spec.tasks.Worker.restartPolicy",
            "gpu-toleration spec.tasks.Worker.template.spec.tolerations",
        ]
    );
}

/// A list that pods share is reported once, and a step without a container has no pod.
fn linted_in_another_form() {
    assert_eq!(
        found(STEPS),
        [
            "deadline spec.end.afterSeconds",
            "ttl-after-finished spec.cleanUp.after.seconds",
            "gpu-toleration spec.tolerations",
            "checkpoint-volume-access spec.volumes[0].persistentVolumeClaim.claimName",
            "gpu-toleration spec.steps[3].tolerations",
        ]
    );
    let bounded =
        STEPS.replace("  steps:", "  end: {afterSeconds: 60}\n  cleanUp: {after: {seconds: 60}}\n  steps:");
    assert!(!found(&bounded).iter().any(|one| one.starts_with("deadline") || one.starts_with("ttl")));
}

/// Returns the object of a manifest's last document, and a review of it.
fn review(manifest: &str) -> (Value, String) {
    let object = jobgate::text::yaml::documents(manifest.as_bytes()).last().unwrap().unwrap().value;
    let (text, kind) = (serde_json::to_string(&object).unwrap(), &object["kind"]);
    let body = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"example.dev","version":"v1","kind":{kind}}},"operation":"CREATE","namespace":"ml","object":{text}}}}}"#
    );
    (object, body)
}

fn filled_in_another_form() {
    let (object, body) = review(STEPS);
    let policy = jobgate::policies::builtin("default").unwrap();
    let answer = admission::answer(Endpoint::Mutate, &policy, &NoFacts, body.as_bytes(), None);
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let patch = STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut patched = object.to_json();
    json_patch::patch(&mut patched, &patch).unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let filled = |own: &str| {
        let gpu = r#"{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}"#;
        json(&format!(r#"[{{"key": "{own}", "operator": "Exists"}}, {gpu}]"#))
    };
    assert_eq!(patched["spec"]["cleanUp"], json(r#"{"after": {"seconds": 86400}}"#));
    assert_eq!(patched["spec"]["tolerations"], filled("dedicated"));
    assert_eq!(patched["spec"]["steps"][3]["tolerations"], filled("other"));
    assert!(patched["spec"]["steps"][1].get("tolerations").is_none());
}

/// The policies of the API server find the containers and the deadline of this form, too.
fn exported_in_another_form() {
    let policy = jobgate::policies::builtin("accelerators").unwrap();
    let text = export(&policy, "jobgate", None).to_yaml();
    assert!(text.contains("o.?spec.?end.?afterSeconds"), "{text}");
    assert!(text.contains("{'spec': {'containers': [item.?program.orValue({})]}}"), "{text}");
}

fn filled() {
    let (_, body) = review(MANIFEST);
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
        assert_eq!(ours["resources"], json!(["swarmjobs", "hivejobs", "flockjobs"]));
    }
}

fn documented() {
    let [swarm, hive] = ["SwarmJob", "HiveJob"].map(|name| Kind::named("example.dev", name).unwrap());
    assert!(swarm != hive && swarm < hive && Kind::JOB < swarm);
    assert!(pages::page_for_editor("deadline").unwrap().contains("`SwarmJob`"));
}
