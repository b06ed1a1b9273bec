//! Profiles: named sets of wishes, from files or built in, that can extend each other.

use std::{
    borrow::Cow,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value as Json};

use super::{
    device::Identity,
    names,
    profile_file::{self, DESCRIPTION, EXTENDS, MATCH, ProfileFile},
    wanted::{Desired, Wanted},
};
use crate::{
    error::{Error, Result},
    nic::{name, setting::Group},
};

/// Profiles are written by hand: what is larger is something else.
const MAX_BYTES: u64 = 256 << 10;

/// Longest chain of profiles that extend each other.
const MAX_DEPTH: usize = 16;

/// The profiles that come with nicctl, with the reason for each of their values.
const BUILT_IN: &[(&str, &str)] = &[
    ("big-tcp", include_str!("profiles/big-tcp.toml")),
    ("forwarding", include_str!("profiles/forwarding.toml")),
    ("header-split", include_str!("profiles/header-split.toml")),
    ("latency", include_str!("profiles/latency.toml")),
    ("throughput", include_str!("profiles/throughput.toml")),
    ("udp-gso", include_str!("profiles/udp-gso.toml")),
];

/// A profile, with everything that it extends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name, or the path of its file.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The interfaces that it is for.
    pub matching: Match,
    /// What it wants.
    pub settings: Desired,
}

/// The interfaces that a profile is for: all, unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Names of drivers, as `ethtool -i` shows them; empty: any.
    pub drivers: Vec<String>,
    /// Patterns of interface names, with `*` and `?`; empty: any.
    pub names: Vec<String>,
    /// Least speed of the link in Mbit/s.
    pub min_speed: Option<u32>,
    /// Greatest speed of the link in Mbit/s.
    pub max_speed: Option<u32>,
}

impl Profile {
    /// Loads a built-in profile by its name, or one from a file by its path.
    ///
    /// # Errors
    ///
    /// There is no such profile, it can not be read, or something in it makes no sense.
    pub fn load(name_or_path: &str) -> Result<Self> {
        Loader::default().load(&Source::find(name_or_path, None)?)
    }

    /// The names of the profiles that come with nicctl, each with its text.
    pub const fn built_in() -> &'static [(&'static str, &'static str)] {
        BUILT_IN
    }

    /// Checks that it is for this interface. `speed` is that of its link in Mbit/s, if it has one.
    ///
    /// # Errors
    ///
    /// It is for others: for which ones is said.
    pub fn check_match(&self, interface: &Identity, speed: Option<u32>) -> Result<()> {
        let Some(mismatch) = self.matching.mismatch(interface, speed) else {
            return Ok(());
        };
        let message = format!("profile {} is not for {}: {mismatch}", self.name, interface.name);
        Err(Error::failed(message).with_fix("choose another profile, or change its [match]"))
    }
}

impl Match {
    fn mismatch(&self, interface: &Identity, speed: Option<u32>) -> Option<String> {
        let driver = interface.driver.as_deref().unwrap_or("unknown");
        if !self.drivers.is_empty() && !self.drivers.iter().any(|name| name == driver) {
            return Some(format!("its driver is {driver}, not {}", self.drivers.join(" or ")));
        }
        if !self.names.is_empty() && !self.names.iter().any(|name| glob(name, &interface.name)) {
            return Some(format!("its name is not like {}", self.names.join(" or ")));
        }
        let is = speed.map_or_else(|| "unknown".to_owned(), |speed| format!("{speed} Mbit/s"));
        match (self.min_speed, self.max_speed) {
            (Some(min), _) if speed.is_none_or(|speed| speed < min) => {
                Some(format!("its speed is {is}, not at least {min} Mbit/s"))
            }
            (_, Some(max)) if speed.is_none_or(|speed| speed > max) => {
                Some(format!("its speed is {is}, not at most {max} Mbit/s"))
            }
            _ => None,
        }
    }
}

/// Whether `text` is like `pattern`, where `*` is any number of characters and `?` is one.
fn glob(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Where to go on after one more character is given to the last star.
    let mut retry = None;
    loop {
        let mut after = pattern.clone();
        let here = text.clone();
        match (after.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = here.clone();
                pattern = after;
                retry = Some((pattern.clone(), here));
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => pattern = after,
            _ => {
                let Some((after_star, mut from)) = retry else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (after_star.clone(), from.clone());
                retry = Some((after_star, from));
            }
        }
    }
}

/// Where a profile is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    BuiltIn(&'static str, &'static str),
    File(PathBuf),
}

impl Source {
    /// A built-in name, or a path; relative paths begin in `folder`.
    fn find(name: &str, folder: Option<&Path>) -> Result<Self> {
        if let Some(&(name, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            return Ok(Self::BuiltIn(name, text));
        }
        let path = folder.map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        if path.exists() || name.contains(['/', '.']) {
            return Ok(Self::File(path));
        }
        let names = BUILT_IN.iter().map(|(name, _)| *name);
        let error = Error::usage(format!("there is no profile called {name:?}"));
        Err(match name::nearest(name, names.clone()) {
            Some(nearest) => error.with_fix(format!("did you mean {nearest}?")),
            None => {
                let names: Vec<&str> = names.collect();
                error.with_fix(format!("give the path of a file, or one of {}", names.join(", ")))
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Self::BuiltIn(name, _) => (*name).to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// The folder that paths in it begin in.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::BuiltIn(..) => None,
            Self::File(path) => path.parent(),
        }
    }

    fn text(&self) -> Result<Cow<'static, str>> {
        match self {
            Self::BuiltIn(_, text) => Ok(Cow::Borrowed(text)),
            Self::File(path) => read(path).map(Cow::Owned),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let action = format!("read profile {shown}");
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Error::io(&action, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::usage(format!(
            "profile {shown} is larger than {} KiB: it is something else",
            MAX_BYTES >> 10
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..good).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::usage(format!("profile {shown}, line {line}: it is not UTF-8"))
    })
}

/// Follows `extends`.
#[derive(Default)]
struct Loader {
    /// What extends what is being loaded, outermost first.
    chain: Vec<Source>,
}

impl Loader {
    fn load(&mut self, source: &Source) -> Result<Profile> {
        let name = source.name();
        let built_in = matches!(source, Source::BuiltIn(..));
        let file = profile_file::parse(&name, built_in, &source.text()?)?;
        self.chain.push(canonical(source));
        let base = match &file.extends {
            Some((base, line)) => self.base(source, base).map_err(|error| {
                let located = Error::usage(format!("profile {name}, line {line}: {error}"));
                match error.fix() {
                    Some(fix) => located.with_fix(fix),
                    None => located,
                }
            })?,
            None => Profile::default(),
        };
        self.chain.pop();
        Ok(over(base, file, name))
    }

    fn base(&mut self, source: &Source, base: &str) -> Result<Profile> {
        let base = Source::find(base, source.folder())?;
        if self.chain.contains(&canonical(&base)) {
            return Err(Error::usage(format!("it extends itself, through {}", base.name())));
        }
        if self.chain.len() >= MAX_DEPTH {
            return Err(Error::usage(format!("more than {MAX_DEPTH} profiles extend each other")));
        }
        self.load(&base)
    }
}

fn canonical(source: &Source) -> Source {
    match source {
        Source::File(path) => Source::File(path.canonicalize().unwrap_or_else(|_| path.clone())),
        built_in => built_in.clone(),
    }
}

fn over(base: Profile, file: ProfileFile, name: String) -> Profile {
    let mut settings = base.settings;
    settings.extend(file.settings);
    Profile {
        name,
        description: file.description,
        matching: file.matching.unwrap_or(base.matching),
        settings,
    }
}

/// The schema of a profile's TOML, made from the names that are accepted.
impl JsonSchema for Profile {
    fn schema_name() -> Cow<'static, str> {
        "Profile".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let wanted = Json::from(generator.subschema_for::<Wanted>());
        let strings = json_schema!({
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
            ],
        });
        let speed = json_schema!({
            "type": "integer", "minimum": 0, "maximum": u32::MAX,
            "description": "Speed of the link in Mbit/s.",
        });
        let mut properties = Map::new();
        let mut property =
            |name: &str, schema: Schema| properties.insert(name.into(), schema.into());
        property(
            DESCRIPTION,
            json_schema!({ "type": "string", "description": "What the profile is for." }),
        );
        property(
            EXTENDS,
            json_schema!({
                "type": "string",
                "description": "A built-in profile, or the path of one, beginning at this file's \
                    folder. What this profile says takes the place of what that one says.",
            }),
        );
        property(
            MATCH,
            json_schema!({
                "type": "object",
                "description": "The interfaces that the profile is for; all, without it.",
                "properties": {
                    "driver": strings, "name": strings, "min-speed": speed, "max-speed": speed,
                },
                "additionalProperties": false,
            }),
        );
        for group in Group::ALL {
            property(group.name(), group_schema(group, &wanted));
        }
        json_schema!({
            "type": "object", "properties": properties, "additionalProperties": false,
        })
    }
}

fn group_schema(group: Group, wanted: &Json) -> Schema {
    let names = names::known(group);
    let properties: Map<String, Json> =
        names.iter().map(|name| ((*name).to_owned(), wanted.clone())).collect();
    let others = match names.is_empty() || group == Group::Feature {
        true => wanted.clone(),
        false => Json::Bool(false),
    };
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": others })
}

#[cfg(test)]
mod tests {
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
    fn the_kernels_name_wins_over_ethtools_wherever_it_stands() {
        let folder = folder(&[("p.toml", "[feature]\ntx-tcp6-segmentation = false\ntso = true\n")]);
        let profile = load(&folder, "p.toml").unwrap();
        let of = |name| wanted(&profile, name);
        assert_eq!(of("feature.tx-tcp6-segmentation"), Wanted::Value(false.into()));
        assert_eq!(of("feature.tx-tcp-segmentation"), Wanted::Value(true.into()));
    }

    #[test]
    fn what_is_unknown_is_refused_with_line_and_suggestion() {
        let expected = |message: &str, fix: &str| (message.to_owned(), fix.to_owned());
        assert_eq!(
            refusal("[ring]\nrx = 1\nrxx = 2\n"),
            expected(
                "profile p, line 3: ring has no setting called \"rxx\"",
                "did you mean ring.rx?"
            )
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
            format!("profile p, line 2: ring.rx is -1; 0 to {number} are possible")
        );
        assert_eq!(
            message("[ring]\nrx = 1.5"),
            "profile p, line 2: ring.rx takes a number, true, false, or a string"
        );
        assert_eq!(
            message("[ring]\nrx = \"200%\""),
            "profile p, line 2: ring.rx is 200%; 0% to 100% are possible"
        );
        assert_eq!(message("ring = 5"), "profile p, line 1: ring is a table: [ring]");
        assert_eq!(message("extends = 5"), "profile p, line 1: extends takes a string");
        assert_eq!(
            message("[match]\nmin-speed = \"fast\""),
            "profile p, line 2: min-speed takes a speed in Mbit/s"
        );
        assert!(
            message("[ring]\nrx = 1\nrx = 2\n").starts_with("profile p, line 3: duplicate key")
        );
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
        assert!(error.to_string().ends_with("line 1: there is no profile called \"troughput\""));
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
        assert!(
            load(&folder, "p.toml").unwrap_err().to_string().ends_with("line 2: it is not UTF-8")
        );
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
        assert_eq!(error.to_string(), "there is no profile called \"latenzy\"");
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
        let igb =
            Identity { name: "eth0".into(), driver: Some("igb".into()), ..Identity::default() };
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
            Err("profile p is not for eth0: its driver is igb, not ice or i40e".into())
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
}
