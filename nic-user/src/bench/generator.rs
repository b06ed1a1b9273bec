//! Frames from inside the kernel for the length of a round.

use std::io::{self, ErrorKind};

use super::round::{Over, Side, Worker};
use crate::lab::{Host, generator::Generator};

/// Frames of one run, as many as the kernel takes: the end of a run is a pause of some 25 ms.
const RUN: u32 = 100_000_000;

/// A thread that sends from one processor until the round is over.
pub fn worker<'w>(generator: &'w Generator, host: &'w Host, cpu: usize) -> Worker<'w> {
    Worker::new(Side::Sender, cpu, move |over| send(generator, host, over)).interrupted()
}

fn send(generator: &Generator, host: &Host, over: &Over) -> io::Result<()> {
    host.netns().enter().map_err(io::Error::other)?;
    while !over.is_over() {
        match generator.send(RUN) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            sent => sent?,
        }
    }
    Ok(())
}
