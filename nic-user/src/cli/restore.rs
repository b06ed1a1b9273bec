//! `nicctl restore`: back to what there was before nicctl came.

use std::io::{self, Write};

use super::{settings::InterfaceArgs, target};
use crate::{
    bench::cards,
    control::{self, Journals, Undo, Whose, model::RestoreDocument, text, undo},
    error::{Error, Kind},
    report::{json, style::Style},
    transaction::{self, Subject, Wanted, subject},
};

/// Give back every setting that nicctl changed
///
/// Goes by what was written down before the first change, so it also helps after an apply or a
/// restore that was interrupted. What somebody else has changed since is left alone, and named. An
/// interface that only has the name of the one that was changed is told apart, and left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl restore eth0
  nicctl restore eth0 --dry-run
  nicctl restore eth0 --force")]
pub(super) struct Args {
    #[command(flatten)]
    interface: InterfaceArgs,

    /// Give settings back also where somebody else has changed them since
    #[arg(long)]
    force: bool,

    /// Say what would be given back, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema restore`)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let journals = Journals::system();
    let what = Undo { whose: Whose::Everybody, force: args.force };
    if args.dry_run {
        let mut device = open(args, &journals)?;
        let restored = undo::preview(&mut device, &journals, what)?;
        let former = subject::former_settings(&restored.interface, &journals)?;
        return Ok(report(&restored, &former, args, out)?);
    }
    let _lock = transaction::lock(&journals, target::say_waiting)?;
    // It may be where a bench that was killed had taken it.
    cards::give_back_with(args.interface.name())?;
    let mut device = open(args, &journals)?;
    let restored = control::undo(&mut device, &journals, what)?;
    let former = subject::former_settings(&restored.interface, &journals)?;
    for one in &former {
        transaction::settings(one, Wanted::Forget, &journals, false)?;
    }
    report(&restored, &former, args, out)?;
    restored.error().map_or(Ok(()), |error| Err(error.into()))
}

fn open(args: &Args, journals: &Journals) -> Result<control::KernelDevice, Error> {
    args.interface.open().map_err(|error| of_gone(error, args.interface.name(), journals))
}

/// With the way out for the journal of an interface that is no more.
fn of_gone(error: Error, name: &str, journals: &Journals) -> Error {
    let is_former = error.kind() == Kind::NotFound
        && subject::former_settings(name, journals).is_ok_and(|former| !former.is_empty());
    if !is_former {
        return error;
    }
    error.with_fix("its settings are gone with it; their journal goes with: nicctl detach --gone")
}

fn report(
    restored: &control::Restored,
    former: &[Subject],
    args: &Args,
    out: &mut dyn Write,
) -> io::Result<()> {
    if args.json {
        return json::write_pretty(out, &RestoreDocument::new(restored, !former.is_empty()));
    }
    text::write_restored(restored, out, Style::for_stdout())?;
    if !former.is_empty() {
        let name = &restored.interface;
        let removed = if args.dry_run { "would be removed" } else { "is removed" };
        writeln!(
            out,
            "{name}: an earlier interface of this name is no more; its journal {removed}"
        )?;
    }
    Ok(())
}
