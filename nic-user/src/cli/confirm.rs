//! `nicctl confirm`: keep changes that would be reverted; and the option that asks for it.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Write},
    process::{ChildStdin, Command, Stdio},
};

use clap::Args as ClapArgs;
use schemars::JsonSchema;
use serde::Serialize;

use super::{guard, name, target};
use crate::{
    command_line::CommandLine,
    control::{Journals, pending::LONGEST},
    error::{Error, Result},
    nic::{
        InterfaceName, Nic,
        identity::{self, InterfaceId},
    },
    offload::bpffs_path,
    report::json::{self, Version},
};

/// Keep changes that were made with --confirm
///
/// Changes that `nicctl apply`, `set` or `attach` made with --confirm SECONDS are reverted after
/// that time unless confirmed: for those who work over the interface they are changing. A
/// background process reverts them; if it was killed, the next nicctl command that changes anything
/// does.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  nicctl set eth0 channels.combined=4 --confirm 60
  nicctl confirm eth0")]
pub(super) struct Args {
    /// Interfaces; by default, all of this network namespace (or that of --netns)
    #[arg(value_name = "IFACE", value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Print JSON (`nicctl schema confirm`)
    #[arg(long)]
    json: bool,
}

/// What `nicctl confirm --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// The interfaces whose changes stay.
    confirmed: Vec<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let journals = Journals::system();
    // Whatever is too late is given back before anything else.
    let _lock = target::lock(&journals)?;
    let (mut confirmed, mut first_error) = (Vec::new(), None);
    for (name, id) in target::each_once(interfaces(&args.interfaces)?, |(_, id)| *id) {
        match confirm(&name, id, &journals) {
            Ok(true) => confirmed.push(name),
            Ok(false) if args.interfaces.is_empty() => {}
            Ok(false) => first_error = first_error.or(Some(nothing_waits(&format!(" of {name}")))),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    if confirmed.is_empty() {
        return Err(first_error.unwrap_or_else(|| nothing_waits("")).into());
    }
    if args.json {
        json::write_pretty(out, &Document { version: Version, confirmed })?;
    } else {
        confirmed.iter().try_for_each(|name| writeln!(out, "{name}: confirmed"))?;
    }
    first_error.map_or(Ok(()), |error| Err(error.into()))
}

/// Keeps the pending changes of an interface; returns whether there were any.
fn confirm(name: &str, id: InterfaceId, journals: &Journals) -> Result<bool> {
    let Some(pending) = journals.pending(id)? else { return Ok(false) };
    if pending.deadline.left()?.is_none() {
        let file = journals.pending_file(id);
        return Err(Error::failed(format!(
            "{name}: too late to confirm, and the changes could not be reverted"
        ))
        .with_fix(format!(
            "{}; or to keep {name} as it is now, remove {}",
            CommandLine::nicctl("restore").on(name).quoted(),
            file.display()
        )));
    }
    journals.remove_pending(id)?;
    Ok(true)
}

fn interfaces(names: &[String]) -> Result<Vec<(String, InterfaceId)>> {
    if names.is_empty() {
        return Ok(identity::all()?.into_iter().map(|it| (it.name, it.id)).collect());
    }
    let of = |name| {
        let nic = Nic::by_name(&InterfaceName::new(name)?)?;
        Ok((nic.name().to_owned(), InterfaceId::of(&nic.link)?))
    };
    names.iter().map(of).collect()
}

fn nothing_waits(of: &str) -> Error {
    Error::not_found(format!("nothing{of} is pending confirmation")).with_fix(format!(
        "it may have been too late: {} shows what is changed",
        CommandLine::nicctl("list").quoted()
    ))
}

/// Asks for changes to be reverted unless confirmed.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub(super) struct ConfirmArgs {
    /// Revert everything after SECONDS unless `nicctl confirm` comes first
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=i64::from(LONGEST)))]
    confirm: Option<u32>,
}

impl ConfirmArgs {
    /// If asked for, and if there is something to change: a guard at its post.
    pub(super) fn guard(self, is_to_change: bool) -> Result<Option<Guard>> {
        if self.confirm.is_none() || !is_to_change {
            return Ok(None);
        }
        let guard = Guard::post()
            .map_err(|error| Error::io("start the process that reverts the changes", &error))?;
        Ok(Some(guard))
    }

    /// The seconds left to confirm what was changed.
    pub(super) fn seconds(self, is_changed: bool) -> Option<u32> {
        self.confirm.filter(|_| is_changed)
    }
}

/// A process that reverts what is not confirmed in time.
pub(super) struct Guard {
    /// Closed by this process, or with it, once everything to guard is written down.
    _changing: Option<ChildStdin>,
}

impl Guard {
    /// Starts it, and waits until whatever ends this process no longer ends it.
    fn post() -> io::Result<Self> {
        let mut guard = Command::new("/proc/self/exe")
            .arg(guard::NAME)
            .arg("--bpffs")
            .arg(bpffs_path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = String::new();
        if let Some(stdout) = guard.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        match said == guard::AT_POST {
            true => Ok(Self { _changing: guard.stdin.take() }),
            false => Err(io::Error::other(format!("it ended: {}", guard.wait()?))),
        }
    }
}

/// Says how to keep what was changed.
pub(super) fn write_how(
    interface: &str,
    netns: Option<&str>,
    seconds: impl fmt::Display,
    out: &mut dyn Write,
) -> io::Result<()> {
    let confirm = CommandLine::nicctl("confirm").on(interface).in_netns(netns);
    writeln!(out, "{interface}: reverted in {seconds} s unless confirmed: {confirm}")
}
