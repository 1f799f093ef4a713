//! The watches that wake the driver.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::REQUEST_TIMEOUT;
use jobgate_cluster::fetch::{self, Failure, Lines};
use jobgate_cluster::{LONG_ENOUGH, Pause, chain};

/// A watch without events for this long is reopened; the API server sends a bookmark every minute.
const WATCH_TIMEOUT: Duration = Duration::from_secs(90);

/// Wakes the driver whenever an object changes, and whenever its watch fails. Never returns.
pub(super) async fn watch(client: Client, path: String, name: String, wake: Arc<Notify>) {
    let mut failing = false;
    let mut pause = Pause::between(Duration::from_millis(500), Duration::from_secs(5));
    loop {
        let began = Instant::now();
        let ended = follow(&client, &path, &name, &wake).await;
        if began.elapsed() >= LONG_ENOUGH {
            failing = false;
            pause.reset();
        }
        // A watch that ends normally needs no look: the next one begins with the current object.
        if let Err(failure) = ended {
            if matches!(failure, Failure::Forbidden) {
                pause.longest();
            }
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(path, name, error = chain(&failure), "cannot watch; polling instead");
            }
            wake.notify_one();
        }
        pause.wait().await;
    }
}

async fn follow(client: &Client, path: &str, name: &str, wake: &Notify) -> Result<(), Failure> {
    let name = fetch::escaped(&format!("metadata.name={name}"));
    let uri = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&fieldSelector={name}");
    let opened = timeout(REQUEST_TIMEOUT, fetch::get(client, uri)).await.unwrap_or(Err(Failure::Silence))?;
    let mut lines = Lines::new(opened);
    while let Some(line) = timeout(WATCH_TIMEOUT, lines.next()).await.unwrap_or(Err(Failure::Silence))? {
        if !is_bookmark(&line) {
            wake.notify_one();
        }
    }
    Ok(())
}

/// Returns whether an event is a bookmark, which means only that the watch is alive.
fn is_bookmark(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct CertsWatchEvent<'a> {
        r#type: &'a str,
    }
    serde_json::from_slice(event).is_ok_and(|event: CertsWatchEvent<'_>| event.r#type == "BOOKMARK")
}
