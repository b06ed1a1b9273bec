//! `nicctl restore`: back to what there was before nicctl came.

use std::io::{self, Write};

use super::{settings::InterfaceArgs, target};
use crate::{
    bench::cards,
    control::{self, Journals, model::RestoreDocument, text},
    error::{Error, Kind},
    nic::namespace,
    offload::Lock,
    report::{json, style::Style, terminal::say},
    transaction,
};

/// Give back every setting that nicctl changed
///
/// Goes by what was written down before the first change, so it also helps after an apply or a
/// restore that was interrupted. An interface that only has the name of the one that was changed
/// is told apart, and left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl restore eth0
  nicctl restore eth0 --dry-run")]
pub(super) struct Args {
    #[command(flatten)]
    interface: InterfaceArgs,

    /// Say what would be given back, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON (`nicctl schema restore`)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    // It may be where a bench that was killed had taken it.
    let given = if args.dry_run { Ok(()) } else { cards::give_back_all() };
    let journals = Journals::system();
    let device = args.interface.open().map_err(|error| of_gone(error, &args.interface, &journals));
    if let Err(error) = given {
        if device.is_err() {
            return Err(error.into());
        }
        say(error);
    }
    let mut device = device?;
    let restored = if args.dry_run {
        control::restore::preview(&mut device, &journals)?
    } else {
        let _lock = Lock::take(target::say_waiting)?;
        control::restore(&mut device, &journals)?
    };
    report(&restored, args.json, out)?;
    restored.error().map_or(Ok(()), |error| Err(error.into()))
}

/// With the way out for the journal of an interface that is no more.
fn of_gone(error: Error, interface: &InterfaceArgs, journals: &Journals) -> Error {
    let netns = match error.kind() {
        Kind::NotFound => namespace::current_cookie(),
        _ => return error,
    };
    let former = netns.and_then(|netns| transaction::former(journals, interface.name(), netns));
    if !former.is_ok_and(|former| !former.is_empty()) {
        return error;
    }
    error.with_fix("its settings are gone with it; their journal goes with: nicctl detach --gone")
}

fn report(restored: &control::Restored, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        return json::write_pretty(out, &RestoreDocument::from(restored));
    }
    text::write_restored(restored, out, Style::for_stdout())
}
