//! The bytes of a file.

use std::sync::Arc;

/// The bytes of a file, never copied: touching fresh memory takes longer than reading from the page cache.
#[derive(Clone, Debug)]
pub struct FileBytes(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    Text(Arc<String>),
    Other(Arc<Vec<u8>>),
}

impl FileBytes {
    /// Wraps bytes without copying them.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(match String::from_utf8(bytes) {
            Ok(text) => Bytes::Text(Arc::new(text)),
            Err(error) => Bytes::Other(Arc::new(error.into_bytes())),
        })
    }

    /// Wraps a shared text.
    #[must_use]
    pub fn shared(text: Arc<String>) -> Self {
        Self(Bytes::Text(text))
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Other(bytes) => bytes,
        }
    }

    /// Returns the text up to the first byte that is not UTF-8, so that offsets stay valid.
    pub fn text(&self) -> Arc<String> {
        match &self.0 {
            Bytes::Text(text) => Arc::clone(text),
            Bytes::Other(bytes) => {
                Arc::new(bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()).to_owned())
            }
        }
    }
}
