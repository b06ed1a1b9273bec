//! How the device spreads flows over its queues.

use std::fmt::Write;

use super::{Named, unknown, wrong_type};
use crate::netlink::ethtool::Ethtool;
use crate::netlink::ethtool_ioctl::EthtoolIoctl;
use crate::netlink::ethtool_ioctl::rss::{
    HashFields, HashFunction, HashedFlow, Rss, RssChange, TableChange,
};
use crate::netlink::{self, IfSupported};
use crate::nic::setting::{Access, Setting, Value};

const INDIRECTION: &str = "indirection";
const KEY: &str = "key";
const FUNCTION: &str = "function";
/// Prefix of the fields that are hashed of a type of flow: `hash-tcp4`.
const HASH: &str = "hash-";
/// The fields of a flow that is not hashed.
const NO_FIELDS: &str = "none";

pub(super) fn read(
    ioctl: &EthtoolIoctl,
    ethtool: Option<&mut Ethtool>,
    interface: &str,
    ifindex: u32,
) -> netlink::Result<Named> {
    let Some(rss) = ioctl.rss(interface)? else { return Ok(Named::new()) };
    // Without the number of queues, the default is not known.
    let queues = ioctl.rss_queues(interface).if_supported()?;
    let mut named = of_device(&rss, queues);
    for flow in HashedFlow::ALL {
        if let Some(fields) = ioctl.hash_fields(interface, flow)? {
            named.push((format!("{HASH}{}", flow.name()), Setting::new(fields_text(fields))));
        }
    }
    if let Some(ethtool) = ethtool {
        named.extend(ethtool.rss_contexts(ifindex)?.into_iter().map(|context| {
            let table = Setting::new(table_text(&context.table));
            (format!("context-{}", context.id), Setting { access: Access::ReadOnly, ..table })
        }));
    }
    Ok(named)
}

fn fields_text(fields: HashFields) -> String {
    match fields.letters() {
        letters if letters.is_empty() => NO_FIELDS.to_owned(),
        letters => letters,
    }
}

fn parse_fields(text: &str) -> Option<HashFields> {
    HashFields::from_letters(if text == NO_FIELDS { "" } else { text })
}

fn of_device(rss: &Rss, queues: Option<u64>) -> Named {
    let mut named = Named::new();
    if !rss.table.is_empty() {
        let default = queues.map(|queues| format!("equal {queues}").into());
        let table = Setting { default, ..Setting::new(table_text(&rss.table)) };
        named.push((INDIRECTION.to_owned(), table));
    }
    if !rss.key.is_empty() {
        named.push((KEY.to_owned(), Setting::new(key_text(&rss.key))));
    }
    if let Some(function) = rss.function {
        named.push((FUNCTION.to_owned(), Setting::new(function.name())));
    }
    named
}

/// A table as ethtool would be told to make it: `equal 4`, `weight 1 3`, and where it is neither,
/// `table 0 0 2 1 ...`.
fn table_text(table: &[u32]) -> String {
    let equal = table.iter().max().and_then(|last| last.checked_add(1)).unwrap_or_default();
    if equal_table(equal, table.len()) == table {
        return format!("equal {equal}");
    }
    if table.is_sorted() {
        return format!("weight {}", spaced(&weights(table)));
    }
    format!("table {}", spaced(table))
}

/// How many entries each queue has, in the lowest terms.
fn weights(table: &[u32]) -> Vec<u32> {
    let count = |queue| table.iter().filter(|&&entry| entry == queue).count() as u32;
    let counts: Vec<u32> = (0..=table.last().copied().unwrap_or_default()).map(count).collect();
    let common = counts.iter().copied().fold(0, greatest_common_divisor).max(1);
    counts.iter().map(|count| count / common).collect()
}

const fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn spaced(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn key_text(key: &[u8]) -> String {
    let mut text = String::new();
    for (index, byte) in key.iter().enumerate() {
        let colon = if index == 0 { "" } else { ":" };
        // A String takes everything.
        let _ = write!(text, "{colon}{byte:02x}");
    }
    text
}

pub(super) fn write(
    interface: &str,
    changes: &[(String, Value)],
) -> netlink::Result<Option<String>> {
    let ioctl = EthtoolIoctl::open()?;
    let mut change = RssChange::default();
    for (name, value) in changes {
        let text = value.to_string();
        match name.as_str() {
            INDIRECTION => {
                let entries = ioctl.rss(interface)?.map_or(0, |rss| rss.table.len());
                let table = parse_table(&text, entries);
                let expected = "default, equal N, weight W0 W1 ... or table Q0 Q1 ...";
                change.table = Some(table.ok_or_else(|| wrong_type(name, value, expected))?);
            }
            KEY => {
                let key = parse_key(&text).ok_or_else(|| wrong_type(name, value, "xx:xx:..."));
                change.key = Some(key?);
            }
            FUNCTION => {
                let function = HashFunction::ALL.into_iter().find(|known| known.name() == text);
                let names = HashFunction::ALL.map(HashFunction::name).join(", ");
                change.function = Some(function.ok_or_else(|| wrong_type(name, value, &names))?);
            }
            _ => write_fields(&ioctl, interface, name, value)?,
        }
    }
    if change != RssChange::default() {
        ioctl.set_rss(interface, &change)?;
    }
    Ok(None)
}

fn write_fields(
    ioctl: &EthtoolIoctl,
    interface: &str,
    name: &str,
    value: &Value,
) -> netlink::Result<()> {
    let is_named = |flow: &HashedFlow| name.strip_prefix(HASH) == Some(flow.name());
    let flow = HashedFlow::ALL.into_iter().find(is_named).ok_or_else(|| unknown(name))?;
    let fields = parse_fields(&value.to_string());
    let fields =
        fields.ok_or_else(|| wrong_type(name, value, "none, or letters of m, v, t, s, d, f, n"))?;
    ioctl.set_hash_fields(interface, flow, fields).map_err(|error| error.at(name))
}

/// The table of so many entries that `text` describes.
fn parse_table(text: &str, entries: usize) -> Option<TableChange> {
    let mut words = text.split_whitespace();
    let kind = words.next()?;
    let numbers = words.map(|word| word.parse().ok()).collect::<Option<Vec<u32>>>()?;
    match (kind, &numbers[..]) {
        ("default", []) => Some(TableChange::Default),
        ("equal", &[queues]) if queues > 0 => {
            Some(TableChange::Table(equal_table(queues, entries)))
        }
        ("weight", weights) => weighted_table(weights, entries).map(TableChange::Table),
        ("table", table) if !table.is_empty() => Some(TableChange::Table(table.to_vec())),
        _ => None,
    }
}

/// Queues in turn, as `ethtool_rxfh_indir_default` has them.
fn equal_table(queues: u32, entries: usize) -> Vec<u32> {
    (0..queues).cycle().take(entries).collect()
}

/// Queues one after the other, with entries in proportion to their weights, as `ethtool -X` does
/// it; `None` without any weight.
fn weighted_table(weights: &[u32], entries: usize) -> Option<Vec<u32>> {
    let sum: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    let mut ends = Vec::new();
    let mut partial = 0;
    for &weight in weights {
        partial += u64::from(weight);
        ends.push(partial);
    }
    let queue_of = |entry: usize| {
        let reached = |end: &u64| (entry as u64).saturating_mul(sum) < end * entries as u64;
        u32::try_from(ends.iter().position(reached)?).ok()
    };
    if sum == 0 { None } else { (0..entries).map(queue_of).collect() }
}

fn parse_key(text: &str) -> Option<Vec<u8>> {
    text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str, entries: usize) -> String {
        match parse_table(text, entries) {
            Some(TableChange::Table(table)) => table_text(&table),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn tables_are_read_as_they_are_written() {
        for text in ["equal 4", "equal 1", "equal 3", "weight 1 3", "weight 0 1 1"] {
            assert_eq!(round(text, 128), text);
        }
        assert_eq!(round("table 1 0 0 1", 4), "table 1 0 0 1");
        // In lowest terms; and what 128 entries cannot do exactly.
        assert_eq!(round("weight 6 2", 128), "weight 3 1");
        assert_eq!(round("weight 1 2", 128), "weight 43 85");
        assert_eq!(parse_table("default", 128), Some(TableChange::Default));
    }

    #[test]
    fn what_describes_no_table_is_refused() {
        for text in ["", "equal", "equal 0", "equal 1 2", "weight", "weight 0 0", "even 4", "table"]
        {
            assert_eq!(parse_table(text, 128), None, "{text}");
        }
        let largest = parse_table("weight 4294967295 4294967295", 128);
        assert_eq!(largest, parse_table("weight 1 1", 128));
    }

    #[test]
    fn fields_are_read_as_they_are_written() {
        for text in ["sdfn", "sd", "none"] {
            assert_eq!(parse_fields(text).map(fields_text).as_deref(), Some(text));
        }
        assert_eq!(parse_fields("sx"), None);
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key: Vec<u8> = (0..40).collect();
        assert_eq!(parse_key(&key_text(&key)), Some(key));
        assert_eq!(parse_key("6d:5"), Some(vec![0x6d, 5]));
        assert_eq!(parse_key("6d:xx"), None);
        assert_eq!(parse_key(""), None);
    }

    #[test]
    fn a_device_without_a_table_has_what_it_has() {
        let rss = Rss { function: Some(HashFunction::Toeplitz), ..Rss::default() };
        assert_eq!(of_device(&rss, None), [("function".to_owned(), Setting::new("toeplitz"))]);
        let rss = Rss { table: vec![0, 1, 0, 1], ..Rss::default() };
        let [(_, indirection)] = &of_device(&rss, Some(4))[..] else { panic!() };
        assert_eq!(indirection.value, Value::from("equal 2"));
        assert_eq!(indirection.default, Some(Value::from("equal 4")));
    }
}
