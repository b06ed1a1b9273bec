//! Channels: how many queues of each type there are (`ethtool -l`; `ETHTOOL_A_CHANNELS_*`).

use super::Ethtool;
use super::parameter::{Readings, parameters};
use crate::netlink::Result;

parameters! {
    /// A type of channel; its value is how many there are.
    Channel, get 17, set 18;

    /// Receive only.
    Rx = 6 max 2, "rx", Number;
    /// Transmit only.
    Tx = 7 max 3, "tx", Number;
    /// Neither: link events and the like.
    Other = 8 max 4, "other", Number;
    /// Receive and transmit.
    Combined = 9 max 5, "combined", Number;
}

/// How many queues of each type there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Receive only.
    pub rx: u32,
    /// Transmit only.
    pub tx: u32,
    /// Neither: link events and the like.
    pub other: u32,
    /// Receive and transmit.
    pub combined: u32,
}

/// Queues in use, and how many there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// In use.
    pub current: ChannelCounts,
    /// The most that the driver allows.
    pub max: ChannelCounts,
}

impl Ethtool {
    /// The channels of the device with this index; `None` if its driver has no such notion.
    pub fn channels(&mut self, ifindex: u32) -> Result<Option<Channels>> {
        Ok(Channels::from_readings(&self.get(ifindex)?))
    }
}

impl Channels {
    /// A type that the device does not have counts 0.
    fn from_readings(readings: &Readings<Channel>) -> Option<Self> {
        let current = |channel| readings.get(&channel).map_or(0, |reading| reading.value);
        let max = |channel| readings.get(&channel).and_then(|reading| reading.max).unwrap_or(0);
        (!readings.is_empty()).then(|| Self {
            current: ChannelCounts::from_fn(current),
            max: ChannelCounts::from_fn(max),
        })
    }
}

impl ChannelCounts {
    fn from_fn(count: impl Fn(Channel) -> u32) -> Self {
        Self {
            rx: count(Channel::Rx),
            tx: count(Channel::Tx),
            other: count(Channel::Other),
            combined: count(Channel::Combined),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameter::Reading;
    use super::*;

    #[test]
    fn a_type_that_a_device_does_not_have_counts_nothing() {
        let readings = [(Channel::Combined, Reading { value: 4, max: Some(8) })].into();
        let counts = |combined| ChannelCounts { combined, ..ChannelCounts::default() };
        let channels = Channels { current: counts(4), max: counts(8) };
        assert_eq!(Channels::from_readings(&readings), Some(channels));
        assert_eq!(Channels::from_readings(&Readings::new()), None);
    }
}
