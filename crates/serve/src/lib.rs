//! The webhook as a process: HTTPS, certificates, metrics.

pub mod arguments;
pub mod certs;
pub mod doctor;
pub mod server;
pub mod webhook;
