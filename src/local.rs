//! Files on disk: found, read, judged and fixed.

pub mod baseline;
pub mod cases;
pub mod files;
pub mod fix;
pub mod lint;
mod paths;
pub mod render;
pub mod replace;
pub mod reviews;
mod spot;
pub mod starter;
