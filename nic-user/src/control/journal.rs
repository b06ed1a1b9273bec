//! What there was before nicctl came, on disk before anything is changed.
//!
//! One file an interface, named by its [`InterfaceId`](crate::nic::identity::InterfaceId), which
//! neither a new name or address nor another network namespace changes. It is replaced as a whole,
//! so that there is always either the old or the new one.

mod first;
mod lock;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};
use serde::{Deserialize, Serialize};

pub use self::lock::Lock;
use super::{
    device::Identity,
    kept::{Kept, Owner},
    plan::Plan,
};
use crate::{
    command_line::CommandLine,
    error::{Error, Result},
    nic::{
        identity::InterfaceKey,
        setting::{Key, Value},
        sysfs,
    },
    trusted,
};

/// Where journals are.
pub const SYSTEM_DIR: &str = "/var/lib/nicctl";

/// Format of the file.
const VERSION: u32 = 2;

/// What a journal is called while it is being written.
const UNFINISHED: &str = "new";

/// Thousands of settings fit; what is larger is not a journal.
const MAX_BYTES: u64 = 16 << 20;

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Steps are being written, or that was interrupted.
    Applying,
    /// All steps are written.
    Applied,
    /// A step failed, and the others are being undone, or that was not possible.
    Undoing,
    /// Something is being given back, or that was interrupted or not possible.
    Restoring,
}

/// What a driver made of what it was asked, where that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obtained {
    /// What was written.
    pub asked: Value,
    /// What was read afterwards.
    pub got: Value,
}

/// Everything that is needed to give back what an interface was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    version: u32,
    /// The version of nicctl that wrote it.
    pub written_by: String,
    /// Which interface it is about.
    pub identity: Identity,
    /// How far it came.
    pub phase: Phase,
    /// Everything that nicctl changed: what it was, and whose it is.
    pub settings: BTreeMap<Key, Kept>,
    /// Where the device made something else of what it was asked.
    pub obtained: BTreeMap<Key, Obtained>,
    /// The file of an earlier format whose place this takes.
    #[serde(skip)]
    former: Option<PathBuf>,
}

impl Journal {
    /// A journal for what `plan` is about to do in the name of `owner`.
    pub fn begin(plan: &Plan, owner: &Owner, earlier: Option<&Self>) -> Self {
        let mut journal = Self {
            version: VERSION,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            identity: plan.identity.clone(),
            phase: Phase::Applying,
            settings: earlier.map(|earlier| earlier.settings.clone()).unwrap_or_default(),
            obtained: earlier.map(|earlier| earlier.obtained.clone()).unwrap_or_default(),
            former: earlier.and_then(|earlier| earlier.former.clone()),
        };
        for (key, now) in &plan.touched {
            let kept = match journal.settings.get(key) {
                Some(kept) => kept.begin(key, now, owner),
                None => Kept::changed_by(owner.clone(), now.clone()),
            };
            journal.settings.insert(key.clone(), kept);
        }
        journal
    }
}

/// A journal in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// What its file is called.
    pub key: InterfaceKey,
    /// The name that the interface had.
    pub name: String,
    /// Number of the network namespace that it was in.
    pub netns_cookie: u64,
    /// The boot that it is of.
    pub boot_id: String,
    /// How far nicctl came.
    pub phase: Phase,
    /// How many settings it can give back.
    pub settings: usize,
    /// Who changed them.
    pub owners: BTreeSet<Owner>,
}

/// Whether a journal has to be there after a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It has: it is on disk before anything is done.
    Synced,
    /// It is enough that other processes see it. After a power failure the settings are gone, too.
    Lazy,
}

/// A folder of journals.
#[derive(Clone, Debug)]
pub struct Journals {
    dir: PathBuf,
}

impl Journals {
    /// Those in `dir`; it is created when it is needed.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Those of this machine.
    pub fn system() -> Self {
        Self::new(SYSTEM_DIR)
    }

    /// Whether they could be written: in their folder, or in the one that it would be made in.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn check_writable(&self) -> Result<()> {
        let there = self.dir.ancestors().find(|folder| folder.exists());
        let folder = there.unwrap_or_else(|| Path::new("/"));
        access(folder, AccessFlags::W_OK).map_err(|errno| {
            let error =
                Error::io(format!("write journals to {}", self.dir.display()), &errno.into());
            match errno {
                Errno::EROFS => error.with_fix(format!(
                    "make it writable, or keep them until shutdown only: {}",
                    CommandLine::other(&["mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs"])
                        .on(self.dir.display())
                        .quoted()
                )),
                _ => error,
            }
        })
    }

    /// The journal of an interface, if nicctl has changed anything on it since the machine was
    /// started.
    ///
    /// # Errors
    ///
    /// It cannot be read, is damaged, or was written by another version.
    pub fn find(&self, interface: &Identity) -> Result<Option<Journal>> {
        let Identity { id, netns_cookie: netns, ifindex, .. } = *interface;
        for key in [InterfaceKey::Id(id), InterfaceKey::Place { netns, ifindex }] {
            let path = self.path(key);
            let found = load(&path)?.and_then(|file| file.into_journal(interface, &path));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// What there is of the journal of this name.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn at(&self, key: InterfaceKey) -> Result<Option<Noted>> {
        Ok(load(&self.path(key))?.map(|file| file.noted(key)))
    }

    /// All journals, by their paths, and why they cannot be read.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn all(&self) -> Result<Vec<(PathBuf, Result<Noted>)>> {
        Ok(self.names()?.iter().filter_map(|name| self.noted(name)).collect())
    }

    /// Removes what processes that were killed had not finished writing, of every interface. Only
    /// under the lock.
    ///
    /// # Errors
    ///
    /// The folder cannot be read or written, or is not to be believed.
    pub fn clear_unfinished(&self) -> Result<()> {
        trusted::folder(&self.dir)?;
        let unfinished = self.names()?.into_iter().map(|name| self.dir.join(name));
        unfinished
            .filter(|path| path.extension().is_some_and(|extension| extension == UNFINISHED))
            .try_for_each(|path| self.remove_file(&path))
    }

    /// The names of all files.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        sysfs::names(&self.dir)
            .map_err(|error| Error::io(format!("read {}", self.dir.display()), &error))
    }

    fn noted(&self, name: &str) -> Option<(PathBuf, Result<Noted>)> {
        let key = name.strip_suffix(".json")?;
        let path = self.dir.join(name);
        let noted = load(&path).transpose()?.and_then(|file| {
            let key = key.parse().map_err(|_| {
                Error::failed(format!("{} is not the name of a journal", path.display()))
            })?;
            Ok(file.noted(key))
        });
        Some((path, noted))
    }

    /// Puts a journal in the place of the one there is.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn save(&self, journal: &Journal, durability: Durability) -> Result<()> {
        self.write(&self.path_of(journal), journal, durability)?;
        journal.former.as_deref().map_or(Ok(()), |former| self.remove_file(former))
    }

    /// Puts `document` in the place of a file.
    pub(super) fn write(
        &self,
        path: &Path,
        document: &impl Serialize,
        durability: Durability,
    ) -> Result<()> {
        let action = || format!("write journal {}", path.display());
        trusted::make_folder(&self.dir).map_err(|error| error.while_doing(action()))?;
        self.replace(path, document, durability).map_err(|error| Error::io(action(), &error))
    }

    fn replace(
        &self,
        path: &Path,
        document: &impl Serialize,
        durability: Durability,
    ) -> io::Result<()> {
        let new = path.with_extension(UNFINISHED);
        let bytes = serde_json::to_vec_pretty(document)?;
        let replaced = write_new(&new, &bytes, durability).and_then(|()| fs::rename(&new, path));
        if replaced.is_err() {
            // Whoever has the lock next would clear it away, but there may be nobody for long.
            let _ = fs::remove_file(&new);
        }
        replaced?;
        match durability {
            Durability::Synced => self.sync_dir(),
            Durability::Lazy => Ok(()),
        }
    }

    /// Removes a journal; that there is none is a success.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn remove(&self, journal: &Journal) -> Result<()> {
        self.remove_file(&self.path_of(journal))?;
        journal.former.as_deref().map_or(Ok(()), |former| self.remove_file(former))
    }

    /// Removes the journal of this name; that there is none is a success.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn forget(&self, key: InterfaceKey) -> Result<()> {
        self.remove_file(&self.path(key))
    }

    /// Removes a file; that there is none is a success.
    pub(super) fn remove_file(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed
                .map_err(|error| Error::io(format!("remove journal {}", path.display()), &error)),
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn path_of(&self, journal: &Journal) -> PathBuf {
        self.path(InterfaceKey::Id(journal.identity.id))
    }

    fn path(&self, key: InterfaceKey) -> PathBuf {
        self.file(&format!("{key}.json"))
    }

    /// Where the file of this name is.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

fn write_new(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut file = trusted::create(path)?;
    file.write_all(bytes)?;
    match durability {
        Durability::Synced => file.sync_all(),
        Durability::Lazy => Ok(()),
    }
}

/// What a file can hold.
enum Format {
    Now(Box<Journal>),
    First(Box<first::Journal>),
}

impl Format {
    /// The journal, if it is about this interface.
    fn into_journal(self, interface: &Identity, path: &Path) -> Option<Journal> {
        match self {
            Self::Now(journal) => {
                (journal.identity.boot_id == interface.boot_id).then_some(*journal)
            }
            Self::First(journal) => journal.of(interface, path),
        }
    }

    fn noted(self, key: InterfaceKey) -> Noted {
        match self {
            Self::Now(journal) => {
                let Journal { identity, phase, settings, .. } = *journal;
                Noted {
                    key,
                    name: identity.name,
                    netns_cookie: identity.netns_cookie,
                    boot_id: identity.boot_id,
                    phase,
                    settings: settings.len(),
                    owners: settings.values().flat_map(Kept::owners).cloned().collect(),
                }
            }
            Self::First(journal) => journal.noted(key),
        }
    }
}

fn load(path: &Path) -> Result<Option<Format>> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    decode(&bytes).map(Some).map_err(|(what, fix)| {
        Error::failed(format!("read journal {}: {what}", path.display()))
            .with_fix(format!("{fix} {}", path.display()))
    })
}

/// What is in a file of a folder of journals, if both are there and to be believed.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let read = || match path.parent().map(trusted::folder).transpose()? {
        Some(true) => trusted::read(path, MAX_BYTES),
        _ => Ok(None),
    };
    read().map_err(|error| error.while_doing(format_args!("read journal {}", path.display())))
}

/// Only the version is read of a journal of another version.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
    written_by: Option<String>,
}

const LOSE: &str = "the changes stay in place if you remove";

fn decode(bytes: &[u8]) -> Result<Format, (String, String)> {
    let damaged = |error: serde_json::Error| (format!("it is damaged: {error}"), LOSE.to_owned());
    let any: AnyVersion = serde_json::from_slice(bytes).map_err(damaged)?;
    let read = match any.version {
        VERSION => serde_json::from_slice(bytes).map(Format::Now),
        first::VERSION => serde_json::from_slice(bytes).map(Format::First),
        version => {
            let by = any.written_by.unwrap_or_else(|| "unknown".to_owned());
            return Err((
                format!("its format is version {version}; this nicctl supports {VERSION}"),
                format!("use the nicctl that wrote it (version {by}), or {LOSE}"),
            ));
        }
    };
    read.map_err(damaged)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{error::Kind, nic::identity::InterfaceId};

    fn identity() -> Identity {
        Identity {
            id: InterfaceId::fake(7001),
            name: "eth0".into(),
            ifindex: 3,
            mac: Some("02:00:00:00:00:01".into()),
            driver: Some("igb".into()),
            bus: None,
            boot_id: "boot-1".into(),
            netns_cookie: 7,
        }
    }

    fn plan(touched: &[(&str, u64)]) -> Plan {
        let touched =
            touched.iter().map(|(key, value)| (key.parse().unwrap(), (*value).into())).collect();
        Plan {
            identity: identity(),
            steps: Vec::new(),
            notes: Vec::new(),
            touched,
            left_out: BTreeSet::new(),
        }
    }

    fn journals() -> (TempDir, Journals) {
        let folder = tempfile::tempdir().unwrap();
        let journals = Journals::new(folder.path().join("deep/nicctl"));
        (folder, journals)
    }

    fn begin(touched: &[(&str, u64)]) -> Journal {
        Journal::begin(&plan(touched), &Owner::Set, None)
    }

    #[test]
    fn what_is_saved_is_found_until_it_is_removed() {
        let (_folder, journals) = journals();
        assert_eq!(journals.find(&identity()).unwrap(), None);
        let journal = begin(&[("ring.rx", 256)]);
        for durability in [Durability::Synced, Durability::Lazy] {
            journals.save(&journal, durability).unwrap();
            assert_eq!(journals.find(&identity()).unwrap().as_ref(), Some(&journal));
        }
        let noted = journals.all().unwrap().remove(0).1.unwrap();
        assert_eq!((noted.key.to_string().as_str(), noted.settings), ("7001", 1));
        assert_eq!(noted.owners, BTreeSet::from([Owner::Set]));
        journals.remove(&journal).unwrap();
        journals.remove(&journal).unwrap();
        assert_eq!(journals.find(&identity()).unwrap(), None);
    }

    #[test]
    fn the_oldest_originals_stay() {
        let earlier = begin(&[("ring.rx", 256)]);
        let next = plan(&[("ring.rx", 512), ("ring.tx", 64)]);
        let later = Journal::begin(&next, &Owner::Attach, Some(&earlier));
        let original = |key: &str| later.settings[&key.parse::<Key>().unwrap()].original.clone();
        assert_eq!(original("ring.rx"), 256_u64.into());
        assert_eq!(original("ring.tx"), 64_u64.into());
    }

    #[test]
    fn an_interface_is_itself_whatever_else_is_new_about_it() {
        let (_folder, journals) = journals();
        journals.save(&begin(&[("ring.rx", 256)]), Durability::Lazy).unwrap();
        let is_found = |change: fn(&mut Identity)| {
            let mut now = identity();
            change(&mut now);
            journals.find(&now).unwrap().is_some()
        };
        assert!(is_found(|now| now.name = "wan0".into()));
        assert!(is_found(|now| now.mac = None));
        assert!(is_found(|now| (now.netns_cookie, now.ifindex) = (8, 9)));
        assert!(!is_found(|now| now.id = InterfaceId::fake(7002)));
        assert!(!is_found(|now| now.boot_id = "boot-2".into()));
    }

    /// A journal as the first format has it.
    const FIRST: &str = r#"{
        "version": 1, "written_by": "0.1.0", "phase": "applied",
        "identity": {"name": "eth0", "ifindex": 3, "mac": "02:00:00:00:00:01", "driver": "igb",
            "bus": null, "boot_id": "boot-1", "netns_cookie": 7},
        "originals": {"ring.rx": 256}, "obtained": {}, "steps": [{"any": 1}]
    }"#;

    #[test]
    fn a_journal_of_the_first_format_is_read_and_takes_the_name_of_today() {
        let (_folder, journals) = journals();
        let old = journals.dir.join("7-3.json");
        fs::create_dir_all(&journals.dir).unwrap();
        fs::write(&old, FIRST).unwrap();
        let other = Identity { mac: None, ..identity() };
        assert_eq!(journals.find(&other).unwrap(), None);
        let journal = journals.find(&identity()).unwrap().unwrap();
        let kept = &journal.settings[&"ring.rx".parse::<Key>().unwrap()];
        assert_eq!((&kept.original, kept.in_force()), (&256_u64.into(), None));
        assert_eq!(journals.all().unwrap().remove(0).1.unwrap().name, "eth0");
        journals.save(&journal, Durability::Lazy).unwrap();
        assert!(!old.exists() && journals.find(&identity()).unwrap().is_some());
        fs::write(&old, FIRST).unwrap();
        journals.remove(&journal).unwrap();
        assert!(!old.exists() && journals.find(&identity()).unwrap().is_none());
    }

    fn error_of(text: &str) -> Error {
        let (_folder, journals) = journals();
        let path = journals.path_of(&begin(&[]));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let error = journals.find(&identity()).unwrap_err();
        assert_eq!(error.kind(), Kind::Failed);
        error
    }

    #[test]
    fn a_damaged_journal_is_an_error_that_says_what_removing_it_means() {
        let journal = begin(&[("ring.rx", 256)]);
        let text = serde_json::to_string(&journal).unwrap();
        for text in ["", "{", "[]", "null", &text[..text.len() / 2], "{\"version\": 1}"] {
            let error = error_of(text);
            assert!(error.to_string().contains("it is damaged"), "{text}: {error}");
            assert!(error.fix().unwrap().starts_with("the changes stay in place"));
        }
        assert!(error_of(&text.replace("ring.rx", "nonsense")).to_string().contains("damaged"));
        assert!(error_of(&text.replace("256", "-1")).to_string().contains("damaged"));
        assert!(error_of(&text.replace("\"phase\"", "\"phases\"")).to_string().contains("damaged"));
    }

    #[test]
    fn a_journal_of_another_version_names_the_nicctl_that_wrote_it() {
        let error = error_of("{\"version\": 9, \"written_by\": \"3.1.0\", \"new\": []}");
        assert!(
            error.to_string().ends_with("its format is version 9; this nicctl supports 2"),
            "{error}"
        );
        assert!(error.fix().unwrap().contains("(version 3.1.0)"));
    }

    #[test]
    fn what_was_not_finished_is_cleared_away_and_nothing_else() {
        let (_folder, journals) = journals();
        journals.clear_unfinished().unwrap();
        let journal = begin(&[("ring.rx", 256)]);
        journals.save(&journal, Durability::Lazy).unwrap();
        let left = ["7-3", "7-9"].map(|name| journals.dir.join(name).with_extension(UNFINISHED));
        left.iter().for_each(|path| fs::write(path, "{").unwrap());
        journals.clear_unfinished().unwrap();
        assert!(!left.iter().any(|path| path.exists()));
        assert_eq!(journals.find(&identity()).unwrap(), Some(journal));
    }

    #[test]
    fn half_a_journal_beside_the_old_one_does_not_matter() {
        let (_folder, journals) = journals();
        let journal = begin(&[("ring.rx", 256)]);
        journals.save(&journal, Durability::Synced).unwrap();
        fs::write(journals.path_of(&journal).with_extension(UNFINISHED), "{\"versi").unwrap();
        assert_eq!(journals.find(&identity()).unwrap(), Some(journal));
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let journal = begin(&[]);
        let error = Journals::new(&file).save(&journal, Durability::Synced).unwrap_err();
        assert!(error.to_string().starts_with("write journal "), "{error}");
    }
}
