//! `nicctl list`: where nicctl is attached, and which interfaces have changed settings.

use std::io::{self, Write};

use nic_common::record::AttachRecord;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    confirm,
    located::{self, Located, Unreadable},
    name, target,
};
use crate::{
    control::{Journals, Pending},
    error::Result,
    nic::{census::Presence, namespace},
    offload::Build,
    report::{
        json::{self, Version},
        style::Style,
        table::{Align, Table},
        time::rfc3339,
    },
    transaction::{
        Subject,
        subject::{self, Found},
    },
};

/// List attachments and changed settings
///
/// SET is how many settings of an interface nicctl has changed; `nicctl restore` restores them.
/// Mode `gone` means the interface no longer exists, `half-made` that an attach or detach is
/// running or was interrupted, `unreadable` that the pins are damaged or from another version of
/// nicctl; `nicctl detach` clears each of these.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl list
  nicctl list --json | jq -r '.interfaces[].name'")]
pub(super) struct Args {
    /// Only look in this network namespace, as `ip netns` names it
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
    /// One entry for each interface with changed settings, attached or not.
    settings: Vec<Changed>,
}

/// Settings of an interface that `nicctl restore` restores.
#[derive(Debug, Serialize, JsonSchema)]
struct Changed {
    /// Name of the interface, or its last known one.
    name: String,
    /// Its index in its network namespace; 0 if it is gone.
    ifindex: u32,
    /// The network namespace, unless it is the current one.
    netns: Option<String>,
    /// How many settings.
    count: usize,
    /// Who changed them: `attach`, `set`, `profile NAME`.
    owners: Vec<String>,
    /// Whether the interface is gone, and only its journal is left.
    gone: bool,
    /// Seconds until changes are reverted unless `nicctl confirm` comes first; 0 if they are
    /// overdue and the next command that changes anything reverts them.
    confirm_within: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Broken {
    /// Name of the interface, if known.
    name: String,
    /// Its index in its network namespace.
    ifindex: u32,
    /// The network namespace, unless it is the current one.
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
    /// The network namespace, unless it is the current one.
    netns: Option<String>,
    /// XDP mode: `native`, `generic` or `offload`; `tc` without XDP; `gone`, `partial` or
    /// `half-made` otherwise.
    mode: &'static str,
    /// Build of the XDP program: `single-buffer` or `frags`; null without one.
    build: Option<&'static str>,
    /// How the TC programs are attached: `tcx` or `clsact`.
    tc: &'static str,
    /// Whether TC ingress linearizes fragmented small packets.
    pull: bool,
    /// Whether malformed frames are logged.
    log: bool,
    /// When it was first attached (RFC 3339).
    attached_at: String,
    /// Id of the XDP program; null without one.
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
    let netns = args.netns.as_deref();
    target::enter(netns)?;
    let journals = Journals::system();
    let Found { subjects, mut unread } = subject::all(located::scope(netns), &journals)?;
    let here = namespace::current_cookie()?;
    let mut settings = Vec::new();
    for subject in &subjects {
        match changed(subject, here, netns, &journals) {
            Ok(changed) => settings.extend(changed),
            Err(error) => unread.push(error),
        }
    }
    let (attachments, unreadable) = located::of(subjects, netns)?;
    let document = Document {
        version: Version,
        interfaces: attachments.into_iter().map(Entry::from).collect(),
        unreadable: unreadable.into_iter().map(Broken::from).collect(),
        settings,
    };
    if args.json {
        json::write_pretty(out, &document)?;
    } else {
        table(&document, out)?;
    }
    unread.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}

/// The changed settings of an interface, if any, including unconfirmed ones.
fn changed(
    subject: &Subject,
    here: u64,
    netns: Option<&str>,
    journals: &Journals,
) -> Result<Option<Changed>> {
    let place = subject.presence.place();
    let pending = place.map(|place| journals.pending(place.id)).transpose()?.flatten();
    let left = |pending: Pending| pending.deadline.left().map(Option::unwrap_or_default);
    let confirm_within = pending.map(left).transpose()?;
    let noted = subject.journal.as_ref();
    if noted.is_none() && confirm_within.is_none() {
        return Ok(None);
    }
    let owners = noted.iter().flat_map(|noted| &noted.owners);
    Ok(Some(Changed {
        name: subject.name.clone(),
        ifindex: place.map_or(0, |place| place.ifindex),
        netns: located::netns_of(subject, here, netns),
        count: noted.map_or(0, |noted| noted.settings),
        owners: owners.map(ToString::to_string).collect(),
        gone: matches!(subject.presence, Presence::Gone),
        confirm_within,
    }))
}

fn table(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    let Document { interfaces, unreadable, settings, .. } = document;
    if interfaces.is_empty() && unreadable.is_empty() && settings.is_empty() {
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
        ("SET", Align::Right),
    ]);
    let none = || "-".to_owned();
    let id = |id: Option<u32>| id.map_or_else(none, |id| id.to_string());
    let mut without: Vec<&Changed> = settings.iter().collect();
    for entry in interfaces {
        let is_same = |it: &&Changed| (&it.name, &it.netns) == (&entry.name, &entry.netns);
        let position = without.iter().position(is_same);
        let set = position.map(|position| without.remove(position).count);
        table.push([
            entry.name.clone(),
            entry.netns.clone().unwrap_or_else(none),
            if entry.stale { "gone" } else { entry.mode }.to_owned(),
            to_the_minute(&entry.attached_at),
            id(entry.xdp_program),
            id(entry.ingress_program),
            id(entry.egress_program),
            set.map_or_else(none, |set| set.to_string()),
        ]);
    }
    for broken in unreadable {
        let netns = broken.netns.clone().unwrap_or_else(none);
        let mode = "unreadable".to_owned();
        let name = broken.name.clone();
        table.push([name, netns, mode, none(), none(), none(), none(), none()]);
    }
    for Changed { name, netns, count, gone, .. } in without {
        let mode = if *gone { "gone".to_owned() } else { none() };
        let (name, netns) = (name.clone(), netns.clone().unwrap_or_else(none));
        let set = count.to_string();
        table.push([name, netns, mode, none(), none(), none(), none(), set]);
    }
    table.write(out, Style::for_stdout())?;
    for Entry { name, object_version, .. } in interfaces {
        if object_version != env!("CARGO_PKG_VERSION") {
            writeln!(out, "{name}: attached by nicctl {object_version}")?;
        }
    }
    for Broken { name, reason, .. } in unreadable {
        writeln!(out, "{name}: {reason}")?;
    }
    for Changed { name, netns, confirm_within, .. } in settings {
        if let Some(seconds) = confirm_within {
            confirm::write_how(name, netns.as_deref(), *seconds, out)?;
        }
    }
    Ok(())
}

/// `YYYY-MM-DDThh:mmZ`: the table fits into 80 columns.
fn to_the_minute(time: &str) -> String {
    time.rsplit_once(':').map_or_else(|| time.to_owned(), |(minutes, _)| format!("{minutes}Z"))
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
            build: attachment.build().map(Build::name),
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
