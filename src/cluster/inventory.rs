//! The claims of a cluster at one moment, for a command that reads once.

use std::time::Duration;

use kube::Client;

use super::Settings;
use super::fetch::Failure;
use super::list::{PAGE, Pages};
use super::mirror::{CLAIMS, MAX_PAGE_BYTES};
use super::store::Cache;
use super::wire::Page;
use crate::judge::facts::{Claim, Fact, Facts};
use crate::judge::finding::Source;

/// The access modes of all claims when they were listed.
#[derive(Debug)]
pub struct Inventory {
    cache: Cache,
    complete: bool,
}

impl Inventory {
    /// Lists the claims of some namespaces, or of all if none is given.
    ///
    /// Claims of a list that fails are unknown; the failures are returned, too, with the namespace (empty for
    /// all).
    pub(crate) async fn take(client: &Client, namespaces: &[String]) -> (Self, Vec<(String, Failure)>) {
        // It is used once, so it does not age.
        let mut inventory = Self { cache: Cache::new(Duration::MAX), complete: true };
        let mut failures = Vec::new();
        let everywhere = [String::new()];
        for namespace in if namespaces.is_empty() { &everywhere[..] } else { namespaces } {
            if let Err(failure) = inventory.list(client, namespace).await {
                failures.push((namespace.clone(), failure));
            }
        }
        inventory.complete = failures.is_empty();
        inventory.cache.hear();
        (inventory, failures)
    }

    async fn list(&self, client: &Client, namespace: &str) -> Result<(), Failure> {
        let path = if namespace.is_empty() {
            CLAIMS.to_owned()
        } else {
            format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
        };
        let mut pages = Pages::new(client, &path, PAGE, MAX_PAGE_BYTES, Settings::default().list_timeout);
        let mut restarts = 0;
        loop {
            let body = match pages.fetch().await {
                // Claims that were read already are replaced: the cache is a map.
                Err(Failure::Expired) if restarts < 3 => {
                    restarts += 1;
                    pages.restart();
                    continue;
                }
                body => body?,
            };
            let page: Page<'_> = serde_json::from_slice(&body)?;
            for claim in &page.items {
                self.cache.put(&claim.metadata.namespace, &claim.metadata.name, claim.modes(), 0);
            }
            if !pages.turn(&page.metadata.next) {
                return Ok(());
            }
        }
    }

    /// Returns how many claims there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Facts for Inventory {
    fn claim(&self, namespace: &str, name: &str) -> Fact<Claim> {
        match self.cache.get(namespace, name) {
            Some(modes) => modes.names().map_or(Fact::Unknown, |access_modes| {
                Fact::Known(Claim { access_modes, source: Source::Cluster })
            }),
            None if self.complete => Fact::Absent,
            None => Fact::Unknown,
        }
    }
}
