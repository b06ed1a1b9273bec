//! Frames from inside the kernel for the length of a round.

use std::{io, time::Duration};

use super::round::Over;
use crate::lab::{Host, generator::Generator};

/// How long a run takes at most: nobody should wait long for its end.
const LONGEST_RUN: Duration = Duration::from_secs(1);
/// A run ends with a pause; so it should take longer than the round, by this.
const MARGIN: f64 = 1.25;

/// Sends until the round of this length is over, from the calling thread's processor. The thread
/// stays in the host.
pub fn send(generator: &Generator, host: &Host, length: Duration, over: &Over) -> io::Result<()> {
    host.netns().enter().map_err(io::Error::other)?;
    let wanted = length.mul_f64(MARGIN).min(LONGEST_RUN);
    while !over.is_over() {
        generator.send_for(wanted)?;
    }
    Ok(())
}
