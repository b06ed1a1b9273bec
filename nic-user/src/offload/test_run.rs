//! The header walk as the loaded XDP program does it (`BPF_PROG_TEST_RUN`).

use aya::{
    TestRun,
    programs::{ProgramError, TestRunOptions, Xdp},
    sys::SyscallError,
};
use nic_common::{metadata::Metadata, policy::CopyPolicy};

use super::{
    object::{Build, Object, Parameters},
    pinned, privilege,
    programs::PARAMETERS,
};
use crate::{
    decode::{Answer, Native, Walker},
    error::{Error, Result},
};

/// With steering on the program leaves metadata, by which it answers. No rule takes a frame.
const ANSWERING: Parameters = Parameters { steering: true, ..PARAMETERS };

/// The kernel takes no shorter frame for a test run (`ETH_HLEN`).
const SHORTEST: usize = 14;
/// Every kernel takes this much.
const MANY_PAGES: usize = 64 << 10;

/// Asks the XDP program itself, loaded but attached to nothing.
pub struct BpfWalker {
    object: Object,
    out: Vec<u8>,
}

impl BpfWalker {
    /// Loads the program.
    pub fn load() -> Result<Self> {
        privilege::check("load the program")?;
        let mut object = Object::load(&ANSWERING)?;
        object.xdp(Build::Frags)?;
        Ok(Self { object, out: Vec::new() })
    }
}

impl Walker for BpfWalker {
    /// Frames shorter than an Ethernet header never reach a program; the native walk answers.
    fn headers(&mut self, frame: &[u8], policy: CopyPolicy) -> Result<Option<Answer>> {
        if frame.len() < SHORTEST {
            return Native.headers(frame, policy);
        }
        self.out.resize(frame.len() + Metadata::SIZE, 0);
        let program = self.object.xdp(Build::Frags)?;
        let Some(written) = run(program, frame, &mut self.out)? else { return Ok(None) };
        let metadata = metadata(&self.out).filter(|_| written == self.out.len());
        let Metadata { headers, .. } = metadata.ok_or_else(|| {
            Error::failed(format!("test run of a frame of {} bytes: no metadata", frame.len()))
        })?;
        let verdict = policy.decide(frame.len() as u32, &headers);
        Ok(Some(Answer { headers, verdict }))
    }
}

/// The metadata in front of a frame.
fn metadata(out: &[u8]) -> Option<Metadata> {
    let (first, rest) = out.split_first_chunk()?;
    let second = rest.first_chunk()?;
    Metadata::from_words([u64::from_ne_bytes(*first), u64::from_ne_bytes(*second)])
}

/// Runs the program over one frame; the length of what it left, metadata included. `None` if the
/// frame is longer than the kernel's test runs take (`bpf_prog_test_run_xdp`, net/bpf/test_run.c:
/// as many pages as a packet has fragments).
fn run(program: &Xdp, frame: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    let options =
        TestRunOptions { data_in: Some(frame), data_out: Some(out), ..TestRunOptions::new() };
    match program.test_run(options) {
        Ok(result) => Ok(Some(result.data_size_out as usize)),
        Err(error) if frame.len() > MANY_PAGES && is_too_long(&error) => Ok(None),
        Err(error) => {
            Err(pinned::aya_error(&format!("test run of a frame of {} bytes", frame.len()), &error))
        }
    }
}

fn is_too_long(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(SyscallError { io_error, .. })
        if matches!(io_error.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL)))
}
