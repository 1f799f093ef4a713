//! The arguments of a run with nothing to judge in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::place::nothing_in;
use crate::{Input, shown};
use jobgate_report::{Report, Unjudged};

/// The arguments of a run, and whether the report mentions anything in them.
#[derive(Debug, Default)]
pub struct RunArguments {
    /// Directories.
    roots: BTreeMap<Arc<str>, bool>,
    /// Named files.
    files: Vec<Arc<str>>,
}

impl RunArguments {
    /// Records a file, and whether its report has anything.
    pub fn add(&mut self, input: &Input, file: &Report) {
        let speaks = file.objects > 0 || !file.findings.is_empty() || !file.unjudged.is_empty();
        match &input.root {
            Some(root) => *self.roots.entry(Arc::clone(root)).or_default() |= speaks,
            None if !speaks => self.files.push(Arc::clone(&input.path)),
            None => {}
        }
    }

    /// Marks the directory of a file that is reported elsewhere.
    pub fn mark_reported(&mut self, input: &Input) {
        if let Some(root) = &input.root {
            self.roots.insert(Arc::clone(root), true);
        }
    }

    /// Marks the directories of files that were not judged.
    pub fn mark_reported_files(&mut self, inputs: &[Input], unjudged: &[Unjudged]) {
        let files: BTreeSet<&str> =
            unjudged.iter().filter_map(|unjudged| Some(&*unjudged.location.as_ref()?.file)).collect();
        inputs
            .iter()
            .filter(|input| files.contains(&*shown(Path::new(&*input.path))))
            .for_each(|input| self.mark_reported(input));
    }

    /// Returns the directories that the report does not mention. Named files are returned only if the report
    /// is empty: the files of a commit, or of a glob, need not all be manifests.
    #[must_use]
    pub fn unreported(self, said: usize) -> Vec<Unjudged> {
        let roots = self.roots.into_iter().filter(|(_, speaks)| !speaks).map(|(root, _)| root);
        let files = self.files.into_iter().filter(|_| said == 0);
        roots.chain(files).map(|path| nothing_in(&path)).collect()
    }
}
