//! Searches for texts that cost the linter more than their bytes: each unit of YAML or JSON again and again, by
//! itself and in each of many places of a manifest, and with other names each time; and items in the lists of
//! pods and kinds, as many as a document may have.
//!
//! The measure is as for objects: steps of the meter and bytes held at once, for a byte of text, and how both
//! grow. A process of its own measures them, since allocations are counted for all of it. Whether what is found
//! is also said is the business of other tests.
//!
//! `JOBGATE_HOSTILE=time` measures whole processes with a mebibyte of each text instead; it wants a release
//! build.

use std::fmt::Write as _;

use jobgate::judge::policy::Policy;
use jobgate::local::lint::{self, Claims, Input, Options};
use jobgate::report::{self, Format};
use jobgate::text::meter::{self, Bounds};
use jobgate::text::value::Value;
use jobgate::text::yaml;

use super::whole::{self, Table};
use super::{ALL, HELD};

/// Bytes of a text, and of the larger one that it is compared with, in the gate.
const SIZES: [usize; 2] = [24 << 10, 96 << 10];
/// The most bytes held at once for a byte of text, besides what short texts may take.
const MOST_HELD_PER_BYTE: usize = 54;
/// What a short text may have held at once, whatever is in it: findings up to the bounds of one object.
const MOST_HELD: usize = 6 << 20;
/// The most steps for a byte of text, besides those of an object.
const MOST_STEPS_PER_BYTE: f64 = 12.0;
/// The most steps for a value or a key of a text that has so many that it takes more for a byte: how many a document
/// may have is bounded, and with it what the whole of it takes.
const MOST_STEPS_PER_VALUE: f64 = 64.0;
/// How much more than the input the steps may grow.
const GROWTH: f64 = 1.5;
/// What steps of a text are too few to grow by more than chance.
const FEW_STEPS: u64 = 100_000;
/// One of so many texts is tried in the gate.
const IN_TURN: usize = 3;

/// Values in brackets, or quotes: what is before, what is repeated, and what is behind. `§` is another word each
/// time.
const FLOWS: [(&str, &str, &str); 45] = [
    ("[", "[],", "]"),
    ("[", "{},", "]"),
    ("[", "a,", "]"),
    ("[", "1,", "]"),
    ("[", "~,", "]"),
    ("[", "[a],", "]"),
    ("[", "{a},", "]"),
    ("[", "{a: 1},", "]"),
    ("[", "a: ,", "]"),
    ("[", ": ,", "]"),
    ("[", "?,", "]"),
    ("[", ":,", "]"),
    ("{", "§,", "}"),
    ("{", "§: a,", "}"),
    ("{", "§: {§},", "}"),
    ("{", "a,", "}"),
    ("{", "a,b,c,", "}"),
    ("{", "§,§: 1,a,", "}"),
    ("[", "{a,a},", "]"),
    ("[", "{a,a,a,a},", "]"),
    ("[", "\"\",", "]"),
    ("[", "'',", "]"),
    ("[", "\"\\n\",", "]"),
    ("\"", "\\n", "\""),
    ("\"", "a", "\""),
    ("[", "&§ a,", "]"),
    ("[", "&a ,", "]"),
    ("[&a x,", "*a ,", "]"),
    ("[", "! ,", "]"),
    ("[", "!a ,", "]"),
    ("[", "!!str ,", "]"),
    ("[", "!!binary aGk=,", "]"),
    ("[&a {b: 1},", "{<<: *a},", "]"),
    ("[&a {b: 1, c: 2}, {", "<<: *a,", "}]"),
    ("[&a {b: 1, c: 2},", "{<<: [*a,*a]},", "]"),
    ("", "[", ""),
    ("", "[,", ""),
    ("", "{", ""),
    ("[", "a,", ""),
    ("[", "a\n ,", "]"),
    ("[", "\"a\n b\",", "]"),
    ("[", "a,# \n  ", "]"),
    ("[", "\"<§>\",", "]"),
    ("[", "\u{1f680},", "]"),
    ("[", "{kind: Job, apiVersion: batch/v1},", "]"),
];

/// Where a value in brackets stands: `@` is its place.
const PLACES: [(&str, &str); 14] = [
    ("alone", "@\n"),
    ("a field", "a: @\n"),
    ("annotations", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: @}\n"),
    ("an annotation", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: {a: @}}\n"),
    ("labels", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: @}\n"),
    ("an unknown field", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {x: @}\n"),
    ("the status", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nstatus: {x: @}\n"),
    ("a ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: @\n"),
    ("a Deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: @\n"),
    ("another kind", "apiVersion: x.io/v1\nkind: Run\nspec: {restartPolicy: Never, containers: @}\n"),
    ("a list of objects", "apiVersion: v1\nkind: List\nitems: @\n"),
    ("a list of Jobs", "apiVersion: batch/v1\nkind: JobList\nitems: @\n"),
    ("a Template", "apiVersion: v1\nkind: Template\nobjects: @\n"),
    ("a claim", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: @\n"),
];

/// Lines, and what is longer or shorter than one.
const LINES: [&str; 118] = [
    "  a:\n",
    "a:\n",
    " a:\n",
    "a\n",
    "  a\n",
    "- a:\n",
    "- \n",
    "-\n",
    "a: \"\n",
    "a: '\n",
    "a: [\n",
    "a: {\n",
    "a: 1\n",
    "a: b\n",
    "a: 1\nb: 1\n",
    "a: {}\n",
    "a: []\n",
    "a:\n b:\n",
    "\"a\":\n",
    "1:\n'1':\n",
    "§:\n",
    "§: 1\n",
    "§: a\n",
    "§: []\n",
    "§: {}\n",
    "§: &§ 1\n",
    "- &§\n",
    "§: <§>\n",
    "§: TODO\n",
    "§: ${A}\n",
    "a:\t1\n",
    "a:\t\n",
    "\t\n",
    "a:\n\tb\n",
    "-\t\n",
    "-\t1\n",
    "- - - -\n",
    "- 1\n",
    "- -\n",
    "- a: 1\n",
    "? a\n",
    "? a\n: b\n",
    "? : ? :\n",
    "---\n",
    "----\n",
    "a: 1\n---\n",
    "a\n---\n",
    "[\n---\n",
    "a: [\n---\n",
    "kind: Job\n---\n",
    "apiVersion: batch/v1\nkind: Job\n---\n",
    "...\n",
    "a\n...\n",
    "%A\n---\n",
    "{{a}}\n---\n",
    "--- a\n",
    "kind: ConfigMap\napiVersion: v1\n---\n",
    "kind: X\napiVersion: x/v1\n---\n",
    "[]\n---\n",
    "kind: Job\napiVersion: batch/v1\na: 1\na: 1\n---\n",
    "~\n---\n",
    "a: @\n---\n",
    "kind: Job\n\0\n---\n",
    "kind: Job\n[\n---\n",
    "kind: Job\n{{a}}\n---\n",
    "spec: {}\n---\n",
    "a: |\n",
    "a: |\n  b\n",
    "- |\n  b\n",
    "- >\n b\n c\n",
    "#\n",
    "# a\n",
    "a: 1 # b\n",
    "\n",
    "\r\n",
    "\r",
    "- a\r\n",
    "- a\r",
    "- a\u{85}",
    "\u{85}",
    "- a\u{2028}\n",
    "\u{feff}",
    "- \u{feff}a\n",
    "\0",
    "- a\0\n",
    "{{ a }}\n",
    "a: {{ a }}\n",
    "{{- if a }}\n",
    "{% a %}\n",
    "{{",
    "{{/*",
    "{\"a\":1}\n",
    "{}\n",
    "{}",
    "{\"kind\":\"Job\",\"kind\":\"Job\"}\n",
    "{\"a\":\n",
    "{\"kind\":\"Job\"]\n",
    "{\n",
    "{\"",
    "{\"kind\":\"Job\",\"apiVersion\":\"batch/v1\"}\n",
    "a ",
    "\"a",
    "\"",
    "'",
    "&a ",
    "*a ",
    "! ",
    "@",
    "|",
    ": ",
    ",",
    "? ",
    "- ",
    "- \"a\nb\"\n",
    "- \"\\'\"\n",
    "- \"\"#\n",
    "- []#\n",
    "- {kind: Job, apiVersion: batch/v1}\n",
];

/// What stands before such lines, and how deep they are then.
const HEADS: [(&str, &str, usize); 6] = [
    ("alone", "", 0),
    ("behind a Job", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n", 0),
    ("the spec", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n", 2),
    ("annotations", "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\n  annotations:\n", 4),
    ("a list of objects", "apiVersion: v1\nkind: List\nitems:\n", 0),
    (
        "a script",
        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - args:\n        - |\n",
        10,
    ),
];

/// Whole documents.
const DOCUMENTS: [(&str, &str); 3] = [
    (
        "small Jobs",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: §\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        image: b\n      restartPolicy: Never\n---\n",
    ),
    (
        "claims",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: §}\nspec: {accessModes: [ReadWriteOnce]}\n---\n",
    ),
    (
        "AppWrappers",
        "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nspec: {components: [{template: {kind: Job, apiVersion: batch/v1}}]}\n---\n",
    ),
];

/// Small objects with some findings each: the items of a list, or documents.
const OBJECTS: [&str; 12] = [
    r#"{"kind":"Job","apiVersion":"batch/v1","spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"image":"i","resources":{"limits":{"nvidia.com/gpu":8}}}]}}}}"#,
    r#"{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"§"},"spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"name":"§","image":"i","resources":{"limits":{"nvidia.com/gpu":8}}}]}}}}"#,
    r#"{"kind":"Job","apiVersion":"batch/v1","spec":{"template":{"spec":{"restartPolicy":"Always"}}}}"#,
    r#"{"kind":"Job","apiVersion":"batch/v1","spec":{"template":{"spec":{"containers":[{"image":"i"}]}}}}"#,
    r#"{"kind":"Job","apiVersion":"batch/v1","spec":{"template":{"spec":{"containers":[{},{}],"volumes":[{}]}}}}"#,
    r#"{"kind":"Job","apiVersion":"batch/v1","spec":{"§":1,"x":2,"template":{"spec":{"containers":[]}}}}"#,
    r#"{"kind":"CronJob","apiVersion":"batch/v1","spec":{"schedule":"x","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"image":"i"}]}}}}}}"#,
    r#"{"kind":"PyTorchJob","apiVersion":"kubeflow.org/v1","spec":{"pytorchReplicaSpecs":{"Worker":{"template":{"spec":{"restartPolicy":"Always","containers":[{"image":"i"}]}}}}}}"#,
    r#"{"kind":"JobSet","apiVersion":"jobset.x-k8s.io/v1alpha2","spec":{"replicatedJobs":[{"template":{"spec":{"template":{"spec":{"restartPolicy":"Always","containers":[{"image":"i"}]}}}}}]}}"#,
    r#"{"kind":"AppWrapper","apiVersion":"workload.codeflare.dev/v1beta2","spec":{"components":[{"template":{"kind":"Job","apiVersion":"batch/v1","spec":{"template":{"spec":{"containers":[{"image":"i"}]}}}}}]}}"#,
    r#"{"kind":"RayJob","apiVersion":"ray.io/v1","spec":{"rayClusterSpec":{"headGroupSpec":{"template":{"spec":{"containers":[{"image":"i"}]}}}}}}"#,
    r#"{"kind":"Job","apiVersion":"batch.volcano.sh/v1alpha1","spec":{"tasks":[{"replicas":2,"template":{"spec":{"containers":[{"image":"i"}]}}}]}}"#,
];

/// Items of lists that a rule or check reads, or misses something in: what is in the brackets, and how many keys
/// and values it has. A document that has too many is refused, which costs little; so there are as many items as
/// may be, and a comment for the rest.
const ITEMS: [(&str, usize); 24] = [
    ("{}", 1),
    ("~", 1),
    ("a", 1),
    ("§", 1),
    ("[]", 1),
    ("[a]", 2),
    ("{a}", 3),
    ("{§}", 3),
    ("{a,a}", 5),
    ("{a: {a: {a}}}", 7),
    ("{name: §}", 3),
    ("{key: a}", 3),
    ("{name: a, image: i}", 5),
    ("{args: [a]}", 4),
    ("{args: [§]}", 4),
    ("{command: [a], args: [a]}", 7),
    ("{args: [a,a,a,a,a,a,a,a]}", 11),
    ("{command: [sh,-c,§]}", 6),
    ("{env: [{name: §}]}", 6),
    ("{volumeMounts: [{}]}", 4),
    ("{resources: {limits: {nvidia.com/gpu: 1}}}", 7),
    ("{name: §, persistentVolumeClaim: {claimName: §}}", 7),
    ("{matchExpressions: [{}]}", 4),
    ("{kind: Job, apiVersion: batch/v1}", 5),
];

/// Lists in a pod, which `@` is in the place of.
const IN_PODS: [&str; 17] = [
    "containers: @",
    "initContainers: @",
    "containers: @, initContainers: @, ephemeralContainers: @",
    "containers: @, volumes: @",
    "containers: [{name: a, image: i, env: @}]",
    "containers: [{name: a, image: i, envFrom: @}]",
    "containers: [{name: a, image: i, ports: @}]",
    "containers: [{name: a, image: i, volumeMounts: @}]",
    "containers: [{name: a, image: i, args: @}]",
    "volumes: @",
    "tolerations: @",
    "topologySpreadConstraints: @",
    "schedulingGates: @",
    "resourceClaims: @",
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: @}}}",
    "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: @}}",
    "x: @",
];

/// What is around such a pod, which `%` is in the place of. The next list is in the next of them.
const AROUND_PODS: [&str; 4] = [
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {%}}}\n",
    "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: a}\nspec: {components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {spec: {%}}}}}]}\n",
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {%}}}}}\n",
    "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {%}}}}}]}\n",
];

/// Lists of kinds.
const IN_KINDS: [&str; 9] = [
    "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nspec: {components: @}\n",
    "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: @}\n",
    "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {tasks: @}\n",
    "apiVersion: ray.io/v1\nkind: RayJob\nspec: {rayClusterSpec: {workerGroupSpecs: @}}\n",
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {runtimeRef: {name: r}, podTemplateOverrides: @}\n",
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nspec: {template: {spec: {replicatedJobs: @}}}\n",
    "apiVersion: sagemaker.amazonaws.com/v1\nkind: HyperPodPyTorchJob\nspec: {replicaSpecs: @}\n",
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {podFailurePolicy: {rules: @}}\n",
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, managedFields: @, ownerReferences: @}\n",
];

/// The most keys and values of a text of [`ITEMS`]: a little fewer than a document of a mebibyte may have.
const MOST_NODES: usize = 179_000;

/// A text of any size.
struct Text {
    name: String,
    /// What is around what is repeated, which may be in several places.
    around: Vec<String>,
    unit: String,
    /// The most units.
    most: usize,
}

impl Text {
    fn of(name: String, before: &str, unit: &str, behind: &str) -> Self {
        Self {
            name,
            around: vec![before.to_owned(), behind.to_owned()],
            unit: unit.to_owned(),
            most: usize::MAX,
        }
    }

    /// Items in the lists of a text.
    fn of_items((item, nodes): (&str, usize), text: &str) -> Self {
        let places = text.matches('@').count();
        let name = format!("{item}… as {text}");
        let text = text.replace('@', "[@]");
        let around = text.split('@').map(str::to_owned).collect();
        Self { name, around, unit: format!("{item},"), most: MOST_NODES / nodes / places }
    }

    fn of_size(&self, bytes: usize) -> String {
        let (first, others) = self.around.split_first().unwrap();
        let mut out = first.clone();
        for (nth, behind) in others.iter().enumerate() {
            let end = bytes * (nth + 1) / others.len();
            let mut count = 0;
            while out.len() < end && count < self.most {
                out.push_str(&self.unit.replace('§', &word(count)));
                count += 1;
            }
            out.push_str(behind);
        }
        if out.len() + 2 < bytes {
            let rest = "#".repeat(bytes - out.len());
            out.push_str(&rest);
        }
        out
    }
}

/// Returns another short word for each number.
fn word(mut number: usize) -> String {
    let mut out = String::new();
    loop {
        out.push(char::from(b'a' + u8::try_from(number % 26).unwrap()));
        number /= 26;
        if number == 0 {
            return out;
        }
    }
}

fn all() -> Vec<Text> {
    let mut out = Vec::new();
    for (place, around) in PLACES {
        let (before, behind) = around.split_once('@').unwrap();
        out.extend(FLOWS.map(|(open, unit, close)| {
            let name = format!("{open}{unit}…{close} as {place}");
            Text::of(name, &format!("{before}{open}"), unit, &format!("{close}{behind}"))
        }));
    }
    for (place, head, indent) in HEADS {
        out.extend(LINES.map(|lines| {
            let mut unit = String::new();
            for line in lines.split_inclusive('\n') {
                write!(unit, "{}{line}", " ".repeat(if lines.ends_with('\n') { indent } else { 0 })).unwrap();
            }
            let before = if lines.ends_with('\n') { head.to_owned() } else { head.to_owned() + "  " };
            Text::of(format!("{lines:?} as {place}"), &before, &unit, "")
        }));
    }
    out.extend(DOCUMENTS.map(|(name, unit)| Text::of(name.to_owned(), "", unit, "")));
    for object in OBJECTS {
        let list = r#"{"apiVersion":"v1","kind":"List","items":["#;
        let last = r#"{"kind":"ConfigMap","apiVersion":"v1"}]}"#;
        out.push(Text::of(format!("{object} in a list"), list, &format!("{object},"), last));
        out.push(Text::of(format!("{object} as documents"), "", &format!("{object}\n---\n"), ""));
    }
    for (nth, item) in ITEMS.into_iter().enumerate() {
        out.extend(IN_PODS.iter().enumerate().map(|(list, pod)| {
            let around = AROUND_PODS[(nth + list) % AROUND_PODS.len()];
            Text::of_items(item, &around.replace('%', &format!("restartPolicy: Never, {pod}")))
        }));
        out.extend(IN_KINDS.map(|text| Text::of_items(item, text)));
    }
    out
}

/// What it costs to lint a text.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: usize,
    values: usize,
    steps: u64,
    held: usize,
}

fn cost(policy: &Policy, text: &str) -> Cost {
    let held = HELD.current_usage();
    HELD.reset_peak_usage();
    let work = || {
        let input = Input::text("a.yaml", text.as_bytes());
        let linted = lint::lint(&[input], policy, &Claims::default(), &Options::default());
        let mut out = Vec::new();
        report::write(&linted.report, Format::Human, &report::Options::default(), &mut out).unwrap();
    };
    let ((), steps) = meter::run(Bounds::default(), work).unwrap();
    let held = HELD.peak_usage().saturating_sub(held);
    let read = yaml::documents(text.as_bytes()).filter_map(Result::ok);
    Cost { bytes: text.len(), values: read.map(|document| values(&document.value)).sum(), steps, held }
}

/// Counts a value, those in it, and their keys.
fn values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(|field| 1 + values(field)).sum::<usize>(),
        _ => 1,
    }
}

fn too_much(small: &Cost, large: &Cost) -> Option<String> {
    #[allow(clippy::cast_precision_loss, reason = "sizes of tests")]
    let (per_byte, per_value, grown, input) = (
        large.steps as f64 / large.bytes as f64,
        large.steps as f64 / large.values.max(1) as f64,
        large.steps as f64 / small.steps.max(1) as f64,
        large.bytes as f64 / small.bytes as f64,
    );
    let grows = large.steps > FEW_STEPS && grown > GROWTH * input;
    let holds = large.held > MOST_HELD + MOST_HELD_PER_BYTE * large.bytes;
    let takes = per_byte > MOST_STEPS_PER_BYTE && per_value > MOST_STEPS_PER_VALUE;
    (grows || holds || takes).then(|| format!("{small:?} {large:?}"))
}

/// Searches, and fails if some text costs too much. One in a process of its own.
pub(crate) fn search(timed: bool) {
    let policy = jobgate::policies::builtin("default").unwrap();
    // On this thread, where steps are counted, and nothing else allocates.
    let _pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
    cost(&policy, "apiVersion: batch/v1\nkind: Job\n");
    let texts: Vec<Text> = all()
        .into_iter()
        .enumerate()
        .filter(|(nth, _)| timed || nth % IN_TURN == 0)
        .map(|(_, text)| text)
        .collect();
    if timed {
        let mut whole = Table::default();
        for (nth, text) in texts.iter().enumerate() {
            if nth % 200 == 0 {
                println!("{nth} of {} texts", texts.len());
            }
            let large = text.of_size(whole::LINT.0);
            whole.measure(text.name.clone(), whole::LINT, || whole::lint("a.yaml", &large));
        }
        let faults = whole.print("texts");
        faults.iter().for_each(|fault| println!("  {fault}"));
        assert!(faults.is_empty(), "{} texts cost too much", faults.len());
        return;
    }
    let (mut costs, mut faults) = (Vec::new(), Vec::new());
    for text in &texts {
        let [small, large] = SIZES.map(|bytes| cost(&policy, &text.of_size(bytes)));
        faults.extend(too_much(&small, &large).map(|why| format!("{}: {why}", text.name)));
        costs.push((large, &text.name));
    }
    costs.sort_by_key(|(cost, _)| std::cmp::Reverse(cost.held));
    println!("{} texts; those for which most is held:", costs.len());
    costs.iter().take(5).for_each(|(cost, name)| println!("  {cost:?} {name}"));
    costs.sort_by_key(|(cost, _)| std::cmp::Reverse(cost.steps));
    println!("and those that take most steps:");
    costs.iter().take(5).for_each(|(cost, name)| println!("  {cost:?} {name}"));
    println!("bytes allocated in all: {}", ALL.total_allocated());
    faults.iter().take(40).for_each(|fault| println!("  {fault}"));
    assert!(faults.is_empty(), "{} texts cost too much", faults.len());
}
