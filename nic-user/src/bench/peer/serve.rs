//! `nicctl bench serve`: the receiving side, for one other machine at a time.
//!
//! It receives what it is asked to, from nobody but who asked, and says what that took. It changes
//! nothing, and what it sends besides answers is as much as it receives.

use std::{
    fmt::{self, Display},
    fs::File,
    hint,
    io::{self, Read},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::protocol::{Answer, Channel, Done, Question, Tcp, Udp, VERSION};
use crate::{
    bench::{
        cpu::{self, CpuTimes, Cpus, ThreadClock},
        machine::Machine,
        round::{Count, Over},
        stop::Stop,
        tcp::End,
        udp::{Receiver, Receiving},
    },
    error::{Error, Result},
};

/// How long who connects may take to say what it is.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);
/// How long who is served may say nothing: longer than the longest round.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one may be served: longer than the longest run there is, of 100 rounds of 60 s for each
/// of 12 variants.
const SESSION: Duration = Duration::from_secs(24 * 3600);
/// How many questions one may ask: four for each of its rounds, and as many again.
const QUESTIONS: usize = 10_000;
/// How many may be connected at once, who have yet to say what they are or are sent away.
const GUESTS: usize = 16;
/// How soon a thread that waits for a connection sees that it need not any more.
const GLANCE: u16 = 50;
/// The largest transaction, in bytes.
const MAX_TRANSACTION: u32 = 16 << 20;

/// Who is served.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Who knows this.
    Token(Token),
    /// Whoever connects from this address.
    From(IpAddr),
}

impl Admission {
    /// Whether anything is said to this address.
    fn may_ask(&self, peer: SocketAddr) -> bool {
        match self {
            Self::Token(_) => true,
            // An IPv6 socket shows IPv4 addresses in a form of its own.
            Self::From(address) => address.to_canonical() == peer.ip().to_canonical(),
        }
    }

    fn admits(&self, token: Option<&str>) -> bool {
        match self {
            Self::Token(ours) => token.is_some_and(|theirs| ours.is(theirs)),
            Self::From(_) => true,
        }
    }
}

/// A secret of 128 bits, as 32 hex digits.
#[derive(Clone, Debug)]
pub struct Token(String);

impl Token {
    /// One that nobody can guess.
    ///
    /// # Errors
    ///
    /// The kernel gives no random bytes.
    pub fn random() -> Result<Self> {
        const SOURCE: &str = "/dev/urandom";
        let mut bytes = [0; 16];
        File::open(SOURCE)
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(|error| Error::io(format_args!("read {SOURCE}"), &error))?;
        Ok(Self(format!("{:032x}", u128::from_ne_bytes(bytes))))
    }

    /// Takes as long wherever the first difference is.
    fn is(&self, other: &str) -> bool {
        let differences = self.0.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        hint::black_box(differences) == 0 && self.0.len() == other.len()
    }
}

impl Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Serves whoever is admitted, one after the other, until the user wants an end.
///
/// # Errors
///
/// There can be no connections at all.
pub fn serve(
    listener: &TcpListener,
    admission: &Admission,
    stop: &Stop,
    say: &(impl Fn(&str) + Sync),
) -> Result<()> {
    let fail = |error: io::Error| Error::io("wait for connections", &error);
    listener.set_nonblocking(true).map_err(fail)?;
    let guests = Guests::default();
    thread::scope(|scope| {
        while stop.check().is_ok() {
            let welcomed = accept(listener).and_then(|accepted| {
                let Some((stream, from)) = accepted else { return Ok(()) };
                if !admission.may_ask(from) {
                    return Ok(());
                }
                let Some(guest) = guests.enter(&stream)? else { return Ok(()) };
                let converse = move || say(&guest.converse(stream, from, admission));
                thread::Builder::new().spawn_scoped(scope, converse).map(drop)
            });
            if let Err(error) = welcomed {
                // Whatever it is, it may be over the next time: too many files, a client that has
                // gone again.
                say(&fail(error).to_string());
                let _ = stop.wait(Duration::from_millis(GLANCE.into()));
            }
        }
        guests.end();
    });
    Ok(())
}

/// The next connection, if one comes soon.
fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    match poll(&mut waiting, PollTimeout::from(GLANCE)) {
        // Something other than this thread is what the signal is for.
        Ok(0) | Err(Errno::EINTR) => return Ok(None),
        polled => polled?,
    };
    let (stream, from) = listener.accept()?;
    stream.set_nonblocking(false)?;
    Ok(Some((stream, from)))
}

/// All who are connected.
#[derive(Default)]
struct Guests(Mutex<Present>);

#[derive(Default)]
struct Present {
    connections: Vec<(u64, TcpStream)>,
    /// How many have come.
    come: u64,
    /// Which of them is served.
    served: Option<u64>,
}

impl Guests {
    /// Lets one in, if there is room.
    fn enter(&self, stream: &TcpStream) -> io::Result<Option<Guest<'_>>> {
        let mut present = lock(&self.0);
        if present.connections.len() >= GUESTS {
            return Ok(None);
        }
        present.come += 1;
        let number = present.come;
        present.connections.push((number, stream.try_clone()?));
        Ok(Some(Guest { guests: self, number }))
    }

    fn end(&self) {
        for (_, stream) in &lock(&self.0).connections {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// One who is connected.
struct Guest<'g> {
    guests: &'g Guests,
    number: u64,
}

impl Guest<'_> {
    /// Talks to it until it goes; what is to be remarked about it.
    fn converse(&self, stream: TcpStream, from: SocketAddr, admission: &Admission) -> String {
        match converse(self, stream, admission) {
            Ok(()) => format!("{from} was served"),
            Err(error) => format!("{from} was refused: {error}"),
        }
    }

    /// Has it be the one that is served.
    fn be_served(&self) -> Result<()> {
        let mut present = lock(&self.guests.0);
        if present.served.is_some() {
            return Err(Error::failed("another client is being served; try again later"));
        }
        present.served = Some(self.number);
        Ok(())
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        let mut present = lock(&self.guests.0);
        present.connections.retain(|(number, _)| *number != self.number);
        present.served = present.served.filter(|served| *served != self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers questions until the other side goes, asks what has no answer, or has been served for
/// long enough.
fn converse(guest: &Guest<'_>, stream: TcpStream, admission: &Admission) -> Result<()> {
    let fail = |error: io::Error| Error::io("talk to the other side", &error);
    let mut channel = Channel::new(stream).map_err(fail)?;
    let conversation = admit(&mut channel, admission)
        .and_then(|()| guest.be_served())
        .and_then(|()| Conversation::begin(&mut channel))
        .and_then(|mut conversation| conversation.go_on(&mut channel));
    if let Err(error) = &conversation {
        // It may have gone, which may be the error.
        let _ = channel.send(&Answer::Error(error.to_string()));
    }
    conversation
}

/// Agrees on the version, and learns whether it is to be served. Nothing is said of this machine.
fn admit(channel: &mut Channel, admission: &Admission) -> Result<()> {
    match channel.receive(FIRST_PATIENCE)? {
        Some(Question::Hello { version: VERSION, token }) if admission.admits(token.as_deref()) => {
            Ok(())
        }
        Some(Question::Hello { version: VERSION, .. }) => Err(Error::not_permitted(
            "pass the token that `nicctl bench serve` printed: bench --peer HOST --token TOKEN",
        )),
        Some(Question::Hello { version, .. }) => Err(Error::failed(format!(
            "protocol version {version} is not supported, only {VERSION}: use the same nicctl on \
             both machines"
        ))),
        Some(_) => Err(Error::failed("the first line must be a hello")),
        None => Err(Error::failed("it closed the connection without a word")),
    }
}

struct Conversation {
    /// Ours and the other side's, as this connection has them.
    ends: [SocketAddr; 2],
    /// The processor that receives.
    cpu: usize,
    work: Option<Work>,
}

impl Conversation {
    /// Says what this machine is.
    fn begin(channel: &mut Channel) -> Result<Self> {
        let fail = |error: io::Error| Error::io("read the ends of a connection", &error);
        let ends = [channel.stream().local_addr(), channel.stream().peer_addr()];
        let [ours, theirs] = ends;
        let ends = [ours.map_err(fail)?, theirs.map_err(fail)?];
        let cpu = Cpus::apart()?.sender;
        let Machine { kernel, cpu: model, .. } = Machine::current()?;
        channel.send(&Answer::Hello { version: VERSION, kernel, cpu: model, receiver: cpu })?;
        Ok(Self { ends, cpu, work: None })
    }

    fn go_on(&mut self, channel: &mut Channel) -> Result<()> {
        let end = Instant::now() + SESSION;
        for _ in 0..QUESTIONS {
            let patience = PATIENCE.min(end.saturating_duration_since(Instant::now()));
            let Some(question) = channel.receive(patience)? else { return Ok(()) };
            channel.send(&self.answer(question)?)?;
        }
        Err(Error::failed(format!("more than {QUESTIONS} questions")))
    }

    fn answer(&mut self, question: Question) -> Result<Answer> {
        match question {
            Question::Hello { .. } => Err(Error::failed("hello was already sent")),
            Question::Udp(udp) => self.begin_work(|ends, cpu| Work::udp(ends, cpu, udp)),
            Question::Tcp(tcp) => self.begin_work(|ends, cpu| Work::tcp(ends, cpu, tcp)),
            Question::Read => match &self.work {
                Some(work) => Ok(Answer::Done(work.done()?)),
                None => Err(Error::failed("there is nothing to read: nothing was started")),
            },
            Question::End => {
                self.work = None;
                Ok(Answer::Ended)
            }
        }
    }

    /// Ends what there was before: who asks may have been interrupted.
    fn begin_work(
        &mut self,
        begin: impl FnOnce([SocketAddr; 2], usize) -> io::Result<(Work, u16)>,
    ) -> Result<Answer> {
        self.work = None;
        let begun = begin(self.ends, self.cpu);
        let (work, port) = begun.map_err(|error| Error::io("start receiving", &error))?;
        self.work = Some(work);
        Ok(Answer::Ready { port })
    }
}

/// A thread that receives; it ends when this is dropped.
struct Work {
    shared: Arc<Shared>,
    clock: ThreadClock,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    over: Over,
    bytes: Count,
    data: Mutex<Data>,
}

/// The connection that data comes over.
#[derive(Default)]
enum Data {
    #[default]
    None,
    Open(TcpStream),
    Ended,
}

impl Work {
    fn udp([ours, mut theirs]: [SocketAddr; 2], cpu: usize, udp: Udp) -> io::Result<(Self, u16)> {
        if udp.size == 0 {
            return Err(io::Error::other("datagrams of no bytes"));
        }
        let receiver = Receiver::bind(ours.ip())?;
        theirs.set_port(udp.from_port);
        receiver.connect(theirs)?;
        let port = receiver.address()?.port();
        let how = if udp.merged { Receiving::Merged } else { Receiving::Many };
        let work = Self::begin(cpu, move |shared| {
            receiver.receive(how, udp.size.into(), &shared.over, &shared.bytes)
        })?;
        Ok((work, port))
    }

    fn tcp([ours, theirs]: [SocketAddr; 2], cpu: usize, tcp: Tcp) -> io::Result<(Self, u16)> {
        if let Tcp::Answer { size } = tcp
            && !(1..=MAX_TRANSACTION).contains(&size)
        {
            return Err(io::Error::other(format!("transactions of {size} bytes")));
        }
        let listener = TcpListener::bind((ours.ip(), 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let work = Self::begin(cpu, move |shared| {
            let Some(end) = shared.connection_of(&listener, theirs)? else { return Ok(()) };
            match tcp {
                Tcp::Answer { size } => end.answer(size as usize),
                Tcp::Receive {} => end.receive(&shared.bytes),
            }
        })?;
        Ok((work, port))
    }

    fn begin(
        cpu: usize,
        work: impl FnOnce(&Shared) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (started, starting) = mpsc::channel();
        let inside = shared.clone();
        let thread = thread::Builder::new().spawn(move || {
            cpu::pin(cpu)?;
            // Nobody listens any more if the conversation is over.
            let _ = started.send(ThreadClock::current());
            work(&inside)
        })?;
        let thread = Some(thread);
        match starting.recv() {
            Ok(clock) => Ok(Self { shared, clock, thread }),
            Err(_) => Err(io::Error::other("no CPU to receive on")),
        }
    }

    fn done(&self) -> Result<Done> {
        let thread = self.clock.read().map_err(|error| {
            Error::io("read the CPU time of a thread that has already ended", &error)
        })?;
        let cpus = CpuTimes::read()?.all();
        Ok(Done {
            bytes: self.shared.bytes.get(),
            thread: thread.as_secs_f64(),
            softirq: cpus.softirq,
            busy: cpus.busy,
        })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.shared.over.end();
        if let Data::Open(stream) = std::mem::replace(&mut *lock(&self.shared.data), Data::Ended) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // How it ended matters to nobody any more.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// The one connection, which comes from who asked, if it comes in time.
    fn connection_of(&self, listener: &TcpListener, from: SocketAddr) -> io::Result<Option<End>> {
        let deadline = Instant::now() + FIRST_PATIENCE;
        while !self.over.is_over() && Instant::now() < deadline {
            let Some((stream, peer)) = accept(listener)? else { continue };
            if peer.ip() != from.ip() {
                continue;
            }
            let mut data = lock(&self.data);
            if matches!(*data, Data::Ended) {
                break;
            }
            *data = Data::Open(stream.try_clone()?);
            return End::new(stream).map(Some);
        }
        Ok(None)
    }
}
