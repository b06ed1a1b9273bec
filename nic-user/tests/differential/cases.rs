//! Packets with what Linux 6.18 does with them.

use super::{
    changes::{self, Change, Fixed},
    packets::{Options, Packet, Station},
};

/// What becomes of a packet: whether it is sent on, whether a socket gets it, and type and code of
/// the answer.
pub type Fate = (bool, bool, Option<(u8, u8)>);

const SENT_ON: Fate = (true, false, None);
const TAKEN: Fate = (false, true, None);
const NOTHING: Fate = (false, false, None);

const fn answered(kind: u8, code: u8) -> Fate {
    (false, false, Some((kind, code)))
}

/// A name, a packet and its fate.
pub type Case = (&'static str, Packet, Fate);

fn v4(to: &str) -> Packet {
    Packet::between("10.1.0.2", to)
}

fn v6(to: &str) -> Packet {
    Packet::between("fd01::2", to)
}

fn from(from: &str) -> Packet {
    Packet::between(from, if from.contains(':') { "fd02::2" } else { "10.2.0.2" })
}

fn to_station(station: Station, packet: Packet) -> Packet {
    Packet { station, ..packet }
}

/// 1500 bytes long, not to be fragmented.
fn long(to: &str) -> Packet {
    Packet { fragment: 0x4000, payload: 1472, ..v4(to) }
}

/// One of each kind.
pub fn cases() -> Vec<Case> {
    let plain = || v4("10.2.0.2");
    let options = |bytes, packet| Packet { options: Options::First(bytes), ..packet };
    [sources(), destinations()]
        .into_iter()
        .flatten()
        .chain([
            ("IPv4, plain", plain(), SENT_ON),
            ("IPv6, plain", v6("fd02::2"), SENT_ON),
            ("IPv4, tos 0x10 (rule: blackhole)", Packet { tos: 0x10, ..plain() }, NOTHING),
            ("IPv4, TTL 1", Packet { hops: 1, ..plain() }, answered(11, 0)),
            ("IPv6, hop limit 1", Packet { hops: 1, ..v6("fd02::2") }, answered(3, 0)),
            ("IPv4 with option router alert", options(&[148, 4, 0, 0], plain()), SENT_ON),
            ("IPv4 with loose source route", options(&[131, 7, 4, 10, 2, 0, 3], plain()), NOTHING),
            ("IPv6 with hop-by-hop router alert", options(&[5, 2, 0, 0], v6("fd02::2")), SENT_ON),
            ("IPv4 with padding behind it", Packet { padding: 30, ..plain() }, SENT_ON),
            ("IPv4 to another station", to_station(Station::Other, plain()), NOTHING),
            ("IPv4 unicast, link broadcast", to_station(Station::Broadcast, plain()), NOTHING),
            ("IPv4 with VLAN tag of id 0", Packet { tags: &[0], ..plain() }, SENT_ON),
        ])
        .collect()
}

fn sources() -> Vec<Case> {
    vec![
        ("IPv4 from 10.1.0.66 (rule: blackhole)", from("10.1.0.66"), NOTHING),
        ("IPv6 from fd01::66 (rule: blackhole)", from("fd01::66"), NOTHING),
        ("IPv4 from 127.0.0.1", from("127.0.0.1"), NOTHING),
        ("IPv4 from 0.0.0.0", from("0.0.0.0"), NOTHING),
        ("IPv4 from 224.0.0.1", from("224.0.0.1"), NOTHING),
        ("IPv4 from 10.2.0.9 (rp_filter)", from("10.2.0.9"), NOTHING),
        ("IPv4 from an address of the router", from("10.1.0.1"), NOTHING),
        ("IPv6 from fe80::1234", from("fe80::1234"), answered(1, 2)),
        ("IPv6 from ::", from("::"), NOTHING),
        ("IPv6 from ::ffff:10.1.0.2", from("::ffff:10.1.0.2"), SENT_ON),
    ]
}

fn destinations() -> Vec<Case> {
    let broadcast = |packet| to_station(Station::Broadcast, packet);
    vec![
        ("IPv6 to fd50::1 (seg6)", v6("fd50::1"), SENT_ON),
        ("IPv4 to 10.52.0.1 (next hop object)", v4("10.52.0.1"), SENT_ON),
        ("IPv4 to 10.60.0.9 (local route)", v4("10.60.0.9"), TAKEN),
        ("IPv4 to 10.1.0.77 (address of lo)", v4("10.1.0.77"), TAKEN),
        ("IPv4 to 10.1.0.255", broadcast(v4("10.1.0.255")), TAKEN),
        ("IPv4 to 255.255.255.255", broadcast(v4("255.255.255.255")), TAKEN),
        ("IPv4 as DHCP asks", broadcast(Packet::between("0.0.0.0", "255.255.255.255")), TAKEN),
        ("IPv4, 1500 bytes, to 10.55.0.1 (MTU locked)", long("10.55.0.1"), answered(3, 4)),
        ("IPv4, 1500 bytes, to 10.61.0.1 (MTU of route)", long("10.61.0.1"), answered(3, 4)),
        ("IPv4 to 10.53.0.1 (unreachable)", v4("10.53.0.1"), NOTHING),
        ("IPv4 to 10.54.0.1 (prohibited)", v4("10.54.0.1"), NOTHING),
        ("IPv4 to 240.0.0.1", v4("240.0.0.1"), SENT_ON),
        ("IPv4 to 127.0.0.1", v4("127.0.0.1"), NOTHING),
        ("IPv4 multicast", to_station(Station::Multicast, v4("224.0.0.251")), NOTHING),
        ("IPv6 multicast", to_station(Station::Multicast, v6("ff02::fb")), NOTHING),
    ]
}

/// A packet after a change, and its fate.
pub struct Changed {
    pub name: &'static str,
    pub change: Change,
    pub packet: Packet,
    pub fate: Fate,
}

/// What has another fate once something has changed.
pub fn changed() -> Vec<Changed> {
    let case = |name, change: Fixed, packet, fate| {
        let change = Change::from(change);
        Changed { name, change, packet, fate }
    };
    let middling = Packet { fragment: 0x4000, payload: 1400, ..v4("10.2.0.2") };
    vec![
        case("less MTU", changes::MTU, middling, answered(3, 4)),
        case("to the new MAC", changes::MAC, v4("10.2.0.2"), SENT_ON),
        case(
            "to the former MAC",
            changes::MAC,
            to_station(Station::Former, v4("10.2.0.2")),
            NOTHING,
        ),
        case("to a new address", changes::ADDRESS, v4("10.61.0.1"), TAKEN),
        case("a new rule", changes::RULE, Packet { tos: 0x1c, ..v4("10.2.0.2") }, NOTHING),
        case("a new route", changes::ROUTE, v4("10.61.0.1"), NOTHING),
    ]
}
