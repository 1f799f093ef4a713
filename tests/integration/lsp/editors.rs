//! Real editors, where they are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::place::Place;

/// The manifest of the page: one problem without a safe fix, and two with one.
const MANIFEST: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: trainer  # 🚀 the nightly run
          image: registry.example.com/trainer:v1
          resources:
            limits:
              nvidia.com/gpu: 8
";
/// What is before the session in the page.
const BEGIN: &str = "<!-- session -->\n\n```text\n";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a program of the PATH.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

#[test]
fn neovim_shows_problems_and_its_fixes_are_those_of_the_linter() {
    let Some(nvim) = program("nvim") else {
        println!("skipped: Neovim is not installed");
        return;
    };
    let place = Place::with(&[("job.yaml", MANIFEST), ("one.yaml", MANIFEST), ("all.yaml", MANIFEST)]);
    let output = Command::new(nvim)
        .args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "job.yaml", "-S"])
        .arg(root().join("editors/neovim/session.lua"))
        .current_dir(place.path())
        .env("JOBGATE", env!("CARGO_BIN_EXE_jobgate"))
        .env_remove("JOBGATE_CONFIG")
        // What it keeps of its own must not be that of whoever runs the test.
        .env("XDG_STATE_HOME", place.path().join("state"))
        .env("XDG_CACHE_HOME", place.path().join("state"))
        .output()
        .unwrap();
    let session = String::from_utf8(output.stdout).unwrap().replace('\r', "");
    assert!(output.status.success(), "{session}{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    place.run(&["lint", "--fix", "--select", "gpu-toleration", "one.yaml"]);
    place.run(&["lint", "--fix", "all.yaml"]);
    assert!(read("one.yaml") != MANIFEST && read("all.yaml") != read("one.yaml"));
    assert_eq!(read("job.yaml.one"), read("one.yaml"), "one fix");
    assert_eq!(read("job.yaml"), read("all.yaml"), "all safe fixes");
    // docs/editors.md has this transcript.
    let page = root().join("docs/editors.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once("```").unwrap();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, format!("{before}{BEGIN}{session}```{after}")).unwrap();
    } else {
        assert_eq!(shown, session);
    }
}

#[test]
fn the_extension_names_what_the_server_knows() {
    let read = |name: &str| fs::read_to_string(root().join("editors/vscode").join(name)).unwrap();
    let package: serde_json::Value = serde_json::from_str(&read("package.json")).unwrap();
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"), "they are released together");
    let settings = package["contributes"]["configuration"]["properties"].as_object().unwrap();
    let (readme, source) = (read("README.md"), read("src/extension.js"));
    for name in settings.keys() {
        assert!(readme.contains(&format!("| `{name}` |")), "{name}");
        let own = name.strip_prefix("jobgate.").unwrap();
        // The client itself reads how it is traced.
        assert!(own.starts_with("trace.") || source.contains(&format!("settings.get(\"{own}\"")), "{name}");
    }
    assert_eq!(read("LICENSE"), fs::read_to_string(root().join("LICENSE")).unwrap());
    assert!(
        !read("package-lock.json").contains("\"resolved\""),
        "a lock file without the address of a registry"
    );
}
