//! The interfaces whose settings are meant: themselves, not what is below them.

use clap::Args;

use super::{name, target};
use crate::{
    control::{KernelDevice, Origin},
    error::{Kind, Result},
    netlink::link::LinkInfo,
    nic::{self, InterfaceName, Nic},
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
        Chosen::enter(&self.interfaces, self.all, self.netns.as_deref())
    }
}

/// Interfaces by their names, or all, and settings behind them.
#[derive(Debug, Args)]
pub(super) struct InterfacesAndSettingsArgs {
    /// Interfaces, and behind them what to set to what: the first is an interface, and all up to
    /// the first with a `=`
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
    fn split(&self) -> (&[String], &[String]) {
        let is_setting = |(index, word): (usize, &String)| index > 0 && word.contains('=');
        let first = self.words.iter().enumerate().position(is_setting);
        self.words.split_at(if self.all { 0 } else { first.unwrap_or(self.words.len()) })
    }

    /// The settings, as they were written.
    pub(super) fn settings(&self) -> &[String] {
        self.split().1
    }

    /// Where they were said.
    pub(super) const fn origin(&self) -> Origin {
        if self.all { Origin::CommandLineForAll } else { Origin::CommandLine }
    }

    /// Goes to the network namespace of the interfaces.
    pub(super) fn enter(&self) -> Result<Chosen> {
        Chosen::enter(self.split().0, self.all, self.netns.as_deref())
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
    /// Goes to the network namespace of the interfaces.
    fn enter(names: &[String], all: bool, netns: Option<&str>) -> Result<Self> {
        target::enter(netns)?;
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
        let mut links: Vec<LinkInfo> = Vec::new();
        for name in names {
            let link = nic::link(name)?;
            if links.iter().all(|known| known.ifindex != link.ifindex) {
                links.push(link);
            }
        }
        Ok(links)
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
