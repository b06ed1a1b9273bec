//! Where this process was started, so that the commands it proposes can be pasted there.

use std::{env, fs, os::unix::process::parent_id, path::Path};

use clap::ArgMatches;

use crate::{
    command_line::Place,
    nic::namespace::{current_cookie, name_of_cookie},
};

/// The place of a command with these arguments.
pub(super) fn of(matches: &ArgMatches) -> Place {
    Place {
        netns: chosen_netns(matches).or_else(entered_netns),
        bpffs: matches.get_one("bpffs").cloned(),
        by_sudo: env::var("SUDO_COMMAND").is_ok_and(|command| runs_nicctl(&command)),
    }
}

/// The value of the command's `--netns`.
fn chosen_netns(matches: &ArgMatches) -> Option<String> {
    let here = matches.try_get_one::<String>("netns").ok().flatten().cloned();
    here.or_else(|| matches.subcommand().and_then(|(_, matches)| chosen_netns(matches)))
}

/// The namespace that `ip netns exec` entered between the shell and this process.
fn entered_netns() -> Option<String> {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let (shell, own) = (of(&parent_id().to_string())?, of("self")?);
    if shell == own {
        return None;
    }
    name_of_cookie(current_cookie().ok()?).ok()?
}

/// Whether sudo started nicctl itself, and not a shell that calls it.
fn runs_nicctl(command: &str) -> bool {
    command.split(' ').any(|word| Path::new(word).file_name().is_some_and(|it| it == "nicctl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sudo_of_nicctl_is_told_from_that_of_a_shell() {
        assert!(runs_nicctl("/usr/local/bin/nicctl attach eth0"));
        assert!(runs_nicctl("/usr/sbin/ip netns exec blue nicctl attach eth0"));
        assert!(!runs_nicctl("/bin/bash"));
    }
}
