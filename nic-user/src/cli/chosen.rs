//! The interfaces whose settings are meant: themselves, not the ones below them.

use clap::Args;

use super::{name, target};
use crate::{
    control::{KernelDevice, Origin},
    error::{Kind, Result},
    netlink::link::LinkInfo,
    nic::{self, InterfaceName, Nic, setting::Group},
    report::json::{Failure, ForEach},
};

/// Interfaces by name, or all.
#[derive(Debug, Args)]
pub(super) struct InterfacesArgs {
    /// Interfaces
    #[arg(value_name = "IFACE", required_unless_present = "all", conflicts_with = "all",
        value_parser = name::interface())]
    interfaces: Vec<String>,

    /// All interfaces of this network namespace (or that of --netns), except loopback
    #[arg(long)]
    all: bool,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,
}

impl InterfacesArgs {
    /// Enters their network namespace.
    pub(super) fn enter(&self) -> Result<Chosen> {
        target::enter(self.netns.as_deref())?;
        Chosen::of(&self.interfaces, self.all, self.netns.as_deref())
    }
}

/// Interfaces by name, or all, followed by settings.
#[derive(Debug, Args)]
pub(super) struct InterfacesAndSettingsArgs {
    /// Interfaces, then settings; everything before the first setting is an interface
    #[arg(value_name = "IFACE|GROUP.NAME=VALUE", required_unless_present = "all",
        value_parser = name::interface())]
    words: Vec<String>,

    /// All interfaces of this network namespace (or that of --netns), except loopback; settings an
    /// interface lacks are skipped, and sizes beyond its limits are clamped
    #[arg(long)]
    all: bool,

    /// Network namespace of the interfaces, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::namespace())]
    netns: Option<String>,
}

impl InterfacesAndSettingsArgs {
    /// Enters the network namespace of the interfaces; returns the settings as written.
    pub(super) fn enter(&self) -> Result<(Chosen, &[String])> {
        target::enter(self.netns.as_deref())?;
        let (names, settings) = self.words.split_at(self.names()?);
        Ok((Chosen::of(names, self.all, self.netns.as_deref())?, settings))
    }

    /// How many words are interfaces. A word with `=` is a setting, unless an interface has that
    /// name and what stands before the `=` is no group of settings.
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

    /// Where they were given.
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

/// Interfaces of the current network namespace.
pub(super) struct Chosen {
    pub(super) which: Which,
    /// What `--netns` called the network namespace.
    pub(super) netns: Option<String>,
}

/// Which interfaces.
pub(super) enum Which {
    /// A single named one: its document stands alone, too.
    One(InterfaceName),
    /// Several that were named.
    Several(Vec<InterfaceName>),
    /// All but loopback.
    All,
}

impl Chosen {
    /// Those of the network namespace that this process has entered.
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

    /// The document of a single named interface, or one for all documents.
    pub(super) fn document<D>(&self, documents: Vec<D>, failures: Vec<Failure>) -> ForEach<D> {
        ForEach::new(documents, matches!(self.which, Which::One(_)), failures)
    }
}

fn all() -> Result<Vec<LinkInfo>> {
    let links = nic::links()?.into_iter();
    Ok(links.filter(|link| link.link_type != libc::ARPHRD_LOOPBACK).collect())
}
