//! What drivers make of wishes, and refuse, and pretend to do, is reported as what it is.

use nic_user::{lab::Host, nic::drivers::KernelVersion};

use crate::{Guest, Outcome, card, changes, control, nicctl};

/// A wish that is not simply granted.
struct Case {
    driver: &'static str,
    since: KernelVersion,
    wish: &'static str,
    reported: Reported,
}

/// How `nicctl set` ends.
enum Reported {
    /// It did something; what it says of that.
    Done(&'static str),
    /// The device ignores it; what is said in the report, and in the error.
    Ignored(&'static str, &'static str),
    /// Before anything was touched, with this exit code and text.
    NotPlanned(i32, &'static str),
    /// The kernel refused, with this text.
    Refused(&'static str),
}
use Reported::{Done, Ignored, NotPlanned, Refused};

const fn case(driver: &'static str, wish: &'static str, reported: Reported) -> Case {
    Case { driver, since: KernelVersion(6, 1), wish, reported }
}

const fn since(since: KernelVersion, case: Case) -> Case {
    Case { since, ..case }
}

const CASES: &[Case] = &[
    case("igb", "ring.rx=100", Done("! ring.rx: rounded by the driver to 104\n")),
    case("igb", "coalesce.rx-usecs=4", Refused("set coalesce.rx-usecs to 4 on nic-a: EINVAL")),
    case("e1000e", "ring.rx=100", Done("! ring.rx: rounded by the driver to 104\n")),
    case("vmxnet3", "ring.rx=100", Done("! ring.rx: rounded by the driver to 128\n")),
    case("virtio_net", "ring.rx=100", Refused("set ring.rx to 100 on nic-a: ")),
    case(
        "virtio_net",
        "coalesce.rx-usecs=100",
        Refused("set coalesce.rx-usecs to 100 on nic-a: EOPNOTSUPP"),
    ),
    since(
        KernelVersion(6, 12),
        case(
            "virtio_net",
            "coalesce.adaptive-rx=on",
            Ignored(
                "! coalesce.adaptive-rx: accepted, but without effect\n",
                "nic-a accepted, but without effect: coalesce.adaptive-rx",
            ),
        ),
    ),
    case("r8152", "copybreak.rx=128", Done("- copybreak.rx 256\n+ copybreak.rx 128\n")),
    case(
        "r8152",
        "copybreak.rx=59",
        NotPlanned(2, "copybreak.rx 59 is below the minimum of nic-a, 60"),
    ),
    case("r8152", "ring.rx=10", Refused("set ring.rx to 10 on nic-a: EINVAL")),
    case("netdevsim", "ring.rx=100", Done("+ ring.rx 100\n")),
    case("netdevsim", "pause.autoneg=on", Refused("set pause.autoneg to on on nic-a: EINVAL")),
    case(
        "veth",
        "feature.rx-hashing=on",
        NotPlanned(1, "feature.rx-hashing is fixed by the driver: it is off"),
    ),
    case("veth", "ring.rx=100", NotPlanned(1, "nic-a has no ring.rx")),
];

/// Larger packets than the kernel says that a card can cut.
const BIG_TCP: &str = "link.gso-max-size=196608";

pub fn wishes_are_reported_as_what_they_came_to(guest: &Guest) -> Outcome {
    let host = guest.lab.a();
    let before = changes::settings(host);
    let cases = CASES.iter().filter(|case| case.driver == guest.driver);
    for case in cases.filter(|case| case.since <= card::kernel()) {
        check(host, case.wish, &case.reported);
        nicctl::text(&["restore", host.interface(), "--netns", host.netns_name()]);
        let now = changes::settings(host);
        assert_eq!(control::lasting(&now), control::lasting(&before), "{}", case.wish);
    }
    if guest.driver != "veth" {
        check(
            host,
            BIG_TCP,
            &NotPlanned(2, "link.gso-max-size 196608 exceeds the maximum of nic-a, "),
        );
        let now = changes::settings(host);
        assert_eq!(control::lasting(&now), control::lasting(&before));
    }
    Outcome::Passed
}

fn check(host: &Host, wish: &str, reported: &Reported) {
    let output = nicctl::run(&["set", host.interface(), wish, "--netns", host.netns_name()]);
    let report = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let (code, in_report, in_error) = match *reported {
        Done(said) => (0, said, ""),
        Ignored(said, failure) => (1, said, failure),
        NotPlanned(code, failure) => (code, "", failure),
        Refused(failure) => (1, ": failed: ", failure),
    };
    assert_eq!(output.status.code(), Some(code), "{wish}: {report}{error}");
    assert!(report.contains(in_report), "{wish}: {report}");
    assert!(error.contains(in_error), "{wish}: {error}");
    assert!(!matches!(reported, NotPlanned(..)) || report.is_empty(), "{wish}: {report}");
}
