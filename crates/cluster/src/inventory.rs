//! The claims and runtimes of a cluster at one moment, for a command that reads once.

use std::time::Duration;

use kube::Client;

use super::Settings;
use super::access::Modes;
use super::fetch::Failure;
use super::list::{PAGE, Pages};
use super::mirror::MAX_PAGE_BYTES;
use super::resource::{self, CLAIMS, NamedObject as _, Resource, RuntimeSpec};
use super::runtimes;
use super::store::Cache;
use super::wire::ListPage;
use jobgate_core::judge::facts::{Claim, Fact, Facts, Runtime};
use jobgate_core::judge::finding::Source;
use jobgate_core::kinds::{ApiResource, Kind};

/// The access modes of all claims, and all runtimes, when they were listed.
#[derive(Debug)]
pub(crate) struct Inventory {
    cache: Cache<Modes>,
    complete: bool,
    /// The runtimes by kind; those that could not be listed are missing.
    runtimes: Vec<(Kind, Cache<RuntimeSpec>)>,
}

impl Inventory {
    /// Lists the claims and runtimes of some namespaces, or of all if none is given.
    ///
    /// Objects of a list that fails are unknown; the failures are returned as well, with the kind of runtime
    /// (`None` for claims) and the namespace (empty for all).
    pub(crate) async fn take(client: &Client, namespaces: &[String]) -> (Self, Vec<FailedList>) {
        // It is used only once, so it never becomes stale.
        let cache = Cache::new(Duration::MAX);
        let mut failures = Vec::new();
        let everywhere = [String::new()];
        let namespaces = if namespaces.is_empty() { &everywhere[..] } else { namespaces };
        for namespace in namespaces {
            let path = CLAIMS.list(namespace);
            if let Err(failure) = list::<resource::ClaimResource>(client, &path, &cache, usize::MAX).await {
                failures.push((None, namespace.clone(), failure));
            }
        }
        let complete = failures.is_empty();
        cache.hear();
        let mut runtimes = Vec::new();
        for kind in Kind::runtimes() {
            let cache = Cache::new(Duration::MAX);
            for namespace in if kind.cluster_scoped { &everywhere[..] } else { namespaces } {
                let path = ApiResource::of_kind(kind).list(namespace);
                let most = Settings::default().max_runtime_bytes;
                match list::<resource::RuntimeResource>(client, &path, &cache, most).await {
                    // A cluster need not serve the kind.
                    Ok(()) | Err(Failure::NotFound | Failure::Foreign) => {}
                    Err(failure) => failures.push((Some(kind), namespace.clone(), failure)),
                }
            }
            runtimes.push((kind, cache));
        }
        (Self { cache, complete, runtimes }, failures)
    }
}

/// A failed list: of claims (`None`) or of a kind of runtime, in one namespace or in all (empty).
pub(crate) type FailedList = (Option<Kind>, String, Failure);

/// Lists the objects at a path into the cache, until its weight exceeds `most`.
async fn list<R: Resource>(
    client: &Client,
    path: &str,
    cache: &Cache<R::Kept>,
    most: usize,
) -> Result<(), Failure> {
    let mut pages = Pages::new(client, path, PAGE, MAX_PAGE_BYTES, Settings::default().list_timeout);
    let mut restarts = 0;
    loop {
        let body = match pages.fetch().await {
            // Entries that were already read are replaced: the cache is a map.
            Err(Failure::Expired) if restarts < 3 => {
                restarts += 1;
                pages.restart();
                continue;
            }
            body => body?,
        };
        let page: ListPage<'_, R::Object<'_>> = serde_json::from_slice(&body)?;
        for object in page.items.iter().take_while(|_| cache.weight() <= most) {
            let metadata = object.metadata();
            cache.put(&metadata.namespace, &metadata.name, R::keep(object), 0);
        }
        if !pages.turn(&page.metadata.next) {
            return Ok(());
        }
    }
}

impl Facts for Inventory {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        // The pods of a cluster-scoped object may run in any namespace.
        if namespace.is_empty() {
            return Fact::Unknown;
        }
        match self.cache.get(namespace, name) {
            Some(modes) => modes.names().map_or(Fact::Unknown, |access_modes| {
                Fact::Known(Claim { access_modes, source: Source::Cluster })
            }),
            None if self.complete => Fact::Absent,
            None => Fact::Unknown,
        }
    }
    fn runtime(&self, kind: &str, namespace: &str, name: &str) -> Fact<Runtime> {
        let Some((kind, cache)) = self.runtimes.iter().find(|(of, _)| of.name == kind) else {
            return Fact::Unknown;
        };
        let namespace = if kind.cluster_scoped { "" } else { namespace };
        cache.get(namespace, name).map_or(Fact::Unknown, |spec| runtimes::read(*kind, &spec))
    }
}
