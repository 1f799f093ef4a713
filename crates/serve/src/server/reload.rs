//! Files that may change while the server runs: certificates, client authorities, tokens, the policy.
//!
//! Content is compared every few seconds. Watching inodes does not work: the kubelet swaps a symbolic link
//! two directories up, after which a watch on the file is dead (kubernetes#111947). Time stamps are not
//! compared either, only bytes.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::MissedTickBehavior;

use crate::server::metrics::Metrics;
use jobgate_cluster::chain;

/// Larger files are not read. A Secret or ConfigMap has at most 1 MiB.
const MAX_BYTES: u64 = 4 << 20;

/// The error of a parser; its text is logged.
pub(crate) type Rejection = Box<dyn Error + Send + Sync>;

/// Why a file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum HotError {
    /// Not readable, not a file, or too large.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Readable, but not valid.
    #[error("load {what} from {}", list(paths))]
    Rejected {
        /// What it should be.
        what: &'static str,
        /// The files.
        paths: Vec<PathBuf>,
        /// What is wrong with it.
        source: Rejection,
    },
}

/// Files that belong together, such as a certificate and its key.
#[derive(Clone, Debug)]
pub struct Files {
    /// Their kind in one word, for the log and a label of `jobgate_reloads_total`.
    pub what: &'static str,
    /// Their paths.
    pub paths: Vec<PathBuf>,
    /// How often to check them.
    pub every: Duration,
    /// Whether rejected content is tried again at each look, because it may become valid: a certificate that
    /// is not valid yet.
    pub retry: bool,
}

impl Files {
    /// Names files that are read every five seconds.
    #[must_use]
    pub fn new(what: &'static str, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { what, paths: paths.into_iter().collect(), every: Duration::from_secs(5), retry: false }
    }
}

/// Follows files until it is dropped.
#[derive(Debug)]
#[must_use = "changes are followed only while this lives"]
pub struct Follower(AbortHandle);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Loads the files through `take`, and does so again whenever their content changes.
///
/// `take` gets the contents in the order of the paths, and stores the result. If it fails, or a file cannot
/// be read, what it stored before stays; that is logged and counted once for each new content, even if it is
/// tried [again](Files::retry).
///
/// # Errors
/// If the first load fails: the caller decides what to do without a certificate or a policy.
pub async fn follow<F>(files: Files, metrics: &Metrics, take: F) -> Result<Follower, HotError>
where
    F: Fn(&[Vec<u8>]) -> Result<(), Rejection> + Send + Sync + 'static,
{
    let state = Arc::new(HotState { files, take });
    let (seen, first) = state.clone().look(None).await;
    metrics.reload(state.files.what, first.is_ok());
    first?;
    tracing::info!(files = list(&state.files.paths), "{} loaded", state.files.what);
    let metrics = metrics.clone();
    let task = tokio::spawn(async move {
        let (mut seen, mut refused) = (seen, false);
        let mut ticks = tokio::time::interval(state.files.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let again = refused && state.files.retry;
            let (now, result) = state.clone().look((!again).then_some(seen)).await;
            if now == seen && (!again || result.is_err()) {
                continue;
            }
            (seen, refused) = (now, result.is_err());
            let what = state.files.what;
            metrics.reload(what, result.is_ok());
            match result {
                Ok(()) => tracing::info!(files = list(&state.files.paths), "{what} reloaded"),
                Err(error) => {
                    tracing::error!(error = chain(&error), "{what} not reloaded; the last good one stays");
                }
            }
        }
    });
    Ok(Follower(task.abort_handle()))
}

struct HotState<F> {
    files: Files,
    take: F,
}

/// A digest of the content or error, so that the same error is reported once.
type FilesDigest = [u8; 32];

impl<F> HotState<F>
where
    F: Fn(&[Vec<u8>]) -> Result<(), Rejection> + Send + Sync + 'static,
{
    /// Reads the files and passes them on, unless they are as last seen.
    async fn look(self: Arc<Self>, last: Option<FilesDigest>) -> (FilesDigest, Result<(), HotError>) {
        let this = self.clone();
        let looked = spawn_blocking(move || this.look_now(last)).await;
        looked.unwrap_or_else(|_| (FilesDigest::default(), Err(self.rejected("the parser panicked".into()))))
    }

    fn look_now(&self, last: Option<FilesDigest>) -> (FilesDigest, Result<(), HotError>) {
        let mut digest = Sha256::new();
        let mut contents = Vec::with_capacity(self.files.paths.len());
        for path in &self.files.paths {
            match read(path) {
                Ok(content) => {
                    digest.update(Sha256::digest(&content));
                    contents.push(content);
                }
                Err(source) => {
                    digest.update(source.to_string());
                    return (digest.finalize().into(), Err(HotError::Read { path: path.clone(), source }));
                }
            }
        }
        let seen: FilesDigest = digest.finalize().into();
        if last == Some(seen) {
            return (seen, Ok(()));
        }
        (seen, (self.take)(&contents).map_err(|source| self.rejected(source)))
    }

    fn rejected(&self, source: Rejection) -> HotError {
        HotError::Rejected { what: self.files.what, paths: self.files.paths.clone(), source }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe would block forever, and a directory opens without an error.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(content)
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn files(paths: impl IntoIterator<Item = PathBuf>) -> Files {
        Files { every: Duration::from_millis(5), ..Files::new("thing", paths) }
    }

    async fn until(mut holds: impl FnMut() -> bool) {
        for _ in 0..1000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("waited five seconds in vain");
    }

    #[tokio::test]
    async fn the_last_good_content_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "1").unwrap();
        let metrics = Metrics::new();
        let value = Arc::new(Mutex::new(0));
        let tries = Arc::new(AtomicUsize::new(0));
        let (slot, count) = (value.clone(), tries.clone());
        let follower = follow(files([path.clone()]), &metrics, move |contents| {
            count.fetch_add(1, Ordering::SeqCst);
            let text = std::str::from_utf8(&contents[0])?;
            assert_ne!(text, "boom");
            *slot.lock().unwrap() = text.parse()?;
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(*value.lock().unwrap(), 1);
        for bad in ["x", "boom"] {
            let before = tries.load(Ordering::SeqCst);
            fs::write(&path, bad).unwrap();
            until(|| tries.load(Ordering::SeqCst) > before).await;
            assert_eq!(*value.lock().unwrap(), 1);
        }
        fs::remove_file(&path).unwrap();
        until(|| metrics.text().contains(r#"jobgate_reloads_total{file="thing",result="failure"} 3"#)).await;
        fs::write(&path, "2").unwrap();
        until(|| *value.lock().unwrap() == 2).await;
        drop(follower);
    }

    #[tokio::test]
    async fn the_first_load_must_succeed() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("file");
        let error = follow(files([missing.clone()]), &Metrics::new(), |_| Ok(())).await.unwrap_err();
        assert!(matches!(error, HotError::Read { .. }), "{error}");
        let error = follow(files([dir.path().to_owned()]), &Metrics::new(), |_| Ok(())).await.unwrap_err();
        assert!(chain(&error).ends_with("not a regular file"), "{}", chain(&error));
        fs::write(&missing, "").unwrap();
        let error = follow(files([missing]), &Metrics::new(), |_| Err("is bad".into())).await.unwrap_err();
        assert!(chain(&error).ends_with("is bad"), "{}", chain(&error));
    }

    #[tokio::test]
    async fn unchanged_content_is_not_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "1").unwrap();
        let tries = Arc::new(AtomicUsize::new(0));
        let count = tries.clone();
        let take = move |_: &[Vec<u8>]| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let _follower = follow(files([path.clone()]), &Metrics::new(), take).await.unwrap();
        for second in 0..5 {
            let time = std::time::UNIX_EPOCH + Duration::from_secs(second);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(tries.load(Ordering::SeqCst), 1);
    }
}
