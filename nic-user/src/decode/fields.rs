//! Fields of a capture's headers.

/// Byte order of a capture's headers: that of the machine that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// Reads the fields of a header in their order; `None` where the header has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    pub const fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { rest: bytes, order }
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(self.order.u16(self.array()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(self.order.u32(self.array()?))
    }

    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The next `len` bytes as fields of their own.
    pub fn part(&mut self, len: usize) -> Option<Self> {
        Some(Self { rest: self.bytes(len)?, order: self.order })
    }

    pub fn skip(&mut self, len: usize) {
        self.rest = self.rest.get(len..).unwrap_or_default();
    }

    /// How many bytes are left.
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }
}
