//! YAML and JSON with source locations, pointers, and patch operations. Independent of Kubernetes.

pub mod hash;
pub mod lines;
pub mod meter;
pub mod number;
pub mod patch;
pub mod placeholder;
pub mod pointer;
pub mod shell;
pub mod suggest;
pub mod value;
pub mod yaml;
