//! `nicctl completions`: completion scripts for shells, and the answers that they ask for: names of
//! interfaces, network namespaces, settings and profiles.

use std::{
    env,
    ffi::OsStr,
    io::{self, Write},
};

use clap::{Arg, Command};
use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCompleter, CompletionCandidate},
    env::Shells,
};

use crate::{
    control::profile::Profile,
    error::Result,
    netlink::{self, link::Links},
    nic::{
        InterfaceName, Nic,
        namespace::{NetNs, named_namespaces},
        setting::{Access, Group},
        settings,
    },
};

/// Print a completion script for a shell
///
/// Completes commands and options, and the names of interfaces, network namespaces, settings and
/// profiles that exist.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl completions bash > /usr/share/bash-completion/completions/nicctl
  source <(nicctl completions zsh)")]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Set by the script: the shell that asks.
const VARIABLE: &str = "NICCTL_COMPLETE";

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells
        .completer(&shell)
        .ok_or_else(|| io::Error::other(format!("no completions for {shell}")))?;
    shell.write_registration(VARIABLE, "nicctl", "nicctl", "nicctl", out)?;
    Ok(())
}

/// Answers the script of a shell, if it is one that calls; whether it is.
pub(super) fn answer(command: fn() -> Command) -> bool {
    let complete = CompleteEnv::with_factory(|| with_completers(command())).var(VARIABLE);
    // Whatever goes wrong, there is nothing to suggest: a message would end up in the user's prompt.
    env::var_os(VARIABLE).is_some()
        && complete.try_complete(env::args_os(), env::current_dir().ok().as_deref()).is_ok()
}

fn with_completers(command: Command) -> Command {
    let with_completer = |arg: Arg| match completer(&arg) {
        Some(names) => {
            arg.add(ArgValueCompleter::new(move |typed: &OsStr| matching(names(), typed)))
        }
        None => arg,
    };
    command.mut_args(with_completer).mut_subcommands(with_completers)
}

/// What completes the values of an argument, by their name in its help.
fn completer(arg: &Arg) -> Option<fn() -> Vec<String>> {
    let value = arg.get_value_names()?.first()?.as_str();
    match (arg.get_long(), value) {
        (Some("netns"), _) => Some(namespaces),
        (Some("profile"), _) => Some(profiles),
        (_, "IFACE" | "A" | "B") => Some(interfaces),
        (_, "IFACE|GROUP.NAME=VALUE") => Some(interfaces_and_settings),
        _ => None,
    }
}

fn matching(names: Vec<String>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let begins = |name: &String| typed.to_str().is_some_and(|typed| name.starts_with(typed));
    names.into_iter().filter(begins).map(CompletionCandidate::new).collect()
}

fn namespaces() -> Vec<String> {
    named_namespaces().unwrap_or_default()
}

fn profiles() -> Vec<String> {
    Profile::built_in().iter().map(|&(name, _)| name.to_owned()).collect()
}

fn interfaces() -> Vec<String> {
    let list = || -> Result<Vec<String>> {
        let links = Links::open().and_then(|mut links| links.all());
        let links = links.map_err(|error: netlink::Error| error.while_doing("list interfaces"))?;
        Ok(links.into_iter().map(|link| link.name).collect())
    };
    in_namespace(list).unwrap_or_default()
}

/// Interfaces, and once one is named, its settings.
fn interfaces_and_settings() -> Vec<String> {
    let interfaces = interfaces();
    let words = words();
    let named = words.iter().find(|word| interfaces.contains(word));
    let settings = match named {
        Some(name) => in_namespace(|| settings_of(name)).unwrap_or_default(),
        None if words.iter().any(|word| word == "--all") => {
            Group::ALL.iter().map(|group| format!("{group}.")).collect()
        }
        None => Vec::new(),
    };
    interfaces.into_iter().chain(settings).collect()
}

/// The settings of an interface that can be changed, up to their values.
fn settings_of(interface: &str) -> Result<Vec<String>> {
    let nic = Nic::by_name(&InterfaceName::new(interface)?)?;
    let settings = settings::read(&nic)?;
    let can_be_set =
        settings.into_iter().filter(|(_, setting)| setting.access == Access::ReadWrite);
    Ok(can_be_set.map(|(key, _)| format!("{key}=")).collect())
}

/// Runs `list` in the network namespace that the command line names so far.
fn in_namespace(list: impl FnOnce() -> Result<Vec<String>> + Send) -> Result<Vec<String>> {
    match netns() {
        Some(name) => NetNs::named(&name)?.run(list)?,
        None => list(),
    }
}

/// The value of `--netns` that was typed.
fn netns() -> Option<String> {
    let joined = |word: &String| Some(word.strip_prefix("--netns=")?.to_owned());
    let words = words();
    let after = words.iter().skip_while(|word| *word != "--netns").nth(1);
    after.cloned().or_else(|| words.iter().find_map(joined))
}

/// The words of the command line that is completed: the script hands them over behind a `--`. Bash
/// makes a word of each `=`.
fn words() -> Vec<String> {
    let words = env::args_os().skip_while(|word| word != "--").skip(2);
    words.filter_map(|word| word.into_string().ok()).filter(|word| word != "=").collect()
}
