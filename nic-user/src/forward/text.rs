//! What `nicctl forward` shows on a terminal.

use std::{
    io::{self, Write},
    time::Duration,
};

use super::Counts;
use crate::report::{
    number, paragraph,
    style::Style,
    table::{Align, Table},
};

/// Columns of the name in front of reasons to drop.
const LABEL: usize = 16;

/// How numbers are written.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Colours, or none.
    pub style: Style,
    /// Every digit, not three of them.
    pub exact: bool,
}

impl Numbers {
    fn count(self, n: u64) -> String {
        if self.exact { n.to_string() } else { number::count(n) }
    }

    fn bytes(self, n: u64) -> String {
        if self.exact { n.to_string() } else { number::bytes(n) }
    }
}

/// Writes what happened between two interfaces.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write(
    out: &mut dyn Write,
    numbers: Numbers,
    names: [&str; 2],
    counts: &[Counts; 2],
    since: Duration,
) -> io::Result<()> {
    writeln!(out, "after {:.1} s", since.as_secs_f64())?;
    let right = |title| (title, Align::Right);
    let mut table = Table::new([
        ("FROM", Align::Left),
        right("PACKETS"),
        right("BYTES"),
        right("FORWARDED"),
        right("TO THE STACK"),
        right("DROPPED"),
    ]);
    for (name, counts) in names.into_iter().zip(counts) {
        table.push([
            name.to_owned(),
            numbers.count(counts.packets),
            numbers.bytes(counts.bytes),
            numbers.count(counts.forwarded),
            numbers.count(counts.passed),
            numbers.count(counts.dropped.total()),
        ]);
    }
    table.write(out, numbers.style)?;
    for (name, counts) in names.into_iter().zip(counts) {
        let reasons = counts.dropped.by_name().into_iter().filter(|(_, count)| *count > 0);
        let items: Vec<_> =
            reasons.map(|(reason, count)| format!("{} {reason}", numbers.count(count))).collect();
        if !items.is_empty() {
            paragraph::write_items(out, numbers.style, (name, LABEL), &items)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Drops;

    #[test]
    fn reasons_to_drop_stand_below_the_table() {
        let first = Counts {
            packets: 1_234_567,
            bytes: 1_800_000_000,
            forwarded: 1_234_560,
            passed: 0,
            dropped: Drops { no_room: 5, no_route: 2, ..Drops::default() },
            ..Counts::default()
        };
        let text = |exact| {
            let (mut out, since) = (Vec::new(), Duration::from_millis(2500));
            let numbers = Numbers { style: Style::Plain, exact };
            write(&mut out, numbers, ["eth0", "eth1"], &[first, Counts::default()], since).unwrap();
            String::from_utf8(out).unwrap()
        };
        insta::assert_snapshot!(text(true), @r"
        after 2.5 s
        FROM  PACKETS       BYTES  FORWARDED  TO THE STACK  DROPPED
        eth0  1234567  1800000000    1234560             0        7
        eth1        0           0          0             0        0
        eth0            5 with the TX ring full, 2 without route
        ");
        insta::assert_snapshot!(text(false), @r"
        after 2.5 s
        FROM  PACKETS    BYTES  FORWARDED  TO THE STACK  DROPPED
        eth0   1.23 M  1.80 GB     1.23 M             0        7
        eth1        0      0 B          0             0        0
        eth0            5 with the TX ring full, 2 without route
        ");
    }
}
