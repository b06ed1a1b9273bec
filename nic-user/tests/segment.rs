//! Super-packets and the segments that they become.

mod super_packets;

use nic_user::driver::segment::{BufferTooShort, Ids, MAX_LEN, SegmentError, SuperPacket};
use proptest::prelude::*;
use super_packets::{Extension, Ip, Spec, Transport, ones_sum, segment, specs, write_all};

/// Segment number `index` of a packet, made as a packet of its own.
fn expected(spec: &Spec, payload: &[u8], index: usize, ids: Ids) -> Vec<u8> {
    let start = index * spec.segment_size;
    let payload = &payload[start..payload.len().min(start + spec.segment_size)];
    let is_last = index + 1 == spec.segments();
    let mut one = Spec { payload_len: payload.len(), ..spec.clone() };
    if let (Ip::V4 { id, .. }, Ids::Increment) = (&mut one.ip, ids) {
        *id = id.wrapping_add(index as u16);
    }
    if let Transport::Tcp { sequence, flags, .. } = &mut one.transport {
        *sequence = sequence.wrapping_add(start as u32);
        *flags &= if is_last { 0xff } else { !0x09 };
        *flags &= if index == 0 { 0xff } else { !0x80 };
    }
    let mut frame = [&one.headers()[..], payload].concat();
    let l4 = frame.len() - payload.len() - one.transport_header_len();
    let checksum_at = l4 + if one.is_tcp() { 16 } else { 6 };
    // The sum of the pseudo-header is in the field.
    let checksum = match (!ones_sum(&frame[l4..]), one.is_tcp()) {
        (0, false) => 0xffff,
        (checksum, _) => checksum,
    };
    frame[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn ids() -> impl Strategy<Value = Ids> {
    prop_oneof![Just(Ids::Increment), Just(Ids::Fixed)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_segment_is_what_it_would_be_alone(spec in specs(70), ids in ids()) {
        let payload = spec.payload();
        let segments = segment(&spec, &payload, ids);
        prop_assert_eq!(segments.len(), spec.segments());
        for (index, found) in segments.iter().enumerate() {
            prop_assert_eq!(found, &expected(&spec, &payload, index, ids), "segment {}", index);
        }
    }

    #[test]
    fn it_does_not_matter_where_the_payload_lies(
        spec in specs(20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let payload = spec.payload();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(payload.len() + 1)).collect();
        cuts.extend([0, payload.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|part| &payload[part[0]..part[1]]);
        let packet =
            SuperPacket::new(&spec.headers(), parts, spec.segment_size, Ids::Increment).unwrap();
        prop_assert_eq!(write_all(packet.segments()), segment(&spec, &payload, Ids::Increment));
    }

    #[test]
    fn two_partial_packets_give_what_the_whole_gives(spec in specs(20), ids in ids()) {
        let payload = spec.payload();
        let parts = std::iter::once(&payload[..]);
        let packet = SuperPacket::new(&spec.headers(), parts, spec.segment_size, ids).unwrap();
        let (equal, last) = packet.partial();
        let has_rest = spec.payload_len > spec.segment_size
            && spec.payload_len % spec.segment_size != 0;
        prop_assert_eq!(last.is_some(), has_rest);
        // Either is a sound packet of its own.
        let mut segments = Vec::new();
        let mut at = 0;
        for part in [Some(equal), last].into_iter().flatten() {
            let parts = std::iter::once(&payload[at..at + part.payload_len()]);
            at += part.payload_len();
            let own = SuperPacket::new(part.headers(), parts, spec.segment_size, ids).unwrap();
            prop_assert_eq!(write_all(own.segments()), write_all(part.clone().segments()));
            segments.extend(write_all(part.segments()));
        }
        prop_assert_eq!(segments, segment(&spec, &payload, ids));
    }

    #[test]
    fn descriptors_are_a_run_and_a_shorter_last_one(spec in specs(20)) {
        let payload = spec.payload();
        let headers = spec.headers();
        let parts = std::iter::once(&payload[..]);
        let packet =
            SuperPacket::new(&headers, parts, spec.segment_size, Ids::Increment).unwrap();
        let wire_headers = packet.headers().len();
        let (run, last) = packet.runs();
        let size = spec.segment_size.min(spec.payload_len);
        prop_assert_eq!(run.frame_len(), wire_headers + size);
        prop_assert_eq!(run.segments(), (spec.payload_len / spec.segment_size).max(1));
        if let Some(last) = last {
            prop_assert_eq!(last.segments(), 1);
            prop_assert_eq!(last.frame_len(), wire_headers + spec.payload_len % size);
        }
    }

    #[test]
    fn a_short_buffer_is_refused_and_nothing_lost(spec in specs(5)) {
        let payload = spec.payload();
        let parts = std::iter::once(&payload[..]);
        let packet =
            SuperPacket::new(&spec.headers(), parts, spec.segment_size, Ids::Increment).unwrap();
        let mut segments = packet.segments();
        let needed = segments.next_len().unwrap();
        let mut short = vec![0xee; needed - 1];
        prop_assert_eq!(segments.write(&mut short), Err(BufferTooShort { needed }));
        prop_assert!(short.iter().all(|byte| *byte == 0xee));
        prop_assert_eq!(write_all(segments), segment(&spec, &payload, Ids::Increment));
    }

    #[test]
    fn no_bytes_make_it_panic(
        spec in specs(5),
        at in any::<prop::sample::Index>(),
        change in prop::collection::vec(any::<u8>(), 0..6),
        cut in any::<prop::sample::Index>(),
        size in 0_usize..3000,
    ) {
        let mut headers = spec.headers();
        let at = at.index(headers.len());
        for (to, from) in headers[at..].iter_mut().zip(change) {
            *to = from;
        }
        if size % 4 == 0 {
            headers.truncate(cut.index(headers.len()));
        }
        let payload = spec.payload();
        let parts = std::iter::once(&payload[..]);
        if let Ok(packet) = SuperPacket::new(&headers, parts, size, Ids::Increment) {
            let written = write_all(packet.segments());
            let payloads: usize = written.iter().map(Vec::len).sum();
            prop_assert!(payloads >= payload.len());
        }
    }
}

/// TCP over IPv6 or UDP over IPv4 in three segments.
fn plain(v4: bool) -> Spec {
    let tcp = Transport::Tcp {
        sequence: u32::MAX,
        acknowledged: 7,
        flags: 0x18,
        window: 512,
        options: vec![],
    };
    let (ip, transport) = if v4 {
        let ip = Ip::V4 { tos: 0, id: u16::MAX, dont_fragment: false, ttl: 64, options: 0 };
        (ip, Transport::Udp)
    } else {
        let extensions = vec![];
        let ip = Ip::V6 { class_and_label: 0, hop_limit: 64, extensions, jumbo_option: true };
        (ip, tcp)
    };
    Spec {
        vlans: vec![],
        ip,
        transport,
        ports: [1000, 2000],
        segment_size: 1000,
        payload_len: 2500,
        seed: 1,
    }
}

fn refused(headers: &[u8], payload_len: usize, size: usize) -> SegmentError {
    let payload = vec![0; payload_len];
    SuperPacket::new(headers, std::iter::once(&payload[..]), size, Ids::Increment).unwrap_err()
}

#[test]
fn headers_that_are_not_for_every_segment_are_refused() {
    use SegmentError::{
        ControlFlags, Extension as Option, Fragment, HeaderLength, HeadersTooLong, UnknownHeaders,
    };
    let (v4, v6) = (plain(true).headers(), plain(false).headers());
    let with = |headers: &[u8], at: usize, bytes: &[u8]| {
        let mut headers = headers.to_vec();
        headers[at..at + bytes.len()].copy_from_slice(bytes);
        headers
    };
    let extension = Ip::V6 {
        class_and_label: 0,
        hop_limit: 64,
        extensions: vec![Extension::Destination],
        jumbo_option: false,
    };
    let options = Spec { ip: extension, ..plain(false) }.headers();
    for (what, headers, error) in [
        ("nothing", vec![], UnknownHeaders),
        ("ARP", with(&v4, 12, &[0x08, 0x06]), UnknownHeaders),
        (
            "three VLAN tags",
            {
                let mut headers = Spec { vlans: vec![1, 2], ..plain(true) }.headers();
                headers.splice(12..12, [0x88, 0xa8, 0, 3]);
                headers
            },
            UnknownHeaders,
        ),
        ("ICMP", with(&v4, 14 + 9, &[1]), UnknownHeaders),
        ("version 5", with(&v4, 14, &[0x55]), UnknownHeaders),
        ("IHL 4", with(&v4, 14, &[0x44]), UnknownHeaders),
        ("IPv4 in IPv4", with(&v4, 14 + 9, &[4]), UnknownHeaders),
        ("first fragment", with(&v4, 14 + 6, &[0x20, 0]), Fragment),
        ("later fragment", with(&v4, 14 + 6, &[0, 1]), Fragment),
        (
            "atomic fragment",
            {
                let mut headers = with(&v6, 14 + 6, &[44]);
                headers.splice(54..54, [6, 0, 0, 0, 0, 0, 0, 1]);
                headers
            },
            Fragment,
        ),
        ("data offset 4", with(&v6, 14 + 40 + 12, &[0x40]), UnknownHeaders),
        ("data offset beyond the end", with(&v6, 14 + 40 + 12, &[0xf0]), UnknownHeaders),
        (
            "payload among the headers",
            [&v4[..], &[1]].concat(),
            HeaderLength { headers: v4.len(), given: v4.len() + 1 },
        ),
        ("TCP header cut off", v6[..60].to_vec(), UnknownHeaders),
        ("home address", with(&options, 54 + 2, &[0xc9, 4]), Option),
        ("jumbo payload option elsewhere", with(&options, 54 + 2, &[0xc2, 4]), Option),
        ("option beyond its header", with(&options, 54 + 2, &[1, 5]), Option),
        ("routing header", with(&options, 14 + 6, &[43]), Option),
        ("headers of 257 bytes", vec![0; 257], HeadersTooLong),
        ("SYN", with(&v6, 54 + 13, &[0x02]), ControlFlags),
        ("RST", with(&v6, 54 + 13, &[0x14]), ControlFlags),
    ] {
        assert_eq!(refused(&headers, 2500, 1000), error, "{what}");
    }
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let field = |header, says, expected| SegmentError::LengthField { header, says, expected };
    let udp = plain(true);
    assert_eq!(refused(&udp.headers(), 2501, 1000), field("IPv4", 2528, 2529));
    let mut headers = udp.headers();
    headers[14 + 20 + 4..][..2].copy_from_slice(&[0, 8]);
    assert_eq!(refused(&headers, 2500, 1000), field("UDP", 8, 2508));
    let tcp = plain(false);
    assert_eq!(refused(&tcp.headers(), 2499, 1000), field("IPv6", 2520, 2519));

    // Beyond 65535 bytes the field is 0, below it is not.
    let big = Spec { payload_len: 70_000, ..plain(false) };
    assert_eq!(refused(&big.headers(), 70_001, 1000), field("jumbo payload", 70_028, 70_029));
    let small = Spec { payload_len: 65_516, ..plain(false) };
    let small_headers = small.headers();
    assert_eq!(refused(&small_headers, 65_515, 1000), field("jumbo payload", 65_544, 65_543));
    assert_eq!(segment(&small, &small.payload(), Ids::Increment).len(), 66);
    let mut headers = tcp.headers();
    headers[18..20].copy_from_slice(&[0, 0]);
    assert_eq!(refused(&headers, 2500, 1000), field("IPv6", 0, 2520));
}

#[test]
fn sizes_beyond_what_the_kernel_has_are_refused() {
    let limit = |len, limit| SegmentError::TooLong { len, limit };
    let tcp = |payload_len| Spec { payload_len, ..plain(false) }.headers();
    assert_eq!(refused(&tcp(MAX_LEN - 59), MAX_LEN - 59, 1000), limit(MAX_LEN + 1, MAX_LEN));
    let udp = |payload_len| Spec { payload_len, ..plain(true) }.headers();
    assert_eq!(refused(&udp(65_508), 65_508, 1000), limit(65_536, 65_535));
    assert_eq!(refused(&udp(65_507), 65_507, 0), SegmentError::NoSegmentSize);
    let too_long = SegmentError::SegmentTooLong { len: 65_536 };
    assert_eq!(refused(&tcp(100_000), 100_000, 65_476), too_long);
    let longest = Spec { payload_len: MAX_LEN - 60, segment_size: 1448, ..plain(false) };
    assert_eq!(segment(&longest, &longest.payload(), Ids::Increment).len(), 363);
}

#[test]
fn a_packet_without_payload_is_one_segment() {
    for v4 in [true, false] {
        let spec = Spec { payload_len: 0, ..plain(v4) };
        assert_eq!(segment(&spec, &[], Ids::Increment), [expected(&spec, &[], 0, Ids::Increment)]);
    }
}

#[test]
fn numbers_wrap() {
    let udp = segment(&plain(true), &plain(true).payload(), Ids::Increment);
    let ids: Vec<_> = udp.iter().map(|frame| [frame[18], frame[19]]).collect();
    assert_eq!(ids, [[0xff, 0xff], [0, 0], [0, 1]]);
    let tcp = segment(&plain(false), &plain(false).payload(), Ids::Increment);
    let sequences: Vec<_> = tcp.iter().map(|frame| &frame[58..62]).collect();
    assert_eq!(sequences, [[0xff; 4], [0, 0, 3, 231], [0, 0, 7, 207]]);
}
