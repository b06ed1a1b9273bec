//! `nicctl list`: what is attached where.

use std::io::{self, Write};

use nic_common::record::AttachRecord;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    located::{self, Located, Unreadable},
    name, target,
};
use crate::report::{
    json::{self, Version},
    style::Style,
    table::{Align, Table},
    time::rfc3339,
};

/// List what is attached where: mode, since when, programs
///
/// Mode `gone` is an interface that no longer exists, `half-made` one whose attach or detach goes
/// on or was interrupted, `unreadable` one whose pins were damaged or
/// made by another version of nicctl; `nicctl detach` clears each away.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl list
  nicctl list --json | jq -r '.interfaces[].name'")]
pub(super) struct Args {
    /// Look only in this network namespace, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Print JSON (`nicctl schema list`)
    #[arg(long)]
    json: bool,
}

/// What `nicctl list --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// One entry an attachment.
    interfaces: Vec<Entry>,
    /// Attachments that cannot be read.
    unreadable: Vec<Broken>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Broken {
    /// Name of the interface, if it is known.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// The network namespace, unless it is the present one.
    netns: Option<String>,
    /// What is wrong.
    reason: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Name of the interface, or its last known one.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// The network namespace, unless it is the present one.
    netns: Option<String>,
    /// XDP mode: `native`, `generic` or `offload`; `gone`, `partial` or `half-made` otherwise.
    mode: &'static str,
    /// Build of the XDP program: `single-buffer` or `frags`.
    build: &'static str,
    /// How the TC programs are attached: `tcx` or `clsact`.
    tc: &'static str,
    /// Whether TC ingress pulls small packets together.
    pull: bool,
    /// Whether malformed frames are logged.
    log: bool,
    /// When it was first attached (RFC 3339).
    attached_at: String,
    /// Id of the XDP program; null if the interface is gone.
    xdp_program: Option<u32>,
    /// Id of the TC ingress program, where it is a TCX link.
    ingress_program: Option<u32>,
    /// Id of the TC egress program, where it is a TCX link.
    egress_program: Option<u32>,
    /// Version of the nicctl that loaded the programs.
    object_version: String,
    /// Whether the interface is gone, and only counters are left.
    stale: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    target::enter(args.netns.as_deref())?;
    let (attachments, unreadable) = located::all(args.netns.as_deref())?;
    let document = Document {
        version: Version,
        interfaces: attachments.into_iter().map(Entry::from).collect(),
        unreadable: unreadable.into_iter().map(Broken::from).collect(),
    };
    if args.json {
        json::write_pretty(out, &document)?;
    } else {
        table(&document, out)?;
    }
    Ok(())
}

fn table(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    let Document { interfaces, unreadable, .. } = document;
    if interfaces.is_empty() && unreadable.is_empty() {
        return writeln!(out, "nothing is attached");
    }
    let mut table = Table::new([
        ("INTERFACE", Align::Left),
        ("NETNS", Align::Left),
        ("MODE", Align::Left),
        ("SINCE", Align::Left),
        ("XDP", Align::Right),
        ("IN", Align::Right),
        ("OUT", Align::Right),
        ("VERSION", Align::Left),
    ]);
    let none = || "-".to_owned();
    let id = |id: Option<u32>| id.map_or_else(none, |id| id.to_string());
    for entry in interfaces {
        table.push([
            entry.name.clone(),
            entry.netns.clone().unwrap_or_else(none),
            if entry.stale { "gone" } else { entry.mode }.to_owned(),
            entry.attached_at.clone(),
            id(entry.xdp_program),
            id(entry.ingress_program),
            id(entry.egress_program),
            entry.object_version.clone(),
        ]);
    }
    for broken in unreadable {
        let netns = broken.netns.clone().unwrap_or_else(none);
        let mode = "unreadable".to_owned();
        table.push([broken.name.clone(), netns, mode, none(), none(), none(), none(), none()]);
    }
    table.write(out, Style::for_stdout())?;
    for Broken { name, reason, .. } in unreadable {
        writeln!(out, "{name}: {reason}")?;
    }
    Ok(())
}

impl From<Unreadable> for Broken {
    fn from(Unreadable { ifindex, name, netns, error }: Unreadable) -> Self {
        let fix = error.fix().map(|fix| format!("; {fix}")).unwrap_or_default();
        Self { name, ifindex, netns, reason: format!("{error}{fix}") }
    }
}

impl From<Located> for Entry {
    fn from(located: Located) -> Self {
        let Located { attachment, name, netns } = located;
        let record = attachment.record();
        let [ingress_program, egress_program] = attachment.tc_programs();
        Self {
            name,
            ifindex: attachment.ifindex(),
            netns,
            mode: attachment.state(),
            build: if record.has(AttachRecord::FRAGS) { "frags" } else { "single-buffer" },
            tc: if record.has(AttachRecord::CLSACT) { "clsact" } else { "tcx" },
            pull: record.has(AttachRecord::PULL),
            log: record.has(AttachRecord::LOG),
            attached_at: rfc3339(attachment.attached_at()),
            xdp_program: attachment.xdp_program(),
            ingress_program,
            egress_program,
            object_version: attachment.version(),
            stale: attachment.is_stale(),
        }
    }
}
