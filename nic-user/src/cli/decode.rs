//! `nicctl decode`: what nicctl sees in frames.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use nic_common::policy::CopyPolicy;

use super::policy::PolicyArgs;
use crate::{
    decode::{
        self, Answer, CAPTURE_ETHERNET, Captured, Decoded, Frames, HexLines, HexWords, Input, Link,
        LinkType, Walker,
    },
    error::{Error, Result},
    offload::BpfWalker,
    report::{WIDTH, json, style::Style, terminal::say},
};

/// Show what nicctl sees in frames: layers, header length, verdict
///
/// Prints one row per frame, numbered from 0. L3 and L4 are the innermost network and transport
/// protocols with their byte offsets. VERDICT is the decision of the copy policy: copy the frame,
/// split its headers off, or take it whole. NOTES lists anything unusual. Of a truncated frame, the
/// captured part is decoded, and the verdict uses the length on the wire.
///
/// Reads captures of Ethernet, Linux cooked (SLL, SLL2), raw IP and BSD loopback. Frames of other
/// link types are skipped and counted on standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl decode trace.pcapng
  tcpdump -i eth0 -U -w - | nicctl decode -
  nicctl decode --hex 02000000000202000000000108004500...
  nicctl decode --json --rx-copybreak 128 trace.pcap | jq 'select(.malformed)'")]
pub(super) struct Args {
    /// Capture file, pcap or pcapng; - reads standard input
    #[arg(value_name = "FILE", required_unless_present = "hex")]
    file: Option<PathBuf>,

    /// A frame in hex, with or without 0x, colons and spaces; may be repeated; - reads frames from
    /// standard input, one a line
    #[arg(long, value_name = "HEX", conflicts_with = "file")]
    hex: Vec<String>,

    /// Run the BPF program, loaded but not attached, instead of the same code in this process;
    /// frames the kernel cannot run it on are counted on standard error
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
    let mut reader = Reader::new(args.bpf, policy)?;
    let mut printer = Printer::new(out, args.json);
    for index in 0.. {
        if frames.is_drained() {
            printer.out.flush()?;
        }
        let Some(frame) = frames.next()? else { break };
        if let Some(answer) = reader.read(&frame)? {
            printer.print(&Decoded::new(index, &frame, &answer))?;
        }
    }
    reader.report(!printer.is_first)
}

/// Reads the headers of frames, and counts the frames it cannot read.
struct Reader {
    bpf: Option<BpfWalker>,
    policy: CopyPolicy,
    /// Frames that the kernel could not run BPF on.
    not_by_bpf: u64,
    /// Frames that could not be read, by link type.
    unknown: BTreeMap<LinkType, u64>,
}

impl Reader {
    fn new(bpf: bool, policy: CopyPolicy) -> Result<Self> {
        let bpf = bpf.then(BpfWalker::load).transpose()?;
        Ok(Self { bpf, policy, not_by_bpf: 0, unknown: BTreeMap::new() })
    }

    /// The contents of a frame; `None` if its link type is unknown.
    fn read(&mut self, frame: &Captured<'_>) -> Result<Option<Answer>> {
        if let Link::Unknown(link) = frame.link {
            *self.unknown.entry(link).or_default() += 1;
            return Ok(None);
        }
        if let Some(bpf) = &mut self.bpf {
            let is_whole = frame.link == Link::Ethernet && !frame.is_cut();
            if is_whole && let Some(answer) = bpf.headers(frame.bytes, self.policy)? {
                return Ok(Some(answer));
            }
            self.not_by_bpf += 1;
        }
        Ok(Some(Answer::of(frame, self.policy)))
    }

    /// Reports what could not be read; an error if nothing could.
    fn report(self, any: bool) -> anyhow::Result<()> {
        let Self { not_by_bpf, unknown, .. } = self;
        if not_by_bpf > 0 {
            say(format_args!(
                "{not_by_bpf} frames that the kernel cannot run the program on (too long for its \
                 test run, truncated, or not Ethernet) were decoded by nicctl's own code"
            ));
        }
        let unknown: Vec<_> = unknown
            .into_iter()
            .map(|(link, count)| format!("{count} of link type {link}"))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let message = format!("skipped frames that nicctl cannot decode: {}", unknown.join(", "));
        if !any {
            return Err(Error::failed(message).with_fix(CAPTURE_ETHERNET).into());
        }
        say(message);
        Ok(())
    }
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
    is_first: bool,
}

#[derive(Clone, Copy)]
enum Format {
    Json,
    Text(Style),
}

impl<'o> Printer<'o> {
    fn new(out: &'o mut dyn Write, json: bool) -> Self {
        let format = if json { Format::Json } else { Format::Text(Style::for_stdout()) };
        Self { out, format, line: Vec::new(), is_first: true }
    }

    fn print(&mut self, row: &Decoded) -> io::Result<()> {
        self.line.clear();
        match self.format {
            Format::Json => json::write_line(&mut self.line, row)?,
            Format::Text(style) => {
                if self.is_first {
                    writeln!(self.out, "{}", style.bold(HEADING))?;
                }
                write_text(&mut self.line, row, style)?;
            }
        }
        self.is_first = false;
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
fn layer(name: Option<&str>, offset: u32) -> String {
    name.map_or_else(|| "-".to_owned(), |name| format!("{name}@{offset}"))
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
