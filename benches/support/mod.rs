//! What the benchmarks run on, and what they are held against.

use std::fmt::Write as _;

/// Returns a multi-document file of Jobs, of at least so many bytes. Each has four findings, as an everyday
/// training job would.
pub(crate) fn manifests(bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 4096);
    let mut number = 0;
    while out.len() < bytes {
        if number > 0 {
            out.push_str("---\n");
        }
        let team = number % 10;
        let _ = write!(out, include_str!("job.yaml.txt"), number = number, team = team);
        number += 1;
    }
    out
}

/// Returns such a file of Jobs, PyTorchJobs, MPIJobs, JobSets and RayJobs in turns.
pub(crate) fn mixed(bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 4096);
    let mut number = 0;
    while out.len() < bytes {
        if number > 0 {
            out.push_str("---\n");
        }
        let team = number % 10;
        let _ = match number % 5 {
            0 => write!(out, include_str!("job.yaml.txt"), number = number, team = team),
            1 => write!(out, include_str!("py_torch_job.yaml.txt"), number = number, team = team),
            2 => write!(out, include_str!("mpi_job.yaml.txt"), number = number, team = team),
            3 => write!(out, include_str!("job_set.yaml.txt"), number = number, team = team),
            _ => write!(out, include_str!("ray_job.yaml.txt"), number = number, team = team),
        };
        number += 1;
    }
    out
}

/// Parses a file into events on this thread, and returns how many: what any reader of YAML must do at least.
pub(crate) fn events(source: &str) -> usize {
    granit_parser::Parser::new_from_str(source)
        .inspect(|event| assert!(event.is_ok(), "a generated file is YAML"))
        .count()
}
