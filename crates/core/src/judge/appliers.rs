//! Tools that apply objects again from a repository, recognized by their labels, annotations and field
//! managers.
//!
//! Each mark names the file of the tool's source that writes it. Tools without a mark, and files that have
//! not been applied yet, cannot be recognized.

use crate::judge::engine::Origin;
use crate::kinds::{Field, Part, Workload, text_in};
use crate::text::meter;
use crate::text::pointer::{Pointer, Token};
use crate::text::value::Value;

/// How a tool marks what it applies.
enum ApplierMark {
    /// A label, whatever its value.
    Label(&'static str),
    /// A label with this value.
    LabelIs(&'static str, &'static str),
    /// An annotation, whatever its value.
    Annotation(&'static str),
    /// A label or annotation whose key has this prefix.
    Prefix(&'static str),
    /// An annotation with this value.
    AnnotationIs(&'static str, &'static str),
    /// A field manager of this name.
    Manager(&'static str),
    /// A field manager whose name has this prefix.
    ManagerPrefix(&'static str),
}

use ApplierMark::{Annotation, AnnotationIs, Label, LabelIs, Manager, ManagerPrefix, Prefix};

/// Marks and their tools. The first match names the tool: some tools apply by means of another.
const MARKS: &[(ApplierMark, &str)] = &[
    // argoproj/argo-cd: common/common.go. Authors write others (`sync-wave`, `sync-options`), only for Argo
    // CD.
    (Prefix("argocd.argoproj.io/"), "Argo CD"),
    (Manager("argocd-controller"), "Argo CD"),
    // fluxcd/kustomize-controller: main.go, internal/controller/kustomization_controller.go; helm-controller
    // does the same. Authors write annotations for the first (`ssa`, `prune`).
    (Prefix("kustomize.toolkit.fluxcd.io/"), "Flux"),
    (Label("helm.toolkit.fluxcd.io/name"), "Flux"),
    (Manager("kustomize-controller"), "Flux"),
    (Manager("helm-controller"), "Flux"),
    // GoogleContainerTools/kpt-config-sync: pkg/metadata/annotations.go, pkg/api/configsync/register.go.
    (AnnotationIs("configmanagement.gke.io/managed", "enabled"), "Config Sync"),
    (Annotation("configsync.gke.io/resource-id"), "Config Sync"),
    (Manager("configsync.gke.io"), "Config Sync"),
    // rancher/fleet: internal/cmd/agent/deployer/desiredset/desiredset_apply.go. It installs with Helm and adds
    // this; k3s writes it for its add-ons.
    (Annotation("objectset.rio.cattle.io/id"), "Fleet"),
    // carvel-dev/kapp: pkg/kapp/app/recorded_app.go, pkg/kapp/resources/association_label.go.
    (Label("kapp.k14s.io/app"), "kapp"),
    (Label("kapp.k14s.io/association"), "kapp"),
    // pulumi/pulumi-kubernetes: provider/pkg/metadata/{labels,naming}.go, provider/pkg/provider/provider.go
    // and await/await.go.
    (LabelIs("app.kubernetes.io/managed-by", "pulumi"), "Pulumi"),
    (Annotation("pulumi.com/autonamed"), "Pulumi"),
    (ManagerPrefix("pulumi-kubernetes"), "Pulumi"),
    (Manager("pulumi-resource-kubernetes"), "Pulumi"),
    // hashicorp/terraform-provider-kubernetes: kubernetes/provider.go; "HashiCorp" is what its user agent
    // starts with.
    (Manager("Terraform"), "Terraform"),
    (Manager("HashiCorp"), "Terraform"),
    // crossplane/crossplane: internal/controller/apiextensions/composite/{api,composition_functions}.go.
    (Annotation("crossplane.io/composition-resource-name"), "Crossplane"),
    (Label("crossplane.io/composite"), "Crossplane"),
    (ManagerPrefix("apiextensions.crossplane.io/composed"), "Crossplane"),
    // crossplane-contrib/provider-kubernetes: internal/controller/cluster/object/syncer.go, for what its
    // `Object`s hold.
    (Manager("crossplane-kubernetes-provider"), "Crossplane"),
    // helm/helm: pkg/action/validate.go, cmd/helm/helm.go; charts write the last two themselves.
    (LabelIs("app.kubernetes.io/managed-by", "Helm"), "Helm"),
    (Annotation("meta.helm.sh/release-name"), "Helm"),
    (Manager("helm"), "Helm"),
    (Annotation("helm.sh/hook"), "Helm"),
    (Label("helm.sh/chart"), "Helm"),
    // The label that Argo CD uses for tracking by label (common/common.go); charts write it as well.
    (Label("app.kubernetes.io/instance"), "Argo CD or Helm (it has the label `app.kubernetes.io/instance`)"),
];

/// Tools of [`tracker`] that write whole objects and remove fields that their configuration does not have.
///
/// hashicorp/terraform-provider-kubernetes: kubernetes/schema_pod_spec.go and schema_job_spec.go, where
/// `toleration` and `ttl_seconds_after_finished` are not computed, and a change of either replaces a Job. The
/// schema has no `podReplacementPolicy`, so Terraform does not see it.
const WRITE_WHOLE_OBJECTS: [&str; 1] = ["Terraform"];

/// Returns the tool that writes the whole object and would undo a fill.
pub(crate) fn writes_whole(workload: &Workload<'_>) -> Option<&'static str> {
    tracker(workload).filter(|tool| WRITE_WHOLE_OBJECTS.contains(tool))
}

/// Returns the tool that applies the object and would create it again.
pub(crate) fn tracker(workload: &Workload<'_>) -> Option<&'static str> {
    let managers = managers(workload);
    let has_prefix = |prefix: &str| {
        let lists =
            ["annotations", "labels"].into_iter().filter_map(|list| workload.metadata(list)?.as_object());
        lists
            .flat_map(|entries| entries.keys())
            .inspect(|_| meter::spend(1))
            .any(|key| key.starts_with(prefix))
    };
    let is_there = |mark: &ApplierMark| match mark {
        Label(key) => workload.label(key).is_some(),
        LabelIs(key, value) => workload.label(key) == Some(value),
        Annotation(key) => workload.annotation(key).is_some(),
        Prefix(prefix) => has_prefix(prefix),
        AnnotationIs(key, value) => workload.annotation(key) == Some(value),
        Manager(_) | ManagerPrefix(_) => managers.iter().any(|known| std::ptr::eq(*known, mark)),
    };
    MARKS.iter().find(|(mark, _)| is_there(mark)).map(|(_, tool)| *tool)
}

/// Returns the entries of an object's managed fields.
pub(crate) fn managed_fields<'a>(object: &Part<'a>) -> impl Iterator<Item = &'a Value> + use<'a> {
    let entries = object.at(&["metadata", "managedFields"]).values();
    entries.iter().inspect(|_| meter::spend(1))
}

/// Returns the marks among the object's field managers, in one pass: there may be many.
fn managers(workload: &Workload<'_>) -> Vec<&'static ApplierMark> {
    let mut found: Vec<&'static ApplierMark> = Vec::new();
    for entry in managed_fields(&workload.object) {
        let Field::Set(name) = text_in(entry, "manager") else { continue };
        let is_name = |mark: &ApplierMark| match mark {
            Manager(manager) => *manager == name,
            ManagerPrefix(prefix) => name.starts_with(prefix),
            Label(_) | LabelIs(..) | Annotation(_) | AnnotationIs(..) | Prefix(_) => false,
        };
        if let Some((mark, _)) = MARKS.iter().find(|(mark, _)| is_name(mark))
            && !found.iter().any(|known| std::ptr::eq(*known, mark))
        {
            found.push(mark);
        }
    }
    found
}

/// Tells whether the tool that applies the object does not create it again once it is gone, or is asked to run it anew.
///
/// A generated name is another one each time. fluxcd/kustomize-controller leaves out what has the annotations (docs of
/// Kustomization: "Controlling the apply behavior of resources"); argoproj/argo-cd deletes and creates with each sync
/// what has both options (<https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/>).
pub(crate) fn leaves_alone(workload: &Workload<'_>) -> bool {
    let annotation = |key: &str| workload.annotation(key).unwrap_or_default();
    let is_generated = workload.metadata("name").is_none() && workload.metadata("generateName").is_some();
    let options = annotation("argocd.argoproj.io/sync-options");
    meter::spend_text(options);
    let has = |option: &str| options.split(',').any(|one| one.trim() == option);
    is_generated
        || annotation("kustomize.toolkit.fluxcd.io/ssa").eq_ignore_ascii_case("ignore")
        || annotation("kustomize.toolkit.fluxcd.io/reconcile").eq_ignore_ascii_case("disabled")
        || has("Force=true") && has("Replace=true")
}

/// A hook: created on each release, and deleted according to its deletion policy.
pub(crate) struct Hook {
    /// The tool that runs it.
    pub(crate) tool: &'static str,
    /// The annotation for the deletion policy.
    pub(crate) policy: &'static str,
    /// A suggested value for that annotation.
    pub(crate) suggestion: &'static str,
    /// Whether the author has written a deletion policy.
    pub(crate) has_policy: bool,
}

/// Returns the hook that the object is, if it is one.
///
/// No hook is created again before the next release: Argo CD does not compare hooks (argo-cd:
/// controller/state.go), and for Helm they are not part of the release (pkg/action/hooks.go). An author's
/// policy replaces the default, which deletes the hook before it runs again (argo-cd:
/// gitops-engine/pkg/sync/hook/delete_policy.go; helm: pkg/action/hooks.go). Argo CD honours Helm's
/// annotations as well.
pub(crate) fn hook(workload: &Workload<'_>) -> Option<Hook> {
    const HELM: &str = "helm.sh/hook-delete-policy";
    const ARGO_CD: &str = "argocd.argoproj.io/hook-delete-policy";
    let has_policy = [HELM, ARGO_CD]
        .iter()
        .any(|key| workload.annotation(key).is_some_and(|value| !value.trim().is_empty()));
    let of = |tool, policy, suggestion| Some(Hook { tool, policy, suggestion, has_policy });
    match () {
        () if workload.annotation("argocd.argoproj.io/hook").is_some() => {
            of("Argo CD", ARGO_CD, "BeforeHookCreation,HookSucceeded")
        }
        () if workload.annotation("helm.sh/hook").is_some() => {
            of("Helm", HELM, "before-hook-creation,hook-succeeded")
        }
        () => None,
    }
}

/// The annotation in which `kubectl apply` keeps what it applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the tool, or `kubectl apply`, that has applied the object and will apply its manifest again.
///
/// An entry of `managedFields` counts only if it may own a part of the spec, not just labels or status.
pub(crate) fn applied_again(workload: &Workload<'_>) -> Option<&'static str> {
    let by_kubectl = || workload.annotation(LAST_APPLIED).map(|_| "`kubectl apply`");
    tracker(workload).or_else(by_kubectl).or_else(|| applies(workload).then_some("server-side apply"))
}

/// Tells whether a server-side apply may own a part of the spec.
fn applies(workload: &Workload<'_>) -> bool {
    managed_fields(&workload.object).any(|entry| {
        let is_set = |value: Option<&'_ Value>| value.is_some_and(|value| !value.is_null());
        let fields = entry.get("fieldsV1");
        text_in(entry, "operation") == Field::Set("Apply")
            && matches!(text_in(entry, "subresource"), Field::Unset | Field::Set(""))
            && (!is_set(fields) || is_set(fields.and_then(|fields| fields.get("f:spec"))))
    })
}

/// Tells whether a server-side apply may own a part of the spec, and no manager owns the field.
pub(crate) fn is_left_out(workload: &Workload<'_>, field: &Pointer) -> bool {
    let field = owned(field);
    let owns = |entry: &Value| entry.get("fieldsV1").is_some_and(|set| field.find(set).is_some());
    applies(workload) && !managed_fields(&workload.object).any(owns)
}

/// Tells whether Helm applied the object and will do so again, without leaving its manifest in the object.
///
/// helm/helm 3: pkg/kube/client.go merges the manifests of two releases, which are in a Secret;
/// pkg/action/validate.go marks all objects of a release. A hook is created anew on each release. Helm 4 uses
/// server-side apply.
pub(crate) fn applies_unseen(origin: Origin, workload: &Workload<'_>) -> bool {
    let by_helm = workload.label("app.kubernetes.io/managed-by") == Some("Helm")
        || workload.annotation("meta.helm.sh/release-name").is_some();
    let seen = || workload.annotation(LAST_APPLIED).is_some() || applies(workload);
    origin == Origin::Admission && by_helm && !seen() && hook(workload).is_none()
}

/// Returns a field as `fieldsV1` of managedFields names it; none of the steps may be an item of a list.
pub fn owned(field: &Pointer) -> Pointer {
    field.tokens().into_iter().fold(Pointer::root(), |place, token| match token {
        Token::Key(key) => place.key(&format!("f:{key}")),
        Token::Index(index) => &place / *index,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::{Value, json};

    fn of(metadata: &Value) -> (Option<&'static str>, Option<&'static str>) {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}});
        let workload = Workload::from_object(&job).expect("a Job");
        (tracker(&workload), applied_again(&workload))
    }

    #[test]
    fn tools_are_known_by_their_marks() {
        let managed = |manager: &str| json!({"managedFields": [{"manager": manager, "operation": "Update"}]});
        for (metadata, tool) in [
            (json!({"annotations": {"argocd.argoproj.io/tracking-id": "a:batch/Job:ns/train"}}), "Argo CD"),
            (json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}), "Flux"),
            (json!({"annotations": {"argocd.argoproj.io/sync-wave": "1"}}), "Argo CD"),
            (json!({"annotations": {"argocd.argoproj.io/sync-options": "Replace=true"}}), "Argo CD"),
            (json!({"annotations": {"argocd.argoproj.io/compare-options": "IgnoreExtraneous"}}), "Argo CD"),
            (json!({"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}}), "Flux"),
            (json!({"annotations": {"configmanagement.gke.io/managed": "enabled"}}), "Config Sync"),
            (
                json!({"annotations": {"objectset.rio.cattle.io/id": "b", "meta.helm.sh/release-name": "b"}}),
                "Fleet",
            ),
            (json!({"labels": {"kapp.k14s.io/association": "v1.0"}}), "kapp"),
            (json!({"labels": {"app.kubernetes.io/managed-by": "pulumi"}}), "Pulumi"),
            (json!({"labels": {"crossplane.io/composite": "x"}}), "Crossplane"),
            (json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}), "Helm"),
            (managed("pulumi-kubernetes-1a2b"), "Pulumi"),
            (managed("crossplane-kubernetes-provider"), "Crossplane"),
            (json!({"annotations": {"argocd.argoproj.io/hook": "PreSync"}}), "Argo CD"),
            (managed("configsync.gke.io"), "Config Sync"),
            (managed("Terraform"), "Terraform"),
            (managed("HashiCorp"), "Terraform"),
            (managed("apiextensions.crossplane.io/composed/0a1b"), "Crossplane"),
        ] {
            assert_eq!(of(&metadata), (Some(tool), Some(tool)), "{metadata}");
        }
        for metadata in [
            json!({}),
            json!({"annotations": {"configmanagement.gke.io/managed": "disabled"}}),
            json!({"labels": {"app.kubernetes.io/managed-by": "kueue", "app.kubernetes.io/name": "helm"}}),
            json!({"annotations": {"kapp.k14s.io/app": "a label, not an annotation"}}),
            managed("kubectl-create"),
            managed("Terraformer"),
        ] {
            assert_eq!(of(&metadata), (None, None), "{metadata}");
        }
    }

    #[test]
    fn what_was_applied_is_applied_again() {
        let applied = json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}});
        assert_eq!(of(&applied), (None, Some("`kubectl apply`")));
        let entry = |entry: &Value| of(&json!({"managedFields": [entry]}));
        let spec = json!({"f:spec": {"f:template": {}}});
        assert_eq!(
            entry(&json!({"manager": "kubectl", "operation": "Apply", "fieldsV1": spec})),
            (None, Some("server-side apply"))
        );
        assert_eq!(
            entry(&json!({"manager": "kubectl", "operation": "Apply"})),
            (None, Some("server-side apply")),
            "of unknown fields"
        );
        assert_eq!(
            entry(&json!({"manager": "kubectl", "operation": "Update", "fieldsV1": spec})),
            (None, None)
        );
        assert_eq!(
            entry(&json!({"manager": "x", "operation": "Apply", "subresource": "status", "fieldsV1": {}})),
            (None, None)
        );
        assert_eq!(
            entry(&json!({"manager": "x", "operation": "Apply", "fieldsV1": {"f:metadata": {}}})),
            (None, None),
            "labels only"
        );
    }
}
