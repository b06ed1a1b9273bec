//! Interrupt coalescing (`ethtool -c`; `ETHTOOL_A_COALESCE_*`).

use super::parameter::parameters;

parameters! {
    /// A parameter of interrupt coalescing. Times are microseconds unless the name says otherwise.
    Coalesce, get 19, set 20;

    /// Time from a received packet to its interrupt.
    RxUsecs = 2, "rx-usecs", Number;
    /// Received packets that make an interrupt.
    RxFrames = 3, "rx-frames", Number;
    /// [`Self::RxUsecs`] while an interrupt is being served.
    RxUsecsIrq = 4, "rx-usecs-irq", Number;
    /// [`Self::RxFrames`] while an interrupt is being served.
    RxFramesIrq = 5, "rx-frames-irq", Number;
    /// Time from a sent packet to its interrupt.
    TxUsecs = 6, "tx-usecs", Number;
    /// Sent packets that make an interrupt.
    TxFrames = 7, "tx-frames", Number;
    /// [`Self::TxUsecs`] while an interrupt is being served.
    TxUsecsIrq = 8, "tx-usecs-irq", Number;
    /// [`Self::TxFrames`] while an interrupt is being served.
    TxFramesIrq = 9, "tx-frames-irq", Number;
    /// Time between updates of the statistics in memory.
    StatsBlockUsecs = 10, "stats-block-usecs", Number;
    /// Whether receive coalescing follows the load.
    AdaptiveRx = 11, "adaptive-rx", Switch;
    /// Whether transmit coalescing follows the load.
    AdaptiveTx = 12, "adaptive-tx", Switch;
    /// Packets a second below which the `-low` values hold.
    PktRateLow = 13, "pkt-rate-low", Number;
    /// [`Self::RxUsecs`] at a low packet rate.
    RxUsecsLow = 14, "rx-usecs-low", Number;
    /// [`Self::RxFrames`] at a low packet rate.
    RxFramesLow = 15, "rx-frames-low", Number;
    /// [`Self::TxUsecs`] at a low packet rate.
    TxUsecsLow = 16, "tx-usecs-low", Number;
    /// [`Self::TxFrames`] at a low packet rate.
    TxFramesLow = 17, "tx-frames-low", Number;
    /// Packets a second above which the `-high` values hold.
    PktRateHigh = 18, "pkt-rate-high", Number;
    /// [`Self::RxUsecs`] at a high packet rate.
    RxUsecsHigh = 19, "rx-usecs-high", Number;
    /// [`Self::RxFrames`] at a high packet rate.
    RxFramesHigh = 20, "rx-frames-high", Number;
    /// [`Self::TxUsecs`] at a high packet rate.
    TxUsecsHigh = 21, "tx-usecs-high", Number;
    /// [`Self::TxFrames`] at a high packet rate.
    TxFramesHigh = 22, "tx-frames-high", Number;
    /// Seconds between measurements of the packet rate.
    SampleInterval = 23, "sample-interval", Number;
    /// Whether the time counts from the last completion instead of the first, for sent packets.
    CqeModeTx = 24, "cqe-mode-tx", Switch;
    /// As [`Self::CqeModeTx`], for received packets.
    CqeModeRx = 25, "cqe-mode-rx", Switch;
    /// Bytes of sent packets put together into one block.
    TxAggrMaxBytes = 26, "tx-aggr-max-bytes", Number;
    /// Sent packets put together into one block.
    TxAggrMaxFrames = 27, "tx-aggr-max-frames", Number;
    /// Time from the first sent packet of a block to its end.
    TxAggrTimeUsecs = 28, "tx-aggr-time-usecs", Number;
    /// Received packets put together into one completion.
    RxCqeFrames = 31, "rx-cqe-frames", Number;
    /// Nanoseconds from the first received packet of a completion to its end.
    RxCqeNsecs = 32, "rx-cqe-nsecs", Number;
}
