//! What commands cost as whole processes: time from start to end, CPU time and peak memory, beside
//! the programs of others that come nearest. Needs root; everything happens in labs of its own.

mod measure;

use std::{
    fs::{self, File},
    io::{self, Write},
    process::{Command, Stdio},
    time::Instant,
};

use measure::{Floors, Result, Spread};
use nic_user::{
    lab::{Host, Lab, Shape, frames::Ends},
    report::{
        style::Style,
        table::{Align, Table},
    },
};

const NICCTL: &str = env!("CARGO_BIN_EXE_nicctl");

/// Rounds in which every command of a group runs once, one after the other.
const ROUNDS: usize = 11;
/// Rounds of commands that take long.
const FEW_ROUNDS: usize = 7;

/// Queues of the interface for which the limits hold, and of the others that show the growth.
const QUEUES: u32 = 64;
const FEWER_QUEUES: [u32; 2] = [4, 16];
/// Frames in the capture to decode.
const FRAMES: usize = 100_000;

const MIB: f64 = 1024.0 * 1024.0;
const MEMORY_LIMIT_MIB: f64 = 12.0;
const BINARY_LIMIT_MB: f64 = 10.0;

/// An object of xdp-tools that passes every frame.
const PEER_OBJECTS: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_all.o", "/usr/lib64/bpf/xdpfilt_alw_all.o"];

fn main() -> Result<()> {
    if !measure::is_wanted() {
        return Ok(());
    }
    measure::warn_if_busy();
    let mut bench = Bench::new();
    for queues in FEWER_QUEUES {
        on_interface(&mut bench, queues, &Limits::NONE)?;
    }
    on_interface(&mut bench, QUEUES, &Limits::ISSUE)?;
    decode(&mut bench)?;
    bench.report()
}

/// The most ms that a command may take.
struct Limits {
    attach: Option<f64>,
    stats: Option<f64>,
    detach: Option<f64>,
}

impl Limits {
    const NONE: Self = Self { attach: None, stats: None, detach: None };
    const ISSUE: Self = Self { attach: Some(60.0), stats: Some(10.0), detach: Some(40.0) };
}

/// One way to call a program.
struct Call<'c> {
    title: String,
    program: &'c str,
    args: Vec<&'c str>,
    limit_ms: Option<f64>,
}

impl<'c> Call<'c> {
    fn new(program: &'c str, args: &[&'c str]) -> Self {
        let name = program.rsplit('/').next().unwrap_or(program);
        // The object of a peer says nothing, and the table has to fit.
        let words = args.iter().filter(|word| !word.contains('/')).copied();
        let title = std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ");
        Self { title, program, args: args.to_vec(), limit_ms: None }
    }

    fn nicctl(args: &[&'c str], limit_ms: Option<f64>) -> Self {
        Self { limit_ms, ..Self::new(NICCTL, args) }
    }
}

/// What one run of a program took.
struct Cost {
    wall_ms: f64,
    cpu_ms: f64,
    peak_mib: f64,
}

fn on_interface(bench: &mut Bench, queues: u32, limits: &Limits) -> Result<()> {
    let lab = Lab::new(Shape { queues, ..Shape::default() })?;
    let host = lab.a();
    let dev = host.interface();
    let peer_object = PEER_OBJECTS.into_iter().find(|path| fs::exists(path).unwrap_or(false));
    let attach = Call::nicctl(&["attach", dev, "--mode", "native"], limits.attach);
    let attach = Call { title: "nicctl attach".into(), ..attach };
    let same = Call::nicctl(&["attach", dev], None);
    let same = Call { title: "nicctl attach, nothing changed".into(), ..same };
    let again = Call::nicctl(&["attach", dev, "--rx-copybreak", "100"], limits.attach);
    let again = Call { title: "nicctl attach, again".into(), ..again };
    let detach = Call::nicctl(&["detach", dev], limits.detach);
    let reading = [
        Call::nicctl(&["stats", dev], limits.stats),
        Call::nicctl(&["stats", dev, "--json"], limits.stats),
        Call::nicctl(&["list"], None),
        Call::new("ethtool", &["-S", dev]),
        Call::new("ip", &["-s", "link", "show", dev]),
        Call::new("bpftool", &["net"]),
    ];
    let loading = peer_object.map(|object| {
        [
            Call::new("xdp-loader", &["load", "-m", "native", dev, object]),
            Call::new("xdp-loader", &["status", dev]),
            Call::new("xdp-loader", &["unload", "-a", dev]),
        ]
    });
    bench.section(format!("{queues} queues"));
    for _ in 0..ROUNDS {
        bench.run(host, &attach)?;
        for call in &reading {
            bench.run(host, call)?;
        }
        bench.run(host, &same)?;
        bench.run(host, &again)?;
        bench.run(host, &detach)?;
        for call in loading.iter().flatten() {
            bench.run(host, call)?;
        }
    }
    Ok(())
}

fn decode(bench: &mut Bench) -> Result<()> {
    let lab = Lab::new(Shape::default())?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("frames.pcap");
    write_capture(&file)?;
    let file = file.to_str().ok_or("temporary directory is not UTF-8")?;
    let calls = [
        Call::nicctl(&["decode", file], Some(1000.0)),
        Call::nicctl(&["decode", file, "--json"], Some(1000.0)),
        Call::nicctl(&["decode", file, "--bpf"], Some(20_000.0)),
    ];
    bench.section(format!("{FRAMES} frames"));
    for _ in 0..FEW_ROUNDS {
        for call in &calls {
            bench.run(lab.a(), call)?;
        }
    }
    Ok(())
}

/// A capture of one sample after the other.
fn write_capture(path: &std::path::Path) -> io::Result<()> {
    const ETHERNET: u32 = 1;
    let mut file = io::BufWriter::new(File::create(path)?);
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, ETHERNET] {
        file.write_all(&u32::to_ne_bytes(word))?;
    }
    let samples = Ends::default().samples();
    for sample in samples.iter().cycle().take(FRAMES) {
        let len = sample.frame.len() as u32;
        for word in [0, 0, len, len] {
            file.write_all(&u32::to_ne_bytes(word))?;
        }
        file.write_all(&sample.frame)?;
    }
    file.flush()
}

/// What was measured so far, in the order in which it first came up.
struct Bench {
    section: String,
    rows: Vec<Row>,
}

struct Row {
    section: String,
    title: String,
    limit_ms: Option<f64>,
    ours: bool,
    costs: std::result::Result<Vec<Cost>, String>,
}

impl Bench {
    const fn new() -> Self {
        Self { section: String::new(), rows: Vec::new() }
    }

    /// Begins a group of calls that are to be compared.
    fn section(&mut self, title: String) {
        self.section = title;
    }

    /// Runs a call in a host. A peer that is not installed or fails is left out from then on.
    fn run(&mut self, host: &Host, call: &Call<'_>) -> Result<()> {
        let ours = call.program == NICCTL;
        let same = |row: &&mut Row| row.section == self.section && row.title == call.title;
        let row = match self.rows.iter_mut().find(same) {
            Some(row) => row,
            None => {
                self.rows.push(Row {
                    section: self.section.clone(),
                    title: call.title.clone(),
                    limit_ms: call.limit_ms,
                    ours,
                    costs: Ok(Vec::new()),
                });
                self.rows.last_mut().ok_or("no row")?
            }
        };
        let Ok(costs) = &mut row.costs else { return Ok(()) };
        match host.run(|| cost(call.program, &call.args))? {
            Ok(cost) => costs.push(cost),
            Err(error) if ours => return Err(format!("{}: {error}", call.title).into()),
            Err(error) => row.costs = Err(error),
        }
        Ok(())
    }

    fn report(self) -> Result<()> {
        let mut floors = Floors::default();
        let mut section = String::new();
        let columns = [
            ("COMMAND", Align::Left),
            ("MS (MIN-MAX)", Align::Right),
            ("CPU MS", Align::Right),
            ("MIB", Align::Right),
        ];
        let mut table = Table::new(columns);
        for row in &self.rows {
            if section != row.section {
                if !section.is_empty() {
                    table.write(&mut io::stdout(), Style::Plain)?;
                }
                section.clone_from(&row.section);
                println!("\n{section}, median");
                table = Table::new(columns);
            }
            table.push(row.cells(&mut floors));
        }
        table.write(&mut io::stdout(), Style::Plain)?;
        let size = fs::metadata(NICCTL)?.len() as f64 / 1e6;
        println!("\nsize of nicctl: {size:.1} MB");
        floors.check("size of nicctl", size, BINARY_LIMIT_MB, "MB");
        Ok(floors.result()?)
    }
}

impl Row {
    fn cells(&self, floors: &mut Floors) -> [String; 4] {
        let costs = match &self.costs {
            Ok(costs) => costs,
            Err(error) => return [self.title.clone(), error.clone(), "".into(), "".into()],
        };
        let spread = |value: fn(&Cost) -> f64| Spread::of(costs.iter().map(value).collect());
        let (wall, peak) = (spread(|cost| cost.wall_ms), spread(|cost| cost.peak_mib));
        let what = format!("{}, {}", self.title, self.section);
        if let Some(limit) = self.limit_ms {
            floors.check(&what, wall.median, limit, "ms");
        }
        if self.ours {
            floors.check(&format!("memory of {what}"), peak.max, MEMORY_LIMIT_MIB, "MiB");
        }
        let cpu = spread(|cost| cost.cpu_ms).median;
        [self.title.clone(), wall.text(), format!("{cpu:.1}"), format!("{:.1}", peak.median)]
    }
}

/// Runs a program to its end. If it fails: its last words.
fn cost(program: &str, args: &[&str]) -> std::result::Result<Cost, String> {
    let errors = tempfile::tempfile().map_err(|error| error.to_string())?;
    let mut said = errors.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let start = Instant::now();
    let child = match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err("not installed".into());
        }
        child => child.map_err(|error| error.to_string())?,
    };
    let (status, usage) = wait(child.id()).map_err(|error| error.to_string())?;
    let wall = start.elapsed();
    if status != 0 {
        return Err(last_words(&mut said));
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Cost {
        wall_ms: wall.as_secs_f64() * 1e3,
        cpu_ms: (seconds(usage.ru_utime) + seconds(usage.ru_stime)) * 1e3,
        peak_mib: usage.ru_maxrss as f64 * 1024.0 / MIB,
    })
}

/// Waits for a child: how it ended, and what it used (`struct rusage`, memory in KiB).
fn wait(child: u32) -> io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` consists of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one of each, and both outlive the call.
    let waited = unsafe { libc::wait4(child as i32, &raw mut status, 0, &raw mut usage) };
    if waited < 0 { Err(io::Error::last_os_error()) } else { Ok((status, usage)) }
}

fn last_words(said: &mut File) -> String {
    use std::io::{Read, Seek};
    let mut text = String::new();
    let read = said.rewind().and_then(|()| said.read_to_string(&mut text));
    let last = read.ok().and_then(|_| text.lines().rfind(|line| !line.trim().is_empty()));
    let words: String = last.unwrap_or("no words").trim().chars().take(40).collect();
    format!("fails: {words}")
}
