//! The map queue → NAPI → interrupt → CPUs → NUMA nodes, as a table.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use crate::{
    netlink::netdev::queue::Direction,
    nic::{
        cpus::CpuSet,
        setting::{Group, Key, Settings, Value},
        settings::Survey,
        topology::QueuePath,
    },
    report::{
        WIDTH,
        cell::cell,
        style::Style,
        table::{Align, Table},
    },
};

/// Beyond this many lines, the rest are only counted.
const MAX_LINES: usize = 24;
/// Widest list of CPUs or nodes, in columns.
const MAX_LIST: usize = 10;
/// Columns between two columns of the table.
const GAP: usize = 2;

/// What several queues have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    directions: &'static str,
    first: u32,
    last: u32,
    cells: [String; 7],
    /// Whether each queue has its own interrupt.
    is_single: bool,
}

pub(super) fn write(out: &mut dyn Write, style: Style, survey: &Survey) -> io::Result<()> {
    let lines = fold(&survey.queues, &survey.settings);
    let right = |title| (title, Align::Right);
    let left = |title| (title, Align::Left);
    let mut table = Table::new([
        left("QUEUE"),
        right("NAPI"),
        right("IRQ"),
        left("INTERRUPT"),
        left("CPUS"),
        left("NODE"),
        left("RPS"),
        left("XPS"),
    ]);
    let mut rows: Vec<[String; 8]> = lines.iter().take(MAX_LINES).map(Line::row).collect();
    shorten_names(&mut rows);
    rows.into_iter().for_each(|row| table.push(row));
    table.write(out, style)?;
    match lines.len().saturating_sub(MAX_LINES) {
        0 => Ok(()),
        more => writeln!(out, "{more} more; --json has them all"),
    }
}

/// Shortens interrupt names to the width that the other columns leave.
fn shorten_names(rows: &mut [[String; 8]]) {
    const TITLES: [&str; 8] = ["QUEUE", "NAPI", "IRQ", "", "CPUS", "NODE", "RPS", "XPS"];
    const NAME: usize = 3;
    let width = |column: usize, title: &str| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(title.len()) + GAP
    };
    let columns = TITLES.iter().enumerate().filter(|(column, _)| *column != NAME);
    let others: usize = columns.map(|(column, title)| width(column, title)).sum();
    let room = WIDTH.saturating_sub(others);
    for [_, _, _, name, ..] in rows {
        *name = cell(name, room);
    }
}

impl Line {
    fn row(&self) -> [String; 8] {
        let [napi, irq, name, cpus, node, rps, xps] = self.cells.clone();
        [self.queues(), napi, irq, name, cpus, node, rps, xps]
    }

    fn queues(&self) -> String {
        match self.first == self.last {
            true => format!("{} {}", self.directions, self.first),
            false => format!("{} {}-{}", self.directions, self.first, self.last),
        }
    }
}

/// One line for queues that look alike: a receive and a transmit queue with one NAPI, or neighbours
/// that differ in nothing.
fn fold(paths: &[QueuePath], settings: &Settings) -> Vec<Line> {
    let of = |direction| paths.iter().filter(move |path| path.queue.direction == direction);
    let mut paired = BTreeSet::new();
    let mut lines: Vec<Line> = Vec::new();
    for rx in of(Direction::Rx) {
        let pair = of(Direction::Tx)
            .find(|tx| tx.queue.number == rx.queue.number && server(tx) == server(rx));
        paired.extend(pair.map(|pair| pair.queue.number));
        push(&mut lines, line(if pair.is_some() { "rx tx" } else { "rx" }, rx, settings));
    }
    for tx in of(Direction::Tx).filter(|tx| !paired.contains(&tx.queue.number)) {
        push(&mut lines, line("tx", tx, settings));
    }
    lines
}

fn push(lines: &mut Vec<Line>, line: Line) {
    match lines.last_mut() {
        Some(last) if last.takes(&line) => last.last = line.last,
        _ => lines.push(line),
    }
}

impl Line {
    fn takes(&self, next: &Self) -> bool {
        !self.is_single
            && self.directions == next.directions
            && self.cells == next.cells
            && self.last.checked_add(1) == Some(next.first)
    }
}

/// What serves a queue.
fn server(path: &QueuePath) -> (Option<u32>, Option<u32>) {
    (path.napi, path.interrupt.as_ref().map(|interrupt| interrupt.number))
}

fn line(directions: &'static str, path: &QueuePath, settings: &Settings) -> Line {
    let number = path.queue.number;
    let interrupt = path.interrupt.as_ref();
    let number_or_dash =
        |number: Option<u32>| number.map_or_else(dash, |number| number.to_string());
    let steering = |group, direction: &str| match directions.contains(direction) {
        true => cpus_of(
            settings.get(&Key::new(group, format!("{direction}-{number}"))).map(|s| &s.value),
        ),
        false => dash(),
    };
    let nodes: Vec<_> = path.nodes.iter().map(u32::to_string).collect();
    Line {
        directions,
        first: number,
        last: number,
        cells: [
            number_or_dash(path.napi),
            number_or_dash(interrupt.map(|interrupt| interrupt.number)),
            or_dash(interrupt.and_then(|interrupt| interrupt.name.split('@').next())),
            cell(&or_dash(interrupt.map(|interrupt| interrupt.cpus())), MAX_LIST),
            cell(&or_dash(Some(nodes.join(",").as_str())), MAX_LIST),
            steering(Group::Rps, "rx"),
            steering(Group::Xps, "tx"),
        ],
        is_single: interrupt.is_some() || path.napi.is_some(),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn or_dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).map_or_else(dash, str::to_owned)
}

/// The CPUs of a mask as a list.
fn cpus_of(mask: Option<&Value>) -> String {
    let Some(Value::Text(mask)) = mask else { return dash() };
    let cpus = CpuSet::from_mask(mask).map(|cpus| cpus.to_string());
    cell(&or_dash(cpus.as_deref()), MAX_LIST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        netlink::netdev::queue::QueueId,
        nic::{interrupts::Interrupt, setting::Setting},
    };

    fn path(direction: Direction, number: u32, irq: Option<u32>) -> QueuePath {
        QueuePath {
            queue: QueueId { direction, number },
            napi: irq.map(|irq| irq + 8000),
            thread: None,
            interrupt: irq.map(|number| Interrupt { number, ..Interrupt::default() }),
            nodes: Vec::new(),
            af_xdp: false,
        }
    }

    fn lines(paths: &[QueuePath], settings: &Settings) -> Vec<String> {
        fold(paths, settings).iter().map(Line::queues).collect()
    }

    #[test]
    fn masks_are_lists_of_cpus() {
        let shown = |mask: &str| cpus_of(Some(&Value::from(mask)));
        assert_eq!(shown("0"), "-");
        assert_eq!(shown("3"), "0-1");
        assert_eq!(shown("00000001,80000005"), "0,2,31-32");
        assert_eq!(shown("55555555"), "0,2,4,6,8…");
        assert_eq!(shown("x"), "-");
    }

    #[test]
    fn queues_that_nothing_sets_apart_share_a_line() {
        let paths: Vec<_> = [Direction::Rx, Direction::Tx]
            .iter()
            .flat_map(|&direction| (0..4).map(move |number| path(direction, number, None)))
            .collect();
        assert_eq!(lines(&paths, &Settings::new()), ["rx tx 0-3"]);
        let steered = [(Key::new(Group::Rps, "rx-1"), Setting::new("2"))].into();
        assert_eq!(lines(&paths, &steered), ["rx tx 0", "rx tx 1", "rx tx 2-3"]);
    }

    #[test]
    fn long_names_leave_room_for_the_rest() {
        let row = ["rx tx 127", "131071", "123", "a-very-long-name-TxRx-127", "", "", "", ""];
        let mut rows = [row.map(str::to_owned)];
        for cell in &mut rows[0][4..] {
            *cell = "c".repeat(MAX_LIST);
        }
        shorten_names(&mut rows);
        let width: usize = rows[0].iter().map(|cell| cell.chars().count() + GAP).sum();
        assert!(width - GAP <= WIDTH, "{rows:?}");
        let mut rows = [row.map(str::to_owned)];
        shorten_names(&mut rows);
        assert_eq!(rows[0][3], row[3]);
    }

    #[test]
    fn a_queue_with_an_interrupt_has_its_line() {
        let paths = [
            path(Direction::Rx, 0, Some(40)),
            path(Direction::Rx, 1, Some(41)),
            path(Direction::Tx, 0, Some(40)),
            path(Direction::Tx, 1, Some(42)),
        ];
        assert_eq!(lines(&paths, &Settings::new()), ["rx tx 0", "rx 1", "tx 1"]);
    }
}
