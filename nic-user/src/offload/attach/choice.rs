//! Which mode is tried, and why.

use nic_common::policy::CopyPolicy;

use super::{ModeWanted, Options, Switches, attachment_of, in_attach};
use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    netlink::link::{Links, XdpAttachment, XdpMode},
    nic::{
        Nic,
        mode::{self, Mode},
    },
    offload::{attachment::Attachment, foreign, pinned::PolicyWord, slot::Slot},
};

/// Modes to try, and why the first of them is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The mode to try.
    pub first: Mode,
    /// The one to try where that is refused.
    pub then: Option<Mode>,
    /// Why; `None` where it was said which.
    pub why: Option<String>,
}

impl Choice {
    fn only(first: Mode, why: impl Into<Option<String>>) -> Self {
        Self { first, then: None, why: why.into() }
    }

    fn native_or(then: Mode, why: String) -> Self {
        Self { first: Mode::Xdp(XdpMode::Native), then: Some(then), why: Some(why) }
    }

    /// The same where the modes before `mode` are known to be refused.
    fn from(self, mode: Mode) -> Self {
        if self.then == Some(mode) { Self::only(mode, None) } else { self }
    }
}

/// What to try on `nic`.
///
/// # Errors
///
/// What is wished for contradicts itself, or what is there.
pub fn choose(nic: &Nic, options: &Options<'_>) -> Result<Choice> {
    choose_beside(nic, options, attachment_of(nic)?.as_ref()).map_err(|error| in_attach(nic, error))
}

/// The same, knowing what is attached.
pub(super) fn choose_beside(
    nic: &Nic,
    options: &Options<'_>,
    current: Option<&Attachment>,
) -> Result<Choice> {
    let needed = only_at_xdp(options, current)?;
    let ours = current.is_some_and(|it| it.xdp_program().is_some());
    // What a killed attach left is cleared away before the next.
    let foreign = match ours || Slot::of(&nic.link)?.is_half_made()? {
        true => None,
        false => foreign_program(nic)?,
    };
    match (options.mode, needed, foreign) {
        (ModeWanted::Only(Mode::Tc), Some(what), _) => Err(what.refused_at_tc(nic)),
        (ModeWanted::Only(Mode::Tc), None, _) => Ok(Choice::only(Mode::Tc, None)),
        (ModeWanted::Only(_), _, Some(attached)) | (_, Some(_), Some(attached)) => {
            Err(foreign::refusal(nic, &attached))
        }
        (ModeWanted::Only(mode), _, None) => Ok(Choice::only(mode, None)),
        (ModeWanted::Auto, needed, foreign) => Ok(by_itself(nic, current, needed, foreign)),
        (ModeWanted::From(first), needed, foreign) => {
            Ok(by_itself(nic, current, needed, foreign).from(first))
        }
    }
}

fn by_itself(
    nic: &Nic,
    current: Option<&Attachment>,
    needed: Option<OnlyAtXdp>,
    foreign: Option<XdpAttachment>,
) -> Choice {
    let current = current.map(Attachment::mode);
    match (current, needed, foreign) {
        (Some(mode @ Mode::Xdp(_)), _, None) => {
            Choice::only(mode, "it was attached in this mode".to_owned())
        }
        (_, Some(what), _) => Choice::native_or(
            Mode::Xdp(XdpMode::Generic),
            format!("{} at XDP alone", what.happens()),
        ),
        (_, None, Some(attached)) => Choice::only(Mode::Tc, foreign::description(nic, &attached)),
        (Some(Mode::Tc), None, None) => {
            Choice::only(Mode::Tc, "it was attached in this mode".to_owned())
        }
        (None, None, None) => match mode::why_tc_alone(nic) {
            Some(why) => Choice::only(Mode::Tc, why),
            None => Choice::native_or(
                Mode::Tc,
                "it counts every frame, and no large cost is known for this driver".to_owned(),
            ),
        },
    }
}

/// What no program at TC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnlyAtXdp {
    Rings,
    Log,
    Verdicts,
}

impl OnlyAtXdp {
    const fn happens(self) -> &'static str {
        match self {
            Self::Rings => "frames go to AF_XDP rings",
            Self::Log => "malformed frames are logged",
            Self::Verdicts => "a copy policy was given",
        }
    }

    fn refused_at_tc(self, nic: &Nic) -> Error {
        let fix = match self {
            Self::Rings => "first end the process that uses the rings".to_owned(),
            Self::Log => CommandLine::nicctl("attach")
                .on(nic.name())
                .with("--mode", "tc")
                .option("--log=off")
                .to_string(),
            Self::Verdicts => "omit the copy policy or --mode tc; with --pull, --rx-copybreak \
                               applies to TC, too"
                .to_owned(),
        };
        Error::usage(format!("--mode tc: {} at XDP alone", self.happens())).with_fix(fix)
    }
}

/// What is asked for, or at work, that only XDP does.
fn only_at_xdp(options: &Options<'_>, current: Option<&Attachment>) -> Result<Option<OnlyAtXdp>> {
    let steering = current.map(|it| PolicyWord::of(it.slot())?.is_steering()).transpose()?;
    match options.for_rings || steering == Some(true) {
        true => Ok(Some(OnlyAtXdp::Rings)),
        false => asked_for(options, current),
    }
}

/// What is asked for that only XDP does, by whoever attaches for more than rings.
pub(super) fn asked_for(
    options: &Options<'_>,
    current: Option<&Attachment>,
) -> Result<Option<OnlyAtXdp>> {
    let switches = Switches::of(options, current.map(Attachment::record));
    let policy = current.map_or(Ok(CopyPolicy::DEFAULT), Attachment::policy)?;
    let wanted = (options.policy)(policy);
    // TC pulls together what is to be copied, and splits nothing.
    let decided = match switches.pull {
        true => CopyPolicy { rx_copybreak: policy.rx_copybreak, ..wanted },
        false => wanted,
    };
    let needs = [(switches.log, OnlyAtXdp::Log), (decided != policy, OnlyAtXdp::Verdicts)];
    Ok(needs.into_iter().find_map(|(needed, what)| needed.then_some(what)))
}

/// The XDP program on `nic`, now: what was there when it was read may have been our own, and gone
/// by now.
fn foreign_program(nic: &Nic) -> Result<Option<XdpAttachment>> {
    let mut links = Links::open().map_err(|error| error.while_doing("look for XDP programs"))?;
    let link = links.by_index(nic.ifindex());
    let link = link.map_err(|error| error.while_doing("look for XDP programs"))?;
    Ok(link.xdp.into_iter().next())
}
