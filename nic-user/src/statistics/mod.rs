//! Statistics of drivers, under names that all drivers share.
//!
//! A driver names its statistics as it likes: `rx_queue_3_packets`, `[3]: rx_ucast_packets`,
//! `Queue[3] InPackets`. [`read`] takes a saved list and says of each row which direction and queue
//! it is of and what it counts, by tables: [`grammar`] has the shapes of names, [`counters`] the
//! words, [`drivers`] where they were read. No row is dropped, and none is made of two: what cannot
//! be placed keeps its own name, and nothing else is said of it.

pub mod counters;
pub mod drivers;
mod grammar;
pub mod list;
pub mod model;
mod pattern;
pub mod text;

use model::{Kind, Source};

/// The largest file that is read, in bytes: the lists of all interfaces of a large machine.
pub const LIMIT: u64 = 4 << 20;

/// What the lists in a file say; `driver` is whose they are, as far as that is known. There is no
/// source if there is no statistic.
pub fn read(bytes: &[u8], file: &str, driver: Option<&str>) -> Vec<Source> {
    let lists = list::parse(bytes).into_iter().filter(|list| !list.entries.is_empty());
    let source = |list: list::List| Source {
        kind: Kind::DriverStrings,
        file: file.to_owned(),
        driver: driver.map(str::to_owned),
        rows: grammar::readings(list.entries, driver),
        notes: list.notes,
    };
    lists.map(source).collect()
}
