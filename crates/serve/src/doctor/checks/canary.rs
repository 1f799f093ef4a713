//! The canaries: the answers of the API server, compared with the policy.

use super::super::examination::{CheckOutcome, Note, shown};
use super::super::observations::{CONDITION, Canary, Observed, POLICY_OF_SERVER, Seen, webhooks};
use super::{entries, list, need, or_fine};
use crate::certs::publish::Kind;
use crate::doctor::observe::MANAGER;
use jobgate_core::judge::engine::{self, Operation, Origin, Request};
use jobgate_core::judge::facts::NoFacts;
use jobgate_core::judge::finding::Level;
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::rules::RuleSet;
use jobgate_core::judge::verdict::Verdict;
use jobgate_core::kinds::registration::{labels, selects};
use jobgate_core::text::value::Value;

/// Causes of a failed call: words in the API server's message, their meaning, and the remedy. The first match
/// counts.
const CAUSES: &[(&[&str], &str, &str)] = &[
    (
        &["signed by unknown authority", "certificate signed by", "unable to load root certificates"],
        "the API server does not trust the certificate",
        "compare what is served with caBundle (the checks `served-certificate` and `ca-bundle-is-ours`): kubectl -n {ns} logs deployment/{deployment} --tail=50",
    ),
    (
        &["certificate has expired", "not yet valid"],
        "the certificate has expired, or is not valid yet",
        "see `served-certificate` and `certificate-secret`: kubectl -n {ns} logs deployment/{deployment} --tail=50",
    ),
    (
        &[
            "certificate is valid for",
            "doesn't contain any IP SANs",
            "not valid for any names",
            "certificate relies on legacy Common Name",
        ],
        "the certificate is for another name than the Service's",
        "make one for {service}.{ns}.svc: jobgate certs init --service {service} --namespace {ns}",
    ),
    (
        &["no endpoints available for service"],
        "no pod is ready",
        "see why: kubectl -n {ns} describe pods -l app.kubernetes.io/name=jobgate",
    ),
    (
        &["service \"", "no service port"],
        "the Service, or its port, does not exist",
        "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
    ),
    (
        &["connection refused"],
        "nothing listens where the API server calls",
        "see whether the pods run, and on which port: kubectl -n {ns} get pods,service,endpointslices",
    ),
    (
        &["address is not allowed", "Address is not allowed", "no route to host", "network is unreachable"],
        "the API server cannot reach the pods' network",
        "if the control plane is outside of it, set hostNetwork and a free ports.webhook in the chart: helm upgrade jobgate deploy/helm/jobgate -n {ns} --reuse-values --set hostNetwork=true --set ports.webhook=10260",
    ),
    (
        &["no such host", "server misbehaving"],
        "the API server cannot resolve the name",
        "look at the Service: kubectl -n {ns} get service {service} -o yaml",
    ),
    (
        &[
            "context deadline exceeded",
            "Client.Timeout",
            "i/o timeout",
            "did not complete",
            "request timed out",
        ],
        "no answer came in time: a firewall or a network policy on the way to port 10250, a node that is down, or too much load",
        "let the API server reach port 10250 of the pods (firewall, NetworkPolicy), then look at the load: kubectl -n {ns} get networkpolicies,pods -o wide",
    ),
    (
        &["EOF", "connection reset", "broken pipe", "first record does not look like a TLS handshake"],
        "the connection broke: a pod that is shutting down, or something that does not speak TLS on the port",
        "run it again; if it persists, see the log: kubectl -n {ns} logs deployment/{deployment} --tail=50",
    ),
];

/// The remedy if the answer is that of another policy.
const OTHER_POLICY: &str =
    "a changed policy takes a minute or so to reach the pods; then see `policy-in-force`";

/// The prefix of the names of exported policies.
const EXPORTED: &str = "jobgate-";

/// The result of a canary.
enum CanaryResult<'a> {
    /// A webhook of this name denied it.
    Denied(&'a str, &'a str),
    /// The API server could not use a webhook of this name.
    Failed(&'a str),
    /// The whole request took too long.
    TooLong,
    /// The user may not create Jobs.
    Forbidden,
    /// Something else rejected it.
    Rejected,
    /// It would have been stored.
    Admitted,
}

fn quoted<'a>(text: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    let from = &text[text.find(before)? + before.len()..];
    from.split_once('"')
}

fn message(canary: &Canary) -> &str {
    canary.answer["message"].as_str().unwrap_or_default()
}

fn response(canary: &Canary) -> CanaryResult<'_> {
    let text = message(canary);
    if (200..300).contains(&canary.status) {
        return CanaryResult::Admitted;
    }
    if let Some((name, rest)) = quoted(text, "admission webhook \"")
        && let Some(why) = rest.strip_prefix(" denied the request")
    {
        return CanaryResult::Denied(name, why.trim_start_matches([':', ' ']));
    }
    if let Some((name, _)) = quoted(text, "failed calling webhook \"") {
        return CanaryResult::Failed(name);
    }
    match canary.status {
        504 => CanaryResult::TooLong,
        401 => CanaryResult::Forbidden,
        403 if text.contains("forbidden: User ") => CanaryResult::Forbidden,
        _ => CanaryResult::Rejected,
    }
}

/// Explains a failed call, with the API server's message.
fn failed(text: &str) -> Note {
    let cause = CAUSES.iter().find(|(words, _, _)| words.iter().any(|word| text.contains(word)));
    match cause {
        Some((_, meaning, remedy)) => {
            Note::problem(format!("{meaning}; the API server says: {}", shown(text))).remedy(*remedy)
        }
        None => Note::problem(format!("the API server cannot use the webhook; it says: {}", shown(text))),
    }
}

/// Returns the canary, unless it proves nothing.
fn sent<'a>(observed: &'a Observed, seen: &'a Seen<Canary>, kind: Kind) -> Result<&'a Canary, Note> {
    let canary = need(seen, || Note::not_checked("it was not sent"))?;
    let place = &observed.place.canary_namespace;
    if observed.canary_namespace == Seen::Absent {
        return Err(elsewhere(format!("there is no namespace {place}")));
    }
    let webhooks: Vec<_> = observed.entries().filter(|entry| entry.kind == kind).collect();
    if let Some(namespace) = observed.canary_namespace.known() {
        let selected = |webhook: &Value| selects(&webhook["namespaceSelector"], labels(namespace));
        let takes = |webhook: &Value| {
            selects(&webhook["objectSelector"], |key| (key == "app.kubernetes.io/name").then_some(MANAGER))
        };
        if !webhooks.is_empty() && !webhooks.iter().any(|entry| takes(entry.webhook)) {
            return Err(Note::not_checked(
                "an object selector skips the canary, and jobs without its labels",
            )
            .remedy("see `selectors`"));
        }
        if !webhooks.is_empty() && !webhooks.iter().any(|entry| selected(entry.webhook)) {
            return Err(elsewhere(format!("the webhooks skip the namespace {place}")));
        }
    }
    Ok(canary)
}

fn elsewhere(text: String) -> Note {
    Note::not_checked(text)
        .remedy("use a namespace in which jobs run: jobgate doctor --canary-namespace NAMESPACE")
}

/// Returns whether a webhook is Jobgate's: by the configurations, or if they cannot be read by the names in
/// the manifests.
fn is_ours(observed: &Observed, name: &str) -> bool {
    name.ends_with(".jobgate.dev") || observed.entries().any(|entry| entry.name() == name)
}

/// Judges the results that mean the same for both canaries; `None` if Jobgate denied it or it was admitted.
fn common(observed: &Observed, canary: &Canary) -> Option<Note> {
    let (place, text) = (&observed.place.canary_namespace, message(canary));
    match response(canary) {
        CanaryResult::Failed(name) if is_ours(observed, name) => Some(failed(text)),
        CanaryResult::Failed(name) => Some(
            Note::not_checked(format!("another webhook, {name}, fails: {}", shown(text)))
                .remedy("fix that webhook: it blocks jobs whatever Jobgate answers"),
        ),
        CanaryResult::TooLong => Some(failed(text)),
        CanaryResult::Forbidden => Some(
            Note::not_checked(format!("needs permission to create jobs.batch in the namespace {place}"))
                .remedy("run it as a user with that permission, or name another namespace: jobgate doctor --canary-namespace NAMESPACE"),
        ),
        CanaryResult::Denied(name, _) if is_ours(observed, name) => None,
        // The API server evaluates its own policies before it calls validating webhooks.
        CanaryResult::Rejected if text.contains("ValidatingAdmissionPolicy") => Some(
            Note::not_checked(format!("a ValidatingAdmissionPolicy rejected it before the webhook was called: {}", shown(text)))
                .remedy("nothing, if that is deploy/components/rules-in-the-api-server; `canary-filled` and `served-certificate` show whether the webhook is reached"),
        ),
        CanaryResult::Denied(..) | CanaryResult::Rejected => Some(elsewhere(format!("something else rejected it first: {}", shown(text)))),
        CanaryResult::Admitted => None,
    }
}

/// Reports a canary that failed open: the API server got no answer and admitted it, whatever the policy is.
fn failed_open(canary: &Canary, what: &str) -> Option<Note> {
    let unanswered = canary.failed_open.is_some_and(|count| count > 0)
        && matches!(response(canary), CanaryResult::Admitted);
    unanswered.then(|| {
        Note::problem(format!(
            "the webhook failed open: the API server called it, got no usable answer, and admitted the Job, so Jobgate {what}; \
             likely causes are no ready pod, an untrusted certificate, a network policy or a firewall"
        ))
        .remedy("the API server's log says why; see `served-certificate`, `service`, `replicas` and `network-policy`: kubectl -n {ns} get pods,endpointslices")
    })
}

/// Returns a suffix for "another webhook" with the other configurations whose webhooks may change Jobs; empty
/// if there are none or they are unknown.
fn others(observed: &Observed) -> String {
    let Some(all) = observed.all[0].known() else { return String::new() };
    let has = |rule: &Value, key: &str, wanted: &[&str]| {
        let mut words = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.any(|word| wanted.contains(&word))
    };
    let is_for_jobs = |webhook: &Value| {
        webhook["rules"].as_array().into_iter().flatten().any(|rule| {
            has(rule, "apiGroups", &["*", "batch"])
                && has(rule, "resources", &["*", "*/*", "jobs"])
                && has(rule, "operations", &["*", "CREATE"])
        })
    };
    let name =
        |configuration: &Value| configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let ours = observed.place.mutating.as_str();
    let names: Vec<String> = all
        .iter()
        .filter(|configuration| webhooks(configuration).iter().any(is_for_jobs))
        .map(name)
        .filter(|name| name != ours)
        .collect();
    if names.is_empty() { String::new() } else { format!(" (those that may change Jobs: {})", list(names)) }
}

/// The remedy if another webhook changes the canary.
const OTHER_WEBHOOK: &str = "see what it does to Jobs, and whether that is intended: kubectl get \
    mutatingwebhookconfigurations; one whose name comes later is called later";

/// Returns the engine's verdict on the canary as it would be stored, if it is still a Job.
fn as_stored(observed: &Observed, canary: &Canary) -> Option<Verdict> {
    let source = observed.policy.known()?;
    let policy = Policy::parse(&source.text, &source.name).ok()?;
    let request = Request {
        operation: Operation::Create,
        origin: Origin::Admission,
        object: &canary.answer,
        old: None,
        same_spec: None,
        namespace: &observed.place.canary_namespace,
        user: None,
        today: Some(observed.today),
    };
    Some(engine::evaluate(&policy, &NoFacts, &request)).filter(|verdict| verdict.skipped.is_none())
}

/// Explains why an object was wrongly admitted.
fn unasked(canary: &Canary) -> Note {
    let (why, remedy) = match canary.failed_open {
        Some(_) => (
            "the API server did not call the webhook, or another policy is in force",
            "see `configurations`, `rules`, `selectors` and `policy-in-force`; a new configuration takes a second or two to take effect",
        ),
        None => (
            "the webhook failed open, or was not called: with access to /metrics the doctor says which",
            "see the other checks, then: kubectl get --raw /metrics | grep webhook_fail_open_count",
        ),
    };
    Note::problem(why).remedy(remedy)
}

pub(super) fn judged(observed: &Observed) -> CheckOutcome {
    let canary = sent(observed, &observed.judged, Kind::Validating)?;
    if let Some(note) =
        common(observed, canary).or_else(|| failed_open(canary, "neither denied it nor warned about it"))
    {
        return Err(note);
    }
    let expected = canary.expected.as_ref();
    let note = match (response(canary), expected) {
        (CanaryResult::Denied(name, _), None) => Note::not_checked(format!(
            "denied by {name}; the policy could not be read, so whether it should be is unknown"
        ))
        .remedy("see `policy`"),
        (CanaryResult::Denied(name, why), Some(expected)) if expected.denied => {
            let missing: Vec<&str> = expected
                .rules
                .iter()
                .map(|rule| &**rule)
                .filter(|rule| !why.contains(&format!("{rule}:")))
                .collect();
            match missing.is_empty() {
                true => Note::ok(format!("denied by {name} for {}", list(&expected.rules))),
                false => Note::warning(format!(
                    "denied by {name}, but not for {}: it uses another policy",
                    list(missing)
                ))
                .remedy(OTHER_POLICY),
            }
        }
        (CanaryResult::Denied(name, why), Some(_)) => {
            Note::problem(format!("denied by {name}, though the policy admits it: {}", shown(why)))
                .remedy(OTHER_POLICY)
        }
        (_, None)
            if canary.warnings.iter().any(|warning| {
                RuleSet::built_in().iter().any(|rule| warning.contains(&format!("{}:", rule.id)))
            }) =>
        {
            Note::not_checked(
                "it got a warning; the policy could not be read, so whether it should is unknown",
            )
            .remedy("see `policy`")
        }
        (_, None) => Note::not_checked(
            "it was admitted; the policy could not be read, so whether it should be is unknown",
        )
        .remedy("see `policy`"),
        // It was not stored as it was sent.
        (CanaryResult::Admitted, Some(expected))
            if expected.denied
                && as_stored(observed, canary).is_some_and(|verdict| verdict.level() < Some(Level::Deny)) =>
        {
            return Err(Note::not_checked(format!(
                "admitted, since another webhook has changed it so that the policy does not deny it{}",
                others(observed)
            ))
            .remedy(OTHER_WEBHOOK));
        }
        (_, Some(expected)) if expected.denied => {
            let note = unasked(canary);
            Note {
                text: format!(
                    "admitted, though the policy denies it for {}: {}",
                    list(&expected.rules),
                    note.text
                ),
                ..note
            }
        }
        (_, Some(expected)) if expected.rules.is_empty() => {
            return Err(Note::not_checked("the policy neither denies it nor warns about it")
                .remedy("nothing, if that is intended"));
        }
        (_, Some(expected)) => {
            let silent: Vec<&str> = expected
                .rules
                .iter()
                .map(|rule| &**rule)
                .filter(|rule| !canary.warnings.iter().any(|warning| warning.contains(&format!("{rule}:"))))
                .collect();
            if silent.is_empty() {
                Note::ok(format!(
                    "it got the warnings of {}; the policy does not deny it",
                    list(&expected.rules)
                ))
            } else {
                let note = unasked(canary);
                Note {
                    text: format!("admitted without the warnings of {}: {}", list(silent), note.text),
                    ..note
                }
            }
        }
    };
    Ok(vec![note])
}

pub(super) fn filled(observed: &Observed) -> CheckOutcome {
    let canary = sent(observed, &observed.filled, Kind::Mutating)?;
    if let Some(note) = common(observed, canary).or_else(|| failed_open(canary, "filled in nothing")) {
        return Err(note);
    }
    let unknown = || {
        Note::not_checked("the policy could not be read, so what it fills in is unknown")
            .remedy("see `policy`")
    };
    let expected = canary.expected.as_ref().ok_or_else(unknown)?;
    let source = observed.policy.known().ok_or_else(unknown)?;
    Policy::parse(&source.text, &source.name).map_err(|_| unknown())?;
    if let CanaryResult::Denied(name, why) = response(canary) {
        return Ok(vec![match expected.denied {
            true => Note::not_checked(format!("{name} denies it, as the policy says"))
                .remedy("nothing, if that is intended"),
            false => Note::problem(format!("denied by {name}, though the policy admits it: {}", shown(why)))
                .remedy(OTHER_POLICY),
        }]);
    }
    if expected.fills.is_empty() {
        return Err(Note::not_checked("the policy fills in nothing").remedy("nothing, if that is intended"));
    }
    // The engine must find nothing left to fill in.
    let Some(again) = as_stored(observed, canary) else {
        return Err(Note::not_checked("the answer is not a Job"));
    };
    let mut left: Vec<&str> =
        again.findings.iter().filter(|finding| finding.fills).map(|finding| &*finding.rule).collect();
    left.sort_unstable();
    left.dedup();
    Ok(vec![match left.is_empty() {
        true => Note::ok(format!("filled in for {}", list(&expected.fills))),
        // Its warning shows that it was called.
        false if canary.warnings.iter().any(|warning| warning.contains("jobgate filled in")) => {
            Note::problem(format!(
                "another webhook takes away what {} fills in{}",
                list(left),
                others(observed)
            ))
            .remedy(OTHER_WEBHOOK)
        }
        false => {
            let note = unasked(canary);
            Note { text: format!("admitted without what {} fills in: {}", list(left), note.text), ..note }
        }
    }])
}

pub(super) fn fail_open(observed: &Observed) -> CheckOutcome {
    let counts = need(&observed.fail_open, || Note::not_checked("the API server does not report the count"))?;
    let entries = entries(observed)?;
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name()).collect();
    names.sort_unstable();
    names.dedup();
    let rose =
        names.iter().filter_map(|name| Some((name, counts.get(*name).copied().filter(|count| *count > 0)?)));
    let rose: Vec<String> = rose.map(|(name, count)| format!("{name} {count}")).collect();
    let failed = |before: &str, ours: &dyn Fn(&str) -> bool| {
        let of = counts.iter().filter_map(|(name, count)| Some((name.strip_prefix(before)?, count)));
        let of = of.filter(|(name, count)| ours(name) && **count > 0);
        of.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>()
    };
    let conditions = failed(CONDITION, &|name| names.contains(&name));
    let policies = failed(POLICY_OF_SERVER, &|name| name.starts_with(EXPORTED));
    let mut notes = Vec::new();
    if !rose.is_empty() {
        notes.push(Note::warning(format!(
            "calls that failed and were admitted since the API server started, including earlier canaries: {}",
            list(rose)
        )));
    }
    if !conditions.is_empty() {
        let text = format!(
            "match conditions that could not be evaluated, so that the webhook was not called: {}",
            list(conditions)
        );
        notes.push(
            Note::warning(text).remedy("apply the manifests again: kubectl apply -f deploy/install.yaml"),
        );
    }
    if !policies.is_empty() {
        let text = format!(
            "exported policies that the API server could not evaluate, so that they did not judge: {}",
            list(policies)
        );
        notes.push(Note::warning(text).remedy(
            "export them again with this version: jobgate policy export --vap POLICY | kubectl apply -f -",
        ));
    }
    or_fine(notes, "none since the API server started")
}
