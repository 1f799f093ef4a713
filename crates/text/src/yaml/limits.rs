//! How large a source may be.

/// Limits for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Documents in one source.
    pub documents: usize,
    /// Bytes of one document; at most 1 GiB.
    pub document_bytes: usize,
    /// Values and keys in one document, however long it is. Each takes about 20 bytes in the tree, and up to
    /// 100 in the value and what is known about it.
    pub nodes: usize,
    /// Values and keys in one document, however short it is. A longer one may have one for every six bytes.
    pub dense_nodes: usize,
    /// Levels of mappings and lists. kubectl allows 10,000, other clients of the API server less, serde_json
    /// 127.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            documents: 100_000,
            document_bytes: 64 << 20,
            nodes: 2_000_000,
            dense_nodes: 180_000,
            depth: 127,
        }
    }
}

impl Limits {
    /// Returns how many values and keys a document of so many bytes may have: one for every six bytes. A
    /// manifest has one for ten to twenty bytes. One of brackets alone has one for every second byte, and takes
    /// a hundred times the memory of its text.
    pub(super) fn nodes_in(&self, bytes: usize) -> usize {
        (bytes / 6).max(self.dense_nodes).min(self.nodes)
    }
}
