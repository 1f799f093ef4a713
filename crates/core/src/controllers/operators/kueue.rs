//! Kueue (Jobs in a queue).

use super::super::cluster::Controller;

/// Returns the controllers.
#[must_use]
pub(super) fn controllers(_manifest: &crate::text::value::Value) -> Vec<Box<dyn Controller>> {
    Vec::new()
}
