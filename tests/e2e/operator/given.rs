//! Operators that run where they are asked for: of some `tests/cluster/get` makes the programs, others are given, in a
//! checkout of their repository that was built there or in a folder with the program and `manifests`.

use jobgate::text::value::{Value, json};

use super::{Operator, OwnCertificate, Program, Scheduler};
use crate::kubelet::Kubelet;
use crate::simulated;

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
                    // As its release has them.
                    "clientConnection": {"qps": 300, "burst": 500},
                    "controller": {"groupKindConcurrency": {
                        "Job.batch": 5, "Workload.kueue.x-k8s.io": 10, "LocalQueue.kueue.x-k8s.io": 5,
                        "ClusterQueue.kueue.x-k8s.io": 5,
                    }},
                    "waitForPodsReady": wait_for_pods_ready(),
                    "integrations": {"frameworks": ["batch/job"]},
                })
            }),
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: None,
        }],
        // Without, it reads certificates for its metrics from a folder of the system.
        own_certificate: Some(OwnCertificate { secret: "kueue-webhook-server-cert", looks_at: None }),
        scheduler: None,
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
                    "--qps=2000".to_owned(),
                    "--burst=4000".to_owned(),
                ]
            },
            configuration: None,
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: Some(Kubelet::dashboards),
        }],
        own_certificate: None,
        scheduler: None,
        then: &[],
    },
    Operator {
        name: "leaderworkerset",
        title: "LeaderWorkerSet",
        namespace: "lws-system",
        account: "lws-controller-manager",
        manifests: &["manifests/default"],
        without: &[],
        programs: &[Program {
            path: "leaderworkerset",
            account: None,
            arguments: |at| vec![at.configuration(), "--zap-log-level=info".to_owned()],
            configuration: Some(|at| {
                json!({
                    "apiVersion": "config.lws.x-k8s.io/v1alpha1", "kind": "Configuration",
                    "leaderElection": {"leaderElect": false}, "internalCertManagement": {"enable": false},
                    "webhook": {"port": at.webhook, "certDir": at.certificates()},
                    "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": at.probes()},
                })
            }),
            fixed_port: None,
            ready: Some("/readyz"),
            answered_by: None,
        }],
        own_certificate: None,
        scheduler: None,
        then: &[],
    },
    Operator {
        name: "volcano",
        title: "Volcano",
        namespace: "volcano-system",
        account: "volcano-controllers",
        manifests: &["manifests/volcano-development.yaml"],
        without: &["volcano-monitoring"],
        programs: &[
            // First, since the scheduler makes queues, which its webhooks are asked about.
            Program {
                path: "vc-webhook-manager",
                account: Some("volcano-admission"),
                arguments: |at| {
                    vec![
                        format!("--kubeconfig={}", at.kubeconfig.display()),
                        "--enabled-admission=/jobs/mutate,/jobs/validate,/podgroups/validate,/queues/mutate,/queues/validate,/hypernodes/validate,/cronjobs/validate".to_owned(),
                        format!("--tls-cert-file={}", at.certificate("tls.crt")),
                        format!("--tls-private-key-file={}", at.certificate("tls.key")),
                        format!("--ca-cert-file={}", at.certificate("ca.crt")),
                        "--webhook-namespace=volcano-system".to_owned(),
                        "--webhook-service-name=volcano-admission-service".to_owned(),
                        "--listen-address=127.0.0.1".to_owned(),
                        format!("--port={}", at.webhook),
                        "--logtostderr".to_owned(),
                    ]
                },
                configuration: None,
                fixed_port: None,
                // Its page of health is for those who speak TLS.
                ready: None,
                answered_by: None,
            },
            Program {
                path: "vc-scheduler",
                account: Some("volcano-scheduler"),
                arguments: |at| {
                    vec![
                        format!("--kubeconfig={}", at.kubeconfig.display()),
                        format!("--scheduler-conf={}", at.dir.join("configuration.yaml").display()),
                        format!("--cache-dump-dir={}", at.dir.display()),
                        "--enable-healthz=true".to_owned(),
                        format!("--healthz-address={}", at.probes()),
                        "--leader-elect=false".to_owned(),
                        "--kube-api-qps=2000".to_owned(),
                        "--kube-api-burst=2000".to_owned(),
                        "--logtostderr".to_owned(),
                    ]
                },
                // As its release has it.
                configuration: Some(|_| {
                    let plugin = |name: &str| json!({"name": name});
                    let whole = |name: &str| json!({"name": name, "enablePreemptable": false});
                    json!({"actions": "enqueue, allocate, backfill", "tiers": [
                        {"plugins": [plugin("priority"), whole("gang"), plugin("conformance")]},
                        {"plugins": [
                            plugin("overcommit"), whole("drf"), plugin("predicates"), plugin("proportion"),
                            plugin("nodeorder"), plugin("binpack"),
                        ]},
                    ]})
                }),
                fixed_port: None,
                ready: Some("/healthz"),
                answered_by: None,
            },
            Program {
                path: "vc-controller-manager",
                account: None,
                arguments: |at| {
                    vec![
                        format!("--kubeconfig={}", at.kubeconfig.display()),
                        "--enable-healthz=true".to_owned(),
                        format!("--healthz-address={}", at.probes()),
                        "--leader-elect=false".to_owned(),
                        "--kube-api-qps=2000".to_owned(),
                        "--kube-api-burst=4000".to_owned(),
                        "--worker-threads=3".to_owned(),
                        "--worker-threads-for-gc=5".to_owned(),
                        "--worker-threads-for-podgroup=5".to_owned(),
                        "--logtostderr".to_owned(),
                    ]
                },
                configuration: None,
                fixed_port: None,
                ready: Some("/healthz"),
                answered_by: None,
            },
        ],
        own_certificate: None,
        scheduler: Some(Scheduler { name: "volcano", program: "vc-scheduler" }),
        then: &[],
    },
];

/// How long Kueue waits for the pods of a Job: rows are recorded with times in which something happens.
fn wait_for_pods_ready() -> Value {
    if simulated::is_recorded() {
        let again = json!({"timestamp": "Eviction", "backoffBaseSeconds": 6});
        return json!({"timeout": "15s", "recoveryTimeout": "15s", "requeuingStrategy": again});
    }
    json!({"timeout": "5m"})
}
