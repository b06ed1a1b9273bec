//! What a router may have changed while it forwards.

/// What is done, and what takes it back: lines of `ip`, or `sysctl NAME=VALUE`.
pub struct Change {
    pub done: &'static [&'static str],
    pub undone: &'static [&'static str],
}

const fn change(done: &'static [&'static str], undone: &'static [&'static str]) -> Change {
    Change { done, undone }
}

pub const MTU: Change = change(&["link set nic-c mtu 1300"], &["link set nic-c mtu 1500"]);
pub const MAC: Change = change(
    &["link set nic-b address 02:00:00:00:01:11"],
    &["link set nic-b address 02:00:00:00:01:01"],
);
pub const ADDRESS: Change =
    change(&["address add 10.61.0.1/32 dev nic-b"], &["address del 10.61.0.1/32 dev nic-b"]);
pub const RULE: Change = change(&["rule add tos 0x1c lookup 66"], &["rule del tos 0x1c lookup 66"]);
pub const ROUTE: Change =
    change(&["route add blackhole 10.61.0.1/32"], &["route del blackhole 10.61.0.1/32"]);

pub const ALL: &[Change] = &[
    MTU,
    MAC,
    ADDRESS,
    RULE,
    ROUTE,
    change(&["address add 10.1.0.50/32 dev lo"], &["address del 10.1.0.50/32 dev lo"]),
    change(&["-6 address add fd53::1/128 dev lo"], &["-6 address del fd53::1/128 dev lo"]),
    change(&["route add 192.0.2.200 via 10.2.0.3"], &["route del 192.0.2.200"]),
    change(&["route replace default via 10.2.0.3"], &["route replace default via 10.2.0.2"]),
    change(&["route del default"], &["route add default via 10.2.0.2"]),
    change(&["route add 240.0.0.0/4 via 10.1.0.50"], &["route del 240.0.0.0/4"]),
    change(
        &["route replace 10.52.0.0/24 via 10.2.0.3 mtu 600"],
        &["route replace 10.52.0.0/24 nhid 1"],
    ),
    change(
        &["route replace 10.52.0.0/24 via inet6 fd02::3 dev nic-c"],
        &["route replace 10.52.0.0/24 nhid 1"],
    ),
    change(&["route replace 10.52.0.0/24 nhid 3"], &["route replace 10.52.0.0/24 nhid 1"]),
    change(&["route replace 10.52.0.0/24 nhid 5"], &["route replace 10.52.0.0/24 nhid 1"]),
    change(
        &["nexthop replace id 1 via 10.2.0.3 dev nic-c"],
        &["nexthop replace id 1 via 10.2.0.2 dev nic-c"],
    ),
    change(&["-6 route add 2001:db8::1 via fd02::3"], &["-6 route del 2001:db8::1"]),
    change(&["-6 route add blackhole 2001:db8::1"], &["-6 route del blackhole 2001:db8::1"]),
    change(&["-6 route add fd53::1 via fd02::3 mtu 1280"], &["-6 route del fd53::1"]),
    change(&["-6 route add 2001:db8::2 via fd01::50"], &["-6 route del 2001:db8::2"]),
    change(&["rule add from 10.1.0.50 lookup 66"], &["rule del from 10.1.0.50 lookup 66"]),
    change(
        &["rule add to 10.2.0.3 iif nic-b lookup 66"],
        &["rule del to 10.2.0.3 iif nic-b lookup 66"],
    ),
    change(
        &["rule add to 10.2.0.0/24 iif nic-c lookup 66"],
        &["rule del to 10.2.0.0/24 iif nic-c lookup 66"],
    ),
    change(
        &["rule add to 10.2.0.0/24 ipproto udp dport 9998 lookup 66"],
        &["rule del to 10.2.0.0/24 ipproto udp dport 9998 lookup 66"],
    ),
    change(
        &["rule add to 10.2.0.0/24 ipproto icmp prohibit"],
        &["rule del to 10.2.0.0/24 ipproto icmp prohibit"],
    ),
    change(
        &["rule add to 10.2.0.0/24 sport 4001 unreachable"],
        &["rule del to 10.2.0.0/24 sport 4001 unreachable"],
    ),
    change(
        &["rule add to 10.2.0.0/24 fwmark 0/1 lookup 66"],
        &["rule del to 10.2.0.0/24 fwmark 0/1 lookup 66"],
    ),
    change(&["-6 rule add from fd01::50 lookup 66"], &["-6 rule del from fd01::50 lookup 66"]),
    change(
        &["-6 rule add to fd02::/64 ipproto tcp lookup 66"],
        &["-6 rule del to fd02::/64 ipproto tcp lookup 66"],
    ),
    change(&["-6 rule add tos 0xb8 prohibit"], &["-6 rule del tos 0xb8 prohibit"]),
    change(
        &["neighbour replace 10.2.0.2 lladdr 02:00:00:00:02:99 dev nic-c nud permanent"],
        &["neighbour replace 10.2.0.2 lladdr 02:00:00:00:02:02 dev nic-c nud permanent"],
    ),
    change(
        &["neighbour del 10.2.0.3 dev nic-c"],
        &["neighbour replace 10.2.0.3 lladdr 02:00:00:00:02:02 dev nic-c nud permanent"],
    ),
    change(
        &["-6 neighbour del fd02::3 dev nic-c"],
        &["-6 neighbour replace fd02::3 lladdr 02:00:00:00:02:02 dev nic-c nud permanent"],
    ),
    change(
        &["sysctl ipv4/ip_forward=0"],
        &["sysctl ipv4/ip_forward=1", "sysctl ipv6/conf/all/forwarding=1"],
    ),
    change(&["sysctl ipv4/conf/nic-b/forwarding=0"], &["sysctl ipv4/conf/nic-b/forwarding=1"]),
    change(&["sysctl ipv4/conf/nic-c/forwarding=0"], &["sysctl ipv4/conf/nic-c/forwarding=1"]),
    change(&["sysctl ipv6/conf/nic-b/forwarding=0"], &["sysctl ipv6/conf/nic-b/forwarding=1"]),
    change(
        &["sysctl ipv4/conf/all/rp_filter=0", "sysctl ipv4/conf/nic-b/rp_filter=0"],
        &["sysctl ipv4/conf/all/rp_filter=1", "sysctl ipv4/conf/nic-b/rp_filter=1"],
    ),
    change(&["sysctl ipv4/conf/nic-b/rp_filter=2"], &["sysctl ipv4/conf/nic-b/rp_filter=1"]),
    change(&["sysctl ipv4/conf/nic-b/accept_local=1"], &["sysctl ipv4/conf/nic-b/accept_local=0"]),
    change(
        &["sysctl ipv4/conf/nic-b/route_localnet=1"],
        &["sysctl ipv4/conf/nic-b/route_localnet=0"],
    ),
    change(
        &["sysctl ipv4/fib_multipath_hash_policy=1", "sysctl ipv6/fib_multipath_hash_policy=1"],
        &["sysctl ipv4/fib_multipath_hash_policy=0", "sysctl ipv6/fib_multipath_hash_policy=0"],
    ),
    change(
        &["sysctl ipv4/fib_multipath_hash_policy=2", "sysctl ipv6/fib_multipath_hash_policy=3"],
        &["sysctl ipv4/fib_multipath_hash_policy=0", "sysctl ipv6/fib_multipath_hash_policy=0"],
    ),
    change(&["sysctl ipv4/ip_forward_use_pmtu=1"], &["sysctl ipv4/ip_forward_use_pmtu=0"]),
    change(&["link set nic-b promisc on"], &["link set nic-b promisc off"]),
];
