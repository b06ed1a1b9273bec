//! How packets get to the kernel's TCP, and from there into GRO.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use nic_common::policy::CopyPolicy;
use nic_user::driver::{
    buffers::{Buffers, Layout},
    checksum::Sum,
    gro::{Checksums, Counters, Gro, Limits, Received},
    packet::{Frag, Packet},
    port::Port,
    queue::Refusal,
    receive::{Builder, Building},
    segment::Segments,
};

use crate::{port::PATIENCE, tap::Tap};

pub trait Wire {
    /// Sends the segments of a packet.
    fn send<'p>(&mut self, segments: Segments<'p, impl Iterator<Item = &'p [u8]>>);
    /// What has arrived, merged; waits for at least one frame.
    fn receive(&mut self, each: impl FnMut(Received<'_>));
    /// What GRO counted.
    fn counters(&self) -> Counters;
}

/// Frames that are written and read one by one.
pub struct TapWire<'t> {
    tap: &'t Tap,
    buffers: Rc<Buffers>,
    builder: Builder,
    gro: Gro,
}

impl<'t> TapWire<'t> {
    pub fn new(tap: &'t Tap) -> Self {
        let buffers = Buffers::new(Layout::default()).unwrap();
        let policy = CopyPolicy { rx_copybreak: 0, ..CopyPolicy::DEFAULT };
        let builder = Builder::new(Building { policy, bounce_below: 0 }, &buffers).unwrap();
        Self { tap, buffers, builder, gro: Gro::new(Limits::default()) }
    }

    fn wait(&self) {
        let (fd, events) = (self.tap.file.as_raw_fd(), libc::POLLIN);
        let mut tap = libc::pollfd { fd, events, revents: 0 };
        // SAFETY: it is one descriptor.
        let ready = unsafe { libc::poll(&mut tap, 1, PATIENCE.as_millis() as i32) };
        assert_eq!(ready, 1, "the kernel sends nothing");
    }
}

impl Wire for TapWire<'_> {
    fn send<'p>(&mut self, mut segments: Segments<'p, impl Iterator<Item = &'p [u8]>>) {
        let mut frame = [0; 2048];
        while let Some(len) = segments.write(&mut frame).unwrap() {
            assert_eq!((&self.tap.file).write(&frame[..len]).unwrap(), len);
        }
    }

    fn receive(&mut self, mut each: impl FnMut(Received<'_>)) {
        self.wait();
        let mut frame = vec![0; 2048];
        let mut each = |received: Received<'_>| {
            if let Received::Packet(packet) = &received {
                assert!(has_right_checksum(packet));
            }
            each(received);
        };
        loop {
            match (&self.tap.file).read(&mut frame) {
                Ok(len) => {
                    let mut frag = Frag::empty(self.buffers.frames().take().unwrap(), 0);
                    assert!(frag.append(&frame[..len]));
                    self.gro.receive(self.builder.build(frag), &mut each);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("read tap: {error}"),
            }
        }
        self.gro.flush(each);
    }

    fn counters(&self) -> Counters {
        self.gro.counters()
    }
}

/// The rings of a veth, which leaves checksums unfinished.
pub struct PortWire<'p> {
    port: &'p mut Port,
    gro: Gro,
}

impl<'p> PortWire<'p> {
    pub fn new(port: &'p mut Port) -> Self {
        let gro = Gro::new(Limits::default()).with_checksums(Checksums::Trusted);
        Self { port, gro }
    }
}

impl Wire for PortWire<'_> {
    fn send<'p>(&mut self, mut segments: Segments<'p, impl Iterator<Item = &'p [u8]>>) {
        let queue = &mut self.port.queues_mut()[0];
        while let Err(why) = queue.send_segments(&mut segments) {
            assert_eq!(why, Refusal::Full);
            queue.flush().unwrap();
        }
        queue.flush().unwrap();
    }

    fn receive(&mut self, mut each: impl FnMut(Received<'_>)) {
        assert!(self.port.wait(PATIENCE).unwrap(), "the kernel sends nothing");
        let queue = &mut self.port.queues_mut()[0];
        while queue.receive_merged(64, &mut self.gro, &mut each) > 0 {}
    }

    fn counters(&self) -> Counters {
        self.gro.counters()
    }
}

/// Whether a packet that GRO did not merge is right as it is.
fn has_right_checksum(packet: &Packet) -> bool {
    if packet.info.l4.number() != Some(6) {
        return true;
    }
    let bytes = packet.to_vec();
    let (l3, l4) = (packet.info.l3_offset as usize, packet.info.l4_offset as usize);
    let addresses = if bytes[l3] >> 4 == 4 { l3 + 12..l3 + 20 } else { l3 + 8..l3 + 40 };
    let sum = Sum::of(&bytes[addresses]).with_u16(6).with_u32((bytes.len() - l4) as u32);
    sum.plus(Sum::of(&bytes[l4..])).is_valid()
}
