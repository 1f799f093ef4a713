//! Files that the scripts of containers copy to places that outlive the pod.

use crate::judge::commands::{CommandLine, Token};
use crate::judge::mounts::{Destinations, FileFate};
use crate::text::meter;
use crate::text::shell::Word;

/// Maximum sources of a container's copies.
const MAX_SOURCES: usize = 64;

/// A path, as far as it is known: whether it is absolute, and its steps.
pub(super) struct PathSteps<'p>(bool, Vec<&'p str>);

impl<'p> PathSteps<'p> {
    pub(super) fn new(word: &'p Word) -> Self {
        let path = word.start();
        meter::spend_text(path);
        let steps = path.split('/').filter(|step| !matches!(*step, "" | "."));
        // Anything may follow the first pattern.
        let steps = steps.take_while(|step| !step.contains(['*', '?', '[']));
        Self(path.starts_with('/'), steps.collect())
    }

    /// Tells whether one of two places may be inside the other.
    pub(super) fn may_overlap(&self, other: &Self) -> bool {
        let (one, other_steps) = (&self.1, &other.1);
        meter::spend(one.len().min(other_steps.len()) as u64 + 1);
        let (Some(first), Some(other_first)) = (one.first(), other_steps.first()) else { return true };
        match (self.0, other.0) {
            _ if *first == ".." || *other_first == ".." => true,
            (true, false) => one.contains(other_first),
            (false, true) => other_steps.contains(first),
            _ => {
                one.iter().zip(other_steps).all(|(one, other)| one == other || *one == ".." || *other == "..")
            }
        }
    }
}

/// Returns the sources that a container's commands copy to places that outlive the pod, or may; nothing if there
/// are too many.
pub(super) fn saved<'c>(
    line: &'c CommandLine<'_>,
    mounts: &Destinations<'_>,
    none_kept: bool,
) -> Option<Vec<PathSteps<'c>>> {
    let mut all = Vec::new();
    for (from, to) in line.commands.iter().filter_map(|command| copied(&command.program, &command.words)) {
        let start = to.start();
        let is_kept = match start.starts_with('/') {
            true => matches!(mounts.fate(start, to.known().is_some()), FileFate::Kept | FileFate::Unknown),
            // Another host, another program, or an unknown directory.
            false => start.contains(':') || start.is_empty() || start == "-" || !none_kept,
        };
        if is_kept {
            all.extend(from.into_iter().map(PathSteps::new));
        }
        if all.len() > MAX_SOURCES {
            return None;
        }
    }
    Some(all)
}

/// Tells whether a program copies to and from object storage.
fn is_of_object_storage(program: &str) -> bool {
    ["aws", "azcopy", "gcloud", "gsutil", "rclone", "s5cmd"].contains(&program)
}

/// Returns the words after the verb of a copy: `gsutil -m cp …`, `aws s3 sync …`. It must be among the first
/// words.
fn behind_verb(words: &[Token]) -> Option<&[Token]> {
    const MOST: usize = 8;
    const VERBS: [&str; 7] = ["copy", "copyto", "cp", "move", "mv", "rsync", "sync"];
    let is_verb = |token: &Token| token.known().is_some_and(|word| VERBS.contains(&word));
    let at = words.iter().take(MOST).position(is_verb)?;
    words.get(at + 1..)
}

/// Tells whether a command may upload files without naming them.
pub(super) fn uploads_unknown(program: &str, words: &[Token]) -> bool {
    let second = words.get(1).and_then(Token::known);
    match program {
        "huggingface-cli" => true,
        "hf" => second == Some("upload"),
        "aws" if second != Some("s3") => false,
        "gcloud" if second != Some("storage") => false,
        _ => is_of_object_storage(program) && behind_verb(words).is_none(),
    }
}

/// Returns the sources and the target of a command's copy; nothing for other commands.
fn copied<'c>(program: &str, words: &'c [Token]) -> Option<(Vec<&'c Word>, &'c Word)> {
    const TARGETS: [&str; 2] = ["-t", "--target-directory"];
    let has_targets = matches!(program, "cp" | "install" | "mv");
    let words = if is_of_object_storage(program) { behind_verb(words)? } else { words.get(1..)? };
    let is_option = |token: &Token| token.word.text.starts_with('-') && token.word.text.len() > 1;
    let mut to = None;
    let mut from: Vec<&Word> = Vec::new();
    match program {
        "cp" | "install" | "mv" | "rsync" | "scp" | "aws" | "azcopy" | "gcloud" | "gsutil" | "rclone"
        | "s5cmd" => {
            let mut words = words.iter();
            while let Some(token) = words.next() {
                meter::spend(1);
                if has_targets && TARGETS.contains(&token.word.text.as_str()) {
                    to = words.next().map(|token| &token.word);
                } else if !is_option(token) {
                    from.push(&token.word);
                }
            }
            let to = to.or_else(|| from.pop())?;
            Some((from, to))
        }
        "tar" => {
            let (mut words, mut creates) = (words.iter().enumerate(), false);
            while let Some((at, token)) = words.next() {
                meter::spend(1);
                let letters = token.word.text.strip_prefix('-');
                match letters.or_else(|| (at == 0).then_some(token.word.text.as_str())) {
                    Some("C") => from.extend(words.next().map(|(_, token)| &token.word)),
                    Some(letters) if !letters.starts_with('-') => {
                        creates |= letters.contains('c');
                        // The archive follows.
                        if letters.ends_with('f') {
                            to = words.next().map(|(_, token)| &token.word);
                        }
                    }
                    Some(_) => {}
                    None => from.push(&token.word),
                }
            }
            to.filter(|_| creates).map(|to| (from, to))
        }
        _ => None,
    }
}
