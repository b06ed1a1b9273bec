//! Memory that frames lie in, and its exclusively owned parts.

use std::{io, ptr, ptr::NonNull, sync::Arc};

use crate::error::{Error, Result};

/// Bytes of a huge page: x86-64's and arm64's default.
const HUGE_PAGE: usize = 2 << 20;

/// What kind of pages a memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages (`vm.nr_hugepages`).
    Huge,
    /// The system's pages. The kernel was asked for transparent huge ones.
    Normal,
}

/// An anonymous mapping; all zero at first.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
    pages: Pages,
}

// SAFETY: a mapping belongs to the process, not to a thread, and `Memory` itself reads nothing in
// it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// At least `len` bytes, of reserved huge pages where there are enough.
    pub fn new(len: usize) -> Result<Self> {
        let huge = len.next_multiple_of(HUGE_PAGE);
        Self::map(huge, libc::MAP_HUGETLB, Pages::Huge)
            .or_else(|_| Self::map(huge, 0, Pages::Normal))
            .inspect(Self::advise)
            .map_err(|error| Error::io(format_args!("allocate {len} bytes of memory"), &error))
    }

    fn map(len: usize, flags: libc::c_int, pages: Pages) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Self { start, len, pages })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks for transparent huge pages; no more than a wish.
    fn advise(&self) {
        if self.pages == Pages::Normal {
            // SAFETY: the range is this mapping, and the advice changes no contents.
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_HUGEPAGE) };
        }
    }

    /// Address of its first byte.
    pub(super) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; it always has.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What kind of pages it has.
    pub const fn pages(&self) -> Pages {
        self.pages
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a part of it: each holds this memory.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A part of a memory that nobody else has.
#[derive(Debug)]
pub struct Region {
    memory: Arc<Memory>,
    offset: usize,
    len: usize,
}

impl Region {
    /// All of `memory`.
    pub fn whole(memory: Memory) -> Self {
        let len = memory.len();
        Self { memory: Arc::new(memory), offset: 0, len }
    }

    /// Its first `at` bytes and the rest; all and nothing if it is shorter.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let at = at.min(self.len);
        let rest =
            Self { memory: Arc::clone(&self.memory), offset: self.offset + at, len: self.len - at };
        (Self { len: at, ..self }, rest)
    }

    /// The memory that it is part of.
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Where it starts in its memory, in bytes.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        // SAFETY: the offset is inside the mapping or just behind it.
        unsafe { self.memory.start.add(self.offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_whole_huge_pages() {
        let memory = Memory::new(1).unwrap();
        assert_eq!(memory.len(), HUGE_PAGE);
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let error = Memory::new(1 << 60).unwrap_err();
        assert!(error.to_string().contains("allocate 1152921504606846976 bytes"), "{error}");
    }

    #[test]
    fn parts_touch_and_do_not_overlap() {
        let (first, rest) = Region::whole(Memory::new(HUGE_PAGE).unwrap()).split_at(4096);
        assert_eq!((first.offset(), first.len()), (0, 4096));
        assert_eq!((rest.offset(), rest.len()), (4096, HUGE_PAGE - 4096));
        let (all, nothing) = first.split_at(5000);
        assert_eq!((all.len(), nothing.len()), (4096, 0));
    }
}
