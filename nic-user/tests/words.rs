//! Commands are proposed in one way only: what is written into a text by hand is not quoted, and
//! forgets where it is printed.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How a command begins that nicctl proposes, or could do itself.
const COMMANDS: [&str; 24] = [
    "nicctl attach",
    "nicctl detach",
    "nicctl set",
    "nicctl apply",
    "nicctl plan",
    "nicctl show",
    "nicctl restore",
    "nicctl confirm",
    "nicctl stats",
    "nicctl list",
    "nicctl log",
    "nicctl forward",
    "nicctl --bpffs",
    "ethtool -",
    "ip link",
    "ip -n",
    "ip route",
    "ip netns ",
    "mount -",
    "sysctl ",
    "bpftool ",
    "tc qdisc",
    "kill -",
    "modprobe ",
];

/// Where the namespace or what a command is called is spoken of, and nothing is proposed.
const ALLOWED: [&str; 4] =
    ["`tc qdisc del`", "`ip netns exec`", "schemars(title", "override_usage"];

#[test]
fn commands_are_made_and_not_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 200);
    let mut written = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in (1..).zip(code.lines()) {
            if is_written(line) {
                written.push(format!("{}:{number}: {line}", file.display()));
            }
        }
    }
    assert!(written.is_empty(), "{}", written.join("\n"));
}

fn is_written(line: &str) -> bool {
    let line = line.trim_start();
    // Comments, and the examples of a command's help.
    let is_told = line.starts_with("//") || line.starts_with("nicctl ");
    let is_allowed = is_told || ALLOWED.iter().any(|allowed| line.contains(allowed));
    !is_allowed && COMMANDS.iter().any(|command| line.contains(command))
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    // A table of documents is told of by the commands that print them.
    const OTHERS: [&str; 4] = ["command_line.rs", "schema.rs", "tests.rs", "fake.rs"];
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !OTHERS.contains(&name) {
            found.push(path);
        }
    }
}

#[test]
fn what_is_written_is_found() {
    assert!(is_written(r#"    .with_fix(format!("nicctl attach {name}"))"#));
    assert!(is_written(r#"    "`ethtool -K eth0 gro on`","#));
    assert!(!is_written("  nicctl attach eth0"));
    assert!(!is_written("/// as `nicctl attach` does"));
}
