//! How GRO put packets together: counted at TC ingress, in the packet object itself.

use std::os::fd::AsFd;

use crate::{
    error::Result,
    lab::{
        Host,
        bpf::{
            Hook, Link, Program, TC_ACT_UNSPEC,
            insn::{
                Body, FP, Helper, Insn, R1, R2, R3, R6, R7, Size, add, add_reg, call, copy, count,
                if_is, load, mov, store_reg, value_of,
            },
            map::Counters,
        },
    },
    offload::Btf,
};

/// In `struct __sk_buff` (linux/bpf.h).
const LEN: i16 = 0;
const GSO_SEGS: i16 = 164;
const GSO_SIZE: i16 = 176;

/// Counts super-packets of an interface; gone when dropped.
pub struct Merged {
    counters: Counters<5>,
    _link: Link,
}

/// Super-packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SuperPackets {
    /// All of them.
    pub packets: u64,
    /// Of those, the ones that are chains of packets (`frag_list`).
    pub chained: u64,
    /// Segments in all of them.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of memory that they are charged for (`truesize`).
    pub truesize: u64,
}

impl Merged {
    /// Counts at an interface of a host.
    pub fn attach(host: &Host, ifindex: u32) -> Result<Self> {
        let counters = Counters::new()?;
        let program = program(&Layout::of(&Btf::kernel()?)?, &counters);
        let program = Program::load(Hook::TcIngress, &program)?;
        Ok(Self { _link: program.attach(host, ifindex)?, counters })
    }

    /// What was counted so far.
    pub fn read(&self) -> Result<SuperPackets> {
        let [packets, chained, segments, bytes, truesize] = self.counters.read()?;
        Ok(SuperPackets { packets, chained, segments, bytes, truesize })
    }
}

impl SuperPackets {
    /// What was counted since `before`.
    pub const fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            chained: self.chained - before.chained,
            segments: self.segments - before.segments,
            bytes: self.bytes - before.bytes,
            truesize: self.truesize - before.truesize,
        }
    }
}

/// Where the running kernel has what is counted.
struct Layout {
    head: i32,
    end: i32,
    truesize: i32,
    frag_list: i32,
}

impl Layout {
    fn of(btf: &Btf) -> Result<Self> {
        Ok(Self {
            head: btf.offset("sk_buff", "head")?,
            end: btf.offset("sk_buff", "end")?,
            truesize: btf.offset("sk_buff", "truesize")?,
            frag_list: btf.offset("skb_shared_info", "frag_list")?,
        })
    }
}

/// The context of a TC program is the packet object; only what `struct __sk_buff` names is
/// translated, so the rest is read as memory of the kernel.
fn program(layout: &Layout, counters: &Counters<5>) -> Vec<Insn> {
    let count_one = |at| [mov(R1, 1), count(R7, at, R1)];
    Body::default()
        .then([copy(R6, R1)])
        .then(value_of(R7, counters.as_fd()))
        .then([load(Size::Word, R1, R6, GSO_SIZE)])
        .end_if(if_is(R1, 0))
        .then(count_one(0))
        .then([load(Size::Word, R1, R6, GSO_SEGS), count(R7, 16, R1)])
        .then([load(Size::Word, R1, R6, LEN), count(R7, 24, R1)])
        .then(read_member(4, layout.truesize))
        .then([load(Size::Word, R1, FP, -8), count(R7, 32, R1)])
        .then(read_frag_list(layout))
        .then([load(Size::Double, R1, FP, -8)])
        .end_if(if_is(R1, 0))
        .then(count_one(8))
        .ending_in(TC_ACT_UNSPEC)
}

/// Reads a member of the packet object to the top of the stack.
fn read_member(bytes: i32, offset: i32) -> Vec<Insn> {
    [vec![copy(R3, R6), add(R3, offset)], read(bytes)].concat()
}

/// Reads what R3 points to, to the top of the stack.
fn read(bytes: i32) -> Vec<Insn> {
    vec![copy(R1, FP), add(R1, -8), mov(R2, bytes), call(Helper::ProbeReadKernel)]
}

/// Reads `skb_shinfo(skb)->frag_list`; the shared info lies at the end of the linear buffer, which
/// is told as an offset from its head.
fn read_frag_list(layout: &Layout) -> Vec<Insn> {
    // The stack below the top holds the head while the end is read.
    let keep_head = [load(Size::Double, R1, FP, -8), store_reg(Size::Double, FP, -16, R1)];
    let shared_info = [
        load(Size::Word, R1, FP, -8),
        load(Size::Double, R3, FP, -16),
        add_reg(R3, R1),
        add(R3, layout.frag_list),
    ];
    [
        read_member(8, layout.head),
        keep_head.to_vec(),
        read_member(4, layout.end),
        shared_info.to_vec(),
        read(8),
    ]
    .concat()
}
