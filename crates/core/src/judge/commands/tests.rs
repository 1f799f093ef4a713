use super::{CommandLine, Gap, PodCommands};
use crate::judge::commands::launcher::Value as Given;
use crate::judge::commands::launcher::{Launch, Launcher};
use crate::judge::commands::limits::Beyond;
use crate::judge::engine::{Request, evaluate};
use crate::judge::facts::NoFacts;
use crate::judge::policy::Policy;
use crate::kinds::Workload;
use crate::text::shell::{After, Bound, SPREADS, UNKNOWN};
use crate::text::value::{Value, json};

/// Calls a function with the command line of a container of a Job.
fn with<T>(container: &Value, read: impl FnOnce(&CommandLine<'_>) -> T) -> T {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "spec": {"completionMode": "Indexed", "template": {"spec": {"containers": [container]}}},
    });
    let workload = Workload::from_object(&job).expect("a Job");
    let commands = PodCommands::new(&workload, &workload.pods[0], &std::rc::Rc::default());
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
        let [shell] = &*line.shells else { panic!("{:?}", line.shells) };
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
        let workload = Workload::from_object(job).expect("a PyTorchJob");
        let index = workload.pods.iter().position(|pod| pod.role() == Some("Worker")).expect("a worker");
        let commands = PodCommands::new(&workload, &workload.pods[index], &std::rc::Rc::default());
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

/// Calls a function with the command lines of the containers of a Job, and with what was not judged of them.
fn with_all<T>(containers: &Value, read: impl FnOnce(&PodCommands<'_>) -> T) -> T {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "spec": {"template": {"spec": {"containers": containers}}},
    });
    let workload = Workload::from_object(&job).expect("a Job");
    read(&PodCommands::new(&workload, &workload.pods[0], &std::rc::Rc::default()))
}

#[test]
fn a_long_script_is_read_to_its_end() {
    let script = format!("a 1\n{}torchrun --nnodes=2 x\n{}b", "c; ".repeat(300_000), "echo d\n".repeat(1000));
    with(&json!({"command": ["bash", "-c", script]}), |line| {
        assert!(line.left_out && !line.unread && line.beyond().is_none());
        assert!(line.commands.len() < 30_000, "{}", line.commands.len());
        let launches: Vec<_> = line.launches().collect();
        let [launch] = launches.as_slice() else { panic!("{launches:?}") };
        assert_eq!((launch.value("nnodes"), launch.command.gap), (Given::Known("2"), Gap::Other));
        let [.., tail, last] = &*line.commands else { panic!() };
        assert_eq!((last.program.as_str(), last.gap, last.before), ("b", Gap::Quiet, Some(After::Next)));
        assert_eq!((tail.program.as_str(), tail.gap), ("echo", Gap::None), "the one behind is kept");
        assert_eq!(line.shells[0].last, Some(line.commands.len() - 1));
        let span = &launch.command.words[0].word.span;
        assert_eq!(&line.argv[2].text[span.clone()], "torchrun");
    });
}

#[test]
fn what_there_is_no_room_for_is_said_and_the_end_of_a_script_stays() {
    let script = format!("{}sleep infinity", "python a.py; ".repeat(100_000));
    with(&json!({"command": ["bash", "-c", script]}), |line| {
        assert_eq!((line.beyond(), line.unread, line.left_out), (Some(Beyond::Commands), true, true));
        assert!(line.commands.len() < 40_000, "{}", line.commands.len());
        let last = line.shells[0].last.map(|last| line.commands[last].program.as_str());
        assert_eq!(last, Some("sleep"));
    });
    let script = format!("{}while true; do sleep 60; done", "cd a; while b; do cd c; done; ".repeat(50_000));
    with(&json!({"command": ["bash", "-c", script]}), |line| {
        let last = line.shells[0].last_loop.expect("a loop");
        assert!(last.endless && !last.leaves);
        assert_eq!(line.commands[last.head.expect("a command")].program, "sleep");
    });
    for script in ["sh -c a; ".repeat(100_000), "sh -c 'sh -c a; a'; ".repeat(50_000)] {
        with(&json!({"command": ["bash", "-c", script]}), |line| {
            assert_eq!((line.beyond(), line.unread), (Some(Beyond::Commands), true));
            assert!(line.shells.len() < 40_000 && line.commands.len() < 60_000);
        });
    }
}

#[test]
fn all_containers_share_the_room_of_their_object() {
    let one = json!({"command": ["bash", "-c", "cd a; ".repeat(100)]});
    with_all(&Value::Array(vec![one; 1000]), |pod| {
        let kept: usize = pod.containers.iter().map(|line| line.commands.len()).sum();
        assert!((10_000..50_000).contains(&kept), "{kept}");
        assert_eq!(pod.containers[0].commands.len(), 101);
        assert_eq!(
            (pod.containers[0].beyond(), pod.containers[999].beyond()),
            (None, Some(Beyond::Commands))
        );
    });
}

#[test]
fn what_is_beyond_a_bound_of_a_script_is_said_and_what_comes_before_counts() {
    let long = format!("a 1; torchrun --nnodes=2 x {}; b", "y ".repeat(1 << 16));
    let deep =
        format!("a 1; torchrun --nnodes=2 x; {}b{}", "(".repeat(100).replace('(', "( "), ")".repeat(100));
    let many: String = (0..2000).map(|nth| format!("V{nth}=1; ")).collect();
    let many = format!("a 1; torchrun --nnodes=2 x; {many} b");
    for (script, bound, is_cut) in
        [(long, Bound::Command, false), (deep, Bound::Nesting, true), (many, Bound::Variables, false)]
    {
        with(&json!({"command": ["bash", "-c", script]}), |line| {
            assert_eq!((line.beyond(), line.unread), (Some(Beyond::Bound(bound)), is_cut));
            assert_eq!(shown(line)[1], "a 1");
            let launches: Vec<_> = line.launches().collect();
            let [launch] = launches.as_slice() else { panic!("{bound:?}") };
            assert_eq!(launch.value("nnodes"), Given::Known("2"));
        });
    }
    // A script with a syntax error says nothing, as ever.
    let broken = format!("a {}; b 'c", "y ".repeat(1 << 16));
    with(&json!({"command": ["bash", "-c", broken]}), |line| {
        assert_eq!((line.beyond(), line.unread, line.commands.len()), (None, true, 1));
    });
}

#[test]
fn an_argument_vector_is_cut_where_a_command_is() {
    let words: Vec<Value> = (0..70_000).map(|_| json!("a")).collect();
    with(&json!({"command": ["torchrun", "--nnodes=2"], "args": words}), |line| {
        assert_eq!(line.beyond(), Some(Beyond::Bound(Bound::Command)));
        let words = &line.commands[0].words;
        assert!(words.len() <= 1 << 15 && words[words.len() - 1].word.spreads());
        assert_eq!(line.argv.len(), 1 << 16);
    });
    let code = "x".repeat(1 << 20);
    with(&json!({"command": ["python", "-c", code, "b"]}), |line| {
        assert_eq!(line.beyond(), Some(Beyond::Bound(Bound::Command)));
        assert_eq!(line.commands[0].words.len(), 3);
    });
    let script = format!("a{}; b", " ".repeat(1 << 20));
    with(&json!({"command": ["bash", "-c", script, "c"]}), |line| {
        assert_eq!(line.beyond(), None, "a script is no word");
        assert_eq!(shown(line)[1..], ["a", "b"]);
        assert!(line.commands[0].words[2].word.spreads() && line.commands[0].words.len() == 4);
    });
}

/// A value may be a thousand times as long as its name.
#[test]
fn text_in_which_variables_are_replaced_has_a_bound() {
    let value = "x".repeat(4000);
    let words: Vec<Value> = (0..50_000).map(|_| json!("$(X)")).collect();
    let env = json!([{"name": "X", "value": value}]);
    with(&json!({"command": words, "env": env}), |line| {
        assert_eq!(line.beyond(), Some(Beyond::Bound(Bound::Command)));
        assert_eq!(line.argv[0].text, value);
        let bytes: usize = line.argv.iter().map(|item| item.text.len()).sum();
        assert!(bytes < 2 << 20, "{bytes}");
        assert_eq!(line.argv[49_999].text, UNKNOWN.to_string());
    });
    let chained: Vec<Value> =
        (0..50_000).map(|nth| json!({"name": format!("V{nth}"), "value": "$(X)"})).collect();
    let chained = env.as_array().into_iter().flatten().cloned().chain(chained).collect::<Vec<_>>();
    with(&json!({"command": ["a", "$(V0)", "$(V49999)"], "env": chained}), |line| {
        assert_eq!((line.argv[1].text.len(), line.argv[2].text.as_ref()), (4000, "\u{E000}"));
        assert_eq!(line.beyond(), Some(Beyond::Growth));
        let bytes: usize =
            line.environment.iter().filter_map(|(_, known)| known.value.as_ref()).map(|v| v.len()).sum();
        assert!(bytes < 2 << 20, "{bytes}");
    });
    let script = "p $X \"$X\"; ".repeat(10_000);
    with(&json!({"command": ["bash", "-c", script], "env": env}), |line| {
        let bytes: usize =
            line.commands.iter().flat_map(|one| &one.words).map(|word| word.word.text.len()).sum();
        assert!(bytes < 6 << 20, "{bytes}");
        assert!(line.left_out && line.commands.len() > 100);
    });
}

/// A script in a script does not know what those around it assign, before or behind it.
#[test]
fn a_script_in_a_script_knows_what_nothing_around_it_assigns() {
    for (script, inner) in [
        ("bash -c 'x $N'", "x 4"),
        ("bash -c 'x $N'; N=5", "x *"),
        ("N=5; bash -c 'x $N'", "x *"),
        ("bash -c 'x $N; N=6'", "x 4"),
        ("bash -c \"bash -c 'x \\$N'; M=1\"", "x 4"),
        ("bash -c \"bash -c 'x \\$N'; N=1\"", "x *"),
        ("bash -c \"bash -c 'x \\$N'\"; N=1", "x *"),
    ] {
        let container = json!({"command": ["bash", "-c", script], "env": [{"name": "N", "value": "4"}]});
        let all = commands(&container);
        let found = all.iter().find(|one| one.starts_with("x "));
        assert_eq!(found.map(String::as_str), Some(inner), "{script}");
    }
}

/// Returns what is found in a Job with a script: level, rule and path.
fn found(script: &str) -> Vec<String> {
    let container = json!({
        "name": "a", "image": "i", "command": ["bash", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    });
    let verdict = evaluate(&Policy::default(), &NoFacts, &Request::from_file(&job, None));
    let findings = verdict.findings.iter();
    findings.map(|one| format!("{:?} {} {}", one.level, one.rule, one.path)).collect()
}

#[test]
fn what_was_not_judged_is_one_finding_beside_the_others() {
    let said = "Warn script-within-bounds spec.template.spec.containers[0]".to_owned();
    let denied = "Deny deadline spec.activeDeadlineSeconds".to_owned();
    for script in [
        format!("{}sleep infinity", "python a.py; ".repeat(100_000)),
        format!("a {}; sleep infinity", "b ".repeat(1 << 16)),
        (0..2000).map(|nth| format!("V{nth}=1; ")).collect::<String>() + "sleep infinity",
    ] {
        let found = found(&script);
        assert_eq!(found.iter().filter(|one| **one == said).count(), 1, "{found:?}");
        assert!(found.contains(&denied), "{found:?}");
        // What is at the end, which this is about, is within the bounds.
        assert!(found.iter().any(|one| one.contains("accelerator-container-ends")), "{found:?}");
    }
    let deep = found(&format!("python a.py | tee b; {}b{}", "( ".repeat(100), " )".repeat(100)));
    assert!(deep.contains(&said) && deep.contains(&denied), "{deep:?}");
    assert!(deep.iter().any(|one| one.contains("exit-status-kept")) || deep.len() > 2, "{deep:?}");
    let within = found(&format!("{}sleep infinity", "a 1; ".repeat(200_000)));
    assert!(!within.contains(&said) && within.contains(&denied), "{within:?}");
    assert!(within.iter().any(|one| one.contains("accelerator-container-ends")), "{within:?}");
}

/// What is left out between two commands counts as it would if it were there.
#[test]
fn rules_find_the_same_in_a_script_of_which_much_is_left_out() {
    let filled = |script: &str, filler: &str| {
        let lines: Vec<&str> = script.split("; ").collect();
        let with = |times: usize| found(&lines.join(&format!("; {}", filler.repeat(times))));
        let without_place = |found: Vec<String>| found.join("\n");
        assert_eq!(without_place(with(3)), without_place(with(40_000)), "{script}, {filler}");
        with(3).len()
    };
    let mut all = 0;
    for filler in ["echo a; ", "echo a && echo b; ", "a 1; ", "(echo a); "] {
        for script in [
            "x; python a.py | tee b; y",
            "set -e; python a.py | tee b; echo done",
            "python a.py || true; echo done",
            "python a.py || true; python b.py",
            "trap x TERM; python a.py; y",
            "python a.py; sleep infinity",
            "python a.py; while true; do sleep 60; done",
            "a || exit 0; sleep infinity",
            "exit 0; sleep infinity",
            "torchrun --nnodes=2 --rdzv-backend=c10d a.py; exec b",
            "cp -r /out /data; cd x; python a.py --output_dir out",
        ] {
            all += filled(script, filler);
        }
    }
    assert!(all > 100, "{all}");
}

#[test]
fn containers_that_run_the_same_have_its_commands_once() {
    let one = json!({"args": ["a"], "env": [{"name": "X", "value": "b"}]});
    let containers =
        json!([one, {"args": ["$(X)"], "env": [{"name": "X", "value": "a"}]}, one, {"args": ["b"]}, {}, {}]);
    with_all(&containers, |pod| {
        let at = |nth: usize| pod.containers[nth].commands.as_ptr();
        assert_eq!((at(0), at(0), at(4)), (at(1), at(2), at(5)));
        assert_ne!(at(0), at(3));
        let words: Vec<&str> = pod.containers.iter().map(|line| line.commands[0].program.as_str()).collect();
        assert_eq!(words, ["a", "a", "a", "b", "", ""]);
    });
}
