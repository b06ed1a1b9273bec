//! Completions as a shell asks for them: of commands and options, and of the names of interfaces,
//! network namespaces, settings and profiles that there are.

mod common;

use std::{
    path::Path,
    process::{Command, Output},
};

use nic_user::lab::{Lab, Shape};

const NICCTL: &str = env!("CARGO_BIN_EXE_nicctl");

fn completed(output: Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What bash suggests for the last of `words`, by the script that nicctl prints.
fn in_bash(words: &[&str]) -> Vec<String> {
    let script = "source <(nicctl completions bash); \
        COMP_WORDS=(nicctl \"$@\") COMP_CWORD=$#; \
        _clap_complete_nicctl nicctl \"${@: -1}\" \"\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let directory = Path::new(NICCTL).parent().unwrap();
    let path = format!("{}:{}", directory.display(), env!("PATH"));
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).args(words).env("PATH", path);
    completed(bash.output().unwrap())
}

/// What nicctl answers a shell's script. Fish gives the word that is completed last, zsh its number.
fn asked_by(shell: &str, words: &[&str]) -> Vec<String> {
    let mut nicctl = Command::new(NICCTL);
    nicctl.env("NICCTL_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    completed(nicctl.args(["--", "nicctl"]).args(words).output().unwrap())
}

#[track_caller]
fn assert_has(suggested: &[String], names: &[&str]) {
    for name in names {
        assert!(suggested.iter().any(|word| word == name), "{name} is not in {suggested:?}");
    }
}

#[test]
fn every_shell_gets_a_script_that_asks_nicctl() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = Command::new(NICCTL).args(["completions", shell]).output().unwrap();
        let script = completed(script).join("\n");
        assert!(script.contains("NICCTL_COMPLETE") && !script.contains(NICCTL), "{script}");
    }
}

#[test]
fn commands_options_and_profiles_are_suggested() {
    assert_has(&in_bash(&["att"]), &["attach"]);
    assert_has(&in_bash(&["attach", "--rx-c"]), &["--rx-copybreak"]);
    assert_has(&in_bash(&["attach", "--mode", ""]), &["auto", "native", "tc"]);
    assert_has(&in_bash(&["apply", "lo", "--profile", "lat"]), &["latency"]);
    assert!(!in_bash(&[""]).contains(&"guard".to_owned()));
}

#[test]
fn interfaces_are_suggested_in_every_shell() {
    assert_has(&in_bash(&["show", "l"]), &["lo"]);
    for shell in ["fish", "zsh"] {
        assert_has(&asked_by(shell, &["show", "l"]), &["lo"]);
    }
}

#[test]
fn settings_of_an_interface_are_suggested_once_it_is_named() {
    let suggested = in_bash(&["set", "lo", "link."]);
    assert_has(&suggested, &["link.mtu="]);
    assert!(suggested.iter().all(|word| word.starts_with("link.")), "{suggested:?}");
    assert_has(&in_bash(&["set", "--all", ""]), &["ring.", "feature."]);
    assert!(!in_bash(&["plan", ""]).iter().any(|word| word.contains('=')));
}

#[test]
fn names_are_those_of_the_network_namespace_that_was_typed() {
    needs_root!();
    let lab = Lab::new(Shape::default()).unwrap();
    let netns = lab.a().netns_name();
    assert_has(&in_bash(&["stats", "--netns", "nic-"]), &[netns]);
    assert_has(&in_bash(&["stats", "--netns", netns, "nic-"]), &["nic-a"]);
    let settings = in_bash(&["set", "--netns", netns, "nic-a", "channels."]);
    assert_has(&settings, &["channels.rx="]);
    assert!(in_bash(&["stats", "--netns", "nic-none", "nic-"]).concat().is_empty());
}
