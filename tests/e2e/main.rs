//! Jobgate in front of a real API server: etcd, kube-apiserver and, where it is there,
//! kube-controller-manager; people use kubectl.
//!
//! The binaries come from `KUBEBUILDER_ASSETS`, else from `/usr/local/kubebuilder/bin`, as envtest has it.
//! Without them, one line says so and nothing is tested. One cluster serves all scenarios; each has a
//! namespace of its own, so that they run side by side.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test tells what it skips, and what Jobgate said when it fails"
)]
#![allow(clippy::needless_pass_by_value, reason = "expected values are written in place")]

mod api;
mod attack;
mod audit;
mod cel;
mod certificates;
mod claims;
mod closed;
mod cluster;
mod cron_jobs;
#[path = "../support/deploy.rs"]
#[allow(dead_code, unreachable_pub, reason = "it serves the tests of the manifests, too")]
mod deploy;
mod doctor;
mod dry_runs;
mod failures;
mod gate;
mod install;
mod installation;
mod jobs;
mod kinds;
mod kubectl;
mod load;
mod manifests;
mod mutated;
mod mutator;
mod operators;
mod own_certificates;
mod permissions;
mod process;
mod pytorch_jobs;
mod reapply;
#[path = "../support/refusals.rs"]
mod refusals;
mod reports;
mod runtimes;
mod samples;
mod scenario;
mod starters;
mod trust;
mod updates;
mod wrong_types;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use libtest_mimic::{Arguments, Trial};

use crate::cluster::{Assets, Lazy};
use crate::scenario::{Needs, Scenario};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Scenarios mostly wait.
    arguments.test_threads.get_or_insert_with(|| available_parallelism().map_or(2, usize::from) * 2);
    let Some(assets) = Assets::find() else {
        println!(
            "skipped: end-to-end tests need etcd, kube-apiserver and kubectl in KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin"
        );
        return ExitCode::SUCCESS;
    };
    let definitions = cluster::definitions();
    if definitions.is_empty() {
        println!("skipped: scenarios with custom resources need `crds` in JOBGATE_SHARED");
    }
    if !assets.has_controllers() {
        println!("skipped: scenarios with controllers need kube-controller-manager beside kube-apiserver");
    }
    let can = |scenario: &Scenario| match scenario.needs {
        Needs::Nothing => true,
        Needs::Controllers => assets.has_controllers(),
        Needs::CustomResources => !definitions.is_empty(),
    };
    let all = [
        audit::SCENARIOS,
        reports::SCENARIOS,
        jobs::SCENARIOS,
        dry_runs::SCENARIOS,
        updates::SCENARIOS,
        reapply::SCENARIOS,
        cron_jobs::SCENARIOS,
        pytorch_jobs::SCENARIOS,
        claims::SCENARIOS,
        runtimes::SCENARIOS,
        cel::SCENARIOS,
        mutated::SCENARIOS,
        failures::SCENARIOS,
        install::SCENARIOS,
        own_certificates::SCENARIOS,
        permissions::SCENARIOS,
        closed::SCENARIOS,
        doctor::SCENARIOS,
        kinds::SCENARIOS,
        operators::SCENARIOS,
        starters::SCENARIOS,
        trust::SCENARIOS,
        wrong_types::SCENARIOS,
    ];
    let cluster = Arc::new(Lazy::new(assets.clone(), definitions.clone()));
    let trial = |scenario: &'static Scenario| {
        let cluster = Arc::clone(&cluster);
        Trial::test(scenario.name, move || scenario::run(scenario, &cluster))
    };
    let trials = all.into_iter().flatten().filter(|scenario| can(scenario)).map(trial).collect();
    let mut failed = libtest_mimic::run(&arguments, trials).has_failed();
    // An answer that comes too late opens the gate: other scenarios beside these would take their time.
    arguments.test_threads = Some(1);
    let alone = attack::SCENARIOS.iter().filter(|scenario| can(scenario)).map(trial).collect();
    failed |= libtest_mimic::run(&arguments, alone).has_failed();
    // Stops every process: the exit code must not be returned before.
    drop(cluster);
    if failed { ExitCode::from(101) } else { ExitCode::SUCCESS }
}
