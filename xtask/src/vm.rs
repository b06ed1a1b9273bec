//! `cargo xtask vm`: nicctl on other kernels and on the drivers of real network cards, in guests
//! under QEMU's software emulation. Nothing of it needs KVM, root, or a network after the first
//! time.

mod guest;
mod initramfs;
mod kernel;
mod modules;
mod netdevsim;
pub mod packages;
mod qemu;
mod table;
mod unpack;

use std::{
    fs,
    io::Write,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Result, bail};

use self::{
    guest::Programs,
    kernel::Kernel,
    qemu::{NICS, Nic, Qemu},
    table::Table,
};
use crate::{
    process::root,
    test::tally::{Output, Tally},
};

/// Kernels that the tests always run on: Debian 12's, and the next one with long-term support.
const KERNELS: [&str; 2] = ["6.1", "6.12"];
const NEWER_KERNELS: [&str; 2] = ["6.18", "7.3"];

/// Guests that run at once: emulation keeps a core busy, or two.
const AT_ONCE: usize = 2;

/// Where consoles of guests that died are kept, in the repository.
const DEATHS: &str = "target/guests";

/// Run the tests that take other kernels and real network cards, in emulated guests
#[derive(clap::Args)]
pub struct Args {
    /// Only this kernel, as in 6.12; again for more
    #[arg(long, value_name = "VERSION")]
    kernel: Vec<String>,

    /// Only this driver; again for more
    #[arg(long, value_name = "DRIVER", value_parser = qemu::driver_names())]
    nic: Vec<String>,

    /// Only tests with this in their names
    #[arg(default_value = "")]
    test: String,

    /// Write what came of changing settings into docs/drivers.md
    #[arg(long)]
    table: bool,

    /// Show all that guests print
    #[arg(long, short)]
    verbose: bool,
}

/// One guest to run.
struct Cell<'a> {
    kernel: &'a Kernel,
    nic: &'static Nic,
    qemu: &'a Qemu,
    /// A module that the kernel comes without.
    module: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<()> {
    let kernels = match &args.kernel[..] {
        [] => KERNELS.iter().chain(&NEWER_KERNELS).map(ToString::to_string).collect(),
        some => some.to_vec(),
    };
    let nics = NICS
        .iter()
        .filter(|nic| args.nic.is_empty() || args.nic.iter().any(|wanted| wanted == nic.driver));
    let found = matrix(&kernels, &nics.collect::<Vec<_>>(), &args.test, args.verbose)?;
    if args.table {
        let mut table = Table::committed()?;
        table.update(found.table);
        table.commit()?;
    }
    println!("{}", found.tally);
    if found.tally.failed > 0 {
        bail!("not everything passed");
    }
    Ok(())
}

/// The part that belongs to the tests.
pub fn always() -> Result<Tally> {
    let nics: Vec<_> = NICS.iter().filter(|nic| nic.always).collect();
    let mut found = matrix(&KERNELS.map(ToOwned::to_owned), &nics, "", false)?;
    let (differences, other_releases) = Table::committed()?.differences(&found.table);
    for release in other_releases {
        found.tally.add(skip("docs/drivers.md", &format!("it is not about {release}")));
    }
    found.tally.add(match &differences[..] {
        [] => Tally::PASSED,
        _ => {
            let differences = differences.join("\n  ");
            println!("error: docs/drivers.md is not what was found:\n  {differences}");
            Tally::FAILED
        }
    });
    Ok(found.tally)
}

/// What guests found.
#[derive(Default)]
struct Found {
    tally: Tally,
    table: Table,
}

/// Every kernel with every card; what cannot be had is skipped.
fn matrix(kernels: &[String], nics: &[&'static Nic], test: &str, verbose: bool) -> Result<Found> {
    let mut found = Found::default();
    let tally = &mut found.tally;
    if let Some(why) = guest::IMPOSSIBLE {
        tally.add(skip("guests", why));
        return Ok(found);
    }
    let emulators = available(nics.iter().copied(), |nic| nic.driver.to_owned(), qemu::with, tally);
    let kernels = available(kernels, |v| format!("kernel {v}"), |v| kernel::get(v), tally);
    if emulators.is_empty() || kernels.is_empty() {
        return Ok(found);
    }
    let programs = guest::build()?;
    let pairs = emulators
        .iter()
        .flat_map(|(nic, qemu)| kernels.iter().map(move |(_, kernel)| (*nic, qemu, kernel)));
    let cells = available(
        pairs,
        |(nic, _, kernel)| format!("{} on {}", nic.driver, kernel.release),
        |(nic, qemu, kernel)| {
            let module = nic.build.map(|build| build(kernel)).transpose()?;
            Ok(Cell { kernel, nic, qemu, module })
        },
        tally,
    );
    let (queue, found) = (Mutex::new(cells.iter()), Mutex::new(found));
    // A function, so that the lock is not held while the guest runs.
    let next = || locked(&queue).next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((_, cell)) = next() {
                    let (tally, printed, report) = cell.run(&programs, test, verbose);
                    let mut found = locked(&found);
                    // Under the lock, so that reports do not mix.
                    print!("{report}");
                    found.tally.add(tally);
                    found.table.add(cell.kernel, cell.nic.driver, &printed);
                }
            });
        }
    });
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Those of `wanted` that can be had, with what they were wanted for.
fn available<W: Copy, T>(
    wanted: impl IntoIterator<Item = W>,
    name: impl Fn(&W) -> String,
    get: impl Fn(W) -> Result<T>,
    tally: &mut Tally,
) -> Vec<(W, T)> {
    let mut got = Vec::new();
    for wanted in wanted {
        match get(wanted) {
            Ok(thing) => got.push((wanted, thing)),
            Err(error) => tally.add(skip(&name(&wanted), &format!("{error:#}"))),
        }
    }
    got
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn skip(what: &str, why: &str) -> Tally {
    println!("skipped: {what}: {why}");
    Tally::SKIPPED
}

impl Cell<'_> {
    /// Boots the guest and waits for its end; what it came to, what the guest printed, and what to
    /// print about it.
    fn run(&self, programs: &Programs, test: &str, verbose: bool) -> (Tally, String, String) {
        let start = Instant::now();
        let mut report = format!("-- {} on {}\n", self.nic.driver, self.kernel.release);
        let mut seen = Output::default();
        let output = initramfs::build(self.kernel, self.nic, self.module.as_deref(), programs)
            .and_then(|initramfs| self.qemu.boot(self.kernel, self.nic, &initramfs, test));
        let mut printed = String::new();
        match output {
            Ok(output) => {
                for line in output.printed.lines() {
                    let is_record = line.starts_with(table::RECORD);
                    if seen.read(line) && !is_record || verbose {
                        report += &format!("{line}\n");
                    }
                }
                if !output.is_complete() {
                    report += &format!("error: {}", self.death(&output));
                    seen.tally = Tally::FAILED;
                }
                printed = output.printed;
            }
            Err(error) => {
                report += &format!("error: {error:#}\n");
                seen.tally = Tally::FAILED;
            }
        }
        report += &format!("-- {:.1} s\n", start.elapsed().as_secs_f32());
        (seen.tally, printed, report)
    }

    /// What to say of a guest that did not come to its end, of which everything is kept. Whatever
    /// killed it would kill a user's machine, so it is not tried again.
    fn death(&self, output: &qemu::Output) -> String {
        let kept = match self.keep(output) {
            Ok(file) => format!("all that it said is in {}", file.display()),
            Err(error) => format!("what it said cannot be kept: {error:#}"),
        };
        format!("the guest died; {kept}; its console:\n{}", tail(&output.console))
    }

    /// Puts all that a guest said into a new file.
    fn keep(&self, output: &qemu::Output) -> Result<PathBuf> {
        let directory = root().join(DEATHS);
        fs::create_dir_all(&directory)?;
        let prefix = format!("{}-{}-", self.nic.driver, self.kernel.release);
        let mut file = tempfile::Builder::new().prefix(&prefix).tempfile_in(directory)?;
        write!(file, "{}\n{}", output.printed, output.console)?;
        Ok(file.keep()?.1)
    }
}

fn tail(text: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<_> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    last.iter().map(|line| format!("{line}\n")).collect()
}
