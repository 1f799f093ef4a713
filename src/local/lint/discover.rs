//! The files of a run: those that its arguments name, without those that are excluded.

mod gitignore;
mod input;
mod patterns;

pub use input::{Exclusions, Inputs, Unreadable, collect, collect_some, collect_without};
pub(crate) use patterns::{ByPath, Patterns};
