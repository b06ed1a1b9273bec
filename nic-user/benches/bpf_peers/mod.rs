//! What the kernel programs are measured against, compiled here by clang.

use std::{
    error::Error,
    fs,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    process::Command,
};

use aya::{
    Ebpf,
    maps::ProgramArray,
    programs::{FlowDissector, Xdp},
};
use nic_user::lab::bpf::Hook;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Headers by libxdp's helpers, and a counter.
pub struct Parser(Ebpf);

impl Parser {
    pub fn build(hook: Hook) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/parse.bpf.c");
        let options: &[&str] = if hook == Hook::XdpFrags { &["-DFRAGS"] } else { &[] };
        let mut object = load(&source, options)?;
        let program: &mut Xdp = object.program_mut("parse").ok_or("no program")?.try_into()?;
        program.load()?;
        Ok(Self(object))
    }

    pub fn program(&self) -> Result<BorrowedFd<'_>> {
        let program: &Xdp = self.0.program("parse").ok_or("no program")?.try_into()?;
        Ok(program.fd()?.as_fd())
    }
}

/// The flow dissector of the kernel's selftests.
pub struct Dissector(Ebpf);

impl Dissector {
    const ENTRY: &str = "_dissect";
    const JUMPS: &str = "jmp_table";
    /// Programs that it goes on with: those of its headers.
    const HEADERS: u32 = 6;

    /// From its source, `bpf_flow.c`.
    pub fn build(source: &Path) -> Result<Self> {
        let mut object = load(source, &["-Wno-compare-distinct-pointer-types"])?;
        for (_, program) in object.programs_mut() {
            let program: &mut FlowDissector = program.try_into()?;
            program.load()?;
        }
        let jumps = object.take_map(Self::JUMPS).ok_or("no map of its programs")?;
        let mut jumps = ProgramArray::try_from(jumps)?;
        for header in 0..Self::HEADERS {
            let name = format!("flow_dissector_{header}");
            let program = object.program(&name).ok_or("no program")?;
            let program: &FlowDissector = program.try_into()?;
            jumps.set(header, program.fd()?, 0)?;
        }
        // The kernel empties a program array that nobody has open.
        std::mem::forget(jumps);
        Ok(Self(object))
    }

    pub fn program(&self) -> Result<BorrowedFd<'_>> {
        let program = self.0.program(Self::ENTRY).ok_or("no program")?;
        let program: &FlowDissector = program.try_into()?;
        Ok(program.fd()?.as_fd())
    }
}

fn load(source: &Path, options: &[&str]) -> Result<Ebpf> {
    let name = source.file_stem().ok_or("no file")?;
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("o");
    let mut clang = Command::new("clang");
    // The headers of the C library ask for the machine.
    clang.args(["-O2", "-g", "-target", "bpf", "-D__x86_64__"]);
    clang.arg("-I/usr/include/x86_64-linux-gnu").args(options);
    clang.arg("-c").arg(source).arg("-o").arg(&object);
    if !clang.status()?.success() {
        let fix = "`cargo xtask setup --bench` installs clang and libxdp";
        return Err(format!("{} does not compile; {fix}", source.display()).into());
    }
    Ok(Ebpf::load(&fs::read(&object)?)?)
}
