//! Checks that a patch fits before it is sent.
//!
//! A patch that does not apply, or makes an object that the API server cannot decode, fails the request even
//! if the webhook fails open (docs/internals/webhook.md#failed-patches). So every patch is checked, whichever
//! rules made it.

use std::collections::BTreeMap;

use crate::judge::engine::Which;
use crate::judge::finding::{Finding, Level, MOST_OPS};
use crate::judge::rule::RuleId;
use crate::judge::rules::RuleSet;
use crate::judge::verdict::Verdict;
use crate::text::patch;
use crate::text::patch::Op;
use crate::text::pointer::Token;
use crate::text::value::Value;

/// The largest patch that is sent, in bytes of the places that it changes: a key on the path may be as long as
/// the object.
const MAX_PATCH_PLACE_BYTES: usize = 256 << 10;

/// Why a patch is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Doubt {
    /// An operation names a missing place, in at least one of the engines that might apply it.
    #[error("it does not apply to the received object")]
    DoesNotApply,
    /// It changes a place that no rule has declared.
    #[error("it changes a field that no rule may fill")]
    StraysOutside,
    /// The patched object would be patched again.
    #[error("the patched object would be patched again")]
    NotIdempotent,
    /// The patched object would be denied for something new.
    #[error("the patched object would have a new denial")]
    NewDenial,
    /// It is far larger than any rule needs.
    #[error("it is too large")]
    TooLarge,
}

impl Doubt {
    /// Returns a word for metrics.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::DoesNotApply => "patch_does_not_apply",
            Self::StraysOutside => "patch_strays_outside",
            Self::NotIdempotent => "patch_not_idempotent",
            Self::NewDenial => "patch_new_denial",
            Self::TooLarge => "patch_too_large",
        }
    }
}

/// Returns the operations of a verdict by `rules` if they pass every check. `judge` judges an object by some of the rules that
/// deny or fill in: the patched one by all of them, and the one before by those that deny the patched one.
///
/// # Errors
///
/// The check that failed; nothing may be sent.
pub(crate) fn checked_patch(
    mut object: Value,
    verdict: &Verdict,
    rules: &RuleSet,
    judge: impl Fn(Which<'_>, &Value) -> Verdict,
) -> Result<Vec<Op>, Doubt> {
    // Before they are joined: an object may have any number of templates to fill.
    if verdict.findings.iter().any(Finding::fills_too_much) {
        return Err(Doubt::TooLarge);
    }
    if verdict.fills().nth(MOST_OPS).is_some() {
        return Err(Doubt::TooLarge);
    }
    let ops = verdict.fill_ops();
    if ops.is_empty() {
        return Ok(ops);
    }
    let steps = ops.iter().flat_map(|op| op.pointer().tokens());
    let places =
        steps.map(|step| if let Token::Key(key) = step { key.len() + 1 } else { size_of::<usize>() });
    if places.sum::<usize>() > MAX_PATCH_PLACE_BYTES {
        return Err(Doubt::TooLarge);
    }
    // Some engines accept the whole document as a place, others do not.
    if ops.iter().any(|op| op.pointer().is_root()) {
        return Err(Doubt::DoesNotApply);
    }
    // Comparing whole objects would cost as much as reading them; operations change only what they cover.
    let (before, moved) = patch::footprint(&object, &ops);
    let after = patch::apply(&before, &moved).map_err(|_| Doubt::DoesNotApply)?;
    if !patch::agrees_with_rfc_6902(&before, &moved, &after) {
        return Err(Doubt::DoesNotApply);
    }
    if !rules.fillable().allow_change(&before, &after) {
        return Err(Doubt::StraysOutside);
    }
    drop((before, moved, after));
    let reverse = patch::apply_reversibly(&mut object, &ops).map_err(|_| Doubt::DoesNotApply)?;
    let again = judge(Which::Binding, &object);
    if !again.fill_ops().is_empty() {
        return Err(Doubt::NotIdempotent);
    }
    let denied = denials(&again);
    if denied.is_empty() {
        return Ok(ops);
    }
    patch::apply_in_place(&mut object, &reverse).map_err(|_| Doubt::DoesNotApply)?;
    let ids: Vec<RuleId> = denied.keys().copied().cloned().collect();
    let first = judge(Which::Only(&ids), &object);
    let before = denials(&first);
    if denied.into_iter().any(|(rule, count)| count > before.get(rule).copied().unwrap_or_default()) {
        return Err(Doubt::NewDenial);
    }
    Ok(ops)
}

/// Counts the denials of each rule. Fills never remove one, so the count shows new ones, and comparing counts
/// is cheaper than comparing paths.
fn denials(verdict: &Verdict) -> BTreeMap<&RuleId, usize> {
    let mut denials = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.level == Level::Deny) {
        *denials.entry(&finding.rule).or_default() += finding.count();
    }
    denials
}
