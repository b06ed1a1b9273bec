//! Drivers' statistics strings: every row of every list is placed as its driver means it.

use std::{fs, path::Path};

use nic_user::statistics::{self, model::Reading};

/// What is known of a row; `None` where nothing is claimed.
struct Expected {
    name: String,
    direction: Option<Option<&'static str>>,
    queue: Option<u32>,
    counter: Option<String>,
}

fn lists() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ethtool-stats");
    let drivers = fs::read_to_string(folder.join("drivers.tsv")).unwrap();
    let pair = |line: &str| {
        let (list, driver) = line.split_once('\t').unwrap();
        (list.to_owned(), driver.to_owned())
    };
    drivers.lines().skip(1).map(pair).collect()
}

fn file(list: &str, extension: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ethtool-stats");
    fs::read_to_string(folder.join(format!("{list}.{extension}"))).unwrap()
}

fn expected(list: &str) -> Vec<Expected> {
    let row = |line: &str| {
        let [name, direction, queue, counter] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{list}: {line}")
        };
        let direction = match direction {
            "rx" => Some(Some("rx")),
            "tx" => Some(Some("tx")),
            "-" => Some(None),
            "*" => None,
            other => panic!("{list}: {other}"),
        };
        Expected {
            name: name.to_owned(),
            direction,
            queue: (queue != "-").then(|| queue.parse().unwrap()),
            counter: (counter != "*").then(|| counter.to_owned()),
        }
    };
    file(list, "expected.tsv").lines().skip(1).map(row).collect()
}

fn read(text: &str, driver: Option<&str>) -> Vec<Reading> {
    let sources = statistics::read(text.as_bytes(), "list", driver);
    let [source] = &sources[..] else { panic!("{} lists", sources.len()) };
    assert_eq!(source.notes, []);
    source.rows.clone()
}

/// The rows of `list` that are not what they should be.
fn wrong(list: &str, text: &str, driver: Option<&str>) -> Vec<String> {
    let (rows, expected) = (read(text, driver), expected(list));
    assert_eq!(rows.len(), expected.len(), "{list}");
    let mut wrong = Vec::new();
    for (row, expected) in rows.iter().zip(&expected) {
        let direction = row.direction.map(|direction| direction.word());
        let unified = row.unified.map(|unified| unified.name());
        let is_right = row.name == expected.name
            && expected.direction.is_none_or(|expected| expected == direction)
            && row.queue == expected.queue
            && expected.counter.as_deref().is_none_or(|expected| Some(expected) == unified);
        if !is_right {
            let (name, queue) = (&row.name, row.queue);
            wrong.push(format!("{list} {driver:?}: {name}: {direction:?} {queue:?} {unified:?}"));
        }
    }
    wrong
}

#[test]
fn every_row_of_every_list_is_right_with_and_without_the_drivers_name() {
    let mut all = Vec::new();
    for (list, driver) in lists() {
        let bare = file(&list, "txt");
        let indented: String = bare.lines().map(|line| format!("     {line}\n")).collect();
        let saved = format!("NIC statistics:\n{indented}");
        for text in [&bare, &indented, &saved, &saved.replace('\n', "\r\n")] {
            all.extend(wrong(&list, text, Some(&driver)));
            all.extend(wrong(&list, text, None));
        }
    }
    assert!(all.is_empty(), "{} rows:\n{}", all.len(), all.join("\n"));
}

#[test]
fn the_same_is_said_with_and_without_the_drivers_name() {
    for (list, driver) in lists() {
        let text = file(&list, "txt");
        assert_eq!(read(&text, Some(&driver)), read(&text, None), "{list}");
    }
}
