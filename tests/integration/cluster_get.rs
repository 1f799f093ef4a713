//! `tests/cluster/get`, with a Go that only pretends: what is made is whole, whoever else makes it or ends it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A folder with `get`, one component of two programs, and a Go that takes its time.
struct Place(TempDir);

/// Writes what it is asked to build, and a line for each; the second program waits until it may end.
const GO: &str = r#"#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in *list*) echo "$MODULE"; exit ;; esac
out=
while [ $# -gt 1 ]; do [ "$1" != -o ] || out=$2; shift; done
case "$1" in
  *refused) echo "go: example.com/gone@v1.2.3: reading it: 403 Forbidden" >&2; exit 1 ;;
  *second) while [ -n "$WAIT" ] && [ ! -e "$WAIT" ]; do sleep 0.02; done ;;
esac
echo "$1" > "$out"
"#;

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        let get = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/get");
        write("cluster/get", &fs::read_to_string(get).unwrap());
        for (component, programs) in [
            ("pair", "program first example.com/first\nprogram second example.com/second\nmanifests crds\n"),
            ("broken", "program first example.com/first\nprogram other example.com/refused\n"),
        ] {
            write(
                &format!("cluster/components/{component}/component"),
                &format!(
                    "# Data.\nmodule example.com/{component}\n{programs}version example.com/v.version\n"
                ),
            );
            write(
                &format!("cluster/components/{component}/releases"),
                "# Releases.\n1.2 v1.2.3 2026-11-24\n1.1 v1.1.9 2026-11-24\n",
            );
            for release in ["1.2", "1.1"] {
                write(&format!("cluster/components/{component}/{release}/go.mod"), "go 1.26.0\n");
                write(&format!("cluster/components/{component}/{release}/go.sum"), release);
            }
        }
        write("module/crds/a.yaml", "kind: A\n");
        write("bin/go", GO);
        for program in ["bin/go", "cluster/get"] {
            fs::set_permissions(at(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, what: &str) -> Command {
        let mut paths = vec![self.at("bin")];
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = Command::new(self.at("cluster/get"));
        command
            .arg(what)
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("JOBGATE_CLUSTER_CACHE", self.at("cache"))
            .env("CALLS", self.at("calls"))
            .env("MODULE", self.at("module"))
            .env("WAIT", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn get(&self, what: &str) -> Output {
        self.command(what).output().unwrap()
    }

    /// Starts a build that waits in its second program until `go` is there.
    fn start(&self, what: &str) -> Child {
        let child = self.command(what).env("WAIT", self.at("go")).spawn().unwrap();
        let began = Instant::now();
        while !self.calls().contains("second") {
            assert!(began.elapsed() < Duration::from_secs(30), "the build did not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.at("calls")).unwrap_or_default()
    }

    /// Returns the folders of the cache.
    fn folders(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.at("cache"))
            .map(|entries| entries.map(|entry| entry.unwrap()).collect::<Vec<_>>())
            .unwrap_or_default()
            .into_iter()
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn folder(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end())
}

fn is_whole(folder: &Path) {
    for (name, text) in [
        ("first", "example.com/first\n"),
        ("second", "example.com/second\n"),
        ("manifests/a.yaml", "kind: A\n"),
    ] {
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), text);
    }
}

#[test]
fn a_component_is_made_once() {
    let place = Place::new();
    let made = folder(&place.get("pair@1.2"));
    is_whole(&made);
    let calls = place.calls();
    assert!(calls.contains("-X example.com/v.version=v1.2.3"), "{calls}");
    // The newest is the one that is meant where none is named.
    assert_eq!(folder(&place.get("pair")), made);
    assert_eq!(place.calls(), calls, "it is there already");
    assert_ne!(folder(&place.get("pair@1.1")), made);
}

#[test]
fn what_decides_how_it_is_built_makes_another() {
    let place = Place::new();
    let made = folder(&place.get("pair"));
    fs::write(place.at("cluster/components/pair/1.2/go.sum"), "other").unwrap();
    assert_ne!(folder(&place.get("pair")), made);
}

#[test]
fn of_two_at_once_one_builds_and_the_other_waits() {
    let place = Place::new();
    let first = place.start("pair");
    let second = place.command("pair").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    fs::write(place.at("go"), "").unwrap();
    let folders = [first, second].map(|child| folder(&child.wait_with_output().unwrap()));
    assert_eq!(folders[0], folders[1]);
    is_whole(&folders[0]);
    assert_eq!(place.calls().matches("example.com/first").count(), 1);
}

#[test]
fn an_interrupted_build_leaves_nothing_half_made() {
    let place = Place::new();
    let mut child = place.start("pair");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.folders().iter().all(|name| name.contains(".building.")), "{:?}", place.folders());
    fs::write(place.at("go"), "").unwrap();
    is_whole(&folder(&place.get("pair")));
    assert_eq!(place.folders().len(), 1, "{:?}", place.folders());
}

#[test]
fn what_is_refused_is_said() {
    let place = Place::new();
    let output = place.get("broken");
    assert!(!output.status.success() && output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the module proxy refuses example.com/gone@v1.2.3\n"), "{said}");
    assert_eq!(place.folders(), [""; 0]);
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    let place = Place::new();
    for (what, said) in [
        ("pear", "no component pear; there are broken pair"),
        ("pair@1.9", "no release 1.9 of pair; there are 1.2 1.1"),
        ("--help", "usage: tests/cluster/get COMPONENT[@RELEASE] | --list"),
    ] {
        let output = place.get(what);
        assert!(!output.status.success() && output.stdout.is_empty());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn without_go_it_says_what_to_install() {
    let place = Place::new();
    fs::remove_file(place.at("bin/go")).unwrap();
    // A machine's own programs, but for Go.
    for program in ["bash", "grep", "sed", "cut", "tr", "cat", "sha256sum", "dirname", "basename", "flock"] {
        let paths = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&paths).map(|path| path.join(program)).find(|path| path.is_file());
        std::os::unix::fs::symlink(found.expect(program), place.at("bin").join(program)).unwrap();
    }
    let output = place.command("pair").env("PATH", place.at("bin")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("install Go 1.26.0 or later"), "{said}");
}
