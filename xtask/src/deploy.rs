//! The generated manifests below `deploy/`: the webhook configurations, the policies as ConfigMaps, and
//! everything in one file.
//!
//! The rest of `deploy/base` is written by hand. One file has all of it, for use without overlays.

use jobgate::judge::cel;
use jobgate::kinds::Kind;
use jobgate::kinds::registration::{self, Target};
use jobgate::policies::BUILTINS;
use jobgate::text::value::{Map, Value, json};
use jobgate::text::yaml;

/// The namespace, and the name of all objects.
const NAME: &str = "jobgate";

const MADE: &str = "# Made by `cargo xtask generate`.\n";

/// The hand-written files of `deploy/base`, before and after the policy.
const BEFORE_POLICY: [&str; 4] = [
    include_str!("../../deploy/base/namespace.yaml"),
    include_str!("../../deploy/base/service-account.yaml"),
    include_str!("../../deploy/base/certificates.yaml"),
    include_str!("../../deploy/base/claims.yaml"),
];
const AFTER_POLICY: &str = include_str!("../../deploy/base/workload.yaml");

/// Files that the chart shares with the rest: the dashboard and the alerts.
const DASHBOARD: &str = include_str!("../../deploy/components/dashboard/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../deploy/components/alerts/prometheus-rule.yaml");

/// Returns the files, with their paths from the root of the repository.
pub(crate) fn files() -> Vec<(String, String)> {
    let file = |path: &str, contents: String| (format!("deploy/{path}"), contents);
    let mut files = vec![
        file("install.yaml", everything()),
        file("base/policy.yaml", format!("{MADE}{}", policy("default"))),
        file("base/webhooks.yaml", format!("{MADE}{}", webhooks())),
        file("components/audit/policy.yaml", format!("{MADE}{}", policy("audit"))),
        file(
            "components/rules-in-the-api-server/policy.yaml",
            format!("{MADE}{}", cel::export(&jobgate::policies::default(), NAME, None).to_yaml()),
        ),
        file("helm/jobgate/files/grafana-dashboard.json", DASHBOARD.to_owned()),
        file("helm/jobgate/files/prometheus-rule.yaml", ALERTS.to_owned()),
        file("helm/jobgate/files/rules.yaml", yaml::print(&rules_by_kind())),
    ];
    files.extend(BUILTINS.iter().map(|builtin| {
        file(&format!("helm/jobgate/files/policies/{}.yaml", builtin.name), builtin.source.to_owned())
    }));
    files
}

/// Returns the webhook rules by kind, so that the chart can leave kinds out.
fn rules_by_kind() -> Value {
    let of_title = |title: &str| registration::rules(Kind::all().filter(|kind| kind.title() == title));
    let by_kind = Kind::titles().into_iter().map(|title| (title.to_owned(), of_title(title)));
    let by_kind = by_kind.filter(|(_, rules)| !rules.is_empty());
    by_kind.map(|(title, rules)| (title, Value::Array(rules))).collect::<Map>().into()
}

/// Returns the ConfigMap with a built-in policy, including comments.
fn policy(name: &str) -> String {
    let source = BUILTINS.iter().find(|builtin| builtin.name == name).map_or("", |builtin| builtin.source);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"app.kubernetes.io/name": NAME}, "name": "jobgate-policy", "namespace": NAME}});
    let mut text = format!("{}data:\n  policy.yaml: |\n", yaml::print(&map));
    for line in source.lines() {
        // An empty line stays empty: trailing spaces would be part of the text.
        text += &if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    }
    text
}

/// Returns both configurations, without `caBundle`, which depends on the certificates.
fn webhooks() -> String {
    let target = Target::Service { namespace: NAME.to_owned(), name: NAME.to_owned() };
    registration::configurations(NAME, &target, None)
        .map(|configuration| yaml::print(&configuration))
        .join("---\n")
}

/// Returns one file with everything. The configurations come last, after what they call.
fn everything() -> String {
    let mut parts: Vec<String> = BEFORE_POLICY.map(str::to_owned).to_vec();
    parts.extend([policy("default"), AFTER_POLICY.to_owned(), webhooks()]);
    let head =
        "# Jobgate in the namespace `jobgate`, with the policy `default` and certificates of its own. Made by `cargo xtask generate` from deploy/base.
#
#   kubectl apply -f install.yaml
#
# Out of the way at once (everything else may stay; applying this again brings it back):
#
#   kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration -l app.kubernetes.io/name=jobgate\n";
    format!("{head}{}", parts.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_in_a_config_map_is_the_policy() {
        for builtin in BUILTINS {
            let text = policy(builtin.name);
            let document = yaml::documents(text.as_bytes()).next().unwrap().unwrap();
            assert_eq!(document.value["data"]["policy.yaml"], builtin.source, "{}", builtin.name);
        }
    }

    #[test]
    fn configurations_read_back_as_they_are() {
        let text = webhooks();
        let read: Vec<_> = yaml::documents(text.as_bytes()).map(|document| document.unwrap().value).collect();
        let target = Target::Service { namespace: NAME.to_owned(), name: NAME.to_owned() };
        assert_eq!(read, registration::configurations(NAME, &target, None));
    }
}
