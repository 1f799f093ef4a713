//! Jobgate in front of a real API server: etcd, kube-apiserver and, where it is there,
//! kube-controller-manager; people use kubectl.
//!
//! The binaries come from `KUBEBUILDER_ASSETS`, else from `/usr/local/kubebuilder/bin`, as envtest has it; else
//! `tests/cluster/get` makes those of the newest minor version at the first scenario that runs. Where that
//! cannot be, nothing is tested and a line says what to install; with `CI=true` that is a failure. One cluster
//! serves all scenarios; each has a namespace of its own, so that they run side by side.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test tells what it skips, and what Jobgate said when it fails"
)]
#![allow(clippy::needless_pass_by_value, reason = "expected values are written in place")]

mod api;
mod attack;
mod audit;
mod beside;
mod cel;
mod cel_fixtures;
mod certificates;
mod charges;
mod claims;
mod closed;
mod cluster;
mod cron_jobs;
mod definitions;
#[path = "../support/deploy.rs"]
#[allow(dead_code, unreachable_pub, reason = "it serves the tests of the manifests, too")]
mod deploy;
mod doctor;
mod dry_runs;
mod ensemble;
mod failures;
mod gate;
mod install;
mod installation;
mod jobs;
mod kinds;
mod kubectl;
#[path = "../cluster/kubelet/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "a library: no scenario here needs all of it; its own tests run elsewhere"
)]
mod kubelet;
mod live;
mod load;
mod manifests;
#[path = "../support/operators/mod.rs"]
#[allow(dead_code, reason = "it serves the tests of recordings, too")]
mod modelled;
mod mutated;
mod mutator;
mod operator;
mod operators;
mod own_certificates;
mod packages;
mod permissions;
mod process;
#[path = "../support/programs.rs"]
#[allow(dead_code, unreachable_pub, reason = "it serves the other test programs, too")]
mod programs;
mod pytorch_jobs;
#[path = "../support/random.rs"]
mod random;
mod reapply;
#[path = "../support/refusals.rs"]
mod refusals;
mod reports;
mod runtimes;
mod samples;
mod scenario;
mod simulated;
mod starters;
mod templates;
mod trust;
mod updates;
mod wrong_types;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;

use libtest_mimic::{Arguments, Trial};

use crate::cluster::{Assets, Lazy};
use crate::definitions::Definitions;
use crate::programs::Servers;
use crate::scenario::{Needs, Scenario};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Scenarios mostly wait.
    arguments.test_threads.get_or_insert_with(|| available_parallelism().map_or(2, usize::from) * 2);
    let servers = match Servers::find() {
        Ok(servers) => servers,
        Err(why) => {
            println!("not run: {} end-to-end scenarios: {why}", scenarios().count());
            return if programs::in_ci() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let definitions = Definitions::find();
    // Those that can be made have everything.
    let has_controllers = match &servers {
        Servers::In(folder) => Assets::new(folder.clone()).has_controllers(),
        Servers::ToBeMade => true,
    };
    let can = |scenario: &Scenario| match scenario.needs {
        Needs::Nothing => true,
        Needs::Controllers => has_controllers,
        Needs::CustomResources => definitions.is_ok(),
    };
    let left_out = scenarios().filter(|scenario| !can(scenario)).count();
    if left_out > 0 {
        let crds = definitions.as_ref().err().map_or("", String::as_str);
        let controllers = if has_controllers { "" } else { "kube-controller-manager beside kube-apiserver" };
        let needs = [crds, controllers].into_iter().filter(|needs| !needs.is_empty()).collect::<Vec<_>>();
        println!("not run: {left_out} end-to-end scenarios: they need {}", needs.join(" and "));
        if programs::in_ci() {
            return ExitCode::FAILURE;
        }
    }
    let cluster = Arc::new(Lazy::new(servers.clone(), definitions.as_ref().ok().cloned()));
    let trial = |scenario: &'static Scenario| {
        let cluster = Arc::clone(&cluster);
        Trial::test(scenario.name, move || scenario::run(scenario, &cluster))
    };
    let trials =
        BESIDE_EACH_OTHER.iter().copied().flatten().filter(|scenario| can(scenario)).map(trial).collect();
    let mut failed = libtest_mimic::run(&arguments, trials).has_failed();
    // An answer that comes too late opens the gate: other scenarios beside these would take their time.
    arguments.test_threads = Some(1);
    let alone = attack::SCENARIOS.iter().filter(|scenario| can(scenario)).map(trial).collect();
    failed |= libtest_mimic::run(&arguments, alone).has_failed();
    failed |= has_controllers && beside_operators(arguments, servers);
    // Stops every process: the exit code must not be returned before.
    drop(cluster);
    if failed { ExitCode::from(101) } else { ExitCode::SUCCESS }
}

/// The scenarios that run side by side.
const BESIDE_EACH_OTHER: &[&[Scenario]] = &[
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
    cel_fixtures::SCENARIOS,
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
    live::SCENARIOS,
];

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    BESIDE_EACH_OTHER.iter().copied().flatten().chain(attack::SCENARIOS)
}

/// Runs the scenarios with real operators, and tells whether one failed, or none could run where they must.
fn beside_operators(mut arguments: Arguments, servers: Servers) -> bool {
    let ensemble = Arc::new(ensemble::Lazy::new(servers));
    let trials = beside::trials(&ensemble).and_then(|mut trials| {
        trials.extend(simulated::trials(&ensemble)?);
        trials.extend(templates::trials(&ensemble)?);
        Ok(trials)
    });
    let trials = match trials {
        Ok(trials) => trials,
        Err(error) => {
            println!("{error}");
            return true;
        }
    };
    let wanted = |trial: &Trial| arguments.filter.as_ref().is_none_or(|filter| trial.name().contains(filter));
    if arguments.list || !trials.iter().any(wanted) {
        return libtest_mimic::run(&arguments, trials).has_failed();
    }
    if let Err(missing) = ensemble.find() {
        println!("not run: {} end-to-end scenarios beside real operators: {missing}", trials.len());
        return programs::in_ci();
    }
    if let Some(line) = operator::not_run() {
        println!("{line}");
    }
    // Each waits for pods to run, all of them on one cluster.
    arguments.test_threads = Some(available_parallelism().map_or(2, usize::from) * 2);
    let failed = libtest_mimic::run(&arguments, trials).has_failed();
    drop(ensemble);
    failed
}
