//! The duplicate keys of an object.

use std::ops::Range;
use std::sync::Arc;

use super::object::DocumentView;
use crate::objects::Object;
use jobgate_core::judge::checks::{self, DUPLICATE_KEY};
use jobgate_core::judge::finding::{Label, Level, Part, Place};
use jobgate_core::text::number::thousands;
use jobgate_core::text::pointer::Pointer;
use jobgate_core::text::yaml::Duplicate;
use jobgate_report::{Located, ObjectId, Related};

/// Maximum number of duplicate keys of an object that are reported one by one.
const MANY_DUPLICATES: usize = 16;

impl DocumentView<'_> {
    /// Reports duplicate keys. kubectl silently ignores the first. More than [`MANY_DUPLICATES`] are one finding,
    /// at the first of them.
    pub(super) fn duplicates(&mut self, object: &Object<'_>, identity: &Arc<ObjectId>) {
        if !self.context.options.selects(DUPLICATE_KEY) {
            return;
        }
        let duplicates = self.document.duplicates_within(&object.at);
        if duplicates.len() <= MANY_DUPLICATES {
            for duplicate in duplicates.first(MANY_DUPLICATES) {
                let message = format!("duplicate key `{}`: kubectl ignores this one", self.key(&duplicate));
                self.duplicate(object, identity, duplicate, message, None);
            }
            return;
        }
        let (first, last) = (duplicates.first(1).pop(), duplicates.last());
        let (Some(first), Some(last)) = (first, last) else { return };
        let message = format!(
            "duplicate key `{}`: kubectl ignores this one, and {} more duplicate keys of this object, the last on line {}",
            self.key(&first),
            thousands(duplicates.len() - 1),
            self.context.location(last.dropped.clone()).start.line
        );
        self.duplicate(object, identity, first, message, Some(last));
    }

    /// Returns the key of a duplicate for display.
    fn key(&self, duplicate: &Duplicate) -> String {
        let key = String::from_utf8_lossy(&self.context.source[duplicate.dropped.clone()]);
        key.trim_matches(['"', '\'']).escape_debug().to_string()
    }

    fn duplicate(
        &mut self,
        object: &Object<'_>,
        identity: &Arc<ObjectId>,
        duplicate: Duplicate,
        message: String,
        last: Option<Duplicate>,
    ) {
        let help = "remove one of the two";
        let mut finding =
            checks::finding(DUPLICATE_KEY, Level::Warn, duplicate.pointer.clone(), message, help);
        finding.part = Part::Key;
        finding.path = duplicate.pointer.below(&object.at).unwrap_or_default();
        let by_name = finding.path.by_name(&object.value);
        let here = (duplicate.pointer, duplicate.kept, "this one counts");
        let there = last.map(|last| (last.pointer, last.dropped, "the last one that is ignored"));
        let places = || std::iter::once(&here).chain(&there);
        // Collects into lists of exact capacity: a text may have nothing but duplicate keys.
        let label = |(pointer, _, text): &(Pointer, Range<usize>, &'static str)| Label {
            place: Place::Here(pointer.clone(), Part::Key),
            text: (*text).into(),
        };
        finding.labels = places().map(label).collect();
        let related = |(_, span, text): &(Pointer, Range<usize>, &'static str)| Related {
            location: Some(self.context.location(span.clone())),
            object: None,
            text: (*text).into(),
        };
        let related = places().map(related).collect();
        let located = self.context.located(self.index, finding, duplicate.dropped);
        let object = Some(Arc::clone(identity));
        self.judged.keep(Located { object, related, by_name, ..located });
    }
}
