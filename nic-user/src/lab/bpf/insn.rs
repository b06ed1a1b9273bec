//! BPF instructions, as many kinds of them as small programs need (linux/bpf.h).

use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(u8);

/// The result of a helper, and of the program.
pub const R0: Reg = Reg(0);
/// The first argument.
pub const R1: Reg = Reg(1);
/// The second argument.
pub const R2: Reg = Reg(2);
/// The third argument.
pub const R3: Reg = Reg(3);
/// The fourth argument.
pub const R4: Reg = Reg(4);
/// The first register that a helper leaves alone.
pub const R6: Reg = Reg(6);
/// The second one.
pub const R7: Reg = Reg(7);
/// The third one.
pub const R8: Reg = Reg(8);
/// The end of the stack, which grows down.
pub const FP: Reg = Reg(10);

/// How much is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

const fn insn(code: u8, dst: Reg, src: Reg, offset: i16, immediate: i32) -> Insn {
    Insn { code, registers: dst.0 | src.0 << 4, offset, immediate }
}

/// `dst = value`
pub const fn mov(dst: Reg, value: i32) -> Insn {
    insn(0xb7, dst, R0, 0, value)
}

/// `dst = src`
pub const fn copy(dst: Reg, src: Reg) -> Insn {
    insn(0xbf, dst, src, 0, 0)
}

/// `dst += value`
pub const fn add(dst: Reg, value: i32) -> Insn {
    insn(0x07, dst, R0, 0, value)
}

/// `dst += src`
pub const fn add_reg(dst: Reg, src: Reg) -> Insn {
    insn(0x0f, dst, src, 0, 0)
}

/// Takes the lower 16 bits of `dst` from network byte order to the processor's.
pub const fn from_big_endian_half(dst: Reg) -> Insn {
    insn(0xdc, dst, R0, 0, 16)
}

/// `dst >>= bits`
pub const fn shift_right(dst: Reg, bits: i32) -> Insn {
    insn(0x77, dst, R0, 0, bits)
}

/// `dst = *(src + offset)`
pub const fn load(size: Size, dst: Reg, src: Reg, offset: i16) -> Insn {
    insn(0x61 | size as u8, dst, src, offset, 0)
}

/// `*(dst + offset) = value`
pub const fn store(size: Size, dst: Reg, offset: i16, value: i32) -> Insn {
    insn(0x62 | size as u8, dst, R0, offset, value)
}

/// `*(dst + offset) = src`
pub const fn store_reg(size: Size, dst: Reg, offset: i16, src: Reg) -> Insn {
    insn(0x63 | size as u8, dst, src, offset, 0)
}

/// `*(u64 *)(dst + offset) += src`, atomically.
pub const fn count(dst: Reg, offset: i16, src: Reg) -> Insn {
    insn(0xdb, dst, src, offset, 0)
}

/// Jumps if `dst` is `value`.
pub const fn if_is(dst: Reg, value: i32) -> Insn {
    insn(0x15, dst, R0, 0, value)
}

/// Jumps if `dst` is not `value`.
pub const fn if_not(dst: Reg, value: i32) -> Insn {
    insn(0x55, dst, R0, 0, value)
}

/// Jumps if `dst` is more than `src`.
pub const fn if_more(dst: Reg, src: Reg) -> Insn {
    insn(0x2d, dst, src, 0, 0)
}

/// Jumps if `dst` is less than `value`.
pub const fn if_less(dst: Reg, value: i32) -> Insn {
    insn(0xa5, dst, R0, 0, value)
}

/// What programs can have the kernel do (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// `bpf_tail_call`
    TailCall = 12,
    /// `bpf_redirect`
    Redirect = 23,
    /// `bpf_xdp_adjust_head`
    AdjustHead = 44,
    /// `bpf_redirect_map`
    RedirectMap = 51,
    /// `bpf_xdp_adjust_meta`
    AdjustMeta = 54,
    /// `bpf_fib_lookup`
    FibLookup = 69,
    /// `bpf_probe_read_kernel`
    ProbeReadKernel = 113,
}

/// Calls a helper.
pub const fn call(helper: Helper) -> Insn {
    insn(0x85, R0, R0, 0, helper as i32)
}

/// Returns `R0`.
pub const EXIT: Insn = insn(0x95, R0, R0, 0, 0);

/// `dst =` the address of an array map's first value.
pub fn value_of(dst: Reg, map: BorrowedFd<'_>) -> [Insn; 2] {
    const BPF_PSEUDO_MAP_VALUE: Reg = Reg(2);
    load_map(dst, BPF_PSEUDO_MAP_VALUE, map)
}

/// `dst =` a map.
pub fn map(dst: Reg, map: BorrowedFd<'_>) -> [Insn; 2] {
    const BPF_PSEUDO_MAP_FD: Reg = Reg(1);
    load_map(dst, BPF_PSEUDO_MAP_FD, map)
}

/// One instruction of twice the length.
fn load_map(dst: Reg, what: Reg, map: BorrowedFd<'_>) -> [Insn; 2] {
    [insn(0x18, dst, what, 0, map.as_raw_fd()), insn(0, R0, R0, 0, 0)]
}

/// The start of an XDP program: R2 is the packet, R3 its end, and R1 the end of its first `len`
/// bytes.
pub const fn packet(len: i32) -> [Insn; 4] {
    // In `struct xdp_md` (linux/bpf.h).
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    [load(Size::Word, R2, R1, DATA), load(Size::Word, R3, R1, DATA_END), copy(R1, R2), add(R1, len)]
}

/// A program whose jumps all go to one place, its end.
#[derive(Debug, Default)]
pub struct Body {
    instructions: Vec<Insn>,
    jumps: Vec<usize>,
}

impl Body {
    /// Goes on with these instructions.
    #[must_use]
    pub fn then(mut self, instructions: impl IntoIterator<Item = Insn>) -> Self {
        self.instructions.extend(instructions);
        self
    }

    /// Goes to the end if the condition of `jump` holds.
    #[must_use]
    pub fn end_if(mut self, jump: Insn) -> Self {
        self.jumps.push(self.instructions.len());
        self.instructions.push(jump);
        self
    }

    /// The whole program: this, and its end, where it returns `result`.
    pub fn ending_in(mut self, result: i32) -> Vec<Insn> {
        let end = self.instructions.len();
        for at in self.jumps {
            if let Some(jump) = self.instructions.get_mut(at) {
                jump.offset = (end - at - 1) as i16;
            }
        }
        self.instructions.extend([mov(R0, result), EXIT]);
        self.instructions
    }
}
