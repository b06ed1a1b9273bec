//! What nicctl itself left behind: journals of interfaces that are no more, what was interrupted.

use std::path::PathBuf;

use super::{Check, Finding, Found, Refusal, Status, examine};
use crate::{
    bench::cards,
    control::{
        Journals,
        journal::{Journal, Phase},
    },
    error::Result,
    nic::namespace,
    offload::{self, Attachment, Slot},
    transaction::{Presence, presence},
};

/// What nicctl has on disk and in bpffs.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Every journal, and where its interface is.
    pub journals: Vec<(PathBuf, Result<Entry, Refusal>)>,
    /// Names that interfaces had which are gone, with what was attached to them.
    pub gone: Vec<String>,
    /// How many attachments are half made or half removed.
    pub half_made: usize,
    /// What is attached, or half made, and cannot be read.
    pub unread: Vec<Refusal>,
    /// Interfaces that a killed bench has not given back.
    pub lent: Vec<Result<String, Refusal>>,
}

/// One journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name that the interface had.
    pub name: String,
    /// The name of its network namespace, if it has one that is not the present one.
    pub netns: Option<String>,
    /// How far nicctl came.
    pub phase: Phase,
    /// How many settings it can give back.
    pub settings: usize,
    /// Whether the interface is still there.
    pub presence: Presence,
}

impl Leftovers {
    /// Reads them.
    pub fn read(journals: &Journals) -> Self {
        let journals = journals.all().unwrap_or_else(|error| vec![(PathBuf::new(), Err(error))]);
        let mut unread = Vec::new();
        let mut read = |what: Result<Vec<Slot>>| {
            what.unwrap_or_else(|error| {
                unread.push(Refusal::from(error));
                Vec::new()
            })
        };
        let (slots, half_made) = (read(Slot::all()), read(offload::half_made()).len());
        let mut attachments = Vec::new();
        for slot in slots {
            match Attachment::of(slot) {
                Ok(attachment) => attachments.extend(attachment),
                Err(error) => unread.push(error.into()),
            }
        }
        Self {
            journals: journals
                .into_iter()
                .map(|(path, journal)| (path, journal.map(Entry::from).map_err(Refusal::from)))
                .collect(),
            gone: attachments
                .iter()
                .filter(|attachment| attachment.is_stale())
                .map(Attachment::recorded_name)
                .collect(),
            half_made,
            unread,
            lent: cards::left_behind()
                .into_iter()
                .map(|loan| loan.map(|loan| loan.to_string()).map_err(Refusal::from))
                .collect(),
        }
    }

    /// What is to be cleared away.
    pub fn examine(&self) -> Vec<Finding> {
        examine(CHECKS, self)
    }
}

impl From<Journal> for Entry {
    fn from(journal: Journal) -> Self {
        let cookie = journal.identity.netns_cookie;
        let here = namespace::current_cookie().is_ok_and(|here| here == cookie);
        Self {
            netns: if here { None } else { namespace::name_of_cookie(cookie).ok().flatten() },
            presence: presence(&journal),
            name: journal.identity.name,
            phase: journal.phase,
            settings: journal.originals.len(),
        }
    }
}

const CHECKS: &[Check<Leftovers>] = &[
    Check { name: "journals", look: journals },
    Check { name: "attachments", look: attachments },
    Check { name: "lent", look: lent },
];

fn journals(leftovers: &Leftovers) -> Vec<Found> {
    if leftovers.journals.is_empty() {
        return vec![Found::ok("nicctl has changed no settings")];
    }
    let is_unseen = |entry: &Entry| entry.presence == Presence::Unknown;
    let (unseen, others): (Vec<_>, Vec<_>) =
        leftovers.journals.iter().partition(|(_, entry)| entry.as_ref().is_ok_and(is_unseen));
    let others = others.into_iter().map(|(_, entry)| match entry {
        Ok(entry) => journal(entry),
        Err(refusal) => refusal.found(Status::Warning).blocks("restore and detach"),
    });
    others.chain(unseen_journals(&unseen)).collect()
}

/// Of namespaces without a name and a process; they may still be mounted somewhere.
fn unseen_journals(unseen: &[&(PathBuf, Result<Entry, Refusal>)]) -> Option<Found> {
    let (first, _) = unseen.first()?;
    let what = format!("{} are of network namespaces that are not to be seen", unseen.len());
    Some(Found::note(what).blocks("to give the settings of their interfaces back from here").fix(
        format!("if they are no more: nicctl detach --gone; one of them is {}", first.display()),
    ))
}

fn journal(entry: &Entry) -> Found {
    let Entry { name, netns, settings, .. } = entry;
    let option = netns.as_ref().map(|netns| format!(" --netns {netns}")).unwrap_or_default();
    let restore = format!("nicctl restore {name}{option}");
    match (entry.presence, entry.phase) {
        (Presence::Unread, _) => {
            Found::warning(format!("{settings} settings of {name}: it could not be looked at"))
                .blocks("to know whether they can be given back")
                .fix("look again; as root, it sees every network namespace")
        }
        (Presence::Gone, _) => Found::note(format!("{name} is no more, and its settings with it"))
            .fix("nicctl detach --gone"),
        (_, Phase::Applied) => {
            Found::ok(format!("{settings} settings of {name} can be given back: {restore}"))
        }
        (_, phase) => {
            let what = match phase {
                Phase::Restoring => "giving them back",
                _ => "changing them",
            };
            Found::warning(format!("{settings} settings of {name}: {what} was interrupted"))
                .blocks("to know what they are: some are changed, some are not")
                .fix(restore)
        }
    }
}

fn attachments(leftovers: &Leftovers) -> Vec<Found> {
    let gone = leftovers.gone.iter().map(|name| {
        Found::note(format!("{name} is no more, with what was attached to it"))
            .fix("nicctl detach --gone")
    });
    let half_made = (leftovers.half_made > 0).then(|| {
        Found::note(format!("{} were interrupted half-way", leftovers.half_made))
            .fix("the next attach or detach clears them away")
    });
    let unread = leftovers.unread.iter().map(|refusal| refusal.found(Status::Warning));
    let all: Vec<Found> = gone.chain(half_made).chain(unread).collect();
    if all.is_empty() {
        vec![Found::ok("nothing is left of interfaces that are gone")]
    } else {
        all
    }
}

fn lent(leftovers: &Leftovers) -> Vec<Found> {
    let lent = leftovers.lent.iter().map(|loan| match loan {
        Ok(names) => Found::warning(format!("{names} are where a bench that was killed took them"))
            .blocks("to use them")
            .fix("nicctl restore with the name of one of them gives both back"),
        Err(refusal) => refusal.found(Status::Warning),
    });
    lent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(presence: Presence, phase: Phase) -> Leftovers {
        let netns = Some("blue".to_owned());
        let entry = Entry { name: "eth0".into(), netns, phase, settings: 3, presence };
        let path = PathBuf::from("/var/lib/nicctl/7-3.json");
        Leftovers { journals: vec![(path, Ok(entry))], ..Leftovers::default() }
    }

    #[test]
    fn nothing_left_is_fine() {
        let findings = Leftovers::default().examine();
        assert!(findings.iter().all(|finding| finding.status == Status::Ok));
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn journals_are_told_by_what_can_be_done_with_them() {
        let first = |leftovers: Leftovers| {
            let finding = leftovers.examine().remove(0);
            (finding.status, finding.fix.unwrap_or_default())
        };
        let restore = "nicctl restore eth0 --netns blue".to_owned();
        assert_eq!(first(entry(Presence::There, Phase::Applied)), (Status::Ok, String::new()));
        for phase in [Phase::Applying, Phase::Undoing, Phase::Restoring] {
            let expected = (Status::Warning, restore.clone());
            assert_eq!(first(entry(Presence::There, phase)), expected);
        }
        let gone = first(entry(Presence::Gone, Phase::Applied));
        assert_eq!(gone, (Status::Note, "nicctl detach --gone".to_owned()));
        let unknown = first(entry(Presence::Unknown, Phase::Applied));
        assert!(unknown.1.starts_with("if they are no more: nicctl detach --gone"), "{unknown:?}");
        let damaged = Leftovers {
            journals: vec![(PathBuf::new(), Err(Refusal::default()))],
            ..Leftovers::default()
        };
        assert_eq!(first(damaged).0, Status::Warning);
    }

    #[test]
    fn what_a_killed_bench_took_is_told() {
        let leftovers =
            Leftovers { lent: vec![Ok("eth1 and eth2".into())], ..Leftovers::default() };
        let findings = leftovers.examine();
        let lent = findings.iter().find(|finding| finding.check == "lent").unwrap();
        assert_eq!(lent.status, Status::Warning);
        assert!(lent.found.starts_with("eth1 and eth2 are "));
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_nothing() {
        let unread = vec![Refusal { what: "read /sys/fs/bpf/nicctl: EIO".into(), fix: None }];
        let findings = Leftovers { unread, ..Leftovers::default() }.examine();
        let found = findings.iter().find(|finding| finding.check == "attachments").unwrap();
        assert_eq!(found.status, Status::Warning);
        assert!(!findings.iter().any(|finding| finding.found.starts_with("nothing is left")));
        let unread = entry(Presence::Unread, Phase::Applied).examine().remove(0);
        assert_eq!(unread.status, Status::Warning);
    }

    #[test]
    fn attachments_that_nobody_needs_are_told() {
        let leftovers =
            Leftovers { gone: vec!["eth0".into()], half_made: 1, ..Leftovers::default() };
        let findings = leftovers.examine();
        assert_eq!(findings.iter().filter(|finding| finding.status == Status::Note).count(), 2);
    }
}
