//! Packets cost no allocation: neither to receive, in any way that they are built, nor to send.

#[macro_use]
mod common;
mod port;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;

use nic_user::driver::packet::{Frag, Packet};
use nic_user::lab::frames::Ends;
use nic_user::lab::traffic::{self, IpVersion::V4};
use port::{LAYOUT, Rig, SPLIT, WHOLE, config};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts by thread.
struct Counting;

// SAFETY: everything is the system allocator's work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn receiving_building_and_sending_allocate_nothing() {
    needs_root!();
    for building in [WHOLE, SPLIT] {
        let mut rig = Rig::new(LAYOUT, &config(building));
        let ends = Ends::between(rig.lab.a(), rig.lab.b());
        let frames = [10, 1000].map(|len| ends.ethernet(ends.ipv4(ends.udp(V4, &vec![0; len]))));
        let buffers = Rc::clone(rig.port.buffers());
        let mut packets: Vec<Packet> = Vec::with_capacity(128);
        for _ in 0..10 {
            traffic::send_frames(rig.lab.a(), &frames).unwrap();
            rig.port.wait(port::PATIENCE).unwrap();
            let queue = &mut rig.port.queues_mut()[0];
            let counted = allocations(|| {
                queue.receive(64, |packet| packets.push(packet));
                for packet in packets.drain(..) {
                    queue.send(packet).unwrap();
                }
                let mut frag = Frag::empty(buffers.frames().take().unwrap(), 0);
                frag.append(&frames[0]);
                queue.send_frame(frag, false).unwrap();
                queue.flush().unwrap();
            });
            assert_eq!(counted, 0);
        }
        assert!(rig.port.statistics().unwrap()[0].built.packets() > 0);
    }
}
