//! The claims and other objects of a cluster at one moment, for a command that reads once.

use std::time::Duration;

use kube::Client;

use super::access::Modes;
use super::fetch::Failure;
use super::list::{PAGE, Pages};
use super::mirror::MAX_PAGE_BYTES;
use super::objects;
use super::resource::{ClaimResource, KeptObject, NamedObject as _, ObjectResource, Resource, ResourcePlace};
use super::store::Cache;
use super::wire::ListPage;
use crate::settings::Settings;
use jobgate_core::judge::facts::{Claim, Fact, FactKind, Facts, FoundObject};
use jobgate_core::judge::finding::Source;

/// All claims and other objects that rules look up, as they were when they were listed.
#[derive(Debug)]
pub(crate) struct Inventory {
    claims: ListedObjects<Modes>,
    objects: Vec<(FactKind, ListedObjects<KeptObject>)>,
}

/// The objects of one kind.
#[derive(Debug)]
struct ListedObjects<T> {
    cache: Cache<T>,
    /// Whether all of them are there; otherwise others may exist.
    is_complete: bool,
}

/// A failed list of a kind, in one namespace or in all (empty).
pub(crate) type FailedList = (FactKind, String, Failure);

impl Inventory {
    /// Lists the claims and other objects of some namespaces, or of all if none is given.
    ///
    /// Objects of a list that fails are unknown; the failures are returned as well.
    pub(crate) async fn take(client: &Client, namespaces: &[String]) -> (Self, Vec<FailedList>) {
        let mut failed = Vec::new();
        let claims = all::<ClaimResource>(client, FactKind::Claim, namespaces, usize::MAX, &mut failed).await;
        let most = Settings::default().max_object_bytes;
        let mut objects = Vec::new();
        for kind in FactKind::all().filter(|kind| *kind != FactKind::Claim) {
            objects.push((kind, all::<ObjectResource>(client, kind, namespaces, most, &mut failed).await));
        }
        (Self { claims, objects }, failed)
    }
}

/// Lists the objects of a kind, until their weight exceeds `most`.
async fn all<R: Resource>(
    client: &Client,
    kind: FactKind,
    namespaces: &[String],
    most: usize,
    failed: &mut Vec<FailedList>,
) -> ListedObjects<R::Kept> {
    let place = ResourcePlace { most, ..ResourcePlace::from_facts(kind, &Settings::default()) };
    // It is used only once, so it never becomes stale.
    let mut listed = ListedObjects { cache: Cache::new(Duration::MAX), is_complete: true };
    let everywhere = [String::new()];
    let is_everywhere = namespaces.is_empty() || place.api.cluster_scoped;
    for namespace in if is_everywhere { &everywhere[..] } else { namespaces } {
        match list::<R>(client, &place, namespace, &listed.cache).await {
            Ok(is_complete) => listed.is_complete &= is_complete,
            // Where the kind is not served, it has no objects.
            Err(Failure::NotFound | Failure::Foreign) if place.api.is_optional => {}
            Err(failure) => {
                listed.is_complete = false;
                failed.push((kind, namespace.clone(), failure));
            }
        }
    }
    listed
}

/// Lists the objects of a namespace, or of all if it is empty, into a cache. Returns whether all fit.
async fn list<R: Resource>(
    client: &Client,
    place: &ResourcePlace,
    namespace: &str,
    cache: &Cache<R::Kept>,
) -> Result<bool, Failure> {
    let path = place.api.list(namespace);
    let mut pages = Pages::new(client, &path, PAGE, MAX_PAGE_BYTES, Settings::default().list_timeout);
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
        for object in page.items.iter().take_while(|_| cache.weight() <= place.most) {
            let metadata = object.metadata();
            cache.put(&metadata.namespace, &metadata.name, R::keep(place, object), 0);
        }
        if !pages.turn(&page.metadata.next) {
            return Ok(cache.weight() <= place.most);
        }
    }
}

impl Facts for Inventory {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        // The pods of a cluster-scoped object may run in any namespace.
        if namespace.is_empty() {
            return Fact::Unknown;
        }
        match self.claims.cache.get(namespace, name) {
            Some(modes) => modes.names().map_or(Fact::Unknown, |access_modes| {
                Fact::Known(Claim { access_modes, source: Source::Cluster })
            }),
            None if self.claims.is_complete => Fact::Absent,
            None => Fact::Unknown,
        }
    }

    fn object(&self, kind: FactKind, namespace: &str, name: &str) -> Fact<FoundObject> {
        let Some((_, listed)) = self.objects.iter().find(|(of, _)| *of == kind) else { return Fact::Unknown };
        match listed.cache.get(kind.namespace(namespace), name) {
            Some(kept) => objects::read(kind, &kept),
            None if listed.is_complete => Fact::Absent,
            None => Fact::Unknown,
        }
    }
}
