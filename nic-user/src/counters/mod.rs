//! From the counters of every queue to what `nicctl stats` shows.
//!
//! A [`Snapshot`] is one reading; [`Queues`] are the rows of it that are asked for, with their
//! totals; [`rates`] is the difference of two readings; [`model`] is the JSON of them and [`text`]
//! what a terminal shows.

pub mod model;
pub mod rates;
pub mod text;

#[cfg(test)]
pub(crate) mod fixtures;

use std::time::{Instant, SystemTime};

use nic_common::{
    counters::{Counters, IngressCounters, RxCounters, TxCounters},
    policy::CopyPolicy,
};

use crate::error::{Error, Result};

/// One reading of everything that is counted for one interface.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Name of the interface.
    pub name: String,
    /// Its index in its network namespace.
    pub ifindex: u32,
    /// Name of the network namespace, unless it is the caller's own.
    pub netns: Option<String>,
    /// How XDP is attached: `native`, `generic` or `offload`; `tc` without it.
    pub mode: String,
    /// Why XDP counts nothing, where it does not.
    pub not_at_xdp: Option<&'static str>,
    /// Why the rows of transmit queues are a guess, where they are.
    pub tx_queue_guess: Option<&'static str>,
    /// The policy in force.
    pub policy: CopyPolicy,
    /// When the programs were attached.
    pub attached_at: SystemTime,
    /// When the counters were read.
    pub taken_at: Instant,
    /// XDP counters by receive queue, summed over CPUs.
    pub rx: Vec<RxCounters>,
    /// TC ingress counters by receive queue, summed over CPUs.
    pub ingress: Vec<IngressCounters>,
    /// TC egress counters by transmit queue, summed over CPUs.
    pub tx: Vec<TxCounters>,
}

/// Which part of a reading is shown, as text or as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Only this queue.
    pub queue: Option<u32>,
    /// Histograms too: as text, of all queues together; as JSON, of every queue.
    pub histogram: bool,
}

/// What is counted for one queue number, or for several together. A side that the queue does not
/// have is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// XDP.
    pub rx: RxCounters,
    /// TC ingress.
    pub ingress: IngressCounters,
    /// TC egress.
    pub tx: TxCounters,
}

impl Counters for Sides {
    const ZERO: Self =
        Self { rx: RxCounters::ZERO, ingress: IngressCounters::ZERO, tx: TxCounters::ZERO };

    fn add(&mut self, other: &Self) {
        self.rx.add(&other.rx);
        self.ingress.add(&other.ingress);
        self.tx.add(&other.tx);
    }
}

impl Sides {
    /// Whether no packet passed in either direction.
    pub fn is_idle(&self) -> bool {
        self.rx.packets() == 0 && self.ingress.packets == 0 && self.tx.packets == 0
    }
}

/// The queues of a snapshot that are to be shown, and their sum.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Queue number and counters, in the order of the numbers.
    pub rows: Vec<(u32, Sides)>,
    /// The sum of the rows.
    pub total: Sides,
}

impl Snapshot {
    /// All queues, or `only` one.
    ///
    /// # Errors
    /// [`Kind::Usage`](crate::error::Kind::Usage), naming the range, if there is no such queue.
    pub fn queues(&self, only: Option<u32>) -> Result<Queues> {
        let count = self.rows();
        let rows = match only {
            None => (0..count).map(|queue| (queue, self.sides(queue))).collect(),
            Some(queue) if queue < count => vec![(queue, self.sides(queue))],
            Some(queue) => return Err(self.no_such_queue(queue)),
        };
        Ok(Queues { total: sum(&rows), rows })
    }

    /// Rows of the table: the larger one of the numbers of receive and transmit queues.
    fn rows(&self) -> u32 {
        let count = self.rx.len().max(self.ingress.len()).max(self.tx.len());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn sides(&self, queue: u32) -> Sides {
        Sides {
            rx: counters_of(&self.rx, queue),
            ingress: counters_of(&self.ingress, queue),
            tx: counters_of(&self.tx, queue),
        }
    }

    fn no_such_queue(&self, queue: u32) -> Error {
        let has = match self.rows() {
            0 => "it has none".to_owned(),
            1 => "it has only queue 0".to_owned(),
            count => format!("it has queues 0 to {}", count - 1),
        };
        Error::usage(format!("{}: no queue {queue}: {has}", self.name))
    }
}

/// The counters of one queue; zero if there is no such queue on this side.
fn counters_of<C: Counters>(side: &[C], queue: u32) -> C {
    usize::try_from(queue).ok().and_then(|queue| side.get(queue)).copied().unwrap_or(C::ZERO)
}

fn sum(rows: &[(u32, Sides)]) -> Sides {
    rows.iter().fold(Sides::ZERO, |mut sum, (_, sides)| {
        sum.add(sides);
        sum
    })
}

/// `part` of `whole`, or nothing if the whole is nothing.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}

/// Averages and shares that both text and JSON show; nothing where there is nothing to divide by.
impl Sides {
    /// Bytes of a received frame.
    fn rx_size(&self) -> Option<f64> {
        ratio(self.rx.bytes, self.rx.packets())
    }

    /// Header bytes of a received frame.
    fn rx_header_length(&self) -> Option<f64> {
        ratio(self.rx.header_bytes, self.rx.packets())
    }

    /// Share of the received bytes that is not copied.
    fn spared_share(&self) -> Option<f64> {
        ratio(self.rx.spared_bytes(), self.rx.bytes)
    }

    /// Bytes of a packet as the stack gets it.
    fn ingress_size(&self) -> Option<f64> {
        ratio(self.ingress.bytes, self.ingress.packets)
    }

    /// Segments of a packet that GRO or LRO merged.
    fn gro_segments(&self) -> Option<f64> {
        ratio(self.ingress.gro_segments, self.ingress.gro_packets)
    }

    /// Share of the payload that lies in the linear part.
    fn linear_payload_share(&self) -> Option<f64> {
        let linear = self.ingress.linear_payload_bytes;
        ratio(linear, linear.saturating_add(self.ingress.paged_bytes()))
    }

    /// Bytes of a packet as the stack sends it.
    fn tx_size(&self) -> Option<f64> {
        ratio(self.tx.bytes, self.tx.packets)
    }

    /// Header bytes of a packet as the stack sends it.
    fn tx_header_length(&self) -> Option<f64> {
        ratio(self.tx.header_bytes, self.tx.packets)
    }

    /// Segments of a TCP super-packet.
    fn gso_tcp_segments(&self) -> Option<f64> {
        ratio(self.tx.gso_tcp_segments, self.tx.gso_tcp_packets)
    }

    /// Segments of a UDP super-packet.
    fn gso_udp_segments(&self) -> Option<f64> {
        ratio(self.tx.gso_udp_segments, self.tx.gso_udp_packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_queue_that_there_is_not_names_the_range() {
        let error = |rx, tx, queue| {
            let error = fixtures::snapshot("eth7", rx, tx).queues(Some(queue)).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            error.to_string()
        };
        assert_eq!(error(4, 2, 4), "eth7: no queue 4: it has queues 0 to 3");
        assert_eq!(error(1, 1, 7), "eth7: no queue 7: it has only queue 0");
        assert_eq!(error(0, 0, 0), "eth7: no queue 0: it has none");
    }

    #[test]
    fn a_queue_of_one_side_is_a_queue() {
        let queues = fixtures::snapshot("eth7", 1, 3).queues(Some(2)).unwrap();
        assert_eq!(queues.rows, [(2, Sides::ZERO)]);
    }
}
