//! Words in names: `ckpt` is one of `team-ckpt2`.

use crate::text::meter;

/// Prefixes and suffixes that a word may have in a part of a name.
const BEFORE: [&str; 7] = ["train", "training", "run", "exp", "job", "eval", "my"];

const AFTER: [&str; 8] = ["dir", "path", "root", "folder", "vol", "volume", "pvc", "claim"];

/// Words in names that mean that something holds checkpoints, where a policy has no others
/// (docs/internals/manifests.md#names-of-checkpoints).
pub(super) const OF_CHECKPOINTS: &[&str] = &[
    "artifact",
    "checkpoint",
    "checkpointing",
    "ckpt",
    "experiment",
    "log",
    "mlflow",
    "mlruns",
    "model",
    "output",
    "result",
    "runs",
    "save",
    "tensorboard",
    "wandb",
    "weight",
];

/// Bytes of a name that are searched: no path on Linux is longer, and names of claims and volumes are shorter.
const MAX_NAME_BYTES: usize = 4096;

/// Tells whether the name of a claim or volume has one of the usual words: such claims are worth looking up first.
pub(crate) fn is_named_like_checkpoints(name: &str) -> bool {
    has_word(name, OF_CHECKPOINTS)
}

/// Tells whether a name contains one of the words; the manual page describes how.
pub(super) fn has_word(name: &str, words: &[&str]) -> bool {
    let end = (0..=MAX_NAME_BYTES.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    let name = &name[..end.unwrap_or_default()];
    meter::spend_text(name);
    let words: Vec<&str> = words
        .iter()
        .map(|word| word.trim_matches(|char: char| !char.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .collect();
    let parts = name_parts(name);
    meter::spend(parts.len() as u64);
    let is_one = |text: &str| words.iter().any(|word| is_word(text, word));
    (0..parts.len()).any(|at| {
        // Prefixes and suffixes are the same for all words: a name may have a million parts.
        let part = parts[at].text;
        BEFORE.iter().any(|before| without_prefix(part, before).is_some_and(is_one))
            || AFTER.iter().any(|after| without_suffix(singular(part), after).is_some_and(is_one))
            || words.iter().any(|word| start_with(&parts[at..], word))
    })
}

/// A part of a name.
struct NamePart<'a> {
    text: &'a str,
    /// Whether nothing is between it and the part before it.
    adjoins: bool,
}

/// Splits a name at other characters than letters and digits, between letters and digits, and before a
/// capital that starts a word.
fn name_parts(name: &str) -> Vec<NamePart<'_>> {
    let mut parts = Vec::new();
    for run in name.split(|char: char| !char.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let mut start = 0;
        let mut before: Option<char> = None;
        let mut chars = run.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            let starts_word =
                char.is_uppercase() && chars.peek().is_some_and(|(_, next)| next.is_lowercase());
            let is_new = before.is_some_and(|before| {
                before.is_numeric() != char.is_numeric()
                    || (char.is_uppercase() && before.is_lowercase())
                    || (starts_word && before.is_uppercase())
            });
            if is_new {
                parts.push(NamePart { text: &run[start..at], adjoins: start > 0 });
                start = at;
            }
            before = Some(char);
        }
        parts.push(NamePart { text: &run[start..], adjoins: start > 0 });
    }
    parts
}

/// Tells whether the first parts make a word, such as `TensorBoard` or a word with a hyphen.
fn start_with(parts: &[NamePart<'_>], word: &str) -> bool {
    let first = |text: &str| text.as_bytes().first().map(u8::to_ascii_lowercase);
    if first(parts[0].text) != first(word) {
        return false;
    }
    let mut left = word;
    for (at, part) in parts.iter().enumerate() {
        let next = left.trim_start_matches(|char: char| !char.is_alphanumeric());
        if at > 0 && next.len() == left.len() && !part.adjoins {
            return false;
        }
        if is_word(part.text, next) {
            return true;
        }
        let Some(rest) = without_prefix(next, part.text) else { return false };
        left = rest;
    }
    false
}

/// Tells whether a text is a word, or its plural.
fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
        || (singular(text).len() < text.len() && singular(text).eq_ignore_ascii_case(word))
}

fn singular(text: &str) -> &str {
    text.strip_suffix(['s', 'S']).unwrap_or(text)
}

/// Returns the text after a prefix, ignoring case.
fn without_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns the text before a suffix, ignoring case.
fn without_suffix<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    tail.eq_ignore_ascii_case(suffix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_BYTES, has_word, is_named_like_checkpoints};

    #[test]
    fn a_name_is_searched_as_far_as_names_go() {
        let long = |name: &str| format!("{}-{name}", "é".repeat(MAX_NAME_BYTES / 2 - 3));
        assert!(has_word(&long("ckpt"), &["ckpt"]) && !has_word(&long("ckpts-x"), &["x"]));
        assert!(!has_word(&"é".repeat(MAX_NAME_BYTES), &["ckpt"]));
    }

    #[test]
    fn a_word_of_a_policy_may_have_parts_itself() {
        for (name, word) in [
            ("team-model-zoo", "model-zoo"),
            ("model_zoos/v1", "model-zoo"),
            ("modelZoo", "model-zoo"),
            ("ModelZoo2", "Model_Zoo"),
            ("s3-data", "s3"),
            ("data-v2-s", "v2"),
            ("out", "-out-"),
        ] {
            assert!(has_word(name, &[word]), "{name} {word}");
        }
        for (name, word) in [
            ("modelzoo", "model-zoo"),
            ("model", "model-zoo"),
            ("zoo-model", "model-zoo"),
            ("model-of-zoo", "model-zoo"),
            ("model-zoology", "model-zoo"),
            ("data", ""),
            ("data", "-"),
            ("a-b", "ab"),
        ] {
            assert!(!has_word(name, &[word]), "{name} {word}");
        }
    }

    #[test]
    fn words_are_whole_or_tell_by_their_surroundings() {
        let own = [
            "neox-checkpoints",
            "modelvol",
            "LOG_DIR",
            "/mnt/logs/a",
            "save",
            "ckpt2",
            "myckpts",
            "ckpt_v3",
            "trainlogs",
            "traininglog",
            "logdir",
            "savedirs",
            "runs",
            "/workspace/runs2",
            "expruns",
            "mlflow-store",
            "mlruns",
            "wandb",
            "logs01",
            "TensorBoard",
            "MLFlow",
            "saveDir",
            "CHECKPOINT_PATH",
            "team.model/v2",
            "enable_checkpointing",
            "modelsPVC",
            "CKPT01",
        ];
        for name in own {
            assert!(is_named_like_checkpoints(name), "{name}");
        }
        let others = [
            "login",
            "catalog",
            "blogs",
            "dialog",
            "changelog",
            "data",
            "",
            "saver",
            "prunshop",
            "runtime",
            "overruns",
            "run",
            "reruns-x",
            "logistics",
            "2",
            "s",
            "trainer",
            "rundir",
            "dataset42",
            "lightweight-cache",
            "artifactory",
            "supermodels",
            "resulting",
            "run-s3",
            "savepoint",
            "computeouts",
        ];
        for name in others {
            assert!(!is_named_like_checkpoints(name), "{name}");
        }
    }
}
