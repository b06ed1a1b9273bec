//! `nicctl decode`: what nicctl sees in frames.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use nic_common::policy::CopyPolicy;

use super::policy::PolicyArgs;
use crate::{
    decode::{self, Decoded, Frames, HexLines, HexWords, Input, Native, Walker},
    error::Result,
    offload::BpfWalker,
    report::{WIDTH, json, style::Style},
};

/// Show what nicctl sees in frames: layers, header length, verdict
///
/// Prints one row a frame; frames are numbered from 0. L3 and L4 are the innermost network and
/// transport protocol with the byte where they start. VERDICT is what the copy policy decides:
/// copy the frame, split its headers off, or take it whole. NOTES names what is out of the
/// ordinary. Of a frame that was captured in part, what was captured is decoded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl decode trace.pcapng
  tcpdump -i eth0 -U -w - | nicctl decode -
  nicctl decode --hex 02000000000202000000000108004500...
  nicctl decode --json --rx-copybreak 128 trace.pcap | jq 'select(.malformed)'")]
pub(super) struct Args {
    /// Capture of Ethernet frames, pcap or pcapng; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "hex")]
    file: Option<PathBuf>,

    /// A frame in hex, with or without 0x, colons and spaces; again for more frames; - reads
    /// frames from standard input, one a line
    #[arg(long, value_name = "HEX", conflicts_with = "file")]
    hex: Vec<String>,

    /// Ask the BPF program, loaded but attached to nothing, instead of this process's own code
    #[arg(long)]
    bpf: bool,

    /// Print one JSON document a line (`nicctl schema decode`)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    policy: PolicyArgs,
}

pub(super) fn run(args: Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let policy = args.policy.over(CopyPolicy::DEFAULT);
    let mut frames = open(args.file.as_deref(), args.hex)?;
    let mut walker: Box<dyn Walker> =
        if args.bpf { Box::new(BpfWalker::load()?) } else { Box::new(Native) };
    let mut printer = Printer::new(out, args.json);
    for index in 0.. {
        if frames.is_drained() {
            printer.out.flush()?;
        }
        let Some(frame) = frames.next()? else { break };
        let answer = walker.headers(frame.bytes, policy)?;
        printer.print(&Decoded::new(index, &frame, &answer))?;
    }
    Ok(())
}

fn open(file: Option<&Path>, hex: Vec<String>) -> Result<Box<dyn Frames>> {
    let stdin = Path::new("-");
    match file {
        Some(file) => decode::open(Input::open(file)?),
        None if hex == ["-"] => Ok(Box::new(HexLines::new(Input::open(stdin)?))),
        None => Ok(Box::new(HexWords::new(hex))),
    }
}

const HEADING: &str = "FRAME      LEN  HEAD  L3         L4             VERDICT  NOTES";

/// Prints rows as they come: the columns have fixed widths.
struct Printer<'o> {
    out: &'o mut dyn Write,
    format: Format,
    line: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Format {
    Json,
    Text(Style),
}

impl<'o> Printer<'o> {
    fn new(out: &'o mut dyn Write, json: bool) -> Self {
        let format = if json { Format::Json } else { Format::Text(Style::for_stdout()) };
        Self { out, format, line: Vec::new() }
    }

    fn print(&mut self, row: &Decoded) -> io::Result<()> {
        self.line.clear();
        match self.format {
            Format::Json => json::write_line(&mut self.line, row)?,
            Format::Text(style) => {
                if row.index == 0 {
                    writeln!(self.out, "{}", style.bold(HEADING))?;
                }
                write_text(&mut self.line, row, style)?;
            }
        }
        self.out.write_all(&self.line)
    }
}

fn write_text(line: &mut Vec<u8>, row: &Decoded, style: Style) -> io::Result<()> {
    write!(
        line,
        "{:>5}  {:>7}  {:>4}  {:<9}  {:<13}  ",
        row.index,
        row.len,
        row.header_len,
        layer(row.l3.as_deref(), row.l3_offset),
        layer(row.l4.as_deref(), row.l4_offset),
    )?;
    const VERDICT: usize = 7;
    let notes = notes(row, WIDTH.saturating_sub(line.len() + VERDICT + 2));
    if notes.is_empty() {
        return writeln!(line, "{}", row.verdict);
    }
    let style = if row.malformed || row.unparsed { style } else { Style::Plain };
    writeln!(line, "{:<VERDICT$}  {}", row.verdict, style.red(notes))
}

/// A protocol and where it starts.
fn layer(name: Option<&str>, offset: Option<u32>) -> String {
    match (name, offset) {
        (Some(name), Some(offset)) => format!("{name}@{offset}"),
        (Some(name), None) => name.to_owned(),
        (None, _) => "-".to_owned(),
    }
}

/// The notes that fit into `room` columns, and how many more there are.
fn notes(row: &Decoded, room: usize) -> String {
    let all: Vec<_> = row.notes().collect();
    let shown = |n: usize| {
        let mut words = all.get(..n).unwrap_or_default().join(" ");
        if n < all.len() {
            words += &format!(" +{}", all.len() - n);
        }
        words
    };
    (0..=all.len()).rev().map(shown).find(|text| text.len() <= room).unwrap_or_default()
}
