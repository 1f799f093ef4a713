//! Changes made through the subresource `scale`, for which no webhook is called.

use jobgate_core::judge::engine::{self, Request};
use jobgate_core::judge::facts::Facts;
use jobgate_core::judge::finding::{Finding, Part, Place};
use jobgate_core::judge::policy::Policy;
use jobgate_core::judge::verdict::Verdict;
use jobgate_core::kinds::{Kind, Path};
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::value::Value;

/// Maximum length of a writer's name in a message, in characters.
const LONGEST_MANAGER: usize = 64;

/// Notes, on each finding that only exists because of the number of pods, that this number was set through
/// the subresource, and by whom.
///
/// The previous number is unknown. A finding that does not exist with one pod exists because of the others.
pub(super) fn explain(policy: &Policy, facts: &dyn Facts, request: &Request<'_>, verdict: &mut Verdict) {
    let object = request.object;
    let Some(path) = Kind::from_object(object).and_then(|kind| kind.scale) else { return };
    let pointer = Pointer::new(path);
    let (Some(manager), Some(number)) = (writer(object, path), pointer.find(object)) else { return };
    if verdict.findings.is_empty() {
        return;
    }
    let mut one = object.clone();
    let Some(place) = one.pointer_mut(&pointer.to_json_pointer()) else { return };
    *place = 1.into();
    let before = engine::evaluate(policy, facts, &Request { object: &one, ..*request }).findings;
    let same = |a: &Finding, b: &Finding| (&a.rule, &a.path, a.level) == (&b.rule, &b.path, b.level);
    let manager: String = manager.chars().take(LONGEST_MANAGER).collect();
    for finding in &mut verdict.findings {
        if before.iter().any(|other| same(other, finding)) {
            continue;
        }
        finding.label(
            Place::Here(pointer.clone(), Part::Value),
            format!("set to {number} by `{manager}` through the subresource `scale`, which is not judged"),
        );
    }
}

/// Returns who set a field through the subresource, if that was its last write: the API server records it in
/// `managedFields`.
fn writer(object: &Value, path: Path) -> Option<&str> {
    let entries = object.pointer("/metadata/managedFields")?.as_array()?;
    let owns = |entry: &&Value| {
        let mut at = entry.get("fieldsV1");
        for key in path {
            at = at.and_then(|fields| fields.get(format!("f:{key}")));
        }
        entry.get("subresource").and_then(Value::as_str) == Some("scale") && at.is_some()
    };
    entries.iter().find(owns)?.get("manager")?.as_str()
}
