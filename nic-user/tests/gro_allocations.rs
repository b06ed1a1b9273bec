//! Merging packets and segmenting them again allocates nothing.

mod super_packets;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    rc::Rc,
};

use nic_common::{
    headers::HeaderInfo,
    policy::{CopyPolicy, Verdict},
};
use nic_user::driver::{
    buffers::{self, Buffers},
    gro::{Counters, Gro, Limits, Received},
    packet::{Frag, Frags, Packet},
    receive::{Builder, Building},
    segment::Ids,
};
use super_packets::{Ip, Spec, Transport, segment};

/// The system's allocator, which counts.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the rules.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const ROUNDS: u64 = 1000;

#[derive(Clone, Copy, Debug)]
enum Placement {
    /// Only headers in the linear part.
    Split,
    /// 256 bytes in the linear part.
    Fixed,
}

struct Way {
    buffers: Rc<Buffers>,
    builder: Builder,
    gro: Gro,
}

impl Way {
    fn new() -> Self {
        let buffers = Buffers::new(buffers::Layout::default()).unwrap();
        let policy = CopyPolicy { rx_copybreak: 0, ..CopyPolicy::DEFAULT };
        let builder = Builder::new(Building { policy, bounce_below: 0 }, &buffers).unwrap();
        Self { buffers, builder, gro: Gro::new(Limits::default()) }
    }

    /// Builds packets, merges them, and segments what leaves into fresh frames.
    fn go(&mut self, frames: &[Vec<u8>], placement: Placement) {
        let Self { buffers, builder, gro } = self;
        for bytes in frames {
            let mut frag = Frag::empty(buffers.frames().take().unwrap(), 0);
            frag.append(bytes);
            let packet = match placement {
                Placement::Split => builder.build(frag),
                Placement::Fixed => fixed(buffers, frag),
            };
            gro.receive(packet, |received| segment_again(buffers, &received));
        }
        gro.flush(|received| segment_again(buffers, &received));
    }
}

fn fixed(buffers: &Buffers, mut frag: Frag) -> Packet {
    let info = HeaderInfo::of(&*frag);
    let mut linear = Frag::empty(buffers.copies().take().unwrap(), 0);
    linear.append(&frag[..256]);
    frag.advance(256);
    Packet { linear, frags: Frags::from_iter([frag]), info, verdict: Verdict::Split }
}

fn segment_again(buffers: &Buffers, received: &Received<'_>) {
    if let Received::Merged(merged) = received {
        let mut segments = merged.super_packet().unwrap().segments();
        while segments.left() > 0 {
            segments.write(&mut buffers.frames().take().unwrap()).unwrap();
        }
    }
}

#[test]
fn nothing_is_allocated_for_a_packet() {
    for tcp in [true, false] {
        let transport = Transport::Tcp {
            sequence: 1,
            acknowledged: 1,
            flags: 0x10,
            window: 1,
            options: vec![],
        };
        let spec = Spec {
            vlans: vec![],
            ip: Ip::V4 { tos: 0, id: 0, dont_fragment: true, ttl: 64, options: 0 },
            transport: if tcp { transport } else { Transport::Udp },
            ports: [1, 2],
            segment_size: 1400,
            payload_len: 56_000,
            seed: 1,
        };
        let frames = segment(&spec, &spec.payload(), Ids::Increment);
        for placement in [Placement::Split, Placement::Fixed] {
            let mut way = Way::new();
            // Room for the parts of a large packet is made once.
            way.go(&frames, placement);
            let before = ALLOCATIONS.get();
            for _ in 0..ROUNDS {
                way.go(&frames, placement);
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "TCP {tcp}, {placement:?}");
            let Counters { received, by_frags, chained, .. } = way.gro.counters();
            assert_eq!(received, (ROUNDS + 1) * frames.len() as u64);
            assert_eq!(by_frags + chained, received - (ROUNDS + 1));
        }
    }
}
