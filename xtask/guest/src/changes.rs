//! The control plane on a card, in this process: emulation takes long to start another one.

use std::collections::BTreeMap;

use nic_user::{
    control::{
        self, Context, Device, Identity, Journals, KernelDevice, Origin, Owner, Report, Undo,
        Whose, wanted,
    },
    error::Result,
    lab::Host,
    netlink,
    nic::{
        Nic,
        setting::{Group, Settings, Value},
        settings,
    },
};

/// Where `nicctl` has them, too.
fn journals() -> Journals {
    Journals::system()
}

/// Everything that the card has now.
pub fn settings(host: &Host) -> Settings {
    host.run(|| settings::read(&Nic::by_index(host.ifindex())?)).unwrap().unwrap()
}

/// Plans and applies `wishes`, as `nicctl set` does; `fault` is what goes wrong meanwhile.
pub fn set<S: AsRef<str> + Sync>(
    host: &Host,
    wishes: &[S],
    fault: Fault,
) -> Result<(Report, usize)> {
    let wishes: Vec<String> = wishes.iter().map(|wish| wish.as_ref().to_owned()).collect();
    host.run(|| {
        let mut device = Faulty::of(host, fault)?;
        let (identity, obtained) = (device.identity(), BTreeMap::new());
        let current = device.device.read()?;
        let context = Context {
            identity: &identity,
            xdp: control::plan::Xdp::None,
            limits: &[],
            around: &device.device.surroundings()?,
            obtained: &obtained,
        };
        let desired = wanted::from_arguments(&wishes, &Origin::CommandLine)?;
        let plan = control::plan(&desired, &current, &context)?;
        let report = control::apply(&mut device, &plan, &Owner::Set, &journals())?;
        Ok((report, device.writes))
    })?
}

/// Gives everything back, as `nicctl restore` does.
pub fn restore(host: &Host) {
    let restored = host.run(|| {
        let mut device = Faulty::of(host, Fault::None)?;
        let everything = Undo { whose: Whose::Everybody, force: false };
        control::undo(&mut device, &journals(), everything)
    });
    let error = restored.unwrap().unwrap().error();
    assert!(error.is_none(), "{error:?}");
}

/// What goes wrong with one write, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is refused.
    Refused(usize),
    /// It has its effect, and then fails.
    Half(usize),
    /// What came of it cannot be read.
    ReadBack(usize),
    /// The process ends when it has had its effect.
    End(usize),
}

/// What ends the process, as far as the control plane can tell.
pub struct Ended;

/// A card that something goes wrong with.
struct Faulty {
    device: KernelDevice,
    fault: Fault,
    writes: usize,
}

impl Faulty {
    fn of(host: &Host, fault: Fault) -> Result<Self> {
        let device = KernelDevice::new(Nic::by_index(host.ifindex())?)?;
        Ok(Self { device, fault, writes: 0 })
    }
}

impl Device for Faulty {
    fn read(&mut self) -> Result<Settings> {
        self.device.read()
    }

    fn read_group(&mut self, group: Group) -> Result<Settings> {
        if self.fault == Fault::ReadBack(self.writes - 1) {
            return Err(netlink::Error::from_errno(libc::ENOMEM).while_doing("read"));
        }
        self.device.read_group(group)
    }

    fn write(
        &mut self,
        group: Group,
        changes: &[(String, Value)],
    ) -> netlink::Result<Option<String>> {
        let write = self.writes;
        self.writes += 1;
        let busy = || Err(netlink::Error::from_errno(libc::EBUSY));
        if self.fault == Fault::Refused(write) {
            return busy();
        }
        let written = self.device.write(group, changes);
        match self.fault {
            Fault::Half(at) if at == write => busy(),
            // Without the hook's message: it is meant.
            Fault::End(at) if at == write => std::panic::resume_unwind(Box::new(Ended)),
            _ => written,
        }
    }

    fn identity(&self) -> Identity {
        self.device.identity()
    }

    fn speed(&self) -> Option<u32> {
        self.device.speed()
    }
}
