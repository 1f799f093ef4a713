//! Real editors, where they are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::place::Place;

/// The manifest of the page: one problem without a safe fix, and two with one.
const MANIFEST: &str = include_str!("../../../editors/job.yaml");
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

/// Opens the manifest with the configuration of the page, goes to the claim, and applies all safe fixes.
const EMACS: &str = r#"
(package-initialize)
(unless (require 'eglot nil t) (princ "no Eglot\n") (kill-emacs 0))
(unless (require 'yaml-mode nil t) (princ "no yaml-mode\n") (kill-emacs 0))
(load (expand-file-name "page.el") nil t)
(defun wait (ready)
  (let ((left 600))
    (while (and (> left 0) (not (funcall ready))) (accept-process-output nil 0.1) (setq left (1- left)))
    (or (funcall ready) (error "it takes too long"))))
(find-file "job.yaml")
(run-hooks 'post-command-hook)
(wait #'eglot-current-server)
(wait (lambda () (flymake-start) (flymake-diagnostics)))
(dolist (found (sort (flymake-diagnostics) (lambda (a b) (< (flymake-diagnostic-beg a) (flymake-diagnostic-beg b)))))
  (princ (format "%d %s\n" (line-number-at-pos (flymake-diagnostic-beg found)) (flymake-diagnostic-type found))))
(search-forward "claimName: da")
(let ((file nil))
  (wait (lambda ()
          (condition-case nil (xref-find-definitions (xref-backend-identifier-at-point (xref-find-backend))) (user-error nil))
          (setq file (buffer-name))
          (not (equal file "job.yaml"))))
  (princ (format "%s:%d\n" file (line-number-at-pos))))
(switch-to-buffer "job.yaml")
(setq last-nonmenu-event ?a)
(cl-letf (((symbol-function 'completing-read)
           (lambda (_prompt titles &rest _)
             (seq-find (lambda (title) (string-match-p "Apply all" title)) (all-completions "" titles)))))
  (eglot-code-actions (point-min) (point-max) nil t))
(wait #'buffer-modified-p)
(write-region nil nil "fixed.yaml")
(set-buffer-modified-p nil)
"#;

#[test]
fn emacs_with_the_configuration_of_the_page_shows_problems_and_fixes_them() {
    let Some(emacs) = program("emacs") else {
        println!("skipped: Emacs is not installed");
        return;
    };
    let page = fs::read_to_string(root().join("docs/editors.md")).unwrap();
    let configuration = page.split("```elisp\n").nth(1).unwrap().split("```").next().unwrap();
    let manifest = format!(
        "{MANIFEST}      volumes:\n        - name: data\n          persistentVolumeClaim:\n            claimName: data\n"
    );
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  accessModes: [ReadWriteOnce]\n";
    let place = Place::with(&[
        ("job.yaml", &manifest),
        ("claim.yaml", claim),
        ("all/job.yaml", &manifest),
        ("page.el", configuration),
        ("session.el", EMACS),
    ]);
    // Eglot looks for the project in what is under version control, and for the server in the PATH.
    Command::new("git").args(["init", "-q"]).current_dir(place.path()).status().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_jobgate")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(binary).chain(std::env::split_paths(&path))).unwrap();
    let output = Command::new(emacs)
        .args(["--batch", "-l", "session.el"])
        .current_dir(place.path())
        .env("PATH", path)
        .env("HOME", place.path().join("all"))
        .env_remove("JOBGATE_CONFIG")
        .output()
        .unwrap();
    let session = String::from_utf8(output.stdout).unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{session}{log}");
    if session.starts_with("no ") {
        println!("skipped: Emacs has {session}");
        return;
    }
    let lines: Vec<&str> = session.lines().collect();
    let [problems @ .., at] = lines.as_slice() else { panic!("{session}{log}") };
    let mut problems = problems.to_vec();
    problems.sort_unstable();
    assert_eq!(problems, ["15 eglot-note", "5 eglot-error", "5 eglot-note"]);
    assert_eq!(*at, "claim.yaml:4");
    place.run(&["lint", "--fix", "all"]);
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert_ne!(read("all/job.yaml"), manifest);
    assert_eq!(read("fixed.yaml"), read("all/job.yaml"));
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
