//! The verdict on one object: request, facts and policy in, findings and operations out. Pure.

pub mod api;
pub(crate) mod appliers;
pub mod cel;
pub mod checks;
mod claims;
pub mod commands;
mod copies;
pub mod cost;
pub mod engine;
pub mod facts;
pub mod finding;
pub(crate) mod joined;
mod kueue;
mod mounts;
mod nodes;
pub mod policy;
mod ranks;
mod ratchet;
pub mod rule;
pub mod rules;
mod runtimes;
pub mod selection;
pub mod settings;
pub(crate) mod spot;
mod tolerations;
mod training;
mod words;
