use super::{CommandLine, Launch, Launcher, PodCommands, Value as Given};
use crate::kinds::Workload;
use crate::text::shell::{SPREADS, UNKNOWN};
use crate::text::value::{Value, json};

/// Calls a function with the command line of a container of a Job.
fn with<T>(container: &Value, read: impl FnOnce(&CommandLine<'_>) -> T) -> T {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "spec": {"completionMode": "Indexed", "template": {"spec": {"containers": [container]}}},
    });
    let workload = Workload::of(&job).expect("a Job");
    let commands = PodCommands::of(&workload, &workload.pods[0]);
    read(&commands.containers[0])
}

fn shown(line: &CommandLine<'_>) -> Vec<String> {
    let word = |text: &str| text.replace(UNKNOWN, "?").replace(SPREADS, "*");
    let command = |command: &super::Command| {
        command.words.iter().map(|token| word(&token.word.text)).collect::<Vec<_>>().join(" ")
    };
    line.commands.iter().map(command).collect()
}

fn commands(container: &Value) -> Vec<String> {
    with(container, shown)
}

#[test]
fn an_argument_vector_is_one_command() {
    let container = json!({
        "command": ["/usr/bin/python3", "train.py"],
        "args": ["--n=$(N)", "--p=$(P)", "--i=$(JOB_COMPLETION_INDEX)", "$$(N)", "$(date +%s)", "a b"],
        "env": [{"name": "N", "value": "4"}, {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    });
    assert_eq!(commands(&container), ["/usr/bin/python3 train.py --n=4 --p=? --i=? $(N) $(date +%s) a b"]);
    with(&container, |line| {
        assert_eq!(line.commands[0].program, "python3");
        assert_eq!(
            line.place(&line.commands[0].words[2]).to_string(),
            "spec.template.spec.containers[0].args[0]"
        );
        assert!(!line.is_of_image());
    });
}

#[test]
fn variables_may_name_those_before_them() {
    let container = json!({
        "command": ["x", "$(A)", "$(B)", "$(C)", "$(D)"],
        "env": [
            {"name": "B", "value": "$(A)"}, {"name": "A", "value": "1"}, {"name": "C", "value": "$(A)$(A)"},
            {"name": "D", "value": "$(JOB_COMPLETION_INDEX)"},
        ],
    });
    assert_eq!(commands(&container), ["x 1 $(A) 11 $(JOB_COMPLETION_INDEX)"]);
    // Any variable may be in a ConfigMap.
    let open = json!({"command": ["x", "$(A)"], "envFrom": [{"configMapRef": {"name": "a"}}]});
    assert_eq!(commands(&open), ["x ?"]);
}

#[test]
fn references_are_those_that_the_kubelet_looks_up() {
    assert_eq!(super::references("$(A)$$(B)$$$(C) $(date +%F) $D ${E} $(F $(G)"), ["A", "C", "G"]);
    assert_eq!(super::references("$"), [""; 0]);
}

#[test]
fn scripts_are_read_wherever_the_shell_is() {
    for (command, expected) in [
        (json!(["bash", "-c", "a 1\nb"]), vec!["bash -c a 1\nb", "a 1", "b"]),
        (json!(["/bin/sh", "-ec", "a"]), vec!["/bin/sh -ec a", "a"]),
        (json!(["bash", "-euxo", "pipefail", "-c", "--", "a"]), vec!["bash -euxo pipefail -c -- a", "a"]),
        (json!(["entry.sh", "/bin/bash", "-lc", "a"]), vec!["entry.sh /bin/bash -lc a", "a"]),
        (json!(["bash", "run.sh", "-c", "a"]), vec!["bash run.sh -c a"]),
        (json!(["bash", "-c"]), vec!["bash -c"]),
        (json!(["bash", "-c", "x 'y"]), vec!["bash -c x 'y"]),
        (
            json!(["sh", "-c", "mpirun -np 2 bash -c 'a $(cat b) && c'"]),
            vec![
                "sh -c mpirun -np 2 bash -c 'a $(cat b) && c'",
                "mpirun -np 2 bash -c a $(cat b) && c",
                "a *",
                "c",
            ],
        ),
        (
            json!(["bash", "-c", "X=1 exec env Y=2 nohup timeout -k 5 1h numactl -N 0 a"]),
            vec!["bash -c X=1 exec env Y=2 nohup timeout -k 5 1h numactl -N 0 a", "a"],
        ),
        (
            json!(["bash", "-c", "A=1; bash -c 'x $A'; N=2; x $N"]),
            vec!["bash -c A=1; bash -c 'x $A'; N=2; x $N", "", "bash -c x $A", "x *", "", "x 2"],
        ),
        (json!(["bash", "-c", "x $(N) $N $(date)"]), vec!["bash -c x 4 $N $(date)", "x 4 4 *"]),
    ] {
        let container = json!({"command": command, "env": [{"name": "N", "value": "4"}]});
        assert_eq!(commands(&container), expected, "{container}");
    }
    let container = json!({"command": ["bash"], "args": ["-c", "set -o pipefail; mpirun x | tee y"]});
    with(&container, |line| {
        let [shell] = line.shells.as_slice() else { panic!("{:?}", line.shells) };
        assert!(shell.pipefail && shell.first && !shell.errexit && shell.name == "bash");
        assert_eq!(shell.last, Some(3));
    });
    with(&json!({"command": ["bash", "-c", "x 'y"]}), |line| assert!(line.unread));
}

fn launch<T>(script: &str, read: impl FnOnce(&Launch<'_>) -> T) -> T {
    with(&json!({"command": ["bash", "-c", script]}), |line| {
        let launches: Vec<_> = line.launches().collect();
        let [one] = launches.as_slice() else { panic!("{script}: {launches:?}") };
        read(one)
    })
}

#[test]
fn options_of_launchers_end_at_the_program() {
    for (script, launcher, option, value) in [
        ("torchrun --nnodes=2 train.py --nnodes=3", Launcher::Torchrun, "nnodes", Given::Known("2")),
        ("torchrun --nnodes 2 train.py", Launcher::Torchrun, "nnodes", Given::Known("2")),
        ("torchrun --nnode=2:4 train.py", Launcher::Torchrun, "nnodes", Given::Known("2:4")),
        ("torchrun --nproc-per-node 8 train.py", Launcher::Torchrun, "nproc_per_node", Given::Known("8")),
        ("torchrun --standalone --nnodes 2 x", Launcher::Torchrun, "standalone", Given::Known("")),
        ("torchrun train.py --nnodes=3", Launcher::Torchrun, "nnodes", Given::Absent),
        ("torchrun --nnodes=$X train.py", Launcher::Torchrun, "nnodes", Given::Unknown),
        ("torchrun $ARGS train.py", Launcher::Torchrun, "nnodes", Given::Unknown),
        ("torchrun --new-option 1 train.py", Launcher::Torchrun, "nnodes", Given::Unknown),
        ("torchrun $DIR/train.py --nnodes=3", Launcher::Torchrun, "nnodes", Given::Absent),
        ("torchrun -m train --nnodes=3", Launcher::Torchrun, "nnodes", Given::Absent),
        (
            "python3.11 -u -m torch.distributed.run --nnodes 2 x",
            Launcher::Torchrun,
            "nnodes",
            Given::Known("2"),
        ),
        (
            "python -m torch.distributed.launch --nnodes 2 x",
            Launcher::TorchLaunch,
            "nnodes",
            Given::Known("2"),
        ),
        ("accelerate launch --num_machines 4 x", Launcher::Accelerate, "num_machines", Given::Known("4")),
        ("deepspeed --num_nodes=4 x --num_nodes=5", Launcher::DeepSpeed, "num_nodes", Given::Known("4")),
        ("deepspeed -H /h x", Launcher::DeepSpeed, "hostfile", Given::Known("/h")),
        ("mpirun --mca btl ^openib -np 16 all_reduce -n 100", Launcher::Mpi, "n", Given::Absent),
        ("mpirun -x A -x B -np 16 x", Launcher::Mpi, "np", Given::Known("16")),
        (
            "mpirun --allow-run-as-root -map-by ppr:8:node x",
            Launcher::Mpi,
            "map_by",
            Given::Known("ppr:8:node"),
        ),
        ("ray job submit --address x -- python a", Launcher::Ray, "address", Given::Known("x")),
    ] {
        launch(script, |launch| {
            assert_eq!((launch.launcher, launch.value(option)), (launcher, value), "{script}");
        });
    }
    launch("torchrun --min-nodes=2 --max-nodes=4 train.py", |launch| {
        assert!(launch.options.iter().all(|given| !given.exists) && launch.options.len() == 2);
    });
    launch("python -m torch.distributed.run --nnodes 2 x", |launch| {
        let given = launch.option("nnodes").expect("an option");
        assert_eq!((given.at, given.behind), (3, 1));
        assert_eq!(launch.command.words[given.at], *given.token);
    });
    launch("mpirun -np 2 train --x", |launch| assert_eq!(launch.started[0].known(), Some("train")));
    with(&json!({"command": ["bash", "-c", "python train.py; echo torchrun; ray start"]}), |line| {
        assert_eq!(line.launches().count(), 0);
    });
}

#[test]
fn the_training_operator_tells_the_number_of_nodes() {
    let job = |spec: Value| {
        let worker = json!({"replicas": 3, "template": {"spec": {"containers": [
            {"name": "pytorch", "command": ["x", "$(PET_NNODES)", "$(WORLD_SIZE)", "$(RANK)"], "env": [{"name": "RANK", "value": "0"}]},
        ]}}});
        let mut job = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": spec});
        job["spec"]["pytorchReplicaSpecs"]["Worker"] = worker;
        job
    };
    let of_worker = |job: &Value| {
        let workload = Workload::of(job).expect("a PyTorchJob");
        let index = workload.pods.iter().position(|pod| pod.role() == Some("Worker")).expect("a worker");
        let commands = PodCommands::of(&workload, &workload.pods[index]);
        shown(&commands.containers[0])
    };
    let master = json!({"Master": {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}});
    let with_master = job(json!({"nprocPerNode": "8", "pytorchReplicaSpecs": master}));
    assert_eq!(of_worker(&with_master), ["x 4 32 ?"]);
    assert_eq!(of_worker(&job(json!({}))), ["x 3 $(WORLD_SIZE) 0"]);
    let elastic = json!({"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}});
    assert_eq!(of_worker(&job(elastic)), ["x 2:4 $(WORLD_SIZE) 0"]);
}

#[test]
fn programs_are_behind_runners_with_known_options() {
    for (script, program) in [
        ("uv run --extra=gpu --python 3.12 torchrun x", "torchrun"),
        ("uv --quiet run -- torchrun x", "torchrun"),
        ("uv run -m torch.distributed.run x", "uv"),
        ("uv pip install torchrun", "uv"),
        ("uv run", "uv"),
        ("/opt/uv/bin/uv run env A=1 torchrun x", "torchrun"),
        ("poetry -C /src run torchrun x", "torchrun"),
        ("pixi run -e gpu torchrun x", "torchrun"),
        ("conda run -n base --no-capture-output torchrun x", "torchrun"),
        ("conda run -nbase torchrun x", "conda"),
        ("micromamba run -p /opt/env torchrun x", "torchrun"),
        ("xvfb-run -a -s '-screen 0 1x1x24' torchrun x", "torchrun"),
        ("timeout 1h uv run torchrun x", "torchrun"),
        ("nsys profile -o out -- torchrun x", "torchrun"),
        ("profile.sh -- torchrun x", "profile.sh"),
    ] {
        with(&json!({"command": ["bash", "-c", script]}), |line| {
            let last = line.commands.last().map(|command| command.program.as_str());
            assert_eq!(last, Some(program), "{script}");
        });
    }
}
