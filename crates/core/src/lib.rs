//! The verdict on one object, without files, processes, a network or a clock: what [jobgate] decides by.
//!
//! ```text
//! Value ──> Workload ──> rules ──> Findings (+ operations) ──> Verdict ──> AdmissionReview response
//!            kinds        judge::rules                           judge::engine   admission
//! ```
//!
//! [`judge::engine::evaluate`] is the centre of it. An internal part of jobgate with no stability promise: any
//! release may change its API.
//!
//! [jobgate]: https://github.com/jobgate/jobgate

pub mod admission;
pub mod controllers;
pub mod judge;
pub mod k8s;
pub mod kinds;
pub use jobgate_text as text;
