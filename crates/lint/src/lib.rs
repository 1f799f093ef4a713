//! The linter: the text of a manifest in, findings and edits out. It opens no file and starts no process.
//!
//! [`judge`] splits a text into documents, judges each object of them as the webhook would, and says where in the text
//! each finding is. With fixes, it returns the edits that make them. What one file says of claims, volumes and runtimes
//! is in [`claims`]; whoever calls reads it from all files before.

pub mod against;
mod answers;
pub mod attribute;
pub mod baseline;
pub mod batch;
pub mod claims;
pub mod document;
pub mod fix;
mod input;
mod judged;
mod loaded;
pub mod merge;
mod near;
pub mod objects;
mod options;
pub mod patches;
pub mod place;
pub mod shifts;
mod subject;
#[cfg(test)]
mod testing;
pub mod unfinished;

pub use answers::Layered;
pub use input::{Content, Input, Reached, STDIN, path_text, shown};
pub use judged::{FileJudgement, judge};
pub use loaded::Loaded;
pub use options::{DryRun, LintOptions};
pub use subject::{Role, Subject};
