//! Chunks of memory that come back by themselves.
//!
//! A [`Pool`] cuts a [`Region`] into chunks of one size. A [`Frame`] is a chunk that somebody owns;
//! dropping it gives it back. On the pool's own thread that is a push to a stack, without atomic
//! operations; from another thread it goes over a list ([`super::returns`]) that the pool looks at
//! when its stack is empty.
//!
//! ```text
//!          take               lend
//!  free ---------> held  <---------->  lent to the kernel's rings
//!    ^              |      reclaim
//!    +-- drop ------+
//! ```
//!
//! Every chunk is in one of these three states; [`Pool::account`] checks that.

use std::{
    cell::Cell,
    fmt, mem,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use super::{
    returns::{Last, Returns},
    umem::{Memory, Region},
};
use crate::error::{Error, Result};

/// The most chunks of one pool.
const MAX_CHUNKS: usize = 1 << 30;

thread_local! {
    /// Tells threads that have pools apart; 0 in the others.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The owner of a pool that has none any more. No thread has this number.
const NOBODY: u32 = u32::MAX;

/// The number of this thread.
fn this_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(NEXT.fetch_add(1, Relaxed));
        }
        thread.get()
    })
}

/// Chunks of one size. It stays on the thread that made it; its frames go anywhere.
pub struct Pool {
    shared: NonNull<Shared>,
}

/// An owned chunk. Dropping it gives it back to its pool.
pub struct Frame {
    shared: NonNull<Shared>,
    index: u32,
}

/// What a pool and its frames have in common. It lives until all of them are gone.
struct Shared {
    region: Region,
    chunk_bits: u32,
    chunks: u32,
    /// The only thread that may touch `local`.
    owner: AtomicU32,
    local: Local,
    returns: Returns,
}

/// What only the pool's own thread uses.
struct Local {
    /// A stack: the chunk that was used last is still in the processor's cache.
    free: Box<[Cell<u32>]>,
    free_len: Cell<u32>,
    /// To whom each chunk is lent.
    borrowers: Box<[Cell<Borrower>]>,
    last_borrower: Cell<u16>,
    lent: Cell<u32>,
    held: Cell<u32>,
    max_held: Cell<u32>,
    hits: Cell<u64>,
    misses: Cell<u64>,
    exhausted: Cell<u64>,
}

/// Who chunks are lent to: the rings of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Borrower(u16);

impl Borrower {
    const NOBODY: Self = Self(0);
}

/// Where a pool's chunks are, and how its frames were had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// All chunks.
    pub total: u32,
    /// Chunks in the pool.
    pub free: u32,
    /// Chunks in rings.
    pub lent: u32,
    /// Chunks that somebody has as a [`Frame`].
    pub held: u32,
    /// The fewest chunks so far that nobody held.
    pub low_water: u32,
    /// Frames taken from the pool's own stack.
    pub hits: u64,
    /// Times that the stack was empty, and frames freed by other threads were looked for.
    pub misses: u64,
    /// Of those, the times that none was found.
    pub exhausted: u64,
}

impl Account {
    /// Whether every chunk is somewhere.
    pub const fn is_whole(&self) -> bool {
        self.free as u64 + self.lent as u64 + self.held as u64 == self.total as u64
    }
}

impl Pool {
    /// A pool of as many chunks of `chunk_size` bytes, a power of two, as `region` has room for.
    pub fn new(region: Region, chunk_size: usize) -> Result<Self> {
        let chunks = region.len().checked_div(chunk_size).unwrap_or_default();
        if !chunk_size.is_power_of_two() || chunks > MAX_CHUNKS {
            return Err(Error::usage(format!(
                "{} bytes cannot be divided into chunks of {chunk_size} bytes, which must be a \
                 power of two",
                region.len()
            )));
        }
        let chunks = chunks as u32;
        let shared = Box::new(Shared {
            chunk_bits: chunk_size.trailing_zeros(),
            chunks,
            region,
            owner: AtomicU32::new(this_thread()),
            local: Local::new(chunks),
            returns: Returns::new(chunks),
        });
        Ok(Self { shared: NonNull::from(Box::leak(shared)) })
    }

    /// A free chunk, if there is one.
    #[inline]
    pub fn take(&self) -> Option<Frame> {
        let index = self.pop()?;
        self.local().hold(1);
        Some(Frame { shared: self.shared, index })
    }

    /// Bytes of a chunk.
    pub fn chunk_size(&self) -> usize {
        1 << self.shared().chunk_bits
    }

    /// The memory that the chunks are in.
    pub fn memory(&self) -> &Memory {
        self.shared().region.memory()
    }

    /// Chunks that nobody holds: free, or in rings. Those that other threads gave back and that
    /// the pool has not looked at yet do not count.
    #[inline]
    pub fn not_held(&self) -> u32 {
        self.shared().chunks - self.local().held.get()
    }

    /// All chunks.
    #[inline]
    pub fn total(&self) -> u32 {
        self.shared().chunks
    }

    /// Whether `frame` is one of its chunks.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        frame.shared == self.shared
    }

    /// Fetches what other threads gave back.
    pub fn collect(&self) {
        let local = self.local();
        self.shared().returns.take_all(|index| local.put_back(index));
    }

    /// Where the chunks are, after fetching what other threads gave back.
    pub fn account(&self) -> Account {
        self.collect();
        let (total, local) = (self.shared().chunks, self.local());
        Account {
            total,
            free: local.free_len.get(),
            lent: local.lent.get(),
            held: local.held.get(),
            low_water: total - local.max_held.get(),
            hits: local.hits.get(),
            misses: local.misses.get(),
            exhausted: local.exhausted.get(),
        }
    }

    /// Somebody new to lend to; an error after 65,535 of them.
    pub(super) fn borrower(&self) -> Result<Borrower> {
        let last = &self.local().last_borrower;
        let next = last.get().checked_add(1);
        let next = next.ok_or_else(|| Error::failed("too many sockets shared one UMEM"))?;
        last.set(next);
        Ok(Borrower(next))
    }

    /// Lends a free chunk; its place in the memory in bytes.
    #[inline]
    pub(super) fn lend_free(&self, borrower: Borrower) -> Option<u64> {
        let index = self.pop()?;
        self.local().lend(index, borrower);
        Some(self.shared().place(index))
    }

    /// Lends `frame`; its place in the memory in bytes. Gives it back if it is another pool's.
    #[inline]
    pub(super) fn lend(&self, frame: Frame, borrower: Borrower) -> Result<u64, Frame> {
        if !self.owns(&frame) {
            return Err(frame);
        }
        let index = frame.index;
        mem::forget(frame);
        let local = self.local();
        local.held.set(local.held.get() - 1);
        local.lend(index, borrower);
        Ok(self.shared().place(index))
    }

    /// The chunk that the byte at `place` of the memory is in, if it was lent to `borrower`; and
    /// where in the chunk that byte is.
    ///
    /// # Safety
    ///
    /// The borrower no longer uses the chunk.
    #[inline]
    pub(super) unsafe fn reclaim(&self, place: u64, borrower: Borrower) -> Option<(Frame, u32)> {
        let shared = self.shared();
        let within = (place as usize).wrapping_sub(shared.region.offset());
        let index = within >> shared.chunk_bits;
        let lent_to = self.local().borrowers.get(index)?;
        if lent_to.get() != borrower {
            return None;
        }
        lent_to.set(Borrower::NOBODY);
        let local = self.local();
        local.lent.set(local.lent.get() - 1);
        local.hold(1);
        let frame = Frame { shared: self.shared, index: index as u32 };
        Some((frame, (within & ((1 << shared.chunk_bits) - 1)) as u32))
    }

    /// Takes back everything that was lent to `borrower`.
    ///
    /// # Safety
    ///
    /// The borrower no longer uses any chunk.
    pub(super) unsafe fn reclaim_all(&self, borrower: Borrower) {
        let local = self.local();
        for (index, lent_to) in (0..).zip(&local.borrowers) {
            if lent_to.get() == borrower {
                lent_to.set(Borrower::NOBODY);
                local.lent.set(local.lent.get() - 1);
                local.push(index);
            }
        }
    }

    #[inline]
    fn pop(&self) -> Option<u32> {
        let local = self.local();
        if let Some(index) = local.pop() {
            local.hits.set(local.hits.get() + 1);
            return Some(index);
        }
        self.pop_returned()
    }

    #[cold]
    fn pop_returned(&self) -> Option<u32> {
        self.collect();
        let local = self.local();
        local.misses.set(local.misses.get() + 1);
        let index = local.pop();
        if index.is_none() {
            local.exhausted.set(local.exhausted.get() + 1);
        }
        index
    }

    #[inline]
    fn shared(&self) -> &Shared {
        // SAFETY: `Shared` lives as long as its pool.
        unsafe { self.shared.as_ref() }
    }

    /// A pool never leaves its thread, so it may always use this.
    #[inline]
    fn local(&self) -> &Local {
        &self.shared().local
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let shared = self.shared();
        let local = &shared.local;
        // From here on every frame takes the way of other threads.
        shared.owner.store(NOBODY, Relaxed);
        // What is still lent is never given back: somebody may write to it.
        let away = || local.held.get() + local.lent.get();
        if shared.returns.close(|index| local.put_back(index), away) == Last::Yes {
            // SAFETY: no frame is left, and the pool is going.
            unsafe { Shared::free(self.shared) };
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.local();
        f.debug_struct("Pool")
            .field("total", &self.total())
            .field("free", &local.free_len)
            .field("lent", &local.lent)
            .field("held", &local.held)
            .finish()
    }
}

impl Shared {
    /// Where chunk `index` is in the memory, in bytes.
    #[inline]
    fn place(&self, index: u32) -> u64 {
        (self.region.offset() + ((index as usize) << self.chunk_bits)) as u64
    }

    /// # Safety
    ///
    /// Neither the pool nor a frame uses `shared` again.
    unsafe fn free(shared: NonNull<Self>) {
        // SAFETY: it was a box, and nobody else uses it.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

impl Local {
    fn new(chunks: u32) -> Self {
        Self {
            // The first chunks on top.
            free: (0..chunks).rev().map(Cell::new).collect(),
            free_len: Cell::new(chunks),
            borrowers: (0..chunks).map(|_| Cell::new(Borrower::NOBODY)).collect(),
            last_borrower: Cell::new(0),
            lent: Cell::new(0),
            held: Cell::new(0),
            max_held: Cell::new(0),
            hits: Cell::new(0),
            misses: Cell::new(0),
            exhausted: Cell::new(0),
        }
    }

    #[inline]
    fn pop(&self) -> Option<u32> {
        let top = self.free_len.get().checked_sub(1)?;
        let index = self.free.get(top as usize)?.get();
        self.free_len.set(top);
        Some(index)
    }

    #[inline]
    fn push(&self, index: u32) {
        let top = self.free_len.get();
        if let Some(slot) = self.free.get(top as usize) {
            slot.set(index);
            self.free_len.set(top + 1);
        }
    }

    #[inline]
    fn hold(&self, frames: u32) {
        let held = self.held.get() + frames;
        self.held.set(held);
        if held > self.max_held.get() {
            self.max_held.set(held);
        }
    }

    /// A held chunk becomes a free one.
    #[inline]
    fn put_back(&self, index: u32) {
        self.held.set(self.held.get() - 1);
        self.push(index);
    }

    #[inline]
    fn lend(&self, index: u32, borrower: Borrower) {
        if let Some(lent_to) = self.borrowers.get(index as usize) {
            lent_to.set(borrower);
            self.lent.set(self.lent.get() + 1);
        }
    }
}

// SAFETY: a frame is the only one with access to its chunk. Of what it shares with its pool, it
// uses `local` only on the pool's own thread, the rest is atomic or does not change.
unsafe impl Send for Frame {}
// SAFETY: a shared frame allows reading its chunk only.
unsafe impl Sync for Frame {}

impl Frame {
    #[inline]
    fn shared(&self) -> &Shared {
        // SAFETY: `Shared` lives as long as any of its frames.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    fn start(&self) -> *mut u8 {
        let shared = self.shared();
        // SAFETY: `index` is below the number of chunks, so this stays inside the region.
        unsafe { shared.region.start().as_ptr().add((self.index as usize) << shared.chunk_bits) }
    }

    #[inline]
    fn size(&self) -> usize {
        1 << self.shared().chunk_bits
    }
}

impl Deref for Frame {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the chunk is inside the region, its bytes are initialised since they were mapped,
        // and who has the frame is the only one with access to it.
        unsafe { std::slice::from_raw_parts(self.start(), self.size()) }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.size()) }
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        let shared = self.shared();
        if shared.owner.load(Relaxed) == THREAD.with(Cell::get) {
            shared.local.put_back(self.index);
        } else {
            self.send_home();
        }
    }
}

impl Frame {
    #[cold]
    fn send_home(&self) {
        if self.shared().returns.put(self.index) == Last::Yes {
            // SAFETY: the pool is gone, and so is every other frame.
            unsafe { Shared::free(self.shared) };
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} of {} bytes)", self.index, self.size())
    }
}

#[cfg(test)]
mod tests;
