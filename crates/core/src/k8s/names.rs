//! Kubernetes' formats of names, labels and keys. Each function returns the API server's messages for a text.

use std::net::IpAddr;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                         with an alphanumeric character";

fn form(rule: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Tells whether a byte is allowed inside a name, but not at its ends.
fn is_joint(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'.')
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Tells whether a text starts and ends with a byte of `edge`, with `edge` and `inside` between.
#[inline]
fn is_made_of(text: &str, edge: impl Fn(u8) -> bool, inside: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            edge(*first) && edge(*last) && bytes.iter().all(|byte| edge(*byte) || inside(*byte))
        }
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    is_made_of(text, is_lower, |byte| byte == b'-')
}

/// Tells whether a text is one or more labels with dots between them.
fn is_subdomain(text: &str) -> bool {
    let mut before = b'.';
    for byte in text.bytes() {
        let fits = match byte {
            b'.' => is_lower(before),
            b'-' => before != b'.',
            other => is_lower(other),
        };
        if !fits {
            return false;
        }
        before = byte;
    }
    is_lower(before)
}

/// A DNS label: the names of containers, volumes and hosts.
#[must_use]
pub fn dns_label(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.len() > 63 {
        found.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) {
        found.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                        '-', and must start and end with an alphanumeric character";
            form(rule, LABEL, &["my-name", "123-abc"])
        });
    }
    found
}

/// A DNS subdomain: the names of most objects.
#[must_use]
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.len() > 253 {
        found.push("must be no more than 253 characters".to_owned());
    }
    if !is_subdomain(text) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                    or '.', and must start and end with an alphanumeric \
                    character";
        found.push(form(rule, &format!("{LABEL}(\\.{LABEL})*"), &["example.com"]));
    }
    found
}

/// A DNS label that starts with a letter: the names of `PyTorchJob`s, which are also names of services.
#[must_use]
pub fn dns_label_1035(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.len() > 63 {
        found.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
                    an alphabetic character, and end with an \
                    alphanumeric character";
        found.push(form(rule, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    found
}

/// The prefix of a generated name: a name that may end with a dash.
#[must_use]
pub(crate) fn name_prefix(text: &str) -> Vec<String> {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let kept: String = rest.chars().take(rest.chars().count() - 1).chain(['a']).collect();
            dns_subdomain(&kept)
        }
        _ => dns_subdomain(text),
    }
}

/// A qualified name: the keys of labels, taints and resources, with an optional domain before a `/`.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut found = Vec::new();
    let mut parts = text.split('/');
    let (first, second, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next().is_some());
    if more {
        let rule = form(NAME_RULE, NAME, &examples);
        return vec![format!(
            "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')"
        )];
    }
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                found.push("prefix part must be non-empty".to_owned());
            } else {
                found.extend(
                    dns_subdomain(first)
                        .into_iter()
                        .map(|message| format!("prefix part {}", in_bytes(&message))),
                );
            }
            name
        }
    };
    if name.is_empty() {
        found.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        found.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_made_of(name, is_alphanumeric, is_joint) {
        found.push(format!("name part {}", form(NAME_RULE, NAME, &examples)));
    }
    found
}

/// Newer messages say bytes instead of characters.
fn in_bytes(message: &str) -> String {
    message.replace("253 characters", "253 bytes")
}

/// The value of a label.
#[must_use]
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.len() > 63 {
        found.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_made_of(text, is_alphanumeric, is_joint) {
        let rule =
            format!("a valid label must be an empty string or {}", NAME_RULE.trim_start_matches("must "));
        found.push(form(&rule, &format!("({NAME})?"), &["MyValue", "my_value", "12345"]));
    }
    found
}

/// The name of a port.
#[must_use]
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |message: &str| found.push(message.to_owned());
    if text.len() > 15 {
        say("must be no more than 15 characters");
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte == b'-') {
        say("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        say("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        say("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        say("must not begin or end with a hyphen");
    }
    found
}

/// The name of an environment variable.
#[must_use]
pub(crate) fn environment_name(text: &str) -> Vec<String> {
    let fine = text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    let rule =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    if fine { Vec::new() } else { vec![rule.to_owned()] }
}

/// An IP address. Not one that some programs read otherwise: with leading zeros, or IPv4 in IPv6.
#[must_use]
pub(crate) fn ip_address(text: &str) -> Vec<String> {
    let message = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Ok(_) => return Vec::new(),
        Err(_) if without_zeros(text).parse::<IpAddr>().is_ok() => "must not have leading 0s",
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    vec![message.to_owned()]
}

/// Returns the parts of an IP address without leading zeros.
fn without_zeros(text: &str) -> String {
    let separator = if text.contains(':') { ':' } else { '.' };
    let part = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    text.split(separator).map(part).collect::<Vec<_>>().join(&separator.to_string())
}

/// A domain in which DNS names are looked up. Its labels may have underscores.
#[must_use]
pub(crate) fn search_domain(text: &str) -> Vec<String> {
    const LABEL: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let mut found = Vec::new();
    if text.len() > 253 {
        found.push("must be no more than 253 characters".to_owned());
    }
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_made_of(label, is_lower, |byte| matches!(byte, b'-' | b'_'))
    };
    if !text.split('.').all(is_label) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and \
                    end with an alphanumeric character";
        found.push(form(rule, &format!("{LABEL}(\\.{LABEL})*"), &["example.com"]));
    }
    found
}

/// A key of a config map or a secret.
#[must_use]
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if text.len() > 253 {
        found.push("must be no more than 253 characters".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|byte| is_alphanumeric(byte) || b"-._".contains(&byte)) {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        found.push(form(rule, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match text {
        "." | ".." => found.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => found.push("must not start with '..'".to_owned()),
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_are_fine() {
        assert!(["a", "my-name", "123-abc"].iter().all(|text| dns_label(text).is_empty()));
        assert!(["a.b", "example.com"].iter().all(|text| dns_subdomain(text).is_empty()));
        assert!(["x-", "a.b-", "a"].iter().all(|text| name_prefix(text).is_empty()));
        assert!(["app", "example.com/MyName", "a_b.c"].iter().all(|text| qualified_name(text).is_empty()));
        assert!(["", "v1.2_3", "A"].iter().all(|text| label_value(text).is_empty()));
        assert!(["http", "a-1"].iter().all(|text| port_name(text).is_empty()));
        assert!(["A", "my.name", "a b"].iter().all(|text| environment_name(text).is_empty()));
    }

    #[test]
    fn each_part_of_a_subdomain_is_a_label() {
        let parts = ["", "a", "-", "a-", "-a", "a-b", "A", "é", "a_b", "0"];
        let joined = parts.iter().flat_map(|first| parts.iter().map(move |second| [*first, *second]));
        for labels in joined
            .map(Vec::from)
            .chain(parts.iter().map(|part| vec![*part]))
            .chain([vec!["a", "b", "c"], vec!["a", "", "c"]])
        {
            assert_eq!(
                is_subdomain(&labels.join(".")),
                labels.iter().all(|label| is_label(label)),
                "{labels:?}"
            );
        }
    }

    #[test]
    fn bad_names_get_the_words_of_the_server() {
        assert_eq!(
            dns_label("A_b"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character \
              (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(label_value(&"n".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(
            label_value("a b"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
              character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(
            port_name("a--"),
            ["must not contain consecutive hyphens", "must not begin or end with a hyphen"]
        );
        assert_eq!(config_key(".."), ["must not be '..'"]);
        for problems in
            [dns_label_1035("1a"), name_prefix("Ab-"), environment_name("a=b"), qualified_name("a/b/c")]
        {
            assert!(!problems.is_empty());
        }
    }

    /// What Kubernetes 1.37 says of them.
    #[test]
    fn addresses_and_domains_are_read_strictly() {
        for (text, words) in [
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("::", None),
            ("", Some("must be a valid IP address")),
            ("10.0.0", Some("must be a valid IP address")),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("2001:db8::00001", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
        ] {
            let found = ip_address(text);
            assert_eq!(found.len(), usize::from(words.is_some()), "{text}: {found:?}");
            assert!(found.iter().all(|found| words.is_some_and(|words| found.starts_with(words))), "{text}");
        }
        for text in ["a", "a.b", "_tcp.a", "my_team.a", "a_-b"] {
            assert_eq!(search_domain(text), [""; 0], "{text}");
        }
        for text in ["", "a..b", "_", "a_", "a_.b", "-a", "A"] {
            assert_eq!(search_domain(text).len(), 1, "{text}");
        }
        assert_eq!(search_domain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }
}
