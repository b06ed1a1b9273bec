//! Channels: how many queues of each type there are (`ethtool -l`; `ETHTOOL_A_CHANNELS_*`).

use super::parameter::parameters;

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
