//! Reads the files of the workspace, in a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use rayon::ThreadPoolBuilder;

use super::log;
use super::project::Project;
use super::worker::WorkerTask;
use crate::cli::args::Lint;
use crate::local::lint::{Exclusions, Options, Scan, collect_some};

/// Maximum files and directories of a workspace to visit.
const MAX_ENTRIES: usize = 500_000;

/// Starts to read the files below some directories. The result is sent as a task.
pub(super) fn start(args: Arc<Lint>, roots: Vec<PathBuf>, sender: Sender<WorkerTask>) {
    let scan = move || {
        let scan = read(&args, &roots);
        // The worker may be gone.
        let _ = sender.send(WorkerTask::Scanned(Box::new(scan)));
    };
    if let Err(error) = thread::Builder::new().name("scan".to_owned()).spawn(scan) {
        log(&format!("cannot read the workspace: {error}"));
    }
}

fn read(args: &Lint, roots: &[PathBuf]) -> Scan {
    let mut files = Vec::new();
    let mut left = MAX_ENTRIES;
    for root in roots {
        let exclusions = Project::new(args, root).map_or_else(
            |error| {
                log(&format!("{error:#}"));
                Exclusions::default()
            },
            |project| project.settings.exclusions,
        );
        let (inputs, is_all) = collect_some(root, &exclusions, left);
        if !is_all {
            log(&format!(
                "{} has more than {MAX_ENTRIES} files; claims and runtimes in the rest are not known",
                root.display()
            ));
        }
        left = left.saturating_sub(inputs.files.len()).max(1);
        files.extend(inputs.files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|later, kept| later.path == kept.path);
    let options = Options { max_file_size: args.judging.max_file_size.0, ..Options::default() };
    // One thread: the documents that people look at come first.
    match ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(|| Scan::new(&files, &options)),
        Err(_) => Scan::new(&files, &options),
    }
}
