//! Fields by role, as CEL for the kinds of a policy.
//!
//! Fields that a schema does not require may be missing, so every step of a path is optional: an expression that
//! fails skips the whole policy.

use crate::judge::rule::Kinds;
use crate::kinds::{EACH, Finished, Kind, Path, Pods, Template};

/// Returns an expression with its variables replaced for a kind: `$deadline`, `$roles` and the `$labels` of the
/// pods' object, which may be missing, and the paths `$deadlinePlace` and `$rolesPlace` as text. An object
/// without the mapping that holds all of them has no places.
pub(super) fn with_roles(text: &str, kinds: Kinds) -> String {
    let deadline = |kind: Kind| [kind.limits, kind.deadline_at].concat();
    let deadline_place = || choose(kinds, |kind| format!("'{}'", deadline(kind).join(".")));
    let labels = || choose(kinds, |kind| format!("{}.?labels.orValue({{}})", value(kind.run_metadata)));
    text.replace("$labels", &labels())
        .replace("$deadlinePlace", &deadline_place())
        .replace("$deadline", &choose(kinds, |kind| value(&deadline(kind))))
        .replace("$rolesPlace", &roles(kinds, |at| format!("'{}'", at.join("."))))
        .replace("$roles", &roles(kinds, value))
}

/// Returns an expression for the places of the object `o`; none if it has no spec, since then it runs nothing.
pub(super) fn where_something_runs(kinds: Kinds, places: &str) -> String {
    format!("type({}.orValue(null)) != map ? [] :\n{places}", choose(kinds, |kind| value(kind.body)))
}

/// Returns an expression that tells whether `o` is of one of the kinds, in a version that Jobgate reads.
pub(super) fn is_one(kinds: Kinds) -> String {
    let (mut names, mut moved): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for kind in kinds.exported().filter(|kind| kind.components.is_none()) {
        let name = format!("{}/{}", kind.group, kind.name);
        if !names.contains(&name) {
            names.push(name);
        }
        let gone = kind.retired.iter().filter(|retired| retired.moved.is_some());
        moved.extend(gone.map(|retired| format!("{}/{}", retired.api_version, kind.name)));
    }
    let list = |names: &[String]| super::list(names.iter().map(String::as_str));
    let is_one = format!("{} in {}", group_kind("o"), list(&names));
    match moved.is_empty() {
        true => is_one,
        false => format!("{is_one} &&\n  !(o.apiVersion + '/' + o.kind in {})", list(&moved)),
    }
}

/// Returns an expression for an object's group and kind, such as `batch/Job`: kinds of different groups may have
/// the same name.
pub(super) fn group_kind(object: &str) -> String {
    format!("{object}.apiVersion.split('/')[0] + '/' + {object}.kind")
}

/// Returns an expression for the pod templates of the object `o`. Its requests for pods of another object count
/// as one more.
pub(super) fn templates(kinds: Kinds) -> String {
    choose(kinds, |kind| {
        let of = |pods: &Pods| match pods.at.iter().position(|key| *key == EACH) {
            None => format!("[{}]", template(pods.template, &value(pods.at))),
            Some(at) => {
                let (around, below) = (value(&pods.at[..at]), &pods.at[at + 1..]);
                let of = |item: &str| template(pods.template, &below_of(item, below));
                match pods.is_in_list() {
                    true => format!("{around}.orValue([]).map(item, {})", of("item")),
                    false => format!(
                        "[{around}.orValue({{}})].map(roles, roles.map(name, {}))[0]",
                        of("roles[name]")
                    ),
                }
            }
        };
        let requested = kind.runs_in.map(|reference| {
            let resources = value(reference.resources);
            format!("[{{'spec': {{'containers': [{{'resources': {resources}.orValue({{}})}}]}}}}]")
        });
        let all: Vec<String> = kind.pods.iter().map(of).chain(requested).collect();
        if all.is_empty() { "[]".to_owned() } else { all.join(" + ") }
    })
}

/// Returns an expression for a pod template with its containers in the form of Kubernetes.
fn template(form: Template, around: &str) -> String {
    let template = below_of(around, form.at);
    if form.is_of_kubernetes() {
        return format!("{template}.orValue({{}})");
    }
    let spec = below_of(&template, form.spec);
    let containers = form.containers.iter().map(|field| match field.is_list {
        true => format!("{spec}.?{}.orValue([])", field.name),
        false => format!("[{spec}.?{}.orValue({{}})]", field.name),
    });
    format!("{{'spec': {{'containers': {}}}}}", containers.collect::<Vec<_>>().join(" + "))
}

/// Returns an expression that tells whether the object `o` has ended.
pub(super) fn finished(kinds: Kinds) -> String {
    choose(kinds, |kind| {
        let words = |words: &[&str]| super::list(words.iter().copied());
        match kind.finished {
            Finished::Conditions(types) => format!(
                "o.?status.?conditions.orValue([]).exists(it, it.?status.orValue('') == 'True' &&\n    it.?type.orValue('') in {})",
                words(types)
            ),
            Finished::Field(path, ends) => format!("{}.orValue('') in {}", value(path), words(ends)),
            Finished::Never => "false".to_owned(),
        }
    })
}

/// Returns an expression that depends on the kind of the object `o`.
fn choose(kinds: Kinds, of: impl Fn(Kind) -> String) -> String {
    let mut all: Vec<(Kind, String)> = kinds.exported().map(|kind| (kind, of(kind))).collect();
    all.dedup_by(|(next, text), (kind, known)| next.name == kind.name && text == known);
    let Some((_, last)) = all.first().cloned() else { return "[]".to_owned() };
    all.retain(|(_, text)| *text != last);
    let others: String =
        all.iter().map(|(kind, text)| format!("o.kind == '{}' ? {text} :\n  ", kind.name)).collect();
    if others.is_empty() { last } else { format!("({others}{last})") }
}

/// Returns an expression for a field of the object `o`, which may be missing.
fn value(path: &[&str]) -> String {
    below_of("o", path)
}

fn below_of(place: &str, path: &[&str]) -> String {
    path.iter().fold(place.to_owned(), |text, key| text + ".?" + key)
}

fn roles(kinds: Kinds, of: impl Fn(Path) -> String) -> String {
    choose(kinds, |kind| kind.roles().map_or_else(|| "{}".to_owned(), &of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_become_the_fields_of_each_kind() {
        let limits = with_roles("$deadline.hasValue()", Kinds::WithDeadline);
        for part in [
            "(o.kind == 'CronJob' ? o.?spec.?jobTemplate.?spec.?activeDeadlineSeconds :",
            "\n  o.kind == 'PyTorchJob' ? o.?spec.?runPolicy.?activeDeadlineSeconds :",
            "\n  o.?spec.?activeDeadlineSeconds).hasValue()",
        ] {
            assert!(limits.contains(part), "{part}: {limits}");
        }
        // Both versions of it have the same fields.
        assert_eq!(limits.matches("'MPIJob'").count(), 1, "{limits}");
        let roles = with_roles("$roles.orValue({}) + $rolesPlace", Kinds::Roles);
        assert!(roles.starts_with("(o.kind == 'MPIJob' ? o.?spec.?mpiReplicaSpecs :"), "{roles}");
        assert!(
            roles.contains(
                "o.?spec.?pytorchReplicaSpecs).orValue({}) + (o.kind == 'MPIJob' ? 'spec.mpiReplicaSpecs'"
            ),
            "{roles}"
        );
        let labels = with_roles("$labels", Kinds::WithDeadline);
        assert_eq!(
            labels,
            "(o.kind == 'CronJob' ? o.?spec.?jobTemplate.?metadata.?labels.orValue({}) :\n  o.?metadata.?labels.orValue({}))"
        );
    }
}
