//! A policy is read, and then judges what comes; or everything that is wrong with it is said, and where.

use std::sync::LazyLock;

use jobgate::judge::cel;
use jobgate::judge::engine::{self, Operation, Origin, Request};
use jobgate::judge::facts::NoFacts;
use jobgate::judge::finding::Level;
use jobgate::judge::policy::{Policy, PolicyErrors};
use jobgate::text::lines::Lines;
use jobgate::text::value::{Value, json};

/// Objects that break every rule, one of each kind.
static OBJECTS: LazyLock<[Value; 3]> = LazyLock::new(|| {
    let metadata = json!({
        "name": "train", "namespace": "team-a", "labels": {"app": "train", "kueue.x-k8s.io/queue-name": "q"},
        "annotations": {"jobgate.dev/ignore": "deadline, nothing", "jobgate.dev/keep": "ttl-after-finished"},
    });
    let pod = json!({"spec": {
        "containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "volumeMounts": [{"name": "ckpt", "mountPath": "/checkpoints"}]}],
        "volumes": [{"name": "ckpt", "persistentVolumeClaim": {"claimName": "ckpt"}}],
    }});
    let spec = json!({"parallelism": 4, "completions": 4, "template": pod});
    let replica = json!({"replicas": 4, "restartPolicy": "Always", "template": pod});
    [
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata,
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}}),
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata,
            "spec": {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}}),
    ]
});

/// Takes the source of a policy.
pub fn check(input: &[u8]) {
    let Ok(source) = str::from_utf8(input) else { return };
    match Policy::parse(source, "policy.yaml") {
        Ok(policy) => judges(&policy),
        Err(errors) => is_placed(source, &errors),
    }
}

fn judges(policy: &Policy) {
    for object in OBJECTS.iter() {
        for (origin, operation, old) in [
            (Origin::File, Operation::Create, None),
            (Origin::Admission, Operation::Update, Some(&OBJECTS[0])),
        ] {
            let request = Request {
                operation,
                origin,
                object,
                old,
                same_spec: None,
                namespace: "team-a",
                user: Some("ada"),
                today: None,
            };
            let verdict = engine::evaluate(policy, &NoFacts, &request);
            assert!(verdict.level() != Some(Level::Deny) || policy.can_deny(), "{verdict:?}");
            assert_eq!(verdict, engine::evaluate(policy, &NoFacts, &request));
        }
    }
    // What the API server could judge is printed as what it is.
    let export = cel::export(policy, "jobgate", None);
    let text = export.to_yaml();
    let documents = jobgate::text::yaml::documents(text.as_bytes());
    let printed: Vec<Value> =
        documents.map(|read| read.unwrap_or_else(|error| panic!("{error}: {text}")).value).collect();
    let objects: Vec<Value> = export.objects.into_iter().flatten().collect();
    assert!(objects == printed || objects.is_empty() && printed.iter().all(Value::is_null), "{text}");
}

fn is_placed(source: &str, errors: &PolicyErrors) {
    let lines = Lines::new(source.as_bytes());
    assert!(!errors.errors.is_empty() && *errors.source == *source);
    for error in &errors.errors {
        assert!(source.get(error.span.clone()).is_some(), "{error:?}");
        assert_eq!(error.position, lines.position(error.span.start), "{error:?}");
        let texts = [Some(&error.message), error.help.as_ref()];
        for text in texts.into_iter().flatten() {
            assert!(!text.is_empty() && !text.ends_with('.') && !text.contains('\n'), "{error:?}");
        }
    }
    assert!(errors.errors.is_sorted_by_key(|error| error.span.start), "{errors:?}");
    assert_eq!(errors.to_string().lines().count(), errors.errors.len(), "{errors}");
    assert!(errors.snippets(false).contains("policy.yaml:"), "{}", errors.snippets(false));
}
