//! `headers`: exactly the headers in a packet's linear part, or 256 bytes of it.

mod feeder;
mod merged;
mod path;
mod rings;
mod tap;

use std::{
    io::{self, ErrorKind, Read},
    net::{TcpListener, TcpStream},
    rc::Rc,
    time::Duration,
};

use feeder::{Fed, Feeder};
use merged::Merged;
use path::{Kind, Path};
use tap::Tap;

use super::{
    cpu::Cpus,
    experiment::{Case, Experiment, Sample, Trial, Variant, percent},
    model::Measure,
    round::{Count, Over, Round, Side, Worker},
};
use crate::{
    error::{Error, Result},
    lab::{Lab, Shape, traffic::IpVersion},
};

/// 32.5 to 52.9 Gbit/s on the core that takes the interrupts.
const PUBLISHED: f64 = 1.62;

/// How soon a reader sees that the round is over.
const GLANCE: Duration = Duration::from_millis(20);
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one call of the reader.
const BLOCK: usize = 256 << 10;

/// How much of a frame goes into the linear part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linear {
    /// So many bytes, whatever they are.
    Fixed(u16),
    /// The headers.
    Exact,
}

/// Sets the experiment up.
///
/// # Errors
///
/// There can be no lab here, or no tap device.
pub fn experiment() -> Result<Experiment> {
    let cpus = Cpus::together()?;
    let v4 = Kind::Plain(IpVersion::V4);
    let kernel: Vec<Case> = [
        (9000, v4, "IPv4"),
        (9000, Kind::Plain(IpVersion::V6), "IPv6"),
        (9000, Kind::Tunnelled, "IPv4 through VXLAN"),
        (4096, v4, "IPv4"),
    ]
    .map(|(mtu, kind, title)| {
        let card = Rc::new(Card::new(mtu, kind, cpus)?);
        Ok(case(format!("TCP bulk, {title}, MTU {mtu}"), &card, mtu))
    })
    .into_iter()
    .collect::<Result<_>>()?;
    let cases = kernel.into_iter().chain(rings::cases()?).collect();
    Ok(Experiment {
        name: "headers",
        title: "Exact headers in the linear part, against a fixed 256 bytes",
        source: "net/mlx5: Avoid copying payload to the skb's linear part (2025), ConnectX-7",
        place: format!("a tap device in place of the NIC; {cpus}"),
        notes: [
            "the kernel's own receive path: the frame's virtio_net_hdr sets how much goes into \
             the linear part, the rest stays in page fragments; frames below 4096 bytes would be \
             fully linear, so there is no MTU 1500",
            "sender, polling thread and reader share one CPU, so that GRO gets batches",
            "cost and RCV% cover only the receiving side, including its polling thread: the \
             sender stands for a NIC",
            "segments: per super-packet; chained: super-packets that GRO built as a chain \
             (frag_list), because payload was in the linear part; merged ones hold all payload in \
             fragments",
            "our driver: frames come from inside the kernel; the receiver, on another CPU, takes \
             them in batches, merges them and copies the payload out; rates are per time spent on \
             this, not waiting; checksums are trusted, as with a NIC that verifies them, unless \
             marked verified",
        ]
        .map(str::to_owned)
        .into(),
        cases,
    })
}

fn case(title: String, card: &Rc<Card>, mtu: u32) -> Case {
    let size = mtu as usize + 14 - card.path.headers_len();
    let variant =
        |title, linear| Variant::new(title, HeadersTrial { card: card.clone(), size, linear });
    Case::new(
        title,
        Measure::Bytes,
        vec![
            variant("256 bytes", Linear::Fixed(256)),
            variant("128 bytes", Linear::Fixed(128)),
            variant("exact headers", Linear::Exact).published(Some(PUBLISHED), None),
        ],
    )
}

/// The card in its lab.
struct Card {
    // Before the lab that it is in.
    merged: Merged,
    tap: Tap,
    path: Path,
    lab: Lab,
    cpus: Cpus,
}

impl Card {
    fn new(mtu: u32, kind: Kind, cpus: Cpus) -> Result<Self> {
        let lab = Lab::new(Shape::default())?;
        let tap = Tap::new(lab.b(), mtu, cpus.receiver)?;
        let path = Path::new(lab.b(), &tap, kind)?;
        let merged = Merged::attach(lab.b(), tap.ifindex)?;
        Ok(Self { merged, tap, path, lab, cpus })
    }

    /// A connection from behind the card, and its end here.
    fn connect(&self, size: usize, linear: Linear) -> Result<(Feeder<'_>, TcpStream)> {
        let fail = |error: io::Error| Error::io("connect through the tap device", &error);
        let linear = match linear {
            Linear::Fixed(bytes) => bytes,
            Linear::Exact => self.path.headers_len() as u16,
        };
        let listen = || TcpListener::bind((self.path.target(), 0));
        let listener = self.lab.b().run(listen)?.map_err(fail)?;
        let port = listener.local_addr().map_err(fail)?.port();
        let feeder = Feeder::connect(&self.tap, &self.path, port, size, linear).map_err(fail)?;
        let stream = accept(&listener).map_err(fail)?;
        stream.set_read_timeout(Some(GLANCE)).map_err(fail)?;
        Ok((feeder, stream))
    }
}

struct HeadersTrial {
    card: Rc<Card>,
    /// Payload of a segment, in bytes.
    size: usize,
    linear: Linear,
}

impl Trial for HeadersTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let Card { merged, tap, cpus, .. } = &*self.card;
        let (mut feeder, stream) = self.card.connect(self.size, self.linear)?;
        let (fed, received) = (Fed::default(), Count::default());
        let workers = vec![
            Worker::new(Side::Sender, cpus.sender, |over| feeder.feed(over, &fed)),
            Worker::new(Side::Receiver, cpus.receiver, |over| read(&stream, over, &received)),
        ];
        let clock = tap.poller_clock();
        let window = round.measure(workers, || {
            let polling = clock.read().map_err(|error| Error::io("read a clock", &error))?;
            let sent = [fed.sent.get(), fed.again.get()];
            Ok((received.get(), polling, merged.read()?, sent))
        })?;
        let (before, after) = (window.before, window.after);
        let received = after.0 - before.0;
        let packets = after.2.since(before.2);
        let [sent, again] = [0, 1].map(|index| (after.3[index] - before.3[index]) as f64);
        let mut sample = Sample::of(&window, received);
        sample.cpu.receiver += (after.1 - before.1).as_secs_f64();
        sample.cpu.busy = sample.cpu.receiver;
        let [count, chained, segments, bytes, truesize] =
            [packets.packets, packets.chained, packets.segments, packets.bytes, packets.truesize]
                .map(|number| number as f64);
        Ok(sample
            .with("chained", "%", percent(chained, count))
            .with("segments", "", quotient(segments, count))
            .with("len/truesize", "", quotient(bytes, truesize))
            .with("sent again", "%", percent(again, sent)))
    }
}

fn quotient(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Takes the connection that is already made.
fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    use nix::sys::{
        socket::{setsockopt, sockopt},
        time::TimeVal,
    };
    let limit = TimeVal::new(PATIENCE.as_secs() as i64, 0);
    setsockopt(listener, sockopt::ReceiveTimeout, &limit)?;
    Ok(listener.accept()?.0)
}

/// Reads until the round is over.
fn read(mut stream: &TcpStream, over: &Over, received: &Count) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    while !over.is_over() {
        match stream.read(&mut block) {
            Ok(len) => received.add(len as u64),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
