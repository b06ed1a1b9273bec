//! The driver: AF_XDP rings of a NIC, for programs that want its frames without the kernel's stack.
//!
//! A frame is a chunk of memory that the NIC fills ([`umem`]). It is an owned value ([`pool`]): who
//! drops it gives it back, on whatever thread. What the user gets is a [`packet::Packet`], built
//! when the frame has arrived.

#![allow(dead_code, reason = "the rings that borrow from pools follow")]

pub mod packet;
pub mod pool;
mod returns;
mod sync;
pub mod umem;
