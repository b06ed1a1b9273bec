use std::fs;

use tempfile::TempDir;

use super::*;
use crate::{control::wanted::Origin, error::Kind, nic::setting::Key};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn load(folder: &TempDir, name: &str) -> Result<Profile> {
    Profile::load(folder.path().join(name).to_str().unwrap())
}

/// The error of a profile with this text, without the path of its file; and its fix.
fn refusal(text: &str) -> (String, String) {
    let folder = folder(&[("p.toml", text)]);
    let error = load(&folder, "p.toml").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    let path = folder.path().join("p.toml").display().to_string();
    let message = error.to_string().replace(&path, "p");
    (message, error.fix().unwrap_or_default().to_owned())
}

fn wanted(profile: &Profile, key: &str) -> Wanted {
    profile.settings[&key.parse::<Key>().unwrap()].wanted.clone()
}

#[test]
fn every_kind_of_value_is_read() {
    let folder = folder(&[(
        "p.toml",
        "description = \"test\"\n[match]\ndriver = [\"igb\", \"igc\"]\nname = \"eth*\"\n\
         min-speed = 1000\n[ring]\nrx = \"max\"\ntx = \"50%\"\n[feature]\nrx-gro = true\n\
         tso = \"off\"\n[coalesce]\nrx-usecs = 0x14\n[rps]\nrx-0 = \"ff\"\n[link]\n\
         mtu = \"keep\"\n",
    )]);
    let profile = load(&folder, "p.toml").unwrap();
    assert_eq!(profile.description.as_deref(), Some("test"));
    assert_eq!(profile.matching.drivers, ["igb", "igc"]);
    assert_eq!(profile.matching.names, ["eth*"]);
    assert_eq!(profile.matching.min_speed, Some(1000));
    assert_eq!(wanted(&profile, "ring.rx"), Wanted::Max);
    assert_eq!(wanted(&profile, "ring.tx"), Wanted::Percent(50));
    assert_eq!(wanted(&profile, "feature.rx-gro"), Wanted::Value(true.into()));
    assert_eq!(wanted(&profile, "feature.tx-tcp-segmentation"), Wanted::Value(false.into()));
    assert_eq!(wanted(&profile, "coalesce.rx-usecs"), Wanted::Value(20_u64.into()));
    assert_eq!(wanted(&profile, "rps.rx-0"), Wanted::Value("ff".into()));
    assert_eq!(wanted(&profile, "link.mtu"), Wanted::Keep);
    let origin = &profile.settings[&"ring.tx".parse().unwrap()].origin;
    assert!(matches!(origin, Origin::Profile { line: 8, built_in: false, .. }), "{origin}");
}

#[test]
fn keep_by_the_kernels_name_is_an_exception_wherever_it_stands() {
    let folder = folder(&[("p.toml", "[feature]\ntx-tcp6-segmentation = \"keep\"\ntso = true\n")]);
    let profile = load(&folder, "p.toml").unwrap();
    let of = |name| wanted(&profile, name);
    assert_eq!(of("feature.tx-tcp6-segmentation"), Wanted::Keep);
    assert_eq!(of("feature.tx-tcp-segmentation"), Wanted::Value(true.into()));
}

#[test]
fn one_setting_under_two_names_is_one_thing() {
    let refused = |text: &str| {
        let folder = folder(&[("p.toml", text)]);
        let error = load(&folder, "p.toml").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        error.to_string().replace(&format!("{}/", folder.path().display()), "")
    };
    assert_eq!(
        refused("[feature]\ngro = true\nrx-gro = false\n"),
        "feature.rx-gro off (p.toml:3) contradicts feature.gro on (p.toml:2): both are \
         feature.rx-gro"
    );
    assert_eq!(
        refused("[feature]\ntx-checksum-ipv6 = true\ntx-checksumming = false\n"),
        "feature.tx-checksum-ipv6 on (p.toml:2) contradicts feature.tx-checksumming off \
         (p.toml:3): both are feature.tx-checksum-ipv6"
    );
    refused("[feature]\ntso = true\ntcp-segmentation-offload = false\n");
    let same = folder(&[("p.toml", "[feature]\ngro = true\nrx-gro = \"on\"\n")]);
    assert!(load(&same, "p.toml").is_ok());
}

#[test]
fn what_is_unknown_is_refused_with_line_and_suggestion() {
    let expected = |message: &str, fix: &str| (message.to_owned(), fix.to_owned());
    assert_eq!(
        refusal("[ring]\nrx = 1\nrxx = 2\n"),
        expected("profile p, line 3: ring has no setting \"rxx\"", "did you mean ring.rx?")
    );
    assert_eq!(
        refusal("\n[rnig]\nrx = 1\n"),
        expected("profile p, line 2: a profile has no \"rnig\"", "did you mean ring?")
    );
    assert_eq!(
        refusal("[match]\ndrivers = \"igb\"\n"),
        expected("profile p, line 2: [match] has no \"drivers\"", "did you mean driver?")
    );
    assert_eq!(
        refusal("extend = \"throughput\"\n"),
        expected("profile p, line 1: a profile has no \"extend\"", "did you mean extends?")
    );
}

#[test]
fn values_of_the_wrong_kind_are_refused_with_their_line() {
    let message = |text| refusal(text).0;
    let number = "18446744073709551615";
    assert_eq!(
        message("[ring]\nrx = -1"),
        format!("profile p, line 2: ring.rx is -1; it must be 0 to {number}")
    );
    assert_eq!(
        message("[ring]\nrx = 1.5"),
        "profile p, line 2: ring.rx takes a number, true, false, or a string"
    );
    assert_eq!(
        message("[ring]\nrx = \"200%\""),
        "profile p, line 2: ring.rx is 200%; it must be 0% to 100%"
    );
    assert_eq!(message("ring = 5"), "profile p, line 1: ring is a table: [ring]");
    assert_eq!(message("extends = 5"), "profile p, line 1: extends takes a string");
    assert_eq!(
        message("[match]\nmin-speed = \"fast\""),
        "profile p, line 2: min-speed takes a speed in Mbit/s"
    );
    assert!(message("[ring]\nrx = 1\nrx = 2\n").starts_with("profile p, line 3: duplicate key"));
    assert!(message("[ring\n").starts_with("profile p, line 1: "));
}

#[test]
fn a_profile_is_put_over_what_it_extends() {
    let folder = folder(&[
        ("base.toml", "[match]\ndriver = \"igb\"\n[ring]\nrx = 1\ntx = 2\n"),
        ("p.toml", "extends = \"base.toml\"\n[ring]\nrx = \"keep\"\n"),
    ]);
    let profile = load(&folder, "p.toml").unwrap();
    assert_eq!(wanted(&profile, "ring.rx"), Wanted::Keep);
    assert_eq!(wanted(&profile, "ring.tx"), Wanted::Value(2_u64.into()));
    assert_eq!(profile.matching.drivers, ["igb"]);
}

#[test]
fn a_built_in_profile_can_be_extended() {
    let folder = folder(&[("p.toml", "extends = \"throughput\"\n[ring]\nrx = 512\n")]);
    let profile = load(&folder, "p.toml").unwrap();
    assert!(profile.settings.len() > 1);
    let best_effort =
        |key: &str| profile.settings[&key.parse::<Key>().unwrap()].origin.is_best_effort();
    assert!(!best_effort("ring.rx") && best_effort("ring.tx"));
}

#[test]
fn profiles_that_extend_themselves_or_nothing_are_refused() {
    let folder = folder(&[
        ("a.toml", "\nextends = \"b.toml\"\n"),
        ("b.toml", "extends = \"./a.toml\"\n"),
        ("self.toml", "extends = \"self.toml\"\n"),
        ("none.toml", "extends = \"troughput\"\n"),
        ("gone.toml", "extends = \"there/is/none.toml\"\n"),
    ]);
    let message = |name| load(&folder, name).unwrap_err().to_string();
    assert!(message("a.toml").contains("line 2"), "{}", message("a.toml"));
    assert!(message("a.toml").contains("it extends itself, through "));
    assert!(message("self.toml").contains("line 1: it extends itself, through "));
    assert!(message("gone.toml").contains("line 1: read profile "));
    let error = load(&folder, "none.toml").unwrap_err();
    assert!(error.to_string().ends_with("line 1: there is no profile \"troughput\""));
    assert_eq!(error.fix(), Some("did you mean throughput?"));
}

#[test]
fn a_long_chain_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let text = format!("extends = \"{}.toml\"\n", n + 1);
        fs::write(folder.path().join(format!("{n}.toml")), text).unwrap();
    }
    let error = load(&folder, "0.toml").unwrap_err();
    assert!(error.to_string().contains("more than 16 profiles extend each other"));
}

#[test]
fn files_that_are_no_text_or_huge_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.toml");
    fs::write(&path, b"[ring]\nrx = \"\xff\"\n").unwrap();
    assert!(load(&folder, "p.toml").unwrap_err().to_string().ends_with("line 2: it is not UTF-8"));
    fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
    let error = load(&folder, "p.toml").unwrap_err();
    assert!(error.to_string().contains("larger than 256 KiB"), "{error}");
    assert!(Profile::load("/dev/zero").is_err());
    let error = load(&folder, "none.toml").unwrap_err();
    assert!(error.to_string().contains("No such file"), "{error}");
    assert!(load(&folder, ".").is_err());
}

#[test]
fn nested_toml_does_not_overflow() {
    let deep = format!("[ring]\nrx = {}{}\n", "[".repeat(50_000), "]".repeat(50_000));
    assert!(refusal(&deep).0.starts_with("profile p, line 2: "));
}

#[test]
fn an_unknown_profile_is_suggested() {
    let error = Profile::load("latenzy").unwrap_err();
    assert_eq!(error.to_string(), "there is no profile \"latenzy\"");
    assert_eq!(error.fix(), Some("did you mean latency?"));
}

#[test]
fn built_in_profiles_load_and_say_why() {
    for (name, text) in Profile::built_in() {
        let profile = Profile::load(name).unwrap();
        assert!(profile.description.is_some() && !profile.settings.is_empty(), "{name}");
        let mut reasoned = false;
        for line in text.lines() {
            match line.split_once('=') {
                _ if line.starts_with('#') => reasoned = true,
                Some((key, _)) if !["description ", "extends "].contains(&key) => {
                    assert!(reasoned, "{name}: no reason above {line:?}");
                    reasoned = false;
                }
                _ => reasoned = false,
            }
        }
    }
}

#[test]
fn a_match_says_what_does_not() {
    let igb = crate::control::fake::Fake::new(&[]).identity;
    let check = |matching: Match, speed| {
        let profile = Profile { name: "p".into(), matching, ..Profile::default() };
        profile.check_match(&igb, speed).map_err(|error| error.to_string())
    };
    let drivers = |drivers: &[&str]| Match {
        drivers: drivers.iter().map(|&driver| driver.into()).collect(),
        ..Match::default()
    };
    assert_eq!(check(Match::default(), None), Ok(()));
    assert_eq!(check(drivers(&["ice", "igb"]), None), Ok(()));
    assert_eq!(
        check(drivers(&["ice", "i40e"]), None),
        Err("profile p does not match eth0: its driver is igb, not ice or i40e".into())
    );
    let name = |name: &str| Match { names: vec![name.into()], ..Match::default() };
    assert_eq!(check(name("eth?"), None), Ok(()));
    assert!(check(name("ens*"), None).is_err());
    let fast = || Match { min_speed: Some(10_000), ..Match::default() };
    assert_eq!(check(fast(), Some(25_000)), Ok(()));
    assert!(check(fast(), Some(1000)).unwrap_err().ends_with("not at least 10000 Mbit/s"));
    assert!(check(fast(), None).unwrap_err().contains("its speed is unknown"));
    let slow = Match { max_speed: Some(1000), ..Match::default() };
    assert!(check(slow, Some(25_000)).is_err());
}

#[test]
fn globs() {
    for (pattern, text, like) in [
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("eth*", "eth0", true),
        ("eth*", "et", false),
        ("e*n?3*0", "enp3s0", true),
        ("*a*b", "aab", true),
        ("*a*b", "aba", false),
        ("e?h0", "eth0", true),
        ("?", "", false),
        ("ä?", "äö", true),
    ] {
        assert_eq!(glob(pattern, text), like, "{pattern} {text}");
    }
    // Quadratic at most.
    assert!(!glob(&"*a".repeat(5_000), &"a".repeat(4_000)));
}

#[test]
fn the_schema_has_exactly_the_keys_that_are_accepted() {
    let schema = schemars::schema_for!(Profile);
    let properties = schema.get("properties").and_then(Json::as_object).unwrap();
    for (key, group) in properties {
        let Some(names) = group.get("properties").and_then(Json::as_object) else { continue };
        for name in names.keys() {
            let value = match name.as_str() {
                "min-speed" | "max-speed" => "5",
                _ => "\"x\"",
            };
            let text = format!("[{key}]\n\"{name}\" = {value}\n");
            profile_file::parse("p", false, &text).unwrap();
        }
    }
    assert_eq!(properties.len(), Group::ALL.len() + 3);
    assert_eq!(schema.get("additionalProperties"), Some(&Json::Bool(false)));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text: String) {
        let _ = profile_file::parse("p", false, &text);
    }

    #[test]
    fn nothing_that_looks_like_a_profile_makes_the_parser_panic(
        text in "(\\[(match|ring|feature|rps|link)\\]\n|(rx|driver|tso|mtu|extends) = \
                 (true|-?[0-9]{1,25}|1e9|\"[a-z0-9%*-]{0,5}\"|\\[\"a\", 1\\]|\\{ rx = 1 \\})\n){0,8}"
    ) {
        let _ = profile_file::parse("p", false, &text);
    }
}
