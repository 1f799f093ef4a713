//! The linter: from the text of a manifest to findings and edits. It opens no file and starts no process.
//!
//! [`judge`] splits a text into documents, judges each object of them as the webhook would, and locates each finding in
//! the text. With fixes, it returns the edits that apply them. [`claims`] reads the claims and other objects of a
//! file; the caller collects them from all files first.

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
