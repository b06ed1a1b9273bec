//! Descriptor rings (`ethtool -g`; `ETHTOOL_A_RINGS_*`, linux/ethtool_netlink.h).

use super::parameter::parameters;

parameters! {
    /// A parameter of the descriptor rings.
    Ring, get 15, set 16;

    /// Receive descriptors of each queue.
    Rx = 6 max 2, "rx", Number;
    /// Receive descriptors for small packets.
    RxMini = 7 max 3, "rx-mini", Number;
    /// Receive descriptors for large packets.
    RxJumbo = 8 max 4, "rx-jumbo", Number;
    /// Transmit descriptors of each queue.
    Tx = 9 max 5, "tx", Number;
    /// Size of a receive buffer, in bytes.
    RxBufLen = 10, "rx-buf-len", Number;
    /// Headers and data of TCP packets in buffers of their own.
    TcpDataSplit = 11, "tcp-data-split", AutoSwitch;
    /// Size of a completion queue entry, in bytes.
    CqeSize = 12, "cqe-size", Number;
    /// Whether descriptors are written to the device instead of to memory. The kernel says off also
    /// for devices that cannot.
    TxPush = 13, "tx-push", Switch;
    /// As [`Self::TxPush`], for receive descriptors.
    RxPush = 14, "rx-push", Switch;
    /// How much of a packet is written to the device with its descriptor, in bytes.
    TxPushBufLen = 15 max 16, "tx-push-buf-len", Number;
    /// Packets up to this many bytes are not split into headers and data.
    HdsThresh = 17 max 18, "hds-thresh", Number;
}
