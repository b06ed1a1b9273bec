//! How drivers put direction, queue and counter into the name of a statistic: rows of data, in the
//! order in which they are tried.
//!
//! A row is a shape that is one driver's, or several's; which of them does not matter, as no name
//! of one driver has the shape of another's and means something else. Numbers that are no queue
//! (sizes, priorities, classes, lanes, ports, CPUs) have no row.

use std::collections::HashMap;

use super::{
    counters::{self, Ring, Unified},
    drivers::{self, DRIVERS, Driver},
    list::Entry,
    model::{
        Direction::{self, Rx, Tx},
        Reading,
    },
    pattern::{self, Found},
};

/// Where a shape has the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// In `{dir}`.
    Named,
    /// It is always this one.
    Always(Direction),
    /// In the words of the counter, or there is none.
    Counter,
    /// In the words of the counter; without one, the name has another shape.
    CounterOnly,
}

/// A shape of names; the places of a pattern are those of [`pattern`].
struct Shape {
    pattern: &'static str,
    side: Side,
    ring: Ring,
    /// Only where the same counter has a number that is not greater, names are taken for this shape:
    /// in others, the number is the size of frames, or counts something else from 1 on.
    first: Option<u32>,
}

const fn shape(pattern: &'static str) -> Shape {
    Shape { pattern, side: Side::Named, ring: Ring::Queue, first: None }
}

impl Shape {
    const fn side(self, side: Side) -> Self {
        Self { side, ..self }
    }

    const fn ring(self, ring: Ring) -> Self {
        Self { ring, ..self }
    }

    const fn first(self, number: u32) -> Self {
        Self { first: Some(number), ..self }
    }
}

/// Frames are not shorter: what begins below is no size.
const BELOW_SIZES: u32 = 63;

/// The shapes, with drivers that use them.
const SHAPES: &[Shape] = &[
    // ixgbe, igb, igc, ice, fm10k, virtio_net before 6.10, hv_netvsc, veth, ifb, ravb
    shape("{dir}_queue_{n}_{c}"),
    // qlcnic
    shape("{dir}_queue_{n} {c}"),
    // fbnic, ixgbevf: rings of their own, numbered from 0 again
    shape("xdp_tx_queue_{n}_{c}").side(Side::Always(Tx)).ring(Ring::Xdp),
    shape("xdp_queue_{n}_{c}").side(Side::Always(Tx)).ring(Ring::Xdp),
    // ena: XDP rings are numbered on after the others
    shape("queue_{n}_xdp_tx_{c}").side(Side::Always(Tx)).ring(Ring::Xdp),
    shape("queue_{n}_{dir}_{c}"),
    // i40e, iavf, sfc
    shape("{dir}-{n}.{c}"),
    shape("{dir}-xdp-cpu-{n}.{c}").ring(Ring::Xdp),
    // liquidio, of which some queues may be missing; idpf
    shape("{dir}-{n}-{c}").first(BELOW_SIZES),
    shape("{dir}_q-{n}_{c}"),
    // nfp, xgbe, mvpp2; nfp counts the same packets in the driver, too
    shape("{dir}q_{n}_{c}"),
    shape("rvec_{n}_{dir}_{c}").ring(Ring::Software),
    // hns3, hinic, bna, bcmgenet, bcmsysport; hns
    shape("{dir}q{n}_{c}"),
    shape("{dir}_ring{n}_{c}"),
    // be2net, nicvf, octeontx2
    shape("{dir}q{n}: {c}"),
    // stmmac, macb
    shape("q{n}_{dir}_{c}"),
    // bnxt_en, bnx2x
    shape("[{n}]: {c}").side(Side::Counter),
    // qede: ring, ring of XDP, ring and class of service
    shape("{n} [XDP]: {c}").side(Side::Always(Tx)).ring(Ring::Xdp),
    shape("{n}_{other}: {c}").side(Side::CounterOnly),
    shape("{n}: {c}").side(Side::CounterOnly),
    // octeon_ep; funeth has XDP rings beside the others; gve
    shape("{c}[Q-{n}]").side(Side::CounterOnly),
    shape("tx_xdp_{c}[{n}]").side(Side::Always(Tx)).ring(Ring::Xdp),
    shape("{c}[{n}]").side(Side::CounterOnly).first(0),
    // atlantic
    shape("TC{other} Queue[{n}] {c}").side(Side::Counter),
    shape("Queue[{n}] {c}").side(Side::Counter),
    // enetc; frames that came too late for their window are none that were sent
    shape("{dir} ring{pad}{n} {c}"),
    shape("{dir} window drop{pad}{n} frames"),
    // cpsw
    shape("{dir} DMA chan {n}: {c}"),
    // lan743x
    shape("{dir} Queue {n} {c}"),
    // fbnic, s2io: receive, as their drivers know
    shape("rde_{n}_{c}").side(Side::Always(Rx)),
    shape("ring_{n}_full_cnt").side(Side::Always(Rx)),
    // mlx4, mlx5, virtio_net since 6.10, ibmvnic
    shape("{dir}{n}_{c}"),
    // ionic, mana, tsnep
    shape("{dir}_{n}_{c}").first(0),
];

/// Which names stand below a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Members {
    /// Those with so many blanks in front. Those with more are parts of the one above them.
    Indented(usize),
    /// Those that begin with its direction.
    Prefixed,
    /// All up to the next heading.
    All,
}

/// Rows whose value is the number of the queue that the rows below them belong to.
const HEADINGS: &[(&str, Members)] = &[
    // vmxnet3
    ("{dir} Queue#", Members::Indented(2)),
    // niu
    ("{dir}_channel", Members::Prefixed),
    // myri10ge
    ("----------- slice ---------", Members::All),
];

/// Words that a counter begins with, and the direction they belong to, where neither `rx` nor `tx`
/// says it. A small letter behind them makes another word of them.
const DIRECTIONS: &[(&str, Direction)] = &[
    // qede
    ("rcv_", Rx),
    ("xdp_no_pass", Rx),
    ("xmit_", Tx),
    ("stopped_cnt", Tx),
    // bnxt_en, bnx2x; funeth
    ("tpa_", Rx),
    ("gro_", Rx),
    // myri10ge
    ("stop_queue", Tx),
    ("wake_queue", Tx),
    // atlantic
    ("In", Rx),
    ("Out", Tx),
    ("AllocFails", Rx),
    ("SkbAllocFails", Rx),
    ("Polls", Rx),
    ("Page", Rx),
    ("Xdp", Rx),
    ("Restarts", Tx),
    // axienet
    ("Received", Rx),
    ("Transmitted", Tx),
    // fbnic: receive buffer, receive parser, transmit interface
    ("rxb_", Rx),
    ("rpc_", Rx),
    ("tti_", Tx),
];

/// Beginnings of names that `rx` and `tx` do not mean the host's directions in: ports of a switch,
/// seen from the switch; mailboxes; the board's controller.
const FOREIGN: &[&str] = &["p{other}_{c}", "veb.{c}", "mbx_{c}", "os2bmc_{c}", "[qbman] {c}"];

/// The heading that rows stand below.
#[derive(Clone, Copy)]
struct Section {
    direction: Option<Direction>,
    queue: u32,
    members: Members,
}

/// What is known of a list before its names are looked at one by one.
struct Context {
    driver: Option<&'static Driver>,
    /// The smallest number of each counter, where a shape asks for it.
    first: HashMap<Counter, u32>,
}

/// What names and values mean, one reading an entry and in the same order. `driver` is whose they
/// are; if that is not told, the names may show it.
pub(super) fn readings(entries: Vec<Entry>, driver: Option<&str>) -> Vec<Reading> {
    let context = Context::of(&entries, driver);
    let mut section = None;
    entries.into_iter().map(|entry| context.reading(entry, &mut section)).collect()
}

impl Context {
    fn of(entries: &[Entry], driver: Option<&str>) -> Self {
        let names = || entries.iter().map(|entry| entry.name.as_str());
        let driver = match driver {
            Some(name) => drivers::named(name),
            None => DRIVERS.iter().find(|driver| {
                let mark =
                    |name| driver.marks.iter().any(|mark| pattern::find(mark, name).is_some());
                names().any(mark)
            }),
        };
        let mut first = HashMap::new();
        for shape in SHAPES.iter().filter(|shape| shape.first.is_some()) {
            for found in names().filter_map(|name| pattern::find(shape.pattern, name)) {
                let number = found.number.unwrap_or(u32::MAX);
                let smallest = first.entry(counter(shape, &found)).or_insert(number);
                *smallest = number.min(*smallest);
            }
        }
        Self { driver, first }
    }

    /// Whether a counter is numbered as a shape asks for.
    fn is_numbered(&self, shape: &Shape, found: &Found<'_>) -> bool {
        shape.first.is_none_or(|most| {
            self.first.get(&counter(shape, found)).is_some_and(|first| *first <= most)
        })
    }

    fn reading(&self, entry: Entry, section: &mut Option<Section>) -> Reading {
        let Entry { name, value } = entry;
        let (direction, queue, unified) = match heading(&name, value) {
            Some(heading) => {
                *section = Some(heading);
                (heading.direction, Some(heading.queue), Some(Unified::QueueIndex))
            }
            None => self
                .below(section, &name)
                .or_else(|| self.shaped(&name))
                .unwrap_or_else(|| (device_direction(&name), None, counters::of_device(&name))),
        };
        Reading { direction, queue, name, unified, value }
    }

    /// A row that stands below a heading; one that does not ends what is below it.
    fn below(&self, section: &mut Option<Section>, name: &str) -> Option<Place> {
        let current = (*section)?;
        let Some(is_part) = current.has(name) else {
            *section = None;
            return None;
        };
        let direction = current.direction.or_else(|| counter_direction(name));
        let unified = counters::of_queue(Ring::Queue, direction, name, self.driver);
        Some((direction, Some(current.queue), unified.filter(|_| !is_part)))
    }

    /// A row whose name has the shape of a queue's.
    fn shaped(&self, name: &str) -> Option<Place> {
        SHAPES.iter().find_map(|shape| {
            let found = pattern::find(shape.pattern, name)?;
            let counter = found.counter.unwrap_or_default();
            let direction = direction(shape.side, &found)?;
            if is_range(counter) || !self.is_numbered(shape, &found) {
                return None;
            }
            let unified = counters::of_queue(shape.ring, direction, counter, self.driver);
            Some((direction, Some(found.number?), unified))
        })
    }
}

/// Direction, queue and shared name.
type Place = (Option<Direction>, Option<u32>, Option<Unified>);

/// The direction of what a shape found; `None` if that is not its shape.
fn direction(side: Side, found: &Found<'_>) -> Option<Option<Direction>> {
    let by_counter = || counter_direction(found.counter.unwrap_or_default());
    match side {
        Side::Named => Some(found.direction),
        Side::Always(direction) => Some(Some(direction)),
        Side::Counter => Some(by_counter()),
        Side::CounterOnly => by_counter().map(Some),
    }
}

/// The direction that a counter's words tell: the one it begins with, or the only one in it.
fn counter_direction(counter: &str) -> Option<Direction> {
    let begins = |(start, _): &&(&str, _)| begins_with_word(counter, start);
    let known = || DIRECTIONS.iter().find(begins).map(|(_, direction)| *direction);
    let mut words = counter.split(|c: char| !c.is_ascii_alphanumeric()).map(word_direction);
    match (words.next().flatten(), words.next().flatten()) {
        // rx_tx_total_bytes
        (Some(first), Some(second)) if first != second => None,
        (Some(first), _) => Some(first),
        (None, second) => only(second.into_iter().chain(words.flatten())).or_else(known),
    }
}

fn begins_with_word(counter: &str, start: &str) -> bool {
    let ends = |rest: &str| start.ends_with('_') || !rest.starts_with(|c: char| c.is_lowercase());
    counter.strip_prefix(start).is_some_and(ends)
}

/// The one that all are.
fn only(mut directions: impl Iterator<Item = Direction>) -> Option<Direction> {
    let first = directions.next()?;
    directions.all(|direction| direction == first).then_some(first)
}

/// The direction that a word stands for: rx, rxq, rxstat.
fn word_direction(word: &str) -> Option<Direction> {
    let (direction, rest) = pattern::direction(word)?;
    matches!(rest.trim_end_matches(|c: char| c.is_ascii_digit()), "" | "q" | "stat")
        .then_some(direction)
}

/// The direction of a row of the whole device.
fn device_direction(name: &str) -> Option<Direction> {
    let is_foreign = FOREIGN.iter().any(|start| pattern::find(start, name).is_some());
    if is_foreign { None } else { counter_direction(name) }
}

fn heading(name: &str, value: u64) -> Option<Section> {
    let queue = value.try_into().ok()?;
    HEADINGS.iter().find_map(|&(pattern, members)| {
        let direction = pattern::find(pattern, name)?.direction;
        Some(Section { direction, queue, members })
    })
}

impl Section {
    /// Whether a row stands below the heading; and if it does, whether it is part of another there.
    fn has(self, name: &str) -> Option<bool> {
        let blanks = name.len() - name.trim_start_matches(' ').len();
        match self.members {
            Members::Indented(by) => (blanks >= by).then_some(blanks > by),
            Members::Prefixed => {
                let (direction, rest) = pattern::direction(name)?;
                (Some(direction) == self.direction && rest.starts_with('_')).then_some(false)
            }
            Members::All => Some(false),
        }
    }
}

/// A counter whose numbers belong together.
type Counter = (&'static str, Option<Direction>, String);

fn counter(shape: &Shape, found: &Found<'_>) -> Counter {
    (shape.pattern, found.direction, found.counter.unwrap_or_default().to_owned())
}

/// Whether a number goes on: `65_to_127`, `65_127`.
fn is_range(counter: &str) -> bool {
    counter.starts_with("to_") || counter.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(names: &[(&str, u64)], driver: Option<&str>) -> Vec<Reading> {
        let entry = |(name, value): &(&str, u64)| Entry { name: (*name).to_owned(), value: *value };
        readings(names.iter().map(entry).collect(), driver)
    }

    /// Direction, queue and shared name of the last of `names`.
    fn last(names: &[(&str, u64)]) -> (Option<Direction>, Option<u32>, Option<Unified>) {
        let row = read(names, None).pop().unwrap();
        (row.direction, row.queue, row.unified)
    }

    #[test]
    fn sizes_are_no_queues() {
        let packets = Some(Unified::Packets);
        assert_eq!(last(&[("rx_64_packets", 1)]), (Some(Rx), None, None));
        assert_eq!(
            last(&[("rx_0_packets", 1), ("rx_64_packets", 1)]),
            (Some(Rx), Some(64), packets)
        );
        assert_eq!(last(&[("rx_0_64_octets", 1)]), (Some(Rx), None, None));
        assert_eq!(last(&[("rx_0_to_63_octets", 1)]), (Some(Rx), None, None));
        // emac, pasemi, ucc_geth, gemini
        assert_eq!(last(&[("tx_1_col", 1), ("tx_2_col", 1)]), (Some(Tx), None, None));
        assert_eq!(last(&[("rx-64-byte-packets", 1)]), (Some(Rx), None, None));
        assert_eq!(last(&[("tx-64-frames", 1)]), (Some(Tx), None, None));
        assert_eq!(last(&[("TX_FRAGS[1]", 1)]), (Some(Tx), None, None));
        assert_eq!(last(&[("tx_0_packets", 1), ("rx_64_packets", 1)]), (Some(Rx), None, None));
    }

    #[test]
    fn rows_below_a_heading_are_its_queues_and_the_next_row_is_not() {
        let list = [("Rx Queue#", 3), ("  pkts rx err", 9), ("     err", 9), ("rx timeout", 0)];
        let rows = read(&list, None);
        let queues: Vec<_> = rows.iter().map(|row| row.queue).collect();
        assert_eq!(queues, [Some(3), Some(3), Some(3), None]);
        let unified: Vec<_> = rows.iter().map(|row| row.unified).collect();
        assert_eq!(unified, [Some(Unified::QueueIndex), Some(Unified::Errors), None, None]);
        assert_eq!(
            last(&[("rx_channel", 1), ("tx_bytes", 0)]),
            (Some(Tx), None, Some(Unified::Bytes))
        );
    }

    #[test]
    fn directions_of_others_are_not_the_hosts() {
        for name in [
            "p04_rx_octets",
            "veb.rx_bytes",
            "mbx_tx_busy",
            "rx_tx_total_bytes",
            "os2bmc_rx_by_bmc",
        ] {
            assert_eq!(last(&[(name, 1)]), (None, None, None), "{name}");
        }
        assert_eq!(last(&[("frames_rx_ok", 1)]), (Some(Rx), None, None));
        assert_eq!(last(&[("InOctets", 1)]), (Some(Rx), None, None));
        assert_eq!(last(&[("Interrupts", 1)]), (None, None, None));
    }

    #[test]
    fn a_word_of_a_drivers_own_needs_the_driver() {
        let discards = |driver| read(&[("[0]: rx_discards", 1)], driver)[0].unified;
        assert_eq!(discards(Some("bnx2x")), Some(Unified::DropNoBuf));
        assert_eq!(discards(Some("bnxt_en")), Some(Unified::Drops));
        assert_eq!(discards(None), Some(Unified::Drops));
    }

    /// Names that look as if they had a shape.
    fn name() -> impl Strategy<Value = String> {
        let pieces = SHAPES.iter().map(|shape| shape.pattern).chain(HEADINGS.iter().map(|h| h.0));
        let pattern = prop::sample::select(pieces.collect::<Vec<_>>());
        (pattern, "rx|tx|Rx|TX|xx", "[0-9]{0,12}", "[ -~]{0,12}").prop_map(
            |(pattern, direction, number, counter)| {
                let name = pattern.replace("{dir}", &direction).replace("{n}", &number);
                name.replace("{other}", &number).replace("{pad}", "  ").replace("{c}", &counter)
            },
        )
    }

    proptest! {
        #[test]
        fn every_row_is_kept_in_its_place(
            list in prop::collection::vec((prop_oneof![name(), ".{0,20}"], any::<u64>()), 0..40),
            driver in prop::option::of(prop::sample::select(vec!["bnx2x", "mlx5_core", "?"])),
        ) {
            let list: Vec<_> = list.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let rows = read(&list, driver);
            let kept: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.value)).collect();
            prop_assert_eq!(kept, list);
        }
    }
}
