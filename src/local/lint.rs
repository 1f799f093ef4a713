//! The linter: files in, a report out. An adapter around [`crate::judge::engine::evaluate`], usable without
//! the command line.
//!
//! There are two passes. The first reads the claims in the files: it searches for the word and parses the
//! documents that have it. In the second, one thread parses, judges and drops each document and keeps its
//! findings, with their places. Files, and the documents of a large file, are spread over the current rayon
//! pool; the report does not depend on the number of threads.

mod answers;
mod chart;
mod claims;
mod discover;
mod fixing;
mod kustomization;
mod merge;
mod options;
#[cfg(feature = "serve")]
mod referenced_objects;
mod rendering;
mod resolved_elsewhere;
mod run;
mod session;
mod source;
mod unjudged;

pub(crate) use answers::{against_in, objects_of};
pub(crate) use claims::{FactsError, facts_in};
pub(crate) use jobgate_lint::FileBytes;
pub use jobgate_lint::claims::Claims;
pub(crate) use jobgate_lint::existing_objects::ExistingObjects;
pub use jobgate_lint::{Content, DryRun, Input, Reached};
pub(crate) use source::load;

pub(crate) use discover::{ByPath, Patterns};
pub use discover::{Exclusions, Inputs, Unreadable, collect, collect_some, collect_without};
pub use fixing::{Change, Fixing, Sink, Unwritten};
pub(crate) use jobgate_lint::place::nothing_in;
#[cfg(feature = "serve")]
pub(crate) use jobgate_lint::place::order;
pub use merge::{Linted, lint};
pub use options::{MAX_FILE_SIZE, Options, Progress, Rendering, TIMEOUTS, Values};
#[cfg(feature = "serve")]
pub(crate) use referenced_objects::{ReferencedObjects, mentioned};
pub use session::{Defined, Fixes, Known, Scan, Session, Target, text};
pub use source::{drained, stdin};

pub use crate::local::paths::{STDIN, normal, path_text};
