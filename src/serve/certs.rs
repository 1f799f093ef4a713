//! Certificates that the webhook manages itself: `jobgate serve --self-managed-certs`.
//!
//! ```text
//! Secret ──read──> state ──┐                                ┌─> Secret (compare and swap)
//! configurations ──────────┼──> plan (pure) ──> driver ─────┼─> leaf, in memory ──> Identity (hot swap)
//! leaf, soak, clock ───────┘                                └─> caBundle of both configurations (server-side apply)
//! ```
//!
//! One Secret is the one truth: every replica reads it, and writes it only if it is still what was read, so
//! no leader is needed. The authority is in the Secret; each replica's served certificate and its key are in
//! its memory alone. Nothing is mounted: a mounted Secret is up to two minutes behind, which is longer than a
//! `caBundle` takes to be in force.
//!
//! # Permissions
//!
//! Each on the one name, and nothing else; the watches name the object by `fieldSelector=metadata.name=…`,
//! which is what lets `resourceNames` allow them.
//!
//! | in | resource | verbs |
//! |---|---|---|
//! | Role in the namespace | `secrets`, resourceNames `--secret-name` | get, watch, update |
//! | ClusterRole | `mutatingwebhookconfigurations`, resourceNames `--mutating-configuration` | get, watch, patch |
//! | ClusterRole | `validatingwebhookconfigurations`, resourceNames `--validating-configuration` | get, watch, patch |
//!
//! The Secret and the configurations are never made or deleted: the manifests bring the Secret empty, and the
//! configurations without `caBundle`.
//!
//! # Clocks
//!
//! Certificates are dated and judged by the clock of the API server, from the `Date` of its answers: that is
//! the clock by which it verifies them, and a machine whose own clock is wrong by a year does no harm.
//! Everything is read again every ten seconds, so a suspended machine catches up at once.

pub mod authority;
pub mod driver;
pub mod plan;
pub mod publish;
#[cfg(test)]
mod samples;
pub mod state;

pub use authority::{Distrust, Names};
pub use driver::{Managed, Settings};
pub use plan::Lifetimes;
