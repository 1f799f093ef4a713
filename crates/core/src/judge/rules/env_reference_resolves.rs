//! Each `$(X)` and `$X` in `env`, `command` and `args` is replaced by something, and by the right thing.
//!
//! ## Why
//!
//! Kubernetes replaces `$(X)` in `env`, but only by variables that come before it in the list; what a
//! controller adds, such as `JOB_COMPLETION_INDEX` or `RANK`, comes behind. In `command` and `args` it
//! replaces `$(X)` by all variables, but knows neither `$X` nor `$(date)`: those need a shell. Whatever is
//! not replaced stays as it is, without an error. The program gets the text `$(RANK)`, all pods work on the
//! same item, or a run writes to a directory with the name `$(date +%F)`, over the results of the last one.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: sweep}
//! spec:
//!   activeDeadlineSeconds: 3600
//!   completions: 8
//!   parallelism: 8
//!   completionMode: Indexed
//!   backoffLimitPerIndex: 1
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py]
//!         env: [{name: SEED, value: $(JOB_COMPLETION_INDEX)}]
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: sweep}
//! spec:
//!   activeDeadlineSeconds: 3600
//!   completions: 8
//!   parallelism: 8
//!   completionMode: Indexed
//!   backoffLimitPerIndex: 1
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         command: [python, train.py, --seed=$(JOB_COMPLETION_INDEX)]
//! ```
//!
//! ## Fix
//!
//! Safe: swaps a variable with the one that names it, and writes `$(X)` for `$X` and `${X}` in `env`, and in
//! `command` and `args` where there is no shell. Unsafe: starts the program by `sh -c` where it has a command substitution, and adds
//! `completionMode: Indexed` where a Job uses its index. For a variable that a controller adds there is none:
//! use it in `command` or `args`, or in the program.
//!
//! ## Details
//!
//! Reported are
//!
//! * `$(X)` in `env` where `X` is defined only further down, or added by the kind's controller;
//! * `$X` and `${X}` in a value of `env` where `X` is another variable of the container, or one that `mpirun` or
//!   Slurm sets for each process it starts;
//! * `PATH` and its like, if the list in `env` names itself: `$PATH:/opt/bin`. Kubernetes does not know the
//!   variables of the image, so the program gets a directory with the name `$PATH`, and none of the image's;
//! * `$((…))`, `$(date +%F)` and commands in backticks in a value of `env`;
//! * `$X` and `${X}` in `command` and `args` without a shell, where `X` is a variable of the container;
//! * `$(X)` in `command` and `args` without a shell, where the container has no `X`;
//! * `$(date +%F)`, and commands in backticks, in `command` and `args` without a shell;
//! * `JOB_COMPLETION_INDEX`, or the annotation of the index, in a Job that is not Indexed: there is none.
//!
//! `$$(X)` is a way to write `$(X)` that is meant to stay. The rule is silent where variables may come from
//! elsewhere (`envFrom`, an operator whose variables are not known), for variables of Services
//! (`X_SERVICE_HOST`), and where a program evaluates its arguments itself: scripts, `ssh`, `mpirun`, `make`,
//! interpreters with `-c` or `-e`, and images whose entrypoint may be a shell. It is also silent where a tool
//! fills in the file before Kubernetes sees it, by the look of the image or of the variable's own value. Values
//! of `env` are not looked at where they have several lines or words (commands that some shell reads later),
//! where they are `$X` and nothing else (`envsubst` fills them in) unless `X` is a variable of the container,
//! and where a script of the container has `eval` or `envsubst`; `${X}` also where the image says what runs,
//! or by the names of variables of Spring, Quarkus or Micronaut, which replace it themselves.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>
//! * <https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode>
//! * <https://github.com/kubernetes/kubernetes/issues/121523>

use std::collections::BTreeMap;

use crate::judge::commands::{CommandLine, SHELLS, base_name, is_of_service, references};
use crate::judge::finding::Safety;
use crate::judge::literal::{InValue, Literal, in_value, literal, value_with_brackets, with_brackets};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule};
use crate::judge::training::quote;
use crate::kinds::{Field, Part, PodTemplate};
use crate::text::meter;
use crate::text::patch::Op;
use crate::text::pointer::Pointer;
use crate::text::value::{Value, json};

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Reference that nothing replaces".into(),
        summary: "Each `$(X)` and `$X` in `env`, `command` and `args` is replaced by something, and by the right \
                  thing".into(),
        kinds: Kinds::WithPods,
        default: Action::Warn,
        export: Exportable::No("it reads command lines and scripts"),
        ..Rule::new("env-reference-resolves", check)
    }
}

/// The variable with the index of a pod of an Indexed Job.
const INDEX: &str = "JOB_COMPLETION_INDEX";

/// The annotation, and the label, with the index.
const INDEX_KEY: &str = "batch.kubernetes.io/job-completion-index";

/// Programs that evaluate their arguments, or whose language has `$` or backticks.
const EVALUATE: &str = "awk busybox csh deepspeed docker envsubst expect find fish gawk grep horovodrun jq \
    ksh kubectl make mariadb mawk mpiexec mpirun mysql node parallel pdsh perl php powershell psql pwsh ray \
    ruby runuser sbatch screen script sed srun ssh su tmux watch xargs";

/// Options that take code.
const CODE: [&str; 7] = ["--command", "--eval", "--execute", "--expression", "--query", "--script", "--sql"];

/// Maximum distance between two variables that are swapped.
const MAX_DISTANCE: usize = 64;

/// The longest item of `command` or `args` that is no script, in bytes.
const MAX_ITEM_BYTES: usize = 4096;

fn check(cx: &mut Cx<'_>) {
    if cx.partial {
        return;
    }
    let workload = cx.workload;
    for (index, pod) in workload.pods.iter().enumerate() {
        for line in &cx.commands(index).containers {
            in_environment(cx, line);
            without_shell(cx, line);
            completion_index(cx, pod, line);
        }
    }
}

/// Reports `$(X)` in `env` whose variable comes later, and syntax that Kubernetes does not replace at all.
fn in_environment(cx: &mut Cx<'_>, line: &CommandLine<'_>) {
    let env = line.container.part.get("env");
    let names_another = |item: &Value| {
        item.get("value").and_then(Value::as_str).is_some_and(|text| text.contains(['$', '`']))
    };
    if !env.values().iter().any(names_another) {
        return;
    }
    let has_more = !line.container.part.get("envFrom").values().is_empty();
    let items: Vec<Part<'_>> = env.items().collect();
    // The index of each variable's first definition, and the number of its definitions.
    let mut defined: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let Some(name) = name_of(item) else { continue };
        defined.entry(name).or_insert((at, 0)).1 += 1;
    }
    let is_filled_in = is_filled_in(line);
    for (at, item) in items.iter().enumerate() {
        let field = item.get("value");
        let Some(text) = field.value.and_then(Value::as_str) else { continue };
        if let Some(name) = name_of(item).filter(|_| !is_filled_in)
            && let Some(found) = in_value(line, &items, at, (name, text), &defined)
        {
            unread(cx, &field.pointer, found, value_with_brackets(text, at, &defined));
            continue;
        }
        let late = references(text).into_iter().find_map(|reference| match defined.get(reference) {
            Some((first, _)) if *first <= at => None,
            _ if line.environment.adds(reference) => Some((reference, None)),
            Some((first, _)) if !has_more && !is_of_service(reference) => Some((reference, Some(*first))),
            _ => None,
        });
        let Some((reference, later)) = late else { continue };
        let written = quote(&format!("$({reference})"));
        let Some(later) = later else {
            let message =
                format!("{written} stays as it is: the controller adds {} behind `env`", quote(reference));
            cx.report(&field.pointer, message).help(format!(
                "use {written} in `command` or `args`, where it is replaced, or read the variable in the \
                 program"
            ));
            continue;
        };
        let message = format!("{written} stays as it is: {} is defined only after it", quote(reference));
        let finding = cx.report(&field.pointer, message);
        finding.help(format!("move {} before the variables that name it", quote(reference)));
        if let Some(ops) = swapped(&items, (at, later), &defined) {
            finding.fix(Safety::Safe, ops);
        }
    }
}

/// Tells whether something replaces variables in values: a tool before Kubernetes sees the file, or the
/// container, by `eval` or `envsubst`.
fn is_filled_in(line: &CommandLine<'_>) -> bool {
    let image = line.container.part.value.and_then(|container| container.get("image")?.as_str());
    image.is_some_and(|image| image.contains('$'))
        || line.commands.iter().any(|command| ["envsubst", "eval"].contains(&command.program.as_str()))
}

/// Reports syntax that Kubernetes does not replace in the value of a variable.
fn unread(cx: &mut Cx<'_>, at: &Pointer, found: InValue<'_>, new: Option<String>) {
    let brackets = |name: &str| quote(&format!("$({name})"));
    let (message, help) = match found {
        InValue::Own(written) => (
            format!(
                "{} stays as it is: Kubernetes does not know the directories of the image",
                quote(written)
            ),
            "write the whole list, or extend it in a script with `export`, where a shell replaces it"
                .to_owned(),
        ),
        InValue::Sum(written) => (
            format!("{} stays as it is: no shell reads `env`", quote(written)),
            "write the number, or let a script or the program calculate it".to_owned(),
        ),
        InValue::Substitution(written) => (
            format!("{} stays as it is: no shell reads `env`", quote(written.trim_matches('`'))),
            "set the variable in a script that runs it, or in the program".to_owned(),
        ),
        InValue::OfLauncher(written, name) => (
            format!("{} stays as it is: the launcher sets {} only later", quote(written), quote(name)),
            format!(
                "read {} in the program, or set the variable in a script that the launcher starts",
                quote(name)
            ),
        ),
        InValue::Variable(written, name, true) => (
            format!(
                "{} stays as it is: in `env`, Kubernetes replaces {} only",
                quote(written),
                brackets(name)
            ),
            format!("write {}", brackets(name)),
        ),
        InValue::Variable(written, name, false) => (
            format!(
                "{} stays as it is: in `env`, Kubernetes replaces {} only",
                quote(written),
                brackets(name)
            ),
            format!("write {}, and only of variables that come before it in `env`", brackets(name)),
        ),
    };
    let finding = cx.report(at, message).help(help);
    if let Some(new) = new {
        finding.fix(Safety::Safe, vec![Op::Replace(at.clone(), new.into())]);
    }
}

/// Returns the operations that swap two variables; nothing if that may change another one.
fn swapped(
    items: &[Part<'_>],
    (at, later): (usize, usize),
    defined: &BTreeMap<&str, (usize, usize)>,
) -> Option<Vec<Op>> {
    let (first, last) = (&items[at], &items[later]);
    let text =
        |item: &Part<'_>, key: &'static str| item.get(key).value.and_then(Value::as_str).map(str::to_owned);
    let is_plain = |item: &Part<'_>| item.entries().count() == 2;
    let is_one = |item: &Part<'_>| {
        name_of(item).and_then(|name| defined.get(name)).is_some_and(|(_, count)| *count == 1)
    };
    if later - at > MAX_DISTANCE || ![first, last].into_iter().all(|item| is_plain(item) && is_one(item)) {
        return None;
    }
    // The later variable must not refer to those that it is moved before, and those between must not refer to
    // the earlier one.
    let names = |item: &Part<'_>, found: &dyn Fn(&str) -> bool| {
        let value = item.get("value").value.and_then(Value::as_str).unwrap_or_default();
        references(value).into_iter().any(found)
    };
    let is_between = |name: &str| defined.get(name).is_some_and(|(first, _)| (at..=later).contains(first));
    let moved = name_of(first)?;
    if names(last, &is_between) || items[at + 1..later].iter().any(|item| names(item, &|name| name == moved))
    {
        return None;
    }
    let mut ops = Vec::new();
    for (to, from) in [(first, last), (last, first)] {
        for key in ["name", "value"] {
            ops.push(Op::Replace(to.get(key).pointer, text(from, key)?.into()));
        }
    }
    Some(ops)
}

fn name_of<'a>(variable: &Part<'a>) -> Option<&'a str> {
    variable.value?.get("name")?.as_str()
}

/// Reports syntax that only a shell would replace, where there is no shell.
fn without_shell(cx: &mut Cx<'_>, line: &CommandLine<'_>) {
    let Some(command) = line.commands.first() else { return };
    let is_shell = |text: &str| SHELLS.contains(&base_name(text)) || text.ends_with(".sh");
    if !line.shells.is_empty() || line.unread || line.argv.iter().any(|item| is_shell(&item.text)) {
        return;
    }
    let of_image = line.is_of_image();
    let first = line.argv.first().map_or("", |item| &*item.text);
    // The entrypoint of an image may be `sh -c`, unless it takes options.
    let evaluates = match of_image {
        true => !first.starts_with('-'),
        false => {
            let program = command.program.as_str();
            program.is_empty()
                || program.contains("entrypoint")
                || EVALUATE.split_whitespace().any(|one| one == program)
        }
    };
    let image = line.container.part.value.and_then(|container| container.get("image")?.as_str());
    if evaluates || image.is_some_and(|image| image.contains('$')) {
        return;
    }
    let mut can_start = !of_image;
    for (at, item) in line.argv.iter().enumerate() {
        let text = item.written;
        let is_code = at > 0 && takes_code(line.argv[at - 1].written);
        if is_code || text.len() > MAX_ITEM_BYTES || text.contains('\n') || (at == 0 && !of_image) {
            continue;
        }
        let Some(literal) = literal(line, text) else { continue };
        let finding = match literal {
            Literal::Substitution(written) => {
                // A message has backticks of its own.
                let (inner, how) = match written.strip_prefix('`') {
                    Some(inner) => (inner.trim_end_matches('`'), " in backticks"),
                    None => (written, ""),
                };
                let message = format!("{}{how} is passed as it is: no shell runs here", quote(inner));
                let finding = cx.report(&item.pointer(), message);
                finding.help("start the program by a shell: `command: [sh, -c, …]`");
                // One change for all of them.
                if let Some(ops) = can_start.then(|| by_shell(line)).flatten() {
                    finding.fix(Safety::Unsafe, ops);
                }
                can_start = false;
                continue;
            }
            Literal::Variable(written, name) => {
                let message = format!(
                    "{} is passed as it is: no shell runs here, and Kubernetes replaces {} only",
                    quote(written),
                    quote(&format!("$({name})"))
                );
                (message, format!("write {}", quote(&format!("$({name})"))), Some(with_brackets(line, text)))
            }
            Literal::Unknown(name) => {
                let message = format!(
                    "{} is passed as it is: the container has no variable {}",
                    quote(&format!("$({name})")),
                    quote(name)
                );
                (message, format!("add {} to `env`, or fix its name", quote(name)), None)
            }
        };
        let (message, help, new) = finding;
        let finding = cx.report(&item.pointer(), message).help(help);
        if let Some(new) = new {
            finding.fix(Safety::Safe, vec![Op::Replace(item.pointer(), new.into())]);
        }
    }
}

/// Tells whether an option takes code: `-c`, `-lc`, `-e`, `--eval`.
fn takes_code(option: &str) -> bool {
    let is_short = option.starts_with('-') && !option.starts_with("--") && option.len() < 8;
    CODE.contains(&option) || is_short && option.ends_with(['c', 'e', 'E', 'x'])
}

/// Returns the operations that start the program by a shell.
fn by_shell(line: &CommandLine<'_>) -> Option<Vec<Op>> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-./:=,@%+".contains(char);
    let mut script = String::from("exec");
    for text in line.argv.iter().map(|item| item.written) {
        script.push(' ');
        if script.len() + text.len() > MAX_ITEM_BYTES {
            return None;
        }
        if !text.is_empty() && text.chars().all(is_plain) {
            script += text;
        } else if text.contains(['$', '`']) {
            script += &format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        } else {
            script += &format!("'{}'", text.replace('\'', "'\\''"));
        }
    }
    let container = &line.container.part;
    let (command, args) = (container.get("command"), container.get("args"));
    let mut ops = vec![Op::Replace(command.pointer, json!(["sh", "-c", script]))];
    ops.extend(args.value.is_some().then_some(Op::Remove(args.pointer)));
    Some(ops)
}

/// Reports a use of the completion index where there is none.
fn completion_index(cx: &mut Cx<'_>, pod: &PodTemplate<'_>, line: &CommandLine<'_>) {
    let workload = cx.workload;
    let Some(variables) = workload.kind.variables.filter(|_| pod.form.is_job()) else { return };
    let mode = pod.around.get("completionMode");
    let is_off = matches!(mode.text(), Field::Unset | Field::Set("NonIndexed"))
        && variables(&workload.object, pod).is_some_and(|all| !all.iter().any(|(name, _)| *name == INDEX));
    if !is_off {
        return;
    }
    let Some((at, written)) = use_of_index(line) else { return };
    let message = format!("{} is empty: only an Indexed Job numbers its pods", quote(&written));
    let finding = cx.report(&at, message);
    finding.help("write `completionMode: Indexed` and `completions`, the number of indexes");
    let mut ops = Vec::new();
    if mode.is_set() {
        ops.push(Op::Replace(mode.pointer, "Indexed".into()));
    } else {
        ops.extend(pod.around.set("completionMode", "Indexed".into()));
    }
    if pod.around.get("completions").int().is_unset() {
        // The number of indexes is up to the author.
        let Some(pods) = pod.around.get("parallelism").int().set() else { return };
        ops.extend(pod.around.set("completions", pods.into()));
    }
    finding.fix(Safety::Unsafe, ops);
}

/// Returns where a container uses its index, and how.
fn use_of_index(line: &CommandLine<'_>) -> Option<(Pointer, String)> {
    let has_own = line.environment.is_open || line.environment.get(INDEX).is_some();
    let env = line.container.part.get("env");
    for (index, item) in env.values().iter().enumerate() {
        meter::spend(1);
        let text = item.get("value").and_then(Value::as_str).unwrap_or_default();
        if !has_own && references(text).into_iter().any(|reference| reference == INDEX) {
            return Some((&env.pointer / index / "value", format!("$({INDEX})")));
        }
        let path = item.get("valueFrom").and_then(|from| from.get("fieldRef")?.get("fieldPath")?.as_str());
        if let Some(path) = path.filter(|path| path.contains(INDEX_KEY)) {
            let place = &env.pointer / index / "valueFrom" / "fieldRef" / "fieldPath";
            return Some((place, path.to_owned()));
        }
    }
    line.argv.iter().filter(|_| !has_own).find_map(|item| {
        let text = item.written;
        meter::spend_text(text);
        if !text.contains(INDEX) {
            return None;
        }
        // The script may set it itself, or ask whether it is there.
        let handles = ["=", ":", "-"].map(|behind| format!("{INDEX}{behind}"));
        let asks = ["-z \"$", "-z \"${", "-n \"$", "-n \"${"].map(|before| format!("{before}{INDEX}"));
        let has = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
        let handled = handles.iter().chain(&asks).any(|part| has(part));
        let written = [format!("$({INDEX})"), format!("${{{INDEX}}}"), format!("${INDEX}")];
        let written = written.into_iter().find(|written| !handled && has(written))?;
        // `\$X` and `$$(X)` stay on purpose.
        let escaped = has(&format!("\\{written}")) || has(&format!("${written}"));
        (!escaped).then(|| (item.pointer(), written))
    })
}
