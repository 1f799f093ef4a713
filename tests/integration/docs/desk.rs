//! A place where the commands of a page run: by bash, with the real `jobgate`, and with a program in place of
//! each other one that only writes down how it was called.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::page::{Page, root};
use crate::support::place::Place;

/// Programs that are not run, and why.
pub(super) const NOT_RUN: &[(&str, &str)] = &[
    ("brew", "not part of every system"),
    ("cargo", "builds this very program; names of targets and options are checked"),
    ("code", "not part of every system"),
    ("cosign", "asks who signed what is not released yet"),
    ("curl", "asks a server that is not there"),
    ("docker", "builds the image, from the network; .ci/static builds the same program"),
    ("envsubst", "not part of every system"),
    ("gh", "writes a comment on GitHub"),
    ("git", "changes the repository of whoever runs the tests"),
    ("helm", "installs into a cluster; tests/integration/deploy.rs renders the chart"),
    ("jq", "not part of every system"),
    ("kind", "starts containers"),
    ("kubectl", "needs a cluster; its options are checked, and tests/e2e applies the manifests"),
    ("kustomize", "not part of every system"),
    ("npm", "installs from a registry; the scripts that are named are checked"),
    ("openssl", "connects to a server that is not there"),
    ("pip", "installs into the Python of whoever runs the tests; .ci/wheel installs the wheel"),
    ("sh", "installs; tests/packages runs the script"),
];

/// Commands of Jobgate that are parsed and not run, and why.
pub(super) const PARSED_ONLY: &[(&str, &str)] = &[
    ("audit", "needs a cluster: tests/integration/audit.rs and tests/e2e/audit.rs"),
    ("doctor", "needs a cluster: tests/integration/doctor.rs and tests/e2e/doctor.rs"),
    ("serve", "serves until it is stopped: tests/integration/server.rs"),
    ("--cluster", "needs a cluster: tests/integration/cluster.rs"),
];

/// Programs that are part of every system.
const REAL: &[&str] = &["base64", "cat", "head", "sort", "tail", "tr"];

/// Writes down its call, takes what it is given, and prints what the page says that it prints.
const STUB: &str = r#"#!/bin/bash
CALLS=TOOLS/calls ANSWERS=TOOLS/answers
case $0 in .ci/* | deploy/*) name=$0 ;; *) name=${0##*/} ;; esac
printf '%s\0' "$name" "$@" >"$CALLS/$EPOCHREALTIME-$BASHPID"
[ -p /dev/stdin ] && cat >/dev/null
if [ -f "$ANSWERS/$name" ]; then cat "$ANSWERS/$name"; fi
exit 0
"#;

/// Writes down its call, and how it ended.
const JOBGATE: &str = r#"#!/bin/bash
call="$CALLS/$EPOCHREALTIME-$BASHPID"
printf '%s\0' jobgate "$@" >"$call"
for word in "$@"; do
  case " $PARSED_ONLY " in *" $word "*) exit 0 ;; esac
done
"$REAL" "$@" 2>"$call.stderr"
code=$?
echo "$code" >"$call.code"
cat "$call.stderr" >&2
exit "$code"
"#;

/// How a program was called.
pub(super) struct Call {
    pub(super) words: Vec<String>,
    /// How `jobgate` ended, where it ran, and what it wrote to standard error.
    pub(super) end: Option<(i32, String)>,
}

/// The place of one page.
pub(super) struct Desk {
    place: Place,
    tools: tempfile::TempDir,
}

impl Desk {
    /// Makes the place of a page, with the files that it shows and others, and what programs print.
    pub(super) fn new(page: &Page, files: &[(&str, &str)], answers: &[(&str, &str)]) -> Self {
        let shown: Vec<_> = files.iter().copied().chain(page.files()).collect();
        let place = Place::with(&shown);
        let tools = tempfile::tempdir().unwrap();
        let at = |name: &str| tools.path().join(name);
        for folder in ["bin", "calls", "answers"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for (name, text) in answers {
            fs::write(at("answers").join(name), text).unwrap();
        }
        let write = |path: PathBuf, text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        // Whoever starts it may have cleared the environment.
        write(at("stub"), &STUB.replace("TOOLS", tools.path().to_str().unwrap()));
        write(at("bin/jobgate"), JOBGATE);
        for (program, _) in NOT_RUN {
            symlink(at("stub"), at("bin").join(program)).unwrap();
        }
        for program in REAL {
            let real = ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(program));
            symlink(real.into_iter().find(|path| path.exists()).unwrap(), at("bin").join(program)).unwrap();
        }
        // Where pages call the scripts of the repository, and a program that CI has installed.
        for folder in [".ci", "deploy/packages"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
            for entry in fs::read_dir(root().join(folder)).unwrap() {
                symlink(at("stub"), place.path().join(folder).join(entry.unwrap().file_name())).unwrap();
            }
        }
        for folder in [".jobgate/bin", "editors/vscode"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        symlink(at("bin/jobgate"), place.path().join(".jobgate/bin/jobgate")).unwrap();
        Self { place, tools }
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Runs a script, and returns what it wrote and what it called.
    pub(super) fn run(&self, script: &str) -> (Output, Vec<Call>) {
        let calls = self.tools.path().join("calls");
        let output = Command::new("/bin/bash")
            .args(["-c", script])
            .current_dir(self.place.path())
            .env_clear()
            .env("PATH", self.tools.path().join("bin"))
            .env("HOME", self.place.path())
            .env("CALLS", &calls)
            .env("REAL", env!("CARGO_BIN_EXE_jobgate"))
            .env("PARSED_ONLY", PARSED_ONLY.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" "))
            .env("GITHUB_STEP_SUMMARY", self.tools.path().join("summary"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&calls).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut made = Vec::new();
        let with = |path: &Path, ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
        for path in paths.iter().filter(|path| !path.to_str().unwrap().ends_with(['e', 'r'])) {
            let words = fs::read_to_string(path).unwrap();
            let words = words.split_terminator('\0').map(str::to_owned).collect();
            let end = fs::read_to_string(with(path, ".code")).ok().map(|code| {
                (code.trim().parse().unwrap(), fs::read_to_string(with(path, ".stderr")).unwrap())
            });
            made.push(Call { words, end });
        }
        for path in paths {
            fs::remove_file(path).unwrap();
        }
        (output, made)
    }
}
