//! The table of checks, and helpers that several of them need.

mod access;
mod bundle;
mod canary;
mod policy;
mod registration;
mod workload;

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::examination::{Check, CheckOutcome, Note};
use super::observations::{Entry, Observed, Seen};
use crate::certs::authority::Root;
use jobgate_report::plural;

/// The remedy if the manifests are not applied unchanged.
const REINSTALL: &str =
    "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml";

/// All checks: the API server, the registration, the certificates, the pods, the policy, and finally the
/// canaries, which cover all of them.
pub static CHECKS: &[Check] = &[
    Check {
        id: "api-server",
        title: "The API server's version is supported",
        about: "Kubernetes 1.29 to 1.37 ([compatibility](compatibility.md)). Before 1.29 the API server \
            drops fields that Jobgate fills in",
        remedy: "see docs/compatibility.md for the differences",
        judge: registration::api_server,
    },
    Check {
        id: "configurations",
        title: "Both webhook configurations exist",
        about: "Without the mutating one nothing is filled in; without the validating one nothing is denied. \
            No request fails, so nothing else shows it",
        remedy: REINSTALL,
        judge: registration::configurations,
    },
    Check {
        id: "target",
        title: "Every webhook calls the Service at the right path and port",
        about: "With another Service name or namespace, a path other than `/mutate` or `/validate`, or a \
            port that the Service does not have, the API server gets no answer, or a wrong one",
        remedy: REINSTALL,
        judge: registration::target,
    },
    Check {
        id: "rules",
        title: "The webhooks are called for the creation and update of every kind, and for nothing else",
        about: "A kind that is not listed is not judged. Wildcards, deletions and subresources block the \
            cluster's own work while Jobgate is down",
        remedy: REINSTALL,
        judge: registration::rules,
    },
    Check {
        id: "failure-policy",
        title: "`Fail` is limited to named namespaces",
        about: "While Jobgate is down, `Ignore` admits jobs unjudged; `Fail` rejects them, and CronJobs miss \
            runs. Use `Fail` for named namespaces (`fail-closed`), never for the whole cluster",
        remedy: "name the namespaces in the component deploy/components/fail-closed, or go back to `Ignore`: \
            kubectl apply -f deploy/install.yaml",
        judge: registration::failure_policy,
    },
    Check {
        id: "selectors",
        title: "The webhooks skip the system's and Jobgate's own namespaces, and no label bypasses them",
        about: "A webhook that is called for its own namespace can keep itself from starting. Object \
            selectors, and namespace selectors on labels that tenants may set, can be bypassed. A match \
            condition that fails skips the webhook. Other namespaces that a webhook skips are listed: no job \
            is judged there",
        remedy: REINSTALL,
        judge: registration::selectors,
    },
    Check {
        id: "settings",
        title: "Match policy, side effects, review versions and reinvocation are as in the manifests",
        about: "`matchPolicy: Exact` misses other versions of a kind; Jobgate has no side effects (`None`); \
            without reinvocation it does not see containers that other webhooks add",
        remedy: REINSTALL,
        judge: registration::settings,
    },
    Check {
        id: "timeouts",
        title: "The timeouts of all webhooks together fit into one request",
        about: "Mutating webhooks are called one after the other, and a request has about half a minute in \
            all. After that it fails, whatever the failure policies are",
        remedy: "lower timeoutSeconds of the listed webhooks: kubectl get \
            mutatingwebhookconfigurations,validatingwebhookconfigurations",
        judge: registration::timeouts,
    },
    Check {
        id: "duplicates",
        title: "No other configuration calls the same webhook",
        about: "What an earlier installation left behind calls Jobgate a second time, with settings that \
            nobody maintains",
        remedy: "look at the listed configurations, and delete those that nobody needs: kubectl get \
            mutatingwebhookconfigurations,validatingwebhookconfigurations",
        judge: registration::duplicates,
    },
    Check {
        id: "ca-bundle",
        title: "Every webhook's caBundle has an authority that is valid and does not expire soon",
        about: "The API server trusts nothing else: if it is empty, unreadable or expired, every call fails. \
            With self-managed certificates Jobgate writes it; otherwise whoever issues the certificate does",
        remedy: "with self-managed certificates, the log says why it is not written: kubectl -n {ns} logs \
            deployment/{deployment} --tail=50",
        judge: bundle::bundle,
    },
    Check {
        id: "ca-bundle-agrees",
        title: "All webhooks trust the same authorities",
        about: "They may differ for a second or two during a rotation. If they differ for longer, something \
            else writes one of them",
        remedy: "see who writes it: kubectl get mutatingwebhookconfigurations {mutating} -o yaml \
            --show-managed-fields",
        judge: bundle::agrees,
    },
    Check {
        id: "ca-bundle-is-ours",
        title: "The authority in the Secret is in every caBundle",
        about: "The authority in the Secret signs what the replicas serve. Where something else writes the \
            caBundle (a second controller, a backup, another cluster's manifests), every call fails. For a \
            mounted certificate, `ca.crt` of its Secret is checked; without one, an authority in caBundle \
            must have signed the certificate",
        remedy: "Jobgate restores its own within ten seconds if it has permission; see who else writes it: \
            kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: bundle::ours,
    },
    Check {
        id: "served-certificate",
        title: "The served certificate is valid, is for the Service's name, and is signed by an authority in \
            caBundle",
        about: "The certificate is read in a TLS handshake: with a URL directly; in the cluster with the \
            Service; otherwise with each running pod through the API server (a port-forward). It is verified \
            against every caBundle, as the API server does",
        remedy: "see which certificate the pods serve, and why: kubectl -n {ns} logs deployment/{deployment} \
            --tail=50",
        judge: bundle::served,
    },
    Check {
        id: "certificate-secret",
        title: "The Secret has a usable certificate that does not expire soon",
        about: "With self-managed certificates it has the authority and, before a rotation, the next one; \
            Jobgate fills the Secret but never creates it. Otherwise it has the served certificate. The key \
            must exist, be readable, and belong to the certificate",
        remedy: "create the Secret if it is missing (kubectl apply -f deploy/install.yaml does not change \
            one with data), then see the log: kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: bundle::secret,
    },
    Check {
        id: "namespace",
        title: "The namespace exists and is not being deleted",
        about: "Nothing new can start in a namespace that is being deleted",
        remedy: REINSTALL,
        judge: workload::namespace,
    },
    Check {
        id: "replicas",
        title: "Two or more replicas are ready",
        about: "With none, jobs are admitted unjudged (or rejected, with `Fail`); with one, draining a node \
            is enough to cause that. The Deployment's conditions say why pods are not created",
        remedy: "see why: kubectl -n {ns} describe deployment/{deployment}",
        judge: workload::replicas,
    },
    Check {
        id: "pods",
        title: "The pods run, and have not been restarted",
        about: "Waiting and terminated containers, with the kubelet's reason: an image that cannot be \
            pulled, not enough memory, a policy that cannot be read at startup",
        remedy: "see why: kubectl -n {ns} describe pods -l app.kubernetes.io/name=jobgate",
        judge: workload::pods,
    },
    Check {
        id: "version",
        title: "The cluster runs this program's version",
        about: "As the pods report it, else from the image's tag. Another version may have other rules, and \
            this program's advice is for its own",
        remedy: "use the program of the cluster's version, or upgrade the cluster's: kubectl -n {ns} get \
            deployment {deployment} -o wide",
        judge: workload::version,
    },
    Check {
        id: "service",
        title: "The Service has ready endpoints",
        about: "The API server looks up the Service and calls one of its endpoints. Without one, every call \
            fails",
        remedy: "compare the Service's selector with the pods' labels: kubectl -n {ns} get endpointslices -l \
            kubernetes.io/service-name={service}",
        judge: workload::service,
    },
    Check {
        id: "network-policy",
        title: "No NetworkPolicy blocks the API server",
        about: "If a policy selects the pods, one must allow the webhook's port. The API server is on its \
            node's network, which no selector matches, so a rule with pod or namespace selectors blocks it",
        remedy: "apply the NetworkPolicy of the manifests: kubectl -n {ns} get networkpolicies -o yaml",
        judge: workload::network_policy,
    },
    Check {
        id: "disruption-budget",
        title: "A PodDisruptionBudget keeps one replica while nodes are drained",
        about: "Without it a drain may evict all replicas at once",
        remedy: REINSTALL,
        judge: workload::disruption_budget,
    },
    Check {
        id: "priority-class",
        title: "The pods' PriorityClass exists",
        about: "Without a priority, a full cluster evicts Jobgate first; with a class that does not exist, \
            no pod is created",
        remedy: REINSTALL,
        judge: workload::priority_class,
    },
    Check {
        id: "permissions",
        title: "The pods' service account has the permissions that it needs",
        about: "The Deployment names the account, and what it needs: the Secret and the two configurations \
            for self-managed certificates, claims and runtimes for the rules that need them, and the parents \
            of what controllers make ([permissions](install.md#permissions)). If the Deployment cannot be read, nothing is guessed. \
            The API server is asked with SubjectAccessReviews, which store nothing",
        remedy: REINSTALL,
        judge: access::permissions,
    },
    Check {
        id: "policy",
        title: "The policy can be read, and does what you want",
        about: "The ConfigMap that the pods mount, read as the server reads it. Running pods do not load an \
            invalid policy, and new ones do not start with it",
        remedy: "fix it: kubectl -n {ns} get configmap {policy} -o jsonpath='{.data.{key}}' | jobgate policy \
            check -",
        judge: policy::policy,
    },
    Check {
        id: "exemptions",
        title: "No exemption of the policy has ended",
        about: "An exemption that has ended suppresses nothing: what it covered is denied again",
        remedy: "extend it with the people it was for, or remove it: kubectl -n {ns} edit configmap {policy}",
        judge: policy::exemptions,
    },
    Check {
        id: "operators",
        title: "The operators' accounts are in `trustedControllers`",
        about: "What an operator makes of a job that was judged is not judged again, if the policy names its \
            account. If not, its Jobs are denied for what their author cannot change. Whoever may write the \
            status of a kind and create its children is taken for its operator",
        remedy: "add the listed accounts to `spec.trustedControllers`: kubectl -n {ns} edit configmap {policy}",
        judge: policy::operators,
    },
    Check {
        id: "policy-in-force",
        title: "Every replica uses that policy",
        about: "A replica loads a changed ConfigMap within about a minute. One that uses another policy \
            could not read the new one. The metrics of each pod are read through the API server",
        remedy: "wait a minute; then the log has the line and column: kubectl -n {ns} logs \
            deployment/{deployment} --tail=50",
        judge: policy::in_force,
    },
    Check {
        id: "fail-open",
        title: "The API server has admitted nothing unjudged",
        about: "It counts the calls that failed under `Ignore` since it started \
            (`apiserver_admission_webhook_fail_open_count`), and how often it could not evaluate a match \
            condition, or a policy that `jobgate policy export` made. With several API servers, this is the \
            count of the one that answered. Canaries of earlier runs count, too",
        remedy: "the count never goes down; see whether it rises: kubectl get --raw /metrics | grep \
            webhook_fail_open_count",
        judge: canary::fail_open,
    },
    Check {
        id: "canary-denied",
        title: "A Job that the policy denies is denied",
        about: "A Job without a deadline is sent as a dry run, which passes all admission and stores \
            nothing. The expected result is computed from the policy in the cluster. Only this check covers \
            the whole path: registration, network, TLS, policy. An error of the API server is shown with its \
            meaning. If the policy denies nothing, the Job must get a warning",
        remedy: "see what the other checks report; if they are fine, the API server's log says why it gets \
            no answer",
        judge: canary::judged,
    },
    Check {
        id: "canary-filled",
        title: "A Job that lacks what the policy fills in gets it",
        about: "The same for `/mutate`: the Job that the dry run returns must have what the policy fills in",
        remedy: "see what the other checks report; if they are fine, the API server's log says why it gets \
            no answer",
        judge: canary::filled,
    },
];

/// Returns the value, or a note that it is absent or could not be read.
fn need<T>(seen: &Seen<T>, absent: impl FnOnce() -> Note) -> Result<&T, Note> {
    match seen {
        Seen::Known(value) => Ok(value),
        Seen::Absent => Err(absent()),
        Seen::Unread(unread) => Err(Note::unread(unread)),
    }
}

/// Returns the webhooks of both configurations, or why they are unknown. Only `configurations` reports
/// missing ones.
fn entries(observed: &Observed) -> Result<Vec<Entry<'_>>, Note> {
    for seen in [&observed.mutating, &observed.validating] {
        if let Seen::Unread(unread) = seen {
            return Err(Note::unread(unread));
        }
    }
    let entries: Vec<Entry<'_>> = observed.entries().collect();
    if entries.is_empty() {
        Err(Note::not_checked("there is no webhook").remedy("see `configurations`"))
    } else {
        Ok(entries)
    }
}

/// Returns the notes, or an ok note if there are none.
fn or_fine(notes: Vec<Note>, fine: impl Into<String>) -> CheckOutcome {
    Ok(if notes.is_empty() { vec![Note::ok(fine)] } else { notes })
}

/// Formats a duration for people.
fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (number, unit) = match seconds {
        172_800.. => (seconds / 86_400, "day"),
        7_200.. => (seconds / 3_600, "hour"),
        120.. => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    plural(usize::try_from(number).unwrap_or(usize::MAX), unit)
}

fn day(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| time.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// Checks the dates of a certificate.
///
/// "Soon" is a tenth of its life, not a number of days: a short-lived certificate is not always about to
/// expire (docs/internals/webhook.md#certificates-that-expire-soon).
fn dates(what: &str, root: &Root, now: SystemTime) -> Note {
    let (begin, end) = (root.not_before(), root.not_after());
    let life = end.duration_since(begin).unwrap_or_default();
    match (now.duration_since(begin), end.duration_since(now)) {
        (_, Err(_)) => Note::problem(format!("{what} expired on {}", day(end))),
        (_, Ok(Duration::ZERO)) => Note::problem(format!("{what} expired on {}", day(end))),
        (Err(_), _) => Note::problem(format!("{what} is not valid before {}", day(begin))),
        (_, Ok(left)) if left < life / 10 => {
            Note::warning(format!("{what} expires in {}, on {}", span(left), day(end)))
        }
        (_, Ok(left)) => Note::ok(format!("{what} is valid for {}, until {}", span(left), day(end))),
    }
}

/// Joins words with commas.
fn list<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    words.join(", ")
}
