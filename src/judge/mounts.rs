//! What the containers of a pod mount, and what they keep there.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::judge::words::has_word;
use crate::kinds::{Container, Field, PodTemplate};
use crate::text::meter;
use crate::text::value::Value;

/// What the containers of one pod template mount.
#[derive(Default)]
pub(super) struct PodMounts<'a> {
    by_volume: BTreeMap<&'a str, VolumeMounts<'a>>,
    containers: Vec<Container<'a>>,
    /// The [`telling_values`] of each container, once needed.
    telling: Vec<OnceCell<BTreeSet<&'a str>>>,
}

/// The mounts of one volume, with cached answers: any number of volumes may have the same name.
#[derive(Default)]
struct VolumeMounts<'a> {
    mounts: Vec<Mount<'a>>,
    read_only: OnceCell<bool>,
    for_checkpoints: OnceCell<bool>,
}

struct Mount<'a> {
    path: Option<&'a str>,
    read_only: bool,
    /// The container's index in [`PodMounts::containers`].
    container: usize,
}

impl<'a> PodMounts<'a> {
    pub(super) fn of(pod: &PodTemplate<'a>) -> Self {
        let mut all = Self { containers: pod.containers().collect(), ..Self::default() };
        all.telling.resize_with(all.containers.len(), OnceCell::new);
        let mounts = all.containers.iter().enumerate();
        for (container, mount) in
            mounts.flat_map(|(at, one)| one.part.get("volumeMounts").items().map(move |mount| (at, mount)))
        {
            let Some(volume) = mount.get("name").value.and_then(Value::as_str) else { continue };
            let path = mount.get("mountPath").value.and_then(Value::as_str);
            let read_only = mount.get("readOnly").bool() == Field::Set(true);
            all.by_volume.entry(volume).or_default().mounts.push(Mount { path, read_only, container });
        }
        all
    }

    /// Tells whether every mount of a volume is read-only.
    pub(super) fn is_read_only(&self, volume: &str) -> bool {
        let all = |volume: &VolumeMounts<'_>| volume.mounts.iter().all(|mount| mount.read_only);
        self.by_volume.get(volume).is_none_or(|volume| *volume.read_only.get_or_init(|| all(volume)))
    }

    /// Tells whether a setting of a container with one of the words has a path inside a directory.
    pub(super) fn is_told_of(&self, directory: &str, words: &[&str]) -> bool {
        self.containers.iter().zip(&self.telling).any(|(container, telling)| {
            meter::spend(1);
            is_one_inside(directory, telling.get_or_init(|| telling_values(container, words)))
        })
    }

    /// Tells whether a mount path of the volume, or a setting with a path inside it, has one of the words.
    pub(super) fn is_for_checkpoints(&self, volume: &str, words: &[&str]) -> bool {
        let one = |mount: &Mount<'_>| {
            meter::spend(1);
            let Some(path) = mount.path else { return false };
            let values = || {
                self.telling[mount.container]
                    .get_or_init(|| telling_values(&self.containers[mount.container], words))
            };
            has_word(path, words) || is_one_inside(path, values())
        };
        self.by_volume
            .get(volume)
            .is_some_and(|volume| *volume.for_checkpoints.get_or_init(|| volume.mounts.iter().any(one)))
    }
}

/// Returns the values of the variables and flags of a container whose name has one of the words.
fn telling_values<'a>(container: &Container<'a>, words: &[&str]) -> BTreeSet<&'a str> {
    let env = container.part.get("env").items().map(|variable| {
        let text = |key| variable.get(key).value.and_then(Value::as_str).unwrap_or_default();
        (text("name"), text("value"))
    });
    env.chain(flags(container)).filter(|(name, _)| is_telling(name, words)).map(|(_, value)| value).collect()
}

/// Tells whether one of the values is the directory or a path inside it.
fn is_one_inside(directory: &str, values: &BTreeSet<&str>) -> bool {
    let directory = directory.trim_end_matches('/');
    let inside = format!("{directory}/");
    values.contains(directory)
        || values.range(inside.as_str()..).next().is_some_and(|value| value.starts_with(&inside))
}

/// Returns the flags of a container's command line with their values, also those in shell scripts:
/// `--flag=value`, `--flag value`, `key=value`.
fn flags<'a>(container: &Container<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let lists = ["command", "args"].map(|list| container.part.get(list));
    let texts = lists.into_iter().flat_map(|list| {
        list.items().filter_map(|item| item.value.and_then(Value::as_str)).collect::<Vec<_>>()
    });
    let words: Vec<&str> =
        texts.inspect(|text| meter::spend_text(text)).flat_map(str::split_whitespace).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((flag, value)) => found.push((flag, value.trim_matches(['"', '\'']))),
            None if word.starts_with('-') => {
                found.extend(words.get(at + 1).map(|value| (*word, value.trim_matches(['"', '\'']))));
            }
            None => {}
        }
    }
    found.into_iter()
}

/// Settings of Hydra and Lightning for the directory of a run.
const RUN_DIRECTORIES: [&str; 3] = ["hydra.run.dir", "hydra.sweep.dir", "default_root_dir"];

/// Tells whether a flag or variable is for checkpoints by its name.
fn is_telling(name: &str, words: &[&str]) -> bool {
    let name = name.trim_start_matches(['+', '~', '-', '\'', '"']);
    has_word(name, words)
        || RUN_DIRECTORIES
            .iter()
            .any(|directory| name.rsplit_once("trainer.").map_or(name, |(_, last)| last) == *directory)
}

#[cfg(test)]
mod tests {
    use super::is_telling;
    use crate::judge::rule::ParamDefault;
    use crate::judge::rules;

    fn words() -> &'static [&'static str] {
        match rules::find("checkpoint-volume-access").unwrap().rule.params[0].default {
            ParamDefault::Strings(words) => words,
            _ => &[],
        }
    }

    #[test]
    fn settings_tell_by_their_names() {
        for name in [
            "hydra.run.dir",
            "'hydra.sweep.dir",
            "+trainer.default_root_dir",
            "--save-dir",
            "checkpoint.path",
            "trainer.ckpt_path",
        ] {
            assert!(is_telling(name, words()), "{name}");
        }
        for name in ["data.dir", "hydra.job.name", "--dir", "run.dir", "root_dir"] {
            assert!(!is_telling(name, words()), "{name}");
        }
    }
}
