//! The claims of a cluster at one moment, for a command that looks once and ends.

use std::time::Duration;

use kube::Client;

use super::Settings;
use super::fetch::Failure;
use super::list::{PAGE, Pages};
use super::mirror::{CLAIMS, LARGEST_PAGE};
use super::store::Cache;
use super::wire::Page;
use crate::judge::facts::{Claim, Fact, Facts};
use crate::judge::finding::Source;

/// Claims as they were when they were listed: their access modes and nothing else.
#[derive(Debug)]
pub struct Inventory {
    cache: Cache,
    complete: bool,
}

impl Inventory {
    /// Lists the claims of some namespaces, or of all where none is named.
    ///
    /// Where a list fails, what it would have held is unknown; the failures are returned beside, with the
    /// namespace (empty for all).
    pub(crate) async fn take(client: &Client, namespaces: &[String]) -> (Self, Vec<(String, Failure)>) {
        // It is looked at once and thrown away: it does not age.
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
        let mut pages = Pages::new(client, &path, PAGE, LARGEST_PAGE, Settings::default().list_timeout);
        let mut restarts = 0;
        loop {
            let body = match pages.fetch().await {
                // The names that came already are put in again: what is in the cache is a set.
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

    /// Tells whether there are none.
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
