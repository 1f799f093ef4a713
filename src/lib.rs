//! Keeps batch jobs that will waste a night of GPU time out of a Kubernetes cluster, and says how to fix
//! them.
//!
//! ```text
//! bytes ──> documents ──> Value ──> Workload ──> rules ──> Findings (+ operations) ──> Verdict
//! text        with spans   object     kinds      judge::rules                          judge::engine
//!                                                                                          ├─> admission: AdmissionReview response
//!                                facts, policy ────────────────────────────────────────────├─> report: human, json, sarif, …
//!                                                                                          └─> jobgate_lint: places and byte edits of the source file
//! ```
//!
//! [`judge::engine::evaluate`] is the core, and is pure. `jobgate lint`, `jobgate dry-run` and `jobgate serve` are
//! adapters around it. Each folder is a layer, and imports only point down; `tests/integration/layers.rs` has the table
//! and checks it.

pub mod cli;
pub mod local;
pub mod policies;
pub use jobgate_core::{admission, controllers, judge, k8s, kinds, text};
pub use jobgate_report as report;
#[cfg(feature = "serve")]
pub use {jobgate_cluster as cluster, jobgate_serve as serve};
