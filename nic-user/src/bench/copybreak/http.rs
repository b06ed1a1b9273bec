//! A client that asks for a page again and again.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    str,
    time::Duration,
};

use httparse::{EMPTY_HEADER, Response, Status};

use super::latency::{self, Latencies};
use crate::bench::round::Over;

/// How long the server may say nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than a response has.
const HEADERS: usize = 32;
const HEAD: usize = 4096;

/// A connection that is kept alive.
pub struct Client {
    stream: TcpStream,
    question: Vec<u8>,
}

impl Client {
    /// Connects to a server, to ask for the page at `path`.
    pub fn connect(server: SocketAddr, path: &str) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let question = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n").into_bytes();
        Ok(Self { stream, question })
    }

    /// Asks for the page, which has so many bytes, and waits for it, until the round is over.
    pub fn ask(&mut self, page: usize, over: &Over, latencies: &Latencies) -> io::Result<()> {
        let mut buffer = vec![0; HEAD + page];
        while !over.is_over() {
            let asked = latency::now();
            self.stream.write_all(&self.question)?;
            read_page(&mut self.stream, page, &mut buffer)?;
            latencies.record().add(latency::now().saturating_sub(asked));
        }
        Ok(())
    }
}

/// Reads one response to its end, and checks that it is a page of so many bytes.
fn read_page(from: &mut impl Read, page: usize, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    let mut expected = None;
    while expected.is_none_or(|expected| filled < expected) {
        filled += match buffer.get_mut(filled..) {
            None | Some([]) => return Err(unexpected("more than a page")),
            Some(free) => match from.read(free) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(silence()),
                Err(error) => return Err(error),
            },
        };
        if expected.is_none() {
            expected = head_len(buffer.get(..filled).unwrap_or_default(), page)?
                .map(|head_len| head_len + page);
        }
    }
    if expected == Some(filled) { Ok(()) } else { Err(unexpected("more than a page")) }
}

/// The length of a response's head, once it is whole.
fn head_len(response: &[u8], page: usize) -> io::Result<Option<usize>> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut head = Response::new(&mut headers);
    let parsed = head.parse(response).map_err(|error| unexpected(&error.to_string()))?;
    let Status::Complete(len) = parsed else { return Ok(None) };
    let status = head.code.unwrap_or_default();
    if status != 200 {
        return Err(unexpected(&format!("{status} {}", head.reason.unwrap_or_default())));
    }
    let header =
        head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length: Option<usize> =
        header.and_then(|header| str::from_utf8(header.value).ok()?.parse().ok());
    match length {
        Some(length) if length == page => Ok(Some(len)),
        Some(length) => Err(unexpected(&format!("{length} bytes instead of {page}"))),
        None => Err(unexpected("no length")),
    }
}

fn silence() -> io::Error {
    let seconds = PATIENCE.as_secs();
    io::Error::new(ErrorKind::TimedOut, format!("the server sent nothing for {seconds} s"))
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the server answered with {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &str = "HTTP/1.1 200 OK\r\nServer: nginx\r\ncontent-length: 5\r\n\r\nhello";

    /// Comes in pieces.
    struct Pieces<'p>(&'p [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            let (piece, rest) = self.0.split_at(len);
            buffer[..len].copy_from_slice(piece);
            self.0 = rest;
            Ok(len)
        }
    }

    fn read(response: &str, page: usize, piece: usize) -> Result<(), String> {
        let read = read_page(&mut Pieces(response.as_bytes(), piece), page, &mut [0; 100]);
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn a_response_is_whole_however_it_comes() {
        for piece in 1..=OK.len() {
            assert_eq!(read(OK, 5, piece), Ok(()));
        }
    }

    #[test]
    fn what_is_no_page_is_said() {
        let not_found = OK.replace("200 OK", "404 Not Found");
        for (response, page, said) in [
            (not_found.as_str(), 5, "the server answered with 404 Not Found"),
            (OK, 6, "the server answered with 5 bytes instead of 6"),
            (&OK[..40], 5, "unexpected end of file"),
            (&OK.replace("content-length: 5\r\n", ""), 5, "the server answered with no length"),
            (&OK.replace("hello", "hello!"), 5, "the server answered with more than a page"),
            (
                &OK.replace("nginx", &"x".repeat(100)),
                5,
                "the server answered with more than a page",
            ),
            ("SSH-2.0-OpenSSH", 5, "the server answered with invalid HTTP version"),
        ] {
            assert_eq!(read(response, page, 1000).unwrap_err(), said);
        }
    }
}
