//! `jobgate simulate` as users run it.

use std::process::Output;
use std::time::Duration;

use crate::support::place::{Place, code, json, stderr, stdout};

/// Four pods that train together, and a limit that all of them reach at once.
const GANG: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  backoffLimit: 3
  activeDeadlineSeconds: 86400
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/trainer:v1
        command: [torchrun, --nnodes=4, --rdzv-endpoint=train-0.train:29500, train.py]
        resources: {limits: {nvidia.com/gpu: 8}}
";

/// Pods that each work on their own index.
const SWEEP: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: sweep}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: worker
        image: registry.example.com/worker:v1
        command: [bash, -c, \"python work.py --shard $JOB_COMPLETION_INDEX\"]
";

/// A run every hour, none beside another.
const HOURLY: &str = "\
apiVersion: batch/v1
kind: CronJob
metadata: {name: hourly}
spec:
  schedule: 0 * * * *
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 60
  jobTemplate:
    spec:
      activeDeadlineSeconds: 3000
      template:
        spec:
          restartPolicy: Never
          containers: [{name: worker, image: \"registry.example.com/worker:v1\"}]
";

fn ends(place: &Place, arguments: &[&str]) -> String {
    let output = place.run(&[&["simulate", "--format", "json"], arguments].concat());
    let document = json(&output);
    let stories = document["jobs"][0]["stories"].as_array().expect("stories").clone();
    stories.iter().map(|story| format!("{} {}", story["story"], story["ends"])).collect::<Vec<_>>().join("\n")
}

#[test]
fn ranks_that_need_one_another_fail_together() {
    let place = Place::with(&[("gang.yaml", GANG), ("sweep.yaml", SWEEP)]);
    assert_eq!(ends(&place, &["--what", "drain", "gang.yaml"]), r#""drain" "fails""#);
    assert_eq!(ends(&place, &["--what", "drain", "sweep.yaml"]), r#""drain" "completes""#);
    assert_eq!(
        ends(&place, &["--what", "drain", "--peers", "restart:1", "gang.yaml"]),
        r#""drain" "completes""#
    );
    assert_eq!(ends(&place, &["--what", "drain", "--peers", "hang", "gang.yaml"]), r#""drain" "fails""#);
}

#[test]
fn a_table_names_the_field_that_decides_and_its_place() {
    let place = Place::with(&[("gang.yaml", GANG)]);
    let output = place.run(&["simulate", "gang.yaml"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(lines.len(), 10, "{text}");
    assert!(lines[1].trim_start().starts_with("node-lost"), "the worst is first: {text}");
    assert!(text.contains("`backoffLimit` at gang.yaml:8:17"), "{text}");
    let output = place.run(&["simulate", "--format", "markdown", "gang.yaml"]);
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("| ")).count(), 10);
}

#[test]
fn an_expectation_is_for_ci() {
    let place = Place::with(&[("sweep.yaml", SWEEP), ("gang.yaml", GANG)]);
    let output = place.run(&["simulate", "--expect", "drain=completes", "sweep.yaml"]);
    assert_eq!((code(&output), stderr(&output)), (0, ""));
    let output =
        place.run(&["simulate", "--expect", "drain=completes", "--expect", "oom=fails", "gang.yaml"]);
    assert_eq!(code(&output), 1);
    assert_eq!(
        stderr(&output),
        "jobgate: train (Job) in gang.yaml: drain ends with `fails`, not with `completes`\n"
    );
}

#[test]
fn a_script_is_played() {
    let script = "- {index: 0, attempt: 0, run: 10, exit: 42}\n- {run: 20}\n";
    let place = Place::with(&[("gang.yaml", GANG), ("script.yaml", script), ("bad.yaml", "- {rum: 10}\n")]);
    assert_eq!(ends(&place, &["--script", "script.yaml", "gang.yaml"]), r#""script" "completes""#);
    let output = place.run(&["simulate", "--script", "bad.yaml", "gang.yaml"]);
    assert_eq!(code(&output), 2);
    assert_eq!(stderr(&output), "jobgate: read the script bad.yaml: item 0: unknown key `rum`\n");
}

/// Runs the binary on what takes all the work that a simulation does: a second, and more in a debug build beside others.
fn at_the_bound(place: &Place, arguments: &[&str]) -> Output {
    place.command(arguments).timeout(Duration::from_secs(120)).output().unwrap()
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let wrong = GANG.replace("completions: 4", "completions: -4");
    let huge = SWEEP
        .replace("completions: 4", "completions: 2147483647")
        .replace("parallelism: 4", "parallelism: 100000");
    let other = "apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: {name: p}\nspec: {mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: mpi, image: i}]}}}}}\n";
    let place = Place::with(&[
        ("wrong.yaml", &wrong),
        ("huge.yaml", &huge),
        ("other.yaml", other),
        ("not.yaml", "a: [\n"),
        ("empty.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n"),
    ]);
    for (file, expected) in [
        ("wrong.yaml", "not simulated: the API server rejects it"),
        ("huge.yaml", "not simulated: too many pods"),
        ("not.yaml", "not.yaml:"),
        ("none.yaml", "none.yaml"),
        ("empty.yaml", "no object to simulate"),
        ("other.yaml", "the operator of MPIJob is not modelled"),
    ] {
        let output = at_the_bound(&place, &["simulate", file]);
        assert!(stderr(&output).contains(expected), "{file}: {}", stderr(&output));
        assert_eq!(code(&output), 2, "{file}");
    }
    for (incident, expected) in [("explode", "no incident `explode`"), ("oom@never", "is no duration")] {
        let output = place.run(&["simulate", "--what", incident, "wrong.yaml"]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn a_run_of_a_cron_job_may_hold_up_the_next() {
    let place = Place::with(&[("cron.yaml", HOURLY), ("gang.yaml", GANG)]);
    let runs = |story: &str| {
        let document = json(&place.run(&["simulate", "--format", "json", "--what", story, "cron.yaml"]));
        let runs = document["jobs"][0]["stories"][0]["runs"].clone();
        ["due", "started", "atOnce", "lateSeconds"].map(|key| runs[key].as_i64())
    };
    assert_eq!(runs("node-lost"), [Some(4), Some(1), Some(1), None]);
    assert_eq!(runs("exit=1"), [Some(4), Some(4), Some(1), None]);
    assert_eq!(runs("missed:30s"), [Some(4), Some(4), Some(1), Some(30)]);
    assert_eq!(runs("missed:30m"), [Some(4), Some(3), Some(1), None]);
    let output = place.run(&["simulate", "--what", "missed", "."]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let expected = "train (Job) in gang.yaml: not simulated: `missed` is about a schedule, and it has none";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert!(stdout(&output).contains("runs: 3 of the 4 that are due within 3h start"), "{}", stdout(&output));
    assert!(stdout(&output).contains("more than `startingDeadlineSeconds` late (1m)"), "{}", stdout(&output));
}

#[test]
fn a_story_about_a_schedule_leaves_the_others_of_a_job_alone() {
    let place = Place::with(&[("gang.yaml", GANG)]);
    assert_eq!(ends(&place, &["--what", "missed", "--what", "drain", "gang.yaml"]), r#""drain" "fails""#);
    let expected = ["simulate", "--expect", "missed=completes", "--expect", "drain=completes", "gang.yaml"];
    let output = place.run(&expected);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("drain ends with `fails`, not with `completes`"), "{}", stderr(&output));
    assert!(stderr(&output).contains("`missed` is about a schedule, and it has none"), "{}", stderr(&output));
}

#[test]
fn a_policy_that_is_named_needs_no_configuration() {
    let place = Place::with(&[("gang.yaml", GANG), ("jobgate.yaml", "kind: nonsense")]);
    assert_eq!(code(&place.run(&["simulate", "gang.yaml"])), 2);
    assert_eq!(code(&place.run(&["simulate", "--policy", "default", "gang.yaml"])), 0);
}

/// A JobSet whose Job runs its indexes in three waves.
const WAVES: &str = "\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: waves}
spec:
  replicatedJobs:
  - name: w
    template:
      spec:
        parallelism: 2
        completions: 6
        backoffLimitPerIndex: 0
        template:
          spec:
            restartPolicy: Never
            containers: [{name: t, image: \"registry.example.com/t:1\", command: [python, work.py]}]
";

#[test]
fn a_story_about_nothing_is_said_and_not_survived() {
    let place = Place::with(&[("gang.yaml", GANG), ("waves.yaml", WAVES)]);
    for (file, incident, expected) in [
        ("gang.yaml", "oom:role=worker", "`oom:role=worker`: no pods have this role"),
        ("gang.yaml", "oom:index=4", "these pods have the indexes 0-3"),
        ("gang.yaml", "submitter-lost", "the pod that submits a RayJob, and it has none"),
        ("waves.yaml", "drain+oom:role=v", "no pods have this role; there are `w-0`"),
    ] {
        let output = place.run(&["simulate", "--what", incident, file]);
        assert!(stderr(&output).contains(expected), "{incident}: {}", stderr(&output));
        assert_eq!(code(&output), 2, "{incident}");
    }
    // The others of a call are simulated; an expectation that cannot hold is no success.
    assert_eq!(
        ends(&place, &["--what", "oom:index=4", "--what", "drain", "gang.yaml"]),
        r#""drain" "fails""#
    );
    let output = place.run(&["simulate", "--expect", "oom:index=4=fails", "gang.yaml"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}

#[test]
fn a_story_reaches_the_later_waves_of_a_job_of_a_job_set() {
    let place = Place::with(&[("waves.yaml", WAVES)]);
    let made = |story: &str, what: &str| {
        let arguments =
            ["simulate", "--peers", "independent", "--format", "json", "--what", story, "waves.yaml"];
        json(&place.run(&arguments))["jobs"][0]["stories"][0][what].clone()
    };
    assert_eq!(made("crash-all", "failed"), 6);
    assert_eq!(made("oom:role=w,index=5", "failed"), 1);
}

#[test]
fn an_object_that_its_operator_leaves_alone_is_said() {
    let train = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec: {runtimeRef: {name: mine}}\n";
    let launcher = "{template: {spec: {containers: [{name: mpi, image: i}]}}}";
    let mpi = format!(
        "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {{name: m}}\nspec: {{runPolicy: {{managedBy: kueue.x-k8s.io/multikueue}}, mpiReplicaSpecs: {{Launcher: {launcher}}}}}\n"
    );
    let place = Place::with(&[("train.yaml", train), ("mpi.yaml", &mpi)]);
    for (file, expected) in [
        ("train.yaml", "its runtime, the ClusterTrainingRuntime `mine`, is not among the files"),
        ("mpi.yaml", "leaves it to the controller in `spec.runPolicy.managedBy`"),
    ] {
        let output = place.run(&["simulate", file]);
        assert!(stderr(&output).contains(expected), "{file}: {}", stderr(&output));
        assert_eq!(code(&output), 2, "{file}");
    }
}

/// A TrainJob, and the runtime that it names.
const TRAIN_JOB: &str = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec: {runtimeRef: {name: ours}, trainer: {numNodes: 2}}\n";
const RUNTIME: &str = "\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: ours}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec: {containers: [{name: node, image: \"registry.example.com/t:1\"}]}
";

#[test]
fn a_train_job_finds_its_runtime_in_a_later_file() {
    let place = Place::with(&[("a.yaml", TRAIN_JOB), ("b.yaml", RUNTIME)]);
    assert_eq!(ends(&place, &["--what", "overrun", "."]), r#""overrun" "completes""#);
    let output = place.run(&["simulate", "a.yaml"]);
    assert!(stderr(&output).contains("ours"), "{}", stderr(&output));
    assert_eq!(code(&output), 2);
}

#[test]
fn a_placeholder_that_decides_is_not_taken_for_a_default() {
    let job_set = WAVES.replace("completions: 6", "completions: $COUNT");
    let place = Place::with(&[("set.yaml", &job_set)]);
    let output = place.run(&["simulate", "set.yaml"]);
    let expected = "completions` is the placeholder `$COUNT`";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert_eq!(code(&output), 2);
}

#[test]
fn a_story_that_is_too_long_does_not_hide_the_others() {
    let endless = WAVES.replacen("spec:\n", "spec:\n  failurePolicy: {maxRestarts: 1000000000}\n", 1);
    let place = Place::with(&[("set.yaml", &endless)]);
    let output = at_the_bound(&place, &["simulate", "--what", "crash-all", "--what", "drain", "set.yaml"]);
    assert!(stderr(&output).contains("crash-all: not simulated"), "{}", stderr(&output));
    assert!(stdout(&output).contains("drain"), "{}", stdout(&output));
    assert_eq!(code(&output), 2);
}

/// A Job of four pods that train together, in a queue of Kueue.
const QUEUED: &str = "\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {kueue.x-k8s.io/queue-name: team-a, kueue.x-k8s.io/priority-class: low}
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  activeDeadlineSeconds: 86400
  podReplacementPolicy: Failed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example.com/train:v1
        command: [torchrun, --nnodes=4, --rdzv-endpoint=train-0.train:29500, train.py]
        resources: {limits: {nvidia.com/gpu: 8}}
";

#[test]
fn a_job_in_a_queue_is_evicted_each_time_its_pods_are_not_ready() {
    let place = Place::with(&[("job.yaml", QUEUED)]);
    let output = place.run(&["simulate", "--what", "node-lost@2h", "job.yaml"]);
    let output = stdout(&output);
    for expected in [
        "  2:30:56  evicted by Kueue (PodsReadyTimeout)",
        "node-lost@2h: it runs without end: Kueue evicts it each time its pods are not ready (`waitForPodsReady`), and the \
         deadline starts anew (`activeDeadlineSeconds` at job.yaml:10:26)",
        "the queue `team-a` has quota for it at once, and Kueue waits 30m until all pods are ready (`waitForPodsReady`)",
        "It is what Kueue v0.19.2 and the controllers of Kubernetes 1.36 do",
    ] {
        assert!(output.contains(expected), "{expected}\n{output}");
    }
    let ends = |args: &[&str]| ends(&place, &[&["--what", "node-lost@2h"], args, &["job.yaml"]].concat());
    // The deadline, and not Kueue, ends it where Kueue does not wait.
    assert_eq!(ends(&["--wait-for-pods-ready", "none"]), r#""node-lost@2h" "wedged""#);
    assert_eq!(ends(&["--wait-for-pods-ready", "1h"]), r#""node-lost@2h" "runs-on""#);
}

#[test]
fn a_job_that_kueue_preempts_starts_again_when_the_other_is_done() {
    let cron_job = "\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: \"0 0 * * *\"
  jobTemplate:
    metadata: {labels: {kueue.x-k8s.io/queue-name: team-a}}
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: \"registry.example.com/t:1\"}]}}}
";
    let place = Place::with(&[("job.yaml", QUEUED), ("cron.yaml", cron_job)]);
    for file in ["job.yaml", "cron.yaml"] {
        let output = place.run(&["simulate", "--what", "kueue-preempt@3h:30m", file]);
        let output = stdout(&output);
        for expected in ["  3:00:00  evicted by Kueue (Preempted)", "created again", "it completes after 1"] {
            let expected =
                if file == "cron.yaml" && expected == "created again" { "1 pod created" } else { expected };
            assert!(output.contains(expected), "{expected}\n{output}");
        }
    }
    // What Kueue stops at a time of its own, nobody resumes.
    let bounded = QUEUED.replace("team-a,", "team-a, kueue.x-k8s.io/max-exec-time-seconds: \"3600\",");
    let bounded = Place::with(&[("job.yaml", &bounded)]);
    let output = bounded.run(&["simulate", "--what", "overrun", "job.yaml"]);
    let expected = "Kueue suspends it after `kueue.x-k8s.io/max-exec-time-seconds`, and nobody resumes it";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    // It is one of the usual ones for what is in a queue, and its priority is of no weight.
    let table = place.run(&["simulate", "job.yaml"]);
    let table = stdout(&table);
    assert!(table.contains("kueue-preempt:30m  completes"), "{table}");
}

#[test]
fn a_job_set_with_more_jobs_than_are_simulated_says_so() {
    let many = WAVES.replacen("- name: w\n", "- name: w\n    replicas: 1000\n", 1);
    let place = Place::with(&[("set.yaml", &many)]);
    let output = place.run(&["simulate", "set.yaml"]);
    let expected = "it has 1000 Jobs, and at most 256 are simulated";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    assert_eq!(code(&output), 2);
}

#[test]
fn what_the_cluster_decides_is_assumed_and_printed() {
    let gang = "\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang}
spec:
  minAvailable: 2
  tasks:
  - {name: w, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: w, image: \"registry.example.com/t:1\"}]}}}
";
    let set = WAVES.replace("name: waves}", "name: waves, labels: {kueue.x-k8s.io/queue-name: team-a}}");
    let place = Place::with(&[("gang.yaml", gang), ("set.yaml", &set)]);
    for (args, expected) in [
        (&["gang.yaml"][..], "; a scheduler takes its gang at once\n"),
        (&["--gang-after", "10m", "gang.yaml"], "; a scheduler takes its gang after 10m\n"),
        (&["--gang-after", "10m", "gang.yaml"], "\n  0:10:00  2 w pods 0,1 created"),
        (&["--gang-after", "none", "gang.yaml"], "drain: it waits without end"),
        (&["set.yaml"], "as they were recorded, and Kueue v0.19.2 by its source; no scheduler"),
    ] {
        let output = place.run(&[&["simulate", "--what", "drain"], args].concat());
        assert!(stdout(&output).contains(expected), "{expected}\n{}", stdout(&output));
    }
}
