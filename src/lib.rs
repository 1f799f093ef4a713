//! Keeps batch jobs that will waste a night of GPU time out of a Kubernetes cluster, and says how to fix
//! them.
//!
//! ```text
//! bytes ──> documents ──> Value ──> Workload ──> rules ──> Findings (+ operations) ──> Verdict
//! text        with spans   object     kinds      judge::rules                          judge::engine
//!                                                                                          ├─> admission: AdmissionReview response
//!                                facts, policy ────────────────────────────────────────────├─> report: human, json, sarif, …
//!                                                                                          └─> local: byte edits of the source file
//! ```
//!
//! [`judge::engine::evaluate`] is the middle of it and is pure. `jobgate lint`, `jobgate dry-run` and
//! `jobgate serve` are adapters around it. Each folder is a layer, and imports point down only;
//! `tests/integration/layers.rs` has the table and checks it.

pub mod admission;
pub mod cli;
#[cfg(feature = "serve")]
pub mod cluster;
pub mod judge;
pub mod k8s;
pub mod kinds;
pub mod local;
pub mod report;
#[cfg(feature = "serve")]
pub mod serve;
pub mod text;
