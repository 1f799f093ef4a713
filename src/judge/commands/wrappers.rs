//! Programs that only start another one.

use super::{Token, base_name};
use crate::text::meter;

/// A program that starts the one behind its options.
struct Wrapper {
    name: &'static str,
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
    /// Words behind the options that are its own.
    own: usize,
    /// Whether `X=1` in front of the program sets a variable.
    assigns: bool,
}

const fn wrapper(name: &'static str, with_value: &'static [&'static str]) -> Wrapper {
    Wrapper { name, with_value, own: 0, assigns: false }
}

/// The wrappers, with what their manual pages say of options.
const WRAPPERS: [Wrapper; 17] = [
    wrapper("exec", &["-a"]),
    Wrapper { assigns: true, ..wrapper("env", &["-u", "--unset", "-C", "--chdir", "-S"]) },
    wrapper("nohup", &[]),
    wrapper("time", &["-f", "-o"]),
    Wrapper { assigns: true, ..wrapper("sudo", &["-u", "-g", "-h", "-p", "-C", "-D"]) },
    wrapper("numactl", &["-N", "-m", "-C", "-i", "-p"]),
    // `nsys profile`, with its options behind the word.
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

/// A command without its wrappers.
pub(super) struct Stripped {
    pub(super) words: Vec<Token>,
    pub(super) exec: bool,
    pub(super) timeout: bool,
}

/// Takes the wrappers off a command.
pub(super) fn strip(words: Vec<Token>) -> Stripped {
    let (mut exec, mut timeout) = (false, false);
    let mut at = 0;
    while let Some(program) = words.get(at).and_then(Token::known) {
        let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == base_name(program)) else { break };
        let (mut next, mut own) = (at + 1, wrapper.own);
        while let Some(token) = words.get(next) {
            meter::spend(1);
            let word = token.word.text.as_str();
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
    let words = if at == 0 { words } else { words.into_iter().skip(at).collect() };
    Stripped { words, exec, timeout }
}
