//! Files on disk: found, read, judged and fixed.

pub mod cases;
pub mod files;
pub mod lint;
mod paths;
pub mod render;
pub mod replace;
pub mod reviews;
mod spot;
pub mod starter;

pub use jobgate_lint::{baseline, fix};
