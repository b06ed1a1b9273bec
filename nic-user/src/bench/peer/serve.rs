//! `nicctl bench serve`: the receiving side, for one other machine at a time.
//!
//! It receives what it is asked to, from nobody but who asked, and says what that took. It changes
//! nothing, and what it sends besides answers is as much as it receives.

use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// How long who is served may say nothing: longer than the longest round.
const PATIENCE: Duration = Duration::from_secs(120);
/// How soon a thread that waits for a connection sees that it need not any more.
const GLANCE: u16 = 50;
/// The largest transaction, in bytes.
const MAX_TRANSACTION: u32 = 16 << 20;

/// Serves whoever connects, one after the other, until the user wants an end.
///
/// # Errors
///
/// There can be no connections at all.
pub fn serve(listener: &TcpListener, stop: &Stop, say: &(impl Fn(&str) + Sync)) -> Result<()> {
    let fail = |error: io::Error| Error::io("wait for connections", &error);
    listener.set_nonblocking(true).map_err(fail)?;
    let present = Mutex::new(None);
    thread::scope(|scope| {
        while stop.check().is_ok() {
            match accept(listener) {
                Ok(Some((stream, from))) => match Present::enter(&present, &stream) {
                    Some(guest) => {
                        scope.spawn(move || {
                            say(&match converse(stream) {
                                Ok(()) => format!("{from} was served"),
                                Err(error) => format!("{from} was sent away: {error}"),
                            });
                            drop(guest);
                        });
                    }
                    None => refuse(stream),
                },
                Ok(None) => {}
                Err(error) => {
                    // Whatever it is, it may be over the next time: too many files, a client that
                    // has gone again.
                    say(&fail(error).to_string());
                    let _ = stop.wait(Duration::from_millis(GLANCE.into()));
                }
            }
        }
        if let Some(stream) = &*lock(&present) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

/// The next connection, if one comes soon.
fn accept(listener: &TcpListener) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    let mut waiting = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    if poll(&mut waiting, PollTimeout::from(GLANCE))? == 0 {
        return Ok(None);
    }
    let (stream, from) = listener.accept()?;
    stream.set_nonblocking(false)?;
    Ok(Some((stream, from)))
}

/// The one that is being served; nobody else is while this exists.
struct Present<'p>(&'p Mutex<Option<TcpStream>>);

impl<'p> Present<'p> {
    fn enter(present: &'p Mutex<Option<TcpStream>>, stream: &TcpStream) -> Option<Self> {
        let mut current = lock(present);
        if current.is_some() {
            return None;
        }
        *current = Some(stream.try_clone().ok()?);
        Some(Self(present))
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole whoever panicked while holding it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says to who comes second why it is not served. It need not listen.
fn refuse(stream: TcpStream) {
    let busy = Answer::Error("somebody else is being served; try again later".to_owned());
    let _ = Channel::new(stream).map(|mut channel| channel.send(&busy));
}

/// Answers questions until the other side goes, or asks what has no answer.
fn converse(stream: TcpStream) -> Result<()> {
    let fail = |error: io::Error| Error::io("talk to the other side", &error);
    let mut channel = Channel::new(stream).map_err(fail)?;
    let conversation = Conversation::begin(&mut channel).and_then(|mut conversation| {
        while let Some(question) = channel.receive(PATIENCE)? {
            let answer = conversation.answer(question)?;
            channel.send(&answer)?;
        }
        Ok(())
    });
    if let Err(error) = &conversation {
        // It may have gone, which may be the error.
        let _ = channel.send(&Answer::Error(error.to_string()));
    }
    conversation
}

struct Conversation {
    /// Ours and the other side's, as this connection has them.
    ends: [SocketAddr; 2],
    /// The processor that receives.
    cpu: usize,
    work: Option<Work>,
}

impl Conversation {
    /// Agrees on the version.
    fn begin(channel: &mut Channel) -> Result<Self> {
        let fail = |error: io::Error| Error::io("read the ends of a connection", &error);
        let ends = [channel.stream().local_addr(), channel.stream().peer_addr()];
        let [ours, theirs] = ends;
        let ends = [ours.map_err(fail)?, theirs.map_err(fail)?];
        let cpu = Cpus::apart()?.sender;
        match channel.receive(FIRST_PATIENCE)? {
            Some(Question::Hello { version: VERSION }) => {}
            Some(Question::Hello { version }) => {
                return Err(Error::failed(format!(
                    "version {version} is not spoken here, only {VERSION}: use the same nicctl on both \
                 machines"
                )));
            }
            Some(_) => return Err(Error::failed("the first line must be a hello")),
            None => return Err(Error::failed("it went without a word")),
        }
        let Machine { kernel, cpu: model, .. } = Machine::current()?;
        channel.send(&Answer::Hello { version: VERSION, kernel, cpu: model, receiver: cpu })?;
        Ok(Self { ends, cpu, work: None })
    }

    fn answer(&mut self, question: Question) -> Result<Answer> {
        match question {
            Question::Hello { .. } => Err(Error::failed("hello was said before")),
            Question::Udp(udp) => self.begin_work(|ends, cpu| Work::udp(ends, cpu, udp)),
            Question::Tcp(tcp) => self.begin_work(|ends, cpu| Work::tcp(ends, cpu, tcp)),
            Question::Read => match &self.work {
                Some(work) => Ok(Answer::Done(work.done()?)),
                None => Err(Error::failed("there is nothing to read: nothing was begun")),
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
        let (work, port) = begun.map_err(|error| Error::io("begin to receive", &error))?;
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
            Err(_) => Err(io::Error::other("no processor to receive on")),
        }
    }

    fn done(&self) -> Result<Done> {
        let thread = self.clock.read().map_err(|error| {
            Error::io("read the CPU time of a thread that has ended already", &error)
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
