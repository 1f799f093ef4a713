//! Exact ports of small parts of Kubernetes, such as quantities and schedules. Tests compare them with
//! answers recorded from the original.

pub mod cron;
pub(crate) mod go;
pub mod names;
pub mod quantity;
