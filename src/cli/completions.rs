//! `jobgate completions`: a shell completion script.

use std::io::{self, Write};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::args::{Cli, page_ids};
use crate::policies::BUILTINS;

/// Writes the completion script of a shell.
///
/// # Errors
/// `out` cannot be written.
pub fn run(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    // The generator panics if a write fails, as into a closed pipe, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "jobgate", &mut script);
    let script = with_files(shell, &String::from_utf8_lossy(&script));
    out.write_all(script.as_bytes())
}

/// Also offers files where a policy is a file or a name: the generator offers either names or files. Bash offers files
/// by itself if no name fits.
fn with_files(shell: Shell, script: &str) -> String {
    let names = format!("({})", BUILTINS.map(|builtin| builtin.name).join(" "));
    let either = format!(r#":_alternative "policies\:built-in policy\:{names}" "files\:file\:_files"'"#);
    let line = |line: &str| match shell {
        Shell::Zsh if line.contains("a file, or one of") => line.replace(&format!(":{names}'"), &either),
        Shell::Fish if line.contains("-l policy ") => line.replace(" -r -f -a ", " -r -F -a "),
        _ => line.to_owned(),
    };
    let mut script: String = script.lines().map(|text| line(text) + "\n").collect();
    if shell == Shell::Fish {
        // Its generator offers nothing for arguments without an option.
        let pages: Vec<&str> = page_ids().collect();
        let pages = pages.join(" ");
        script += &format!(
            "complete -c jobgate -n \"__fish_jobgate_using_subcommand explain\" -f -a \"{pages}\"\n"
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::judge::rules::RuleSet;
    use crate::judge::selection;
    use crate::report::Format;

    #[test]
    fn names_are_offered_and_files_for_policies() {
        let script = |shell: Shell| {
            let mut out = Vec::new();
            run(shell, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let ids: Vec<_> = selection::ids(&RuleSet::built_in()).collect();
        let bash = script(Shell::Bash);
        assert!(bash.contains(&format!("compgen -W \"{}\"", ids.join(" "))), "--select, --ignore");
        let formats: Vec<&str> = Format::ALL.iter().map(|format| format.describe().0).collect();
        assert!(bash.contains(&format!("compgen -W \"{}\"", formats.join(" "))));
        assert!(bash.contains("compgen -W \"default audit accelerators strict\""));
        assert!(bash.contains("-o bashdefault -o default"), "bash offers files if no name fits");
        let zsh = script(Shell::Zsh);
        let either = ":_alternative \"policies\\:built-in policy\\:(default audit accelerators strict)\" \"files\\:file\\:_files\"'";
        let policies = if cfg!(feature = "serve") { 8 } else { 7 };
        assert_eq!(
            zsh.matches(either).count(),
            policies,
            "lint, lsp, dry-run, audit, review, simulate, policy test and export"
        );
        assert_eq!(
            zsh.matches(":(default audit accelerators strict)'").count(),
            1,
            "policy show has no files"
        );
        let fish = script(Shell::Fish);
        let policies: Vec<&str> = fish.lines().filter(|line| line.contains("-l policy ")).collect();
        assert!(policies.len() >= 3, "{policies:?}");
        assert!(policies.iter().all(|line| !line.contains(" -f ")), "{policies:?}");
        for page in [&*ids[0], "torchrun"] {
            assert!(zsh.contains(page) && fish.contains(page) && bash.contains(page), "{page}");
        }
    }

    #[test]
    fn every_shell_learns_of_every_command() {
        for shell in Shell::value_variants() {
            let mut out = Vec::new();
            run(*shell, &mut out).unwrap();
            let script = String::from_utf8(out).unwrap();
            for word in ["lint", "completions", "fail-on"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
