//! docs/drivers.md: what came of changing each setting of each driver, as guests reported it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result};

use super::kernel::Kernel;
use crate::process::root;

/// In front of what a guest reports of one setting.
pub const RECORD: &str = "record: ";

const ABSENT: &str = "–";

/// The kernel whose table is whole; of others, only what differs is written.
const WHOLE: &str = "6.12";

const INTRODUCTION: &str = include_str!("table.md");

/// By setting.
type Column = BTreeMap<String, String>;

/// All of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// By the kernel's version.
    kernels: BTreeMap<Version, Runs>,
}

/// What was found with one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Runs {
    release: String,
    drivers: BTreeMap<String, Column>,
}

/// As in "6.12", in the order of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(Vec<u32>);

impl Version {
    fn new(text: &str) -> Self {
        Self(text.split('.').filter_map(|part| part.parse().ok()).collect())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&parts.join("."))
    }
}

fn path() -> PathBuf {
    root().join("docs/drivers.md")
}

impl Table {
    /// The one in the repository.
    pub fn committed() -> Result<Self> {
        let text = fs::read_to_string(path()).context("read docs/drivers.md")?;
        Ok(Self::parse(&text))
    }

    /// Adds what a guest printed of settings, if anything.
    pub fn add(&mut self, kernel: &Kernel, driver: &str, printed: &str) {
        let records =
            printed.lines().filter_map(|line| line.strip_prefix(RECORD)?.split_once('\t'));
        let column: Column =
            records.map(|(setting, result)| (setting.to_owned(), result.to_owned())).collect();
        if !column.is_empty() {
            let runs = self.kernels.entry(Version::new(&kernel.version())).or_default();
            runs.release.clone_from(&kernel.release);
            runs.drivers.insert(driver.to_owned(), column);
        }
    }

    /// Takes over what `newer` has; the rest stays.
    pub fn update(&mut self, newer: Self) {
        for (version, runs) in newer.kernels {
            let ours = self.kernels.entry(version).or_default();
            ours.release = runs.release;
            ours.drivers.extend(runs.drivers);
        }
    }

    /// Writes it into the repository.
    pub fn commit(&self) -> Result<()> {
        fs::write(path(), self.render()).context("write docs/drivers.md")
    }

    /// What `found` has otherwise, one line each; and the kernels that are other ones than those of
    /// the table, about which it says nothing.
    pub fn differences(&self, found: &Self) -> (Vec<String>, Vec<String>) {
        let (mut differences, mut other_releases) = (Vec::new(), Vec::new());
        for (version, runs) in &found.kernels {
            let ours = self.kernels.get(version).cloned().unwrap_or_default();
            if ours.release != runs.release {
                other_releases.push(runs.release.clone());
                continue;
            }
            for (driver, column) in &runs.drivers {
                let ours = ours.drivers.get(driver).cloned().unwrap_or_default();
                let settings: BTreeSet<_> = ours.keys().chain(column.keys()).collect();
                for setting in settings {
                    let (was, is) = (cell(&ours, setting), cell(column, setting));
                    if was != is {
                        differences
                            .push(format!("{driver} on {version}: {setting}: {is}, not {was}"));
                    }
                }
            }
        }
        (differences, other_releases)
    }

    fn render(&self) -> String {
        let whole = self.kernels.get(&Version::new(WHOLE)).cloned().unwrap_or_default();
        let mut text = format!("{INTRODUCTION}\n{}", section(WHOLE, &whole, &Runs::default()));
        for (version, runs) in
            self.kernels.iter().filter(|(version, _)| **version != Version::new(WHOLE))
        {
            text += "\n";
            text += &section(&version.to_string(), runs, &whole);
        }
        text
    }

    fn parse(text: &str) -> Self {
        let mut table = Self::default();
        let mut sections: Vec<_> = text.split("\n## Linux ").skip(1).collect();
        // The others are told by how they differ from it.
        sections.sort_by_key(|section| !section.starts_with(WHOLE));
        let mut whole = Runs::default();
        for section in sections {
            let Some((heading, rest)) = section.split_once('\n') else { continue };
            let Some((version, release)) = heading.split_once(" (") else { continue };
            let runs = parse_section(rest, release.trim_end_matches(')'), &whole);
            if version == WHOLE {
                whole = runs.clone();
            }
            table.kernels.insert(Version::new(version), runs);
        }
        table
    }
}

fn cell<'a>(column: &'a Column, setting: &str) -> &'a str {
    column.get(setting).map_or(ABSENT, String::as_str)
}

/// The table of one kernel, without the rows in which it is like `whole`.
fn section(version: &str, runs: &Runs, whole: &Runs) -> String {
    let mut text = format!("## Linux {version} ({})\n", runs.release);
    if !whole.drivers.is_empty() {
        text += &format!("\nWhere it is not as on Linux {WHOLE}.\n");
    }
    let drivers: Vec<_> = runs.drivers.keys().map(String::as_str).collect();
    text += &format!("\n| setting | {} |\n", drivers.join(" | "));
    text += &format!("| --- |{}\n", " --- |".repeat(drivers.len()));
    let of_both = runs.drivers.iter().flat_map(|(driver, column)| {
        column.keys().chain(whole.drivers.get(driver).into_iter().flat_map(BTreeMap::keys))
    });
    for setting in of_both.collect::<BTreeSet<_>>() {
        let is_same = |(driver, column): (&String, &Column)| {
            let theirs = whole.drivers.get(driver);
            theirs.is_some_and(|theirs| cell(theirs, setting) == cell(column, setting))
        };
        if runs.drivers.iter().all(is_same) {
            continue;
        }
        let _ = write!(text, "| {setting} |");
        for column in runs.drivers.values() {
            let _ = write!(text, " {} |", cell(column, setting));
        }
        text += "\n";
    }
    text
}

fn parse_section(text: &str, release: &str, whole: &Runs) -> Runs {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = |row: &str| row.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let drivers = cells(rows.next().unwrap_or_default()).into_iter().skip(1);
    let mut columns: Vec<(String, Column)> = drivers
        .map(|driver| {
            let column = whole.drivers.get(&driver).cloned().unwrap_or_default();
            (driver, column)
        })
        .collect();
    for row in rows.skip(1).map(cells) {
        let Some((setting, results)) = row.split_first() else { continue };
        for ((_, column), result) in columns.iter_mut().zip(results) {
            match result.as_str() {
                ABSENT => column.remove(setting),
                result => column.insert(setting.clone(), result.to_owned()),
            };
        }
    }
    Runs { release: release.to_owned(), drivers: columns.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str) -> Kernel {
        Kernel { release: release.to_owned(), image: PathBuf::new(), modules: PathBuf::new() }
    }

    fn table() -> Table {
        let mut table = Table::default();
        let (old, new) = (kernel("6.1.0-57-amd64"), kernel("6.12.117+deb12-amd64"));
        table.add(&new, "igb", "record: ring.rx\trounded: 100 → 104\nrecord: link.mtu\tset\n");
        table.add(&new, "veth", "test x ... ok\nrecord: link.mtu\tset\n");
        table.add(&old, "veth", "record: link.mtu\tset\nrecord: napi.threaded\tset\n");
        table.add(&old, "igb", "record: ring.rx\tset\nrecord: link.mtu\tset\n");
        table.add(&old, "e1000e", "test x ... FAILED\n");
        table
    }

    #[test]
    fn what_is_written_is_read() {
        let table = table();
        let text = table.render();
        assert!(text.contains("\n| ring.rx | rounded: 100 → 104 | – |\n"), "{text}");
        assert_eq!(text.matches("| link.mtu |").count(), 1, "{text}");
        assert_eq!(Table::parse(&text), table);
    }

    #[test]
    fn differences_are_of_the_same_kernel() {
        let mut found = Table::default();
        found.add(&kernel("6.12.117+deb12-amd64"), "igb", "record: ring.rx\tset\n");
        found.add(&kernel("6.1.0-58-amd64"), "igb", "record: ring.rx\tno effect\n");
        let (differences, other) = table().differences(&found);
        assert_eq!(
            differences,
            [
                "igb on 6.12: link.mtu: –, not set",
                "igb on 6.12: ring.rx: set, not rounded: 100 → 104"
            ]
        );
        assert_eq!(other, ["6.1.0-58-amd64"]);
    }

    #[test]
    fn the_committed_one_is_as_it_would_be_written() {
        let text = fs::read_to_string(path()).unwrap();
        assert_eq!(Table::parse(&text).render(), text);
    }
}
