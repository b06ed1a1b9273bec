//! Drivers' statistics strings: every row of every list is placed as its driver means it.

mod schema;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use nic_user::statistics::{self, counters::Unified, model::Reading};
use serde_json::Value;

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

#[test]
fn the_page_names_every_shared_counter() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/counters.md");
    let page = fs::read_to_string(page).unwrap();
    for unified in Unified::ALL {
        assert!(page.contains(&format!("`{}`", unified.name())), "{}", unified.name());
    }
}

fn nicctl(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    // Neither is needed.
    command.args(args).env("NICCTL_BPFFS", "/nonexistent");
    command
}

/// What `nicctl stats --from` says of `bytes` on standard input: exit code, output, errors.
fn from_stdin(bytes: &[u8], args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = nicctl(&[&["stats", "--from", "-"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // Whoever is told enough stops reading.
        scope.spawn(move || drop(stdin.write_all(bytes)));
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    })
}

#[test]
fn a_terminal_shows_queues_first_and_what_is_no_statistic_last() {
    let saved = "eth0\nNIC statistics:\n     rx_packets: 7\n     collisions: 0\n     \
                 tx_queue_0_packets: 2\n     rx_queue_10_bytes: 18446744073709551615\n     \
                 rx_queue_2_drops: 3\n     rx_queue_2_a\u{1b}[2Jb: 1\n     rx_missed: many\n";
    let (code, shown, said) = from_stdin(saved.as_bytes(), &["--driver", "igb"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    insta::assert_snapshot!(shown, @r"
    standard input  igb  6 statistics  queues: 2 rx, 1 tx
    DIR  QUEUE  COUNTER  NAME                                   VALUE
    rx       2  drops    rx_queue_2_drops                           3
    rx       2  -        rx_queue_2_a\u001b[2Jb                     1
    rx      10  bytes    rx_queue_10_bytes       18446744073709551615
    tx       0  packets  tx_queue_0_packets                         2
    rx       -  packets  rx_packets                                 7
    -        -  -        collisions                                 0
    line 1 is no statistic: eth0
    line 9 is no statistic: rx_missed: many
    ");
}

#[test]
fn no_line_of_a_terminal_is_longer_than_80_columns() {
    for (list, driver) in lists() {
        let args = ["--driver", &driver];
        let (code, shown, said) = from_stdin(file(&list, "txt").as_bytes(), &args);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{list}");
        let longest = shown.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(longest.chars().count() <= 80, "{list}: {longest}");
        assert_eq!(shown.lines().count(), 2 + file(&list, "txt").lines().count(), "{list}");
    }
}

#[test]
fn json_is_what_its_schema_says_and_has_every_row() {
    let schema = nicctl(&["schema", "stats"]).output().unwrap().stdout;
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    for (list, driver) in lists() {
        let bare = file(&list, "txt");
        let (code, shown, _) = from_stdin(bare.as_bytes(), &["--driver", &driver, "--json"]);
        assert_eq!(code, Some(0));
        let document: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(schema::mismatch(&schema, &document), None, "{list}");
        assert_eq!(document["interfaces"], Value::Array(Vec::new()));
        let source = &document["sources"][0];
        assert_eq!(
            (&source["kind"], &source["driver"]),
            (&"driver strings".into(), &driver.into())
        );
        let rows = source["rows"].as_array().unwrap().iter();
        let again: String = rows
            .map(|row| format!("{}: {}\n", row["name"].as_str().unwrap(), row["value"]))
            .collect();
        assert_eq!(again, bare, "{list}");
    }
}

#[test]
fn each_list_of_an_archive_is_a_source() {
    let one = "NIC statistics:\n     rx_packets: 1\n";
    let (code, shown, _) =
        from_stdin(format!("{one}{one}no stats available\n").as_bytes(), &["--json"]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(document["sources"].as_array().unwrap().len(), 2);
    assert_eq!(document["sources"][1]["notes"][0]["line"], 5);
    assert_eq!(document["sources"][0]["driver"], Value::Null);
}

#[test]
fn what_is_no_list_is_refused() {
    for bytes in [&b""[..], b"\n\n", b"root:x:0:0:root:/root:/bin/bash\n", &[0; 4096]] {
        let (code, shown, said) = from_stdin(bytes, &[]);
        assert_eq!((code, shown.as_str()), (Some(2), ""), "{said}");
        assert!(said.contains("standard input has no statistics"), "{said}");
        assert!(said.contains("fix: save them: ethtool -S IFACE > FILE"), "{said}");
    }
    let (code, shown, _) = from_stdin(b"", &["--json"]);
    let refusal: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &refusal["error"]["code"]), (Some(2), &2.into()));
}

#[test]
fn what_has_no_end_has_one_here() {
    let (code, _, said) = from_stdin(&vec![b'x'; (4 << 20) + 1], &[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("standard input is larger than 4 MiB"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for file in ["/dev/zero", folder.path().to_str().unwrap(), pipe.to_str().unwrap()] {
        let output = nicctl(&["stats", "--from", file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("statistics {file} is not a regular file")), "{said}");
    }
    let output = nicctl(&["stats", "--from", "/nonexistent"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn ten_thousand_strings_and_names_of_any_bytes_are_read() {
    let mut saved = b"NIC statistics:\n".to_vec();
    for index in 0..10_000 {
        saved.extend(format!("     rx_queue_{index}_packets: {index}\n").into_bytes());
    }
    saved.extend(b"     \xff\xfe\0name: 1\n     rx_queue_0_packets: 5\n");
    saved.extend([b"     ".to_vec(), vec![b'n'; 100_000], b": 2".to_vec()].concat());
    let (code, shown, said) = from_stdin(&saved, &["--json"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&shown).unwrap();
    let rows = document["sources"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10_003);
    assert_eq!(
        (&rows[9_999]["queue"], &rows[9_999]["unified"]),
        (&9_999.into(), &"packets".into())
    );
    assert_eq!(rows[10_000]["name"], "\\xff\\xfe\0name");
    assert_eq!(rows[10_001]["value"], 5);
}

#[test]
fn what_is_of_this_machine_is_not_mixed_with_what_was_saved() {
    for other in [&["lo"][..], &["--watch"], &["--queue", "1"], &["--histogram"], &["--netns", "x"]]
    {
        let output = nicctl(&[&["stats", "--from", "-"], other].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{other:?}");
    }
    let output = nicctl(&["stats", "--driver", "ice"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_driver_that_is_not_known_is_told() {
    let (code, shown, said) = from_stdin(b"rx0_packets: 1\n", &["--driver", "other"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("packets"), "{shown}");
    assert!(said.contains("driver other is not in nicctl's tables"), "{said}");
}
