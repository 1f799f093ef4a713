//! What `jobgate dry-run` says of manifests with one thing wrong is what the API server says: each place of
//! some full manifests is taken out, and set to values of other types and out of range, one at a time; and so
//! it is of real manifests.

use jobgate::judge::api;
use jobgate::judge::checks::PLACEHOLDER;
use jobgate::kinds::{Kind, Path};
use jobgate::text::value::{Value, json};
use jobgate::text::yaml;

use crate::api::Api;
use crate::cel::{documents, files};
use crate::cluster::shared;
use crate::refusals::{Answer, is_custom, ours, theirs};
use crate::scenario::{Needs, Place, Scenario};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario::new("validation_agrees_on_mutated_manifests", created).ungated().needs(Needs::CustomResources),
    Scenario::new("validation_agrees_on_mutated_updates", updated).ungated().needs(Needs::CustomResources),
    Scenario::new("validation_agrees_on_the_corpus", corpus).ungated().needs(Needs::CustomResources),
];

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: full
  labels: {team: vision}
  annotations: {example.com/owner: somebody}
  finalizers: [example.com/hold]
spec:
  activeDeadlineSeconds: 3600
  backoffLimitPerIndex: 2
  maxFailedIndexes: 3
  completionMode: Indexed
  completions: 4
  parallelism: 2
  suspend: true
  ttlSecondsAfterFinished: 60
  podReplacementPolicy: Failed
  successPolicy:
    rules: [{succeededIndexes: "0-1", succeededCount: 1}]
  podFailurePolicy:
    rules:
    - action: FailJob
      onExitCodes: {containerName: trainer, operator: In, values: [3, 42]}
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget, status: "True"}]
  template:
    metadata:
      labels: {app: train}
    spec:
      restartPolicy: Never
      activeDeadlineSeconds: 600
      terminationGracePeriodSeconds: 10
      dnsPolicy: ClusterFirst
      serviceAccountName: trainer
      priorityClassName: high
      hostname: worker
      subdomain: workers
      nodeSelector: {pool: gpu}
      imagePullSecrets: [{name: registry}]
      securityContext: {runAsUser: 1000, fsGroup: 1000, runAsNonRoot: true, supplementalGroups: [7]}
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      - {key: spot, operator: Equal, value: "yes", effect: NoExecute, tolerationSeconds: 30}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: train}}}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [gpu]}]}]
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 5
            podAffinityTerm: {topologyKey: host, labelSelector: {matchExpressions: [{key: app, operator: Exists}]}}
      initContainers:
      - name: fetch
        image: registry.example.com/fetch:1
        restartPolicy: Always
        startupProbe: {exec: {command: [test, -f, /ready]}}
      containers:
      - name: trainer
        image: registry.example.com/train:1
        command: [python]
        args: [-m, train]
        workingDir: /work
        imagePullPolicy: IfNotPresent
        ports: [{name: rdzv, containerPort: 29500, protocol: TCP}]
        env:
        - {name: A, value: b}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: a, optional: true}}}
        - {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "1"}}}
        envFrom: [{prefix: X_, configMapRef: {name: settings}}]
        resources:
          limits: {cpu: "2", memory: 4Gi, nvidia.com/gpu: "1"}
          requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: "1"}
        volumeMounts:
        - {name: ckpt, mountPath: /ckpt, subPath: run}
        - {name: shm, mountPath: /dev/shm}
        - {name: settings, mountPath: /etc/settings, readOnly: true}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        livenessProbe: {httpGet: {path: /live, port: 8080}, initialDelaySeconds: 5, periodSeconds: 10}
        readinessProbe: {tcpSocket: {port: rdzv}, failureThreshold: 2}
        lifecycle: {preStop: {exec: {command: [sync]}}}
      volumes:
      - {name: ckpt, persistentVolumeClaim: {claimName: ckpt}}
      - {name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
      - {name: settings, configMap: {name: settings, defaultMode: 420, items: [{key: a, path: b}]}}
      - {name: keys, secret: {secretName: keys, optional: true}}
      - {name: host, hostPath: {path: /data, type: Directory}}
      - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}}}}
      - name: all
        projected:
          sources:
          - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
          - serviceAccountToken: {path: token, expirationSeconds: 600}
      - {name: nfs, nfs: {server: files.example.com, path: /export}}
      - {name: csi, csi: {driver: files.example.com, readOnly: true}}
"#;

const CRON_JOB: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: full}
spec:
  schedule: "0 3 * * *"
  timeZone: Europe/Paris
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 60
  successfulJobsHistoryLimit: 2
  failedJobsHistoryLimit: 1
  suspend: false
  jobTemplate:
    metadata: {labels: {team: vision}}
    spec:
      activeDeadlineSeconds: 600
      backoffLimit: 1
      template:
        spec:
          restartPolicy: OnFailure
          containers: [{name: main, image: "registry.example.com/main:1"}]
"#;

const PY_TORCH_JOB: &str = r#"
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: full}
spec:
  nprocPerNode: "2"
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvBackend: c10d}
  runPolicy:
    activeDeadlineSeconds: 600
    backoffLimit: 2
    cleanPodPolicy: Running
    ttlSecondsAfterFinished: 60
    suspend: false
    schedulingPolicy: {minAvailable: 2, queue: gpu}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/train:1
            ports: [{name: pytorchjob-port, containerPort: 23456}]
            resources: {limits: {nvidia.com/gpu: 1}}
    Worker:
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          tolerations: [{key: a, operator: Exists}]
          imagePullSecrets: [{name: registry}]
          containers:
          - name: pytorch
            image: registry.example.com/train:1
            env: [{name: A, value: b}, {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: a}}}]
            envFrom: [{configMapRef: {name: settings}}]
            volumeMounts: [{name: settings, mountPath: /etc/settings}]
          volumes: [{name: settings, configMap: {name: settings}}]
"#;

/// Returns a template with most that there may be in one.
pub(crate) fn template_of_job() -> Value {
    let job = yaml::documents(JOB.as_bytes()).next().expect("a document").expect("YAML").value;
    job["spec"]["template"].clone()
}

/// Returns every place of an object but those by which it is addressed, as JSON Pointers.
pub(crate) fn places(object: &Value) -> Vec<String> {
    let mut all = Vec::new();
    places_in(object, "", &mut all);
    all.retain(|place| {
        !["/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"]
            .contains(&place.as_str())
    });
    all
}

fn places_in(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut go = |key: &str, value: &Value| {
        let here = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(here.clone());
        places_in(value, &here, found);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| go(key, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| go(&index.to_string(), value));
        }
        _ => {}
    }
}

/// Returns the object with one thing changed at a place, each with what was done: taken out, once more, or
/// one of the values in its place.
pub(crate) fn mutants(object: &Value, place: &str, values: &[Value]) -> Vec<(String, Value)> {
    let (parent, key) = place.rsplit_once('/').expect("a place");
    let key = key.replace("~1", "/").replace("~0", "~");
    let mut all = Vec::new();
    let mut add = |what: String, change: &dyn Fn(&mut Value)| {
        let mut changed = object.clone();
        change(changed.pointer_mut(parent).expect("the parent"));
        all.push((what, changed));
    };
    add("taken out".to_owned(), &|parent| match parent {
        Value::Object(map) => drop(map.remove(&key)),
        Value::Array(items) => drop(items.remove(key.parse().expect("an index"))),
        _ => {}
    });
    add("doubled".to_owned(), &|parent| match parent {
        Value::Object(map) => drop(map.insert(format!("{key}x"), map[&key].clone())),
        Value::Array(items) => items.push(items[key.parse::<usize>().expect("an index")].clone()),
        _ => {}
    });
    let custom = is_custom(object);
    for value in values {
        // Two things about custom resources we do not tell: that a field inside of a number is unknown, and
        // that an item is null.
        let item = key.parse::<usize>().is_ok();
        if custom && (value == &json!({"x": "y"}) || item && value.is_null()) {
            continue;
        }
        let set = |parent: &mut Value| match parent {
            Value::Object(map) => drop(map.insert(key.clone(), value.clone())),
            Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value.clone(),
            _ => {}
        };
        add(value.to_string().chars().take(40).collect(), &set);
    }
    all
}

/// What is put in the place of every value.
pub(crate) fn values() -> Vec<Value> {
    let texts = ["", "x", "No_Such Thing!", "-1", &"x".repeat(300)].map(Value::from);
    let numbers = [0, -1, 3, 70_000, 3_000_000_000_i64].map(Value::from);
    let others =
        [json!(null), json!(1.5), json!(true), json!([]), json!(["x"]), json!({}), json!({"x": "y"})];
    texts.into_iter().chain(numbers).chain(others).collect()
}

/// Counts answers, and keeps those that differ.
#[derive(Default)]
struct Comparison {
    same: usize,
    differing: Vec<String>,
}

impl Comparison {
    fn add(&mut self, what: &str, (status, answer): (u16, Value), object: &Value, old: Option<&Value>) {
        // Some objects make the API server panic, so that it says nothing.
        if status == 0 {
            return;
        }
        let custom = is_custom(object);
        let theirs = in_words_of_1_36(theirs(status.into(), &answer["details"]["causes"], custom));
        let ours = ours(object, old);
        match (&ours, &theirs) {
            // A number that is too large is rejected without a word about where.
            (Answer::Rejected(_), Answer::Rejected(said)) if custom && said.is_empty() => self.same += 1,
            (ours, theirs) if ours == theirs => self.same += 1,
            (Answer::Rejected(ours), Answer::Rejected(theirs)) => {
                let (more, less): (Vec<_>, Vec<_>) =
                    (ours.difference(theirs).collect(), theirs.difference(ours).collect());
                self.differing.push(format!("{what}: only we say {more:?}, only the server {less:?}"));
            }
            _ => self.differing.push(format!("{what}: we say {ours:?}, the server ({status}) {theirs:?}")),
        }
    }

    #[track_caller]
    fn end(self, least: usize) {
        println!("{} answers are the same, {} differ", self.same, self.differing.len());
        let shown: Vec<String> =
            self.differing.iter().take(20).map(|line| line.chars().take(600).collect()).collect();
        assert!(self.differing.is_empty(), "{} answers differ:\n{}", self.differing.len(), shown.join("\n"));
        assert!(self.same >= least, "only {} questions were asked", self.same);
    }
}

/// The minor versions of Kubernetes whose validation Jobgate knows by heart, but for [`in_words_of_1_36`]; that of
/// others differs in words and in what is newer.
const KNOWN: [&str; 2] = ["36", "37"];

fn is_known(place: &Place<'_>) -> bool {
    let version = place.cluster.admin.run(&["get", "--raw", "/version"], "").quiet().json();
    let known = KNOWN.iter().any(|minor| version["minor"] == *minor);
    if !known {
        println!(
            "skipped: this API server is {}, and its validation is compared for 1.{}",
            version["gitVersion"],
            KNOWN.join(" and 1.")
        );
    }
    known
}

/// Words an answer as 1.36 does: since 1.37, an owner reference without a value is named by its index, as a
/// required value.
fn in_words_of_1_36(answer: Answer) -> Answer {
    let Answer::Rejected(causes) = answer else { return answer };
    let known = |(place, said): (String, Option<String>)| {
        let field = place.strip_prefix("metadata.ownerReferences[").and_then(|rest| rest.split_once("]."));
        match (field, said.as_deref()) {
            (Some((_, field)), Some("Required value: must not be empty")) => {
                let what = if field == "apiVersion" { "version must" } else { "must" };
                let said = format!("Invalid value: \"\": {what} not be empty");
                (format!("metadata.ownerReferences.{field}"), Some(said))
            }
            _ => (place, said),
        }
    };
    Answer::Rejected(causes.into_iter().map(known).collect())
}

fn parsed(source: &str, place: &Place<'_>) -> Value {
    let mut object = yaml::documents(source.as_bytes()).next().expect("a document").expect("YAML").value;
    object["metadata"]["namespace"] = place.namespace.as_str().into();
    object
}

fn created(place: &Place<'_>) {
    if !is_known(place) {
        return;
    }
    let api = Api::admin(place.cluster);
    let mut comparison = Comparison::default();
    for source in [JOB, CRON_JOB, PY_TORCH_JOB] {
        let object = parsed(source, place);
        for pointer in places(&object) {
            for (what, mutant) in mutants(&object, &pointer, &values()) {
                let answer = api.strict_dry_run(&place.namespace, &mutant);
                comparison.add(&format!("{pointer} {what}"), answer, &mutant, None);
            }
        }
    }
    comparison.end(6000);
}

fn updated(place: &Place<'_>) {
    if !is_known(place) {
        return;
    }
    let api = Api::admin(place.cluster);
    let mut comparison = Comparison::default();
    let mut ran = parsed(JOB, place);
    ran["metadata"]["name"] = "ran".into();
    ran["spec"]["suspend"] = false.into();
    for object in [ran, parsed(JOB, place), parsed(CRON_JOB, place), parsed(PY_TORCH_JOB, place)] {
        let (kind, name) = (
            Kind::from_object(&object).expect("a kind"),
            object["metadata"]["name"].as_str().expect("a name"),
        );
        place.create(&object).ok();
        let stored = place.stored(&format!("{}/{name}", kind.resource));
        // What only the server writes a manifest never takes out.
        let ours = |pointer: &String| {
            pointer != "/spec"
                && !["/spec/template", "/spec/template/metadata", "/spec/template/metadata/labels"]
                    .contains(&pointer.as_str())
        };
        for pointer in
            places(&object).into_iter().filter(ours).filter(|pointer| stored.pointer(pointer).is_some())
        {
            for (what, mut mutant) in
                mutants(&stored, &pointer, &[json!(null), json!("x"), json!(-1), json!(3), json!(true)])
            {
                // A controller may write the status meanwhile; of custom resources the server wants to know
                // which version is meant.
                if kind.is_built_in() {
                    drop(
                        mutant["metadata"]
                            .as_object_mut()
                            .and_then(|metadata| metadata.remove("resourceVersion")),
                    );
                }
                let answer = api.strict_update(&place.namespace, name, &mutant);
                comparison.add(&format!("{name} {pointer} {what}"), answer, &mutant, Some(&stored));
            }
        }
    }
    comparison.end(3000);
}

fn corpus(place: &Place<'_>) {
    if !is_known(place) {
        return;
    }
    let Some(folder) = shared("corpus") else {
        println!("skipped: no shared data here (corpus); set JOBGATE_SHARED to its folder");
        return;
    };
    let api = Api::admin(place.cluster);
    let mut comparison = Comparison::default();
    for file in files(&folder) {
        for mut object in documents(&file) {
            let Some(adapter) = Kind::from_object(&object) else { continue };
            let served = object["apiVersion"] == format!("{}/{}", adapter.group, adapter.version)
                && object["metadata"].is_object();
            // What a tool has yet to put in is not held against its author.
            let is_cut = object["metadata"]["name"] == "...";
            if !served || is_cut || api::check(&object).iter().any(|finding| finding.rule == PLACEHOLDER) {
                continue;
            }
            // Kubernetes' own test data sets every field, and many that exclude each other; and labels of a
            // Job that ran elsewhere.
            if file.to_string_lossy().contains("/testdata/") || object["metadata"]["uid"].is_string() {
                continue;
            }
            // The definition here is of a later release.
            let has = |(field, _): &(Path, &str)| object.pointer(&format!("/{}", field.join("/"))).is_some();
            if adapter.older_fields.iter().any(has) {
                continue;
            }
            object["metadata"]["namespace"] = place.namespace.as_str().into();
            let answer = api.strict_dry_run(&place.namespace, &object);
            // Nobody has a definition of the kind, or it is of another version.
            if answer.0 == 404 {
                continue;
            }
            comparison.add(&file.display().to_string(), answer, &object, None);
        }
    }
    comparison.end(500);
}
