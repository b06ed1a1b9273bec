//! Blocking netlink transport: one request, all of its replies (linux/netlink.h).

use std::io;

use netlink_bindings::utils::find_attr;
use netlink_sys::SocketAddr;
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;

use super::{Error, Result};

const HEADER_LEN: usize = 16;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

/// How often a dump that changed under our feet is started again.
const DUMP_ATTEMPTS: usize = 10;

/// The kernel answers within the system call that asks; this only bounds a reply that got lost.
const REPLY_TIMEOUT: TimeVal = TimeVal::new(10, 0);

/// A netlink socket of the network namespace in which it was opened.
pub struct Socket {
    inner: netlink_sys::Socket,
    sequence: u32,
}

/// What the kernel answered to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The payload of every message, without `struct nlmsghdr`.
    pub messages: Vec<Vec<u8>>,
    /// What the kernel said although the request succeeded (extended acknowledgement).
    pub warning: Option<String>,
}

impl Socket {
    /// Opens a socket for `protocol` (`NETLINK_ROUTE`, `NETLINK_GENERIC`, ...) in the current
    /// network namespace.
    pub fn open(protocol: i32) -> Result<Self> {
        let inner = connected(protocol).map_err(|error| Error::unanswered(&error))?;
        Ok(Self { inner, sequence: 0 })
    }

    /// Sends one request of message type `kind` and waits for its acknowledgement.
    ///
    /// `flags` are those besides `NLM_F_REQUEST` and `NLM_F_ACK`.
    pub fn request(&mut self, kind: u16, flags: i32, payload: &[u8]) -> Result<Reply> {
        let sequence = self.send(kind, flags | libc::NLM_F_ACK, payload)?;
        self.receive(sequence).map(|(reply, _)| reply)
    }

    /// Asks for a dump of message type `kind`; starts again when it was interrupted by a change.
    pub fn dump(&mut self, kind: u16, payload: &[u8]) -> Result<Reply> {
        for _ in 0..DUMP_ATTEMPTS {
            let sequence = self.send(kind, libc::NLM_F_DUMP, payload)?;
            let (reply, interrupted) = self.receive(sequence)?;
            if !interrupted {
                return Ok(reply);
            }
        }
        Err(Error::new(libc::EINTR, "the list kept changing while it was read"))
    }

    fn send(&mut self, kind: u16, flags: i32, payload: &[u8]) -> Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = encode(kind, flags | libc::NLM_F_REQUEST, self.sequence, payload)?;
        loop {
            match self.inner.send(&message, 0) {
                Ok(_) => return Ok(self.sequence),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::unanswered(&error)),
            }
        }
    }

    /// Reads until the acknowledgement or the end of the dump; also tells whether it was
    /// interrupted.
    fn receive(&mut self, sequence: u32) -> Result<(Reply, bool)> {
        let mut reply = Reply::default();
        let mut interrupted = false;
        loop {
            for message in Messages(&self.datagram()?) {
                let message = message?;
                // A late reply to an earlier request that failed half-way.
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.flags & libc::NLM_F_DUMP_INTR != 0;
                match message.kind {
                    libc::NLMSG_NOOP => {}
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        reply.warning = message.outcome()?;
                        return Ok((reply, interrupted));
                    }
                    _ => reply.messages.push(message.payload.to_vec()),
                }
            }
        }
    }

    fn datagram(&mut self) -> Result<Vec<u8>> {
        loop {
            match self.inner.recv_from_full() {
                Ok((datagram, _)) => return Ok(datagram),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let timeout = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                    return Err(Error::unanswered(&timeout));
                }
                Err(error) => return Err(Error::unanswered(&error)),
            }
        }
    }
}

fn connected(protocol: i32) -> io::Result<netlink_sys::Socket> {
    let mut socket = netlink_sys::Socket::new(protocol as isize)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.set_ext_ack(true)?;
    socket.set_cap_ack(true)?;
    setsockopt(&socket, ReceiveTimeout, &REPLY_TIMEOUT)?;
    Ok(socket)
}

fn encode(kind: u16, flags: i32, sequence: u32, payload: &[u8]) -> Result<Vec<u8>> {
    let too_long = Error::from_errno(libc::EMSGSIZE);
    let len = u32::try_from(HEADER_LEN + payload.len()).map_err(|_| too_long)?;
    let mut message = Vec::with_capacity(HEADER_LEN + payload.len());
    message.extend_from_slice(&len.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    message.extend_from_slice(&sequence.to_ne_bytes());
    message.extend_from_slice(&0_u32.to_ne_bytes());
    message.extend_from_slice(payload);
    Ok(message)
}

/// One message of a datagram.
#[derive(Debug)]
struct Message<'a> {
    kind: i32,
    flags: i32,
    sequence: u32,
    payload: &'a [u8],
}

impl Message<'_> {
    /// What `NLMSG_ERROR` or `NLMSG_DONE` says: success, with or without a warning, or an error.
    fn outcome(&self) -> Result<Option<String>> {
        let Some((code, rest)) = self.payload.split_first_chunk() else {
            // Nothing but its end is promised of a dump.
            return match self.kind {
                libc::NLMSG_DONE => Ok(None),
                _ => Err(Error::malformed("acknowledgement without an error code")),
            };
        };
        let attributes = self.extended_acknowledgement(rest).unwrap_or_default();
        let message = message_in(attributes);
        match i32::from_ne_bytes(*code) {
            // The end of a dump may carry its length.
            0.. => Ok(message),
            code => Err(Error {
                message,
                offset: offset_in(attributes),
                ..Error::from_errno(code.saturating_neg())
            }),
        }
    }

    /// The attributes after the code and, in an acknowledgement, the echoed request (cut to its
    /// header where `NLM_F_CAPPED` says so).
    fn extended_acknowledgement<'b>(&self, after_code: &'b [u8]) -> Option<&'b [u8]> {
        if self.flags & libc::NLM_F_ACK_TLVS == 0 {
            return None;
        }
        let echoed = match self.kind {
            libc::NLMSG_DONE => 0,
            _ if self.flags & libc::NLM_F_CAPPED != 0 => HEADER_LEN,
            _ => u32::from_ne_bytes(*after_code.first_chunk()?) as usize,
        };
        after_code.get(echoed.checked_next_multiple_of(4)?..)
    }
}

/// The kernel's text in an extended acknowledgement.
fn message_in(attributes: &[u8]) -> Option<String> {
    let text = find_attr(attributes, NLMSGERR_ATTR_MSG)?;
    let text = text.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(text).trim_end().to_owned())
}

/// Where in the request's payload the attribute is that an extended acknowledgement points at.
fn offset_in(attributes: &[u8]) -> Option<usize> {
    let offset = find_attr(attributes, NLMSGERR_ATTR_OFFS)?.try_into().ok()?;
    (u32::from_ne_bytes(offset) as usize).checked_sub(HEADER_LEN)
}

/// Reads all of a datagram, for a fuzzer.
#[cfg(feature = "fuzzing")]
pub(crate) fn decode(datagram: &[u8]) {
    for message in Messages(datagram).flatten() {
        let _ = message.outcome();
    }
}

/// Iterates over the messages of a datagram; ends after the first malformed one.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let datagram = std::mem::take(&mut self.0);
        Some(split_message(datagram).map(|(message, rest)| {
            self.0 = rest;
            message
        }))
    }
}

fn split_message(datagram: &[u8]) -> Result<(Message<'_>, &[u8])> {
    let (header, _) = datagram
        .split_first_chunk::<HEADER_LEN>()
        .ok_or_else(|| Error::malformed("message shorter than its header"))?;
    let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
    let len = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
    let payload =
        datagram.get(HEADER_LEN..len).ok_or_else(|| Error::malformed("message length"))?;
    let message = Message {
        kind: i32::from(u16::from_ne_bytes([k0, k1])),
        flags: i32::from(u16::from_ne_bytes([f0, f1])),
        sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
        payload,
    };
    Ok((message, datagram.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::request::Request;
    use super::*;

    fn acknowledgement(code: i32, flags: i32, after_code: &[u8]) -> Vec<u8> {
        let mut payload = code.to_ne_bytes().to_vec();
        payload.extend_from_slice(after_code);
        encode(libc::NLMSG_ERROR as u16, flags, 1, &payload).unwrap()
    }

    fn outcome(datagram: &[u8]) -> Result<Option<String>> {
        Messages(datagram).next().unwrap()?.outcome()
    }

    #[test]
    fn the_kernels_text_is_found_behind_the_echoed_request() {
        let text = Request::default().string(NLMSGERR_ATTR_MSG, "no such thing");
        let header = encode(16, 0, 1, &[0xff; 12]).unwrap();
        let expected = Error::new(libc::EINVAL, "no such thing");

        let capped = [&header[..HEADER_LEN], text.as_bytes()].concat();
        let flags = libc::NLM_F_CAPPED | libc::NLM_F_ACK_TLVS;
        assert_eq!(outcome(&acknowledgement(-libc::EINVAL, flags, &capped)), Err(expected.clone()));

        let whole = [&header[..], text.as_bytes()].concat();
        let flags = libc::NLM_F_ACK_TLVS;
        assert_eq!(outcome(&acknowledgement(-libc::EINVAL, flags, &whole)), Err(expected));
    }

    #[test]
    fn the_place_that_the_kernel_points_at_is_one_in_the_payload() {
        let flags = libc::NLM_F_CAPPED | libc::NLM_F_ACK_TLVS;
        let offset = |offset: u32| {
            let tlvs = Request::with_header(&[0; HEADER_LEN]).u32(NLMSGERR_ATTR_OFFS, offset);
            let datagram = acknowledgement(-libc::EINVAL, flags, tlvs.as_bytes());
            outcome(&datagram).unwrap_err().offset
        };
        assert_eq!(offset(36), Some(20));
        assert_eq!(offset(3), None);
    }

    #[test]
    fn a_warning_comes_with_success() {
        let text = Request::with_header(&[0; HEADER_LEN]).string(NLMSGERR_ATTR_MSG, "but");
        let flags = libc::NLM_F_CAPPED | libc::NLM_F_ACK_TLVS;
        assert_eq!(outcome(&acknowledgement(0, flags, text.as_bytes())), Ok(Some("but".into())));
        assert_eq!(outcome(&acknowledgement(0, 0, &[0; HEADER_LEN])), Ok(None));
    }

    #[test]
    fn a_cut_message_is_an_error_and_the_last() {
        let whole = encode(16, 0, 1, &[0; 8]).unwrap();
        for len in 1..whole.len() {
            let mut messages = Messages(&whole[..len]);
            assert_eq!(messages.next().unwrap().unwrap_err().errno, libc::EBADMSG);
            assert!(messages.next().is_none());
        }
    }

    proptest! {
        #[test]
        fn no_datagram_makes_the_decoder_panic(datagram: Vec<u8>) {
            for message in Messages(&datagram).flatten() {
                let _ = message.outcome();
            }
        }

        #[test]
        fn no_acknowledgement_makes_the_decoder_panic(
            done: bool, code: i32, flags: u16, rest: Vec<u8>,
        ) {
            let payload = [&code.to_ne_bytes()[..], &rest].concat();
            let kind = if done { libc::NLMSG_DONE } else { libc::NLMSG_ERROR };
            let datagram = encode(kind as u16, i32::from(flags), 1, &payload).unwrap();
            let _ = outcome(&datagram);
        }
    }
}
