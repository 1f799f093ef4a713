use proptest::prelude::*;

use super::*;
use crate::certs::samples::{DAY, names, now as start};
use crate::certs::state::Data;

const HOUR: Duration = Duration::from_secs(3600);

fn authority(at: SystemTime) -> Authority {
    Authority::generate(&names(), at, Lifetimes::default().authority).unwrap()
}

fn leaf(of: &Authority, at: SystemTime) -> Leaf {
    of.sign(&names(), at, Lifetimes::default().leaf).unwrap()
}

/// A Secret after some changes.
fn secret(change: Change) -> Contents {
    let mut data = Data::new();
    change.apply(&mut data);
    Contents::from_data(&data, false, &names())
}

fn decide(now: SystemTime, contents: &Contents, leaf: Option<&Leaf>, soaked: &[Root]) -> Plan {
    plan(
        &View { now, contents: Some(contents), leaf, soaked, published: &[], spread: 0.0 },
        &names(),
        &Lifetimes::default(),
    )
    .unwrap()
}

fn step(plan: &Plan) -> Option<Step> {
    plan.store.as_ref().map(|(step, _)| *step)
}

/// The Secret after what the plan stores.
fn then(plan: &Plan) -> Contents {
    secret(plan.store.clone().expect("a step").1)
}

#[test]
fn an_empty_secret_is_filled_and_an_authority_there_is_taken() {
    let first = decide(start(), &secret(Change::default()), None, &[]);
    assert_eq!(
        (step(&first), first.sign.is_none(), first.bundle.is_none()),
        (Some(Step::Create), true, true)
    );
    let filled = then(&first);
    let second = decide(start(), &filled, None, &[]);
    assert_eq!(step(&second), None);
    assert_eq!(second.sign.unwrap().root(), &filled.current.roots()[0]);
    assert_eq!(second.bundle.unwrap(), filled.current.roots());
}

#[test]
fn what_was_published_stays_so_when_all_else_is_lost() {
    let (lost, empty) = (authority(start()), secret(Change::default()));
    let published = [lost.root().clone()];
    let view = View {
        now: start(),
        contents: Some(&empty),
        leaf: None,
        soaked: &[],
        published: &published,
        spread: 0.0,
    };
    let plan = plan(&view, &names(), &Lifetimes::default()).unwrap();
    assert_eq!(then(&plan).previous, published);
}

#[test]
fn the_last_good_authority_is_put_back() {
    let held = authority(start());
    let leaf = leaf(&held, start());
    let stranger = authority(start());
    let mut torn = Data::new();
    Change::default().current(&held).apply(&mut torn);
    torn.insert("ca.key".to_owned(), stranger.key_pem().into_bytes());
    for contents in [secret(Change::default()), Contents::from_data(&torn, false, &names())] {
        let plan = decide(start() + DAY, &contents, Some(&leaf), &[]);
        assert_eq!(step(&plan), Some(Step::Restore));
        assert_eq!(then(&plan).current.roots(), [held.root().clone()]);
        assert!(plan.sign.is_none(), "what is served goes on being served");
    }
}

#[test]
fn putting_back_ones_own_authority_keeps_what_others_serve() {
    let (held, later) = (authority(start()), authority(start()));
    let leaf = leaf(&held, start());
    let published = [held.root().clone(), later.root().clone()];
    let empty = secret(Change::default());
    let view = View {
        now: start() + DAY,
        contents: Some(&empty),
        leaf: Some(&leaf),
        soaked: &published,
        published: &published,
        spread: 0.0,
    };
    let plan = plan(&view, &names(), &Lifetimes::default()).unwrap();
    assert_eq!(step(&plan), Some(Step::Restore));
    assert_eq!(then(&plan).previous, [later.root().clone()]);
}

#[test]
fn without_the_secret_the_leaf_is_still_renewed() {
    let held = authority(start());
    let leaf = leaf(&held, start());
    let at = |now| {
        let view = View { now, contents: None, leaf: Some(&leaf), soaked: &[], published: &[], spread: 0.0 };
        plan(&view, &names(), &Lifetimes::default()).unwrap()
    };
    assert!(at(start() + 4 * DAY).sign.is_none());
    let late = at(start() + 5 * DAY);
    assert_eq!(late.sign.unwrap().root(), held.root());
    assert!(late.store.is_none() && late.bundle.is_none(), "nothing is written unread");
}

#[test]
fn a_rotation_goes_through_its_phases() {
    let old = authority(start());
    let leaf = leaf(&old, start() + 240 * DAY);
    let due = start() + 244 * DAY;
    let contents = secret(Change::default().current(&old));
    assert_eq!(step(&decide(start() + 243 * DAY, &contents, Some(&leaf), &[])), None);
    let next = decide(due, &contents, Some(&leaf), &[]);
    assert_eq!(step(&next), Some(Step::Next));
    let mut data = Data::new();
    Change::default().current(&old).apply(&mut data);
    next.store.unwrap().1.apply(&mut data);
    let contents = Contents::from_data(&data, false, &names());
    let new = contents.next.roots()[0].clone();
    let waiting = decide(due, &contents, Some(&leaf), &[old.root().clone()]);
    assert_eq!((step(&waiting), waiting.bundle.unwrap()), (None, vec![old.root().clone(), new.clone()]));
    let promote = decide(due, &contents, Some(&leaf), &[old.root().clone(), new.clone()]);
    assert_eq!(step(&promote), Some(Step::Promote));
    promote.store.unwrap().1.apply(&mut data);
    let contents = Contents::from_data(&data, false, &names());
    assert_eq!(
        (contents.current.roots(), contents.previous.clone()),
        (vec![new.clone()], vec![old.root().clone()])
    );
    let unsure = decide(due, &contents, Some(&leaf), &[]);
    assert!(
        unsure.sign.is_none(),
        "a replica that has not seen the new authority published goes on as it was"
    );
    let sure = decide(due, &contents, Some(&leaf), std::slice::from_ref(&new));
    assert_eq!(sure.sign.unwrap().root(), &new);
    let Slot::Good(signer) = &contents.current else { panic!("{contents:?}") };
    let fresh = self::leaf(signer, due + 6 * DAY);
    assert_eq!(step(&decide(due + 7 * DAY, &contents, Some(&fresh), &[])), None);
    let retire = decide(due + 8 * DAY, &contents, Some(&fresh), &[]);
    assert_eq!(step(&retire), Some(Step::Retire));
    assert_eq!(
        step(&decide(due + 8 * DAY, &contents, Some(&self::leaf(&old, due + 6 * DAY)), &[])),
        None,
        "not while it is served here"
    );
}

#[test]
fn the_expired_is_replaced_at_once() {
    let old = authority(start());
    let late = start() + 400 * DAY;
    let contents = secret(Change::default().current(&old));
    let plan = decide(late, &contents, Some(&leaf(&old, start())), &[]);
    assert_eq!(step(&plan), Some(Step::Create));
    assert!(then(&plan).previous.is_empty());
    let next = authority(late - DAY);
    let contents = secret(Change::default().current(&old).next(&next));
    let plan = decide(late, &contents, None, &[]);
    assert_eq!((step(&plan), then(&plan).current.roots()), (Some(Step::Promote), vec![next.root().clone()]));
}

#[test]
fn an_authority_of_somebody_elses_is_adopted_with_an_overlap() {
    let (ours, theirs) = (authority(start()), authority(start()));
    let leaf = leaf(&ours, start());
    let contents = secret(Change::default().current(&theirs));
    let plan = decide(start() + HOUR, &contents, Some(&leaf), &[]);
    assert_eq!(step(&plan), Some(Step::Keep));
    assert!(plan.sign.is_none() && plan.bundle.unwrap().contains(ours.root()));
}

#[test]
fn times_that_cannot_be_are_set_right() {
    let (current, old) = (authority(start()), authority(start()));
    let leaf = leaf(&current, start());
    for since in [start() + 900 * DAY, start() + 2 * HOUR] {
        let contents = secret(Change::default().current(&current).previous(&[old.root().clone()], since));
        let plan = decide(start(), &contents, Some(&leaf), &[]);
        assert_eq!((step(&plan), then(&plan).since), (Some(Step::Date), Some(start())));
    }
}

#[test]
fn one_may_ask_for_a_rotation() {
    let current = authority(start());
    let mut contents = secret(Change::default().current(&current));
    contents.rotate = true;
    let plan = decide(start(), &contents, Some(&leaf(&current, start())), &[]);
    assert_eq!(step(&plan), Some(Step::Next));
    assert!(plan.store.unwrap().1.clear_rotate);
}

#[test]
fn a_leaf_that_ends_with_its_authority_is_not_signed_over_and_over() {
    let old = authority(start());
    let end = old.root().not_after();
    let leaf = leaf(&old, end - HOUR);
    let contents = secret(Change::default().current(&old));
    for minutes in [1, 30, 59] {
        assert!(decide(end - Duration::from_secs(60 * minutes), &contents, Some(&leaf), &[]).sign.is_none());
    }
}

#[test]
fn a_look_that_failed_for_long_starts_the_wait_anew() {
    let root = authority(start()).root().clone();
    let mut soak = Soak::default();
    let at = Duration::from_secs;
    for second in (0..=600).step_by(10) {
        soak.note(at(second), std::slice::from_ref(&root));
    }
    assert_eq!(soak.over(at(600), at(600)), std::slice::from_ref(&root));
    assert!(soak.over(at(600), at(601)).is_empty());
    soak.note(at(700), std::slice::from_ref(&root));
    assert!(soak.over(at(700), at(600)).is_empty());
    soak.note(at(710), &[]);
    soak.note(at(720), std::slice::from_ref(&root));
    assert!(soak.over(at(725), at(10)).is_empty());
}

/// A replica in the model: what it read last, and what it serves.
#[derive(Default)]
struct Replica {
    leaf: Option<Leaf>,
    soak: Soak,
    ready: bool,
    read: Option<(u64, Data)>,
    began: u32,
}

/// A cluster in the model. API servers hear of a bundle late: they hold every bundle of the last `late`.
struct World {
    lifetimes: Lifetimes,
    now: SystemTime,
    tick: u32,
    version: u64,
    data: Data,
    bundle: Vec<Root>,
    held: Vec<(u32, Vec<Root>)>,
    replicas: Vec<Replica>,
    made: usize,
}

impl World {
    const TICK: Duration = Duration::from_secs(20);
    /// In ticks, and less than the soak.
    const LATE: u32 = 10;

    fn new(replicas: usize) -> Self {
        // Half an hour stands for a day, so that years pass in a test.
        let lifetimes = Lifetimes {
            authority: 9 * HOUR,
            leaf: HOUR,
            soak: Duration::from_secs(600),
            grace: HOUR / 2,
            settle: Duration::ZERO,
        };
        Self {
            lifetimes,
            now: start(),
            tick: 0,
            version: 0,
            data: Data::new(),
            bundle: Vec::new(),
            held: vec![(0, Vec::new())],
            replicas: (0..replicas).map(|_| Replica::default()).collect(),
            made: 0,
        }
    }

    fn read(&mut self, index: usize) {
        self.replicas[index].read = Some((self.version, self.data.clone()));
    }

    /// Acts on what was read, which may be old by now.
    fn act(&mut self, index: usize) {
        let Some((version, data)) = self.replicas[index].read.take() else { return };
        let contents = Contents::from_data(&data, false, &names());
        let uptime = Self::TICK * self.tick.saturating_sub(self.replicas[index].began);
        let replica = &mut self.replicas[index];
        replica.soak.note(uptime, &self.bundle);
        let soaked = replica.soak.over(uptime, self.lifetimes.soak);
        let spread = f64::from(u32::try_from(index).unwrap()) / 4.0;
        let view = View {
            now: self.now,
            contents: Some(&contents),
            leaf: replica.leaf.as_ref(),
            soaked: &soaked,
            published: &self.bundle,
            spread,
        };
        let plan = plan(&view, &names(), &self.lifetimes).unwrap();
        if let Some((step, change)) = plan.store {
            if version == self.version {
                change.apply(&mut self.data);
                self.version += 1;
                self.made += usize::from(matches!(step, Step::Create | Step::Next));
            }
            return;
        }
        if let Some(signer) = plan.sign {
            replica.leaf = Some(signer.sign(&names(), self.now, self.lifetimes.leaf).unwrap());
        }
        // A configuration is written only over the version that was read, and everything was read together.
        if let Some(bundle) = plan.bundle.filter(|bundle| version == self.version && *bundle != self.bundle) {
            self.bundle.clone_from(&bundle);
            self.held.push((self.tick, bundle));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.tick += 1;
        let now = self.tick;
        let superseded = |next: &(u32, Vec<Root>)| now - next.0 > Self::LATE;
        while self.held.get(1).is_some_and(superseded) {
            self.held.remove(0);
        }
    }

    /// Every certificate that is served by a replica that is ready verifies, wherever an API server stands.
    fn check(&mut self) {
        for replica in &mut self.replicas {
            let Some(leaf) = &replica.leaf else { continue };
            let everywhere = self.held.iter().all(|(_, bundle)| leaf.verifies(bundle, self.now));
            assert!(everywhere || !replica.ready, "at tick {}: {leaf:?} under {:?}", self.tick, self.held);
            replica.ready |= everywhere;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Three authorities' lives with replicas that read and write in any order, start anew at any time, and
    /// find the Secret emptied now and then.
    #[test]
    fn no_handshake_fails_in_years(seed in prop::collection::vec(any::<u8>(), 64..128), replicas in 1_usize..5) {
        let mut world = World::new(replicas);
        let mut bytes = seed.iter().cycle().enumerate().map(|(i, byte)| usize::from(byte.wrapping_mul(31).wrapping_add(u8::try_from(i * i % 251).unwrap())));
        let mut next = || bytes.next().unwrap();
        for _ in 0..1500 {
            for index in 0..replicas {
                match next() % 4 {
                    0 => world.read(index),
                    1 => world.act(index),
                    2 => { world.act(index); world.read(index); }
                    _ => { world.read(index); world.act(index); }
                }
                // Nobody is out of touch for longer than a minute or so.
                if world.tick.is_multiple_of(3) {
                    world.read(index);
                    world.act(index);
                }
            }
            if next() == 7 {
                let index = next() % replicas;
                world.replicas[index] = Replica { began: world.tick, ..Replica::default() };
            }
            if next() == 9 && world.replicas.iter().all(|replica| replica.ready) {
                world.data.clear();
                world.version += 1;
            }
            world.check();
            world.pass(World::TICK * 2);
        }
        // One that began in the last turn has had no time yet: API servers may still hold the bundle of
        // before.
        for _ in 0..=World::LATE {
            for index in 0..replicas {
                world.read(index);
                world.act(index);
            }
            world.check();
            world.pass(World::TICK * 2);
        }
        prop_assert!(world.replicas.iter().all(|replica| replica.ready));
        prop_assert!(world.made >= 2, "{}", world.made);
        prop_assert!(world.bundle.len() <= 4, "{:?}", world.bundle);
    }

    /// However many start at once on an empty Secret, one authority comes of it.
    #[test]
    fn a_race_has_one_winner(order in prop::collection::vec((0_usize..5, any::<bool>()), 40..80)) {
        let mut world = World::new(5);
        for (index, act) in order {
            if act { world.act(index) } else { world.read(index) }
        }
        for _ in 0..3 {
            for index in 0..5 {
                world.read(index);
                world.act(index);
            }
        }
        prop_assert_eq!(world.made, 1);
        let roots = Contents::from_data(&world.data, false, &names()).current.roots();
        prop_assert_eq!(&world.bundle, &roots);
        for replica in &world.replicas {
            prop_assert!(replica.leaf.as_ref().is_some_and(|leaf| leaf.verifies(&roots, world.now)));
        }
    }

    /// A clock that jumps to and fro and a machine asleep for a month: whatever the time is now, two turns
    /// later what is served holds.
    #[test]
    fn a_jump_is_over_after_two_turns(jumps in prop::collection::vec(-40_i64..400, 1..12)) {
        let mut world = World::new(2);
        for days in jumps {
            let by = DAY * u32::try_from(days.abs()).unwrap() / 48;
            world.now = if days < 0 { world.now - by } else { world.now + by };
            for _ in 0..3 {
                for index in 0..2 {
                    world.read(index);
                    world.act(index);
                }
            }
            for replica in &world.replicas {
                prop_assert!(replica.leaf.as_ref().is_some_and(|leaf| leaf.verifies(&world.bundle, world.now)), "{:?}", world.bundle);
            }
        }
    }
}
