//! What the cache of claims costs.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use jobgate::cluster::{Claims, Mode};
use jobgate::text::value::{Value, json};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

const CLAIMS: usize = 100_000;

/// A claim as a cluster has it: bound, with annotations and managed fields, some 2 kB of JSON.
fn claim() -> Value {
    let fields = json!({
        "f:metadata": {"f:annotations": {".": {}, "f:pv.kubernetes.io/bind-completed": {}, "f:volume.kubernetes.io/storage-provisioner": {}}},
        "f:spec": {"f:accessModes": {}, "f:resources": {"f:requests": {".": {}, "f:storage": {}}}, "f:storageClassName": {}, "f:volumeMode": {}},
    });
    json!({
        "metadata": {
            "namespace": "NAMESPACE",
            "name": "NAME",
            "uid": "3b0c6d1e-7f0a-4a3e-9d33-0f4f6f0f5c11", "resourceVersion": "1",
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com",
                "note": "x".repeat(600),
            },
            "managedFields": [
                {"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
                {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields},
            ],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem", "volumeName": "pvc-3b0c6d1e"},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "100Gi"}},
    })
}

fn page(uri: &str) -> String {
    static CLAIM: LazyLock<String> = LazyLock::new(|| claim().to_string());
    let number = |key: &str| {
        uri.split(['?', '&'])
            .find_map(|part| part.strip_prefix(key))
            .map_or(0, |text| text.parse::<usize>().unwrap())
    };
    let (from, limit) = (number("continue="), number("limit="));
    let until = (from + limit).min(CLAIMS);
    let item = |i: usize| {
        let namespace = format!("team-{:04}-training", i / 50);
        CLAIM
            .replace("NAMESPACE", &namespace)
            .replace("NAME", &format!("data-distributed-training-worker-{i:06}-checkpoints"))
    };
    let items: Vec<String> = (from..until).map(item).collect();
    let next = if until < CLAIMS { until.to_string() } else { String::new() };
    format!(r#"{{"metadata":{{"resourceVersion":"1","continue":"{next}"}},"items":[{}]}}"#, items.join(","))
}

async fn answer(
    request: Request<Body>,
) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, BoxError>>, BoxError> {
    let uri = request.uri().to_string();
    // Only claims are served: runtimes are of a kind that this cluster does not have.
    if !uri.contains("/persistentvolumeclaims") {
        let missing = Empty::new().map_err(Into::into).boxed();
        return Ok(Response::builder().status(404).body(missing)?);
    }
    if uri.contains("watch=true") {
        // A watch without an event.
        std::future::pending::<()>().await;
        return Ok(Response::new(Empty::new().map_err(Into::into).boxed()));
    }
    Ok(Response::new(Full::new(Bytes::from(page(&uri))).map_err(Into::into).boxed()))
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Lists claims of a made-up API server and looks at the memory of this process, so nothing else may have run
/// in it.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_hundred_thousand_claims_cost_less_than_two_hundred_bytes_each() {
    let before = resident();
    let claims = Claims::start(Mode::Cache, Client::new(tower::service_fn(answer), "default"));
    for _ in 0..12 {
        if claims.ready().await {
            break;
        }
    }
    let grown = resident().saturating_sub(before);
    println!("{} claims: {} bytes each, {} MiB in all", claims.stats().claims, grown / CLAIMS, grown >> 20);
    assert_eq!(claims.stats().claims, CLAIMS as u64);
    assert!(grown / CLAIMS <= 200, "{} bytes for each claim", grown / CLAIMS);
}
