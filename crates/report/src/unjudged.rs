//! What a run did not judge, and why. All commands and formats use this type.

mod reason;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use reason::{Kustomized, NotRendered, Reason, Render, Rendered};

use super::text::{clean, plural, thousands};
use crate::located::Location;
use crate::object::ObjectId;
use crate::results::Report;
use jobgate_core::kinds::{Kind, Likeness};

/// One thing that was not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    /// Its location; nothing if it is only in a cluster.
    pub location: Option<Location>,
    /// The document's number in the file, from 0; `None` if the whole file is meant.
    pub document: Option<usize>,
    /// The object, if it is one.
    pub object: Option<Arc<ObjectId>>,
    /// Why.
    pub reason: Reason,
}

impl Unjudged {
    fn from_object(object: Option<ObjectId>, reason: Reason) -> Self {
        Self { location: None, document: None, object: object.map(Arc::new), reason }
    }

    /// Returns something of a cluster that could not be looked up; `what` includes the reason.
    #[must_use]
    pub fn unknown(what: String) -> Self {
        Self::from_object(None, Reason::Unknown(what.into()))
    }

    /// Returns objects of a cluster that could not be listed; `what` includes the reason.
    #[must_use]
    pub fn not_listed(what: String) -> Self {
        Self::from_object(None, Reason::NotListed(what.into()))
    }

    /// Returns a namespace that the webhook excludes, with the reason.
    #[must_use]
    pub fn excluded(namespace: &str, why: String) -> Self {
        let object = ObjectId {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            namespace: None,
            name: Some(namespace.to_owned()),
        };
        Self::from_object(Some(object), Reason::Excluded(why.into()))
    }

    /// Returns objects of another batch kind in a cluster, with their number if known.
    #[must_use]
    pub fn in_cluster(group: &str, kind: &str, count: Option<u64>) -> Self {
        let object = ObjectId { api_version: group.to_owned(), kind: kind.to_owned(), ..ObjectId::default() };
        let name = if Kind::all().any(|known| known.name == kind) {
            format!("{kind}.{group}")
        } else {
            kind.to_owned()
        };
        Self::from_object(Some(object), Reason::InCluster(name.into(), count))
    }

    /// Returns its name in reports.
    pub(super) fn name(&self) -> String {
        match (&self.reason, &self.object) {
            (Reason::InCluster(kind, Some(count)), _) => format!("{count} {kind}"),
            (Reason::InCluster(kind, None), _) => kind.to_string(),
            (Reason::Claim(claim), Some(object)) => format!("claim {claim} of {object}"),
            (Reason::Runtime(runtime), Some(object)) => format!("runtime {runtime} of {object}"),
            (Reason::Chart(dir) | Reason::ChartParts(dir) | Reason::Dependencies(dir, _), _) => {
                dir.to_string()
            }
            (Reason::Kustomization(kustomized), _) => kustomized.dir().to_owned(),
            (Reason::NotRendered(not), _) => not.dir.to_string(),
            // A kind with the name of a judged one in another group includes its group.
            (Reason::Kind, Some(object)) if !object.kind.is_empty() => {
                format!("{} {}", full_kind(object), object.full_name())
            }
            (_, Some(object)) if object.kind.is_empty() => {
                object.name.clone().unwrap_or_else(|| "no kind, no name".to_owned())
            }
            (Reason::Excluded(_), Some(object)) => object.full_name(),
            (_, Some(object)) => object.to_string(),
            _ => String::new(),
        }
    }

    /// Returns why it was not judged, in a sentence without a period.
    #[must_use]
    pub fn message(&self) -> Cow<'static, str> {
        let kind = self.object.as_ref().map(|object| full_kind(object).into_owned()).unwrap_or_default();
        match &self.reason {
            Reason::Kind => format!("Jobgate does not judge the kind {kind}").into(),
            Reason::Lookalike(Likeness::Trains) => {
                format!("Jobgate does not judge the kind {kind}, which runs `torchrun` on accelerators here")
                    .into()
            }
            Reason::Lookalike(likeness) => {
                let what = match likeness {
                    Likeness::Ends => "batch pods",
                    Likeness::Accelerators => "pods with accelerators",
                    Likeness::Name | Likeness::Trains => "pods",
                };
                format!("Jobgate does not know the kind {kind}, which runs {what}").into()
            }
            Reason::Misspelled if kind.is_empty() => "this object has no kind".into(),
            Reason::Misspelled => "the API server knows no such kind".into(),
            Reason::NotServed => "this version is no longer served".into(),
            Reason::Inside(around) => format!("the {kind} inside the {} is not judged", clean(around)).into(),
            Reason::Partial if kind.is_empty() => {
                "this is a partial object without `apiVersion` and `kind`".into()
            }
            Reason::Partial => "this is a partial object: no container has an image".into(),
            Reason::Patch(by) => format!("this is a patch of {}", by.path).into(),
            Reason::Kustomization(kustomized) => {
                format!("the kustomization in {} is not rendered", kustomized.dir()).into()
            }
            Reason::Chart(dir) => format!("the chart in {dir} is not rendered").into(),
            Reason::ChartParts(dir) => {
                format!("the chart in {dir} has templates or dependencies that were not linted").into()
            }
            Reason::NotRendered(not) => {
                format!("the {} in {} is not rendered: {}", not.thing.word(), not.dir, clean(&not.why)).into()
            }
            Reason::Dependencies(dir, names) => format!(
                "the chart in {dir} is rendered without its dependencies, which are missing: {}",
                clean(names)
            )
            .into(),
            Reason::NoOutput(_) => "this template renders to nothing with the values that were used".into(),
            Reason::Template => "this template is not rendered".into(),
            Reason::Placeholder(field) => {
                format!("`{}` is a placeholder, so what depends on it was not judged", clean(field)).into()
            }
            Reason::Unreadable => "this document cannot be read".into(),
            Reason::TooLarge => "this file is too large".into(),
            Reason::UnreadablePath(why) => format!("cannot read this path: {why}").into(),
            Reason::NotWritten(why) => format!("cannot write this file: {why}").into(),
            Reason::Nothing => match &self.location {
                Some(location) => format!("there is nothing to judge in {}", path_of(location)).into(),
                None => "there is nothing to judge".into(),
            },
            Reason::Claim(claim) => format!("the access modes of the claim `{claim}` are unknown").into(),
            Reason::Runtime(runtime) => {
                format!("the runtime `{runtime}` is unknown, and the pods are in it").into()
            }
            Reason::Excluded(why) => why.to_string().into(),
            Reason::InCluster(kind, _) => format!("Jobgate does not judge the kind {kind}").into(),
            Reason::Unknown(what) | Reason::NotListed(what) => what.to_string().into(),
        }
    }

    /// Returns what to do about it; empty where nothing can be done.
    #[must_use]
    pub fn help(&self) -> Cow<'static, str> {
        match &self.reason {
            Reason::Lookalike(Likeness::Trains) => {
                "use a batch kind (Job, JobSet, PyTorchJob), which ends with the training, or review it by hand"
                    .into()
            }
            Reason::Kind | Reason::Lookalike(_) | Reason::InCluster(..) => "review it by hand".into(),
            Reason::Misspelled => "use a `kind` and `apiVersion` that the API server knows".into(),
            Reason::NotServed => "use a served version".into(),
            Reason::Partial => "lint the whole object: `kubectl kustomize DIR | jobgate lint -`".into(),
            Reason::Patch(kustomized) | Reason::Kustomization(kustomized) => kustomized.help().into(),
            Reason::Chart(dir) | Reason::ChartParts(dir) => helm(dir).into(),
            Reason::NotRendered(not) => not.help.to_string().into(),
            Reason::Dependencies(dir, _) => helm_dependencies(dir).into(),
            Reason::NoOutput(_) => {
                "name a file of values that turns it on under `render.values` in jobgate.yaml".into()
            }
            Reason::Template => "lint the rendered manifests".into(),
            Reason::Placeholder(_) => "replace it with a value, or lint the rendered manifests".into(),
            Reason::Inside(_) => "lint it separately".into(),
            Reason::TooLarge => "raise the limit with `--max-file-size`".into(),
            // Without the namespace, a claim found in some namespace is no answer.
            Reason::Claim(_) if self.object.as_ref().is_some_and(|object| object.namespace.is_none()) => {
                "write `metadata.namespace`, and pass the claim's manifest, \
                 or `kubectl get pvc -A -o yaml`, with `--facts`"
                    .into()
            }
            Reason::Claim(_) => {
                "pass the claim's manifest, or `kubectl get pvc -A -o yaml`, with `--facts`".into()
            }
            Reason::Runtime(_) => {
                "lint the runtime together with the job, or pass its manifest with `--facts`".into()
            }
            Reason::Unreadable | Reason::Nothing | Reason::Excluded(_) | Reason::Unknown(_) => "".into(),
            Reason::UnreadablePath(_) | Reason::NotWritten(_) | Reason::NotListed(_) => "".into(),
        }
    }

    /// Returns its place in a file for display; empty if it has none.
    pub(super) fn place(&self) -> String {
        match (&self.reason, &self.location) {
            // All of a file, or of a directory, is meant.
            (
                Reason::Chart(_)
                | Reason::ChartParts(_)
                | Reason::Kustomization(_)
                | Reason::NotRendered(_)
                | Reason::Dependencies(..)
                | Reason::NoOutput(_)
                | Reason::Nothing
                | Reason::TooLarge,
                Some(location),
            ) => path_of(location).into_owned(),
            (Reason::UnreadablePath(_) | Reason::NotWritten(_), Some(location)) => {
                path_of(location).into_owned()
            }
            (_, Some(location)) => location.to_string(),
            (_, None) => String::new(),
        }
    }
}

fn path_of(location: &Location) -> Cow<'_, str> {
    if &*location.file == "-" { "standard input".into() } else { clean(&location.file) }
}

/// Returns the command that lints what a chart renders to.
#[must_use]
pub fn helm(dir: &str) -> String {
    format!("lint the rendered manifests: `helm template {} | jobgate lint -`", quoted(dir))
}

/// Returns the command that shows all errors of a chart that does not render.
#[must_use]
pub fn helm_again(dir: &str) -> String {
    format!("`helm template {}` shows all of it", quoted(dir))
}

/// Returns the command that fetches the dependencies of a chart.
#[must_use]
pub fn helm_dependencies(dir: &str) -> String {
    format!("run `helm dependency build {}`, and lint again", quoted(dir))
}

/// Quotes a path for a shell.
fn quoted(path: &str) -> Cow<'_, str> {
    let plain = |char: char| char.is_alphanumeric() || "/._-+@%=:,~".contains(char);
    if !path.is_empty() && path.chars().all(plain) {
        path.into()
    } else {
        format!("'{}'", path.replace('\'', "'\\''")).into()
    }
}

/// Maximum kinds in the summary.
const NAMED: usize = 8;

/// Returns a short summary, such as `3 of 9 objects not judged (MPIJob.training.kubedl.io 2, JobSet.batch.x-k8s.io 1); 1 chart not rendered`,
/// if anything was not judged.
pub(super) fn in_short(report: &Report) -> Option<String> {
    let mut kinds: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
    let mut things: BTreeMap<(usize, (&'static str, &'static str)), usize> = BTreeMap::new();
    let mut empty: Vec<Cow<'_, str>> = Vec::new();
    // Objects that are not counted among those of our kinds.
    let mut foreign = 0;
    for unjudged in &report.unjudged {
        match (&unjudged.reason, unjudged.reason.noun()) {
            (Reason::Nothing, _) => empty.extend(unjudged.location.as_ref().map(path_of)),
            (reason, Some(noun)) => *things.entry((reason.rank(), noun)).or_default() += 1,
            (Reason::InCluster(kind, count), None) => {
                *kinds.entry(clean(kind)).or_default() +=
                    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
            }
            (_, None) => {
                let is_apart = matches!(unjudged.reason, Reason::Inside(_) | Reason::NotServed);
                let counted = !is_apart && unjudged.object.as_ref().is_some_and(|object| object.is_ours());
                *kinds.entry(kind_of(unjudged)).or_default() += 1;
                foreign += usize::from(!counted);
            }
        }
    }
    let mut parts = Vec::new();
    let objects: usize = kinds.values().sum();
    if objects > 0 {
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let more = kinds.split_off(kinds.len().min(NAMED)).iter().map(|(_, count)| *count).sum::<usize>();
        let mut kinds: Vec<String> =
            kinds.into_iter().map(|(kind, count)| format!("{kind} {}", thousands(count))).collect();
        kinds.extend((more > 0).then(|| format!("others {}", thousands(more))));
        let of = match &report.impact {
            None => format!("{} of {}", thousands(objects), plural(report.objects + foreign, "object")),
            Some(_) => plural(objects, "object"),
        };
        parts.push(format!("{of} not judged ({})", kinds.join(", ")));
    }
    parts.extend(
        things.into_iter().map(|((_, (noun, what)), count)| format!("{} {what}", plural(count, noun))),
    );
    match empty.as_slice() {
        [] => {}
        [path] => parts.push(format!("nothing to judge in {path}")),
        paths => parts.push(format!("nothing to judge in {}", plural(paths.len(), "path"))),
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the kind of an object, with its group if a judged kind has the same name.
fn full_kind(object: &ObjectId) -> Cow<'_, str> {
    let kind = clean(&object.kind);
    match object.api_version.split_once('/') {
        Some((group, _)) if !object.is_ours() && Kind::all().any(|kind| kind.name == object.kind) => {
            format!("{kind}.{}", clean(group)).into()
        }
        _ => kind,
    }
}

/// Returns the kind of an object in the summary. Partial objects, and other kinds with the name of a judged
/// one, are distinguished.
fn kind_of(unjudged: &Unjudged) -> Cow<'_, str> {
    let Some(object) = unjudged.object.as_ref().filter(|object| !object.kind.is_empty()) else {
        return "without a kind".into();
    };
    let kind = full_kind(object);
    match &unjudged.reason {
        Reason::Inside(around) => format!("{kind} inside {}", clean(around)).into(),
        Reason::NotServed => kind,
        _ if object.is_ours() => format!("partial {kind}").into(),
        _ => kind,
    }
}

/// Compares two in the order of a report: file, place, reason, name.
pub fn order(a: &Unjudged, b: &Unjudged) -> std::cmp::Ordering {
    let place = |unjudged: &Unjudged| {
        unjudged.location.as_ref().map(|location| (Arc::clone(&location.file), location.span.start))
    };
    (place(a), &a.reason, &a.object).cmp(&(place(b), &b.reason, &b.object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jobgate_core::text::lines::Position;

    fn at(file: &str, object: Option<(&str, &str)>, reason: Reason) -> Unjudged {
        let start = Position { line: 1, column: 1 };
        let object = object.map(|(version, kind)| {
            Arc::new(ObjectId {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                ..ObjectId::default()
            })
        });
        Unjudged {
            location: Some(Location { file: file.into(), span: 0..0, start, end: start }),
            document: Some(0),
            object,
            reason,
        }
    }

    #[test]
    fn the_summary_counts_objects_by_kind_and_all_else_by_what_it_is() {
        let mut report = Report { objects: 6, ..Report::default() };
        assert_eq!(in_short(&report), None);
        let mpi = Some(("training.kubedl.io/v1alpha1", "MPIJob"));
        report.unjudged = vec![
            at("a", mpi, Reason::Kind),
            at("a", mpi, Reason::Kind),
            at("a", Some(("batch.x-k8s.io/v1alpha1", "JobSet")), Reason::Kind),
        ];
        assert_eq!(
            in_short(&report).as_deref(),
            Some("3 of 9 objects not judged (MPIJob.training.kubedl.io 2, JobSet.batch.x-k8s.io 1)")
        );
        let volcano = Some(("execution.furiko.io/v1alpha1", "Job"));
        report.unjudged = vec![
            at("a", volcano, Reason::Kind),
            at("a", Some(("batch/v1", "Job")), Reason::Partial),
            at("a", Some(("batch/v1", "Job")), Reason::Claim("data".into())),
            at("b", None, Reason::Chart("b".into())),
            at("-", None, Reason::Nothing),
        ];
        let line = "2 of 7 objects not judged (Job.execution.furiko.io 1, partial Job 1); 1 chart not rendered; 1 claim unknown; nothing to judge in standard input";
        assert_eq!(in_short(&report).as_deref(), Some(line));
    }

    #[test]
    fn what_is_of_an_old_version_is_not_among_the_objects() {
        let job = Some(("kubeflow.org/v1alpha1", "PyTorchJob"));
        let report = Report { unjudged: vec![at("a", job, Reason::NotServed)], ..Report::default() };
        assert_eq!(in_short(&report).as_deref(), Some("1 of 1 object not judged (PyTorchJob 1)"));
        let (unjudged, other) =
            (&report.unjudged[0], at("a", Some(("extensions/v1beta1", "Job")), Reason::NotServed));
        assert_eq!(
            (unjudged.reason.word(), &*unjudged.message()),
            ("not-served", "this version is no longer served")
        );
        assert_eq!(
            in_short(&Report { objects: 2, unjudged: vec![other], ..Report::default() }).as_deref(),
            Some("1 of 3 objects not judged (Job.extensions 1)")
        );
    }

    #[test]
    fn commands_name_the_directory_as_a_shell_reads_it() {
        assert_eq!(helm("."), "lint the rendered manifests: `helm template . | jobgate lint -`");
        assert_eq!(
            helm("my charts/it's"),
            "lint the rendered manifests: `helm template 'my charts/it'\\''s' | jobgate lint -`"
        );
        let help = |path: &str, render| {
            at("a", None, Reason::Patch(Kustomized { path: path.into(), render })).help().into_owned()
        };
        assert!(help("kustomization.yaml", Render::Build).contains("`kubectl kustomize . |"));
        assert!(help("k8s/prod/kustomization.yaml", Render::Build).contains("`kubectl kustomize k8s/prod |"));
        assert!(
            help("k8s/prod/kustomization.yaml", Render::WithHelm)
                .contains("`kubectl kustomize --enable-helm k8s/prod |")
        );
        assert!(!help("part/kustomization.yaml", Render::ByAnother).contains("kubectl"));
    }

    #[test]
    fn a_kind_of_another_group_is_named_with_it() {
        let other = at("a", Some(("training.kubedl.io/v1alpha1", "MPIJob")), Reason::Kind);
        assert!(other.name().starts_with("MPIJob.training.kubedl.io "), "{}", other.name());
        let flux = at("a", Some(("flux-framework.org/v1alpha2", "MiniCluster")), Reason::Kind);
        assert!(flux.name().starts_with("MiniCluster "), "{}", flux.name());
    }

    #[test]
    fn every_reason_says_why_in_one_line() {
        let kustomized = Kustomized { path: "x".into(), render: Render::Build };
        let all = [
            Reason::Kind,
            Reason::Lookalike(Likeness::Ends),
            Reason::Misspelled,
            Reason::NotServed,
            Reason::Partial,
            Reason::Patch(kustomized.clone()),
            Reason::Kustomization(kustomized),
            Reason::Chart("x".into()),
            Reason::ChartParts("x".into()),
            Reason::Dependencies("x".into(), "y".into()),
            Reason::Template,
            Reason::Placeholder("x".into()),
            Reason::Inside("x".into()),
            Reason::Unreadable,
            Reason::TooLarge,
            Reason::Nothing,
            Reason::Claim("x".into()),
            Reason::Excluded("x".into()),
            Reason::InCluster("x".into(), Some(2)),
            Reason::Unknown("x".into()),
            Reason::UnreadablePath("x".into()),
            Reason::NotWritten("x".into()),
            Reason::NotListed("x".into()),
        ];
        let mut words: Vec<&str> = all.iter().map(Reason::word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all.len(), "no word twice");
        for reason in all {
            let unjudged = at("a", Some(("v1", "X")), reason);
            let message = unjudged.message();
            assert!(!message.is_empty() && !message.contains('\n') && !message.ends_with('.'), "{message}");
        }
    }
}
