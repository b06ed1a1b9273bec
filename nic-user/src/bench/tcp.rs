//! One TCP connection: transactions, or as much as it takes.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use super::round::{Count, Over};
use crate::{
    error::{Error, Result},
    lab::{
        Host,
        traffic::{self, IpVersion},
    },
};

/// Bytes of one call when it is about as much as possible.
const BLOCK: usize = 256 << 10;
/// How long the other side may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Both ends of a connection.
pub struct Connection {
    /// The one that asks, or sends.
    pub from: End,
    /// The one that answers, or receives.
    pub to: End,
}

impl Connection {
    /// From one host to another.
    pub fn open(from: &Host, to: &Host, ip: IpVersion) -> Result<Self> {
        let pair = traffic::connect(from, to, ip, 1)?.into_iter().next();
        let (from, to) = pair.ok_or_else(|| Error::failed("connect over TCP: no connection"))?;
        let end = |stream| {
            End::new(stream).map_err(|error| Error::io("set a limit to a TCP socket", &error))
        };
        Ok(Self { from: end(from)?, to: end(to)? })
    }
}

/// One end of a connection.
pub struct End(TcpStream);

impl End {
    /// That of a stream which the other side does not leave without anything for long.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Asks with `size` bytes, waits for as many, and counts that, until the round is over.
    pub fn ask(&self, size: usize, over: &Over, transactions: &Count) -> io::Result<()> {
        let _end = ShutDown(&self.0);
        let (question, mut answer) = (vec![0xa5; size], vec![0; size]);
        while !over.is_over() {
            (&self.0).write_all(&question)?;
            (&self.0).read_exact(&mut answer)?;
            transactions.add(1);
        }
        Ok(())
    }

    /// Answers every `size` bytes with as many, until the other side ends.
    pub fn answer(&self, size: usize) -> io::Result<()> {
        let _end = ShutDown(&self.0);
        let mut block = vec![0; size];
        loop {
            match (&self.0).read_exact(&mut block) {
                Ok(()) => (&self.0).write_all(&block)?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends until the round is over.
    pub fn send(&self, over: &Over) -> io::Result<()> {
        let _end = ShutDown(&self.0);
        let block = vec![0xa5; BLOCK];
        while !over.is_over() {
            (&self.0).write_all(&block)?;
        }
        Ok(())
    }

    /// Receives until the other side ends, and counts the bytes.
    pub fn receive(&self, bytes: &Count) -> io::Result<()> {
        let _end = ShutDown(&self.0);
        let mut block = vec![0; BLOCK];
        loop {
            match (&self.0).read(&mut block)? {
                0 => return Ok(()),
                len => bytes.add(len as u64),
            }
        }
    }
}

/// Lets the other side see the end, however this one came to it.
struct ShutDown<'s>(&'s TcpStream);

impl Drop for ShutDown<'_> {
    fn drop(&mut self) {
        // The other side may have gone already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
