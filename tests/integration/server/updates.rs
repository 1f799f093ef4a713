//! Updates, as the server is sent them: whatever the old object is like, it is no way around the rules.

use jobgate::cluster::Claims;
use jobgate::judge::policy::Policy;
use jobgate::serve::webhook::Webhook;
use jobgate::text::value::{Value, json};

use super::*;

/// A kind, with what breaks a rule, and the pointer to a container.
struct Sample {
    object: Value,
    /// Where something is taken out, or put in, and then the rule is broken.
    wrong: (&'static str, Option<&'static str>),
    rule: &'static str,
    container: &'static str,
}

fn samples() -> [Sample; 4] {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "pytorch", "image": "i"}]}});
    let job = json!({"activeDeadlineSeconds": 60, "template": pod});
    let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "n"}, "spec": spec});
    let replicas = json!({"Master": {"replicas": 1, "restartPolicy": "Never", "template": pod}});
    [
        Sample {
            object: object("batch/v1", "Job", job.clone()),
            wrong: ("/spec/activeDeadlineSeconds", None),
            rule: "deadline",
            container: "/spec/template/spec/containers/0",
        },
        Sample {
            object: object(
                "batch/v1",
                "CronJob",
                json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}),
            ),
            wrong: ("/spec/jobTemplate/spec/activeDeadlineSeconds", None),
            rule: "deadline",
            container: "/spec/jobTemplate/spec/template/spec/containers/0",
        },
        Sample {
            object: object(
                "kubeflow.org/v1",
                "PyTorchJob",
                json!({"runPolicy": {"activeDeadlineSeconds": 60}, "pytorchReplicaSpecs": replicas}),
            ),
            wrong: ("/spec/runPolicy/activeDeadlineSeconds", None),
            rule: "deadline",
            container: "/spec/pytorchReplicaSpecs/Master/template/spec/containers/0",
        },
        Sample {
            object: object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": [{"name": "w", "template": {"spec": job}}]}),
            ),
            wrong: ("/spec/replicatedJobs/0/template/spec/template/spec/restartPolicy", Some("Always")),
            rule: "restart-policy",
            container: "/spec/replicatedJobs/0/template/spec/template/spec/containers/0",
        },
    ]
}

impl Sample {
    /// Returns the object as it breaks the rule.
    fn violator(&self) -> Value {
        let mut object = self.object.clone();
        let (place, value) = self.wrong;
        let (parent, key) = place.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        parent.remove(key);
        if let Some(value) = value {
            parent.insert(key, value.into());
        }
        object
    }

    fn review(&self, operation: &str, new: &str, old: &str) -> String {
        let (group, version) = self.object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = json!({"group": group, "version": version, "kind": self.object["kind"]});
        format!(
            r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","kind":{kind},"operation":"{operation}","namespace":"n","userInfo":{{"username":"dev"}},"object":{new},"oldObject":{old}}}}}"#
        )
    }
}

/// Stands for what nests deeply: a value cannot hold it.
const DEEP: &str = "@deep@";

/// Returns an object as JSON, with as many lists in one another as there are levels where it says so.
fn written(object: &Value, levels: usize) -> String {
    let nested = ["[".repeat(levels), "]".repeat(levels)].concat();
    object.to_string().replace(&format!("\"{DEEP}\""), &nested)
}

/// What the webhook passes over: a pointer below the container or, if there is none, the root, and the value.
fn passed_over() -> Vec<(bool, &'static str, Value)> {
    let of_container =
        ["livenessProbe", "ports", "readinessProbe", "securityContext", "startupProbe", "volumeDevices"];
    let of_owned = ["f:containers", "f:initContainers", "f:metadata", "f:status", "f:volumes"];
    let entry = |entry: Value| (false, "managedFields", json!([entry]));
    let fields = |fields: Value| json!({"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields});
    let mut all: Vec<_> = of_container.map(|field| (true, field, json!({"x": DEEP}))).into();
    all.extend(of_owned.map(|field| entry(fields(json!({field: DEEP})))));
    all.extend(of_owned.map(|field| entry(fields(json!({"f:spec": {"f:template": {field: DEEP}}})))));
    all.extend(["apiVersion", "fieldsType", "time"].map(|field| entry(json!({"manager": "m", field: DEEP}))));
    let below = (0..16).fold(json!(DEEP), |inside, _| json!({"f:spec": inside}));
    all.push(entry(fields(below)));
    all
}

fn with(sample: &Sample, mut object: Value, (in_container, field, value): &(bool, &str, Value)) -> Value {
    let at = if *in_container { sample.container } else { "/metadata" };
    object.pointer_mut(at).unwrap()[*field] = value.clone();
    object
}

async fn webhook() -> Running {
    let metrics = Metrics::new();
    let policy = "apiVersion: jobgate.dev/v1alpha1\nkind: Policy\nmetadata: {name: own}\n\
                  spec: {rules: {deadline: {action: deny}}}\n";
    let policy = Policy::parse(policy, "own.yaml").unwrap();
    let app = Webhook::new(policy, Claims::off(), metrics.clone(), || jiff::civil::date(2026, 1, 1));
    start_with(metrics, app, |_| ()).await
}

async fn answers(client: &mut Client, body: &str) -> [Value; 2] {
    let mut answers = Vec::new();
    for path in ["/mutate", "/validate"] {
        let reply = client.post(path, body).await.unwrap();
        assert_eq!(reply.status, 200);
        answers.push(serde_json::from_str::<Value>(&reply.body).unwrap()["response"].clone());
    }
    answers.try_into().unwrap()
}

fn no_faults(server: &Running) {
    let text = server.metrics.text();
    let mut counted = text.lines().filter(|line| {
        line.starts_with("jobgate_faults_total{") || line.starts_with("jobgate_malformed_reviews_total{")
    });
    assert!(counted.all(|line| line.ends_with(" 0")), "{text}");
}

/// First something deep is put where nobody looks, then the deadline is taken out.
#[tokio::test]
async fn an_update_in_two_steps_is_denied_as_in_one() {
    let server = webhook().await;
    let mut client = server.connect().await;
    for sample in samples() {
        for place in passed_over() {
            let good = with(&sample, sample.object.clone(), &place);
            let bad = with(&sample, sample.violator(), &place);
            // The last is beyond what is judged on the thread that read it.
            for levels in [150, 40_000] {
                let [good, bad] = [&good, &bad].map(|object| written(object, levels));
                let what = format!("{} {} {}: {levels}", sample.object["kind"], place.1, place.2);
                let plain = sample.object.to_string();
                for (operation, new, old, allowed) in [
                    ("CREATE", &good, &"null".to_owned(), true),
                    ("UPDATE", &good, &plain, true),
                    ("UPDATE", &bad, &good, false),
                    ("UPDATE", &sample.violator().to_string(), &good, false),
                    ("UPDATE", &bad, &plain, false),
                    ("CREATE", &bad, &"null".to_owned(), false),
                ] {
                    let [mutate, validate] = answers(&mut client, &sample.review(operation, new, old)).await;
                    assert_eq!(mutate["allowed"], true, "{what}");
                    assert_eq!(validate["allowed"], allowed, "{what}: {operation}: {validate}");
                    let said = validate["status"]["message"].as_str().unwrap_or_default();
                    assert_eq!(
                        said.starts_with(&format!("1 problem:\n{}: ", sample.rule)),
                        !allowed,
                        "{what}: {said}"
                    );
                }
            }
        }
    }
    no_faults(&server);
}

/// A violator from before, with a spec that cannot be read.
#[tokio::test]
async fn labels_finalizers_and_status_of_an_old_violator_pass_however_deep_it_is() {
    let server = webhook().await;
    let mut client = server.connect().await;
    for sample in samples() {
        let mut old = sample.violator();
        old["spec"]["deep"] = DEEP.into();
        old["metadata"]["finalizers"] = json!(["example.com/a"]);
        let changes: [fn(&mut Value); 5] = [
            |object| object["metadata"]["labels"] = json!({"cost-centre": "7"}),
            |object| object["metadata"]["finalizers"] = json!([]),
            |object| object["metadata"]["deletionTimestamp"] = "2026-11-24T08:00:00Z".into(),
            |object| object["status"] = json!({"active": 1}),
            |object| object["status"] = json!({"deep": DEEP}),
        ];
        for levels in [150, 40_000] {
            let before = written(&old, levels);
            for change in changes {
                let mut new = old.clone();
                change(&mut new);
                let body = sample.review("UPDATE", &written(&new, levels), &before);
                for response in answers(&mut client, &body).await {
                    assert_eq!(response["allowed"], true, "{response}");
                    assert_eq!(response["auditAnnotations"]["skipped"], "same-spec");
                    assert!(response.get("warnings").is_none() && response.get("patch").is_none());
                }
            }
            // Another spec is another matter: the old object exempts nothing, and what is too deep is denied.
            let shallow = sample.review("UPDATE", &sample.violator().to_string(), &before);
            let mut other = old.clone();
            other["spec"]["suspend"] = true.into();
            let deep = sample.review("UPDATE", &written(&other, levels), &before);
            for (body, problem) in [(shallow, sample.rule), (deep, "depth")] {
                let [mutate, validate] = answers(&mut client, &body).await;
                assert_eq!((&mutate["allowed"], &validate["allowed"]), (&json!(true), &json!(false)));
                assert!(mutate.get("patch").is_none() && mutate.get("warnings").is_none(), "{mutate}");
                let said = validate["status"]["message"].as_str().unwrap();
                assert!(said.starts_with(&format!("1 problem:\n{problem}: ")), "{said}");
            }
            let mended = sample.review("UPDATE", &sample.object.to_string(), &before);
            assert_eq!(answers(&mut client, &mended).await[1]["allowed"], true, "it is mended");
        }
    }
    no_faults(&server);
}
