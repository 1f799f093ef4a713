//! The workload in the namespace of the installation, and whether the API server can reach it.

use super::super::examination::{CheckOutcome, Note};
use super::super::observations::{DEPLOYMENT, Observed, container};
use super::{list, need, or_fine};
use jobgate_core::kinds::registration::{labels, selects};
use jobgate_core::text::value::Value;
use jobgate_report::plural;

/// This program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Number of restarts that leads to a warning.
const MANY_RESTARTS: u64 = 3;
/// Name and default number of the container port that the API server calls.
const PORT: (&str, u64) = ("webhook", 10250);

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn namespace(observed: &Observed) -> CheckOutcome {
    let place = &observed.place.namespace;
    let namespace = need(&observed.namespace, || {
        Note::problem(format!("there is no namespace {place}"))
            .remedy("name it (--namespace), or install Jobgate: kubectl apply -f deploy/install.yaml")
    })?;
    if namespace["status"]["phase"] == "Terminating" {
        return Ok(vec![Note::problem(format!("the namespace {place} is being deleted"))]);
    }
    Ok(vec![Note::ok(place)])
}

pub(super) fn replicas(observed: &Observed) -> CheckOutcome {
    let deployment = need(&observed.deployment, || {
        Note::problem(format!("there is no Deployment {DEPLOYMENT} in {}", observed.place.namespace))
            .remedy("name it (--namespace), or install Jobgate: kubectl apply -f deploy/install.yaml")
    })?;
    let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_u64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let ready = number("/status/readyReplicas").unwrap_or(0);
    let mut notes = Vec::new();
    match (ready, wanted) {
        (_, 0) => notes.push(
            Note::problem("it is scaled to zero")
                .remedy("scale it up: kubectl -n {ns} scale deployment {deployment} --replicas=2"),
        ),
        (0, wanted) => notes.push(Note::problem(format!("none of {wanted} are ready"))),
        (ready, wanted) if ready < wanted => {
            notes.push(Note::warning(format!("{ready} of {wanted} are ready")));
        }
        (_, 1) => notes.push(
            Note::warning("it is scaled to one: draining its node stops it")
                .remedy("scale it up: kubectl -n {ns} scale deployment {deployment} --replicas=2"),
        ),
        _ => {}
    }
    for condition in items(deployment, "/status/conditions") {
        let text = |key: &str| condition[key].as_str().unwrap_or_default();
        // Other conditions only report a rollout that goes well.
        let bad =
            matches!((text("type"), text("status")), ("ReplicaFailure", "True") | ("Progressing", "False"));
        if bad {
            notes.push(Note::problem(format!("{}: {}", text("reason"), text("message"))));
        }
    }
    let (seen, made) = (number("/status/observedGeneration"), number("/metadata/generation"));
    if seen < made && ready > 0 {
        notes.push(Note::warning("the controllers have not processed its latest change yet"));
    }
    or_fine(notes, format!("{ready} of {wanted} are ready"))
}

pub(super) fn pods(observed: &Observed) -> CheckOutcome {
    let pods = need(&observed.pods, || Note::not_checked("there are no pods"))?;
    if pods.is_empty() {
        return Ok(vec![Note::problem("there are no pods")]);
    }
    let mut notes = Vec::new();
    for pod in pods {
        let at = name(pod);
        for status in items(pod, "/status/containerStatuses") {
            let restarts = status["restartCount"].as_u64().unwrap_or(0);
            let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str);
            if let Some(reason) =
                text("/state/waiting/reason").filter(|reason| *reason != "ContainerCreating")
            {
                let message =
                    text("/state/waiting/message").map(|message| format!(": {message}")).unwrap_or_default();
                notes.push(Note::problem(format!("{at} is waiting: {reason}{message}")));
            }
            let last = text("/lastState/terminated/reason")
                .map(|reason| format!(", last: {reason}"))
                .unwrap_or_default();
            let killed = text("/lastState/terminated/reason") == Some("OOMKilled");
            if killed || restarts >= MANY_RESTARTS {
                notes.push(Note::warning(format!(
                    "{at} was restarted {}{last}",
                    plural(usize::try_from(restarts).unwrap_or(usize::MAX), "time")
                )));
            }
        }
        for condition in items(pod, "/status/conditions") {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            if (text("type"), text("status")) == ("PodScheduled", "False") {
                notes.push(Note::problem(format!("{at} is not scheduled: {}", text("message"))));
            }
        }
        let ready = items(pod, "/status/conditions")
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        if !ready
            && pod["metadata"]["deletionTimestamp"].is_null()
            && !notes.iter().any(|note| note.text.starts_with(at))
        {
            notes.push(Note::warning(format!("{at} is not ready")).remedy(format!(
                "see why: kubectl get --raw /api/v1/namespaces/{{ns}}/pods/{at}:8080/proxy/readyz"
            )));
        }
    }
    or_fine(notes, format!("{} without problems", plural(pods.len(), "pod")))
}

/// Returns the tag of an image, if it has one.
fn tag(image: &str) -> Option<&str> {
    let name = image.rsplit('/').next().unwrap_or(image);
    let (name, _) = name.split_once('@').unwrap_or((name, ""));
    Some(name.split_once(':')?.1)
}

pub(super) fn version(observed: &Observed) -> CheckOutcome {
    let mut said: Vec<&str> = observed
        .replicas
        .iter()
        .filter_map(|replica| replica.says.known())
        .map(|says| says.version.as_str())
        .collect();
    said.retain(|version| !version.is_empty());
    said.sort_unstable();
    said.dedup();
    if said.is_empty() {
        let deployment = need(&observed.deployment, || {
            Note::not_checked("there is no Deployment").remedy("see `replicas`")
        })?;
        let image =
            container(deployment).and_then(|container| container["image"].as_str()).unwrap_or_default();
        let Some(tag) = tag(image) else {
            return Err(Note::not_checked(format!("the image {image} has no version tag"))
                .remedy("nothing, unless you want this checked"));
        };
        said.push(tag.trim_start_matches('v'));
    }
    let other = said.iter().any(|version| *version != VERSION);
    let versions = list(&said);
    Ok(vec![if other {
        Note::warning(format!("the cluster runs {versions}, this program is {VERSION}"))
    } else {
        Note::ok(versions)
    }])
}

pub(super) fn service(observed: &Observed) -> CheckOutcome {
    if observed.entries().next().is_some() && observed.entries().all(|entry| entry.url().is_some()) {
        return Ok(vec![Note::ok("the webhooks call a URL, not a Service")]);
    }
    let service_name = observed.service_name();
    let service = need(&observed.service, || {
        Note::problem(format!("there is no Service {service_name} in {}", observed.place.namespace))
            .remedy("apply the manifests again: kubectl apply -f deploy/install.yaml")
    })?;
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok(vec![Note::ok(format!(
            "points to {}, outside the cluster",
            spec["externalName"].as_str().unwrap_or_default()
        ))]);
    }
    let mut notes = Vec::new();
    if let (Some(selector), Some(deployment)) = (spec["selector"].as_object(), observed.deployment.known()) {
        let of_pods = &deployment["spec"]["template"]["metadata"]["labels"];
        let differing: Vec<&str> =
            selector.iter().filter(|(key, value)| of_pods[*key] != **value).map(|(key, _)| key).collect();
        if !differing.is_empty() {
            notes.push(Note::problem(format!(
                "its selector does not match the pods' labels: {}",
                list(differing)
            )));
        }
    }
    let slices = match need(&observed.slices, || Note::not_checked("there are no EndpointSlices")) {
        Ok(slices) => slices,
        Err(note) => {
            notes.push(note);
            return Ok(notes);
        }
    };
    let endpoints: Vec<&Value> = slices.iter().flat_map(|slice| items(slice, "/endpoints")).collect();
    // A missing condition counts as true.
    let ready = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] != false).count();
    if ready == 0 {
        let all = endpoints.len();
        notes.push(Note::problem(if all == 0 {
            "it has no endpoints".to_owned()
        } else {
            format!("none of its {} is ready", plural(all, "endpoint"))
        }));
    }
    or_fine(notes, format!("{} ready", plural(ready, "endpoint")))
}

pub(super) fn network_policy(observed: &Observed) -> CheckOutcome {
    let policies = need(&observed.network_policies, || Note::not_checked("there are no network policies"))?;
    let deployment =
        need(&observed.deployment, || Note::not_checked("there is no Deployment").remedy("see `replicas`"))?;
    let template = &deployment["spec"]["template"];
    // Policies do not apply to pods on the network of their node.
    if template["spec"]["hostNetwork"] == true {
        return Ok(vec![Note::ok("the pods use their node's network")]);
    }
    let into = |policy: &&Value| {
        selects(&policy["spec"]["podSelector"], labels(template))
            && items(policy, "/spec/policyTypes").any(|kind| kind == "Ingress")
    };
    let policies: Vec<&Value> = policies.iter().filter(into).collect();
    if policies.is_empty() {
        return Ok(vec![Note::ok("none selects the pods")]);
    }
    let number = container(deployment)
        .into_iter()
        .flat_map(|container| items(container, "/ports"))
        .find(|port| port["name"] == PORT.0);
    let number = number.and_then(|port| port["containerPort"].as_u64()).unwrap_or(PORT.1);
    let covers = |port: &Value| match &port["port"] {
        Value::Null => true,
        Value::String(name) => name == PORT.0,
        first => first
            .as_u64()
            .is_some_and(|first| (first..=port["endPort"].as_u64().unwrap_or(first)).contains(&number)),
    };
    let open = |rule: &&Value| {
        rule["ports"].as_array().is_none_or(|ports| ports.is_empty() || ports.iter().any(covers))
    };
    let rules: Vec<&Value> =
        policies.iter().flat_map(|policy| items(policy, "/spec/ingress")).filter(open).collect();
    let from = |rule: &Value| rule["from"].as_array().filter(|from| !from.is_empty()).cloned();
    let names = list(policies.iter().map(|policy| name(policy)));
    if rules.iter().any(|rule| from(rule).is_none()) {
        return Ok(vec![Note::ok(format!("{names} allows port {number}"))]);
    }
    let blocks = rules
        .iter()
        .filter_map(|rule| from(rule))
        .flatten()
        .filter_map(|peer| Some(peer.pointer("/ipBlock/cidr")?.as_str()?.to_owned()));
    let blocks: Vec<String> = blocks.collect();
    Ok(vec![if blocks.is_empty() {
        Note::problem(format!("{names} blocks the API server from port {number}"))
    } else {
        Note::ok(format!(
            "{names} allows port {number} from {}: the API server must be in that range",
            list(blocks)
        ))
    }])
}

pub(super) fn disruption_budget(observed: &Observed) -> CheckOutcome {
    let budgets = need(&observed.budgets, || Note::not_checked("there are no budgets"))?;
    let deployment =
        need(&observed.deployment, || Note::not_checked("there is no Deployment").remedy("see `replicas`"))?;
    let template = &deployment["spec"]["template"];
    let Some(budget) = budgets.iter().find(|budget| {
        budget["spec"]["selector"].is_object() && selects(&budget["spec"]["selector"], labels(template))
    }) else {
        return Ok(vec![Note::warning("none covers the pods")]);
    };
    let spec = &budget["spec"];
    if spec["minAvailable"] == 0 || spec["minAvailable"] == "0%" || spec["maxUnavailable"] == "100%" {
        return Ok(vec![Note::warning(format!("{} lets all pods be evicted at once", name(budget)))]);
    }
    Ok(vec![Note::ok(name(budget))])
}

pub(super) fn priority_class(observed: &Observed) -> CheckOutcome {
    let deployment =
        need(&observed.deployment, || Note::not_checked("there is no Deployment").remedy("see `replicas`"))?;
    let Some(wanted) = deployment
        .pointer("/spec/template/spec/priorityClassName")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
    else {
        return Ok(vec![Note::warning("the pods have none")]);
    };
    let class = need(&observed.priority_class, || {
        Note::problem(format!("there is no PriorityClass {wanted}: no new pod can be created"))
    })?;
    Ok(vec![Note::ok(format!("{wanted} ({})", class["value"]))])
}

#[cfg(test)]
mod tests {
    use super::super::super::observations;
    use super::*;

    #[test]
    fn tags_are_found_behind_ports_and_before_digests() {
        for (image, expected) in [
            ("jobgate:0.1.0", Some("0.1.0")),
            ("registry.example.com:5000/team/jobgate:v0.2.0", Some("v0.2.0")),
            ("registry.example.com:5000/jobgate", None),
            ("jobgate:0.1.0@sha256:abc", Some("0.1.0")),
            ("jobgate@sha256:abc", None),
            ("", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }

    #[test]
    fn the_names_are_those_of_the_manifests() {
        let install = include_str!("../../../../../deploy/install.yaml");
        let objects: Vec<Value> = jobgate_core::text::yaml::documents(install.as_bytes())
            .map(|document| document.unwrap().value)
            .collect();
        let has = |kind: &str, name: &str| {
            objects.iter().any(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        };
        assert!(
            has("Deployment", DEPLOYMENT)
                && has("Secret", observations::SECRET)
                && has("ConfigMap", observations::POLICY.0)
        );
    }
}
