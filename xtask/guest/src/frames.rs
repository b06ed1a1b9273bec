//! Frames without end: known stacks of headers, cut, changed and spliced; the same in every run.

use serde::Deserialize;

/// Stacks of headers of every kind, which the walk's own tests have too.
const SEEDS: &str = include_str!("../../../nic-common/tests/headlen/basic.jsonl");

/// Bytes that mean something at many places of headers.
const TELLING: [u8; 24] = [
    0, 1, 4, 6, 8, 17, 41, 43, 44, 47, 50, 51, 58, 60, 0x11, 0x21, 0x45, 0x4f, 0x64, 0x81, 0x86,
    0x88, 0xa8, 0xff,
];

#[derive(Deserialize)]
struct Row {
    hex: String,
}

/// Makes one frame after the other, none shorter than an Ethernet header.
pub struct Frames {
    seeds: Vec<Vec<u8>>,
    state: u64,
}

impl Frames {
    pub fn new(seed: u64) -> Self {
        let seeds = SEEDS
            .lines()
            .map(|line| bytes(&serde_json::from_str::<Row>(line).expect("a row").hex))
            .filter(|frame| frame.len() >= super::header_length::SHORTEST)
            .collect();
        Self { seeds, state: seed }
    }

    /// xorshift64* (Vigna, 2016).
    fn random(&mut self, below: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        number as usize % below.max(1)
    }

    fn seed(&mut self) -> Vec<u8> {
        let index = self.random(self.seeds.len());
        self.seeds[index].clone()
    }

    fn change_bytes(&mut self, frame: &mut [u8]) {
        for _ in 0..=self.random(3) {
            // Headers are in front.
            let within = frame.len().min(96);
            let at = self.random(within);
            frame[at] = match self.random(3) {
                0 => self.random(256) as u8,
                1 => frame[at] ^ (1 << self.random(8)),
                _ => TELLING[self.random(TELLING.len())],
            };
        }
    }

    fn cut(&mut self, frame: &mut Vec<u8>) {
        frame.truncate(super::header_length::SHORTEST + self.random(frame.len()));
    }

    /// The front of one frame, and another one from its EtherType on or from anywhere.
    fn splice(&mut self, frame: &mut Vec<u8>) {
        let other = self.seed();
        let from = if self.random(2) == 0 { 12 } else { self.random(other.len()) };
        frame.truncate(12 + 2 * self.random(40));
        frame.extend_from_slice(&other[from..]);
    }
}

impl Iterator for Frames {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut frame = self.seed();
        if self.random(3) == 0 {
            self.splice(&mut frame);
            frame.resize(frame.len().max(super::header_length::SHORTEST), 0);
        }
        if self.random(4) != 0 {
            self.change_bytes(&mut frame);
        }
        if self.random(3) == 0 {
            self.cut(&mut frame);
        }
        Some(frame)
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex") as u8;
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
