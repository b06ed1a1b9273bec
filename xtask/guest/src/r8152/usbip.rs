//! The part of the USB/IP protocol that a device needs (Documentation/usb/usbip_protocol.rst):
//! requests come in, with what a host controller would put on the bus, and answers go out.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

const CMD_SUBMIT: u32 = 1;
const CMD_UNLINK: u32 = 2;
const RET_SUBMIT: u32 = 3;
const RET_UNLINK: u32 = 4;
const HEADER: usize = 48;

/// What the controller wants.
#[derive(Debug)]
pub enum Request {
    /// A transfer.
    Submit(Transfer),
    /// To give up a transfer that was not answered.
    Unlink {
        /// The number of this request.
        number: u32,
        /// The number of the transfer.
        transfer: u32,
    },
}

/// A transfer that waits for an answer.
#[derive(Debug)]
pub struct Transfer {
    /// Its number.
    pub number: u32,
    /// The endpoint, without its direction.
    pub endpoint: u32,
    /// How much room there is for an answer.
    pub room: usize,
    /// What the host sends.
    pub data: Vec<u8>,
    /// Of a control transfer: what it asks for.
    pub setup: Setup,
}

/// A control request.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Direction, kind, and whom it is for.
    pub kind: u8,
    /// What it is.
    pub request: u8,
    /// First parameter.
    pub value: u16,
    /// Second parameter.
    pub index: u16,
}

/// Waits for a request.
pub fn receive(bus: &mut impl Read) -> io::Result<Request> {
    let mut header = [0; HEADER];
    bus.read_exact(&mut header)?;
    let word = |index: usize| {
        let bytes: [u8; 4] = std::array::from_fn(|byte| header[4 * index + byte]);
        u32::from_be_bytes(bytes)
    };
    let number = word(1);
    match word(0) {
        CMD_UNLINK => Ok(Request::Unlink { number, transfer: word(5) }),
        CMD_SUBMIT => {
            let (to_host, room) = (word(3) == 1, word(6) as usize);
            let mut data = vec![0; if to_host { 0 } else { room }];
            bus.read_exact(&mut data)?;
            let pair = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
            let setup =
                Setup { kind: header[40], request: header[41], value: pair(42), index: pair(44) };
            Ok(Request::Submit(Transfer { number, endpoint: word(4), room, data, setup }))
        }
        other => Err(io::Error::other(format!("USB/IP command {other}"))),
    }
}

/// Ends a transfer to the host.
pub fn answer(bus: &mut UnixStream, number: u32, data: &[u8]) -> io::Result<()> {
    let mut message = header(RET_SUBMIT, number, 0, data.len());
    message.extend(data);
    bus.write_all(&message)
}

/// Ends a transfer from the host, all of which was taken.
pub fn taken(bus: &mut UnixStream, transfer: &Transfer) -> io::Result<()> {
    bus.write_all(&header(RET_SUBMIT, transfer.number, 0, transfer.data.len()))
}

/// Refuses a transfer.
pub fn refuse(bus: &mut UnixStream, number: u32) -> io::Result<()> {
    bus.write_all(&header(RET_SUBMIT, number, -libc::EPIPE, 0))
}

/// Answers an [`Unlink`](Request::Unlink): whether the transfer was still waiting.
pub fn unlinked(bus: &mut UnixStream, number: u32, was_waiting: bool) -> io::Result<()> {
    let status = if was_waiting { -libc::ECONNRESET } else { 0 };
    bus.write_all(&header(RET_UNLINK, number, status, 0))
}

fn header(command: u32, number: u32, status: i32, len: usize) -> Vec<u8> {
    let words = [command, number, 0, 0, 0, status as u32, len as u32, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
