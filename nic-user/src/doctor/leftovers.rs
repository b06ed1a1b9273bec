//! What nicctl itself left behind: journals of interfaces that no longer exist, what was
//! interrupted.

use super::{Check, Finding, Found, Refusal, Status, examine};
use crate::{
    bench::cards,
    command_line::CommandLine,
    control::{
        Journals,
        journal::{Noted, Phase},
    },
    nic::census::Presence,
    offload::{self, Attachment},
    transaction::{Scope, Subject, subject},
};

/// What nicctl has on disk and in bpffs.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Every interface that was changed, and where it is.
    pub changed: Vec<Entry>,
    /// Journals, and changes that wait to be confirmed, that cannot be read.
    pub damaged: Vec<Refusal>,
    /// Names that interfaces had which are gone, with what was attached to them.
    pub gone: Vec<String>,
    /// How many attachments are half made or half removed.
    pub half_made: usize,
    /// What is attached, or half made, and cannot be read.
    pub unread: Vec<Refusal>,
    /// Interfaces that a killed bench has not given back.
    pub lent: Vec<Result<[String; 2], Refusal>>,
    /// Why no journal can be written.
    pub unwritable: Option<Refusal>,
}

/// One journal.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the interface, or the last that is known.
    pub name: String,
    /// How far nicctl came.
    pub phase: Phase,
    /// How many settings it can give back.
    pub settings: usize,
    /// Who changed them.
    pub owners: String,
    /// Where the interface is.
    pub presence: Presence,
}

impl Leftovers {
    /// Reads them.
    pub fn read(journals: &Journals) -> Self {
        let (mut unread, mut damaged) = (Vec::new(), Vec::new());
        let subjects = match subject::all(Scope::Machine, journals) {
            Ok(found) => {
                damaged.extend(found.unread.into_iter().map(Refusal::from));
                found.subjects
            }
            Err(error) => {
                unread.push(Refusal::from(error.clone()));
                damaged.push(Refusal::from(error));
                Vec::new()
            }
        };
        match journals.all_pending() {
            Ok(all) => damaged.extend(all.into_iter().filter_map(|it| Some(it.err()?.into()))),
            Err(error) => damaged.push(Refusal::from(error)),
        }
        let half_made = offload::half_made().map(|staged| staged.len()).unwrap_or_else(|error| {
            unread.push(Refusal::from(error));
            0
        });
        let attached = subjects.iter().filter_map(|subject| subject.slot.clone());
        unread.extend(attached.filter_map(|slot| Some(Attachment::of(slot).err()?.into())));
        let is_gone = |it: &&Subject| it.slot.is_some() && matches!(it.presence, Presence::Gone);
        Self {
            gone: subjects.iter().filter(is_gone).map(|it| it.recorded_name.clone()).collect(),
            changed: subjects.into_iter().filter_map(Entry::of).collect(),
            damaged,
            half_made,
            unread,
            lent: cards::left_behind()
                .into_iter()
                .map(|loan| Ok(loan.map_err(Refusal::from)?.names().map(str::to_owned)))
                .collect(),
            unwritable: journals.check_writable().err().map(Refusal::from),
        }
    }

    /// What is to be cleared away.
    pub fn examine(&self) -> Vec<Finding> {
        examine(CHECKS, self)
    }
}

impl Entry {
    fn of(subject: Subject) -> Option<Self> {
        let Subject { name, presence, journal, .. } = subject;
        let Noted { phase, settings, owners, .. } = journal?;
        let owners: Vec<String> = owners.iter().map(ToString::to_string).collect();
        Some(Self { name, phase, settings, owners: owners.join(", "), presence })
    }
}

const CHECKS: &[Check<Leftovers>] = &[
    Check { name: "journals", look: journals },
    Check { name: "attachments", look: attachments },
    Check { name: "lent", look: lent },
];

fn journals(leftovers: &Leftovers) -> Vec<Found> {
    let Leftovers { changed, damaged, unwritable, .. } = leftovers;
    let damaged =
        damaged.iter().map(|refusal| refusal.found(Status::Warning).blocks("restore and detach"));
    let unwritable = unwritable.iter().map(|refusal| {
        refusal.found(Status::Warning).blocks("set, apply, and settings that attach changes")
    });
    let all: Vec<Found> = changed.iter().map(journal).chain(damaged).chain(unwritable).collect();
    if all.is_empty() { vec![Found::ok("no settings changed by nicctl")] } else { all }
}

fn journal(entry: &Entry) -> Found {
    let Entry { name, settings, owners, presence, .. } = entry;
    let netns = presence.place().and_then(|place| place.netns_name.as_ref());
    let netns = netns.map(String::as_str);
    let restore = CommandLine::nicctl("restore").on(name).in_netns(netns);
    match (presence, entry.phase) {
        (Presence::Unread(error), _) => {
            Found::warning(format!("{settings} settings of {name}: not found, and {error}"))
                .blocks("knowing whether they can be restored")
                .fix("run it as root, which sees every network namespace")
        }
        (Presence::Gone, _) => {
            Found::note(format!("{name} is gone, and its settings with it")).fix(clear_gone())
        }
        (Presence::Unseen, _) => Found::note(format!(
            "{settings} settings of {name}: its network namespace is not visible from here"
        ))
        .blocks("restoring them from here")
        .fix(format!("if it is gone: {}", clear_gone().quoted())),
        (Presence::There(_), Phase::Applied) => Found::ok(format!(
            "{settings} settings of {name} ({owners}) can be restored: {restore}"
        )),
        (Presence::There(_), phase) => {
            let what = match phase {
                Phase::Restoring => "restoring them",
                _ => "changing them",
            };
            Found::warning(format!("{settings} settings of {name}: {what} was interrupted"))
                .blocks("knowing what they are: some are changed, some are not")
                .fix(restore)
        }
    }
}

fn clear_gone() -> CommandLine {
    CommandLine::nicctl("detach").option("--gone").everywhere()
}

fn attachments(leftovers: &Leftovers) -> Vec<Found> {
    let gone = leftovers.gone.iter().map(|name| {
        Found::note(format!("{name} is gone, with what was attached to it")).fix(clear_gone())
    });
    let half_made = (leftovers.half_made > 0).then(|| {
        Found::note(format!("{} were interrupted", leftovers.half_made))
            .fix("the next attach or detach removes them")
    });
    let unread = leftovers.unread.iter().map(|refusal| refusal.found(Status::Warning));
    let all: Vec<Found> = gone.chain(half_made).chain(unread).collect();
    if all.is_empty() { vec![Found::ok("no leftovers of interfaces that are gone")] } else { all }
}

fn lent(leftovers: &Leftovers) -> Vec<Found> {
    let lent = leftovers.lent.iter().map(|loan| match loan {
        Ok([a, b]) => {
            Found::warning(format!("{a} and {b} are still where a killed bench moved them"))
                .blocks("using them")
                .fix(CommandLine::nicctl("restore").on(a))
        }
        Err(refusal) => refusal.found(Status::Warning),
    });
    lent.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::Error,
        nic::{InterfaceName, Nic, census::Place},
    };

    fn entry(presence: Presence, phase: Phase) -> Leftovers {
        let (name, owners) = ("eth0".to_owned(), "set".to_owned());
        let entry = Entry { name, phase, settings: 3, owners, presence };
        Leftovers { changed: vec![entry], ..Leftovers::default() }
    }

    fn there() -> Presence {
        let lo = Nic::by_name(&InterfaceName::new("lo").unwrap()).unwrap();
        let place = Place::here(&lo).unwrap();
        Presence::There(Place { netns_name: Some("blue".into()), ..place })
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
        assert_eq!(first(entry(there(), Phase::Applied)), (Status::Ok, String::new()));
        for phase in [Phase::Applying, Phase::Undoing, Phase::Restoring] {
            assert_eq!(first(entry(there(), phase)), (Status::Warning, restore.clone()));
        }
        let gone = first(entry(Presence::Gone, Phase::Applied));
        assert_eq!(gone, (Status::Note, "nicctl detach --gone".to_owned()));
        let unseen = first(entry(Presence::Unseen, Phase::Applied));
        assert!(unseen.1.starts_with("if it is gone: `nicctl detach --gone`"), "{unseen:?}");
        let damaged = Leftovers { damaged: vec![Refusal::default()], ..Leftovers::default() };
        assert_eq!(first(damaged).0, Status::Warning);
    }

    #[test]
    fn a_disk_that_takes_no_journals_is_told() {
        let unwritable = Some(Refusal { what: "EROFS".into(), fix: Some("mount".into()) });
        let finding = Leftovers { unwritable, ..Leftovers::default() }.examine().remove(0);
        assert_eq!((finding.check, finding.status), ("journals", Status::Warning));
    }

    #[test]
    fn what_a_killed_bench_took_is_told() {
        let leftovers =
            Leftovers { lent: vec![Ok(["eth1".into(), "eth2".into()])], ..Leftovers::default() };
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
        let unread =
            entry(Presence::Unread(Error::failed("EIO")), Phase::Applied).examine().remove(0);
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
