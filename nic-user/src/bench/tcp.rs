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
    from: TcpStream,
    to: TcpStream,
}

impl Connection {
    /// From one host to another.
    pub fn open(from: &Host, to: &Host, ip: IpVersion) -> Result<Self> {
        let pair = traffic::connect(from, to, ip, 1)?.into_iter().next();
        let (from, to) = pair.ok_or_else(|| Error::failed("connect over TCP: no connection"))?;
        let fail = |error: io::Error| Error::io("set a limit to a TCP socket", &error);
        from.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        to.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
        Ok(Self { from, to })
    }

    /// Asks with `size` bytes, waits for as many, and counts that, until the round is over.
    pub fn ask(&self, size: usize, over: &Over, transactions: &Count) -> io::Result<()> {
        let _end = End(&self.from);
        let (question, mut answer) = (vec![0xa5; size], vec![0; size]);
        while !over.is_over() {
            (&self.from).write_all(&question)?;
            (&self.from).read_exact(&mut answer)?;
            transactions.add(1);
        }
        Ok(())
    }

    /// Answers every `size` bytes with as many, until the other side ends.
    pub fn answer(&self, size: usize) -> io::Result<()> {
        let _end = End(&self.to);
        let mut block = vec![0; size];
        loop {
            match (&self.to).read_exact(&mut block) {
                Ok(()) => (&self.to).write_all(&block)?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends until the round is over.
    pub fn send(&self, over: &Over) -> io::Result<()> {
        let _end = End(&self.from);
        let block = vec![0xa5; BLOCK];
        while !over.is_over() {
            (&self.from).write_all(&block)?;
        }
        Ok(())
    }

    /// Receives until the other side ends, and counts the bytes.
    pub fn receive(&self, bytes: &Count) -> io::Result<()> {
        let _end = End(&self.to);
        let mut block = vec![0; BLOCK];
        loop {
            match (&self.to).read(&mut block)? {
                0 => return Ok(()),
                len => bytes.add(len as u64),
            }
        }
    }
}

/// Lets the other side see the end, however this one came to it.
struct End<'s>(&'s TcpStream);

impl Drop for End<'_> {
    fn drop(&mut self) {
        // The other side may have gone already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
