//! The driver: AF_XDP rings of a NIC, for programs that want its frames without the kernel's stack.
//!
//! A [`port::Port`] has the rings of some [`queue::Queue`]s of an interface. The frames in them are
//! chunks of one memory ([`buffers`]); outside of the rings each is an owned value ([`pool`]): who
//! drops it gives it back, on whatever thread.
//!
//! ```text
//!   pool --lend--> fill ring --> kernel or NIC --> RX ring --reclaim--> Frag
//!    ^                                                                   |
//!    |                                        receive: copy, split, whole, bounce
//!    |                                                                   v
//!    +--drop------------------------------------------------ Packet { linear, frags }
//!    |                                                                   |
//!    +--reclaim-- completion ring <-- kernel or NIC <-- TX ring <--lend--+
//! ```
//!
//! The kernel decides what comes to the rings: an XDP program that finds the queue's socket in an
//! XSKMAP. `Port::open` hands out every socket to be put there.
//!
//! Packets of one flow can be merged into larger ones ([`gro`]) on their way in; packets larger than
//! the wire carries are cut into segments ([`segment`]) on their way out.
//!
//! What is `unsafe` is in few places: [`umem`] (mapping memory), [`pool`] (who may touch a chunk),
//! `ring` (who may touch a slot), `socket` (system calls, and what the kernel is done with), and
//! [`checksum`] (vector instructions).

pub mod baseline;
pub mod buffers;
pub mod checksum;
pub mod gro;
mod headers;
pub mod packet;
pub mod partial;
pub mod pool;
pub mod port;
pub mod queue;
pub mod receive;
mod returns;
mod ring;
// Not inside `ring`, which the model checker compiles too.
#[cfg(test)]
#[path = "ring/tests.rs"]
mod ring_tests;
pub mod segment;
mod socket;
mod sync;
pub mod umem;

pub use socket::{Access, BusyPoll, Interface, Mode, Options};
