//! Writes captures for tests.

/// Byte order of a capture.
#[derive(Clone, Copy)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, n: u16) -> [u8; 2] {
        match self {
            Self::Little => n.to_le_bytes(),
            Self::Big => n.to_be_bytes(),
        }
    }

    pub fn u32(self, n: u32) -> [u8; 4] {
        match self {
            Self::Little => n.to_le_bytes(),
            Self::Big => n.to_be_bytes(),
        }
    }
}

/// A pcap capture of whole frames. Above the link type there may be the length of the FCS.
pub fn pcap(link: u32, frames: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut capture = Vec::new();
    for field in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, link] {
        capture.extend(u32::to_le_bytes(field));
    }
    for frame in frames {
        let frame = frame.as_ref();
        capture.extend(pcap_packet(frame, u32::try_from(frame.len()).unwrap()));
    }
    capture
}

/// A packet of a pcap capture.
pub fn pcap_packet(captured: &[u8], original_len: u32) -> Vec<u8> {
    let fields = [0, 0, u32::try_from(captured.len()).unwrap(), original_len];
    [&fields.map(u32::to_le_bytes).concat(), captured].concat()
}

/// A pcapng block, padded.
pub fn ng_block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let len = order.u32(u32::try_from(12 + body.len() + padding.len()).unwrap());
    [&order.u32(kind)[..], &len, body, &padding, &len].concat()
}

pub fn ng_section(order: Order) -> Vec<u8> {
    let body = [&order.u32(0x1a2b_3c4d)[..], &order.u16(1), &[0; 2], &[0xff; 8]].concat();
    ng_block(order, 0x0a0d_0d0a, &body)
}

pub fn ng_interface(order: Order, link: u32) -> Vec<u8> {
    let link = order.u16(u16::try_from(link).unwrap());
    ng_block(order, 1, &[&link[..], &[0; 6]].concat())
}

/// An interface whose frames end with an FCS (`if_fcslen`).
pub fn ng_interface_with_fcs(order: Order, link: u32, fcs: u8) -> Vec<u8> {
    let link = order.u16(u16::try_from(link).unwrap());
    let option = [&order.u16(13)[..], &order.u16(1), &[fcs, 0, 0, 0]].concat();
    ng_block(order, 1, &[&link[..], &[0; 6], &option, &[0; 4]].concat())
}

/// An enhanced packet block.
pub fn ng_packet(order: Order, interface: u32, captured: &[u8], original_len: u32) -> Vec<u8> {
    let len = order.u32(u32::try_from(captured.len()).unwrap());
    let body =
        [&order.u32(interface)[..], &[0; 8], &len, &order.u32(original_len), captured].concat();
    ng_block(order, 6, &body)
}
