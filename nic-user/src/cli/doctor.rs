//! `nicctl doctor`: checks the kernel, the driver and permissions.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::{name, target};
use crate::{
    control::Journals,
    doctor::{Finding, Interface, Leftovers, Machine, Status},
    error::{Error, Result},
    nic::{InterfaceName, Nic},
    report::{
        json::{self, Version},
        paragraph,
        style::Style,
    },
};

/// Check the kernel, the driver and permissions, and suggest fixes
///
/// Checks the kernel, the permissions of this process, leftovers of nicctl and, for an interface,
/// its driver, XDP and interrupts. The programs are test-loaded but not attached; nothing is
/// changed.
///
/// A problem keeps nicctl from attaching and sets exit code 1. A warning is something that does not
/// work or costs more than it should; a note is for information. Both leave the exit code 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl doctor
  nicctl doctor eth0
  nicctl doctor eth0 --json | jq '.interfaces[].findings[] | select(.status != \"ok\")'")]
pub(super) struct Args {
    /// Interfaces to check, besides the machine
    #[arg(value_name = "IFACE", value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,

    /// Print JSON (`nicctl schema doctor`)
    #[arg(long)]
    json: bool,
}

/// What `nicctl doctor --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    version: Version<1>,
    /// Whether nicctl can attach.
    healthy: bool,
    /// The machine, and nicctl's leftovers on it.
    machine: Vec<Finding>,
    /// One entry an interface.
    interfaces: Vec<Entry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Name of the interface.
    name: String,
    findings: Vec<Finding>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    // Some of its facts are to be seen only in the first network namespace.
    let machine = Machine::read();
    target::enter(args.netns.as_deref())?;
    let journals = Journals::system();
    let entry = |name: &String| -> Result<Entry> {
        let nic = Nic::by_name(&InterfaceName::new(name)?)?;
        let findings = Interface::read(nic, &journals)?.examine();
        Ok(Entry { name: name.clone(), findings })
    };
    let interfaces = args.interfaces.iter().map(entry).collect::<Result<Vec<_>>>()?;
    let machine = [machine.examine(), Leftovers::read(&journals).examine()].concat();
    let findings = machine.iter().chain(interfaces.iter().flat_map(|entry| &entry.findings));
    let problems = findings.filter(|finding| finding.status == Status::Problem).count();
    let document = Document { version: Version, healthy: problems == 0, machine, interfaces };
    if args.json {
        json::write_pretty(&mut *out, &document)?;
    } else {
        write(out, Style::for_stdout(), &document)?;
    }
    match problems {
        0 => Ok(()),
        1 => Err(Error::failed("one problem keeps nicctl from attaching").into()),
        _ => Err(Error::failed(format!("{problems} problems keep nicctl from attaching")).into()),
    }
}

fn write(out: &mut dyn Write, style: Style, document: &Document) -> io::Result<()> {
    writeln!(out, "{}", style.bold("this machine"))?;
    write_findings(out, style, &document.machine)?;
    for Entry { name, findings } in &document.interfaces {
        writeln!(out, "\n{}", style.bold(name))?;
        write_findings(out, style, findings)?;
    }
    Ok(())
}

/// Columns of the status and the check in front of what was found.
const MARGIN: usize = 22;

fn write_findings(out: &mut dyn Write, style: Style, findings: &[Finding]) -> io::Result<()> {
    for Finding { check, status, found, blocks, fix } in findings {
        let label = format!("{:<8} {check}", status.name());
        paragraph::write_text(out, style, (&label, MARGIN), found)?;
        for (label, text) in [("blocks", blocks), ("fix", fix)] {
            if let Some(text) = text {
                let label = format!("{:>1$}", format!("{label}: "), MARGIN);
                paragraph::write_text(out, Style::Plain, (&label, MARGIN), text)?;
            }
        }
    }
    Ok(())
}
