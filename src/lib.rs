//! Keeps batch jobs that will waste a night of GPU time out of a Kubernetes cluster, and says how to mend them.
//!
//! ```text
//! bytes ──> documents ──> Value ──> Workload view ──> rules ──> Findings (+ operations) ──> Verdict
//!  yaml       with spans    object      workload        rules/*      finding                   engine
//!                                                                                                ├─> admission: AdmissionReview response
//!                       facts, policy ───────────────────────────────────────────────────────────├─> report: human, json, sarif, …
//!                                                                                                └─> byte edits of the source file
//! ```
//!
//! [`engine::evaluate`] is the middle of it and is pure. `jobgate lint`, `jobgate dry-run` and `jobgate serve` are adapters around it.

pub mod accelerator;
pub mod admission;
pub mod api;
pub(crate) mod appliers;
#[cfg(feature = "serve")]
pub mod audit;
pub mod baseline;
pub mod cel;
#[cfg(feature = "serve")]
pub mod certs;
pub mod checks;
pub mod cli;
#[cfg(feature = "serve")]
pub mod cluster;
pub mod cmd;
#[cfg(feature = "serve")]
pub mod doctor;
pub mod dry_run;
pub mod engine;
pub mod facts;
pub mod finding;
pub mod fix;
pub mod install;
pub mod k8s;
pub mod lines;
pub mod lint;
pub mod meter;
pub mod pages;
pub mod patch;
pub mod placeholder;
pub mod pointer;
pub mod policy;
pub mod registration;
pub mod replace;
pub mod report;
pub mod rule;
pub mod rules;
#[cfg(feature = "serve")]
pub mod server;
pub mod suggest;
pub mod value;
#[cfg(feature = "serve")]
pub mod webhook;
pub mod workload;
pub mod yaml;
