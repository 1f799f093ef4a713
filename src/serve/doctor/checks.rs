//! The checks: the table, and what several of them need.

mod access;
mod bundle;
mod canary;
mod policy;
mod registration;
mod workload;

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::observed::{Entry, Observed, Seen};
use super::{Check, Judged, Note};
use crate::report::plural;
use crate::serve::certs::authority::Root;

/// All checks, from the API server over the registration and the certificates to the pods and the policy, and
/// at last what comes of it all.
pub static CHECKS: &[Check] = &[
    Check {
        id: "api-server",
        title: "The API server is of a version that Jobgate is made for",
        about: "Kubernetes 1.29 to 1.37 ([compatibility](compatibility.md)). Before 1.29 the API server drops what is filled in",
        remedy: "see docs/compatibility.md for what is different",
        judge: registration::api_server,
    },
    Check {
        id: "configurations",
        title: "Both webhook configurations are there",
        about: "Without the mutating one nothing is filled in, without the validating one nothing is denied, and nothing else says so: no request fails",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: registration::configurations,
    },
    Check {
        id: "target",
        title: "Every webhook leads to the Service, at the right path and port",
        about: "A Service of another name or namespace, a path that is not `/mutate` or `/validate`, or a port that the Service does not have: the API server gets no answer, \
                or one to another question",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: registration::target,
    },
    Check {
        id: "rules",
        title: "The webhooks are called for the creation and the update of every kind, and for nothing else",
        about: "A kind that is not listed is not judged. Wildcards, deletion and subresources stand in the way of the cluster's own work while Jobgate is down",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: registration::rules,
    },
    Check {
        id: "failure-policy",
        title: "What happens while Jobgate is down is what you chose",
        about: "`Ignore` lets jobs pass unjudged; `Fail` refuses them, and CronJobs then miss runs. `Fail` belongs to namespaces that are named (`fail-closed`), never to the whole cluster",
        remedy: "name the namespaces with the component deploy/components/fail-closed, or go back to `Ignore`: kubectl apply -f deploy/install.yaml",
        judge: registration::failure_policy,
    },
    Check {
        id: "selectors",
        title: "The system's namespaces and Jobgate's own are left alone, and no label gets around the webhooks",
        about: "A webhook that is asked about its own namespace can keep itself from starting. An object selector, or a namespace selector by labels that tenants may set, is a way around it. \
                A match condition that fails skips the webhook. A namespace that a webhook leaves out, besides the system's and Jobgate's own, is named: no job is judged there",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: registration::selectors,
    },
    Check {
        id: "settings",
        title: "Match policy, side effects, review versions and reinvocation are as the manifests have them",
        about: "`matchPolicy: Exact` misses other versions of a kind; side effects other than `None` are not Jobgate's; without reinvocation a container that another webhook adds goes unseen",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: registration::settings,
    },
    Check {
        id: "timeouts",
        title: "The webhooks of the cluster leave a request time to end",
        about: "Mutating webhooks are asked one after the other, and a request has about half a minute in all. When the sum is used up it fails, whatever the failure policies say",
        remedy: "lower timeoutSeconds of the webhooks that are named: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
        judge: registration::timeouts,
    },
    Check {
        id: "duplicates",
        title: "No other configuration leads to the same webhook",
        about: "What an earlier installation left behind asks Jobgate a second time, under settings that nobody looks after",
        remedy: "look at what is named, and delete it if nobody needs it: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
        judge: registration::duplicates,
    },
    Check {
        id: "ca-bundle",
        title: "Every webhook's caBundle holds an authority, now and for a while yet",
        about: "The API server trusts nothing else. Empty, unreadable or expired: every call fails. Jobgate writes it itself with self-managed certificates; otherwise whoever makes the certificate does",
        remedy: "with self-managed certificates the log says what keeps it from being written: kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: bundle::bundle,
    },
    Check {
        id: "ca-bundle-agrees",
        title: "All webhooks trust the same authorities",
        about: "For a second or two during a rotation they may differ; beyond that, somebody else writes one of them",
        remedy: "see who writes it: kubectl get mutatingwebhookconfigurations {mutating} -o yaml --show-managed-fields",
        judge: bundle::agrees,
    },
    Check {
        id: "ca-bundle-is-ours",
        title: "The authority in the Secret is the one in caBundle",
        about: "Replicas serve what the authority in the Secret signs. A caBundle of somebody else (a second controller, a backup, another cluster's manifests) makes every call fail. \
                Where the certificate is mounted, its Secret's `ca.crt` is looked for; without one, the certificate must be signed by an authority in caBundle",
        remedy: "Jobgate puts its own back within ten seconds if it may; see who else writes: kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: bundle::ours,
    },
    Check {
        id: "served-certificate",
        title: "What is served is signed by an authority in caBundle, is for the Service's name, and holds",
        about: "The certificate is fetched by a TLS handshake: from a URL directly; in the cluster from the Service; otherwise from each running pod through the API server (a port-forward). \
                It is verified as the API server does, against every caBundle",
        remedy: "see which certificate the pods serve, and why: kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: bundle::served,
    },
    Check {
        id: "certificate-secret",
        title: "The Secret holds a certificate that can be used, now and for a while yet",
        about: "With self-managed certificates it holds the authority and, before a rotation, the next one; Jobgate fills it but never makes it. Otherwise it holds the certificate that is served. \
                A key must be there, be readable, and belong to its certificate",
        remedy: "make the Secret if it is gone (kubectl apply -f deploy/install.yaml leaves a full one alone), then look at the log: kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: bundle::secret,
    },
    Check {
        id: "namespace",
        title: "The namespace is there to stay",
        about: "In a namespace that is being deleted nothing new starts",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: workload::namespace,
    },
    Check {
        id: "replicas",
        title: "Two replicas or more are ready",
        about: "With none, jobs pass unjudged (or are refused, where that was chosen); with one, a drained node is enough to come to that. Conditions of the Deployment say why pods are not made",
        remedy: "see why: kubectl -n {ns} describe deployment/{deployment}",
        judge: workload::replicas,
    },
    Check {
        id: "pods",
        title: "The pods run, and have not been restarted",
        about: "Waiting and ended containers with the kubelet's reason: an image that cannot be pulled, memory that ran out, a policy that cannot be read at the start",
        remedy: "see why: kubectl -n {ns} describe pods -l app.kubernetes.io/name=jobgate",
        judge: workload::pods,
    },
    Check {
        id: "version",
        title: "The version in the cluster is this program's",
        about: "By what the pods say of themselves, else by the image's tag. Another version may have other rules, and this program's advice is about its own",
        remedy: "use the program of the cluster's version, or upgrade the cluster's: kubectl -n {ns} get deployment {deployment} -o wide",
        judge: workload::version,
    },
    Check {
        id: "service",
        title: "The Service leads to pods that are ready",
        about: "The API server looks the Service up and calls one of its endpoints. Without one, every call fails",
        remedy: "compare the Service's selector with the pods' labels: kubectl -n {ns} get endpointslices -l kubernetes.io/service-name={service}",
        judge: workload::service,
    },
    Check {
        id: "network-policy",
        title: "No network policy keeps the API server out",
        about: "Where a policy selects the pods, one must let the webhook's port in. The API server is on its node's network, which no selector can name, so a rule with pod or namespace selectors keeps it out",
        remedy: "apply the NetworkPolicy of the manifests: kubectl -n {ns} get networkpolicies -o yaml",
        judge: workload::network_policy,
    },
    Check {
        id: "disruption-budget",
        title: "A PodDisruptionBudget keeps one replica while nodes are drained",
        about: "Without it a drain may take all replicas at once",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: workload::disruption_budget,
    },
    Check {
        id: "priority-class",
        title: "The pods' PriorityClass is there",
        about: "Without a priority a full cluster leaves Jobgate out first; with a class that does not exist no pod is made at all",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: workload::priority_class,
    },
    Check {
        id: "permissions",
        title: "The pods' service account may do what it has to",
        about: "Who that is, and what it has to do, is told by the Deployment: the Secret and the two configurations for self-managed certificates, claims for `checkpoint-volume-access` \
                ([permissions](install.md#permissions)). Where the Deployment cannot be read, nothing is guessed. Asked of the API server by a SubjectAccessReview, which stores nothing",
        remedy: "apply the manifests again, or upgrade the release: kubectl apply -f deploy/install.yaml",
        judge: access::permissions,
    },
    Check {
        id: "policy",
        title: "The policy can be read, and what it does is what you want",
        about: "The ConfigMap that the pods mount, read as the server reads it. One that cannot be read is not taken over by pods that run, and keeps new ones from starting",
        remedy: "fix it: kubectl -n {ns} get configmap {policy} -o jsonpath='{.data.{key}}' | jobgate policy check -",
        judge: policy::policy,
    },
    Check {
        id: "exemptions",
        title: "No exemption of the policy has ended",
        about: "After its date an exemption lifts nothing: what it covered is denied again",
        remedy: "extend it with the people it was for, or take it out: kubectl -n {ns} edit configmap {policy}",
        judge: policy::exemptions,
    },
    Check {
        id: "policy-in-force",
        title: "Every replica follows that policy",
        about: "A replica takes a change over within a minute or so of the ConfigMap's. One that follows another policy could not read the new one. Each pod is asked for its metrics through the API server",
        remedy: "wait a minute; then the log has the line and column: kubectl -n {ns} logs deployment/{deployment} --tail=50",
        judge: policy::in_force,
    },
    Check {
        id: "fail-open",
        title: "The API server has let nothing pass unjudged",
        about: "It counts the calls that failed under `Ignore` since it started (`apiserver_admission_webhook_fail_open_count`). Where there are several API servers, this is the count of the one that answered. Canaries of an earlier run count, too",
        remedy: "the count does not go down again; see whether it rises: kubectl get --raw /metrics | grep webhook_fail_open_count",
        judge: canary::fail_open,
    },
    Check {
        id: "canary-denied",
        title: "A Job that the policy denies is denied",
        about: "A Job without a deadline is sent as a dry run, which passes all admission and stores nothing. What must come of it is worked out from the policy in the cluster. \
                This is the one check that goes the whole way: registration, network, TLS, policy. An error of the API server's is shown with what it means. Under a policy that denies nothing, the Job must be warned of",
        remedy: "the checks above say what is broken; if none does, the API server's log says why it gets no answer",
        judge: canary::judged,
    },
    Check {
        id: "canary-filled",
        title: "A Job that lacks what the policy fills in gets it",
        about: "The same for `/mutate`: the Job that the dry run returns must have what is to be filled in",
        remedy: "the checks above say what is broken; if none does, the API server's log says why it gets no answer",
        judge: canary::filled,
    },
];

/// Returns what is there, or the note for a thing that could not be read or is absent.
fn need<T>(seen: &Seen<T>, absent: impl FnOnce() -> Note) -> Result<&T, Note> {
    match seen {
        Seen::Known(value) => Ok(value),
        Seen::Absent => Err(absent()),
        Seen::Unread(unread) => Err(Note::unread(unread)),
    }
}

/// Returns the webhooks of both configurations, or why they are not known. What is missing is told by
/// `configurations` alone.
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

/// Returns the notes, or the one that all is well.
fn or_fine(notes: Vec<Note>, fine: impl Into<String>) -> Judged {
    Ok(if notes.is_empty() { vec![Note::ok(fine)] } else { notes })
}

/// Writes a duration as people speak of it.
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

/// Says what is wrong with the dates of a certificate, and how much time it has.
///
/// Near is a tenth of its life, not a number of days: a short-lived certificate is not always about to end
/// (reliability.md §2 no. 12).
fn dates(what: &str, root: &Root, now: SystemTime) -> Note {
    let (begin, end) = (root.not_before(), root.not_after());
    let life = end.duration_since(begin).unwrap_or_default();
    match (now.duration_since(begin), end.duration_since(now)) {
        (_, Err(_)) => Note::problem(format!("{what} expired on {}", day(end))),
        (_, Ok(Duration::ZERO)) => Note::problem(format!("{what} expired on {}", day(end))),
        (Err(_), _) => Note::problem(format!("{what} does not hold before {}", day(begin))),
        (_, Ok(left)) if left < life / 10 => {
            Note::warning(format!("{what} ends in {}, on {}", span(left), day(end)))
        }
        (_, Ok(left)) => Note::ok(format!("{what} holds for {}, until {}", span(left), day(end))),
    }
}

/// Joins words with commas.
fn list<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    words.join(", ")
}
