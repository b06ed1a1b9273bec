//! What `nicctl bench --peer` and `nicctl bench serve` say to each other: one JSON text a line, a
//! question and its answer at a time, over TCP.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// Version of the language. Both sides must speak the same one.
pub const VERSION: u32 = 2;
/// Where `nicctl bench serve` listens, unless it is told otherwise.
pub const PORT: u16 = 5243;
/// The longest line, in bytes, with its end.
const MAX_LINE: usize = 4096;
/// How long the other side may take to read a line.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked of the receiving side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The first one: which version is spoken?
    Hello {
        /// The one that asks speaks this.
        version: u32,
        /// What was printed where `nicctl bench serve` runs, if it asks for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
    },
    /// Take datagrams.
    Udp(Udp),
    /// Take one connection.
    Tcp(Tcp),
    /// How much has been done so far, and what did it take?
    Read,
    /// That was all of it.
    End,
}

/// Which datagrams to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Udp {
    /// The port that they come from.
    pub from_port: u16,
    /// Payload of each, in bytes.
    pub size: u16,
    /// Whether the kernel may merge them (UDP_GRO).
    pub merged: bool,
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Tcp {
    /// Answer every so many bytes with as many.
    Answer {
        /// How many.
        size: u32,
    },
    /// Take what comes.
    Receive {},
}

/// What the receiving side says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To the first question.
    Hello {
        /// The version that it speaks.
        version: u32,
        /// Its kernel.
        kernel: String,
        /// Model of its processors.
        cpu: String,
        /// The processor that the receiving thread is kept on.
        receiver: usize,
    },
    /// Whatever is to be received may be sent to this port.
    Ready {
        /// Of the address that it was asked at.
        port: u16,
    },
    /// So much so far.
    Done(Done),
    /// It has ended.
    Ended,
    /// Why there is no other answer; nothing follows.
    Error(String),
}

/// What the receiving side did since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Bytes that were received.
    pub bytes: u64,
    /// CPU time of the receiving thread, in seconds.
    pub thread: f64,
    /// Interrupts and softirqs of all its processors, in seconds.
    pub softirq: f64,
    /// Everything on all its processors, in seconds.
    pub busy: f64,
}

/// One side of the conversation.
pub struct Channel {
    stream: TcpStream,
    /// What came after the last line.
    rest: Vec<u8>,
}

impl Channel {
    /// Over a connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, rest: Vec::new() })
    }

    /// The connection.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Says something.
    pub fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let fail = |error: io::Error| Error::io("write to the other side", &error);
        let mut line = serde_json::to_vec(message).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(fail)
    }

    /// Waits so long for what the other side says; `None` if it has gone.
    pub fn receive<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<Option<T>> {
        let Some(line) = self.line(Instant::now() + patience)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&line);
        // Without anything of what was received, which can be anything, and ends on a terminal.
        parsed.map(Some).map_err(|error| {
            let column = error.column();
            Error::failed(format!(
                "not understood: version {VERSION} has no such line (column {column})"
            ))
        })
    }

    /// The next line, without its end.
    fn line(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>> {
        let fail = |error: io::Error| Error::io("read from the other side", &error);
        let mut block = [0; MAX_LINE];
        loop {
            if let Some(end) = self.rest.iter().take(MAX_LINE).position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if self.rest.len() >= MAX_LINE {
                return Err(Error::failed(format!("a line of more than {MAX_LINE} bytes")));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::failed("timed out"));
            }
            self.stream.set_read_timeout(Some(left)).map_err(fail)?;
            match self.stream.read(&mut block) {
                Ok(0) if self.rest.is_empty() => return Ok(None),
                Ok(0) => return Err(Error::failed("a line without an end")),
                Ok(len) => self.rest.extend_from_slice(block.get(..len).unwrap_or_default()),
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(fail(error)),
            }
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn is_idle(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use proptest::prelude::*;

    use super::*;

    fn pair() -> (TcpStream, Channel) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (stream, Channel::new(listener.accept().unwrap().0).unwrap())
    }

    /// What becomes of these bytes, after which the other side goes.
    fn after(bytes: &[u8]) -> Vec<Result<Option<Question>>> {
        let (mut stream, mut channel) = pair();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        loop {
            let next = channel.receive(PATIENCE);
            let goes_on = matches!(next, Ok(Some(_)));
            received.push(next);
            if !goes_on {
                return received;
            }
        }
    }

    #[test]
    fn questions_are_read_as_they_are_written() {
        let udp = Udp { from_port: 7, size: 1472, merged: true };
        let all = [
            Question::Hello { version: 1, token: None },
            Question::Hello { version: 2, token: Some("x".to_owned()) },
            Question::Udp(udp),
            Question::Tcp(Tcp::Answer { size: 70_000 }),
            Question::Tcp(Tcp::Receive {}),
            Question::Read,
            Question::End,
        ];
        let lines: Vec<u8> = all
            .iter()
            .flat_map(|question| [serde_json::to_vec(question).unwrap(), vec![b'\n']].concat())
            .collect();
        let received = after(&lines);
        assert_eq!(received.len(), all.len() + 1);
        for (received, sent) in received.iter().zip(&all) {
            assert_eq!(received.as_ref().unwrap().as_ref(), Some(sent));
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let refusal = |bytes: &[u8]| after(bytes)[0].as_ref().unwrap_err().to_string();
        assert!(refusal(b"GET / HTTP/1.1\r\n\r\n").starts_with("not understood: "));
        assert!(refusal(br#"{"run":"reboot"}"#.as_ref()).contains("without an end"));
        for line in [
            &br#"{"udp":{"from_port":1,"size":70000,"merged":false}}"#[..],
            br#"{"udp":{"from_port":1,"size":7,"merged":false,"file":"/etc/passwd"}}"#,
            br#"{"tcp":{"answer":{"size":-1}}}"#,
            br#"{"run":"reboot"}"#,
            b"\xff\xfe",
            b"",
        ] {
            assert!(refusal(&[line, b"\n"].concat()).starts_with("not understood: "));
        }
        assert_eq!(refusal(&[b'['; MAX_LINE]), "a line of more than 4096 bytes");
        assert!(refusal(&[&[b'['; MAX_LINE - 1][..], b"\n"].concat()).starts_with("not under"));
    }

    #[test]
    fn silence_ends() {
        let (_stream, mut channel) = pair();
        let silence = channel.receive::<Question>(Duration::from_millis(1)).unwrap_err();
        assert_eq!(silence.to_string(), "timed out");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            after(&bytes);
        }
    }
}
