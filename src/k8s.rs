//! Exact ports of small parts of Kubernetes' own code: what the API server makes of a quantity or of a
//! schedule.
//!
//! Everything here is a law of somebody else's program. Oracle tests hold it to answers recorded from that
//! program.

pub mod cron;
pub mod go;
pub mod names;
pub mod quantity;
