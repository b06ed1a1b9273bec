//! Checksums that are filled in on the way out: by the NIC or the kernel where they do it, else
//! here.

use std::fmt;

use super::{
    super::{
        buffers::{Layout, TX_METADATA_LEN},
        checksum::Sum,
        packet::Frag,
        socket::{Access, Interface, TxFlags},
    },
    Queue, Refusal, Unsent,
};
use crate::{error::Result, netlink::netdev::Netdev};

/// A checksum that is to be filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Where in the frame the sum starts: at the transport header.
    pub start: u16,
    /// Where from there the sum is stored. It must hold the sum of the pseudo header.
    pub offset: u16,
}

/// Who fills in checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksummer {
    /// The NIC: its driver has `tx-checksum` among netdev's xsk-features.
    Nic,
    /// The kernel, which copies; or the NIC for it.
    Kernel,
    /// This library, for this reason.
    Software(String),
}

impl Queue {
    /// Puts a frame into the TX ring whose checksum is filled in: on its way, or before, as
    /// [`Queue::checksummer`] says. Before also where the frame has less than 24 bytes of headroom
    /// or is from another memory.
    pub fn send_with_checksum(
        &mut self,
        mut frag: Frag,
        checksum: Checksum,
    ) -> Result<(), Unsent<Frag>> {
        if !checksum.is_within(&frag) {
            return Err(Unsent { what: frag, why: Refusal::NoChecksum });
        }
        let metadata =
            self.checksummer.takes_metadata() && self.can_send(&frag) && checksum.ask(&mut frag);
        if !metadata {
            checksum.fill_in(&mut frag);
        }
        self.push(frag, TxFlags { more: false, metadata })
    }

    /// Who fills in the checksums of what is sent with [`Queue::send_with_checksum`].
    pub const fn checksummer(&self) -> &Checksummer {
        &self.checksummer
    }
}

impl Checksummer {
    pub(super) fn of(access: &Access, layout: &Layout, interface: &Interface<'_>) -> Self {
        if !layout.tx_metadata {
            return Self::Software("the UMEM was created without TX metadata".to_owned());
        }
        match access {
            Access::Copy(_) => Self::Kernel,
            Access::ZeroCopy => Self::with_zero_copy(has_tx_checksum(interface)),
        }
    }

    /// A driver that does not have it sends the frame as it is, and says nothing
    /// (`xsk_tx_metadata_request`, net/xdp_sock.h).
    fn with_zero_copy(has_tx_checksum: Result<bool>) -> Self {
        match has_tx_checksum {
            Ok(true) => Self::Nic,
            Ok(false) => Self::Software("its driver has no tx-checksum for AF_XDP".to_owned()),
            Err(error) => Self::Software(error.to_string()),
        }
    }

    const fn takes_metadata(&self) -> bool {
        matches!(self, Self::Nic | Self::Kernel)
    }
}

impl fmt::Display for Checksummer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nic => f.write_str("NIC"),
            Self::Kernel => f.write_str("kernel"),
            Self::Software(why) => write!(f, "software ({why})"),
        }
    }
}

fn has_tx_checksum(interface: &Interface<'_>) -> Result<bool> {
    let ask = || Netdev::open().and_then(|mut netdev| netdev.xsk_features(interface.ifindex));
    let features = match interface.netns {
        Some(netns) => netns.run(ask)?,
        None => ask(),
    };
    let features = features.map_err(|error| {
        error.while_doing(format_args!("ask what {} does for AF_XDP", interface.name))
    })?;
    Ok(features.tx_checksum())
}

impl Checksum {
    fn is_within(self, frame: &[u8]) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= frame.len()
    }

    /// Writes `struct xsk_tx_metadata` (flags, start, offset) in front of the frame; false if there
    /// is no room.
    fn ask(self, frag: &mut Frag) -> bool {
        if !frag.push_front(TX_METADATA_LEN) {
            return false;
        }
        if let Some(metadata) = frag.first_chunk_mut::<{ TX_METADATA_LEN as usize }>() {
            metadata.fill(0);
            metadata[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
            metadata[8..10].copy_from_slice(&self.start.to_ne_bytes());
            metadata[10..12].copy_from_slice(&self.offset.to_ne_bytes());
        }
        frag.advance(TX_METADATA_LEN);
        true
    }

    /// As `skb_checksum_help` (net/core/dev.c) does it.
    fn fill_in(self, frame: &mut [u8]) {
        let Some(summed) = frame.get_mut(self.start.into()..) else { return };
        let checksum = Sum::of(summed).udp_checksum();
        let stored = summed.get_mut(self.offset.into()..);
        if let Some(stored) = stored.and_then(|bytes| bytes.first_chunk_mut()) {
            *stored = checksum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn with_zero_copy_it_is_the_nic_only_if_its_driver_says_so() {
        let cases = [
            (Ok(true), "NIC"),
            (Ok(false), "software (its driver has no tx-checksum for AF_XDP)"),
            (Err(Error::failed("no netdev family")), "software (no netdev family)"),
        ];
        for (has_tx_checksum, text) in cases {
            assert_eq!(Checksummer::with_zero_copy(has_tx_checksum).to_string(), text);
        }
    }
}
