//! The object with the kernel programs, and how it is loaded.

use std::{panic::resume_unwind, path::PathBuf, thread};

use aya::{
    Ebpf, EbpfLoader, VerifierLogLevel, include_bytes_aligned,
    maps::{Array, Map, MapData, xdp::XdpMapError},
    programs::{Program, ProgramError, ProgramInfo, RawTracePoint, SchedClassifier, Xdp},
};
use nic_common::{
    policy::{CopyPolicy, STEERING},
    record::AttachRecord,
};

use super::{
    attach::carry,
    btf::DeviceLayout,
    pinned,
    slot::{self, Slot},
    sys,
};
use crate::error::{Error, Kind, Result};

/// The committed object; `cargo xtask build-ebpf` makes it.
pub static OBJECT: &[u8] = include_bytes_aligned!("nicctl.bpf.o");

/// TC ingress program.
pub const INGRESS: &str = "nic_ingress";
/// XDP program that forwards frames.
pub const FORWARD_FRAMES: &str = "nic_forward_l2";
/// XDP program that routes IP packets.
pub const FORWARD_PACKETS: &str = "nic_forward_l3";
/// Programs that count what drivers do not take, and their tracepoints.
const FORWARD_TRACES: [(&str, &str); 2] =
    [("nic_forward_sent", "xdp_devmap_xmit"), ("nic_forward_failed", "xdp_redirect_err")];
/// XDP program that lets a frame pass.
pub const PASS: &str = "nic_pass";
/// TC egress program.
pub const EGRESS: &str = "nic_egress";

/// The map that aya-log's messages go through.
const LOGS: &str = "AYA_LOGS";

/// Where the maps of the object are pinned in a slot.
const PINNED_MAPS: [(&str, &str); 8] = [
    ("NIC_RX", slot::RX),
    ("NIC_INGRESS", slot::INGRESS),
    ("NIC_TX", slot::TX),
    ("NIC_RECORD", slot::RECORD),
    (".data.policy", slot::POLICY),
    ("NIC_STEER", slot::STEER),
    ("NIC_XSKS", slot::SOCKETS),
    (LOGS, slot::LOG),
];

/// The two builds of the XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// For frames that fit into one buffer.
    SingleBuffer,
    /// For frames that may go on in fragments (Linux 5.18, and the driver must support it).
    Frags,
}

impl Build {
    /// The program of this build.
    pub const fn program(self) -> &'static str {
        match self {
            Self::SingleBuffer => "nic_rx",
            Self::Frags => "nic_rx_frags",
        }
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SingleBuffer => "single-buffer",
            Self::Frags => "frags",
        }
    }
}

/// What is fixed when the programs are loaded.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Entries of the maps of receive counters.
    pub rx_queues: u32,
    /// Entries of the map of transmit counters.
    pub tx_queues: u32,
    /// Transmit queues in use.
    pub real_tx_queues: u32,
    /// The copy policy to begin with.
    pub policy: CopyPolicy,
    /// Whether any queue has rules of steering.
    pub steering: bool,
    /// TC ingress pulls small packets together.
    pub pull: bool,
    /// Malformed frames are logged.
    pub log: bool,
}

/// The object with its maps in the kernel, and its programs ready to be loaded.
pub struct Object {
    ebpf: Ebpf,
}

impl Object {
    /// Makes the maps, and pins nothing.
    pub fn load(parameters: &Parameters) -> Result<Self> {
        Self::load_into(parameters, |_| None)
    }

    /// Makes the maps, or takes those pinned in `slot`, which have been checked; new ones are pinned
    /// there, too. Those whose layout has changed are made anew beside the old ones.
    pub fn load_pinned(parameters: &Parameters, slot: &Slot, changed: &[&str]) -> Result<Self> {
        Self::load_into(parameters, |pin| {
            Some(if changed.contains(&pin) { slot.pin(&carry::new(pin)) } else { slot.pin(pin) })
        })
    }

    fn load_into(
        parameters: &Parameters,
        path: impl Fn(&'static str) -> Option<PathBuf>,
    ) -> Result<Self> {
        let steering = if parameters.steering { STEERING } else { 0 };
        let word = parameters.policy.to_word() | steering;
        let (pull, log) = (u8::from(parameters.pull), u8::from(parameters.log));
        let mut loader = loader();
        loader
            .verifier_log_level(VerifierLogLevel::DEBUG | VerifierLogLevel::STATS)
            .override_global("POLICY", &word, true)
            .override_global("PULL", &pull, true)
            .override_global("LOG", &log, true)
            .override_global("TX_QUEUES", &parameters.real_tx_queues, true)
            .map_max_entries("NIC_RX", parameters.rx_queues)
            .map_max_entries("NIC_INGRESS", parameters.rx_queues)
            .map_max_entries("NIC_STEER", parameters.rx_queues)
            .map_max_entries("NIC_XSKS", parameters.rx_queues)
            .map_max_entries("NIC_TX", parameters.tx_queues);
        for (map, pin) in PINNED_MAPS {
            if let Some(path) = path(pin) {
                loader.map_pin_path(map, path);
            }
        }
        Self::load_with(&mut loader)
    }

    /// Makes the maps for forwarding between the interfaces of these indices in the network
    /// namespace with this cookie.
    pub fn load_to_forward(
        [first, second]: [u32; 2],
        netns_cookie: u64,
        device: &DeviceLayout,
    ) -> Result<Self> {
        let mut loader = loader();
        loader
            .verifier_log_level(VerifierLogLevel::DEBUG | VerifierLogLevel::STATS)
            .override_global("FORWARD_FIRST", &first, true)
            .override_global("FORWARD_SECOND", &second, true)
            .override_global("FORWARD_NETNS", &netns_cookie, true)
            .override_global("IFINDEX_AT", &device.ifindex, true)
            .override_global("NET_AT", &device.net, true)
            .override_global("COOKIE_AT", &device.cookie, true);
        Self::load_with(&mut loader)
    }

    fn load_with(loader: &mut EbpfLoader<'_>) -> Result<Self> {
        check_btf()?;
        let ebpf =
            loader.load(OBJECT).map_err(|error| pinned::aya_error("create the maps", &error))?;
        Ok(Self { ebpf })
    }

    /// A program that forwards, in the kernel.
    pub fn forward(&mut self, name: &'static str) -> Result<&mut Xdp> {
        let program: &mut Xdp = self.program(name)?;
        program.load().map_err(|error| verifying(name, &error))?;
        Ok(program)
    }

    /// Has the kernel count what drivers do not take of what programs hand them.
    pub fn count_not_taken(&mut self) -> Result<()> {
        for (name, tracepoint) in FORWARD_TRACES {
            let program: &mut RawTracePoint = self.program(name)?;
            program.load().map_err(|error| verifying(name, &error))?;
            program
                .attach(tracepoint)
                .map_err(|error| pinned::aya_error(&format!("attach to {tracepoint}"), &error))?;
        }
        Ok(())
    }

    /// A program that was loaded.
    pub fn loaded(&self, name: &str) -> Result<&Xdp> {
        let program = self.ebpf.program(name).ok_or_else(|| missing(name))?;
        program.try_into().map_err(|error: ProgramError| pinned::aya_error(name, &error))
    }

    /// Works on a map.
    pub fn with_map(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Map) -> Result<(), XdpMapError>,
    ) -> Result<()> {
        let map = self.ebpf.map_mut(name);
        let map = map.ok_or_else(|| Error::failed(format!("the BPF object has no map {name}")))?;
        work(map).map_err(|error| pinned::aya_error(&format!("write {name}"), &error))
    }

    /// The XDP program of a build, in the kernel.
    pub fn xdp(&mut self, build: Build) -> Result<&mut Xdp> {
        let program: &mut Xdp = self.program(build.program())?;
        load_xdp(build, program)?;
        Ok(program)
    }

    /// A TC program, in the kernel.
    pub fn classifier(&mut self, name: &'static str) -> Result<&mut SchedClassifier> {
        let program: &mut SchedClassifier = self.program(name)?;
        load_classifier(name, program)?;
        Ok(program)
    }

    /// Works with the XDP programs while the TC programs are loaded on another thread: attaching
    /// XDP is mostly waiting for the kernel, and the verifier takes milliseconds for each program.
    ///
    /// # Errors
    ///
    /// Those of `work`, else what loading the TC programs ends in.
    pub fn while_loading_tc<T>(
        &mut self,
        work: impl FnOnce(&mut XdpPrograms<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut xdp = XdpPrograms(Vec::new());
        let mut tc = Vec::new();
        for (name, program) in self.ebpf.programs_mut() {
            match program {
                Program::Xdp(program) => xdp.0.push((name, program)),
                Program::SchedClassifier(program) => tc.push((name, program)),
                _ => {}
            }
        }
        thread::scope(|scope| {
            let loading = thread::Builder::new()
                .spawn_scoped(scope, || {
                    tc.into_iter().try_for_each(|(name, program)| load_classifier(name, program))
                })
                .map_err(|error| Error::io("start the thread that loads programs", &error))?;
            let done = work(&mut xdp)?;
            loading.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            Ok(done)
        })
    }

    /// A map by its name.
    pub fn map(&self, name: &str) -> Option<&Map> {
        self.ebpf.map(name)
    }

    /// Writes the record of the attachment.
    pub fn write_record(&mut self, record: &AttachRecord) -> Result<()> {
        let action = "write the record of the attachment";
        let map = self.ebpf.map_mut("NIC_RECORD");
        let map = map.ok_or_else(|| Error::failed(format!("{action}: no such map")))?;
        let mut map: Array<&mut MapData, AttachRecord> =
            map.try_into().map_err(|error| pinned::aya_error(action, &error))?;
        map.set(0, record, 0).map_err(|error| pinned::aya_error(action, &error))
    }

    fn program<'p, P>(&'p mut self, name: &str) -> Result<&'p mut P>
    where
        &'p mut P: TryFrom<&'p mut aya::programs::Program, Error = ProgramError>,
    {
        self.ebpf
            .program_mut(name)
            .ok_or_else(|| missing(name))?
            .try_into()
            .map_err(|error| pinned::aya_error(name, &error))
    }
}

/// The builds of the XDP program, loaded when they are asked for.
pub struct XdpPrograms<'o>(Vec<(&'o str, &'o mut Xdp)>);

impl XdpPrograms<'_> {
    /// The program of a build, in the kernel.
    pub fn get(&mut self, build: Build) -> Result<&mut Xdp> {
        let mut programs = self.0.iter_mut();
        let found = programs.find(|(name, _)| *name == build.program());
        let (_, program) = found.ok_or_else(|| missing(build.program()))?;
        load_xdp(build, program)?;
        Ok(program)
    }
}

fn load_xdp(build: Build, program: &mut Xdp) -> Result<()> {
    match program.fd() {
        Ok(_) => Ok(()),
        Err(_) => {
            program.load().map_err(|error| verifying(build.program(), &error))?;
            check_name(build.program(), program.info())
        }
    }
}

fn load_classifier(name: &str, program: &mut SchedClassifier) -> Result<()> {
    match program.fd() {
        Ok(_) => Ok(()),
        Err(_) => {
            program.load().map_err(|error| verifying(name, &error))?;
            check_name(name, program.info())
        }
    }
}

/// By its name a program is known as nicctl's. aya leaves it out if its trial of a program with a
/// name fails, for whatever reason.
fn check_name(name: &str, info: Result<ProgramInfo, ProgramError>) -> Result<()> {
    let info = info.map_err(|error| pinned::aya_error(&format!("look at {name}"), &error))?;
    if !info.name().is_empty() {
        return Ok(());
    }
    Err(Error::failed(format!("load {name}: the kernel stored it without a name"))
        .with_fix("try again: a temporary shortage causes this"))
}

fn missing(program: &str) -> Error {
    Error::failed(format!("the BPF object has no program {program}"))
}

/// A loader that has not read the kernel's BTF.
///
/// aya reads it in the constructor, 20 ms and 20 MB, for relocations that our object does not have,
/// and offers no way around. So the constructor runs on a thread that sees no `/sys`; where that is
/// not possible, it just takes longer.
fn loader<'a>() -> EbpfLoader<'a> {
    thread::scope(|scope| {
        let constructed = thread::Builder::new().spawn_scoped(scope, || {
            let _ = nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS)
                .and_then(|()| nix::unistd::chroot("/proc/self/fdinfo"));
            EbpfLoader::new()
        });
        let constructed = constructed.ok().and_then(|thread| thread.join().ok());
        constructed.unwrap_or_default()
    })
}

/// Types of which there is one: a header, an integer of eight bytes, and its name, "u".
static ONE_TYPE: [u8; 43] = *b"\x9f\xeb\x01\x00\x18\0\0\0\0\0\0\0\x10\0\0\0\x10\0\0\0\x03\0\0\0\
    \x01\0\0\0\0\0\0\x01\x08\0\0\0\x40\0\0\0\0u\0";

/// Whether the kernel takes types, as Linux 6.1 does; aya asks it once.
///
/// Whatever an attempt fails with, aya takes it for an older kernel, and leaves out of the object
/// what that would not know. Without the types of functions the verifier goes through each of them
/// again and again from every place that calls it, and gives up after half a minute.
fn check_btf() -> Result<()> {
    let takes = aya::features().btf().as_ref().is_some_and(|btf| {
        btf.btf_func() && btf.btf_func_global() && btf.btf_datasec() && btf.btf_decl_tag()
    });
    if takes {
        return Ok(());
    }
    let (kind, reason) = match sys::load_btf(&ONE_TYPE) {
        Err(error) => (Error::io("", &error).kind(), error.to_string()),
        Ok(_) => (Kind::Failed, "it has refused some".to_owned()),
    };
    let message = format!("create the maps: the kernel rejects their types (BTF): {reason}");
    Err(Error::new(kind, message).with_fix(
        "a seccomp filter, a security module or a lack of memory may be the reason: see the \
         kernel's log, and try again",
    ))
}

/// An error of loading a program: the verifier's last words are what matters.
fn verifying(program: &str, error: &ProgramError) -> Error {
    const LAST_WORDS: usize = 12;
    let ProgramError::LoadError { io_error, verifier_log } = error else {
        return pinned::aya_error(&format!("load {program}"), error);
    };
    let log = verifier_log.to_string();
    if log.trim().is_empty() && io_error.raw_os_error() == Some(libc::EPERM) {
        return Error::not_permitted(format!("load {program}: {io_error}")).with_fix(
            "a security module or lockdown may forbid it: see the kernel's log, and \
             /sys/kernel/security/lockdown",
        );
    }
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LAST_WORDS)..).unwrap_or_default().join("\n  ");
    Error::failed(format!("load {program}: the verifier rejects it: {io_error}\n  {last}"))
        .with_fix("report it with the kernel's release: nicctl supports Linux 6.1 and later")
}
