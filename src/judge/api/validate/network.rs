//! Host name and DNS.

use super::cause::Causes;
use super::part::Part;
use crate::k8s::names;

pub(super) fn host_name(spec: &Part<'_, '_>, causes: &mut Causes) {
    const MAX_BYTES: usize = 64;
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    causes.format(&name, names::dns_subdomain);
    if name.text().len() > MAX_BYTES {
        causes.too_long(&name, MAX_BYTES);
    }
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.get(other).is_true() {
            causes.forbidden(&name, &format!("may not be specified when {other} is true"));
        }
    }
}

pub(super) fn dns_config(config: &Part<'_, '_>, causes: &mut Causes) {
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    for (list, most, what) in [(&servers, 3, "nameservers"), (&searches, 32, "search paths")] {
        if list.items().count() > most {
            causes.invalid_value(list, &format!("must not have more than {most} {what}"));
        }
    }
    for server in servers.items().filter(|server| server.text().parse::<std::net::IpAddr>().is_err()) {
        causes.invalid(&server, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
    for search in searches.items().filter(|search| !matches!(search.text(), "." | "")) {
        // Underscores are allowed here, unlike in other names.
        if !names::dns_subdomain(&search.text().trim_end_matches('.').replace('_', "x")).is_empty() {
            let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with \
                        an alphanumeric character";
            causes.invalid(&search, rule);
        }
    }
    for option in config.get("options").items().filter(|option| option.get("name").text().is_empty()) {
        causes.required(&option, "must not be empty");
    }
}
