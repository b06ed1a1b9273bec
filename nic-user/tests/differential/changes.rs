//! What a router may have changed while it forwards.

use proptest::{prelude::*, sample::select};

use super::packets::{DESTINATIONS, SOURCES};

/// What is done, and what takes it back: lines of `ip`, `sysctl NAME=VALUE`, or `restore`, which adds
/// again what went with an interface that was down.
#[derive(Clone, Debug)]
pub struct Change {
    pub done: Vec<String>,
    pub undone: Vec<String>,
}

/// A change that is always the same.
pub type Fixed = (&'static [&'static str], &'static [&'static str]);

impl From<Fixed> for Change {
    fn from((done, undone): Fixed) -> Self {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        Self { done: lines(done), undone: lines(undone) }
    }
}

pub const MTU: Fixed = (&["link set nic-c mtu 1300"], &["link set nic-c mtu 1500"]);
pub const MAC: Fixed =
    (&["link set nic-b address 02:00:00:00:01:11"], &["link set nic-b address 02:00:00:00:01:01"]);
pub const ADDRESS: Fixed =
    (&["address add 10.61.0.1/32 dev nic-b"], &["address del 10.61.0.1/32 dev nic-b"]);
pub const RULE: Fixed = (&["rule add tos 0x1c lookup 66"], &["rule del tos 0x1c lookup 66"]);
pub const ROUTE: Fixed =
    (&["route add blackhole 10.61.0.1/32"], &["route del blackhole 10.61.0.1/32"]);

const FIXED: &[Fixed] = &[
    MTU,
    MAC,
    ADDRESS,
    RULE,
    ROUTE,
    (&["address add 10.1.0.50/32 dev lo"], &["address del 10.1.0.50/32 dev lo"]),
    (&["-6 address add fd53::1/128 dev lo"], &["-6 address del fd53::1/128 dev lo"]),
    (&["route add 192.0.2.200 via 10.2.0.3"], &["route del 192.0.2.200"]),
    (&["route replace default via 10.2.0.3"], &["route replace default via 10.2.0.2"]),
    (&["route del default"], &["route add default via 10.2.0.2"]),
    (&["route add 240.0.0.0/4 via 10.1.0.50"], &["route del 240.0.0.0/4"]),
    (&["route replace 10.52.0.0/24 via 10.2.0.3 mtu 600"], &["route replace 10.52.0.0/24 nhid 1"]),
    (
        &["route replace 10.52.0.0/24 via inet6 fd02::3 dev nic-c"],
        &["route replace 10.52.0.0/24 nhid 1"],
    ),
    (&["route replace 10.52.0.0/24 nhid 3"], &["route replace 10.52.0.0/24 nhid 1"]),
    (&["route replace 10.52.0.0/24 nhid 5"], &["route replace 10.52.0.0/24 nhid 1"]),
    (
        &["nexthop replace id 1 via 10.2.0.3 dev nic-c"],
        &["nexthop replace id 1 via 10.2.0.2 dev nic-c"],
    ),
    (&["-6 route add 2001:db8::1 via fd02::3"], &["-6 route del 2001:db8::1"]),
    (&["-6 route add blackhole 2001:db8::1"], &["-6 route del blackhole 2001:db8::1"]),
    (&["-6 route add fd53::1 via fd02::3 mtu 1280"], &["-6 route del fd53::1"]),
    (&["-6 route add 2001:db8::2 via fd01::50"], &["-6 route del 2001:db8::2"]),
    (&["rule add from 10.1.0.50 lookup 66"], &["rule del from 10.1.0.50 lookup 66"]),
    (&["rule add to 10.2.0.3 iif nic-b lookup 66"], &["rule del to 10.2.0.3 iif nic-b lookup 66"]),
    (
        &["rule add to 10.2.0.0/24 iif nic-c lookup 66"],
        &["rule del to 10.2.0.0/24 iif nic-c lookup 66"],
    ),
    (
        &["rule add to 10.2.0.0/24 ipproto udp dport 9998 lookup 66"],
        &["rule del to 10.2.0.0/24 ipproto udp dport 9998 lookup 66"],
    ),
    (
        &["rule add to 10.2.0.0/24 ipproto icmp prohibit"],
        &["rule del to 10.2.0.0/24 ipproto icmp prohibit"],
    ),
    (
        &["rule add to 10.2.0.0/24 sport 4001 unreachable"],
        &["rule del to 10.2.0.0/24 sport 4001 unreachable"],
    ),
    (
        &["rule add to 10.2.0.0/24 fwmark 0/1 lookup 66"],
        &["rule del to 10.2.0.0/24 fwmark 0/1 lookup 66"],
    ),
    (&["-6 rule add from fd01::50 lookup 66"], &["-6 rule del from fd01::50 lookup 66"]),
    (
        &["-6 rule add to fd02::/64 ipproto tcp lookup 66"],
        &["-6 rule del to fd02::/64 ipproto tcp lookup 66"],
    ),
    (&["-6 rule add tos 0xb8 prohibit"], &["-6 rule del tos 0xb8 prohibit"]),
    (
        &["neighbour replace 10.2.0.2 lladdr 02:00:00:00:02:99 dev nic-c nud permanent"],
        &["neighbour replace 10.2.0.2 lladdr 02:00:00:00:02:02 dev nic-c nud permanent"],
    ),
    (
        &["neighbour del 10.2.0.3 dev nic-c"],
        &["neighbour replace 10.2.0.3 lladdr 02:00:00:00:02:02 dev nic-c nud permanent"],
    ),
    (
        &["-6 neighbour del fd02::3 dev nic-c"],
        &["-6 neighbour replace fd02::3 lladdr 02:00:00:00:02:02 dev nic-c nud permanent"],
    ),
    (
        &["sysctl ipv4/ip_forward=0"],
        &["sysctl ipv4/ip_forward=1", "sysctl ipv6/conf/all/forwarding=1"],
    ),
    (&["sysctl ipv4/conf/nic-b/forwarding=0"], &["sysctl ipv4/conf/nic-b/forwarding=1"]),
    (&["sysctl ipv4/conf/nic-c/forwarding=0"], &["sysctl ipv4/conf/nic-c/forwarding=1"]),
    (&["sysctl ipv6/conf/nic-b/forwarding=0"], &["sysctl ipv6/conf/nic-b/forwarding=1"]),
    (
        &["sysctl ipv4/conf/all/rp_filter=0", "sysctl ipv4/conf/nic-b/rp_filter=0"],
        &["sysctl ipv4/conf/all/rp_filter=1", "sysctl ipv4/conf/nic-b/rp_filter=1"],
    ),
    (&["sysctl ipv4/conf/nic-b/rp_filter=2"], &["sysctl ipv4/conf/nic-b/rp_filter=1"]),
    (&["sysctl ipv4/conf/nic-b/accept_local=1"], &["sysctl ipv4/conf/nic-b/accept_local=0"]),
    (&["sysctl ipv4/conf/nic-b/route_localnet=1"], &["sysctl ipv4/conf/nic-b/route_localnet=0"]),
    (
        &["sysctl ipv4/fib_multipath_hash_policy=1", "sysctl ipv6/fib_multipath_hash_policy=1"],
        &["sysctl ipv4/fib_multipath_hash_policy=0", "sysctl ipv6/fib_multipath_hash_policy=0"],
    ),
    (
        &["sysctl ipv4/fib_multipath_hash_policy=2", "sysctl ipv6/fib_multipath_hash_policy=3"],
        &["sysctl ipv4/fib_multipath_hash_policy=0", "sysctl ipv6/fib_multipath_hash_policy=0"],
    ),
    (&["sysctl ipv4/ip_forward_use_pmtu=1"], &["sysctl ipv4/ip_forward_use_pmtu=0"]),
    (
        &["-6 rule add pref 9 lookup main suppress_prefixlength 0"],
        &["-6 rule del pref 9 lookup main suppress_prefixlength 0"],
    ),
    (&["-6 rule add uidrange 0-0 prohibit"], &["-6 rule del uidrange 0-0 prohibit"]),
    (&["link set nic-b promisc on"], &["link set nic-b promisc off"]),
    (
        &["link add nic-vrf type vrf table 67", "link set nic-b master nic-vrf"],
        &["link del nic-vrf", "restore"],
    ),
    (
        &["sysctl ipv6/conf/nic-b/disable_ipv6=1"],
        &["sysctl ipv6/conf/nic-b/disable_ipv6=0", "restore"],
    ),
];

/// Any change: of an interface or a sysctl, or a rule or a route that is made up.
pub fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => select(FIXED).prop_map(Change::from),
        1 => any_rule(),
        1 => any_route(),
    ]
}

/// The word in front of lines about IPv6.
fn family(of: usize) -> &'static str {
    ["", "-6 "][of]
}

fn any_rule() -> impl Strategy<Value = Change> {
    const SELECTORS: [&str; 16] = [
        "",
        "iif nic-b",
        "iif nic-c",
        "iif lo",
        "tos 0x04",
        "tos 0x1c",
        "dsfield 0xb8",
        "fwmark 0/1",
        "fwmark 1",
        "ipproto udp",
        "ipproto icmp",
        "ipproto tcp dport 9999",
        "sport 4000-4001",
        "dport 53",
        "tun_id 7",
        "uidrange 0-0",
    ];
    const ACTIONS: [&str; 8] = [
        "lookup 66",
        "lookup 67",
        "lookup 68",
        "lookup main",
        "lookup main suppress_prefixlength 0",
        "prohibit",
        "unreachable",
        "blackhole",
    ];
    let selectors = (any::<bool>(), any::<bool>(), any::<bool>(), select(&SELECTORS[..]));
    let of = (0..2_usize)
        .prop_flat_map(|of| (Just(of), select(&SOURCES[of][..]), select(&DESTINATIONS[of][..])));
    (of, selectors, select(&ACTIONS[..]), 1..200_u32).prop_map(
        |((of, from, to), (not, has_from, has_to, selector), action, preference)| {
            let not = if not { "not " } else { "" };
            let from = if has_from { format!("from {from} ") } else { String::new() };
            let to = if has_to { format!("to {to} ") } else { String::new() };
            let line = |verb| {
                let family = family(of);
                format!("{family}rule {verb} {not}{from}{to}{selector} pref {preference} {action}")
            };
            Change { done: vec![line("add")], undone: vec![line("del")] }
        },
    )
}

fn any_route() -> impl Strategy<Value = Change> {
    const WAYS: [[&str; 12]; 2] = [
        [
            "via 10.2.0.3",
            "via 10.2.0.2 mtu 1000",
            "via 10.2.0.3 mtu lock 700",
            "via 10.1.0.50",
            "via 10.2.0.250",
            "via inet6 fd02::3 dev nic-c",
            "dev nic-c",
            "dev nic-b",
            "nexthop via 10.2.0.2 weight 3 nexthop via 10.2.0.3",
            "nexthop via 10.2.0.2 nexthop via 10.1.0.2",
            "nhid 5",
            "via 10.2.0.2 advmss 500 window 1000",
        ],
        [
            "via fd02::3",
            "via fd02::2 mtu 1300",
            "via fd02::3 mtu lock 1280",
            "via fd01::50",
            "via fd02::250",
            "via fe80::99 dev nic-c",
            "dev nic-c",
            "dev nic-b",
            "nexthop via fd02::2 weight 3 nexthop via fd02::3",
            "nexthop via fd02::2 nexthop via fd01::2",
            "nhid 2",
            "via fd02::2 advmss 500 hoplimit 9",
        ],
    ];
    const KINDS: [&str; 5] = ["blackhole", "unreachable", "prohibit", "throw", "local"];
    let of = (0..2_usize)
        .prop_flat_map(|of| (Just(of), select(&DESTINATIONS[of][..]), select(&WAYS[of][..])));
    let kinds = prop_oneof![1 => select(&KINDS[..]), 2 => Just("")];
    (of, kinds, any::<bool>(), any::<bool>()).prop_map(|((of, to, way), kind, is_tagged, in_67)| {
        let way = if kind.is_empty() { way } else { "" };
        let tos = if is_tagged && of == 0 { "tos 0x1c " } else { "" };
        let table = if in_67 { " table 67" } else { "" };
        let line = |verb| format!("{}route {verb} {kind} {to} {tos}{way}{table}", family(of));
        Change { done: vec![line("add")], undone: vec![line("del")] }
    })
}
