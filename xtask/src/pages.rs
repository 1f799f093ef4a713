//! The pages of `docs/` that are made from the code: rules, kinds, and the checks of the doctor.

use std::fmt::Write as _;

use jobgate::cli::pages::rule_in_markdown;
use jobgate::judge::checks::CHECKS;
use jobgate::judge::finding::listed;
use jobgate::judge::rule::Rule;
use jobgate::judge::rules::RuleSet;
use jobgate::kinds::{Deadline, Kind, Pods, Restart, Ttl, Unset};
use jobgate::serve::doctor;

/// The hand-written part of the doctor's page.
const DOCTOR: &str = include_str!("doctor.md");

/// Returns a rule's page as a Markdown file.
pub(crate) fn rule_file(rule: &Rule) -> String {
    let source = format!("crates/core/src/judge/rules/{}.rs", rule.file());
    format!(
        "<!-- Made by `cargo xtask generate` from {source}. Edit that. -->\n\n# {}\n\n{}",
        rule.id,
        rule_in_markdown(rule)
    )
}

/// Returns the index of the rules' pages, with the checks' pages, as a Markdown file.
pub(crate) fn index_file() -> String {
    let mut out = "<!-- Made by `cargo xtask generate` from crates/core/src/judge/rules and crates/core/src/judge/checks.rs. Edit those. -->\n\n# Rules\n\n\
                   What is done about a finding is the action; a policy may choose another.\n\n\
                   | Rule | Action | Kinds | What must hold |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for rule in &RuleSet::built_in() {
        let mut kinds: Vec<&str> = rule.kinds.iter().map(Kind::title).collect();
        kinds.dedup();
        let _ = writeln!(
            out,
            "| [{id}]({id}.md) | {} | {} | {} |",
            rule.default.as_str(),
            kinds.join(", "),
            rule.summary,
            id = rule.id
        );
    }
    out.push_str("\n# Checks\n\nFindings about the input itself. A policy cannot set them.\n");
    for check in CHECKS {
        let _ = write!(out, "\n## {}\n\n{}. {}\n", check.id, check.summary, check.page);
    }
    out
}

/// Returns the page of the kinds, as a Markdown file, from their definitions.
pub(crate) fn kinds_file() -> String {
    let mut out =
        "<!-- Made by `cargo xtask generate` from crates/core/src/kinds. Edit that. -->\n\n# Kinds\n\n\
                   What Jobgate judges, and what each field means there. `*` is any role or item. Nothing is \
                   filled in on UPDATE, but for a CronJob, whose next run it changes.\n"
            .to_owned();
    for kind in Kind::all() {
        let _ = write!(out, "\n## {} ({})\n\n", kind.title(), kind.api_version());
        for line in about(kind) {
            let _ = writeln!(out, "* {line}");
        }
    }
    out
}

fn about(kind: Kind) -> Vec<String> {
    let path = |path: &[&str]| path.join(".");
    let mut lines = Vec::new();
    if kind.untested {
        lines.push("Only its vendor can run it: every finding is a warning, nothing is filled in, and no webhook is called for it.".to_owned());
    }
    if let Some(inside) = kind.components {
        lines.push(format!(
            "Judged is what is inside, in `{}`. Nothing is filled in there: an apply of the manifest would be rejected.",
            path(inside)
        ));
        let unjudged = "`jobgate lint` names what is inside and is not judged: batch work of other kinds, and \
                        partial objects.";
        lines.push(unjudged.to_owned());
    }
    let pods: Vec<String> = kind.pods.iter().map(template).collect();
    if !pods.is_empty() {
        lines.push(format!("Pod templates: {}.", pods.join(", ")));
    }
    about_the_end(kind, &mut lines);
    if kind.has_jobs() {
        lines.push("`podReplacementPolicy: Failed` is filled into its Job specs.".to_owned());
        if let Some(choice) = kind.replaces_in_place {
            let field = path(choice.at);
            lines.push(format!("With `{field}: {}`, the operator accepts no other value.", choice.word));
        }
    }
    about_restarts(kind, &mut lines);
    if let Some(path) = kind.scale {
        lines.push(format!(
            "`kubectl scale`, or whatever else uses the subresource `scale`, writes `{}`, and Jobgate is not \
             asked ([threat model](threats.md#what-passes-it-by)).",
            path.join(".")
        ));
    }
    if !kind.makers.is_empty() {
        let children: Vec<&str> = kind.children.iter().map(|child| child.name).collect();
        let makers: Vec<String> = kind.makers.iter().map(|maker| format!("`{maker}`")).collect();
        lines.push(format!(
            "{} that {} makes for one that exists are not judged again.",
            listed_plural(&children),
            makers.join(" or ")
        ));
    }
    lines
}

/// Describes what ends a run, and what happens to its pods and to the object.
fn about_the_end(kind: Kind, lines: &mut Vec<String>) {
    let path = |path: &[&str]| path.join(".");
    let limits = path(kind.limits);
    let deadline = path(&[kind.limits, kind.deadline_at].concat());
    let ttl = path(&[kind.limits, kind.ttl_at].concat());
    lines.extend(match kind.deadline {
        Deadline::Ends => Some(format!("`{deadline}` ends a run and deletes its pods.")),
        Deadline::Marks => Some(format!(
            "`{deadline}` marks a run as failed. Its pods are deleted only if they are released (below)."
        )),
        Deadline::EndsEachJob { .. } => Some(
            "No field ends the whole: `activeDeadlineSeconds` ends one Job. A missing one is a warning, for the \
             Jobs that hold accelerators if some do."
                .to_owned(),
        ),
        Deadline::Missing => {
            Some("There is no deadline: a job whose pods have none of their own gets a warning.".to_owned())
        }
        Deadline::OfOthers { run_by } => run_by.map(|kind| {
            format!("`activeDeadlineSeconds` of a Job limits each attempt of that, and not the {kind}: a warning.")
        }),
    });
    if let Some(wait) = kind.wait {
        lines.push(format!(
            "With `{}: {}`, the deadline does not limit the wait for {}.",
            path(wait.choice.at),
            wait.choice.word,
            wait.until
        ));
    }
    if let Some(release) = kind.release {
        lines.push(format!(
            "Without `{limits}.{}: {}`, {} run on when the job has ended, and hold their accelerators. It is filled in where the pods ask for accelerators.",
            release.field,
            release.value().as_str().unwrap_or("true"),
            release.left
        ));
    }
    if let Some(leak) = kind.leak {
        lines.push(format!(
            "Where the pods ask for accelerators, a warning if some run on after a failure, and nothing in `{}` stops \
             them.",
            path(leak.at)
        ));
    }
    if let Some(borrowed) = kind.borrowed {
        lines.push(format!(
            "With `{}`, the deadline stops no work: it runs on in {}. A warning.",
            path(borrowed.at),
            borrowed.place
        ));
    }
    if let Some(in_place) = kind.in_place {
        lines.push(format!(
            "With `restartPolicy: OnFailure` in a template, nothing bounds restarts but what is in `{}`: a warning \
             without it where accelerators wait.",
            path(in_place.at)
        ));
    }
    match (kind.ttl, kind.history) {
        (Ttl::Deletes { .. }, Some(history)) => lines.push(format!(
            "`{ttl}` is filled in: without it, finished runs are kept up to the history \
             limits (by default {} successful, {} failed).",
            history.successful, history.failed
        )),
        (Ttl::Deletes { deletes_pods, .. }, None) => {
            let what =
                if deletes_pods { "a finished run and its pods are" } else { "its finished launcher is" };
            lines.push(format!("`{ttl}` is filled in: without it, {what} never deleted."));
        }
        (Ttl::RunsAgain, _) => {
            let name = kind.ttl_name();
            lines.push(format!(
                "`{name}` deletes finished work, which is then created and run again: a warning."
            ));
        }
        (Ttl::None, _) => {}
    }
    if kind.ttl_of_zero_runs_again {
        lines.push("A TTL of 0 may make the launcher run again: a warning.".to_owned());
    }
    if matches!(kind.ttl, Ttl::Deletes { jobs_run_again: true, .. }) {
        lines.push("A Job that its own TTL deletes is created and run again: a warning.".to_owned());
    }
}

/// Describes what happens when a pod ends.
fn about_restarts(kind: Kind, lines: &mut Vec<String>) {
    for pods in kind.pods {
        let template = template(pods);
        lines.extend(match pods.restart {
            Restart::OfTemplate { unset: Unset::Always, always, .. } => Some(format!(
                "{template} needs a `restartPolicy`: by default finished pods run again, {always}."
            )),
            Restart::OfTemplate { unset: Unset::Is(word), .. } => {
                Some(format!("The operator writes `restartPolicy: {word}` into {template} if it has none."))
            }
            Restart::Beside { .. } => {
                Some(format!("`restartPolicy` is beside the template: that in {template} has no effect."))
            }
            Restart::Free => None,
        });
        if pods.is_in_list() {
            lines.push(format!(
                "{template} is in a list, which an apply replaces as a whole: nothing is filled in there where the \
                 object will be applied again."
            ));
        }
    }
}

/// Returns the path of a pod template.
fn template(pods: &Pods) -> String {
    format!("`{}`", [pods.at, pods.template.at].concat().join("."))
}

fn listed_plural(names: &[&str]) -> String {
    listed(&names.iter().map(|name| format!("{name}s")).collect::<Vec<_>>(), "and")
}

/// Returns the page of the doctor: the hand-written part, and the checks.
pub(crate) fn doctor_file() -> String {
    let mut out = format!(
        "<!-- Made by `cargo xtask generate` from xtask/src/doctor.md and crates/serve/src/doctor/checks.rs. Edit those. -->\n\n{DOCTOR}\n## The checks\n"
    );
    for check in doctor::CHECKS {
        let remedy = as_code(&check.usual_remedy());
        let _ = write!(out, "\n### {}\n\n{}. {}.\n\n*Help:* {remedy}.\n", check.id, check.title, check.about);
    }
    out
}

/// Formats the command of a remedy, after the colon, as code.
fn as_code(remedy: &str) -> String {
    match remedy.split_once(": ") {
        Some((words, command)) => format!("{words}: `{command}`"),
        None => remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_what_is_data() {
        for rule in &RuleSet::built_in() {
            let page = rule_file(rule);
            assert!(page.contains(&*rule.id));
            for param in rule.params {
                assert!(page.contains(&format!("`{}`", param.name)), "{}: {}", rule.id, param.name);
            }
        }
    }

    #[test]
    fn the_index_leads_to_every_page() {
        let index = index_file();
        assert!(RuleSet::built_in().iter().all(|rule| index.contains(&format!("({}.md)", rule.id))));
        assert!(CHECKS.iter().all(|check| index.contains(&format!("\n## {}\n", check.id))));
    }

    #[test]
    fn the_page_of_the_doctor_has_every_check() {
        let page = doctor_file();
        assert!(doctor::CHECKS.iter().all(|check| page.contains(&format!("\n### {}\n", check.id))));
    }
}
