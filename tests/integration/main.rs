//! The library and the program from outside, in one program: what is linked once need not be linked thirty
//! times. What measures its own process is in `tests/load`, the fixtures of the rules are in `tests/rules`,
//! what needs a real API server in `tests/e2e`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its files fails, and one that does not run says so"
)]

#[path = "../../fuzz/laws/mod.rs"]
mod laws;
#[path = "../support/mod.rs"]
mod support;

mod another_reader;
mod answers;
#[cfg(feature = "serve")]
mod audit;
#[cfg(feature = "serve")]
mod certs;
#[cfg(feature = "serve")]
mod certs_init;
mod cli;
mod cli_configuration;
mod cli_fixes;
mod cli_options;
#[cfg(feature = "serve")]
mod cluster;
#[cfg(target_os = "linux")]
mod cluster_get;
mod corpus;
#[cfg(feature = "serve")]
mod deploy;
#[cfg(all(feature = "serve", unix))]
mod docs;
#[cfg(feature = "serve")]
mod doctor;
mod fixes;
mod fuzz_seeds;
#[cfg(feature = "serve")]
#[path = "../cluster/kubelet/mod.rs"]
#[allow(dead_code, reason = "its plans are tested here, its requests by the scenarios that it serves")]
mod kubelet;
#[cfg(all(feature = "serve", target_os = "linux"))]
mod large_reviews;
mod large_texts;
mod layers;
mod lsp;
mod many_items;
mod oracle_apiserver;
mod oracle_crd;
mod oracle_cron;
#[cfg(feature = "serve")]
mod oracle_failures;
mod oracle_job_failures;
mod oracle_jsonpatch;
mod oracle_operator_failures;
mod oracle_quantity;
mod oracle_yaml;
mod parents;
mod pod_templates;
mod policy_test;
mod property_admission;
#[cfg(feature = "serve")]
mod publish;
mod rendering;
mod reviews;
mod rule_files;
mod rule_pages;
#[cfg(feature = "serve")]
mod runtimes;
#[cfg(feature = "serve")]
mod server;
mod shell;
mod simulate;
mod simulate_live;
mod simulate_live_objects;
#[cfg(unix)]
mod strangers;
mod yaml_laws;
