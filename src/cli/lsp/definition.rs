//! Leads from the use of a claim or runtime to its manifest.

use std::path::Path;

use gen_lsp_types::{Location, Uri};

use super::judging::JudgedDocument;
use super::text;
use super::uri;
use super::worker::Worker;
use crate::text::lines::Lines;

/// Returns the locations of the object that a place in a document names.
pub(super) fn locations(worker: &Worker, judged: &JudgedDocument, offset: usize) -> Vec<Location> {
    let Some(project) = &judged.project else { return Vec::new() };
    let options = project.options();
    let (input, facts) = (judged.document.input(), &project.facts);
    let found = worker.session.definitions(&input, offset, facts, options.namespace, &options);
    let locations = found.into_iter().map(|target| {
        let path = Path::new(&*target.input.path);
        let open = worker.documents.of_path(path).map(|(uri, _)| uri);
        let lines = Lines::new(target.text.as_bytes());
        Location {
            uri: Uri(open.unwrap_or_else(|| uri::of_path(path))),
            range: text::range(&lines, &target.span, worker.client.encoding),
        }
    });
    locations.collect()
}
