//! Frames from inside the kernel for the length of a round.

use std::io;

use super::round::{Over, Side, Worker};
use crate::lab::{Host, generator::Generator};

/// A thread that sends from one processor until the round is over.
pub fn worker<'w>(generator: &'w Generator, host: &'w Host, cpu: usize) -> Worker<'w> {
    let send = move |over: &Over| {
        host.netns().enter().map_err(io::Error::other)?;
        generator.send_until(|| over.is_over())
    };
    Worker::new(Side::Sender, cpu, send).interrupted()
}
