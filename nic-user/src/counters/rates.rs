//! What happened between two readings, by the second.

use std::time::Duration;

use super::{Queues, Snapshot};

/// Packets and bits per second in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Packets per second.
    pub packets: f64,
    /// Bits per second, of the bytes that are counted: without FCS, preamble and gap.
    pub bits: f64,
}

/// Both directions; nothing where two readings cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SideRates {
    /// Received, as XDP counts it; where it does not, as TC ingress does.
    pub rx: Option<Rate>,
    /// Sent, as TC egress counts it.
    pub tx: Option<Rate>,
}

/// The rates of one interface between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Time between the readings.
    pub interval: Duration,
    /// Index = queue, as in the later reading.
    queues: Vec<SideRates>,
}

/// The two counters of one direction of a queue that rates come from.
#[derive(Clone, Copy)]
struct Traffic {
    packets: u64,
    bytes: u64,
}

impl Rates {
    /// The rates between two readings. They are unknown where a counter went backwards, where a
    /// queue is new, and altogether if the programs were attached anew in between.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let interval = after.taken_at.saturating_duration_since(before.taken_at);
        let comparable = after.is_same_attachment(before) && !interval.is_zero();
        let rx_traffic = if after.not_at_xdp.is_some() { ingress_traffic } else { xdp_traffic };
        let queues = (0..after.rows()).map(|queue| {
            if !comparable {
                return SideRates::default();
            }
            SideRates {
                rx: rate(rx_traffic(before, queue), rx_traffic(after, queue), interval),
                tx: rate(tx_traffic(before, queue), tx_traffic(after, queue), interval),
            }
        });
        Self { interval, queues: queues.collect() }
    }

    /// The rates since the reading of the same interface in `before`, if there is one.
    pub fn since(before: &[Snapshot], after: &Snapshot) -> Option<Self> {
        let before = before.iter().find(|before| after.is_same_interface(before))?;
        Some(Self::between(before, after))
    }

    /// The rates of one queue.
    pub fn queue(&self, queue: u32) -> SideRates {
        let index = usize::try_from(queue).ok();
        index.and_then(|index| self.queues.get(index)).copied().unwrap_or_default()
    }

    /// The sum over `queues`; unknown if that of one of them is.
    pub fn total(&self, queues: &Queues) -> SideRates {
        let sum = |side: fn(SideRates) -> Option<Rate>| {
            queues.rows.iter().try_fold(Rate::default(), |sum, (queue, _)| {
                let rate = side(self.queue(*queue))?;
                Some(Rate { packets: sum.packets + rate.packets, bits: sum.bits + rate.bits })
            })
        };
        SideRates { rx: sum(|rates| rates.rx), tx: sum(|rates| rates.tx) }
    }
}

impl Snapshot {
    fn is_same_interface(&self, other: &Self) -> bool {
        self.ifindex == other.ifindex && self.netns == other.netns
    }

    /// Whether the counters of both have counted from the same zero.
    fn is_same_attachment(&self, other: &Self) -> bool {
        self.is_same_interface(other) && self.attached_at == other.attached_at
    }
}

fn xdp_traffic(snapshot: &Snapshot, queue: u32) -> Option<Traffic> {
    let rx = snapshot.rx.get(usize::try_from(queue).ok()?)?;
    Some(Traffic { packets: rx.packets(), bytes: rx.bytes })
}

fn ingress_traffic(snapshot: &Snapshot, queue: u32) -> Option<Traffic> {
    let ingress = snapshot.ingress.get(usize::try_from(queue).ok()?)?;
    Some(Traffic { packets: ingress.packets, bytes: ingress.bytes })
}

fn tx_traffic(snapshot: &Snapshot, queue: u32) -> Option<Traffic> {
    let tx = snapshot.tx.get(usize::try_from(queue).ok()?)?;
    Some(Traffic { packets: tx.packets, bytes: tx.bytes })
}

/// A side that the queue never had has no traffic; one that it has only in one of the readings
/// cannot be compared.
fn rate(before: Option<Traffic>, after: Option<Traffic>, interval: Duration) -> Option<Rate> {
    let (before, after) = match (before, after) {
        (None, None) => return Some(Rate::default()),
        (before, after) => (before?, after?),
    };
    let packets = after.packets.checked_sub(before.packets)?;
    let bytes = after.bytes.checked_sub(before.bytes)?;
    let seconds = interval.as_secs_f64();
    Some(Rate { packets: packets as f64 / seconds, bits: bytes as f64 * 8.0 / seconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::fixtures;

    /// Two readings, `millis` apart, of one queue that received `packets` frames of 100 bytes in
    /// the first reading and `more` in the second.
    fn readings(millis: u64, packets: u64, more: u64) -> (Snapshot, Snapshot) {
        let mut before = fixtures::snapshot("eth7", 1, 1);
        before.rx[0] = fixtures::rx(packets, 100);
        let mut after = before.clone();
        after.rx[0] = fixtures::rx(more, 100);
        after.taken_at += Duration::from_millis(millis);
        (before, after)
    }

    #[test]
    fn differences_are_divided_by_the_interval() {
        let (before, after) = readings(500, 1000, 1250);
        let rates = Rates::between(&before, &after);
        assert_eq!(rates.queue(0).rx, Some(Rate { packets: 500.0, bits: 400_000.0 }));
        assert_eq!(rates.queue(0).tx, Some(Rate::default()));
        assert_eq!(rates.interval, Duration::from_millis(500));
    }

    #[test]
    fn a_counter_that_went_backwards_has_no_rate() {
        let (before, after) = readings(1000, 1000, 10);
        let rates = Rates::between(&before, &after);
        assert_eq!(rates.queue(0).rx, None);
        assert_eq!(rates.queue(0).tx, Some(Rate::default()));
        assert_eq!(rates.total(&after.queues(None).unwrap()).rx, None);
    }

    #[test]
    fn attaching_anew_has_no_rate_even_if_the_counters_are_larger() {
        let (before, mut after) = readings(1000, 10, 1000);
        after.attached_at += Duration::from_secs(1);
        assert_eq!(Rates::between(&before, &after).queue(0), SideRates::default());
    }

    #[test]
    fn no_time_between_the_readings_has_no_rate() {
        let (before, after) = readings(0, 10, 1000);
        assert_eq!(Rates::between(&before, &after).queue(0), SideRates::default());
        let (before, after) = readings(1000, 10, 1000);
        assert_eq!(Rates::between(&after, &before).interval, Duration::ZERO);
    }

    #[test]
    fn a_new_queue_has_no_rate_and_the_others_have() {
        let (before, mut after) = readings(1000, 10, 20);
        after.rx.push(fixtures::rx(1_000_000, 64));
        let rates = Rates::between(&before, &after);
        assert_eq!(rates.queue(0).rx, Some(Rate { packets: 10.0, bits: 8000.0 }));
        assert_eq!(rates.queue(1).rx, None);
    }

    #[test]
    fn the_total_is_that_of_the_queues_that_are_shown() {
        let (mut before, mut after) = readings(1000, 10, 20);
        before.rx.push(fixtures::rx(0, 100));
        after.rx.push(fixtures::rx(5, 100));
        let rates = Rates::between(&before, &after);
        let total = |only| rates.total(&after.queues(only).unwrap()).rx.unwrap().packets;
        assert_eq!(total(None), 15.0);
        assert_eq!(total(Some(1)), 5.0);
    }
}
