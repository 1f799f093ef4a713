//! The mounts of a pod's containers, and what becomes of files there.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::judge::words::has_word;
use crate::kinds::{Container, Field, Part, PodTemplate};
use crate::text::meter;
use crate::text::value::Value;

/// The mounts of the containers of one pod template.
#[derive(Debug, Default)]
pub(super) struct PodMounts<'a> {
    by_volume: BTreeMap<&'a str, VolumeMounts<'a>>,
    containers: Vec<Container<'a>>,
}

/// The mounts of one volume, with a cached answer: any number of volumes may have the same name.
#[derive(Debug, Default)]
struct VolumeMounts<'a> {
    mounts: Vec<Mount<'a>>,
    read_only: OnceCell<bool>,
}

#[derive(Debug)]
struct Mount<'a> {
    path: Option<&'a str>,
    read_only: bool,
    /// The container's index in [`PodMounts::containers`].
    container: usize,
}

impl<'a> PodMounts<'a> {
    pub(super) fn from_pod(pod: &PodTemplate<'a>) -> Self {
        let mut all = Self { containers: pod.containers().collect(), ..Self::default() };
        let mounts = all.containers.iter().enumerate();
        for (container, mount) in
            mounts.flat_map(|(at, one)| one.part.get("volumeMounts").mappings().map(move |mount| (at, mount)))
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
}

/// Hints of a pod template's containers about the place of checkpoints: words in the names of directories and
/// settings.
#[derive(Debug)]
pub(super) struct CheckpointHints<'m, 'a> {
    mounts: &'m PodMounts<'a>,
    /// The [`telling_values`] of each container, read on first use.
    telling: Vec<OnceCell<BTreeSet<&'a str>>>,
    /// Cached answers: whether a volume is for checkpoints.
    volumes: RefCell<BTreeMap<&'a str, bool>>,
}

impl<'m, 'a> CheckpointHints<'m, 'a> {
    pub(super) fn new(mounts: &'m PodMounts<'a>) -> Self {
        let telling = mounts.containers.iter().map(|_| OnceCell::new()).collect();
        Self { mounts, telling, volumes: RefCell::default() }
    }

    /// Tells whether a container has a setting, named with one of the words, whose value is a path inside a
    /// directory.
    pub(super) fn is_told_of(&self, directory: &str, words: &[&str]) -> bool {
        (0..self.telling.len()).any(|container| {
            meter::spend(1);
            is_one_inside(directory, self.telling(container, words))
        })
    }

    /// Tells whether a mount path of the volume, or a setting with a path inside it, has one of the words.
    pub(super) fn is_for_checkpoints(&self, volume: &str, words: &[&str]) -> bool {
        let Some((volume, known)) = self.mounts.by_volume.get_key_value(volume) else { return false };
        let one = |mount: &Mount<'_>| {
            meter::spend(1);
            let Some(path) = mount.path else { return false };
            has_word(path, words) || is_one_inside(path, self.telling(mount.container, words))
        };
        *self.volumes.borrow_mut().entry(volume).or_insert_with(|| known.mounts.iter().any(one))
    }

    fn telling(&self, container: usize, words: &[&str]) -> &BTreeSet<&'a str> {
        self.telling[container].get_or_init(|| telling_values(&self.mounts.containers[container], words))
    }
}

/// What becomes of files that a container writes. Ordered: of several, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileFate<'a> {
    /// They are in the container's own files, and are lost with it.
    OfContainer,
    /// They are in an `emptyDir` of this name, and are lost with the pod.
    OfPod(&'a str),
    /// This volume cannot be written.
    ReadOnly(&'a str),
    /// They are kept, and this mount is for reading them.
    Read,
    /// They are in a `hostPath` of this name, and stay on the node.
    OfNode(&'a str),
    /// It is unknown.
    Unknown,
    /// They outlive the pod.
    Kept,
}

/// The volumes of a pod, by name.
#[derive(Debug, Default)]
pub(super) struct Volumes<'a>(BTreeMap<&'a str, FileFate<'a>>);

impl<'a> Volumes<'a> {
    pub(super) fn from_pod(pod: &PodTemplate<'a>) -> Self {
        let one = |volume: &'a Value| {
            meter::spend(1);
            Some((volume.get("name")?.as_str()?, fate(volume)))
        };
        Self(pod.spec.get("volumes").values().iter().filter_map(one).collect())
    }
}

/// Where the files of containers go: the mounts of one container, or of several together.
#[derive(Debug, Default)]
pub(super) struct Destinations<'a> {
    by_path: BTreeMap<String, FileFate<'a>>,
    /// The best outcome for files in any of them.
    best: Option<FileFate<'a>>,
    /// Whether a volume is mounted at a path that is not known.
    is_open: bool,
}

/// The longest path on Linux.
const MAX_PATH_BYTES: usize = 4096;

impl<'a> Destinations<'a> {
    /// Adds the mounts of a container.
    pub(super) fn add(&mut self, volumes: &Volumes<'a>, container: &Part<'a>) {
        for mount in container.get("volumeMounts").mappings() {
            let Some(name) = mount.get("name").value.and_then(Value::as_str) else {
                self.is_open = true;
                continue;
            };
            let volume = volumes.0.get(name).copied().unwrap_or(FileFate::Unknown);
            let fate = match mount.get("readOnly").bool() {
                Field::Set(true) if volume >= FileFate::Read => FileFate::Read,
                Field::Set(true) => FileFate::ReadOnly(name),
                Field::Placeholder(_) => FileFate::Unknown,
                Field::Set(false) | Field::Unset | Field::Wrong => volume,
            };
            match mount.get("mountPath").text() {
                Field::Set(path) => {
                    let Some(path) = normal(path) else { continue };
                    self.best = self.best.max(Some(fate));
                    let known = self.by_path.entry(path).or_insert(fate);
                    *known = (*known).max(fate);
                }
                _ => self.is_open |= fate >= FileFate::OfNode(""),
            }
        }
    }

    /// Returns what becomes of files in an absolute path. `whole` is whether `path` is complete, or only a
    /// prefix.
    pub(super) fn fate(&self, path: &str, whole: bool) -> FileFate<'a> {
        if self.is_open {
            return FileFate::Unknown;
        }
        let beginning = if whole { path } else { path.rsplit_once('/').map_or("", |(before, _)| before) };
        let Some(path) = normal(beginning).filter(|path| path.starts_with('/')) else {
            return FileFate::Unknown;
        };
        // More may be mounted below.
        let below = if path == "/" { path.clone() } else { format!("{path}/") };
        let mut deeper = self.by_path.range(below.clone()..).take_while(|(at, _)| at.starts_with(&below));
        if !whole && deeper.next().is_some() {
            return FileFate::Unknown;
        }
        let mut at = path.as_str();
        loop {
            meter::spend(4);
            if let Some(fate) = self.by_path.get(if at.is_empty() { "/" } else { at }) {
                return *fate;
            }
            let Some((before, _)) = at.rsplit_once('/') else { return FileFate::OfContainer };
            at = before;
        }
    }

    /// Returns the best outcome for files in any of the mounts.
    pub(super) fn best(&self) -> FileFate<'a> {
        if self.is_open {
            return FileFate::Unknown;
        }
        self.best.unwrap_or(FileFate::OfContainer)
    }

    /// Tells whether something is mounted at one of the paths, or may be.
    pub(super) fn is_mounted(&self, paths: &[&str]) -> bool {
        self.is_open || paths.iter().any(|path| self.by_path.contains_key(*path))
    }
}

/// Returns a path without redundant parts; nothing for one with `..`, or one that is too long.
fn normal(path: &str) -> Option<String> {
    if path.len() > MAX_PATH_BYTES {
        return None;
    }
    meter::spend_text(path);
    let steps: Vec<&str> = path.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    (!steps.contains(&"..")).then(|| format!("{root}{}", steps.join("/")))
}

/// Returns what becomes of files in a volume.
fn fate(volume: &Value) -> FileFate<'_> {
    let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
    let has = |source: &str| volume.get(source).is_some();
    if has("emptyDir") {
        return FileFate::OfPod(name);
    }
    if has("hostPath") {
        return FileFate::OfNode(name);
    }
    if ["configMap", "downwardAPI", "image", "projected", "secret"].into_iter().any(has) {
        return FileFate::ReadOnly(name);
    }
    if volume.get("persistentVolumeClaim").and_then(|claim| claim.get("readOnly")?.as_bool()) == Some(true) {
        return FileFate::Read;
    }
    // Without a source it is an `emptyDir`, or one is still to be written.
    let mut fields = volume.as_object().into_iter().flatten();
    let is_complete = fields.any(|(key, value)| key != "name" && !value.is_null());
    if is_complete { FileFate::Kept } else { FileFate::Unknown }
}

/// Returns the values of the variables and flags of a container whose name has one of the words.
fn telling_values<'a>(container: &Container<'a>, words: &[&str]) -> BTreeSet<&'a str> {
    let env = container.part.get("env").mappings().map(|variable| {
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
    use super::{Destinations, Volumes, is_telling};
    use crate::judge::words::OF_CHECKPOINTS;
    use crate::kinds::Workload;
    use crate::text::value::{Value, json};

    fn fate(pod: &Value, path: &str, whole: bool) -> String {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}});
        let workload = Workload::from_object(&job).expect("a Job");
        let pod = &workload.pods[0];
        let mut all = Destinations::default();
        let volumes = Volumes::from_pod(pod);
        pod.containers().for_each(|container| all.add(&volumes, &container.part));
        format!("{:?}", all.fate(path, whole))
    }

    #[test]
    fn files_are_in_the_innermost_mount() {
        let pod = json!({
            "volumes": [
                {"name": "claim", "persistentVolumeClaim": {"claimName": "a"}},
                {"name": "own", "emptyDir": {}},
                {"name": "node", "hostPath": {"path": "/a"}},
                {"name": "map", "configMap": {"name": "a"}},
                {"name": "later"},
            ],
            "containers": [{"volumeMounts": [
                {"name": "claim", "mountPath": "/data/"},
                {"name": "own", "mountPath": "/data/own"},
                {"name": "node", "mountPath": "/node"},
                {"name": "map", "mountPath": "/map"},
                {"name": "claim", "mountPath": "/read", "readOnly": true},
                {"name": "other", "mountPath": "/other"},
                {"name": "later", "mountPath": "/later"},
            ]}],
        });
        for (path, expected) in [
            ("/data", "Kept"),
            ("/data//x/./y", "Kept"),
            ("/database", "OfContainer"),
            ("/data/own/x", "OfPod(\"own\")"),
            ("/node/x", "OfNode(\"node\")"),
            ("/map/x", "ReadOnly(\"map\")"),
            ("/read/x", "Read"),
            ("/other/x", "Unknown"),
            ("/later/x", "Unknown"),
            ("/data/../x", "Unknown"),
            ("data/x", "Unknown"),
            ("/", "OfContainer"),
        ] {
            assert_eq!(fate(&pod, path, true), expected, "{path}");
        }
        // Only the beginning is known: `/data/` may become `/data/own`.
        assert_eq!(fate(&pod, "/data/", false), "Unknown");
        assert_eq!(fate(&pod, "/data/own/run-", false), "OfPod(\"own\")");
        assert_eq!(fate(&pod, "/out/run-", false), "OfContainer");
        assert_eq!(fate(&pod, "/", false), "Unknown");
        assert_eq!(fate(&json!({"containers": [{}]}), "/out", true), "OfContainer");
        let open = json!({"containers": [{"volumeMounts": [{"name": "a", "mountPath": "$DIR"}]}]});
        assert_eq!(fate(&open, "/out", true), "Unknown");
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
            assert!(is_telling(name, OF_CHECKPOINTS), "{name}");
        }
        for name in ["data.dir", "hydra.job.name", "--dir", "run.dir", "root_dir"] {
            assert!(!is_telling(name, OF_CHECKPOINTS), "{name}");
        }
    }
}
