//! Bytes of a capture, with the place where they were read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use crate::error::{Error, Result};

const BUFFER: usize = 256 << 10;

/// A file or standard input, read once from start to end.
pub struct Input {
    reader: BufReader<Box<dyn Read>>,
    name: String,
    offset: u64,
}

impl Input {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::new("standard input", Box::new(io::stdin())));
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| Error::io(format_args!("open {name}"), &e))?;
        Ok(Self::new(&name, Box::new(file)))
    }

    /// Bytes from anywhere; `name` is what errors call it.
    pub fn new(name: &str, reader: Box<dyn Read>) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, reader), name: name.into(), offset: 0 }
    }

    /// What errors call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the next byte has to be waited for.
    pub(super) fn is_drained(&self) -> bool {
        self.reader.buffer().is_empty()
    }

    /// Fills `buffer` as far as the input goes; the number of bytes that were there.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io_error(&e)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    /// `N` bytes; `None` at the end of the input.
    pub(super) fn array<const N: usize>(&mut self, part: &str) -> Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        match self.fill(&mut bytes)? {
            0 => Ok(None),
            n if n == N => Ok(Some(bytes)),
            _ => Err(self.ends_inside(part)),
        }
    }

    /// `N` bytes of something that has begun.
    pub(super) fn rest<const N: usize>(&mut self, part: &str) -> Result<[u8; N]> {
        self.array(part)?.ok_or_else(|| self.ends_inside(part))
    }

    /// The next `len` bytes, in `buffer`, which grows as needed.
    pub(super) fn bytes<'b>(
        &mut self,
        buffer: &'b mut Vec<u8>,
        len: usize,
        part: &str,
    ) -> Result<&'b [u8]> {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let bytes = buffer.get_mut(..len).unwrap_or_default();
        if self.fill(bytes)? < len {
            return Err(self.ends_inside(part));
        }
        Ok(bytes)
    }

    /// Passes over `len` bytes.
    pub(super) fn skip(&mut self, len: u64, part: &str) -> Result<()> {
        let skipped = io::copy(&mut (&mut self.reader).take(len), &mut io::sink())
            .map_err(|e| self.io_error(&e))?;
        self.offset += skipped;
        if skipped < len { Err(self.ends_inside(part)) } else { Ok(()) }
    }

    /// The next line of at most `limit` bytes, with its newline, in `line`; `false` at the end.
    pub(super) fn line(&mut self, line: &mut Vec<u8>, limit: u64) -> Result<bool> {
        line.clear();
        let read = (&mut self.reader).take(limit).read_until(b'\n', line);
        let read = read.map_err(|e| self.io_error(&e))?;
        self.offset += read as u64;
        Ok(read > 0)
    }

    /// The input is damaged: what is wrong at byte `at`.
    pub(super) fn damaged(&self, at: u64, what: impl std::fmt::Display) -> Error {
        Error::failed(format!("{}: byte {at}: {what}", self.name))
    }

    fn ends_inside(&self, part: &str) -> Error {
        self.damaged(self.offset, format_args!("it ends inside {part}"))
    }

    fn io_error(&self, error: &io::Error) -> Error {
        Error::io(format_args!("read {}", self.name), error)
    }
}
