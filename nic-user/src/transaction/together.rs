//! Changes to several interfaces as one: all of them, or none.

use std::vec;

use crate::{
    command_line::CommandLine,
    control::{
        Bpffs, Deadline, Identity, Journals, KernelDevice, Owner, Pending, Plan, Programs, Report,
        apply_then, give_back,
    },
    error::{Error, Result},
    nic::identity::InterfaceId,
    offload,
};

/// What is to be done to one interface.
pub(super) struct Part<R> {
    pub(super) device: KernelDevice,
    /// Its settings.
    pub(super) plan: Plan,
    /// What else.
    pub(super) rest: R,
}

/// What is done to an interface besides its settings, once those are so.
pub(super) trait Rest {
    /// The programs that there are before it, if it changes them.
    ///
    /// # Errors
    ///
    /// They cannot be read.
    fn before(&self) -> Result<Programs>;

    /// Does it.
    ///
    /// # Errors
    ///
    /// It failed, and nothing of it is left.
    fn run(&mut self) -> Result<()>;

    /// Undoes it, because another interface failed.
    ///
    /// # Errors
    ///
    /// It cannot be undone.
    fn undo(&mut self) -> Result<()>;
}

/// Nothing else.
impl Rest for () {
    fn before(&self) -> Result<Programs> {
        Ok(Programs::Same)
    }

    fn run(&mut self) -> Result<()> {
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        Ok(())
    }
}

/// In whose name something is changed, and how.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// Who wants it.
    pub owner: &'a Owner,
    /// Where originals are kept.
    pub journals: &'a Journals,
    /// It is given back after so many seconds, unless it is confirmed.
    pub confirm: Option<u32>,
}

/// Carries out all parts, or none: when one fails, those before it are undone. What became of the
/// settings of each is returned with the rest of it, also of those that were not reached.
pub(super) fn together<R: Rest>(
    parts: Vec<Part<R>>,
    manner: Manner<'_>,
) -> (Vec<(R, Report)>, Result<()>) {
    let refused = parts.iter().try_for_each(|part| refuse(&part.plan.identity, manner.journals));
    let mut all =
        Together { manner, ahead: parts.into_iter(), done: Vec::new(), noted: Vec::new() };
    let result = refused.and_then(|()| all.carry_out());
    let result = result.and_then(|()| all.begin_time());
    let Together { ahead, mut done, .. } = all;
    // Each is done when all those after it are.
    done.reverse();
    done.extend(ahead.map(|part| (part.rest, Report::of(&part.plan))));
    (done, result)
}

/// Nothing is built on what may be given back.
fn refuse(interface: &Identity, journals: &Journals) -> Result<()> {
    let Some(pending) = journals.pending(interface.id)? else { return Ok(()) };
    let (name, left) = (&interface.name, pending.deadline.left()?.unwrap_or_default());
    let what = format!("earlier changes of {name} are unconfirmed, with {left} s left");
    Err(Error::failed(what).with_fix(format!(
        "keep them: {}; or revert them: {}",
        CommandLine::nicctl("confirm").on(name).quoted(),
        CommandLine::nicctl("restore").on(name).quoted()
    )))
}

struct Together<'a, R> {
    manner: Manner<'a>,
    /// Those that were not reached yet.
    ahead: vec::IntoIter<Part<R>>,
    done: Vec<(R, Report)>,
    /// Those that wait to be confirmed.
    noted: Vec<InterfaceId>,
}

impl<R: Rest> Together<'_, R> {
    /// Carries out the first, and as a part of that all others: so a failure of any undoes all
    /// before it.
    fn carry_out(&mut self) -> Result<()> {
        let Some(part) = self.ahead.next() else { return Ok(()) };
        let noted = self.note(&part);
        let Part { mut device, plan, mut rest } = part;
        let Manner { owner, journals, .. } = self.manner;
        let report = noted.and_then(|()| {
            apply_then(&mut device, &plan, owner, journals, || {
                rest.run()?;
                self.carry_out().or_else(|error| rest.undo().and(Err(error)))
            })
        });
        // Without a journal, nothing was done.
        let mut report =
            report.unwrap_or_else(|error| Report { failure: Some(error), ..Report::of(&plan) });
        let result = match &report.failure {
            Some(failure) => Err(with_left(failure.clone(), &report)),
            None => Ok(()),
        };
        if result.is_err() && report.left.is_empty() && self.manner.confirm.is_some() {
            let removed = journals.remove_pending(plan.identity.id);
            report.notes.extend(removed.err().map(|error| error.to_string()));
        }
        self.done.push((rest, report));
        result
    }

    /// Writes down what there was, if it is to be given back unless it is confirmed.
    fn note(&mut self, part: &Part<R>) -> Result<()> {
        let Manner { journals, confirm: Some(seconds), .. } = self.manner else { return Ok(()) };
        let programs = part.rest.before()?;
        if part.plan.is_empty() && programs == Programs::Same {
            return Ok(());
        }
        let (path, device) = offload::bpffs_identity()?;
        let programs = (programs, Bpffs { path, device });
        let deadline = Deadline::within(seconds)?;
        journals.save_pending(&Pending::before(&part.plan, programs, deadline, journals)?)?;
        self.noted.push(part.plan.identity.id);
        Ok(())
    }

    /// The time to confirm begins when everything is done, however long that took.
    fn begin_time(&self) -> Result<()> {
        let Manner { journals, confirm: Some(seconds), .. } = self.manner else { return Ok(()) };
        let deadline = Deadline::within(seconds)?;
        self.noted.iter().try_for_each(|&interface| match journals.pending(interface)? {
            Some(mut pending) => {
                pending.deadline = deadline;
                journals.save_pending(&pending)
            }
            None => Ok(()),
        })
    }
}

/// The failure, with what of the settings could not be taken back.
fn with_left(failure: Error, report: &Report) -> Error {
    if report.left.is_empty() {
        return failure;
    }
    let left = give_back::in_one_line(&report.left);
    Error::new(failure.kind(), format!("{failure}; not restored: {left}"))
        .with_fix(CommandLine::nicctl("restore").on(&report.interface))
}
