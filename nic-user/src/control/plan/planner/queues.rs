//! What counts of queues the kernel would refuse, and what names queues that are not there then.

use super::{Planner, verdict::Refusal};
use crate::{
    error::Kind,
    nic::{
        setting::{Group, Key, Value},
        surroundings::Peer,
    },
};

/// Counts of channels.
struct Counts {
    rx: u64,
    tx: u64,
    combined: u64,
}

impl Counts {
    const fn receiving(&self) -> u64 {
        self.rx.saturating_add(self.combined)
    }

    const fn sending(&self) -> u64 {
        self.tx.saturating_add(self.combined)
    }

    /// Queues that both receive and send, which AF_XDP sockets may have.
    fn pairs(&self) -> u64 {
        self.combined.saturating_add(self.rx.min(self.tx))
    }
}

impl Planner<'_> {
    /// Refuses threads for NAPI instances that there are none of (net/core/net-sysfs.c
    /// modify_napi_threaded). A veth has them only with GRO or native XDP (drivers/net/veth.c
    /// veth_set_features).
    pub fn check_napis(&mut self) {
        let threaded = Key::new(Group::Napi, "threaded");
        let gro = self.wanted.get(&Key::new(Group::Feature, "rx-gro"));
        let is_veth = self.context.around.peer.is_some() && !self.context.around.native_xdp;
        let has_napis = match gro {
            Some(Value::Switch(on)) if is_veth => Some(*on),
            _ => self.context.around.has_napis,
        };
        let is_asked = |key: &&Key| **key == threaded || has_none_left(key, gro, is_veth);
        if has_napis != Some(false) {
            return;
        }
        let refusal = |key: &Key| {
            let what = format!("{key} cannot be set: {} would have no NAPI instance", self.name());
            let fix = if is_veth { "add feature.rx-gro=on" } else { "omit it" };
            Refusal::new(Kind::Failed, what).with_fix(fix)
        };
        let refusals: Vec<Refusal> = self.changes.keys().filter(is_asked).map(refusal).collect();
        self.refusals.extend(refusals);
    }

    /// Refuses an MTU that the interface below has no room for.
    pub fn check_mtu(&mut self) {
        let key = Key::new(Group::Link, "mtu");
        let Some(below) = self.context.around.mtu.as_ref() else { return };
        let to = self.changes.get(&key).map(|change| &change.to);
        let Some(Value::Number(mtu)) = to.filter(|to| **to > below.most.into()) else { return };
        let (name, most) = (&below.name, below.most);
        let what = format!("{key} {mtu} exceeds what {name} below it allows: {most} at most");
        let fix = format!("{key}={most}, or first a larger MTU on {name}");
        self.refusals.push(Refusal::new(Kind::Failed, what).with_fix(fix));
    }

    /// Refuses what the kernel would: net/ethtool/channels.c ethnl_set_channels,
    /// drivers/net/veth.c veth_set_channels, net/ethtool/rss.c.
    pub fn check_queues(&mut self) {
        let counts =
            Counts { rx: self.count("rx"), tx: self.count("tx"), combined: self.count("combined") };
        let has_channels = self.current.keys().any(|key| key.group == Group::Channels);
        if !has_channels {
            return;
        }
        let mut refusals = Vec::new();
        if self.changes.keys().any(|key| key.group == Group::Channels) {
            refusals.extend(none_left(&counts));
            refusals.extend(self.af_xdp(&counts));
            refusals.extend(self.context.around.peer.as_ref().and_then(|p| self.peer(&counts, p)));
        }
        refusals.extend(self.table(&counts));
        refusals.extend(self.gone(&counts));
        self.refusals.extend(refusals);
    }

    /// What a count of channels is to be.
    fn count(&self, name: &str) -> u64 {
        let key = Key::new(Group::Channels, name);
        let current = || self.current.get(&key).map(|setting| &setting.value);
        match self.wanted.get(&key).or_else(current) {
            Some(Value::Number(count)) => *count,
            _ => 0,
        }
    }

    fn af_xdp(&self, counts: &Counts) -> Option<Refusal> {
        let queue = self.context.around.af_xdp.filter(|&queue| counts.pairs() <= queue.into())?;
        let what = format!(
            "an AF_XDP socket uses queue {queue}, and only {} queues would be left",
            counts.pairs()
        );
        let fix = format!("keep {} queues, or end the program first", queue.saturating_add(1));
        Some(Refusal::new(Kind::Failed, what).with_fix(fix))
    }

    fn peer(&self, counts: &Counts, peer: &Peer) -> Option<Refusal> {
        let Peer { name, rx_queues, tx_queues, native_xdp } = peer;
        if self.context.around.native_xdp && counts.receiving() < (*tx_queues).into() {
            let what = format!(
                "channels.rx {} is below the {tx_queues} transmit queues of its peer {name}, the \
                 minimum for native XDP",
                counts.receiving()
            );
            let fix = format!("channels.rx={tx_queues}, or first fewer transmit queues on {name}");
            return Some(Refusal::new(Kind::Failed, what).with_fix(fix));
        }
        let is_more = *native_xdp && counts.sending() > (*rx_queues).into();
        is_more.then(|| {
            let what = format!(
                "channels.tx {} exceeds the {rx_queues} receive queues of its peer {name}, which \
                 runs native XDP",
                counts.sending()
            );
            let fix = format!("channels.tx={rx_queues}, or first more receive queues on {name}");
            Refusal::new(Kind::Failed, what).with_fix(fix)
        })
    }

    /// The table of flows that is asked for must do with the queues that there will be.
    fn table(&self, counts: &Counts) -> Option<Refusal> {
        let key = Key::new(Group::Rss, "indirection");
        let Some(Value::Text(table)) = self.wanted.get(&key) else { return None };
        let queues = queues_in(table).filter(|&queues| queues > counts.receiving())?;
        let have = counts.receiving();
        let what = format!("{key} {table:?} uses {queues} queues, but there will be {have}");
        let fix = format!("{key}=\"equal {have}\", or more channels");
        Some(Refusal::new(Kind::Usage, what).with_fix(fix))
    }

    /// What is wanted of queues that go.
    fn gone(&self, counts: &Counts) -> Vec<Refusal> {
        let is_gone = |key: &&&Key| match key.group {
            Group::Rps => number(&key.name, "rx-").is_some_and(|n| n >= counts.receiving()),
            Group::Xps => number(&key.name, "tx-").is_some_and(|n| n >= counts.sending()),
            _ => false,
        };
        let refusal = |key: &&Key| {
            let what = format!("{key} cannot be set: fewer channels are requested");
            Refusal::new(Kind::Usage, what).with_fix("omit it, or request more channels")
        };
        self.wanted.keys().filter(is_gone).map(refusal).collect()
    }
}

/// Whether a setting is of a NAPI instance that goes with GRO of a veth.
fn has_none_left(key: &Key, gro: Option<&Value>, is_veth: bool) -> bool {
    let is_of_one = key.group == Group::Napi && key.name.contains('/');
    is_of_one && is_veth && gro == Some(&Value::Switch(false))
}

fn number(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

fn none_left(counts: &Counts) -> Option<Refusal> {
    let direction = match (counts.receiving(), counts.sending()) {
        (0, _) => "receive",
        (_, 0) => "transmit",
        _ => return None,
    };
    let what = format!("no {direction} queue would be left");
    Some(Refusal::new(Kind::Usage, what).with_fix("request at least one"))
}

/// How many queues a table of flows needs: `equal 4`, `weight 1 1 0 1`, `table 0 3 1`.
fn queues_in(table: &str) -> Option<u64> {
    let mut words = table.split_whitespace();
    let kind = words.next()?;
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    match kind {
        "equal" => numbers.first().copied(),
        "weight" => numbers.iter().rposition(|&weight| weight > 0).map(|last| last as u64 + 1),
        "table" => numbers.into_iter().max()?.checked_add(1),
        _ => None,
    }
}
