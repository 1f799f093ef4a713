//! A cache with the task that fills it.

use std::sync::Arc;

use kube::Client;
use tokio::task::AbortHandle;

use crate::mirror;
use crate::resource::{Resource, ResourcePlace, Weigh};
use crate::settings::Settings;
use crate::stats::Counts;
use crate::store::Cache;

/// A cache and the task that fills it.
pub(crate) struct Mirrored<T> {
    pub(crate) cache: Arc<Cache<T>>,
    task: AbortHandle,
}

impl<T: Weigh + Clone + Send + Sync + 'static> Mirrored<T> {
    /// Starts the task.
    pub(crate) fn start<R: Resource<Kept = T>>(
        client: Client,
        settings: &Settings,
        place: ResourcePlace,
        counts: Arc<Counts>,
    ) -> Self {
        let cache = Arc::new(Cache::new(settings.stale_after));
        let filled = Arc::clone(&cache);
        let task = tokio::spawn(mirror::run::<R>(client, settings.clone(), place, filled, counts));
        Self { cache, task: task.abort_handle() }
    }
}

impl<T> Drop for Mirrored<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
