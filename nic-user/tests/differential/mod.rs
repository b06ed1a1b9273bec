//! What the kernel alone does with packets, beside what it does with a forwarder on it: the same
//! packets for three routers that differ in nothing else.

mod cases;
mod changes;
mod packets;
mod world;

use std::{
    env,
    time::{Duration, Instant},
};

use cases::Fate;
use packets::Packet;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, RngSeed, TestRunner},
};
use world::{Outcomes, Place, Way, World};

/// How long a change may take to be followed.
const FOLLOWED: Duration = Duration::from_secs(3);
/// How often a packet is sent until it counts as treated differently: two processors may overtake
/// each other, and an answer may be left out.
const TIMES: usize = 3;
/// Packets sent at once.
const BATCH: usize = 48;

pub struct Worlds {
    all: [World; 3],
    numbers: u32,
    /// Packets compared.
    pub situations: u64,
    /// Of these, how many were sent again, where nothing had just changed.
    pub repeated: u64,
    /// Changes while they were sent.
    pub changes: u64,
}

impl Worlds {
    /// `None` if there is no `ip`.
    pub fn new() -> Option<Self> {
        let all = [World::new(Way::Kernel)?, World::new(Way::Rings)?, World::new(Way::InKernel)?];
        Some(Self { all, numbers: 0, situations: 0, changes: 0, repeated: 0 })
    }

    /// Changes all routers. Whether a change is possible is the same for all of them.
    fn change(&mut self, commands: &[String]) {
        let [kernel, rings, in_kernel] = self.all.each_mut().map(|world| world.change(commands));
        assert!(kernel == rings && kernel == in_kernel, "{commands:?}");
    }

    /// Sends packets to all routers.
    fn outcomes(&mut self, packets: &[&Packet]) -> [Outcomes; 3] {
        let first = self.numbers;
        self.numbers += packets.len() as u32;
        self.all.each_ref().map(|world| {
            let mut outcomes = Outcomes::new();
            for (number, packet) in (first..).zip(packets) {
                world.send(packet, number);
            }
            world.settle(&mut outcomes);
            outcomes.retain(|number, _| *number >= first);
            outcomes
        })
    }

    /// Sends packets to all routers; which of them were treated otherwise than by the kernel.
    fn differing<'p>(&mut self, packets: &[&'p Packet]) -> Vec<(&'p Packet, String)> {
        let first = self.numbers;
        let [kernel, rings, in_kernel] = self.outcomes(packets);
        let mut differing = Vec::new();
        for (number, packet) in (first..).zip(packets) {
            let all = [&kernel, &rings, &in_kernel].map(|outcomes| outcomes.get(&number));
            if all != [all[0]; 3] {
                let [kernel, rings, in_kernel] = all.map(world::describe);
                let how = format!("kernel: {kernel}\nrings: {rings}\nin the kernel: {in_kernel}");
                differing.push((*packet, how));
            }
        }
        differing
    }

    /// The same, where a change at `changed` may not have been followed yet; those that differ time
    /// and again, and how.
    fn differing_since<'p>(
        &mut self,
        changed: Instant,
        packets: &'p [Packet],
    ) -> Vec<(&'p Packet, String)> {
        self.situations += packets.len() as u64;
        let mut packets: Vec<_> = packets.iter().collect();
        let mut times = 0;
        loop {
            let differing = self.differing(&packets);
            let settled = changed.elapsed() >= FOLLOWED;
            times += usize::from(settled);
            if differing.is_empty() || times >= TIMES {
                return differing;
            }
            packets = differing.iter().map(|(packet, _)| *packet).collect();
            if settled {
                self.repeated += packets.len() as u64;
            }
        }
    }

    fn check(&mut self, changed: Instant, packets: &[Packet], state: &str) {
        let differing = self.differing_since(changed, packets);
        let each = differing.iter().map(|(packet, how)| format!("\n{packet:?}\n{how}"));
        assert!(differing.is_empty(), "{state}:{}", each.collect::<String>());
    }
}

/// Packets of which it is known what the kernel does with them.
pub fn known(worlds: &mut Worlds) {
    let mut wrong = Vec::new();
    for (name, packet, expected) in cases::cases() {
        let outcomes = worlds.outcomes(&[&packet]);
        let fates = outcomes.each_ref().map(fate);
        if fates != [expected; 3] || outcomes.iter().any(|it| *it != outcomes[0]) {
            wrong.push(format!("{name}: {fates:?}, not {expected:?}"));
        }
    }
    for cases::Changed { name, change, packet, fate: expected } in cases::changed() {
        worlds.change(&change.done);
        let changed = Instant::now();
        let differing = worlds.differing_since(changed, std::slice::from_ref(&packet));
        let [kernel, ..] = worlds.outcomes(&[&packet]);
        if fate(&kernel) != expected || !differing.is_empty() {
            wrong.push(format!("{name}: {differing:?}, {:?}, not {expected:?}", fate(&kernel)));
        }
        worlds.change(&change.undone);
    }
    assert!(wrong.is_empty(), "by the kernel, rings, in the kernel: {wrong:#?}");
}

/// What the router has learnt of the way to a host counts for packets of others, too.
pub fn learnt(worlds: &mut Worlds) {
    let far = "fd02::3";
    let frame = packets::too_big([world::ROUTER, world::NEAR], far.parse().unwrap());
    assert!(worlds.all.iter().all(|world| world.send_frame(&frame)));
    let packet = Packet { payload: 1400, ..Packet::between("fd01::2", far) };
    let changed = Instant::now();
    let differing = worlds.differing_since(changed, std::slice::from_ref(&packet));
    let [kernel, ..] = worlds.outcomes(&[&packet]);
    assert_eq!(fate(&kernel), (false, false, Some((2, 0))));
    assert!(differing.is_empty(), "{differing:?}");
}

/// What became of the only packet.
fn fate(outcomes: &Outcomes) -> Fate {
    let all: Vec<_> = outcomes.values().flatten().collect();
    let is_at = |wanted| all.iter().any(|(place, _)| *place == wanted);
    let answer = all.iter().find(|(place, _)| *place == Place::Near);
    (is_at(Place::Far), is_at(Place::Host), answer.and_then(|(_, frame)| world::answer(frame)))
}

/// How long to go on: `NICCTL_FORWARD_SECONDS`, or what the test command has time for.
fn time() -> Duration {
    let seconds = env::var("NICCTL_FORWARD_SECONDS").ok();
    Duration::from_secs(seconds.map_or(20, |it| it.parse().expect("NICCTL_FORWARD_SECONDS")))
}

/// Generated packets through routers that stay, then through routers that change.
pub fn compare(worlds: &mut Worlds) {
    let seed = env::var("NICCTL_FORWARD_SEED").ok();
    let seed: u64 = seed.map_or_else(rand_seed, |it| it.parse().expect("NICCTL_FORWARD_SEED"));
    let config = Config {
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let packets = proptest::collection::vec(packets::any_packet(), BATCH);
    let changes = proptest::collection::vec(changes::any_change(), 1..4);
    let (start, time) = (Instant::now(), time());
    let state = format!("seed {seed}");
    while start.elapsed() < time / 4 {
        worlds.check(start - FOLLOWED, &any(&packets, &mut runner), &state);
    }
    while start.elapsed() < time {
        let changes = any(&changes, &mut runner);
        let state = format!("{state}, after {changes:#?}");
        for change in &changes {
            worlds.change(&change.done);
            let changed = Instant::now();
            (0..3).for_each(|_| worlds.check(changed, &any(&packets, &mut runner), &state));
        }
        for change in changes.iter().rev() {
            worlds.change(&change.undone);
        }
        let state = format!("{state}, undone");
        worlds.check(Instant::now(), &any(&packets, &mut runner), &state);
        worlds.changes += changes.len() as u64;
    }
}

fn any<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).expect("nothing is filtered").current()
}

/// Another one in every run.
fn rand_seed() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_nanos() as u64)
}
