//! `nicctl log`: follow the log of malformed frames.

use std::{
    io::{self, Write},
    time::SystemTime,
};

use nic_common::record::AttachRecord;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    located::{self, Located},
    name, target,
};
use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    offload,
    report::{
        json::{self, Version},
        time::rfc3339,
    },
};

/// Follow the log of malformed frames, until interrupted
///
/// Needs an interface that was attached with --log. Frames are logged a sample at a time, so that
/// a flood of them cannot flood the log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl attach eth0 --log && nicctl log eth0
  nicctl log --json")]
pub(super) struct Args {
    /// Interface to follow; all attached ones if there is none
    #[arg(value_name = "IFACE", value_parser = name::interface())]
    interface: Option<String>,

    /// Network namespace of the interface, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Print one JSON document a line (`nicctl schema log`)
    #[arg(long)]
    json: bool,
}

/// One line of `nicctl log --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// When nicctl received the message: RFC 3339, UTC.
    time: String,
    /// Name of the interface.
    interface: String,
    /// What its program says.
    message: String,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let attachments = match &args.interface {
        Some(name) => located::named(std::slice::from_ref(name), args.netns.as_deref())?,
        None => located::all(args.netns.as_deref())?.0,
    };
    let logged = logged(attachments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("wait for messages", &error))?;
    tokio::task::LocalSet::new().block_on(&runtime, follow(logged, args.json, out))
}

/// Those that log, or why there are none.
fn logged(attachments: Vec<Located>) -> Result<Vec<Located>> {
    let (logged, silent): (Vec<_>, Vec<_>) = attachments
        .into_iter()
        .partition(|located| located.attachment.record().has(AttachRecord::LOG));
    match (logged.is_empty(), silent.first()) {
        (false, _) => Ok(logged),
        (true, Some(first)) => {
            Err(Error::not_found(format!("{} was attached without --log", first.name))
                .with_fix(attach(&first.name, first.netns.as_deref())))
        }
        (true, None) => {
            Err(Error::not_found("nothing is attached").with_fix("attach to interfaces with --log"))
        }
    }
}

/// The command that makes an interface log.
fn attach(name: &str, netns: Option<&str>) -> CommandLine {
    CommandLine::nicctl("attach").on(name).option("--log").in_netns(netns)
}

/// Prints the messages of all of them as they come, until interrupted.
async fn follow(logged: Vec<Located>, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let mut followers = JoinSet::new();
    for Located { attachment, name, .. } in logged {
        let sender = sender.clone();
        followers.spawn_local(async move {
            // Nobody listens any more only when this ends, too.
            let send = |message: &str| drop(sender.send((name.clone(), message.to_owned())));
            offload::follow(&attachment, send).await
        });
    }
    loop {
        tokio::select! {
            Some((interface, message)) = messages.recv() => {
                print(interface, message, json, out)?;
                if messages.is_empty() {
                    out.flush()?;
                }
            }
            Some(Ok(Err(error))) = followers.join_next() => return Err(error.into()),
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

fn print(interface: String, message: String, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let time = rfc3339(SystemTime::now());
        return json::write_line(out, &Document { version: Version, time, interface, message });
    }
    writeln!(out, "{interface}: {message}")
}
