//! What there was before nicctl came, on disk before anything is changed.
//!
//! One file an interface, named by its network namespace and its index, which a new name does not
//! change. It is replaced as a whole, so that there is always either the old or the new one.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    device::{Difference, Identity},
    plan::{Change, Plan},
};
use crate::{
    error::{Error, Result},
    nic::{
        setting::{Key, Value},
        sysfs,
    },
    trusted,
};

/// Where journals are.
pub const SYSTEM_DIR: &str = "/var/lib/nicctl";

/// Format of the file.
const VERSION: u32 = 1;

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
    /// Everything is being given back, or that was interrupted or not possible.
    Restoring,
}

/// What became of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// It has not begun, or was interrupted.
    Planned,
    /// It was written and read back.
    Done,
    /// The driver does not have it, and it was only wanted where it can be had.
    Skipped,
    /// The kernel refused it.
    Failed,
    /// It was done, and taken back.
    Undone,
    /// It was done, and could not be taken back.
    UndoFailed,
}

/// One step in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalStep {
    /// What it changes.
    pub changes: Vec<Change>,
    /// What became of it.
    pub state: StepState,
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
    /// What everything was that nicctl changed, before it did so for the first time.
    pub originals: BTreeMap<Key, Value>,
    /// Where the device made something else of what it was asked.
    pub obtained: BTreeMap<Key, Obtained>,
    /// The steps of the last apply.
    pub steps: Vec<JournalStep>,
}

impl Journal {
    /// A journal for what `plan` is about to do. What an earlier one has as original stays so.
    pub fn begin(plan: &Plan, earlier: Option<&Self>) -> Self {
        let mut originals = plan.touched.clone();
        originals.extend(earlier.iter().flat_map(|earlier| earlier.originals.clone()));
        let step = |changes: &Vec<Change>| JournalStep {
            changes: changes.clone(),
            state: StepState::Planned,
        };
        Self {
            version: VERSION,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            identity: plan.identity.clone(),
            phase: Phase::Applying,
            originals,
            obtained: earlier.map(|earlier| earlier.obtained.clone()).unwrap_or_default(),
            steps: plan.steps.iter().map(|planned| step(&planned.changes)).collect(),
        }
    }
}

/// What there is for an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: nicctl changed nothing.
    Nothing,
    /// Its journal.
    Same(Box<Journal>),
    /// The journal of another interface that had its place or its name.
    Other {
        /// What tells them apart.
        difference: Difference,
        /// The interface that it is about.
        identity: Identity,
        /// Where it is.
        path: PathBuf,
    },
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

    /// What there is for this interface.
    ///
    /// # Errors
    ///
    /// Its journal can not be read, is damaged, or was written by another version.
    pub fn find(&self, interface: &Identity) -> Result<Found> {
        let path = self.path(interface);
        if let Some(journal) = load(&path)? {
            match journal.identity.difference(interface) {
                None => return Ok(Found::Same(Box::new(journal))),
                // After a boot, the index may be anyone's.
                Some(Difference::Boot) if journal.identity.name != interface.name => {}
                Some(difference) => {
                    return Ok(Found::Other { difference, identity: journal.identity, path });
                }
            }
        }
        Ok(self.former(interface)?.unwrap_or(Found::Nothing))
    }

    /// The journal of the interface that has this index in the network namespace with this cookie,
    /// or had before the machine was started again.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn at(&self, netns_cookie: u64, ifindex: u32) -> Result<Option<Journal>> {
        load(&self.place(netns_cookie, ifindex))
    }

    /// All journals, by their paths, and why they can not be read.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn all(&self) -> Result<Vec<(PathBuf, Result<Journal>)>> {
        let journals = self.paths()?.into_iter();
        Ok(journals.filter_map(|path| Some((path.clone(), load(&path).transpose()?))).collect())
    }

    fn paths(&self) -> Result<Vec<PathBuf>> {
        let names = sysfs::names(&self.dir);
        let names =
            names.map_err(|error| Error::io(format!("read {}", self.dir.display()), &error))?;
        let paths = names.into_iter().map(|name| self.dir.join(name));
        Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect())
    }

    /// The journal of one that looks like this interface, and is not at its place.
    fn former(&self, interface: &Identity) -> Result<Option<Found>> {
        Ok(self.paths()?.into_iter().find_map(|path| {
            // What is damaged is told to whom it concerns.
            let identity = load(&path).ok()??.identity;
            let same_name = identity.name == interface.name;
            let same_place = identity.netns_cookie == interface.netns_cookie;
            let same_mac = identity.mac.is_some() && identity.mac == interface.mac;
            let difference = identity.difference(interface)?;
            let is_former = same_name && (same_place || same_mac);
            is_former.then_some(Found::Other { difference, identity, path })
        }))
    }

    /// Puts a journal in the place of the one there is.
    ///
    /// # Errors
    ///
    /// The folder can not be written.
    pub fn save(&self, journal: &Journal, durability: Durability) -> Result<()> {
        let path = self.path(&journal.identity);
        let action = || format!("write journal {}", path.display());
        trusted::make_folder(&self.dir).map_err(|error| error.while_doing(action()))?;
        self.replace(&path, journal, durability).map_err(|error| Error::io(action(), &error))
    }

    fn replace(&self, path: &Path, journal: &Journal, durability: Durability) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = trusted::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(journal)?)?;
        if durability == Durability::Synced {
            file.sync_all()?;
        }
        fs::rename(&new, path)?;
        match durability {
            Durability::Synced => self.sync_dir(),
            Durability::Lazy => Ok(()),
        }
    }

    /// Removes the journal of an interface; that there is none is a success.
    ///
    /// # Errors
    ///
    /// The folder can not be written.
    pub fn remove(&self, interface: &Identity) -> Result<()> {
        self.remove_file(&self.path(interface))
    }

    /// Removes one journal by its path.
    ///
    /// # Errors
    ///
    /// The folder can not be written.
    pub fn remove_file(&self, path: &Path) -> Result<()> {
        let removed = match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            removed => removed,
        };
        // Nothing is left of nicctl where nothing is left to restore.
        let _ = fs::remove_dir(&self.dir);
        removed.map_err(|error| Error::io(format!("remove journal {}", path.display()), &error))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    /// Where the journal of an interface is.
    pub fn path(&self, interface: &Identity) -> PathBuf {
        self.place(interface.netns_cookie, interface.ifindex)
    }

    fn place(&self, netns_cookie: u64, ifindex: u32) -> PathBuf {
        self.dir.join(format!("{netns_cookie}-{ifindex}.json"))
    }
}

fn load(path: &Path) -> Result<Option<Journal>> {
    let action = format!("read journal {}", path.display());
    let read = || match path.parent().map(trusted::folder).transpose()? {
        Some(true) => trusted::read(path, MAX_BYTES),
        _ => Ok(None),
    };
    let Some(bytes) = read().map_err(|error| error.while_doing(&action))? else { return Ok(None) };
    decode(&bytes).map(Some).map_err(|(what, fix)| {
        Error::failed(format!("{action}: {what}")).with_fix(format!("{fix} {}", path.display()))
    })
}

/// Only the version is read of a journal of another version.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
    written_by: Option<String>,
}

const LOSE: &str = "what was changed stays as it is if you remove";

fn decode(bytes: &[u8]) -> Result<Journal, (String, String)> {
    let damaged = |error: serde_json::Error| (format!("it is damaged: {error}"), LOSE.to_owned());
    let any: AnyVersion = serde_json::from_slice(bytes).map_err(damaged)?;
    if any.version != VERSION {
        let by = any.written_by.unwrap_or_else(|| "unknown".to_owned());
        return Err((
            format!("its format is {}; this nicctl knows {VERSION}", any.version),
            format!("use the nicctl that wrote it (version {by}); or {LOSE}"),
        ));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::error::Kind;

    fn identity() -> Identity {
        Identity {
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
        Plan { identity: identity(), steps: Vec::new(), notes: Vec::new(), touched }
    }

    fn journals() -> (TempDir, Journals) {
        let folder = tempfile::tempdir().unwrap();
        let journals = Journals::new(folder.path().join("deep/nicctl"));
        (folder, journals)
    }

    #[test]
    fn what_is_saved_is_found_until_it_is_removed() {
        let (_folder, journals) = journals();
        assert_eq!(journals.find(&identity()).unwrap(), Found::Nothing);
        let journal = Journal::begin(&plan(&[("ring.rx", 256)]), None);
        for durability in [Durability::Synced, Durability::Lazy] {
            journals.save(&journal, durability).unwrap();
            let found = journals.find(&identity()).unwrap();
            assert_eq!(found, Found::Same(Box::new(journal.clone())));
        }
        journals.remove(&identity()).unwrap();
        journals.remove(&identity()).unwrap();
        assert_eq!(journals.find(&identity()).unwrap(), Found::Nothing);
    }

    #[test]
    fn the_oldest_originals_stay() {
        let earlier = Journal::begin(&plan(&[("ring.rx", 256)]), None);
        let later = Journal::begin(&plan(&[("ring.rx", 512), ("ring.tx", 64)]), Some(&earlier));
        let original = |key: &str| later.originals[&key.parse::<Key>().unwrap()].clone();
        assert_eq!(original("ring.rx"), 256_u64.into());
        assert_eq!(original("ring.tx"), 64_u64.into());
    }

    fn found_by(change: fn(&mut Identity)) -> Found {
        let (_folder, journals) = journals();
        let journal = Journal::begin(&plan(&[("ring.rx", 256)]), None);
        journals.save(&journal, Durability::Lazy).unwrap();
        let mut now = identity();
        change(&mut now);
        journals.find(&now).unwrap()
    }

    #[test]
    fn an_interface_with_a_new_name_is_the_same() {
        assert!(matches!(found_by(|id| id.name = "wan0".into()), Found::Same(_)));
    }

    #[test]
    fn another_interface_is_told_apart() {
        let difference = |change| match found_by(change) {
            Found::Other { difference, .. } => Some(difference),
            Found::Same(_) => panic!("the same"),
            Found::Nothing => None,
        };
        assert_eq!(difference(|id| id.boot_id = "boot-2".into()), Some(Difference::Boot));
        assert_eq!(difference(|id| id.mac = None), Some(Difference::Mac));
        assert_eq!(difference(|id| id.driver = Some("ixgbe".into())), Some(Difference::Hardware));
        assert_eq!(
            difference(|id| id.ifindex = 4),
            Some(Difference::Index { was: 3, is: 4 }),
            "made anew"
        );
        assert_eq!(difference(|id| id.netns_cookie = 8), Some(Difference::Namespace), "moved");
        // A container's eth0 has nothing to do with another's.
        assert_eq!(
            difference(|id| {
                id.netns_cookie = 8;
                id.mac = Some("02:00:00:00:00:02".into());
            }),
            None
        );
        // After a boot, the index belongs to someone else.
        assert_eq!(
            difference(|id| {
                id.boot_id = "boot-2".into();
                id.name = "eth9".into();
            }),
            None
        );
    }

    fn error_of(text: &str) -> Error {
        let (_folder, journals) = journals();
        let path = journals.path(&identity());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let error = journals.find(&identity()).unwrap_err();
        assert_eq!(error.kind(), Kind::Failed);
        error
    }

    #[test]
    fn a_damaged_journal_is_an_error_that_says_what_removing_it_means() {
        let journal = Journal::begin(&plan(&[("ring.rx", 256)]), None);
        let text = serde_json::to_string(&journal).unwrap();
        for text in ["", "{", "[]", "null", &text[..text.len() / 2], "{\"version\": 1}"] {
            let error = error_of(text);
            assert!(error.to_string().contains("it is damaged"), "{text}: {error}");
            assert!(error.fix().unwrap().starts_with("what was changed stays as it is"));
        }
        assert!(error_of(&text.replace("ring.rx", "nonsense")).to_string().contains("damaged"));
        assert!(error_of(&text.replace("256", "-1")).to_string().contains("damaged"));
        assert!(error_of(&text.replace("\"phase\"", "\"phases\"")).to_string().contains("damaged"));
    }

    #[test]
    fn a_journal_of_another_version_names_the_nicctl_that_wrote_it() {
        let error = error_of("{\"version\": 9, \"written_by\": \"3.1.0\", \"new\": []}");
        assert!(error.to_string().ends_with("its format is 9; this nicctl knows 1"), "{error}");
        assert!(error.fix().unwrap().contains("(version 3.1.0)"));
    }

    #[test]
    fn half_a_journal_beside_the_old_one_does_not_matter() {
        let (_folder, journals) = journals();
        let journal = Journal::begin(&plan(&[("ring.rx", 256)]), None);
        journals.save(&journal, Durability::Synced).unwrap();
        fs::write(journals.path(&identity()).with_extension("new"), "{\"versi").unwrap();
        assert_eq!(journals.find(&identity()).unwrap(), Found::Same(Box::new(journal)));
    }

    #[test]
    fn a_folder_that_can_not_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let journal = Journal::begin(&plan(&[]), None);
        let error = Journals::new(&file).save(&journal, Durability::Synced).unwrap_err();
        assert!(error.to_string().starts_with("write journal "), "{error}");
    }
}
