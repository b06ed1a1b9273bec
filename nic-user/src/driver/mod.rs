//! The driver: AF_XDP rings of a NIC, for programs that want its frames without the kernel's stack.
//!
//! A frame is a chunk of memory that the NIC fills ([`umem`]). It is an owned value ([`pool`]): who
//! drops it gives it back, on whatever thread. What the user gets is a [`packet::Packet`], built
//! when the frame has arrived.
//!
//! Packets of one flow can be merged into larger ones ([`gro`]) on their way in; packets larger than
//! the wire carries are cut into segments ([`segment`]) on their way out.

pub mod buffers;
pub mod checksum;
pub mod gro;
mod headers;
pub mod packet;
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
