//! Probes and lifecycle hooks.

use super::cause::{CausePlace as _, Causes};
use super::container::port_number;
use super::object_part::ObjectPart;
use super::pod::Pod;
use crate::judge::api::stored_object::Stored;
use crate::k8s::names;

pub(super) fn probes(container: &ObjectPart<'_, '_>, pod: &Pod<'_>, causes: &mut Causes) {
    let lifecycle = container.get("lifecycle");
    for name in ["postStart", "preStop"] {
        if lifecycle.get(name).is_set() {
            handler(&lifecycle.get(name), pod.grace, causes);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, pod.grace, causes);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            causes.not_negative(&probe.get(field));
        }
        let grace = probe.get("terminationGracePeriodSeconds");
        if grace.number().is_some_and(|seconds| seconds <= 0) {
            causes.invalid(&grace, "must be greater than 0");
        }
        let successes = probe.get("successThreshold");
        if name == "readinessProbe" {
            if grace.is_set() {
                causes.invalid(&grace, "must not be set for readinessProbes");
            }
        } else if successes.number().is_some_and(|count| count != 1) {
            causes.invalid(&successes, "must be 1");
        }
    }
}

fn handler(handler: &ObjectPart<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"].map(|kind| handler.get(kind));
    let mut there = kinds.iter().filter(|kind| kind.is_set());
    if there.next().is_none() {
        causes.required(handler, "must specify a handler type");
        return;
    }
    for more in there {
        causes.forbidden(more, "may not specify more than 1 handler type");
    }
    let [exec, http, tcp, grpc, sleep] = &kinds;
    if exec.is_set() {
        if exec.get("command").items().next().is_none() {
            causes.required(&exec.get("command"), "");
        }
    } else if http.is_set() {
        port(&http.get("port"), causes);
        causes.one_of(&http.get("scheme"), &["HTTP", "HTTPS"]);
        for header in http.get("httpHeaders").items() {
            let name = header.get("name").text();
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                let message = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
                               'X-Header-Name', regex used for validation is \
                               '[-A-Za-z0-9]+')";
                causes.invalid_text(&http.get("httpHeaders"), name, message).pointer = header.pointer();
            }
        }
    } else if tcp.is_set() {
        port(&tcp.get("port"), causes);
    } else if grpc.is_set() {
        port(&grpc.get("port"), causes);
    } else {
        let seconds = sleep.get("seconds").number().unwrap_or_default();
        if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
            let detail =
                format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            causes.invalid_number(sleep, seconds, &detail);
        }
    }
}

/// Checks a port that is a number or the name of one.
fn port(field: &ObjectPart<'_, '_>, causes: &mut Causes) {
    match field.value {
        Some(Stored::Text(_)) => causes.format(field, names::port_name),
        _ => port_number(field, causes),
    }
}
