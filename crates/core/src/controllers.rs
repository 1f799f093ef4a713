//! What Kubernetes' controllers do after something happened: a model of them, held against recordings of the real ones.
//!
//! Nothing happens on an event. A controller takes notice ([`Controller::observe`]), and looks when it is due: a sync sees
//! all objects as they are then, and returns what it does. [`world::World`] turns that into events, and does what kubelets,
//! programs and people do by a [`script::Script`]. Everything here is a value: no clock is read, and no thread waits.

mod admission;
mod chance;
pub mod cluster;
pub mod cron_job;
pub mod dashboard;
pub mod incident;
pub mod indexes;
pub mod job;
mod kubelet;
mod kueue_settings;
pub mod live;
pub(crate) mod managers;
pub mod meta;
pub mod object;
pub mod object_story;
pub mod operators;
pub mod pod;
pub mod pod_set;
pub mod program;
pub mod runs;
pub mod script;
pub mod story;
pub mod subject;
pub mod time;
pub mod ttl;
mod weight;
pub mod world;

pub use cluster::Controller;
