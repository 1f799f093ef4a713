//! Searches for objects that cost more than their bytes: every list, mapping and text of every kind made
//! long, alone, in pairs and in threes, nested in each other, with names that differ and names that repeat.
//!
//! The measure is deterministic: steps of the meter, and bytes allocated. For each shape an object four times
//! as long may cost at most one and a half times four times as many steps, and no shape may cost more for
//! each byte, or keep more memory, than the bounds below. What no step counts shows in the time for each byte,
//! which is held against that of the other shapes.
//!
//! Items that are empty, null, of the wrong type or invalid are searched as well, and cost the linter no more
//! than the webhook.
//!
//! In the gate a part of the shapes is tried, another one for each kind. `JOBGATE_HOSTILE=time` tries more, and
//! measures whole processes, too; it wants a release build, and takes about half an hour on two cores.
//! `.ci/hostile` runs that:
//!
//! * by steps, bytes and time: every place alone, and every wrong item in every list, of every kind. All pairs of
//!   three kinds that have all places between them ([`THOROUGH`]). Of the others all pairs of places that only
//!   that kind has, and a part of those with places of a pod or of metadata, another part for each kind.
//! * by whole processes, of what cost most for its bytes, took longest or held most there, and not of all:
//!   [`WHOLE`] shapes of each kind by each, with 64 KiB, 1 MiB and 3 MiB for `jobgate review` and 1 MiB for
//!   `jobgate lint`.
mod objects;
#[path = "../support/generate/places.rs"]
#[allow(dead_code, reason = "it serves the property test, too")]
mod places;
mod shapes;
mod texts;
mod whole;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cap::Cap;
use jobgate::admission::{self, Endpoint};
use jobgate::judge::facts::{Claim, Fact, FactKind, Facts, FoundObject};
use jobgate::judge::finding::Source;
use jobgate::judge::policy::Policy;
use jobgate::kinds::Kind;
use jobgate::local::lint::{self, Claims, Content, Input, Options, Reached};
use jobgate::report::{self, Format};
use jobgate::text::meter::{self, Bounds};
use jobgate::text::value::{Value, json};
use peak_alloc::PeakAlloc;

use objects::Base;
use shapes::Shape;
use whole::Table;
pub(crate) use whole::{MEASURE, run_measured};

/// Counts what is held at once.
static HELD: PeakAlloc = PeakAlloc;
/// Counts what is allocated in all, and passes everything on.
#[global_allocator]
static ALL: Cap<PeakAlloc> = Cap::new(HELD, usize::MAX);

/// Bytes of a small object, some four times that of one with an entry in each place; a large one has four
/// times as much again.
const SMALL: usize = 12 << 10;
/// How much more than the input the steps may grow.
const GROWTH: f64 = 1.5;
/// How much more than the input the bytes allocated may grow: a vector that doubles can have allocated twice
/// what it needs, or just that.
const GROWTH_WITH_DOUBLING: f64 = 2.0 * GROWTH;
/// The most steps for a byte of a review: a list of two bytes for each wrong item takes eleven on an UPDATE. An
/// ordinary review takes about a tenth of a step.
const MAX_STEPS_PER_BYTE: f64 = 14.0;
/// What commands and variables of scripts take at most, whatever the size of the object (`judge/commands/limits.rs`).
/// It is not weighed: only what is evaluated at the same time takes it, a handful of reviews.
const MOST_OF_SCRIPTS: usize = 5 << 20;
/// So few steps for the larger of two sizes grow by chance: a script is looked at from some length on.
const FEW_STEPS: u64 = 20_000;
/// The bytes of the largest review of which something is promised.
const LARGEST: usize = 3 << 20;
/// The most bytes allocated, in all, for a byte of a review.
const MAX_ALLOCATED_PER_BYTE: f64 = 1500.0;
/// The most bytes held at once for a byte of a review: 3 MiB of object come to 256 MiB.
const MAX_HELD_PER_BYTE: f64 = 85.0;

/// The most steps for a byte of a file that is linted: places are looked up, too, and nobody waits two seconds.
const MAX_LINT_STEPS_PER_BYTE: f64 = 24.0;
/// The most bytes held at once, and allocated, for a byte of a file that is linted.
const MAX_LINT_HELD_PER_BYTE: f64 = 130.0;
const MAX_LINT_ALLOCATED_PER_BYTE: f64 = 4000.0;
/// What a file of any size may hold.
const LINT_FLOOR: usize = 2 << 20;
/// The most bytes of a report about one object, whatever is in it.
const MAX_REPORT: usize = 2 << 20;
/// How many of the shapes of wrong items are tried for each kind in the gate.
const WRONG: usize = 40;

/// The largest answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// The most time for each byte, as a multiple of the median over all shapes. What is found in text takes
/// longer than what is skipped, and what is read as a script still longer.
const MAX_PACE: f64 = 100.0;
/// How many of the slowest shapes are timed again.
const PACED: usize = 8;
/// How often one is timed that seems to be slow: other processes may have had the machine.
const PACED_AGAIN: usize = 40;
/// The variable that says which kind a process searches.
const ONLY: &str = "JOBGATE_HOSTILE_KIND";
/// The variable for the process that searches texts.
const TEXTS: &str = "JOBGATE_HOSTILE_TEXTS";
/// How many of the costliest shapes the search goes on from, for each kind; in the gate from one.
const BEST: usize = 12;
/// How many pairs of each kind are tried in the gate. Most pairs are of the same lists of a pod in another
/// kind, so each kind has a turn with others of them.
const PAIRS: usize = 40;
/// One of so many shapes that the search goes on with is tried in the gate.
const THREES: usize = 4;
/// What is asked with each shape.
const ASKED: [(Endpoint, bool); 3] =
    [(Endpoint::Mutate, false), (Endpoint::Validate, true), (Endpoint::Mutate, true)];
/// How many shapes that cost too much are printed.
const MAX_SHOWN: usize = 200;
/// How many of the costliest shapes are kept, and timed.
const TIMED: usize = 60;
/// Kinds of which all pairs are tried where time is measured: a plain one, one with roles, and one with others
/// in it.
const THOROUGH: [&str; 3] =
    ["batch/v1/Job", "kubeflow.org/v1/PyTorchJob", "workload.codeflare.dev/v1beta2/AppWrapper"];
/// How many pairs with common places are tried of each other kind, where time is measured.
const PAIRS_TIMED: usize = 600;
/// How many of the costliest shapes of a kind whole processes are measured with, by each measure.
const WHOLE: usize = 24;

/// Every claim is there, for one node at a time: the rule about claims has the most to do then.
struct OneNodeEach;

impl Facts for OneNodeEach {
    fn claim(&self, _: &str, _: &str) -> Fact<Claim> {
        Fact::Known(Claim { access_modes: vec!["ReadWriteOnce".to_owned()], source: Source::Cluster })
    }

    fn object(&self, _: FactKind, _: &str, _: &str) -> Fact<FoundObject> {
        Fact::Known(RUNTIME.clone())
    }
}

/// A runtime of several Jobs, among them the one that the objects patch: each mounts a claim that the runtime
/// describes, and one that it names.
static RUNTIME: LazyLock<FoundObject> = LazyLock::new(|| {
    let pod = json!({
        "containers": [{"name": "node", "image": "i", "volumeMounts": [
            {"name": "v", "mountPath": "/checkpoints"}, {"name": "output", "mountPath": "/output"},
        ]}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    let labels = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
    let job = |name: String| json!({"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}}});
    let names = ["worker".to_owned()].into_iter().chain((0..2).map(|nth| format!("job-{nth}")));
    let claim = json!({"metadata": {"name": "output"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let object = json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "spec": {"mlPolicy": {"numNodes": 4}, "template": {"spec": {
            "replicatedJobs": names.map(job).collect::<Vec<Value>>(),
            "volumeClaimPolicies": [{"templates": [claim]}],
        }}},
    });
    FoundObject::from_object(&object, Source::Cluster).expect("a runtime")
});

/// What one review costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: usize,
    steps: u64,
    allocated: usize,
    held: usize,
    /// What the server would have let it take.
    weight: usize,
    took: Duration,
}

impl Cost {
    fn per_byte(&self) -> [f64; 3] {
        #[allow(clippy::cast_precision_loss, reason = "sizes of test objects")]
        [self.steps as f64, self.allocated as f64, self.held as f64].map(|cost| cost / self.bytes as f64)
    }

    /// How near it is to a bound: 1 is at it.
    fn score(&self) -> f64 {
        let [steps, allocated, held] = self.per_byte();
        (steps / MAX_STEPS_PER_BYTE).max(allocated / MAX_ALLOCATED_PER_BYTE).max(held / MAX_HELD_PER_BYTE)
    }

    /// The time for each byte: what no step counts shows here.
    fn seconds_per_byte(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "sizes of test objects")]
        let bytes = self.bytes as f64;
        self.took.as_secs_f64() / bytes
    }
}

fn measure(policy: &Policy, endpoint: Endpoint, body: &[u8]) -> Cost {
    let (allocated, held) = (ALL.total_allocated(), HELD.current_usage());
    HELD.reset_peak_usage();
    let began = Instant::now();
    let work = || admission::answer(endpoint, policy, &OneNodeEach, body, None);
    let (answer, steps) = meter::run(Bounds::default(), work).unwrap();
    let took = began.elapsed();
    let (allocated, held) = (ALL.total_allocated() - allocated, HELD.peak_usage().saturating_sub(held));
    assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
    assert!(answer.body.len() <= MAX_ANSWER, "an answer of {} bytes", answer.body.len());
    Cost { bytes: body.len(), steps, allocated, held, weight: admission::weight(body), took }
}

/// Lints an object as a file of JSON, and writes the report.
fn measure_lint(policy: &Policy, object: &str) -> Cost {
    let content = Content::Bytes(object.as_bytes().into());
    let input =
        Input { path: "object.json".into(), content, named: true, root: None, reached: Reached::Named };
    let (allocated, held) = (ALL.total_allocated(), HELD.current_usage());
    HELD.reset_peak_usage();
    let began = Instant::now();
    let work = || {
        let options = Options { keep_sources: false, ..Options::default() };
        let report = lint::lint(&[input], policy, &Claims::default(), &options).report;
        let mut out = Vec::new();
        report::write(&report, Format::Json, &report::Options::default(), &mut out).unwrap();
        out.len()
    };
    let (length, steps) = meter::run(Bounds::default(), work).unwrap();
    let took = began.elapsed();
    let (allocated, held) = (ALL.total_allocated() - allocated, HELD.peak_usage().saturating_sub(held));
    assert!(length <= MAX_REPORT, "a report of {length} bytes");
    // Nobody weighs a file before it is read: the bounds for each byte hold for it.
    Cost { bytes: object.len(), steps, allocated, held, weight: usize::MAX, took }
}

/// A shape on a base object, for one endpoint.
#[derive(Clone)]
struct Trial<'b> {
    base: &'b Base,
    shape: Shape,
    endpoint: Endpoint,
    update: bool,
}

impl Trial<'_> {
    fn cost(&self, policy: &Policy, size: usize) -> Cost {
        self.cost_of(policy, &self.shape.of_size(self.base, size))
    }

    /// Measures it with the object in its shape.
    fn cost_of(&self, policy: &Policy, object: &str) -> Cost {
        measure(policy, self.endpoint, self.base.review(object, self.update).as_bytes())
    }

    /// Measures whole processes with it, for each size of which something is promised.
    fn whole(&self, table: &mut Table) {
        for bounds in whole::REVIEW {
            // A review of an update has both objects.
            let size = if self.update { bounds.0 / 2 } else { bounds.0 };
            let body = self.base.review(&self.shape.of_size(self.base, size), self.update);
            table.measure(self.name(), bounds, || whole::review(self.endpoint, &body));
        }
    }

    fn name(&self) -> String {
        let operation = if self.update { "UPDATE" } else { "CREATE" };
        format!("{} {operation} {}: {}", self.endpoint.path(), self.base.name, self.shape)
    }
}

/// A trial, and by what it is ranked.
type Ranked<'b> = (f64, Trial<'b>);

/// Sorts what is ranked, the first one first, and leaves so many.
fn keep_first<T>(ranked: &mut Vec<(f64, T)>, most: usize) {
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(most);
}

/// Searches, and fails if some shape costs too much.
///
/// Bytes are counted for a whole process, so the kinds are searched by processes of their own, side by side.
pub(crate) fn no_object_costs_more_than_its_bytes() {
    let bases = objects::all();
    let timed = std::env::var("JOBGATE_HOSTILE").is_ok_and(|mode| mode == "time");
    let only = std::env::var(ONLY).ok();
    if let Some(only) = only {
        let (nth, base) = bases.iter().enumerate().find(|(_, base)| base.name == only).expect("a kind");
        return search(nth, base, timed);
    }
    let began = Instant::now();
    let program = std::env::current_exe().unwrap();
    // The longest search comes first.
    let mut waiting: Vec<&Base> = bases.iter().collect();
    waiting.sort_by_key(|base| base.length);
    let waiting = Mutex::new(waiting);
    let search = || {
        let next = || waiting.lock().unwrap().pop();
        let failed = std::iter::from_fn(next).filter(|base| {
            let mut command = Command::new(&program);
            command.args(["--exact", "no_object_costs_more_than_its_bytes"]).env(ONLY, &base.name);
            let failed = !command.status().unwrap().success();
            println!(
                "{}: {} after {:.0?}",
                base.name,
                if failed { "FAILED" } else { "done" },
                began.elapsed()
            );
            failed
        });
        failed.map(|base| base.name.as_str()).collect::<Vec<_>>()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let failed: Vec<&str> = thread::scope(|scope| {
        let searches: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        searches.into_iter().flat_map(|search| search.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "some shapes cost too much, of {}", failed.join(", "));
}

/// Searches texts in a process of their own, and fails if the linter needs too much for some.
pub(crate) fn no_text_costs_more_than_its_bytes() {
    if std::env::var_os(TEXTS).is_some() {
        return texts::search(std::env::var("JOBGATE_HOSTILE").is_ok_and(|mode| mode == "time"));
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "no_text_costs_more_than_its_bytes"]).env(TEXTS, "1");
    assert!(command.status().unwrap().success(), "some texts cost too much");
}

/// Searches the `nth` kind.
fn search(nth: usize, base: &Base, timed: bool) {
    let policy = jobgate::policies::builtin("default").unwrap();
    // What is made once for a process is nobody's cost.
    bare(base, &policy);
    let began = Instant::now();
    let mut search = Search {
        policy: &policy,
        timed,
        trials: 0,
        faults: Vec::new(),
        costly: Vec::new(),
        slow: Vec::new(),
        paces: Vec::new(),
        linted: [Vec::new(), Vec::new()],
    };
    search.kind(nth, base);
    let Search { trials, mut faults, costly, slow, mut paces, linted, .. } = search;
    println!("{}: {trials} trials in {:.0?}; the costliest:", base.name, began.elapsed());
    for (score, trial) in costly.iter().take(5) {
        println!("  {score:.2} {:?} {}", trial.cost(&policy, 4 * SMALL), trial.name());
    }
    faults.extend(off_the_pace(&slow, &mut paces, &policy));
    if timed {
        faults.extend(whole_processes(base, &costly, &slow, &linted));
    }
    println!("{}: {} faults after {:.0?}", base.name, faults.len(), began.elapsed());
    for fault in faults.iter().take(MAX_SHOWN) {
        println!("  {fault}");
    }
    assert!(faults.is_empty(), "some shapes cost too much");
}

/// Measures whole processes with the shapes of a kind that cost most, and says which are beyond the bounds.
fn whole_processes(
    base: &Base,
    costly: &[Ranked<'_>],
    slow: &[Ranked<'_>],
    linted: &[Vec<(f64, Shape)>; 2],
) -> Vec<String> {
    let mut whole = Table::default();
    let mut known = BTreeSet::new();
    for (_, trial) in [costly, slow].iter().flat_map(|ranked| ranked.iter().take(WHOLE)) {
        if known.insert(trial.name()) {
            trial.whole(&mut whole);
        }
    }
    let mut faults = whole.print("reviews");
    let mut whole = Table::default();
    for (_, shape) in linted.iter().flatten() {
        let name = format!("lint {}: {shape}", base.name);
        if known.insert(name.clone()) {
            let object = shape.of_size(base, whole::LINT.0);
            whole.measure(name, whole::LINT, || whole::lint("object.json", &object));
        }
    }
    faults.extend(whole.print("objects that are linted,"));
    faults
}

/// What an object of a kind costs that nothing is done to.
fn bare(base: &Base, policy: &Policy) -> [Cost; 3] {
    ASKED.map(|(endpoint, update)| Trial { base, shape: Shape::default(), endpoint, update }.cost(policy, 0))
}

/// What is known so far.
struct Search<'b> {
    policy: &'b Policy,
    timed: bool,
    trials: usize,
    faults: Vec<String>,
    costly: Vec<Ranked<'b>>,
    slow: Vec<Ranked<'b>>,
    paces: Vec<f64>,
    /// What was linted: by what it held, and by its time, for each byte.
    linted: [Vec<(f64, Shape)>; 2],
}

impl<'b> Search<'b> {
    /// Tries shapes of one kind, the `nth` of all.
    fn kind(&mut self, nth: usize, base: &'b Base) {
        let bare = bare(base, self.policy);
        let mut singles = shapes::singles(base);
        let lean = shapes::lean_pairs(&singles);
        let mut pairs_in_turn = 1;
        let mut lean_in_turn = 1;
        if !self.timed {
            // The others have the same texts.
            let has_texts = base.kind == Kind::JOB;
            singles.retain(|shape| shape.is_in_the_gate(nth) && (has_texts || !shape.is_text()));
        }
        let mut pairs = shapes::pairs(&singles);
        let mut own = Vec::new();
        if !self.timed {
            pairs_in_turn = pairs.len().div_ceil(PAIRS).max(1);
            // What is around other objects may cost something for each of them.
            lean_in_turn = if base.kind.components.is_some() { 1 } else { THREES };
        } else if !THOROUGH.contains(&base.name.as_str()) {
            (own, pairs) = pairs.into_iter().partition(Shape::is_own);
            pairs_in_turn = pairs.len().div_ceil(PAIRS_TIMED).max(1);
        }
        let shapes = singles.iter().cloned().chain(in_turn(lean, nth, lean_in_turn));
        let shapes = shapes.chain(own).chain(in_turn(pairs, nth, pairs_in_turn));
        let mut ranked: Vec<(f64, Shape)> =
            shapes.map(|shape| (self.shape(base, &bare, &shape), shape)).collect();
        // Where the search has found cost, it goes on: a third place beside the costliest two.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (best, threes_in_turn) = if self.timed { (BEST, 1) } else { (1, THREES) };
        let threes = shapes::threes(ranked.iter().take(best).map(|(_, shape)| shape), &singles);
        for three in in_turn(threes, nth, threes_in_turn) {
            self.shape(base, &bare, &three);
        }
        let wrong = shapes::wrong(base);
        let wrong_in_turn = if self.timed { 1 } else { wrong.len().div_ceil(WRONG).max(1) };
        for shape in in_turn(wrong, nth, wrong_in_turn) {
            self.shape(base, &bare, &shape);
            self.lint(base, &shape);
        }
        keep_first(&mut self.costly, TIMED);
        keep_first(&mut self.slow, TIMED);
        self.linted.iter_mut().for_each(|ranked| keep_first(ranked, WHOLE));
    }

    /// Lints an object in a shape.
    fn lint(&mut self, base: &'b Base, shape: &Shape) {
        let size = SMALL.max(2 * base.length);
        let [small, large] = [size, 4 * size].map(|size| {
            let object = shape.of_size(base, size);
            measure_lint(self.policy, &object)
        });
        self.trials += 1;
        let [steps, allocated, _] = large.per_byte();
        #[allow(clippy::cast_precision_loss, reason = "sizes of test objects")]
        let held = large.held.saturating_sub(LINT_FLOOR) as f64 / large.bytes as f64;
        #[allow(clippy::cast_precision_loss, reason = "sizes of test objects")]
        let growth = |of: fn(&Cost) -> usize| of(&large) as f64 / of(&small).max(1) as f64;
        let (input, grown) = (growth(|cost| cost.bytes), growth(|cost| cost.allocated));
        if steps > MAX_LINT_STEPS_PER_BYTE
            || allocated > MAX_LINT_ALLOCATED_PER_BYTE
            || held > MAX_LINT_HELD_PER_BYTE
            || grown > GROWTH_WITH_DOUBLING * input
        {
            self.faults.push(format!("lint {}: {shape}: {small:?} {large:?}", base.name));
        }
        let [by_memory, by_time] = &mut self.linted;
        by_memory.push((held, shape.clone()));
        by_time.push((large.seconds_per_byte(), shape.clone()));
    }

    /// Tries a shape in all ways, and returns how near the worst of them is to a bound.
    fn shape(&mut self, base: &'b Base, bare: &[Cost], shape: &Shape) -> f64 {
        let mut worst = 0.0_f64;
        let size = SMALL.max(2 * base.length);
        let [small, large] = [size, 4 * size].map(|size| shape.of_size(base, size));
        let asked = if self.timed || shape.is_read() && !shape.is_text() { 3 } else { 2 };
        for ((endpoint, update), bare) in ASKED.into_iter().zip(bare).take(asked) {
            let trial = Trial { base, shape: shape.clone(), endpoint, update };
            let [small, large] = [&small, &large].map(|object| trial.cost_of(self.policy, object));
            self.trials += 1;
            let score = small.score().max(large.score());
            // A shape may take away what the bare object costs, such as a script that is no longer read: then
            // it is what the least of it costs that does not count.
            let least = || trial.cost_of(self.policy, &shape.of_size(base, 0));
            let fault = too_much(bare, &small, &large).and_then(|_| too_much(&least(), &small, &large));
            self.faults.extend(fault.map(|why| format!("{}: {why}", trial.name())));
            worst = worst.max(score);
            self.paces.push(large.seconds_per_byte());
            self.slow.push((large.seconds_per_byte(), trial.clone()));
            self.costly.push((score, trial));
        }
        worst
    }
}

/// Returns one shape of `every`, others for each kind.
fn in_turn(shapes: Vec<Shape>, nth: usize, every: usize) -> impl Iterator<Item = Shape> {
    shapes.into_iter().skip(nth % every).step_by(every)
}

/// Says what is beyond the bounds in the costs of one shape at two sizes. What the object costs without it
/// does not count for the growth.
fn too_much(bare: &Cost, small: &Cost, large: &Cost) -> Option<String> {
    #[allow(clippy::cast_precision_loss, reason = "sizes of test objects")]
    let growth = |of: &dyn Fn(&Cost) -> usize| {
        let (bare, small, large) = (of(bare), of(small), of(large));
        // A shape that costs next to nothing grows by chance.
        let matters = small > bare && large > 2 * bare;
        if matters {
            large.saturating_sub(bare) as f64 / small.saturating_sub(bare).max(1) as f64
        } else {
            0.0
        }
    };
    let input = growth(&|cost| cost.bytes);
    let steps = growth(&|cost| usize::try_from(cost.steps).unwrap());
    let allocated = growth(&|cost| cost.allocated);
    let [steps_per_byte, allocated_per_byte, _] = large.per_byte();
    #[allow(clippy::cast_precision_loss, reason = "sizes of test objects")]
    let largest = LARGEST as f64 / large.bytes as f64;
    // So little that the largest review stays within the bounds, even if it takes the square of its size.
    let (few_steps, few_allocated) = (
        steps_per_byte * largest < MAX_STEPS_PER_BYTE,
        allocated_per_byte * largest < MAX_ALLOCATED_PER_BYTE,
    );
    let grows = steps > GROWTH * input && large.steps > FEW_STEPS && !few_steps;
    let swells = allocated > GROWTH_WITH_DOUBLING * input && !few_allocated;
    if input > 0.0 && (grows || swells) {
        return Some(format!(
            "input grows by {input:.2}, steps by {steps:.2}, bytes allocated by {allocated:.2}: {bare:?} {small:?} {large:?}"
        ));
    }
    if let Some(cost) =
        [small, large].into_iter().find(|cost| cost.held > cost.weight.saturating_add(MOST_OF_SCRIPTS))
    {
        return Some(format!("it takes more than it weighs: {cost:?}"));
    }
    (large.score() > 1.0).then(|| format!("{large:?}"))
}

/// Says which shapes take far more time for each byte than others do: work that no step counts. The slowest are
/// timed again, since any of them may have been interrupted.
fn off_the_pace(slow: &[Ranked<'_>], paces: &mut [f64], policy: &Policy) -> Vec<String> {
    paces.sort_by(f64::total_cmp);
    let usual = paces[paces.len() / 2];
    let again = |trial: &Trial<'_>| {
        let pace = || trial.cost(policy, 4 * SMALL).seconds_per_byte() / usual;
        let mut best = (0..3).map(|_| pace()).fold(f64::INFINITY, f64::min);
        for _ in 0..PACED_AGAIN {
            if best <= MAX_PACE {
                break;
            }
            best = best.min(pace());
        }
        best
    };
    let mut paces: Vec<(f64, &Trial<'_>)> =
        slow.iter().take(PACED).map(|(_, trial)| (again(trial), trial)).collect();
    paces.sort_by(|a, b| b.0.total_cmp(&a.0));
    if let Some((pace, trial)) = paces.first() {
        println!(
            "the slowest takes {pace:.0} times as long for each byte as the middle one: {}",
            trial.name()
        );
    }
    let beyond = paces.iter().filter(|(pace, _)| *pace > MAX_PACE);
    beyond.map(|(pace, trial)| format!("{}: {pace:.0} times the time of others", trial.name())).collect()
}
