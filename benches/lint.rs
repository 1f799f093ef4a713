//! Linting a large file in memory, against bare event parsing of the same bytes.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jobgate::local::lint::{self, Claims, Input, Options};

const BYTES: usize = 20_000_000;

fn benches(criterion: &mut Criterion) {
    large(criterion, "20 MB", &support::manifests(BYTES));
    large(criterion, "20 MB of five kinds", &support::mixed(BYTES));
}

fn large(criterion: &mut Criterion, name: &str, source: &str) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).throughput(Throughput::Bytes(source.len() as u64));
    group.bench_function("events", |bencher| bencher.iter(|| support::events(black_box(source))));
    let inputs = [Input::text("jobs.yaml", source.as_bytes())];
    let policy = jobgate::policies::builtin("default").expect("the default policy");
    let options = Options { keep_sources: false, keep_fixes: false, ..Options::default() };
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        let name = format!("lint on {threads}");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                pool.install(|| lint::lint(black_box(&inputs), &policy, &Claims::default(), &options))
            });
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
