//! The verdict on one object: request, facts and policy in, findings and operations out. Pure.

pub mod api;
pub(crate) mod appliers;
pub mod cel;
pub mod checks;
pub mod commands;
pub mod engine;
pub mod facts;
pub mod finding;
mod mounts;
mod nodes;
pub mod policy;
mod ratchet;
pub mod rule;
pub mod rules;
mod runtimes;
mod tolerations;
mod training;
mod words;
