//! What lent interfaces were, written down before anything happens to them.
//!
//! Giving them back goes by that and by what is, and by nothing else: so it is the same after a
//! run, after one that was killed, and after giving back itself was. What is written down is not
//! kept over a boot, and neither is what it is about.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{
    control::{Device, KernelDevice, give_back::give_back},
    error::{Error, Kind, Result},
    lab::{self, Lab},
    netlink::{
        link::{LinkInfo, Links},
        route::{Address, Routes},
    },
    nic::{
        Nic,
        namespace::{self, NetNs},
        setting::{Access, Key, Value},
    },
};

/// Where it is written down.
const DIRECTORY: &str = "/run/nicctl";
/// What its file is called while it is being written.
const UNFINISHED: &str = "new";
/// Format of the file.
const VERSION: u32 = 1;
/// What is larger is none of ours.
const MAX_BYTES: u64 = 16 << 20;
/// What the kernel can be told of an interface besides, by directories in `/proc/sys/net`. It
/// forgets all of it when the interface goes elsewhere.
const SYSCTLS: [&str; 4] = ["ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh"];

/// Interfaces that are elsewhere for a while. While this exists its file is locked, which tells
/// loans from what a killed process left behind.
#[derive(Debug)]
pub struct Loan {
    path: PathBuf,
    record: Record,
    _in_use: Flock<File>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    version: u32,
    /// Number of the network namespace that they are from.
    netns_cookie: u64,
    /// The names of those that they are in.
    namespaces: [String; 2],
    ends: [End; 2],
}

/// What one interface was.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    name: String,
    kind: Option<String>,
    mac: Option<[u8; 6]>,
    up: bool,
    addresses: Vec<Address>,
    settings: BTreeMap<Key, Value>,
    /// By paths below `/proc/sys/net`.
    sysctls: BTreeMap<String, String>,
}

impl End {
    /// What an interface of the present namespace is.
    pub fn of(nic: &Nic) -> Result<Self> {
        let LinkInfo { name, kind, up, .. } = nic.link.clone();
        let addresses = Routes::open().and_then(|mut it| it.addresses_of(nic.ifindex()));
        let addresses = addresses.map_err(|error| error.while_doing("read addresses"))?;
        let settings = KernelDevice::new(nic.clone())?.read()?.into_iter();
        // What is only requested follows from others: off is not what was wished.
        let settings = settings.filter(|(_, setting)| {
            setting.access == Access::ReadWrite && setting.requested.is_none()
        });
        Ok(Self {
            mac: mac(&nic.link),
            kind,
            up,
            addresses,
            settings: settings.map(|(key, setting)| (key, setting.value)).collect(),
            sysctls: sysctls(&name),
            name,
        })
    }

    /// The interface in the present namespace, whatever it is called there: that is the one of
    /// its name, or where the kernel found that taken, the one of its hardware address.
    fn find(&self) -> Result<Option<LinkInfo>> {
        let links = Links::open().and_then(|mut links| links.all());
        let links = links.map_err(|error| error.while_doing("list the interfaces"))?;
        let mut found: Vec<_> = links
            .into_iter()
            .filter(|link| self.mac.is_some() && mac(link) == self.mac && link.kind == self.kind)
            .collect();
        found.sort_by_key(|link| link.name != self.name);
        Ok(found.into_iter().next())
    }

    /// Takes it out of wherever it may be, and makes it what it was. If it is nowhere, there is
    /// nothing to be given back.
    fn give_back(&self, namespace: &str, home: &NetNs) -> Result<()> {
        let away = match NetNs::named(namespace) {
            Err(error) if error.kind() == Kind::NotFound => None,
            other => Some(other?),
        };
        for from in away.iter().chain([home]) {
            if self.give_back_from(from, home)? {
                return Ok(());
            }
        }
        match NetNs::first() {
            // The kernel itself took it there if its namespace has ended.
            Ok(first) => self.give_back_from(&first, home).map(drop),
            // Others end with their namespace.
            Err(_) if self.kind.is_some() => Ok(()),
            Err(error) => Err(error.while_doing(format_args!("look for {}", self.name))),
        }
    }

    /// Whether it was there.
    fn give_back_from(&self, from: &NetNs, home: &NetNs) -> Result<bool> {
        let Some(link) = from.run(|| self.find())?? else { return Ok(false) };
        if from.cookie()? != home.cookie()? {
            self.fetch(&link, from, home)?;
        }
        home.run(|| self.settle())??;
        Ok(true)
    }

    fn fetch(&self, link: &LinkInfo, from: &NetNs, home: &NetNs) -> Result<()> {
        let fetched = from.run(|| {
            let mut links = Links::open()?;
            links.set_up(link.ifindex, false)?;
            links.move_as(link.ifindex, home.as_fd(), &self.name)
        })?;
        fetched.map_err(|error| error.while_doing(format_args!("give {} back", self.name)))
    }

    /// Makes it what it was, from within its own namespace.
    fn settle(&self) -> Result<()> {
        let Some(link) = self.find()? else { return Ok(()) };
        let action = format!("give {} back", self.name);
        let fail = |error: crate::netlink::Error| error.while_doing(&action);
        let is = sysctls(&link.name);
        for (path, was) in self.sysctls.iter().filter(|(path, was)| is.get(*path) != Some(was)) {
            // Some have a limit that depends on others, or are two names of one thing.
            let _ = fs::write(Path::new(SYSCTL_ROOT).join(path), was);
        }
        Links::open().and_then(|mut links| links.set_up(link.ifindex, self.up)).map_err(fail)?;
        let mut device = KernelDevice::new(Nic::by_index(link.ifindex)?)?;
        let given = give_back(&mut device, &self.settings);
        let mut routes = Routes::open().map_err(fail)?;
        for address in &self.addresses {
            routes.add_address(link.ifindex, address).map_err(fail)?;
        }
        match given.left.first() {
            None => Ok(()),
            Some(left) => Err(Error::failed(format!("{action}: {} is not {}", left.key, left.was))
                .with_fix("`nicctl show` tells what it is; set it, and run this again")),
        }
    }
}

const SYSCTL_ROOT: &str = "/proc/sys/net";

/// What can be read of an interface below [`SYSCTLS`].
fn sysctls(interface: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for directory in SYSCTLS {
        let directory = format!("{directory}/{interface}");
        let entries = fs::read_dir(Path::new(SYSCTL_ROOT).join(&directory));
        for entry in entries.into_iter().flatten().flatten() {
            if let (Ok(value), Ok(name)) =
                (fs::read_to_string(entry.path()), entry.file_name().into_string())
            {
                all.insert(format!("{directory}/{name}"), value);
            }
        }
    }
    all
}

fn mac(link: &LinkInfo) -> Option<[u8; 6]> {
    link.permanent_mac.or(link.mac)
}

impl Loan {
    /// Writes down what interfaces of the present namespace are that will be in others.
    pub fn begin(ends: [End; 2], namespaces: [&str; 2]) -> Result<Self> {
        let netns_cookie = namespace::current_cookie()?;
        let namespaces = namespaces.map(str::to_owned);
        let record = Record { version: VERSION, netns_cookie, namespaces, ends };
        let path = path_of(&record.namespaces[0]);
        let fail = |error: io::Error| Error::io(format!("write {}", path.display()), &error);
        let in_use = write(&path, &record).map_err(fail)?;
        Ok(Self { path, record, _in_use: in_use })
    }

    /// Gives both back, and forgets about them once they are.
    pub fn give_back(&self) -> Result<()> {
        let Record { netns_cookie, namespaces, ends, .. } = &self.record;
        // It was given back before.
        let there = self.path.try_exists();
        if !there.map_err(|e| Error::io(format!("look at {}", self.path.display()), &e))? {
            return Ok(());
        }
        let home = namespace::of_cookie(*netns_cookie)?.ok_or_else(|| {
            let path = self.path.display();
            Error::failed(format!(
                "give {self} back: the network namespace that they were in is no more"
            ))
            .with_fix(format!("take them out of {}, and remove {path}", namespaces.join(", ")))
        })?;
        let given = ends.iter().zip(namespaces).map(|(end, namespace)| {
            let given = end.give_back(namespace, &home);
            given.map_err(|error| {
                let fix = error.fix().unwrap_or("see what is in its way, and run this again");
                Error::failed(error.to_string()).with_fix(fix)
            })
        });
        // One that does not come does not keep the other.
        let given: Vec<Result<()>> = given.collect();
        given.into_iter().collect::<Result<()>>()?;
        for namespace in namespaces {
            lab::remove_lent(namespace);
        }
        let fail = |error| Error::io(format!("remove {}", self.path.display()), &error);
        fs::remove_file(&self.path).map_err(fail)
    }

    /// What is written there, unless it is in use, or gone.
    fn open(path: &Path) -> Option<Result<Self>> {
        let file = File::open(path).ok()?;
        let in_use = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
        // Somebody may have given it back in between.
        if in_use.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
            return None;
        }
        let mut text = Vec::new();
        let read = (&*in_use).take(MAX_BYTES).read_to_end(&mut text);
        let record = read.and_then(|_| Ok(serde_json::from_slice::<Record>(&text)?));
        let action = format!("read {}", path.display());
        Some(match record {
            Ok(record) if record.version == VERSION => {
                Ok(Self { path: path.to_owned(), record, _in_use: in_use })
            }
            Ok(Record { version, .. }) => {
                Err(Error::failed(format!("{action}: it is of a nicctl with format {version}")))
            }
            Err(error) => Err(Error::io(action, &error)),
        })
    }
}

impl std::fmt::Display for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b] = &self.record.ends;
        write!(f, "{} and {}", a.name, b.name)
    }
}

/// Writes a file as a whole, or not at all; it is locked.
fn write(path: &Path, record: &Record) -> io::Result<Flock<File>> {
    DirBuilder::new().recursive(true).mode(0o755).create(DIRECTORY)?;
    let unfinished = path.with_extension(UNFINISHED);
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let in_use = Flock::lock(file, FlockArg::LockExclusiveNonblock);
    let in_use = in_use.map_err(|(_, error)| io::Error::from(error))?;
    (&*in_use).write_all(&serde_json::to_vec(record)?)?;
    in_use.sync_all()?;
    fs::rename(&unfinished, path)?;
    Ok(in_use)
}

/// What killed runs have lent and not given back.
pub fn left_behind() -> Vec<Result<Loan>> {
    let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.filter_map(|path| Loan::open(&path)).collect()
}

/// Gives back what killed runs have not.
///
/// # Errors
///
/// Something can not be given back; the rest is.
pub fn give_back_all() -> Result<()> {
    let given: Vec<Result<()>> =
        left_behind().into_iter().map(|loan| loan.and_then(|loan| loan.give_back())).collect();
    given.into_iter().collect::<Result<()>>()?;
    // Killed before it had written anything down, and so before it took anything.
    Lab::sweep_lent(|namespace| {
        let path = path_of(namespace);
        let _ = fs::remove_file(path.with_extension(UNFINISHED));
        path.exists()
    })?;
    Ok(())
}

/// What is written down of interfaces that are in this namespace, or in that of the other end.
fn path_of(namespace: &str) -> PathBuf {
    let both = namespace.rsplit_once('-').map_or(namespace, |(both, _end)| both);
    Path::new(DIRECTORY).join(format!("{both}.json"))
}
