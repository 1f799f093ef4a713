//! The real binary in a folder of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its files fails")]

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use jobgate::text::value::Value;

/// Lacks a deadline and nothing else that would be denied.
pub const JOB: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team-a
spec:
  ttlSecondsAfterFinished: 3600
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: trainer
          image: registry.example.com/trainer:v1
";

/// The same with a deadline.
pub fn good() -> String {
    JOB.replace("spec:\n  ttl", "spec:\n  activeDeadlineSeconds: 3600\n  ttl")
}

/// A folder with files, and the binary in it.
pub struct Place(tempfile::TempDir);

impl Place {
    /// Makes a folder with files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(dir)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The binary with arguments, here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobgate"));
        command.current_dir(self.path()).args(arguments);
        for variable in ["NO_COLOR", "CLICOLOR_FORCE", "JOBGATE_CONFIG"] {
            command.env_remove(variable);
        }
        // What a machine has to render with is no matter of a test that does not say so.
        command.env("PATH", "");
        command
    }

    /// Runs the binary here. Nothing may take longer than this, in the slowest build.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).timeout(Duration::from_secs(20)).output().unwrap()
    }
}

/// What it wrote.
pub fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// What it said besides.
pub fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// What it wrote, as JSON.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(output), stderr(output)))
}

/// How it ended.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}
