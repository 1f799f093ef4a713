//! Files on disk: found, read, judged and fixed.

pub mod cases;
pub(crate) mod files;
pub mod lint;
mod paths;
pub(crate) mod render;
pub mod replace;
pub(crate) mod reviews;
mod spot;
pub mod starter;

pub use jobgate_lint::{baseline, fix};
