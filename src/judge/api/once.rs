//! One mistake, one finding: what the API server says twice of it.

use std::collections::HashMap;

use super::validate::{Cause, Reason};
use crate::text::pointer::Pointer;
use crate::text::suggest;
use crate::text::value::Value;

/// What the server begins a list of values with.
const SUPPORTED: &str = "supported values: ";

/// Returns the causes without those that repeat another one: of two lists of values for one field the shorter
/// decides, and labels that the server copies from the pod template are wrong there.
pub(super) fn once(causes: Vec<Cause>, object: &Value) -> Vec<Cause> {
    let labels = Pointer::of(&["metadata", "labels"]);
    let has_labels = labels.find(object).is_some_and(|labels| !labels.is_null());
    let mut kept: Vec<Cause> = Vec::with_capacity(causes.len());
    let mut lists: HashMap<Pointer, usize> = HashMap::new();
    for cause in causes {
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

/// Returns the supported value that was probably meant by another one.
pub(super) fn meant<'c>(cause: &'c Cause, object: &Value) -> Option<&'c str> {
    let (_, list) = cause.message.split_once(SUPPORTED).filter(|_| cause.reason == Reason::NotSupported)?;
    let written = cause.pointer.find(object)?.as_str()?;
    suggest::closest(written, list.split(", ").map(|value| value.trim_matches('"')))
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
        assert!(found.len() == 1 && found[0].starts_with("spec.template.metadata.labels"), "{found:?}");
    }

    #[test]
    fn a_wrong_word_is_one_finding_with_the_right_one() {
        assert_eq!(found(json!({}), "never"), ["spec.template.spec.restartPolicy: did you mean `Never`?"]);
        assert_eq!(found(json!({}), "Sometimes").len(), 1);
    }
}
