//! The interfaces whose settings are meant: themselves, not what is below them.

use clap::Args;

use super::{name, target};
use crate::{
    control::{KernelDevice, Origin},
    error::{Kind, Result},
    netlink::link::LinkInfo,
    nic::{self, InterfaceName, Nic, setting::Group},
    report::json::{Failure, ForEach},
};

/// Interfaces by their names, or all.
#[derive(Debug, Args)]
pub(super) struct InterfacesArgs {
    /// Interfaces
    #[arg(value_name = "IFACE", required_unless_present = "all", conflicts_with = "all",
        value_parser = name::interface())]
    interfaces: Vec<String>,

    /// Every interface of this network namespace, or of the one that --netns names, but loopback
    #[arg(long)]
    all: bool,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,
}

impl InterfacesArgs {
    /// Goes to their network namespace.
    pub(super) fn enter(&self) -> Result<Chosen> {
        target::enter(self.netns.as_deref())?;
        Chosen::of(&self.interfaces, self.all, self.netns.as_deref())
    }
}

/// Interfaces by their names, or all, and settings behind them.
#[derive(Debug, Args)]
pub(super) struct InterfacesAndSettingsArgs {
    /// Interfaces, and behind them what to set to what: the first is an interface, and all up to
    /// the first setting
    #[arg(value_name = "IFACE|GROUP.NAME=VALUE", required_unless_present = "all",
        value_parser = name::interface())]
    words: Vec<String>,

    /// Every interface of this network namespace, or of the one that --netns names, but loopback;
    /// a setting that one does not have is left out there, and a size beyond its limit is cut to it
    #[arg(long)]
    all: bool,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,
}

impl InterfacesAndSettingsArgs {
    /// Goes to the network namespace of the interfaces; with them come the settings, as they were
    /// written.
    pub(super) fn enter(&self) -> Result<(Chosen, &[String])> {
        target::enter(self.netns.as_deref())?;
        let (names, settings) = self.words.split_at(self.names()?);
        Ok((Chosen::of(names, self.all, self.netns.as_deref())?, settings))
    }

    /// How many words are interfaces: a `=` makes a setting of the others, unless that is the name of
    /// an interface, and its beginning no group of settings.
    fn names(&self) -> Result<usize> {
        if self.all {
            return Ok(0);
        }
        for (index, word) in self.words.iter().enumerate().skip(1) {
            let is_setting = word.contains('=') && (begins_with_group(word) || !is_there(word)?);
            if is_setting {
                return Ok(index);
            }
        }
        Ok(self.words.len())
    }

    /// Where they were said.
    pub(super) const fn origin(&self) -> Origin {
        if self.all { Origin::CommandLineForAll } else { Origin::CommandLine }
    }
}

fn begins_with_group(word: &str) -> bool {
    word.split_once('.').is_some_and(|(group, _)| group.parse::<Group>().is_ok())
}

fn is_there(name: &str) -> Result<bool> {
    let Ok(name) = InterfaceName::new(name) else { return Ok(false) };
    match nic::link(&name) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Interfaces of the present network namespace.
pub(super) struct Chosen {
    pub(super) which: Which,
    /// What `--netns` called the network namespace.
    pub(super) netns: Option<String>,
}

/// Which interfaces.
pub(super) enum Which {
    /// One that was named alone: its document stands alone, too.
    One(InterfaceName),
    /// Several that were named.
    Several(Vec<InterfaceName>),
    /// All but loopback.
    All,
}

impl Chosen {
    /// Those of the network namespace where this process is by now.
    fn of(names: &[String], all: bool, netns: Option<&str>) -> Result<Self> {
        let which = match names {
            _ if all => Which::All,
            [name] => Which::One(InterfaceName::new(name)?),
            names => Which::Several(names.iter().map(InterfaceName::new).collect::<Result<_>>()?),
        };
        Ok(Self { which, netns: netns.map(str::to_owned) })
    }

    pub(super) const fn is_all(&self) -> bool {
        matches!(self.which, Which::All)
    }

    /// Each of them once.
    pub(super) fn links(&self) -> Result<Vec<LinkInfo>> {
        let names = match &self.which {
            Which::One(name) => std::slice::from_ref(name),
            Which::Several(names) => names,
            Which::All => return all(),
        };
        let links = names.iter().map(nic::link).collect::<Result<Vec<_>>>()?;
        Ok(target::each_once(links, |link| link.ifindex))
    }

    pub(super) fn devices(&self) -> Result<Vec<KernelDevice>> {
        let mut devices = Vec::new();
        for link in self.links()? {
            match Nic::of(link).and_then(KernelDevice::new) {
                // It went while the others were looked at.
                Err(error) if error.kind() == Kind::NotFound && self.is_all() => {}
                device => devices.push(device?),
            }
        }
        Ok(devices)
    }

    /// The document of the one that was named alone, or one for all documents.
    pub(super) fn document<D>(&self, documents: Vec<D>, failures: Vec<Failure>) -> ForEach<D> {
        ForEach::new(documents, matches!(self.which, Which::One(_)), failures)
    }
}

fn all() -> Result<Vec<LinkInfo>> {
    let links = nic::links()?.into_iter();
    Ok(links.filter(|link| link.link_type != libc::ARPHRD_LOOPBACK).collect())
}
