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

/// A pcap capture of whole frames.
pub fn pcap(link: u32, frames: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut capture = Vec::new();
    for field in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, link] {
        capture.extend(u32::to_le_bytes(field));
    }
    for frame in frames {
        let frame = frame.as_ref();
        let len = u32::try_from(frame.len()).unwrap();
        for field in [0, 0, len, len] {
            capture.extend(field.to_le_bytes());
        }
        capture.extend(frame);
    }
    capture
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

/// An enhanced packet block.
pub fn ng_packet(order: Order, interface: u32, captured: &[u8], original_len: u32) -> Vec<u8> {
    let len = order.u32(u32::try_from(captured.len()).unwrap());
    let body =
        [&order.u32(interface)[..], &[0; 8], &len, &order.u32(original_len), captured].concat();
    ng_block(order, 6, &body)
}
