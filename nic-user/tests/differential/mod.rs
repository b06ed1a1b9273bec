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
/// Packets sent at once.
const BATCH: usize = 48;

pub struct Worlds {
    all: [World; 3],
    numbers: u32,
    pub situations: u64,
}

impl Worlds {
    /// `None` if there is no `ip`.
    pub fn new() -> Option<Self> {
        let all = [World::new(Way::Kernel)?, World::new(Way::Rings)?, World::new(Way::InKernel)?];
        Some(Self { all, numbers: 0, situations: 0 })
    }

    /// Changes all routers.
    fn change(&mut self, commands: &[&str]) {
        self.all.iter_mut().for_each(|world| world.change(commands));
    }

    /// Sends packets to all routers.
    fn outcomes(&mut self, packets: &[&Packet]) -> [Outcomes; 3] {
        let first = self.numbers;
        self.numbers += packets.len() as u32;
        self.situations += packets.len() as u64;
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
            let expected = kernel.get(&number);
            for (way, outcomes) in [(Way::Rings, &rings), (Way::InKernel, &in_kernel)] {
                if outcomes.get(&number) != expected {
                    let [got, expected] = [outcomes.get(&number), expected].map(world::describe);
                    differing.push((*packet, format!("{way:?}: {got}\nKernel: {expected}")));
                }
            }
        }
        differing
    }

    /// The same, where a change at `changed` may not have been followed yet.
    fn check(&mut self, packets: &[Packet], changed: Instant, state: &str) {
        let mut packets: Vec<_> = packets.iter().collect();
        loop {
            let differing = self.differing(&packets);
            let Some((packet, how)) = differing.first() else { return };
            if changed.elapsed() >= FOLLOWED { for (packet, how) in &differing { println!("DIFF {packet:?}\n{how}\n{state}"); } return }
            packets = differing.iter().map(|(packet, _)| *packet).collect();
        }
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
    assert!(wrong.is_empty(), "by the kernel, rings, in the kernel: {wrong:#?}");
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
    Duration::from_secs(seconds.map_or(30, |it| it.parse().expect("NICCTL_FORWARD_SECONDS")))
}

/// Generated packets through routers that stay, then through routers that change; how many.
pub fn compare(worlds: &mut Worlds) -> u64 {
    let seed = env::var("NICCTL_FORWARD_SEED").ok();
    let seed: u64 = seed.map_or_else(rand_seed, |it| it.parse().expect("NICCTL_FORWARD_SEED"));
    let config = Config {
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let strategy = proptest::collection::vec(packets::any_packet(), BATCH);
    let mut packets = || strategy.new_tree(&mut runner).unwrap().current();
    let (start, time) = (Instant::now(), time());
    let state = format!("seed {seed}");
    while start.elapsed() < time / 3 {
        worlds.check(&packets(), start - FOLLOWED, &state);
    }
    for change in changes::ALL.iter().cycle() {
        if start.elapsed() > time {
            break;
        }
        let state = format!("seed {seed}, after {:?}", change.done);
        worlds.change(change.done);
        let changed = Instant::now();
        (0..3).for_each(|_| worlds.check(&packets(), changed, &state));
        worlds.change(change.undone);
        let changed = Instant::now();
        worlds.check(&packets(), changed, &format!("{state}, undone"));
    }
    worlds.situations
}

/// Another one in every run.
fn rand_seed() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_nanos() as u64)
}
