//! The pods of a template can be made: the API server accepts them.
//!
//! ## Why
//!
//! The operator is refused each pod, and nobody notices: `kubectl apply` says `created`, since the template in a custom resource
//! is not validated like that of a Job. The training operator and the MPI operator write no condition at all then, so that
//! neither the deadline nor the success or failure of another role is seen, and pods of the other role hold their GPUs until
//! somebody looks.
//!
//! ## Bad
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 2
//!       restartPolicy: OnFailure
//!       template:
//!         spec:
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [python, train.py]
//!             resources:
//!               requests: {nvidia.com/gpu: 1}
//!               limits: {nvidia.com/gpu: 8}
//! ```
//!
//! ## Good
//!
//! ```yaml
//! apiVersion: kubeflow.org/v1
//! kind: PyTorchJob
//! metadata: {name: train}
//! spec:
//!   runPolicy: {activeDeadlineSeconds: 86400, cleanPodPolicy: Running}
//!   pytorchReplicaSpecs:
//!     Worker:
//!       replicas: 2
//!       restartPolicy: OnFailure
//!       template:
//!         spec:
//!           tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
//!           containers:
//!           - name: pytorch
//!             image: registry.example.com/trainer:v1
//!             command: [python, train.py]
//!             resources:
//!               limits: {nvidia.com/gpu: 8}
//! ```
//!
//! ## Fix
//!
//! None: what is right is up to the author.
//!
//! ## Details
//!
//! Templates of all kinds but Job and CronJob, which the API server validates itself, get the defaults and checks of the template
//! of a Job, as Kubernetes 1.36 has them, and the Jobs in a JobSet, a training runtime and a ScaledJob those of a Job. The words
//! are the API server's, and the path is that in the object.
//!
//! * **What is wrong where it stands is denied**: a request above its limit, an env name with `=`, a port of 70000, a probe
//!   without a handler.
//! * **What is missing is a warning**, since another webhook may add it to the pods: a mount of a volume that is not there, a
//!   container without an image. The parameter `missing: deny` is for clusters in which nothing adds that.
//! * What the operator writes or adds itself does not count: the `restartPolicy` of templates of kubeflow.org, the volumes
//!   `ssh-auth` and `mpi-job-config` of an MPIJob, the claims of a JobSet, those that KubeRay and Trainer add.
//! * What the schema of the resource or the operator refuses itself is said by `api-server` and the check of the operator only.
//!   Volcano's webhook refuses a Job with such a template, so that `kubectl apply` fails.
//! * In a training runtime, which runs nothing by itself, and for kinds whose operator is not known, all are warnings.
//! * What another rule denies of a field is said by that rule alone.
//! * A placeholder is not judged.
//! * A `spec` with more than 10,000 values in it is not validated, and a warning says so.
//!
//! What follows is what `jobgate simulate --what create-refused` says. With the operators of kubeflow.org, it was seen with
//! training-operator 1.9.4 and mpi-operator 0.8.0. What a webhook for pods, a quota, the Pod Security Standard or a LimitRange of
//! the namespace refuses cannot be known from the manifest.
//!
//! ## References
//!
//! * <https://kubernetes.io/docs/concepts/workloads/pods/#pod-templates>
//! * <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/>

use crate::judge::api;
use crate::judge::finding::Level;
use crate::judge::needs::Needs;
use crate::judge::policy::Action;
use crate::judge::rule::{Cx, Exportable, Kinds, Rule, Word};
use crate::kinds::Deadline;
use crate::text::number::thousands;

const MISSING: Word = Word::new(
    "missing",
    "What follows where a template lacks something that another webhook may add to the pods, such as a volume or an image: \
     `warn`, or `deny` where none does.",
    &["warn", "deny"],
);

pub(super) fn rule() -> Rule {
    Rule {
        problem: "Pods that the API server refuses".into(),
        summary: "The pods of a template can be made: the API server accepts them".into(),
        kinds: Kinds::CustomPods,
        // Lowered to a warning for what may be added to the pods.
        default: Action::Deny,
        needs: Needs::CUSTOM_CONTAINERS,
        params: &[MISSING.0],
        // What is filled in is valid, and the rest stays as it is.
        ignores_fills: true,
        gives_way: true,
        export: Exportable::No("it checks what the API server checks of pods"),
        ..Rule::new("pod-template-valid", check)
    }
}

fn check(cx: &mut Cx<'_>) {
    let workload = cx.workload;
    let Some(object) = workload.object.value else { return };
    let kind = workload.kind;
    let may_be_added = cx.word(&MISSING) != "deny";
    let runs_nothing = matches!(kind.deadline, Deadline::OfOthers { .. });
    let mut unmade = Some(kind.made.unmade).filter(|unmade| !unmade.is_empty());
    let mut last = None;
    let Some(refused) = api::refused_pods(kind, object) else {
        let most = thousands(api::MOST_VALUES);
        let message = format!("the templates are not validated: `spec` has more than {most} values in it");
        cx.report(&workload.object.pointer, message).help("make the templates smaller").at_most(Level::Warn);
        return;
    };
    for refused in refused {
        let said = refused.finding;
        // Of a value, the API server says everything that is wrong with it.
        let place = Some((said.path.clone(), said.pointer.clone()));
        let is_same = last == place;
        last = place;
        if is_same || cx.partial && refused.is_missing {
            continue;
        }
        // Once is enough.
        let message = match unmade.take() {
            Some(unmade) => format!("{}; {unmade}", said.message),
            None => said.message.into_owned(),
        };
        let finding = cx.report(&workload.object.pointer.join(&said.pointer), message);
        finding.help(said.help);
        (finding.part, finding.items) = (said.part, said.items);
        finding.path = workload.object.pointer.join(&said.path);
        if refused.is_missing && may_be_added || runs_nothing {
            finding.at_most(Level::Warn);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::controllers::object_story::lower_object;
    use crate::controllers::story::Ending;
    use crate::judge::simulation::{self, ProgramDefaults};
    use crate::kinds::Workload;
    use crate::text::value::{Value, json};

    /// What comes of an object with a deadline whose pods are refused, in the model.
    fn ending(object: &Value) -> Ending {
        let workload = Workload::from_object(object).expect("a workload");
        let simulated = simulation::object(&workload, &[], &ProgramDefaults::default()).expect("an operator");
        assert!(!simulated.refused.is_empty(), "{object}");
        let script = lower_object(&simulated.subject, &[], &simulated.assumptions);
        simulated.story().tell(&script).expect("an end").ending
    }

    #[test]
    fn what_follows_is_what_the_model_says() {
        let template = |policy: &str| {
            let container = json!({"name": "pytorch", "image": "i", "env": [{"name": "A=B"}]});
            json!({"spec": {"restartPolicy": policy, "containers": [container]}})
        };
        let worker = json!({"replicas": 2, "template": template("Never")});
        let policy = json!({"activeDeadlineSeconds": 600});
        let object = |version: &str, kind: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let spec = json!({"runPolicy": policy.clone(), "pytorchReplicaSpecs": {"Worker": worker.clone()}});
        assert_eq!(ending(&object("kubeflow.org/v1", "PyTorchJob", spec)), Ending::RunsOn, "the deadline is not seen");
        let launcher = json!({"template": {"spec": {"containers": [{"name": "l", "image": "i"}]}}});
        let spec = json!({"runPolicy": policy, "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker}});
        assert_eq!(ending(&object("kubeflow.org/v2beta1", "MPIJob", spec)), Ending::RunsOn, "the deadline is not seen");
        let job = json!({"name": "a", "template": {"spec": {"activeDeadlineSeconds": 600, "template": template("Never")}}});
        let spec = json!({"replicatedJobs": [job]});
        assert_eq!(ending(&object("jobset.x-k8s.io/v1alpha2", "JobSet", spec)), Ending::RunsOn, "no Job has started");
        let head = json!({"rayStartParams": {}, "template": template("Always")});
        let spec = json!({
            "entrypoint": "python x.py", "activeDeadlineSeconds": 600, "rayClusterSpec": {"headGroupSpec": head},
        });
        assert_eq!(ending(&object("ray.io/v1", "RayJob", spec)), Ending::Fails, "its deadline ends it");
    }

    #[test]
    fn what_is_too_large_to_be_validated_is_not_called_valid() {
        let is_validated = |args: usize| {
            let container = json!({"name": "pytorch", "image": "i", "args": vec!["x"; args]});
            let worker = json!({"replicas": 2, "template": {"spec": {"containers": [container]}}});
            let object = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": {"pytorchReplicaSpecs": {"Worker": worker}}});
            let workload = Workload::from_object(&object).expect("a workload");
            let simulated = simulation::object(&workload, &[], &ProgramDefaults::default()).expect("an operator");
            simulated.is_validated
        };
        assert!(is_validated(10) && !is_validated(10_000));
    }
}
