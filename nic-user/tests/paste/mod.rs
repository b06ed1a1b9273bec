//! What a user does with a command that is printed: copy, paste.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::{
    env,
    path::Path,
    process::{Command, Output},
};

/// What a shell starts with, so that its `nicctl` is the one that was built.
pub fn path() -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_nicctl")).parent().unwrap().display();
    format!("{built}:{}", env::var("PATH").unwrap_or_default())
}

/// What bash makes of these words.
pub fn paste(words: &str) -> Output {
    Command::new("bash").args(["-c", words]).env("PATH", path()).output().unwrap()
}

/// What programs are called that nicctl proposes.
const PROGRAMS: [&str; 14] = [
    "bpftool", "chown", "ip", "kill", "modprobe", "mount", "mv", "nicctl", "nsenter", "ss", "sudo",
    "sysctl", "tc", "chmod",
];

/// The commands in what was printed: a whole fix, or what is between backquotes.
pub fn commands(text: &str) -> Vec<String> {
    let is_command = |words: &&str| {
        words.split_once(' ').is_some_and(|(program, _)| PROGRAMS.contains(&program))
    };
    let whole = text.lines().map(|line| {
        let behind =
            ["fix: ", "unless confirmed: "].iter().find_map(|label| line.split_once(label));
        behind.map_or(line, |(_, command)| command)
    });
    let whole = whole.filter(is_command).filter(|line| !line.contains('`'));
    let quoted = text.split('`').skip(1).step_by(2).filter(is_command);
    whole.chain(quoted).map(str::to_owned).collect()
}
