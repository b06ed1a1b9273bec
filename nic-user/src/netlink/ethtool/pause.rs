//! Pause frames (`ethtool -a`; `ETHTOOL_A_PAUSE_*`).

use super::parameter::parameters;

parameters! {
    /// A parameter of Ethernet flow control.
    Pause, get 21, set 22;

    /// Whether it is negotiated with the other end.
    Autoneg = 2, "autoneg", Switch;
    /// Whether pause frames that arrive are obeyed.
    Rx = 3, "rx", Switch;
    /// Whether pause frames are sent.
    Tx = 4, "tx", Switch;
}
