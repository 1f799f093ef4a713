//! Reading many manifests: our reader, from bytes to values with spans, against the bare events of the parser
//! beneath it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use granit_parser::Parser;
use jobgate::text::yaml::{self, Limits};

/// Returns about 20 MB of Job manifests, no two alike.
fn manifests() -> String {
    let mut out = String::with_capacity(21 << 20);
    let mut number = 0;
    while out.len() < 20 << 20 {
        number += 1;
        let gpus = number % 8 + 1;
        let workers = number % 64 + 1;
        out.push_str(&format!(
            r#"---
# Trains model {number} from the nightly snapshot.
apiVersion: batch/v1
kind: Job
metadata:
  name: train-{number}
  namespace: team-{team}
  labels:
    app.kubernetes.io/name: train
    app.kubernetes.io/version: "1.{minor}"
    kueue.x-k8s.io/queue-name: gpu-queue
  annotations:
    cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
spec:
  completionMode: Indexed
  completions: {workers}
  parallelism: {workers}
  backoffLimit: 3  # a preempted worker may come back
  activeDeadlineSeconds: 86400
  template:
    metadata:
      labels: {{app: train, run: "{number}"}}
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/research/train:v{minor}
        command: ["python", "-m", "train", "--epochs", "90"]
        args:
        - --data=/data
        - --checkpoint=/checkpoints/{number}
        - --learning-rate=0.001
        env:
        - name: NCCL_DEBUG
          value: INFO
        - name: WORLD_SIZE
          value: "{workers}"
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        resources:
          requests:
            cpu: 8
            memory: 64Gi
          limits:
            nvidia.com/gpu: {gpus}
        volumeMounts:
        - name: checkpoints
          mountPath: /checkpoints
        - {{name: data, mountPath: /data, readOnly: true}}
      initContainers:
      - name: fetch
        image: registry.example.com/tools/fetch:2
        command:
        - /bin/sh
        - -c
        - |
          set -eu
          fetch --from s3://bucket/{number} --to /data
          echo done
      volumes:
      - name: checkpoints
        persistentVolumeClaim:
          claimName: checkpoints-{number}
      - name: data
        emptyDir: {{}}
"#,
            team = number % 17,
            minor = number % 40,
        ));
    }
    out
}

fn reading(criterion: &mut Criterion) {
    let source = manifests();
    let limits = Limits::default();
    let mut group = criterion.benchmark_group("yaml");
    group.sample_size(10).throughput(Throughput::Bytes(source.len() as u64));
    group.bench_function("split", |bencher| bencher.iter(|| yaml::split(source.as_bytes(), &limits).count()));
    group.bench_function("split and parse", |bencher| {
        bencher.iter(|| yaml::documents(source.as_bytes()).filter(Result::is_ok).count());
    });
    group.bench_function("events of the parser", |bencher| {
        let options = granit_parser::options! {
            disallow_directives: true,
            emit_anchor_events: true,
            emit_comments: false,
            flow_nesting_limit: limits.depth + 1,
            block_nesting_limit: limits.depth + 1,
        };
        bencher.iter(|| {
            Parser::new_from_str_with_options(&source, options.clone()).filter(Result::is_ok).count()
        });
    });
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
