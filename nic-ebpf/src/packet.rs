//! The bytes of a packet in BPF: by pointer where they are linear, by helper where they may not be.

use core::{cell::Cell, mem::MaybeUninit};

use aya_ebpf::{
    bindings::{__sk_buff, bpf_hdr_start_off::BPF_HDR_START_MAC, xdp_md},
    cty::{c_long, c_void},
    helpers::generated::{
        bpf_skb_load_bytes, bpf_skb_load_bytes_relative, bpf_xdp_get_buff_len, bpf_xdp_load_bytes,
    },
    programs::{TcContext, XdpContext},
};
use nic_common::frame::{Fields, Frame};

const ETHERNET_LEN: u32 = 14;

/// The linear part of a packet, read through checked pointers.
#[derive(Clone, Copy)]
pub struct Direct {
    data: usize,
    end: usize,
    len: u32,
}

/// `N` bytes of the linear part that are known to be there.
#[derive(Clone, Copy)]
pub struct Checked(*const u8);

impl Direct {
    pub fn xdp(ctx: &XdpContext, len: u32) -> Self {
        Self { data: ctx.data(), end: ctx.data_end(), len }
    }

    pub fn skb(ctx: &TcContext) -> Self {
        Self { data: ctx.data(), end: ctx.data_end(), len: ctx.len() }
    }

    /// The linear part of a packet of `len` bytes.
    #[inline(always)]
    pub fn of_packet(self, len: u32) -> Self {
        Self { len, ..self }
    }

    /// Bytes in the linear part.
    #[inline(always)]
    pub fn linear_len(&self) -> u32 {
        distance(self.data, self.end)
    }
}

impl Frame for Direct {
    type Header<const N: usize> = Checked;

    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    fn header<const N: usize>(&self, at: u32) -> Option<Checked> {
        let mut start = self.data + at as usize;
        // SAFETY: a register moved to itself. It hides from the compiler where `start` comes from,
        // so that the check below and the reads behind it use one register: the verifier carries
        // the proven range over to no other.
        unsafe { core::arch::asm!("{0} = {0}", inout(reg) start, options(pure, nomem, nostack)) };
        (start + N <= self.end).then_some(Checked(start as *const u8))
    }
}

impl Fields for Checked {
    #[inline(always)]
    fn u8(&self, at: usize) -> u8 {
        // SAFETY: `header` checked the bytes; the verifier refuses the program if it did not.
        unsafe { *self.0.add(at) }
    }

    #[inline(always)]
    fn be16(&self, at: usize) -> u16 {
        // SAFETY: as above. BPF loads need no alignment in packets; the verifier checks that too.
        u16::from_be(unsafe { *self.0.add(at).cast::<u16>() })
    }
}

/// The linear part of a packet, read at offsets that the verifier knows nothing about.
pub struct Anywhere(pub Direct);

impl Frame for Anywhere {
    type Header<const N: usize> = Checked;

    #[inline(always)]
    fn len(&self) -> u32 {
        self.0.len
    }

    #[inline(always)]
    fn header<const N: usize>(&self, at: u32) -> Option<Checked> {
        // The verifier follows pointers into packets only up to 64 KiB.
        const FARTHEST: u32 = 0x3fff;
        let at = opaque(at);
        if at > FARTHEST { None } else { self.0.header::<N>(at) }
    }
}

/// `value`, as something that the compiler knows nothing about, unlike the verifier.
#[inline(always)]
pub fn opaque(mut value: u32) -> u32 {
    // SAFETY: a register moved to itself.
    unsafe { core::arch::asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack)) };
    value
}

/// `context`, as one of which the compiler has read nothing yet.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "the pointer moves, nothing is read by it")]
pub fn anew<T>(mut context: *mut T) -> *mut T {
    // SAFETY: a register moved to itself. Not `pure`: the compiler must not take two for one.
    unsafe { core::arch::asm!("{0} = {0}", inout(reg) context, options(nomem, nostack)) };
    context
}

/// A whole packet, read through the kernel's helpers: slower, but reaches every fragment.
pub struct Loaded<C> {
    pub ctx: C,
    pub len: u32,
}

/// A context from whose packet a helper copies bytes.
pub trait LoadBytes: Copy {
    /// Copies `len` bytes that start `at` bytes into the packet.
    ///
    /// # Safety
    ///
    /// `to` must be valid for writing `len` bytes.
    unsafe fn load_bytes(self, at: u32, to: *mut c_void, len: u32) -> c_long;
}

impl LoadBytes for *mut xdp_md {
    #[inline(always)]
    unsafe fn load_bytes(self, at: u32, to: *mut c_void, len: u32) -> c_long {
        // SAFETY: the caller's.
        unsafe { bpf_xdp_load_bytes(self, at, to, len) }
    }
}

/// A packet of the stack.
#[derive(Clone, Copy)]
pub struct Skb {
    pub ctx: *mut __sk_buff,
    /// Bytes of the packet that lie in front of its data: 14 where the stack forgot the length of
    /// the Ethernet header, else 0.
    pub hidden: u32,
}

impl Skb {
    /// The packet as the stack should have it.
    #[inline(always)]
    pub const fn new(ctx: *mut __sk_buff) -> Self {
        Self { ctx, hidden: 0 }
    }

    /// The packet as TC ingress gets it behind generic XDP, which puts one with fragments into a
    /// new packet and leaves `mac_len` behind (`skb_pp_cow_data`, net/core/skbuff.c): TC then takes
    /// the IP header for its start.
    #[inline(always)]
    pub fn behind_generic_xdp(ctx: *mut __sk_buff) -> Self {
        let mut data = [0_u64; 2];
        let mut mac = [0_u64; 2];
        let len = ETHERNET_LEN;
        // SAFETY: both buffers have 16 bytes, and 14 are written.
        let read = unsafe {
            bpf_skb_load_bytes(ctx.cast(), 0, data.as_mut_ptr().cast(), len) == 0
                && bpf_skb_load_bytes_relative(
                    ctx.cast(),
                    0,
                    mac.as_mut_ptr().cast(),
                    len,
                    BPF_HDR_START_MAC,
                ) == 0
        };
        Self { ctx, hidden: if read && data != mac { len } else { 0 } }
    }
}

impl LoadBytes for Skb {
    #[inline(always)]
    unsafe fn load_bytes(self, at: u32, to: *mut c_void, len: u32) -> c_long {
        let ctx = self.ctx.cast();
        // SAFETY: the caller's.
        unsafe {
            if at < self.hidden {
                bpf_skb_load_bytes_relative(ctx, at, to, len, BPF_HDR_START_MAC)
            } else {
                bpf_skb_load_bytes(ctx, at - self.hidden, to, len)
            }
        }
    }
}

impl<C: LoadBytes> Frame for Loaded<C> {
    type Header<const N: usize> = [u8; N];

    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    fn header<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let mut bytes = MaybeUninit::<[u8; N]>::uninit();
        // SAFETY: the buffer has `N` bytes.
        let result = unsafe { self.ctx.load_bytes(at, bytes.as_mut_ptr().cast(), N as u32) };
        // SAFETY: a helper that succeeds has written them all.
        (result == 0).then(|| unsafe { bytes.assume_init() })
    }
}

/// Bytes between two packet pointers.
#[inline(always)]
fn distance(start: usize, end: usize) -> u32 {
    let mut bytes = end - start;
    // SAFETY: a register moved to itself. It keeps the subtraction in 64 bits: the verifier allows
    // no narrower one of pointers.
    unsafe { core::arch::asm!("{0} = {0}", inout(reg) bytes, options(pure, nomem, nostack)) };
    bytes as u32
}

/// A frame as an XDP program gets it: what tells the two builds apart.
pub trait Buffers: Frame + Sized {
    fn of(ctx: &XdpContext) -> Self;

    /// Length of the frame.
    #[inline(always)]
    fn frame_len(ctx: &XdpContext) -> u32 {
        Self::of(ctx).len()
    }
}

/// Every frame lies in one buffer.
impl Buffers for Direct {
    #[inline(always)]
    fn of(ctx: &XdpContext) -> Self {
        Self::xdp(ctx, distance(ctx.data(), ctx.data_end()))
    }
}

/// A frame that may go on in fragments.
pub struct Fragmented {
    ctx: *mut xdp_md,
    linear: Direct,
    /// Its length, as soon as it is known: the helper that tells it is a call, which costs as much
    /// as everything else where returns are mitigated. 0 until then.
    len: Cell<u32>,
}

impl Buffers for Fragmented {
    #[inline(always)]
    fn of(ctx: &XdpContext) -> Self {
        Self { ctx: ctx.ctx, linear: Direct::of(ctx), len: Cell::new(0) }
    }
}

impl Frame for Fragmented {
    type Header<const N: usize> = Checked;

    #[inline(always)]
    fn len(&self) -> u32 {
        if self.len.get() == 0 {
            // SAFETY: the helper only reads from the context.
            self.len.set(unsafe { bpf_xdp_get_buff_len(self.ctx) as u32 });
        }
        self.len.get()
    }

    /// A frame that ends with its packet does not go on in fragments.
    #[inline(always)]
    fn len_if_packet_ends_at(&self, end: u32) -> u32 {
        if end == self.linear.len {
            self.len.set(end);
        }
        self.len()
    }

    #[inline(always)]
    fn header<const N: usize>(&self, at: u32) -> Option<Checked> {
        self.linear.header::<N>(at)
    }
}
