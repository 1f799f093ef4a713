//! The linter: from the text of a manifest to findings and edits. It opens no file and starts no process.
//!
//! [`judge()`] splits a text into documents, judges each object of them as the webhook would, and locates each finding in
//! the text. With fixes, it returns the edits that apply them. [`claims`] reads the claims and other objects of a
//! file; the caller collects them from all files first.

mod answers;
pub mod attribute;
pub mod baseline;
pub mod batch;
pub mod claims;
pub mod existing_objects;
mod file_bytes;
pub mod fix;
mod input;
pub mod judge;
pub mod merge;
mod nearest;
pub mod objects;
mod options;
pub mod patches;
pub mod place;
pub mod recovery;
pub mod shifts;
mod subject;
#[cfg(test)]
mod testing;

pub use answers::Layered;
pub use file_bytes::FileBytes;
pub use input::{Content, Input, Reached, STDIN, path_text, shown};
pub use judge::{FileJudgement, judge};
pub use options::{DryRun, LintOptions};
pub use subject::{Role, Subject};
