//! Why a Job ends.

use std::borrow::Cow;

use super::super::meta::Condition;

/// Why a Job ends.
pub(super) struct End {
    /// Whether it is complete, and did not fail.
    pub(super) is_success: bool,
    /// `reason` of the condition.
    pub(super) reason: Cow<'static, str>,
    /// `message` of the condition.
    pub(super) message: String,
    /// Whether the condition before the last one is there already.
    pub(super) is_written: bool,
}

impl End {
    /// Returns a failure.
    pub(super) fn failure(reason: &'static str, message: impl Into<String>) -> Self {
        let reason = Cow::Borrowed(reason);
        Self { is_success: false, reason, message: message.into(), is_written: false }
    }

    /// Returns a success.
    pub(super) fn success(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_success: true, ..Self::failure(reason, message) }
    }

    /// Returns what the condition before the last one says.
    pub(super) fn from_written(condition: &Condition, is_success: bool) -> Self {
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        Self { is_success, reason, message, is_written: true }
    }
}
