//! Bytes to values and back: YAML and JSON with spans, pointers into them, operations on them. Knows nothing
//! of Kubernetes.

pub mod lines;
pub mod meter;
pub mod patch;
pub mod placeholder;
pub mod pointer;
pub mod suggest;
pub mod value;
pub mod yaml;
