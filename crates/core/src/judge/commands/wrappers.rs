//! Programs that only start another one.

use super::base_name;
use crate::text::meter;
use crate::text::shell::{Piece, Word};

/// A program that starts the one behind its options.
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
    /// The number of its own words after the options.
    own: usize,
    /// Whether `X=1` in front of the program sets a variable.
    assigns: bool,
}

const fn wrapper(name: &'static str, with_value: &'static [&'static str]) -> Wrapper {
    Wrapper { name, with_value, own: 0, assigns: false }
}

/// The wrappers, with the options from their manual pages.
const WRAPPERS: [Wrapper; 17] = [
    wrapper("exec", &["-a"]),
    Wrapper { assigns: true, ..wrapper("env", &["-u", "--unset", "-C", "--chdir", "-S"]) },
    wrapper("nohup", &[]),
    wrapper("time", &["-f", "-o"]),
    Wrapper { assigns: true, ..wrapper("sudo", &["-u", "-g", "-h", "-p", "-C", "-D"]) },
    wrapper("numactl", &["-N", "-m", "-C", "-i", "-p"]),
    // `nsys profile`, whose options follow the word.
    Wrapper { own: 1, ..wrapper("nsys", &["-o", "-t", "-s", "-c", "-y", "-d", "-f", "-x", "-w"]) },
    wrapper("stdbuf", &["-i", "-o", "-e"]),
    Wrapper { own: 1, ..wrapper("timeout", &["-k", "-s", "--signal", "--kill-after"]) },
    wrapper("tini", &["-p", "-e"]),
    wrapper("dumb-init", &["-r"]),
    wrapper("nice", &["-n"]),
    wrapper("ionice", &["-c", "-n"]),
    wrapper("setsid", &[]),
    wrapper("command", &[]),
    wrapper("chrt", &["-T", "-P", "-D"]),
    wrapper("unbuffer", &[]),
];

/// A program that starts another one in an environment of its own.
struct Runner {
    name: &'static str,
    /// The subcommand that does so; empty if it does nothing else.
    word: &'static str,
    /// Options whose value is the next word, or behind `=`.
    with_value: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
}

/// The runners, with the options from their documentation. A command with another option is left alone: the next
/// word may be its value.
const RUNNERS: [Runner; 6] = [
    Runner {
        name: "uv",
        word: "run",
        with_value: &[
            "--extra",
            "--no-extra",
            "--group",
            "--no-group",
            "--only-group",
            "--package",
            "--env-file",
            "--with",
            "--with-editable",
            "--with-requirements",
            "--python",
            "-p",
            "--index",
            "--default-index",
            "--directory",
            "--project",
            "--config-file",
            "--cache-dir",
            "--color",
            "--link-mode",
        ],
        flags: &[
            "--all-extras",
            "--all-groups",
            "--all-packages",
            "--dev",
            "--no-dev",
            "--only-dev",
            "--no-default-groups",
            "--no-editable",
            "--exact",
            "--inexact",
            "--no-env-file",
            "--isolated",
            "--active",
            "--no-sync",
            "--locked",
            "--frozen",
            "--no-project",
            "--offline",
            "--no-cache",
            "--no-config",
            "--no-progress",
            "--quiet",
            "-q",
            "--verbose",
            "-v",
        ],
    },
    Runner {
        name: "poetry",
        word: "run",
        with_value: &["--directory", "-C", "--project", "-P"],
        flags: &["--quiet", "-q", "--no-interaction", "-n", "--no-plugins", "--no-cache", "--verbose", "-v"],
    },
    Runner {
        name: "pixi",
        word: "run",
        with_value: &["--environment", "-e", "--manifest-path", "--color"],
        flags: &[
            "--executable",
            "-x",
            "--clean-env",
            "--skip-deps",
            "--frozen",
            "--locked",
            "--no-install",
            "--no-lockfile-update",
            "--no-progress",
            "--quiet",
            "-q",
            "--verbose",
            "-v",
        ],
    },
    Runner {
        name: "conda",
        word: "run",
        with_value: &["--name", "-n", "--prefix", "-p", "--cwd"],
        flags: &[
            "--no-capture-output",
            "--live-stream",
            "-s",
            "--debug-wrapper-scripts",
            "--dev",
            "--verbose",
            "-v",
        ],
    },
    Runner {
        name: "micromamba",
        word: "run",
        with_value: &["--name", "-n", "--prefix", "-p", "--root-prefix", "-r", "--cwd"],
        flags: &["--clean-env"],
    },
    Runner {
        name: "xvfb-run",
        word: "",
        with_value: &[
            "--error-file",
            "-e",
            "--auth-file",
            "-f",
            "--server-num",
            "-n",
            "--xauth-protocol",
            "-p",
            "--server-args",
            "-s",
            "--wait",
            "-w",
        ],
        flags: &["--auto-servernum", "-a", "--listen-tcp", "-l"],
    },
];

impl Runner {
    /// Returns the index of the program that it starts, if that is known.
    fn started(&self, words: &[Word<Piece<'_>>], runner: usize) -> Option<usize> {
        let (mut at, mut runs) = (runner + 1, self.word.is_empty());
        loop {
            meter::spend(1);
            let word = words.get(at).and_then(Word::known)?;
            at += 1;
            let (name, inline) = word.split_once('=').map_or((word, false), |(name, _)| (name, true));
            if word == "--" && runs {
                return Some(at);
            }
            if !word.starts_with('-') {
                if runs {
                    return Some(at - 1);
                }
                runs = word == self.word;
                if !runs {
                    return None;
                }
            } else if self.with_value.contains(&name) {
                at += usize::from(!inline);
            } else if !self.flags.contains(&word) {
                return None;
            }
        }
    }
}

/// The result of stripping the wrappers of a command.
pub(super) struct Stripped {
    /// The index of the program after them.
    pub(super) from: usize,
    pub(super) exec: bool,
    pub(super) timeout: bool,
}

/// Finds the wrappers of a command.
pub(super) fn strip(words: &[Word<Piece<'_>>]) -> Stripped {
    let (mut exec, mut timeout) = (false, false);
    let mut at = 0;
    while let Some(program) = words.get(at).and_then(Word::known).map(base_name) {
        if let Some(runner) = RUNNERS.iter().find(|runner| runner.name == program) {
            match runner.started(words, at).filter(|started| *started < words.len()) {
                Some(started) => at = started,
                None => break,
            }
            continue;
        }
        let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == program) else { break };
        let (mut next, mut own) = (at + 1, wrapper.own);
        while let Some(word) = words.get(next) {
            meter::spend(1);
            let word = word.text.as_ref();
            if word == "--" {
                next += 1;
                break;
            }
            if word.len() > 1 && word.starts_with('-') {
                next += usize::from(wrapper.with_value.contains(&word));
            } else if !(wrapper.assigns && word.contains('=')) {
                if own == 0 {
                    break;
                }
                own -= 1;
            }
            next += 1;
        }
        exec |= wrapper.name == "exec";
        timeout |= wrapper.name == "timeout";
        if next >= words.len() {
            break;
        }
        at = next;
    }
    Stripped { from: at, exec, timeout }
}
