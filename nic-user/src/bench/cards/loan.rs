//! What lent interfaces were, written down before anything happens to them.
//!
//! Giving them back goes by that and by what is, and by nothing else: so it is the same after a
//! run, after one that was killed, and after giving back itself was. What is written down is not
//! kept over a boot, and neither is what it is about.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use serde::{Deserialize, Serialize};

use crate::{
    control::{Device, KernelDevice, give_back::give_back},
    error::{Error, Kind, Result},
    lab::{self, LENT, Lab},
    netlink::{
        link::{LinkInfo, Links},
        route::{Address, Routes},
    },
    nic::{
        Nic,
        namespace::{self, NetNs},
        setting::{Access, Key, Value},
        sysfs,
    },
    trusted,
};

use super::sysctls::{self, Sysctls};

/// Where it is written down.
const DIRECTORY: &str = "/run/nicctl";
/// What its file is called while it is being written.
const UNFINISHED: &str = "new";
/// Format of the file.
const VERSION: u32 = 2;
/// What is larger is none of ours.
const MAX_BYTES: u64 = 16 << 20;

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
    sysctls: Sysctls,
}

impl End {
    /// What an interface of the present namespace is.
    pub fn of(nic: &Nic) -> Result<Self> {
        let LinkInfo { name, kind, up, .. } = nic.link.clone();
        let addresses = Routes::open().and_then(|mut it| it.addresses_of(nic.ifindex()));
        let addresses = addresses.map_err(|error| error.while_doing("read addresses"))?;
        let settings = KernelDevice::new(nic.clone())?.read()?.into_iter();
        // What is only requested follows from others: off is not what was asked for.
        let settings = settings.filter(|(_, setting)| {
            setting.access == Access::ReadWrite && setting.requested.is_none()
        });
        Ok(Self {
            mac: mac(&nic.link),
            kind,
            up,
            addresses,
            settings: settings.map(|(key, setting)| (key, setting.value)).collect(),
            sysctls: sysctls::read(&name)?,
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
        sysctls::give_back(&link.name, &self.sysctls)?;
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
                .with_fix("inspect it (show), set it (set), and run this again")),
        }
    }
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
        trusted::make_folder(Path::new(DIRECTORY))?;
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
            Error::failed(format!("return {self}: their network namespace no longer exists"))
                .with_fix(format!("move them out of {} and remove {path}", namespaces.join(", ")))
        })?;
        let given = ends.iter().zip(namespaces).map(|(end, namespace)| {
            let given = end.give_back(namespace, &home);
            given.map_err(|error| {
                let fix =
                    error.fix().unwrap_or("resolve what the kernel reports, and run this again");
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
    fn open(path: &Path) -> Result<Option<Self>> {
        let Some(file) = trusted::open_file(path)? else { return Ok(None) };
        let fail = |what: &str, error| Error::io(format!("{what} {}", path.display()), &error);
        let in_use = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(in_use) => in_use,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, errno)) => return Err(fail("lock", errno.into())),
        };
        // Somebody may have given it back in between.
        if in_use.metadata().map_err(|error| fail("look at", error))?.nlink() == 0 {
            return Ok(None);
        }
        let record = decode(&trusted::contents(path, &in_use, MAX_BYTES)?).map_err(|what| {
            let path = path.display();
            Error::failed(format!("read {path}: {what}")).with_fix(format!(
                "move the interfaces back by hand, from the namespaces nic-*-{LENT}-*, and remove \
                 {path}"
            ))
        })?;
        Ok(Some(Self { path: path.to_owned(), record, _in_use: in_use }))
    }
}

/// Only the version is read of a record of another version.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

fn decode(bytes: &[u8]) -> Result<Record, String> {
    let damaged = |error: serde_json::Error| format!("it is damaged: {error}");
    match serde_json::from_slice::<AnyVersion>(bytes).map_err(damaged)?.version {
        VERSION => {}
        other => {
            return Err(format!("its format is version {other}; this nicctl supports {VERSION}"));
        }
    }
    let record: Record = serde_json::from_slice(bytes).map_err(damaged)?;
    match record.namespaces.iter().find(|name| !lab::is_lent(name)) {
        Some(other) => Err(format!("{other:?} is not a namespace of a loan")),
        None => Ok(record),
    }
}

impl Loan {
    /// The names of both.
    pub fn names(&self) -> [&str; 2] {
        self.record.ends.each_ref().map(|end| end.name.as_str())
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
    let unfinished = path.with_extension(UNFINISHED);
    let in_use = Flock::lock(trusted::create(&unfinished)?, FlockArg::LockExclusiveNonblock);
    let in_use = in_use.map_err(|(_, error)| io::Error::from(error))?;
    (&*in_use).write_all(&serde_json::to_vec(record)?)?;
    in_use.sync_all()?;
    fs::rename(&unfinished, path)?;
    Ok(in_use)
}

/// What killed runs have lent and not given back, and why some of it cannot be read.
pub fn left_behind() -> Vec<Result<Loan>> {
    match paths() {
        Ok(paths) => paths.iter().filter_map(|path| Loan::open(path).transpose()).collect(),
        Err(error) => vec![Err(error)],
    }
}

fn paths() -> Result<Vec<PathBuf>> {
    let directory = Path::new(DIRECTORY);
    trusted::folder(directory)?;
    let names = sysfs::names(directory);
    let names = names.map_err(|error| Error::io(format!("read {DIRECTORY}"), &error))?;
    let paths = names.into_iter().map(|name| directory.join(name));
    Ok(paths.filter(|path| path.extension().is_some_and(|it| it == "json")).collect())
}

/// Gives back what a killed run has lent with the interface of this name, and nothing else.
///
/// # Errors
///
/// It cannot be given back; or another loan, which may be of this interface, cannot be read.
pub fn give_back_with(name: &str) -> Result<()> {
    for loan in left_behind() {
        let loan = loan?;
        if loan.record.ends.iter().any(|end| end.name == name) {
            loan.give_back()?;
        }
    }
    sweep()
}

/// Gives back what killed runs have not.
///
/// # Errors
///
/// Something cannot be given back; the rest is.
pub fn give_back_all() -> Result<()> {
    let given: Vec<Result<()>> =
        left_behind().into_iter().map(|loan| loan.and_then(|loan| loan.give_back())).collect();
    given.into_iter().collect::<Result<()>>()?;
    sweep()
}

/// Removes the network namespaces of runs that were killed before they had written anything down,
/// and so before they took anything.
fn sweep() -> Result<()> {
    Lab::sweep_lent(|namespace| {
        let path = path_of(namespace);
        let _ = fs::remove_file(path.with_extension(UNFINISHED));
        // What cannot be looked at may be there.
        path.try_exists().unwrap_or(true)
    })
    .map(drop)
}

/// What is written down of interfaces that are in this namespace, or in that of the other end.
fn path_of(namespace: &str) -> PathBuf {
    let both = namespace.rsplit_once('-').map_or(namespace, |(both, _end)| both);
    Path::new(DIRECTORY).join(format!("{both}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(namespace: &str) -> String {
        let end = |name: &str| End {
            name: name.to_owned(),
            kind: None,
            mac: None,
            up: true,
            addresses: Vec::new(),
            settings: BTreeMap::new(),
            sysctls: Sysctls::new(),
        };
        let namespaces = [namespace, "nic-1-0-lent-b"].map(str::to_owned);
        let ends = [end("eth1"), end("eth2")];
        let record = Record { version: VERSION, netns_cookie: 7, namespaces, ends };
        serde_json::to_string(&record).unwrap()
    }

    #[test]
    fn a_record_names_only_namespaces_of_loans() {
        let good = record("nic-1-0-lent-a");
        assert!(decode(good.as_bytes()).is_ok());
        for name in ["../../etc/passwd", "blue", "nic-1-0-a", "nic-1-0-lent-a/../../x"] {
            let error = decode(record(name).as_bytes()).unwrap_err();
            assert_eq!(error, format!("{name:?} is not a namespace of a loan"));
        }
        for bad in ["", "[]", "{\"version\":2}", &good[..good.len() / 2]] {
            assert!(decode(bad.as_bytes()).unwrap_err().contains("damaged"), "{bad}");
        }
        let older = good.replace("\"version\":2", "\"version\":1");
        assert_eq!(
            decode(older.as_bytes()).unwrap_err(),
            "its format is version 1; this nicctl supports 2"
        );
    }
}
