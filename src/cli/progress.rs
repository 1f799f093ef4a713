//! The progress of a run, on a terminal.

use std::io::Write as _;
use std::sync::mpsc;
use std::time::Duration;

use super::stderr;
use crate::local::lint::Progress;
use crate::report::clean;

/// How long a run may take before its progress is shown.
const PROGRESS_DELAY: Duration = Duration::from_millis(500);

/// Does the work, and after a while shows on a terminal how many files are done, unless `quiet`.
pub(super) fn watched<T>(quiet: bool, progress: &Progress, total: usize, work: impl FnOnce() -> T) -> T {
    narrated(quiet, &|| format!("linting: {} of {total} files", progress.files()), work)
}

/// Does the work, and after a while shows on a terminal the progress that `text` returns, unless `quiet`.
pub(super) fn narrated<T>(quiet: bool, text: &(dyn Fn() -> String + Sync), work: impl FnOnce() -> T) -> T {
    if quiet || !stderr::is_seen() {
        return work();
    }
    let (done, finished) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut shown = false;
            // The sender is dropped when the work is done.
            while finished.recv_timeout(if shown { PROGRESS_DELAY / 5 } else { PROGRESS_DELAY })
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                shown = true;
                let _ = write!(stderr::stream(), "\r\u{1b}[K{}", clean(&text()));
            }
            if shown {
                let _ = write!(stderr::stream(), "\r\u{1b}[K");
            }
        });
        let result = work();
        drop(done);
        result
    })
}
