//! Pods that request an accelerator tolerate the taint of its nodes.
//!
//! ## Why
//!
//! Nodes with accelerators usually have a taint that keeps other pods away (GKE sets
//! `nvidia.com/gpu=present:NoSchedule` by itself). A pod that requests a GPU without tolerating the taint
//! stays Pending next to an idle node. (Only GKE, and clusters with the admission plugin
//! `ExtendedResourceToleration`, add the toleration to pods by themselves.)
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   ttlSecondsAfterFinished: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: batch/v1
//! kind: Job
//! metadata: {name: train}
//! spec:
//!   activeDeadlineSeconds: 86400
//!   ttlSecondsAfterFinished: 86400
//!   podReplacementPolicy: Failed
//!   template:
//!     spec:
//!       restartPolicy: Never
//!       tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!       containers:
//!       - name: trainer
//!         image: registry.example.com/trainer:v1
//!         resources: {limits: {nvidia.com/gpu: 8}}
//! ```
//!
//! ## Fix
//!
//! Safe: adds `{key: <taint>, operator: Exists, effect: NoSchedule}` to `tolerations`. A toleration does not
//! attract a pod to a node; the resources that the pod requests decide where it runs. The webhook fills in
//! the same toleration, except in lists that are applied again (see below).
//!
//! Unsafe: changes a toleration of one value (`operator: Equal`) into one of all values (`operator: Exists`
//! without a `value`).
//!
//! ## Details
//!
//! **What is an accelerator.** The parameter `taints` maps each resource to the taint of its nodes; a policy
//! that sets it replaces the whole table. MIG slices and shared GPUs are on nodes with the taint of the whole
//! GPU. A resource that is not in the table is not an accelerator: `nvidia.com/rdma-vf` is a network card. An
//! empty taint is one that is not known, as for GPUs that a cluster names by their product
//! (`nvidia.com/a100`): they are accelerators for all rules, but nothing is reported or filled in here.
//! Limits and requests of all containers count, including init containers and sidecars; a quantity of zero
//! does not.
//!
//! **What covers a taint.** The value of a taint depends on the cloud (`present`, `true`, none), so the added
//! toleration uses `Exists`. An author's toleration with `operator: Equal`, which is the default, covers one
//! value only: it gets a warning, and nothing is added to it. GKE uses the value `present`, and adds the
//! tolerations of `nvidia.com/gpu` and `google.com/tpu` by itself, so pods that select GKE nodes by label
//! (`cloud.google.com/gke-…`) are not reported. The parameter `platform` says what the whole cluster does.
//!
//! **Which lists are filled.** `tolerations` is an atomic list: whoever applies it owns all of it, and each
//! apply sends it as it is in the manifest. If Jobgate adds to the author's list, the next apply of the
//! unchanged manifest changes the pod template. For a running Job the API server rejects that (`field is
//! immutable`) unless Jobgate adds the toleration again, so Jobgate could no longer be stopped or removed.
//! Therefore:
//!
//! * A template without `tolerations` is filled: an apply does not touch a field that its manifest does not
//!   have.
//! * An author's list, even an empty one, in an object that will be applied again is left alone. On CREATE
//!   and UPDATE the webhook warns with the toleration to add.
//! * An author's list in any other object (`kubectl create`, SDKs, `generateName`) is filled.
//! * A Job or CronJob of Helm 3 is left alone, but for hooks: a chart's `tolerations: []` is sent on each
//!   upgrade, and nobody sees it, since the API server drops it from the object. The webhook warns.
//! * A Job with `manualSelector: true` is left alone, since `kubectl replace` can replace it as a whole. So
//!   is a Job that Terraform manages, since its next plan would replace the Job. The webhook warns.
//!
//! An object will be applied again if it has the annotation
//! `kubectl.kubernetes.io/last-applied-configuration`, an `Apply` entry in `managedFields`, or a mark of a
//! tool that applies (Argo CD, Flux, Helm, …). Files count as such objects. If a Job is created with `kubectl
//! create` and the same manifest is applied later, the fill conflicts: `kubectl apply` fails while Jobgate is
//! not running, and `kubectl apply --server-side` fails unless it is forced. To avoid that, run `lint --fix`
//! first.
//!
//! The parameter `ownLists` fills those lists as well. In return, every apply of such a Job needs a running
//! Jobgate with this parameter for as long as the Job exists; `kubectl apply` reports `configured` each time,
//! and `kubectl apply --server-side` by a second manager conflicts.
//!
//! AKS sets no taint by itself; its pages propose `sku=gpu:NoSchedule`. Pods that tolerate that, and select
//! its nodes by `kubernetes.azure.com/accelerator`, get a note at most; the webhook fills as elsewhere.
//!
//! **On UPDATE** nothing is filled into a Job or PyTorchJob. Tolerations that an author's list lacks, or that
//! the UPDATE removes, give a warning. One thing is restored, so that an earlier fill (also one of an earlier
//! version) blocks nobody: tolerations of exactly the shape above, at the end of the old list, if the UPDATE
//! removes them and does not change the pod template otherwise. In a Job whose template is immutable they are
//! restored whatever the policy and the key, because the request would be rejected otherwise. In a
//! PyTorchJob, which can be changed, they are restored if the action is `fill`, the pods request an
//! accelerator with that taint, and the object was created and not applied: an author may remove what an
//! author applied. Nothing is restored in a suspended object, because queues such as Kueue add and remove
//! their own tolerations there. A warning names what was restored.
//!
//! A TrainJob has no pods of its own: those of its runtime request what the job says in
//! `spec.trainer.resourcesPerNode`. If neither the runtime nor a patch of the job tolerates the taint, the job
//! gets a warning; nothing is filled in. The linter finds the runtime in the linted files, in `--facts`, or
//! among those that Trainer 2.3 installs, else it says that it is unknown. The webhook reads it from the cluster.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>
//! * <https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy>
//! * <https://cloud.google.com/kubernetes-engine/docs/how-to/gpus>

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::appliers::{self, LAST_APPLIED, owned};
use crate::judge::annotations;
use crate::judge::engine::{KEEP, Operation, Origin};
use crate::judge::finding::{Level, Part as FindingPart, Place, Safety, listed};
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Fills, Flag, Kinds, Mapping, Needs, Rule};
use crate::judge::runtimes;
use crate::judge::tolerations::{CoveredTaints, GKE_TAINTS, GKE_VALUE, PLATFORM, Platform, append, tolerates_aks};
use crate::kinds::accelerator::{self, NO_TAINT, toleration};
use crate::kinds::{Field, OnUpdate, Part, PodTemplate, Workload, text_in};
use crate::text::meter;
use crate::text::patch::{self, Op};
use crate::text::pointer::Pointer;
use crate::text::value::Value;

const OWN_LISTS: Flag = Flag::off(
    "ownLists",
    "Whether an author's list that will be applied again is filled. Every apply then needs a running Jobgate.",
);
const TAINTS: Mapping = Mapping::new(
    "taints",
    "Resource name, or a glob with one `*`, to the key of the taint on the nodes that have it; empty if that \
     is not known.",
    accelerator::TAINTS,
);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Accelerator taint not tolerated".into(),
        summary: "Pods that request an accelerator tolerate the taint of its nodes".into(),
        kinds: Kinds::WithPods,
        default: Action::Fill,
        fills: Fills::Pods("tolerations"),
        params: &[OWN_LISTS.0, PLATFORM.0, TAINTS.0],
        export: Exportable::No(
            "what it fills in, or denies where a policy says so, depends on more than CEL says well",
        ),
        restore: Some(restore),
        needs: Needs::RUNTIMES | Needs::MANAGERS,
        accelerators: Some(TAINTS),
        ..Rule::new("gpu-toleration", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let taints: Vec<(&str, &str)> = cx.mapping(&TAINTS).collect();
    let platform = Platform::new(cx);
    let (mut author, mut of_shared) = (None, BTreeSet::new());
    for pod in &cx.workload.pods {
        check_pod(cx, pod, (&taints, platform), (&mut author, &mut of_shared));
    }
    if let Some(reference) = cx.workload.kind.runs_in {
        runtimes::check(cx, reference, &taints, platform);
    }
}

fn check_pod<'a>(
    cx: &mut Cx<'a>,
    pod: &PodTemplate<'a>,
    (taints, platform): (&[(&str, &'a str)], Platform),
    (author, of_shared): (&mut Option<Author<'a>>, &mut BTreeSet<&'a str>),
) {
    let tolerations = pod.spec.get("tolerations");
    if tolerations.is_set() && !tolerations.value.is_some_and(Value::is_array) {
        return;
    }
    // The first request for each taint: several resources may share one.
    let mut wanted: BTreeMap<&str, accelerator::Request<'_>> = BTreeMap::new();
    for request in accelerator::requests(pod, taints).filter(|request| request.taint != NO_TAINT) {
        wanted.entry(request.taint).or_insert(request);
    }
    // A list that several pods share is reported for the first of them.
    wanted.retain(|taint, _| !pod.spec.shares("tolerations") || of_shared.insert(taint));
    if wanted.is_empty() {
        return;
    }
    let covered = CoveredTaints::from_tolerations(&tolerations);
    let mut uncovered = Vec::new();
    for (taint, request) in wanted {
        if covered.all
            || covered.whole.contains(taint)
            || platform.tolerates(&pod.spec, request.resource, taint)
        {
            continue;
        }
        match covered.one_value.get(taint) {
            Some(index) => report_one_value(cx, &tolerations, *index, taint),
            None => uncovered.push(request),
        }
    }
    if !uncovered.is_empty() {
        let room = author.get_or_insert_with(|| Author::new(cx)).room_in(
            pod,
            &tolerations,
            cx.request.old,
            &uncovered,
        );
        report_uncovered(cx, pod, &tolerations, &uncovered, room);
    }
}

/// How the object's author applies its lists.
struct Author<'a> {
    /// Managed fields, if the object alone does not show which lists are the author's.
    managers: Option<Part<'a>>,
    /// Whether the webhook writes into the object at all: a Job or PyTorchJob is not changed on UPDATE.
    is_filled: bool,
    /// Whether a list of the author's is left alone.
    applies_again: bool,
    /// Whether the whole object is replaced, including fields that its manifest does not have.
    replaces: bool,
    /// The manifest that kubectl applied, if it mentions tolerations.
    applied: Option<Value>,
    /// Whether its manifest is unknown, and may have an empty list, which the API server has dropped.
    is_unseen: bool,
}

impl<'a> Author<'a> {
    fn new(cx: &Cx<'a>) -> Self {
        let workload = cx.workload;
        let ours = cx.flag(&OWN_LISTS);
        // An object with a generated name can only be created.
        let from_file =
            cx.request.origin == Origin::File && workload.object.at(&["metadata", "name"]).is_set();
        // Without `manualSelector` the API server generates the selector, and rejects a manifest that lacks it.
        let selects = workload.kind.on_update == OnUpdate::TemplateImmutable
            && workload.object.at(&["spec", "manualSelector"]).bool() == Field::Set(true);
        let replaces = selects || appliers::writes_whole(workload).is_some();
        // The API server drops an empty list of a built-in kind, but not in a custom resource.
        let is_built_in = workload.kind.is_built_in() && workload.inside.is_none();
        let applied = workload.annotation(LAST_APPLIED).filter(|_| is_built_in).filter(|manifest| {
            meter::spend_text(manifest);
            manifest.contains("tolerations")
        });
        Self {
            managers: is_built_in.then(|| workload.object.at(&["metadata", "managedFields"])),
            is_filled: cx.request.operation == Operation::Create
                || workload.kind.on_update == OnUpdate::NextRuns,
            applies_again: !ours && (from_file || appliers::applied_again(workload).is_some()),
            replaces,
            applied: applied.map(|manifest| serde_json::from_str(manifest).unwrap_or_default()),
            is_unseen: is_built_in && appliers::applies_unseen(cx.request.origin, workload),
        }
    }

    /// Returns what can be done about tolerations that a list lacks. `old` is the object before an UPDATE.
    fn room_in(
        &self,
        pod: &PodTemplate<'_>,
        tolerations: &Part<'_>,
        old: Option<&Value>,
        lacks: &[accelerator::Request<'_>],
    ) -> TolerationHandling {
        // An apply sends a list around the template as a whole.
        let is_own = pod.form.is_in_list() || self.has_own(tolerations);
        if self.is_filled && !self.replaces && !(self.applies_again && (is_own || self.is_unseen)) {
            return TolerationHandling::Fill;
        }
        // Removing a fill must give a warning; an unrelated edit need not.
        let lost = || {
            let before = old.and_then(|old| tolerations.pointer.find(old));
            let covered = Part { pointer: tolerations.pointer.clone(), value: before };
            let covered = CoveredTaints::from_tolerations(&covered);
            lacks.iter().any(|request| covered.all || covered.whole.contains(request.taint))
        };
        if self.is_filled {
            return TolerationHandling::Warn(match () {
                () if self.replaces => WRITTEN_WHOLE,
                () if is_own => APPLIED,
                () => UNSEEN,
            });
        }
        if is_own || lost() { TolerationHandling::Warn(EXISTS) } else { TolerationHandling::Note }
    }

    /// Tells whether the author has written the list, also an empty one.
    fn has_own(&self, tolerations: &Part<'_>) -> bool {
        let written = |object: &Value| tolerations.pointer.find(object).is_some();
        tolerations.value.is_some()
            || self.applied.as_ref().is_some_and(written)
            || self.owns(&tolerations.pointer)
    }

    /// Tells whether a server-side apply owns the field.
    fn owns(&self, field: &Pointer) -> bool {
        let field = owned(field);
        let owns = |set: &Value| field.find(set).is_some();
        // A walk over all managers: built-in kinds have one template.
        let mut entries = self.managers.iter().flat_map(|managers| managers.values());
        entries.any(|entry| {
            meter::spend(1);
            text_in(entry, "operation") == Field::Set("Apply") && entry.get("fieldsV1").is_some_and(owns)
        })
    }
}

/// The webhook's handling of missing tolerations.
#[derive(Clone, Copy)]
enum TolerationHandling {
    /// It fills them in.
    Fill,
    /// It warns, for this reason.
    Warn(&'static str),
    /// Nothing: the UPDATE does not change it.
    Note,
}

/// Why the webhook fills nothing in, to follow "the webhook".
const APPLIED: &str = "does not change a list that you apply";
const UNSEEN: &str = "adds no list to an object of Helm 3, whose manifest it does not see";
const WRITTEN_WHOLE: &str = "does not change an object that is replaced as a whole";
const EXISTS: &str = "does not change the pods of an object that exists";

fn report_one_value(cx: &mut Cx<'_>, tolerations: &Part<'_>, index: usize, taint: &str) {
    let Some(toleration) = tolerations.items().nth(index) else { return };
    let value = toleration.get("value").text().set().unwrap_or_default();
    let is_gke = value == GKE_VALUE && GKE_TAINTS.contains(&taint);
    let operator = toleration.get("operator");
    let only = match (value, operator.is_set()) {
        ("", true) => "the empty value".to_owned(),
        ("", false) => "the empty value: no `operator` means `Equal`".to_owned(),
        _ => format!(
            "the value `{}`{}",
            value.escape_debug(),
            if is_gke { ", which is that of GKE" } else { "" }
        ),
    };
    let exists = match operator.value {
        Some(_) => Op::Replace(operator.pointer, "Exists".into()),
        None => Op::Add(operator.pointer, "Exists".into()),
    };
    let no_value = toleration.get("value");
    let ops = std::iter::once(exists).chain(no_value.value.map(|_| Op::Remove(no_value.pointer))).collect();
    cx.report(&toleration.pointer, format!("the taint `{taint}` is tolerated only with {only}"))
        .instead_of_fill(Level::Warn)
        .at_most(Level::Warn)
        .help("write `operator: Exists` and no value: clouds give the taint different values")
        .fix(Safety::Unsafe, ops);
}

/// Reports all that is missing in one template as one finding, so that its fix is one change of one list.
fn report_uncovered(
    cx: &mut Cx<'_>,
    pod: &PodTemplate<'_>,
    tolerations: &Part<'_>,
    uncovered: &[accelerator::Request<'_>],
    room: TolerationHandling,
) {
    let Some(first) = uncovered.first() else { return };
    let ops = append(tolerations, uncovered.iter().map(|request| toleration(request.taint)));
    let shapes: Vec<String> = uncovered
        .iter()
        .map(|request| format!("`{{key: {}, operator: Exists, effect: NoSchedule}}`", request.taint))
        .collect();
    let resources: Vec<String> = uncovered.iter().map(|request| format!("`{}`", request.resource)).collect();
    let place = first.place(pod);
    let (what, taints) = match uncovered.len() {
        1 => ("toleration", "this taint"),
        _ => ("tolerations", "these taints"),
    };
    // The toleration to add comes first: a warning of the webhook may be cut short.
    let message = format!(
        "no {what} {}: a pod that requests {} stays Pending if the nodes have {taints}",
        listed(&shapes, "and"),
        listed(&resources, "and"),
    );
    let finding = cx.report(if tolerations.is_set() { &tolerations.pointer } else { &place }, message);
    finding.field(tolerations.pointer.clone()).fix(Safety::Safe, ops);
    let why = match room {
        TolerationHandling::Warn(why) if finding.fills => format!("; the webhook {why}"),
        _ => String::new(),
    };
    finding.help(format!("add the {what} to `{}`{why}", tolerations.pointer));
    match room {
        TolerationHandling::Fill => {}
        TolerationHandling::Warn(_) => _ = finding.instead_of_fill(Level::Warn),
        TolerationHandling::Note => _ = finding.instead_of_fill(Level::Note),
    }
    if tolerates_aks(&pod.spec) {
        finding.at_most(Level::Note);
    }
    if tolerations.is_set() {
        finding.at_key().label(Place::Here(place, FindingPart::Value), "requested here");
    }
}

/// Returns the operations that restore tolerations of our shape, if an UPDATE removes them and changes
/// nothing else in the pod template.
fn restore(cx: &Cx<'_>) -> Vec<Op> {
    let Some(old) = cx.request.old else { return Vec::new() };
    let change = TemplateChange::new(cx, old);
    let mut ops = Vec::new();
    for pod in &cx.workload.pods {
        let Some((before, after)) = pod.template.pointer.find(old).zip(pod.template.value) else { continue };
        let list = pod.spec.own.get("tolerations");
        let Some(missing) = taken_out(list.pointer.find(old), list.value) else { continue };
        if !change.allows(pod, missing) {
            continue;
        }
        let again = append(&list, missing.iter().cloned());
        // Only the template is copied: all of the object once for each template would be its size squared.
        let inside: Vec<Op> = again.iter().filter_map(|op| op.below(&pod.template.pointer)).collect();
        if patch::apply(after, &inside).is_ok_and(|patched| patched == *before) {
            ops.extend(again);
        }
    }
    ops
}

/// Returns the end of the old tolerations that the new ones lack, if all of them have our shape.
fn taken_out<'a>(before: Option<&'a Value>, after: Option<&Value>) -> Option<&'a [Value]> {
    let left = after.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    accelerator::filled_behind(before?.as_array()?, left)
}

/// Tells whether the old object was applied: its author may then have written the tolerations.
fn was_applied(old: &Value) -> bool {
    Workload::from_object(old).is_some_and(|old| appliers::applied_again(&old).is_some())
}

/// How far an UPDATE is free to change pod templates.
enum TemplateChange<'a> {
    /// It would be rejected, or stop running pods.
    Rejected,
    /// It is allowed: only tolerations that the pods need are restored.
    Free { taints: Vec<(&'a str, &'a str)> },
    /// It is allowed and may be intended.
    Wanted,
}

impl<'a> TemplateChange<'a> {
    fn new(cx: &Cx<'a>, old: &Value) -> Self {
        let is =
            |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_bool) == Some(true);
        let suspended = |object: &Value| is(object, "/spec/suspend") || is(object, "/spec/runPolicy/suspend");
        // Only a suspended Job that has not started can be changed; 1.36 and later require less
        // (docs/internals/kubernetes.md#templates-of-suspended-jobs).
        let started = old.pointer("/status/startTime").is_some_and(|time| !time.is_null());
        // JobSet accepts a change also in the update that suspends it.
        let is_open = suspended(old) || (!cx.workload.kind.is_built_in() && suspended(cx.request.object));
        match cx.workload.kind.on_update {
            OnUpdate::TemplateImmutable if !is_open || started => return Self::Rejected,
            OnUpdate::StopsRuns => return Self::Rejected,
            _ => {}
        }
        let kept = annotations::annotation_names(cx.workload.annotation(KEEP)).any(|name| name == &*cx.rule.id);
        let is_free =
            cx.flag(&OWN_LISTS) || !(suspended(old) || suspended(cx.request.object) || was_applied(old));
        if kept || !is_free || cx.settings.action != Action::Fill {
            return Self::Wanted;
        }
        // The policy's table, and the built-in one, which was used for fills before the policy set its own.
        Self::Free { taints: cx.mapping(&TAINTS).chain(accelerator::TAINTS.iter().copied()).collect() }
    }

    /// Tells whether an UPDATE may put these tolerations back into a template.
    fn allows(&self, pod: &PodTemplate<'_>, missing: &[Value]) -> bool {
        match self {
            Self::Rejected => true,
            Self::Wanted => false,
            Self::Free { taints } => {
                let needed: BTreeSet<&str> =
                    accelerator::requests(pod, taints).map(|request| request.taint).collect();
                missing.iter().all(|toleration| {
                    toleration.get("key").and_then(Value::as_str).is_some_and(|key| needed.contains(key))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::engine::{Request, evaluate};
use crate::judge::verdict::Verdict;
    use crate::judge::facts::NoFacts;
    use crate::judge::policy::Policy;
    use crate::text::value::json;

    const TAINT: &str = "nvidia.com/gpu";

    /// A Job that asks for a GPU, with this metadata and, where it is not null, this list of tolerations.
    fn job(metadata: &Value, tolerations: &Value) -> Value {
        let containers = json!([{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]);
        let mut pod = json!({"restartPolicy": "Never", "containers": containers});
        if !tolerations.is_null() {
            pod["tolerations"] = tolerations.clone();
        }
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"activeDeadlineSeconds": 60, "template": {"spec": pod}}})
    }

    fn pytorch_job(tolerations: &Value) -> Value {
        let template = job(&json!({}), tolerations)["spec"]["template"].clone();
        let worker = json!({"replicas": 2, "template": template});
        let spec =
            json!({"runPolicy": {"activeDeadlineSeconds": 60}, "pytorchReplicaSpecs": {"Worker": worker}});
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}, "spec": spec})
    }

    fn own() -> Value {
        json!({"key": "team", "operator": "Equal", "value": "fraud", "effect": "NoSchedule"})
    }

    fn policy(rule: &str) -> Policy {
        let source = format!(
            "{{apiVersion: jobgate.dev/v1alpha1, kind: Policy, metadata: {{name: test}}, spec: {{rules: {{gpu-toleration: {rule}}}}}}}"
        );
        Policy::parse(&source, "test.yaml").expect("a policy")
    }

    fn judge(policy: &Policy, object: &Value, old: Option<&Value>) -> Verdict {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let request = Request {
            operation,
            origin: Origin::Admission,
            object,
            old,
            same_spec: None,
            namespace: "team",
            user: None,
            today: None,
        };
        let mut verdict = evaluate(policy, &NoFacts, &request);
        verdict.findings.retain(|finding| finding.rule == "gpu-toleration");
        verdict
    }

    /// What happens on CREATE: `fill`, the level of what is only said, or nothing.
    fn on_create(policy: &Policy, object: &Value) -> &'static str {
        match judge(policy, object, None).findings.first() {
            None => "nothing",
            Some(finding) if finding.fills => "fill",
            Some(finding) => finding.level.as_str(),
        }
    }

    #[test]
    fn a_list_that_will_be_applied_again_is_not_filled() {
        let applied = json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}});
        let server_side = json!({"managedFields": [{"manager": "ci", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}}]});
        let updated = json!({"managedFields": [{"manager": "kubectl-create", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {}}}}]});
        let tracked = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "jobs"}});
        let default = Policy::default();
        for (metadata, expected) in [
            (&json!({}), "fill"),
            (&updated, "fill"),
            (&applied, "warn"),
            (&server_side, "warn"),
            (&tracked, "warn"),
        ] {
            assert_eq!(on_create(&default, &job(metadata, &json!([own()]))), expected, "{metadata}");
            assert_eq!(
                on_create(&default, &job(metadata, &Value::Null)),
                "fill",
                "without a list: {metadata}"
            );
            assert_eq!(
                on_create(&policy("{params: {ownLists: true}}"), &job(metadata, &json!([own()]))),
                "fill",
                "{metadata}"
            );
            assert_eq!(
                on_create(&policy("{action: deny}"), &job(metadata, &json!([own()]))),
                "deny",
                "{metadata}"
            );
        }
        assert_eq!(on_create(&default, &job(&applied, &json!([toleration(TAINT)]))), "nothing");
    }

    #[test]
    fn an_empty_list_that_was_applied_is_the_authors_though_the_api_server_drops_it() {
        let manifest = |tolerations: &Value| job(&json!({}), tolerations).to_string();
        let applied = |tolerations: &Value| json!({"annotations": {LAST_APPLIED: manifest(tolerations)}});
        assert_eq!(on_create(&Policy::default(), &job(&applied(&json!([])), &Value::Null)), "warn");
        assert_eq!(on_create(&Policy::default(), &job(&applied(&Value::Null), &Value::Null)), "fill");
        let owner = |pod: &Value| json!({"managedFields": [{"operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {"f:spec": pod}}}}]});
        assert_eq!(
            on_create(&Policy::default(), &job(&owner(&json!({"f:tolerations": {}})), &Value::Null)),
            "warn"
        );
        assert_eq!(
            on_create(&Policy::default(), &job(&owner(&json!({"f:containers": {}})), &Value::Null)),
            "fill"
        );
    }

    #[test]
    fn a_job_that_can_be_replaced_as_a_whole_is_not_filled() {
        let mut object = job(&json!({}), &Value::Null);
        object["spec"]["manualSelector"] = true.into();
        assert_eq!(on_create(&Policy::default(), &object), "warn");
        object["spec"]["manualSelector"] = false.into();
        assert_eq!(on_create(&Policy::default(), &object), "fill");
    }

    #[test]
    fn what_terraform_writes_is_not_filled() {
        let managed = json!({"managedFields": [{"manager": "Terraform", "operation": "Update", "fieldsV1": {"f:spec": {}}}]});
        assert_eq!(on_create(&Policy::default(), &job(&managed, &Value::Null)), "warn");
    }

    #[test]
    fn what_is_created_only_is_filled_as_the_cluster_would() {
        let object = job(&json!({"generateName": "train-"}), &json!([own()]));
        let fills = |object: &Value| {
            evaluate(&Policy::default(), &NoFacts, &Request::from_file(object, None))
                .findings
                .iter()
                .any(|finding| finding.rule == "gpu-toleration" && finding.fills)
        };
        assert!(fills(&object));
        assert!(!fills(&job(&json!({"name": "train"}), &json!([own()]))));
    }

    #[test]
    fn nothing_is_said_of_pods_that_gke_looks_after() {
        let with = |field: &str, value: Value| {
            let mut object = job(&json!({}), &Value::Null);
            object["spec"]["template"]["spec"][field] = value;
            on_create(&Policy::default(), &object)
        };
        assert_eq!(with("nodeSelector", json!({"cloud.google.com/gke-accelerator": "nvidia-l4"})), "nothing");
        assert_eq!(with("nodeSelector", json!({"pool": "cloud.google.com/gke-accelerator"})), "fill");
        let mut object = job(&json!({}), &Value::Null);
        object["spec"]["template"]["spec"]["nodeSelector"] =
            json!({"cloud.google.com/gke-accelerator": "nvidia-l4"});
        assert_eq!(
            on_create(&policy("{params: {taints: {nvidia.com/gpu: dedicated}}}"), &object),
            "fill",
            "GKE knows its own taints"
        );
        let affinity = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let term =
            |key: &str, operator: &str| json!({"matchExpressions": [{"key": key, "operator": operator}]});
        let gke = term("cloud.google.com/gke-accelerator", "Exists");
        assert_eq!(with("affinity", affinity(json!([gke]))), "nothing");
        assert_eq!(
            with("affinity", affinity(json!([gke, term("pool", "Exists")]))),
            "fill",
            "any of the terms will do"
        );
        assert_eq!(
            with("affinity", affinity(json!([term("cloud.google.com/gke-accelerator", "DoesNotExist")]))),
            "fill"
        );
        assert_eq!(with("affinity", affinity(json!([]))), "fill");
    }

    /// What an UPDATE from one list of tolerations to another puts back.
    fn restored(policy: &Policy, old: &Value, new: &Value) -> Vec<Op> {
        judge(policy, new, Some(old)).restore
    }

    #[test]
    fn nothing_is_added_where_a_tool_applies_what_nobody_sees() {
        let helm = json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}});
        let levels = |policy: &Policy, metadata: &Value| {
            let verdict = judge(policy, &job(metadata, &Value::Null), None);
            verdict.findings.iter().map(|finding| (finding.level, finding.fills)).collect::<Vec<_>>()
        };
        let (warned, filled) = ([(Level::Warn, false)], [(Level::Note, true)]);
        assert_eq!(levels(&Policy::default(), &helm), warned);
        assert_eq!(levels(&policy("{params: {ownLists: true}}"), &helm), filled);
        let with = |key: &str, value: Value| {
            let mut metadata = helm.clone();
            metadata[key] = value;
            metadata
        };
        // Its manifest is known, and has no list.
        let manifest = json!({LAST_APPLIED: job(&json!({}), &Value::Null).to_string()});
        assert_eq!(levels(&Policy::default(), &with("annotations", manifest)), filled);
        let owned = json!([{"manager": "helm", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]);
        assert_eq!(levels(&Policy::default(), &with("managedFields", owned)), filled, "Helm 4");
        let hook = json!({"helm.sh/hook": "post-install"});
        assert_eq!(levels(&Policy::default(), &with("annotations", hook)), filled);
        assert_eq!(levels(&Policy::default(), &json!({"labels": {"app.kubernetes.io/name": "x"}})), filled);
        // A custom resource has an empty list still.
        let mut torch = pytorch_job(&Value::Null);
        torch["metadata"] = helm;
        assert!(judge(&Policy::default(), &torch, None).findings.iter().all(|finding| finding.fills));
    }

    #[test]
    fn what_an_apply_takes_out_of_a_running_job_comes_back_whatever_the_policy_says() {
        let (was, is) =
            (job(&json!({}), &json!([own(), toleration("accelerator")])), job(&json!({}), &json!([own()])));
        let place = Pointer::new(&["spec", "template", "spec", "tolerations"]);
        let again = [Op::Add(&place / 1_usize, toleration("accelerator"))];
        for policy in [
            "{action: fill}",
            "{action: warn}",
            "{action: ignore}",
            "{params: {taints: {}}}",
            "{params: {ownLists: true}}",
        ] {
            assert_eq!(restored(&self::policy(policy), &was, &is), again, "{policy}");
        }
        let keep = json!({"annotations": {"jobgate.dev/keep": "gpu-toleration"}});
        assert_eq!(restored(&Policy::default(), &was, &job(&keep, &json!([own()]))), again);
        // A whole list, and two at once.
        let two = json!([toleration(TAINT), toleration("amd.com/gpu")]);
        let whole = [Op::Add(place, two.clone())];
        assert_eq!(
            restored(&Policy::default(), &job(&json!({}), &two), &job(&json!({}), &Value::Null)),
            whole
        );
    }

    #[test]
    fn what_is_a_change_of_the_authors_stays_one() {
        let default = Policy::default();
        let list = |tolerations: Value| job(&json!({}), &tolerations);
        let ours = || toleration(TAINT);
        let mut forever = ours();
        forever["tolerationSeconds"] = 60.into();
        for (was, is) in [
            (json!([own(), ours()]), json!([])),
            (json!([ours(), own()]), json!([own()])),
            (json!([own()]), json!([])),
            (json!([own(), forever]), json!([own()])),
            (json!([own(), json!({"operator": "Exists", "effect": "NoSchedule"})]), json!([own()])),
            (json!([own()]), json!([own(), ours()])),
        ] {
            assert_eq!(restored(&default, &list(was.clone()), &list(is.clone())), [], "{was} to {is}");
        }
        // Something else in the template changes, too.
        let mut other = list(json!([own()]));
        other["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
        assert_eq!(restored(&default, &list(json!([own(), ours()])), &other), []);
    }

    #[test]
    fn what_is_suspended_may_lose_a_toleration() {
        let mut was = job(&json!({}), &json!([own(), toleration(TAINT)]));
        let is = job(&json!({}), &json!([own()]));
        was["spec"]["suspend"] = true.into();
        assert_eq!(restored(&Policy::default(), &was, &is), [], "a queue takes back what it added");
        assert_eq!(restored(&policy("{params: {ownLists: true}}"), &was, &is).len(), 1);
        let warning = judge(&Policy::default(), &is, Some(&was));
        assert_eq!(
            warning.findings.iter().map(|finding| finding.level).collect::<Vec<_>>(),
            [Level::Warn],
            "but not in silence"
        );
        was["status"] = json!({"startTime": "2030-01-01T00:00:00Z"});
        assert_eq!(
            restored(&Policy::default(), &was, &is).len(),
            1,
            "one that has started was not made for a change"
        );
    }

    #[test]
    fn a_pytorchjob_keeps_what_its_pods_need() {
        let was = pytorch_job(&json!([own(), toleration(TAINT)]));
        let is = pytorch_job(&json!([own()]));
        let default = Policy::default();
        assert_eq!(restored(&default, &was, &is).len(), 1);
        assert_eq!(
            restored(&policy("{params: {taints: {}}}"), &was, &is).len(),
            1,
            "the table of before counts, too"
        );
        assert_eq!(restored(&policy("{action: warn}"), &was, &is), [], "a policy that changes nothing");
        let mut applied = was.clone();
        applied["metadata"] = json!({"annotations": {LAST_APPLIED: was.to_string()}});
        assert_eq!(restored(&default, &applied, &is), [], "an author may take out what was applied");
        assert_eq!(
            restored(&default, &pytorch_job(&json!([own(), toleration("spot")])), &is),
            [],
            "nothing asks for that"
        );
        let mut kept = is.clone();
        kept["metadata"] = json!({"annotations": {"jobgate.dev/keep": "gpu-toleration"}});
        assert_eq!(restored(&default, &was, &kept), []);
        let mut suspended = is.clone();
        suspended["spec"]["runPolicy"]["suspend"] = true.into();
        assert_eq!(restored(&default, &was, &suspended), []);
    }

    #[test]
    fn an_update_warns_of_a_list_of_the_authors_and_of_what_it_takes_out() {
        let level = |new: &Value, old: &Value| {
            judge(&Policy::default(), new, Some(old)).findings.first().map(|finding| finding.level)
        };
        let (none, listed) = (pytorch_job(&Value::Null), pytorch_job(&json!([own()])));
        assert_eq!(level(&none, &none), Some(Level::Note), "it was so before");
        assert_eq!(level(&listed, &listed), Some(Level::Warn));
        let help = |new: &Value, old: Option<&Value>| {
            let verdict = judge(&Policy::default(), new, old);
            verdict.findings.first().map(|finding| finding.help.to_string()).unwrap_or_default()
        };
        // Nobody has applied it.
        let why = help(&listed, Some(&listed));
        assert!(why.ends_with("; the webhook does not change the pods of an object that exists"), "{why}");
        let mut applied = listed.clone();
        applied["metadata"] = json!({"annotations": {LAST_APPLIED: listed.to_string()}});
        let why = help(&applied, None);
        assert!(why.ends_with("; the webhook does not change a list that you apply"), "{why}");
        let mut changed = none.clone();
        changed["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] =
            json!({"pool": "a"});
        assert_eq!(
            level(&changed, &pytorch_job(&json!([toleration(TAINT)]))),
            Some(Level::Warn),
            "it was filled in, and is lost"
        );
    }
}
