//! What a terminal shows of statistics.

use std::io::{self, Write};

use super::model::{Direction, Reading, Source};
use crate::report::{
    WIDTH,
    cell::cell,
    style::Style,
    table::{Align, Table},
};

/// Writes the rows of a source as a table: queues first, each with its own rows in the driver's
/// order, then what belongs to no queue. Below it, the lines that were no statistic.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write(out: &mut dyn Write, style: Style, source: &Source) -> io::Result<()> {
    writeln!(out, "{}", heading(source))?;
    let mut rows: Vec<_> = source.rows.iter().collect();
    rows.sort_by_key(|row| {
        (row.queue.is_none(), row.direction.is_none(), row.direction, row.queue)
    });
    let room = room(&rows);
    let mut table = Table::new([
        ("DIR", Align::Left),
        ("QUEUE", Align::Right),
        ("COUNTER", Align::Left),
        ("NAME", Align::Left),
        ("VALUE", Align::Right),
    ]);
    for row in rows {
        table.push(cells(row, room));
    }
    table.write(out, style)?;
    for note in &source.notes {
        let text = format!("line {} is no statistic: {}", note.line, note.text);
        writeln!(out, "{}", cell(&text, WIDTH))?;
    }
    Ok(())
}

fn heading(source: &Source) -> String {
    let driver = source.driver.as_ref().map_or_else(String::new, |driver| format!("  {driver}"));
    let file = if source.file == "-" { "standard input" } else { &source.file };
    let rows = source.rows.len();
    cell(&format!("{file}{driver}  {rows} statistics{}", queues(source)), WIDTH)
}

/// How many queues there are rows of.
fn queues(source: &Source) -> String {
    let count = |direction| {
        let of = source.rows.iter().filter(|row| row.direction == Some(direction));
        of.filter_map(|row| row.queue).collect::<std::collections::BTreeSet<_>>().len()
    };
    match (count(Direction::Rx), count(Direction::Tx)) {
        (0, 0) => String::new(),
        (rx, tx) => format!("  queues: {rx} rx, {tx} tx"),
    }
}

fn cells(row: &Reading, room: usize) -> [String; 5] {
    [
        row.direction.map_or("-", Direction::word).to_owned(),
        row.queue.map_or_else(|| "-".to_owned(), |queue| queue.to_string()),
        row.unified.map_or("-", |unified| unified.name()).to_owned(),
        cell(&row.name, room),
        row.value.to_string(),
    ]
}

/// Columns that are left for names.
fn room(rows: &[&Reading]) -> usize {
    const DIRECTION: usize = 3;
    const QUEUE: usize = 5;
    const GAPS: usize = 4 * 2;
    let counter = rows.iter().filter_map(|row| row.unified).map(|unified| unified.name().len());
    let value = rows.iter().map(|row| row.value.to_string().len()).max().unwrap_or_default();
    let counter = counter.max().unwrap_or_default().max("COUNTER".len());
    WIDTH.saturating_sub(DIRECTION + QUEUE + GAPS + counter + value.max("VALUE".len()))
}
