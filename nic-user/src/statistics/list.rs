//! Saved output of `ethtool -S`, as text.
//!
//! A line is `name: value` behind five blanks. A name can have blanks in front and behind, and
//! colons in it, so what follows the last colon with a blank is the value. Lists that were saved
//! without the heading and without the five blanks are read, too.

use super::model::Note;

/// The line above the statistics of an interface.
const HEADING: &str = "NIC statistics";
/// Blanks that ethtool puts in front of a name.
const INDENT: usize = 5;

/// The statistics of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Names and values, in the driver's order.
    pub entries: Vec<Entry>,
    /// Lines that are no statistic; empty ones are left out.
    pub notes: Vec<Note>,
}

/// A statistic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The driver's name. Bytes that are not UTF-8 are written as `\xff`.
    pub name: String,
    /// The value.
    pub value: u64,
}

/// The lists in a file: one, or one below each heading. A list without statistics is left out; its
/// lines are notes of the next one, or of the one before it.
pub fn parse(bytes: &[u8]) -> Vec<List> {
    let text = text(bytes);
    let mut lists = Vec::new();
    let mut open = Open::new(indentation(&text));
    for (index, line) in text.lines().enumerate() {
        match heading(line) {
            Some(indent) => lists.extend(open.next(indent)),
            None => open.read(index + 1, line),
        }
    }
    open.finish(&mut lists);
    lists
}

/// The list that is being read.
struct Open {
    list: List,
    /// Blanks in front of a name that are not part of it.
    indent: usize,
}

impl Open {
    fn new(indent: usize) -> Self {
        Self { list: List::default(), indent }
    }

    /// Goes on with a list below a heading of this indentation. Returns the one before.
    fn next(&mut self, indent: usize) -> Option<List> {
        self.indent = indent + INDENT;
        (!self.list.entries.is_empty()).then(|| std::mem::take(&mut self.list))
    }

    fn read(&mut self, line: usize, text: &str) {
        match entry(outdented(text, self.indent)) {
            Some(entry) => self.list.entries.push(entry),
            None if text.trim().is_empty() => {}
            None => self.list.notes.push(Note { line, text: text.trim().to_owned() }),
        }
    }

    fn finish(self, lists: &mut Vec<List>) {
        match lists.last_mut() {
            Some(last) if self.list.entries.is_empty() => last.notes.extend(self.list.notes),
            _ => lists.push(self.list),
        }
    }
}

/// The bytes as text, with those that are not UTF-8 escaped.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text += chunk.valid();
        text.extend(chunk.invalid().escape_ascii().map(char::from));
    }
    // Windows' editors put a mark in front.
    text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)
}

/// The blanks in front of a heading.
fn heading(line: &str) -> Option<usize> {
    let trimmed = line.trim();
    (trimmed.starts_with(HEADING) && trimmed.ends_with(':')).then(|| blanks(line))
}

/// Blanks that a list without a heading has in front of its names: five where most lines have them.
fn indentation(text: &str) -> usize {
    let (mut lines, mut indented) = (0_usize, 0_usize);
    for line in text.lines().filter(|line| entry(line).is_some()) {
        lines += 1;
        indented += usize::from(blanks(line) >= INDENT);
    }
    if indented * 2 > lines { INDENT } else { 0 }
}

fn blanks(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// A line without as many blanks in front.
fn outdented(line: &str, indent: usize) -> &str {
    line.get(indent.min(blanks(line))..).unwrap_or_default()
}

fn entry(line: &str) -> Option<Entry> {
    let (name, value) = line.rsplit_once(": ")?;
    let value = value.trim_matches([' ', '\t', '\r', '\0']);
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let value = value.parse().ok().filter(|_| is_number)?;
    (!name.trim().is_empty()).then(|| Entry { name: name.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(text: &str) -> Vec<(String, u64)> {
        let lists = parse(text.as_bytes());
        lists.into_iter().flat_map(|list| list.entries).map(|e| (e.name, e.value)).collect()
    }

    fn one(name: &str, value: u64) -> Vec<(String, u64)> {
        vec![(name.to_owned(), value)]
    }

    #[test]
    fn ethtools_five_blanks_go_and_the_drivers_own_stay() {
        assert_eq!(entries("NIC statistics:\n     rx_packets: 1\n"), one("rx_packets", 1));
        assert_eq!(
            entries("NIC statistics:\n       ucast pkts tx: 1\n"),
            one("  ucast pkts tx", 1)
        );
        assert_eq!(entries("  NIC statistics:\n       a: 1\n"), one("a", 1));
        assert_eq!(entries("     a: 1\n"), one("a", 1));
        assert_eq!(
            entries("a: 1\n     too many frags: 0\n").pop(),
            Some(("     too many frags".into(), 0))
        );
        assert_eq!(entries("tx_octets_ok            : 7\n"), one("tx_octets_ok            ", 7));
    }

    #[test]
    fn the_last_colon_splits() {
        assert_eq!(entries("[0]: rx_bytes: 18446744073709551615"), one("[0]: rx_bytes", u64::MAX));
        assert_eq!(entries("bgx_rxstat0: : 3"), one("bgx_rxstat0: ", 3));
        assert_eq!(entries("a: 1\r\n"), one("a", 1));
    }

    #[test]
    fn what_is_no_statistic_is_noted_with_its_line() {
        let text = "eth0\nNIC statistics:\n     a: 1\n\n     b: 18446744073709551616\n     c: -1\n     d\n";
        let [list] = &parse(text.as_bytes())[..] else { panic!("one list") };
        let notes: Vec<_> = list.notes.iter().map(|note| (note.line, note.text.as_str())).collect();
        let expected = [(1, "eth0"), (5, "b: 18446744073709551616"), (6, "c: -1"), (7, "d")];
        assert_eq!(notes, expected);
    }

    #[test]
    fn every_heading_begins_a_list() {
        let text = "x\nNIC statistics:\n     a: 1\nNIC statistics:\n     a: 2\nNIC statistics:\nno stats\n";
        let lists = parse(text.as_bytes());
        let values: Vec<_> = lists.iter().map(|list| list.entries.len()).collect();
        assert_eq!(values, [1, 1]);
        assert_eq!(lists[0].notes[0].text, "x");
        assert_eq!(lists[1].notes[0].text, "no stats");
    }

    #[test]
    fn bytes_that_are_no_text_stay_apart() {
        let lists = parse(b"a\xff: 1\na\xfe: 2\na\0b: 3\n");
        let names: Vec<_> = lists[0].entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a\\xff", "a\\xfe", "a\0b"]);
    }

    proptest! {
        #[test]
        fn no_line_is_lost(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let full = text(&bytes).lines()
                .filter(|line| !line.trim().is_empty() && heading(line).is_none()).count();
            let lists = parse(&bytes);
            let read: usize = lists.iter().map(|list| list.entries.len() + list.notes.len()).sum();
            prop_assert_eq!(read, full);
        }

        #[test]
        fn what_ethtool_prints_is_read_back(
            list in prop::collection::vec(("[ -~]{0,30}[!-~]", any::<u64>()), 1..20),
        ) {
            let printed: String =
                list.iter().map(|(name, value)| format!("     {name}: {value}\n")).collect();
            prop_assert_eq!(entries(&format!("NIC statistics:\n{printed}")), list);
        }
    }
}
