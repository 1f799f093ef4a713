//! Operators whose programs are given, in a checkout of their repository that was built there or in a folder
//! with the program and `manifests`: their releases cannot be built from published modules.

use jobgate::text::value::json;

use super::{Operator, OwnCertificate, Program};
use crate::kubelet::Kubelet;

/// In the order in which they start.
pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "kueue",
        title: "Kueue",
        namespace: "kueue-system",
        account: "kueue-controller-manager",
        manifests: &["manifests/default"],
        // An API that is served by nobody would make every look at what the server has fail.
        without: &["v1beta1.visibility.kueue.x-k8s.io", "v1beta2.visibility.kueue.x-k8s.io"],
        programs: &[Program {
            path: "kueue",
            account: None,
            arguments: |at| vec![at.configuration(), "--feature-gates=VisibilityOnDemand=false".to_owned()],
            configuration: Some(|at| {
                json!({
                    "apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
                    "leaderElection": {"leaderElect": false},
                    "webhook": {"port": at.webhook, "certDir": at.certificates()},
                    "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": at.probes()},
                    "clientConnection": {"qps": 300, "burst": 500},
                    "waitForPodsReady": {"timeout": "5m"},
                    "integrations": {"frameworks": ["batch/job"]},
                })
            }),
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: None,
        }],
        // Without, it reads certificates for its metrics from a folder of the system.
        own_certificate: Some(OwnCertificate { secret: "kueue-webhook-server-cert", looks_at: None }),
        binds: None,
        then: &[
            || json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "any"}}),
            || {
                let quota = json!([{"name": "nvidia.com/gpu", "nominalQuota": 100}]);
                let group = json!({"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "any", "resources": quota}]});
                json!({
                    "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "all"},
                    "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
                })
            },
        ],
    },
    Operator {
        name: "kuberay",
        title: "KubeRay",
        namespace: "default",
        account: "kuberay-operator",
        manifests: &["manifests/default"],
        without: &[],
        programs: &[Program {
            path: "kuberay",
            account: None,
            arguments: |at| {
                vec![
                    "--metrics-addr=0".to_owned(),
                    format!("--health-probe-bind-address={}", at.probes()),
                    "--enable-leader-election=false".to_owned(),
                ]
            },
            configuration: None,
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: Some(Kubelet::dashboards),
        }],
        own_certificate: None,
        binds: None,
        then: &[],
    },
];
