//! The command line itself: help, exit codes, schemas, completions, manual pages.

mod schema;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

fn nicctl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nicctl")).args(args).output().unwrap()
}

/// What a run that went well prints.
#[track_caller]
fn stdout(args: &[&str]) -> String {
    let output = nicctl(args);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The first word of every line of `text` between the lines `from` and the next empty one.
fn names<'t>(text: &'t str, from: &str) -> Vec<&'t str> {
    text.lines()
        .skip_while(|line| *line != from)
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn help_of_every_command_has_examples_and_exit_codes() {
    let help = stdout(&["--help"]);
    assert!(help.contains("\nExit codes:\n  0  "), "{help}");
    let commands = names(&help, "Commands:");
    assert!(commands.contains(&"decode"), "{commands:?}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let help = stdout(&[command, "--help"]);
        assert!(help.contains("\nExamples:\n  "), "{help}");
        assert!(help.contains("\nExit codes:\n  0  "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn every_refusal_of_a_command_that_is_to_print_json_is_a_document() {
    let schema = json(&stdout(&["schema", "error"]));
    for (args, code) in [
        (&["show", "nic-none", "--json"][..], 3),
        (&["show", "--json"], 2),
        (&["set", "lo", "--json"], 2),
        (&["set", "lo", "ring.rxx=1", "--json"], 2),
        (&["plan", "lo", "--profile", "/nowhere", "--json"], 1),
        (&["stats", "nic-none", "--json"], 3),
        (&["attach", "nic-none", "--json"], 3),
        (&["detach", "nic-none", "--json"], 3),
        (&["decode", "--json", "/nowhere"], 1),
        (&["doctor", "nic-none", "--json"], 3),
        (&["bench", "compare", "/nowhere", "/nowhere", "--json"], 1),
    ] {
        let output = nicctl(args);
        let document = json(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(schema::mismatch(&schema, &document), None, "{args:?}: {document}");
        let said = &document["error"];
        assert_eq!((output.status.code(), &said["code"]), (Some(code), &code.into()), "{args:?}");
        // What is said to people is the same.
        let message = said["message"].as_str().unwrap().lines().next().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{args:?}");
    }
}

#[test]
fn the_readme_has_the_exit_codes_of_help() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let rows = readme.lines().skip_while(|line| *line != "| exit code | meaning |").skip(2);
    let rows: Vec<_> = rows.map_while(|row| row.strip_prefix("| ")?.strip_suffix(" |")).collect();
    let help = stdout(&["--help"]);
    let codes = help.lines().skip_while(|line| *line != "Exit codes:").skip(1);
    let codes: Vec<_> = codes.map(|line| line.trim_start().replacen("  ", " | ", 1)).collect();
    assert!(codes.len() > 6, "{help}");
    assert_eq!(rows, codes);
}

#[test]
fn version_is_the_packages() {
    assert_eq!(stdout(&["--version"]), format!("nicctl {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_command_line_without_sense_is_a_usage_error() {
    for args in [&[][..], &["nonsense"], &["--nonsense"], &["schema", "nonsense"]] {
        let output = nicctl(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn every_schema_is_listed_and_has_a_version() {
    let list = stdout(&["schema"]);
    let names: Vec<_> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"decode"), "{list}");
    for name in names {
        let schema = json(&stdout(&["schema", name]));
        // A profile is what a user writes, and has none.
        let has_version = |schema: &Value| schema["properties"]["version"]["const"].is_u64();
        // One document, or one of several.
        let versioned = match schema["anyOf"].as_array() {
            Some(each) => each.iter().all(|one| {
                let name = one["$ref"].as_str().unwrap().trim_start_matches('#');
                has_version(schema.pointer(name).unwrap())
            }),
            None => has_version(&schema),
        };
        assert_eq!(versioned, name != "profile", "{schema}");
    }
}

#[test]
fn decode_prints_what_its_schema_says() {
    let schema = json(&stdout(&["schema", "decode"]));
    let tcp = "02000000000202000000000108004500002800010000400600000000000000000000\
               00500050000000000000000050000000";
    for frame in ["00", "0200000000020200000000010806", tcp] {
        let document = json(&stdout(&["decode", "--json", "--hex", frame]));
        assert_eq!(schema::mismatch(&schema, &document), None);
    }
}

#[test]
fn manual_pages_are_printed_or_written() {
    assert!(stdout(&["man"]).contains("\n.SH NAME\nnicctl"));
    let dir = TempDir::new().unwrap();
    // It is made.
    let dir = dir.path().join("man/man8");
    let path = dir.to_str().unwrap();
    assert_eq!(stdout(&["man", path]), "");
    let page = fs::read_to_string(dir.join("nicctl-decode.8")).unwrap();
    assert!(page.contains(".TH nicctl-decode 8 "), "{page}");
    for part in [".SH EXAMPLES\n", ".SH \"EXIT STATUS\"\n", "detailed", ".SH \"SEE ALSO\"\n"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let text = Command::new("man").args(["--warnings", "-l", &format!("{path}/nicctl.8")]).output();
    match text {
        Ok(text) => assert_eq!(String::from_utf8_lossy(&text.stderr), ""),
        Err(error) => eprintln!("skipped: man: {error}"),
    }
    let dated = Command::new(env!("CARGO_BIN_EXE_nicctl"))
        .arg("man")
        .env("SOURCE_DATE_EPOCH", "951782400")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&dated.stdout).contains("2000-02-29"));

    // Not through a link that somebody else may have made.
    let page = dir.join("nicctl-decode.8");
    let other = dir.join("other");
    fs::write(&other, "kept").unwrap();
    fs::remove_file(&page).unwrap();
    std::os::unix::fs::symlink(&other, &page).unwrap();
    let refused = nicctl(&["man", path]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("symbolic links"), "{said}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept");

    let missing = nicctl(&["man", "/dev/null/man8"]);
    assert_eq!(missing.status.code(), Some(1));
    let message = "nicctl: write manual pages to /dev/null/man8: Not a directory (os error 20)\n";
    assert_eq!(String::from_utf8(missing.stderr).unwrap(), message);
}

/// Every `name_of_a_test` in docs/security.md is one.
#[test]
fn the_tests_that_the_security_page_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = sources(&root.join("src")) + &sources(&root.join("tests"));
    let page = include_str!("../../docs/security.md");
    let quoted = page.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| word.matches('_').count() > 2 && !word.contains(['/', ' ']);
    let named: Vec<&str> = quoted.filter(is_test).collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        assert!(sources.contains(&format!("fn {name}()")), "there is no test {name}");
    }
}

fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    };
    entries.map(text).collect()
}
