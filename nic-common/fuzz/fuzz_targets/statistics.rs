//! Any bytes as what `ethtool -S` printed: no line is lost.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nic_user::statistics::{list, read};

fuzz_target!(|bytes: &[u8]| {
    for driver in [None, Some("bnx2x"), Some("?")] {
        let rows: usize = read(bytes, "-", driver).iter().map(|source| source.rows.len()).sum();
        let entries: usize = list::parse(bytes).iter().map(|list| list.entries.len()).sum();
        assert_eq!(rows, entries);
    }
});
