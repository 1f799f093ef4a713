//! Lists in pages, so that memory stays bounded however large the list is.

use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use tokio::time::timeout;

use super::fetch::{self, Failure};

/// Objects on one page, as in kubectl.
pub(crate) const PAGE: u32 = 500;

/// A list that is being read.
pub(crate) struct Pages<'c> {
    client: &'c Client,
    /// Path and query, without `limit` and `continue`.
    resource: String,
    limit: u32,
    /// A page above this number of bytes is read again in smaller pieces, which bounds the memory for a list.
    largest: usize,
    page_timeout: Duration,
    next: String,
}

impl<'c> Pages<'c> {
    /// Starts at the first page; `page_timeout` is for one page.
    pub(crate) fn new(
        client: &'c Client,
        path: &str,
        limit: u32,
        largest: usize,
        page_timeout: Duration,
    ) -> Self {
        Self { client, resource: format!("{path}?"), limit, largest, page_timeout, next: String::new() }
    }

    /// Lists only objects whose labels match.
    pub(crate) fn selected(mut self, selector: &str) -> Self {
        self.resource.push_str("labelSelector=");
        self.resource.push_str(&fetch::escaped(selector));
        self.resource.push('&');
        self
    }

    /// Fetches the current page.
    pub(crate) async fn fetch(&mut self) -> Result<Bytes, Failure> {
        loop {
            let mut uri = format!("{}limit={}", self.resource, self.limit);
            if !self.next.is_empty() {
                uri.push_str("&continue=");
                uri.push_str(&fetch::escaped(&self.next));
            }
            let most = if self.limit == 1 { self.largest.max(fetch::MAX_OBJECT_BYTES) } else { self.largest };
            let page = async { fetch::read(fetch::get(self.client, uri).await?, most).await };
            match timeout(self.page_timeout, page).await.unwrap_or(Err(Failure::Silence)) {
                Err(Failure::TooLarge(_)) if self.limit > 1 => self.limit = (self.limit / 4).max(1),
                page => return page,
            }
        }
    }

    /// Advances to the next page, and returns whether there is one.
    pub(crate) fn turn(&mut self, next: &str) -> bool {
        next.clone_into(&mut self.next);
        !next.is_empty()
    }

    /// Goes back to the first page.
    pub(crate) fn restart(&mut self) {
        self.next.clear();
    }
}
