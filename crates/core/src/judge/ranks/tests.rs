use super::{host, is_here};
use crate::judge::engine::{Request, evaluate};
use crate::judge::facts::NoFacts;
use crate::judge::policy::Policy;
use crate::text::value::{Value, json};

/// Returns the findings of rules about launchers, as rule and message.
fn found(object: &Value) -> Vec<String> {
    let verdict = evaluate(&Policy::default(), &NoFacts, &Request::from_file(object, None));
    let findings = verdict
        .findings
        .iter()
        .filter(|finding| finding.rule.starts_with("launcher-") || finding.rule.starts_with("processes-"));
    findings.map(|finding| format!("{}: {}", finding.rule, finding.message)).collect()
}

fn job(pods: i64, container: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
        "spec": {"parallelism": pods, "template": {"spec": {"subdomain": "train", "containers": [container]}}},
    })
}

#[test]
fn hosts_of_addresses() {
    for (address, expected) in [
        ("meet", "meet"),
        ("meet:29500", "meet"),
        ("tcp://meet:29500", "meet"),
        ("[::1]:29500", "::1"),
        ("::1", "::1"),
        ("", ""),
    ] {
        assert_eq!(host(address), expected, "{address}");
    }
    assert!(["localhost:0", "127.0.0.1", "0.0.0.0:1", "[::1]:1", "::"].into_iter().all(is_here));
    assert!(!["localhost.meet", "127.0.0.10", ""].into_iter().any(is_here));
}

/// What is not in the object is unknown: with it instead of a wrong number, nothing is said.
#[test]
fn nothing_is_said_of_what_is_unknown() {
    let wrong = |nodes: &str| {
        json!({"name": "t", "image": "i", "command": ["bash", "-c", format!(
            "torchrun --nnodes={nodes} --nproc-per-node={nodes} --rdzv-backend=c10d --rdzv-endpoint=meet train.py"
        )], "resources": {"limits": {"nvidia.com/gpu": 4}}})
    };
    assert_eq!(found(&job(4, wrong("8"))).len(), 2);
    for unknown in
        ["$N", "$(wc -l < hosts)", "`wc -l hosts`", "${N:-8}", "$(N)", "<N>", "{{n}}", "x", "-1", "0", ""]
    {
        assert_eq!(found(&job(4, wrong(unknown))), [""; 0], "{unknown}");
    }
    for unread in
        ["torchrun --nnodes=8 'x", "if x; then torchrun --nnodes=8 x; fi", "f() { torchrun --nnodes=8 x; }"]
    {
        let container = json!({"name": "t", "image": "i", "command": ["bash", "-c", unread]});
        assert_eq!(found(&job(4, container)), [""; 0], "{unread}");
    }
}

/// A number that is right in one place says nothing, and one more or less does.
#[test]
fn only_the_number_of_the_pods_is_right() {
    for pods in 2..=5 {
        for nodes in 2..=5 {
            let command = json!([
                "torchrun",
                format!("--nnodes={nodes}"),
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=meet",
                "x"
            ]);
            let found = found(&job(pods, json!({"name": "t", "image": "i", "command": command})));
            assert_eq!(found.is_empty(), pods == nodes, "{pods} {nodes}: {found:?}");
        }
    }
}

#[test]
fn a_script_with_thousands_of_launchers_says_it_a_few_times() {
    let script = "torchrun --nnodes=8 --min-nodes=1 --max-nodes=2 x\n".repeat(5000);
    let container = json!({"name": "t", "image": "i", "command": ["bash", "-c", script]});
    assert!((1..200).contains(&found(&job(4, container)).len()));
}
