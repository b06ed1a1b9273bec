//! nicctl's own programs at both hosts of a lab, as `nicctl attach` leaves them there.

use nic_common::policy::CopyPolicy;

use crate::{
    error::Result,
    lab::{Host, Lab},
    nic::Nic,
    offload::{self, Attachment, Lock, ModeWanted, Options, Slot},
};

/// What is attached to both hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// Nothing.
    None,
    /// The programs, which count and mark.
    Attached,
    /// And pull packets of up to so many bytes together.
    Pulling(u16),
}

/// The attachments of a lab; detached when this is dropped, which must be before the lab is.
pub struct Attachments([Slot; 2]);

impl Attachments {
    /// None yet. What a killed bench left in bpffs of labs that are gone is cleared away.
    pub fn of(lab: &Lab) -> Result<Self> {
        clear_stale([lab.a(), lab.b()].map(Host::interface))?;
        Ok(Self([slot(lab.a())?, slot(lab.b())?]))
    }

    /// Attaches what is wanted, in place of what there is.
    pub fn change(&self, lab: &Lab, wanted: Programs) -> Result<()> {
        let (pull, policy) = match wanted {
            Programs::None => return self.detach(),
            Programs::Attached => (false, CopyPolicy::DEFAULT),
            Programs::Pulling(rx_copybreak) => {
                (true, CopyPolicy { rx_copybreak, ..CopyPolicy::DEFAULT })
            }
        };
        let lock = Lock::take(|_| {})?;
        for host in [lab.a(), lab.b()] {
            host.run(|| {
                let options = Options {
                    mode: ModeWanted::Auto,
                    policy: &|_| policy,
                    pull: Some(pull),
                    log: Some(false),
                    clsact: false,
                    for_rings: false,
                };
                offload::attach(&lock, &Nic::by_index(host.ifindex())?, &options)
            })??;
        }
        Ok(())
    }

    /// Packets that were pulled together so far; nothing if nothing is attached.
    pub fn pulled(&self) -> Result<Option<u64>> {
        let mut pulled = None;
        for slot in &self.0 {
            if let Some(attachment) = Attachment::of(slot.clone())? {
                let ingress = attachment.read()?.ingress;
                let here: u64 = ingress.iter().map(|queue| queue.pulled).sum();
                pulled = Some(pulled.unwrap_or_default() + here);
            }
        }
        Ok(pulled)
    }

    fn detach(&self) -> Result<()> {
        self.0.iter().try_for_each(detach)
    }
}

impl Drop for Attachments {
    fn drop(&mut self) {
        // The programs go with the lab, and the next bench clears their pins away.
        let _ = self.detach();
    }
}

fn slot(host: &Host) -> Result<Slot> {
    Ok(Slot::new(host.netns().cookie()?, host.ifindex()))
}

fn detach(slot: &Slot) -> Result<()> {
    if slot.exists()? {
        offload::detach(&Lock::take(|_| {})?, slot)?;
    }
    Ok(())
}

/// Clears away what was attached to interfaces of these names which are gone.
fn clear_stale(names: [&str; 2]) -> Result<()> {
    for slot in Slot::all()? {
        // What another version attached is not ours to judge.
        let Ok(Some(attachment)) = Attachment::of(slot) else { continue };
        if attachment.is_stale() && names.contains(&attachment.recorded_name().as_str()) {
            detach(attachment.slot())?;
        }
    }
    Ok(())
}
