//! Fields by role, as CEL for the kinds of a policy.

use crate::judge::rule::Kinds;
use crate::kinds::{EACH, Finished, Kind, Path, Pods};

/// Returns an expression with its variables replaced for a kind: `$limits(FIELD)` and `$roles`, which may be
/// missing, the `$labels` of the pods' object, and the paths `$place(FIELD)` and `$rolesPlace` as text.
pub(super) fn with_roles(text: &str, kinds: Kinds) -> String {
    let text = with_argument(text, "$limits(", |field| {
        choose(kinds, |kind| format!("{}.?{field}", value(kind, kind.limits)))
    });
    let text = with_argument(&text, "$place(", |field| {
        choose(kinds, |kind| format!("'{}.{field}'", kind.limits.join(".")))
    });
    let labels = || choose(kinds, |kind| format!("{}.?labels.orValue({{}})", value(kind, kind.run_metadata)));
    text.replace("$labels", &labels())
        .replace("$rolesPlace", &roles(kinds, |at, _| format!("'{}'", at.join("."))))
        .replace("$roles", &roles(kinds, |at, kind| value(kind, at)))
}

/// Returns the pod templates of an object that is called `o`.
pub(super) fn templates(kinds: Kinds) -> String {
    choose(kinds, |kind| {
        let of = |pods: &Pods| match pods.at.iter().position(|key| *key == EACH) {
            None if kind.body.starts_with(pods.at) => {
                format!("[{}.{}]", value(kind, pods.at), pods.template)
            }
            None => format!("[{}.?{}.orValue({{}})]", value(kind, pods.at), pods.template),
            Some(at) => {
                let (around, below) = (&pods.at[..at], &pods.at[at + 1..]);
                let (maybe, there) = (value(kind, around), format!("o.{}", around.join(".")));
                let below: String =
                    below.iter().chain([&pods.template]).map(|key| format!(".?{key}")).collect();
                match pods.is_in_list() {
                    true => format!("{maybe}.orValue([]).map(item, item{below}.orValue({{}}))"),
                    false => {
                        format!("{maybe}.orValue({{}}).map(name, {there}[name]{below}.orValue({{}}))")
                    }
                }
            }
        };
        let all: Vec<String> = kind.pods.iter().map(of).collect();
        if all.is_empty() { "[]".to_owned() } else { all.join(" + ") }
    })
}

/// Returns an expression that tells whether an object, which is called `o`, has ended.
pub(super) fn finished(kinds: Kinds) -> String {
    choose(kinds, |kind| {
        let words = |words: &[&str]| {
            format!("[{}]", words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", "))
        };
        match kind.finished {
            Finished::Conditions(types) => format!(
                "o.?status.?conditions.orValue([]).exists(it, it.status == 'True' &&\n    it.type in {})",
                words(types)
            ),
            Finished::Field(path, ends) => {
                format!("o.?{}.orValue('') in {}", path.join(".?"), words(ends))
            }
            Finished::Never => "false".to_owned(),
        }
    })
}

/// Returns an expression that is one thing for each kind of the object that is called `o`.
fn choose(kinds: Kinds, of: impl Fn(Kind) -> String) -> String {
    let mut all: Vec<(Kind, String)> = kinds.exported().map(|kind| (kind, of(kind))).collect();
    all.dedup_by(|(next, text), (kind, known)| next.name == kind.name && text == known);
    let Some((_, last)) = all.first().cloned() else { return "[]".to_owned() };
    all.retain(|(_, text)| *text != last);
    let others: String =
        all.iter().map(|(kind, text)| format!("o.kind == '{}' ? {text} :\n  ", kind.name)).collect();
    if others.is_empty() { last } else { format!("({others}{last})") }
}

/// Returns a mapping of an object. Below its body it may be missing, and so may what `.?` selects from it.
fn value(kind: Kind, path: Path) -> String {
    let certain = |at: usize| path[at] == "metadata" && at == 0 || kind.body.get(..=at) == Some(&path[..=at]);
    (0..path.len()).fold("o".to_owned(), |text, at| text + if certain(at) { "." } else { ".?" } + path[at])
}

fn roles(kinds: Kinds, of: impl Fn(Path, Kind) -> String) -> String {
    choose(kinds, |kind| kind.roles().map_or_else(|| "{}".to_owned(), |at| of(at, kind)))
}

fn with_argument(text: &str, call: &str, of: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(call);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (argument, rest) = part.split_once(')').unwrap_or((part, ""));
        out += &of(argument);
        out += rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_become_the_fields_of_each_kind() {
        let limits = with_roles("$limits(x).hasValue()", Kinds::WithDeadline);
        for part in [
            "(o.kind == 'CronJob' ? o.spec.jobTemplate.spec.?x :",
            "\n  o.kind == 'PyTorchJob' ? o.spec.?runPolicy.?x :",
            "\n  o.spec.?x).hasValue()",
        ] {
            assert!(limits.contains(part), "{part}: {limits}");
        }
        // Both versions of it have the same fields.
        assert_eq!(limits.matches("'MPIJob'").count(), 1, "{limits}");
        let roles = with_roles("$roles.orValue({}) + $rolesPlace", Kinds::Roles);
        assert!(roles.starts_with("(o.kind == 'MPIJob' ? o.spec.?mpiReplicaSpecs :"), "{roles}");
        assert!(
            roles.contains(
                "o.spec.?pytorchReplicaSpecs).orValue({}) + (o.kind == 'MPIJob' ? 'spec.mpiReplicaSpecs'"
            ),
            "{roles}"
        );
        let labels = with_roles("$labels", Kinds::WithDeadline);
        assert_eq!(
            labels,
            "(o.kind == 'CronJob' ? o.spec.jobTemplate.?metadata.?labels.orValue({}) :\n  o.metadata.?labels.orValue({}))"
        );
    }
}
