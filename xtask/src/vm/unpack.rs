//! Kernels and modules without their compression.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};

/// How a compressed stream begins, and what writes out what is in it.
const FORMATS: [(&[u8], &[&str]); 3] = [
    (b"\xfd7zXZ\0", &["xz", "-dc", "--single-stream"]),
    (b"\x28\xb5\x2f\xfd", &["zstd", "-dcq"]),
    (b"\x1f\x8b\x08", &["gzip", "-dcq"]),
];

const ELF: &[u8] = b"\x7fELF";

/// Takes the kernel proper out of a bzImage, where it lies behind the code that would unpack it.
pub fn kernel(from: &Path, to: &Path) -> Result<()> {
    let image = fs::read(from)?;
    for (magic, program) in FORMATS {
        for at in positions(&image, magic) {
            // What follows the stream makes some of the programs complain.
            let kernel = filter(program, &image[at..])?;
            if kernel.starts_with(ELF) {
                return Ok(fs::write(to, kernel)?);
            }
        }
    }
    bail!("{}: no kernel found in it", from.display())
}

/// Reads a kernel module.
pub fn module(path: &Path) -> Result<Vec<u8>> {
    let file = fs::read(path)?;
    if file.starts_with(ELF) {
        return Ok(file);
    }
    let format = FORMATS.iter().find(|(magic, _)| file.starts_with(magic));
    let (_, program) = format.with_context(|| format!("{}: what is this?", path.display()))?;
    let module = filter(program, &file)?;
    if !module.starts_with(ELF) {
        bail!("{}: {} makes no module of it", path.display(), program.join(" "));
    }
    Ok(module)
}

fn positions(image: &[u8], magic: &[u8]) -> impl Iterator<Item = usize> {
    image.windows(magic.len()).enumerate().filter(move |(_, w)| *w == magic).map(|(at, _)| at)
}

/// What a program makes of `input`, whether it is content with it or not.
fn filter(program: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let (name, args) = program.split_first().context("no program")?;
    let mut child = Command::new(name)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    thread::scope(|scope| {
        scope.spawn(move || {
            // The program need not read to the end.
            let _ = stdin.write_all(input);
        });
        Ok(child.wait_with_output()?.stdout)
    })
}
