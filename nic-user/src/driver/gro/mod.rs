//! Generic receive offload: packets of one TCP or UDP flow that follow each other become one large
//! packet, so that what is done once a packet is done less often.
//!
//! How the payload of the next packet joins those before it depends on where it lies:
//!
//! ```text
//! headers alone in the linear part   by fragments: the payload's frame moves to the large packet,
//! or all of it in its frame          the headers' buffer goes back to its pool
//! payload in a copied linear part    chained: the packet stays as it is, behind the others
//!                                    (what the kernel calls frag_list)
//! ```
//!
//! Conditions are those of `tcp_gro_receive` (net/ipv4/tcp_offload.c), `udp_gro_receive`
//! (net/ipv4/udp_offload.c), `inet_gro_receive` and `ipv6_gro_receive`. A packet joins those of its
//! flow if all its headers are theirs, except for lengths, checksums, and what counts on:
//!
//! | condition | otherwise |
//! | --- | --- |
//! | no fragment, no IPv4 options, no padding, lengths those of the frame, payload | passed on |
//! | IP and transport checksum right ([`Checksums`]); UDP has one | passed on |
//! | no TCP SYN, RST or URG | passed on |
//! | TCP sequence number is the next; no CWR behind the first | starts anew |
//! | IPv4 identification is the next, or with DF set that of all others | starts anew |
//! | payload not longer than the first one's | starts anew |
//! | together not longer than [`Limits::max_len`]; at most 64 of UDP | starts anew |
//!
//! A large packet ends with FIN or PSH, with a shorter payload than the first, when a packet of its
//! flow does not join, when too many flows came in between, and when [`Gro::flush`] says so. Packets
//! of one flow leave in the order of their arrival. What leaves, segmented again
//! ([`Merged::super_packet`]), is byte for byte what came in.
//!
//! Two conditions differ from the kernel's. A checksum of 0xffff where 0 is as right is not joined,
//! since it would come out as 0. And a packet that does not join because its headers are unsound
//! ends its flow's large packet, where the kernel lets it overtake.

mod arrival;
mod held;
mod merged;

pub use merged::{Merged, Received};

use arrival::Arrival;
use held::{Held, Parts, Relation};

use super::{packet::Packet, segment::MAX_LEN};

/// Groups of flows (`GRO_HASH_BUCKETS`, net/gro.h).
const BUCKETS: usize = 8;
/// The most flows of a group (`MAX_GRO_SKBS`).
const MAX_HELD: usize = 8;

/// How large a packet may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a packet of TCP from the IP header on. Beyond 65535 its IP length is 0
    /// (BIG TCP). UDP ends at 65535.
    pub max_len: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_len: usize::from(u16::MAX) }
    }
}

/// Whether the transport checksums of packets that come in are looked at. IPv4's always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// A packet is merged only if its checksum is right: what is good for any source.
    #[default]
    Verified,
    /// Checksums are not looked at, as the kernel does with `CHECKSUM_UNNECESSARY` and
    /// `CHECKSUM_PARTIAL`. For sources that answer for the packets: a NIC that has verified them,
    /// or a sender on the same machine.
    ///
    /// It is the only way where checksums are unfinished: veth leaves them to a NIC that is not
    /// there, unless the sender's `tx-checksum-ip-generic` is off. What leaves, segmented again,
    /// has right checksums, whatever they were.
    Trusted,
}

/// What happened to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came in.
    pub received: u64,
    /// Of those, the ones that joined another by fragments.
    pub by_frags: u64,
    /// Of those, the ones that were chained to another.
    pub chained: u64,
    /// Packets that left as they had come.
    pub alone: u64,
    /// Large packets that left.
    pub merged: u64,
}

/// Merges packets.
#[derive(Debug)]
pub struct Gro {
    limits: Limits,
    checksums: Checksums,
    buckets: [Vec<Held>; BUCKETS],
    /// Bucket and index of what the last packet joined.
    recent: (usize, usize),
    /// Room for the parts of large packets to come.
    spare: Vec<Parts>,
    counters: Counters,
}

impl Gro {
    /// Nothing merged yet; checksums are verified.
    pub fn new(limits: Limits) -> Self {
        let max_len = limits.max_len.min(MAX_LEN);
        Self {
            limits: Limits { max_len },
            checksums: Checksums::Verified,
            buckets: [const { Vec::new() }; BUCKETS],
            recent: (0, 0),
            spare: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Says whether checksums are looked at.
    #[must_use]
    pub fn with_checksums(self, checksums: Checksums) -> Self {
        Self { checksums, ..self }
    }

    /// What happened so far.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes a packet; hands out those that end because of it, and itself if it cannot be held.
    #[inline]
    pub fn receive(&mut self, packet: Packet, mut each: impl FnMut(Received<'_>)) {
        self.counters.received += 1;
        let Some((arrival, found)) = self.recognise(&packet) else {
            self.counters.alone += 1;
            return each(Received::Packet(packet));
        };
        let fits = arrival.is_sound(&packet, self.checksums);
        let bucket = &mut self.buckets[arrival.bucket()];
        if let Some((index, relation)) = found
            && let Some(held) = bucket.get_mut(index)
        {
            self.recent = (arrival.bucket(), index);
            if fits && relation == Relation::Next && held.has_room(&arrival, self.limits) {
                let is_end = held.join(packet, &arrival, &mut self.counters);
                if is_end {
                    let held = bucket.swap_remove(index);
                    self.hand_out(held, &mut each);
                }
                return;
            }
            let held = bucket.swap_remove(index);
            self.hand_out(held, &mut each);
        }
        if fits && !arrival.ends() {
            self.hold(packet, &arrival, &mut each);
        } else {
            self.counters.alone += 1;
            each(Received::Packet(packet));
        }
    }

    /// Hands out everything that is held: at the end of a batch.
    #[inline]
    pub fn flush(&mut self, mut each: impl FnMut(Received<'_>)) {
        for index in 0..BUCKETS {
            while let Some(held) = self.buckets[index].pop() {
                self.hand_out(held, &mut each);
            }
        }
    }

    /// The packet, and which held one it has to do with. Mostly it is that of the packet before.
    #[inline]
    fn recognise(&self, packet: &Packet) -> Option<(Arrival, Option<(usize, Relation)>)> {
        let (bucket, index) = self.recent;
        let recent = self.buckets.get(bucket).and_then(|bucket| bucket.get(index));
        if let Some((arrival, relation)) = recent.and_then(|held| held.if_alike(packet)) {
            return Some((arrival, Some((index, relation))));
        }
        let arrival = Arrival::of(packet)?;
        let mut held = (0..).zip(&self.buckets[arrival.bucket()]);
        let found = held.find_map(|(index, held)| Some((index, held.relation(&arrival, packet)?)));
        Some((arrival, found))
    }

    fn hold(&mut self, packet: Packet, arrival: &Arrival, each: &mut impl FnMut(Received<'_>)) {
        let parts = self.spare.pop().unwrap_or_default();
        let bucket = &mut self.buckets[arrival.bucket()];
        let oldest = if bucket.len() == MAX_HELD { Some(bucket.remove(0)) } else { None };
        self.recent = (arrival.bucket(), bucket.len());
        bucket.push(Held::new(packet, arrival, parts));
        if let Some(oldest) = oldest {
            self.hand_out(oldest, each);
        }
    }

    fn hand_out(&mut self, held: Held, each: &mut impl FnMut(Received<'_>)) {
        let is_merged = held.is_merged();
        self.counters.merged += u64::from(is_merged);
        self.counters.alone += u64::from(!is_merged);
        self.spare.push(held.hand_out(each));
    }
}
