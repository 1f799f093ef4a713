//! One finding for each mistake, where the API server reports it twice.

use std::collections::HashMap;

use super::consequences::Consequence;
use super::is_of_image;
use super::structure::short;
use super::validate::{Cause, Reason};
use crate::judge::checks::PLACEHOLDER;
use crate::judge::finding::{Finding, Part};
use crate::text::pointer::{Pointer, Token};
use crate::text::suggest;
use crate::text::value::Value;

/// The server's words before a list of values.
const SUPPORTED: &str = "supported values: ";

/// Returns the causes without repetitions: of two lists of values for one field, the shorter one stays; labels
/// that the server copies from the pod template are reported there; and a mount of an invalid volume is not
/// reported.
pub(super) fn once(causes: Vec<Cause>, object: &Value) -> Vec<Cause> {
    let labels = Pointer::new(&["metadata", "labels"]);
    let has_labels = labels.find(object).is_some_and(|labels| !labels.is_null());
    let mut kept: Vec<Cause> = Vec::with_capacity(causes.len());
    let mut lists: HashMap<Pointer, usize> = HashMap::new();
    let mut follows = Consequence::default();
    for mut cause in causes {
        if follows.imply(&mut cause, object) {
            continue;
        }
        if !has_labels && cause.path.is_within(&labels) {
            continue;
        }
        if cause.reason == Reason::NotSupported && cause.items.is_none() {
            if let Some(earlier) = lists.get(&cause.path) {
                let earlier = &mut kept[*earlier];
                if cause.message.len() < earlier.message.len() {
                    *earlier = cause;
                }
                continue;
            }
            lists.insert(cause.path.clone(), kept.len());
        }
        kept.push(cause);
    }
    kept
}

/// Returns the supported value that the author probably meant.
pub(super) fn meant<'c>(cause: &'c Cause, object: &Value) -> Option<&'c str> {
    let (_, list) = cause.message.split_once(SUPPORTED).filter(|_| cause.reason == Reason::NotSupported)?;
    let written = cause.pointer.find(object)?.as_str()?;
    suggest::closest(written, list.split(", ").map(|value| value.trim_matches('"')))
}

/// Returns the text that a finding calls a placeholder: a value, or a key.
pub(super) fn placeholder_in<'o>(finding: &'o Finding, object: &'o Value) -> Option<&'o str> {
    match finding.path.last() {
        Some(Token::Key(key)) if finding.part == Part::Key => Some(key),
        _ => finding.path.find(object)?.as_str(),
    }
}

/// Maximum other placeholders of an object that are listed.
const MOST_LISTED: usize = 3;

/// Merges the findings for placeholders: rendering an object is one task, however many values it fills in. The
/// first finding that is not about an image stays, since nothing depends on images.
pub(super) fn one_placeholder(mut found: Vec<Finding>, object: &Value) -> Vec<Finding> {
    let is_one = |finding: &Finding| finding.rule == PLACEHOLDER;
    let others = found.iter().filter(|finding| is_one(finding)).count().saturating_sub(1);
    let first = found.iter().position(|finding| is_one(finding) && !is_of_image(finding));
    let Some(first) = first.or_else(|| found.iter().position(is_one)).filter(|_| others > 0) else {
        return found;
    };
    let mut listed: Vec<String> = Vec::new();
    let mut nth = 0;
    found.retain_mut(|finding| {
        nth += 1;
        let stays = nth == first + 1 || !is_one(finding);
        if !stays && listed.len() < MOST_LISTED {
            let value = placeholder_in(finding, object);
            let text = value.map_or_else(|| finding.path.to_string(), short);
            listed.push(format!("`{text}`"));
        }
        stays
    });
    let at = found.iter().position(is_one).unwrap_or_default();
    let more = others - listed.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    let are = if others == 1 { "another placeholder is" } else { "other placeholders are" };
    let message = format!("{}; {are} {}{rest}", found[at].message, listed.join(", "));
    found[at].message = message.into();
    found
}

#[cfg(test)]
mod tests {
    use crate::judge::api::check;
    use crate::text::value::{Value, json};

    fn found(labels: Value, policy: &str) -> Vec<String> {
        let pod = json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
        check(&job).iter().map(|finding| format!("{}: {}", finding.path, finding.help)).collect()
    }

    #[test]
    fn a_copied_label_is_wrong_where_it_is_written() {
        let found = found(json!({"app": "x y"}), "Never");
        // The server names the field so.
        assert_eq!(found, ["spec.template.labels: fix `spec.template.metadata.labels[app]`"]);
    }

    #[test]
    fn the_placeholders_of_an_object_are_one_finding() {
        let job = |fields: Value| {
            let mut job =
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": fields});
            job["spec"]["template"] = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "YOUR_IMAGE"}]}});
            check(&job).into_iter().map(|finding| finding.message.into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            job(json!({"parallelism": "$A", "completions": "$A"})),
            [
                "`completions` contains the placeholder `$A`, here and at 1 more place; another placeholder is `YOUR_IMAGE`"
            ]
        );
        let many =
            job(json!({"parallelism": "$A", "completions": "$B", "backoffLimit": "$C", "suspend": "$D"}));
        assert!(many.len() == 1 && many[0].ends_with(" and 1 more"), "{many:?}");
    }

    #[test]
    fn a_wrong_word_is_one_finding_with_the_right_one() {
        assert_eq!(found(json!({}), "never"), ["spec.template.spec.restartPolicy: did you mean `Never`?"]);
        assert_eq!(found(json!({}), "Sometimes").len(), 1);
    }
}
