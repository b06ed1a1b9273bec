//! Commands that nicctl proposes: each can be pasted where it is printed.

use std::{
    fmt::{self, Display, Formatter},
    path::PathBuf,
    sync::OnceLock,
};

/// Where this process was started from, as far as a command that is pasted there must know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The network namespace that this process works in, by name or path, if it is not that of the
    /// shell.
    pub netns: Option<String>,
    /// The bpffs that was chosen.
    pub bpffs: Option<PathBuf>,
    /// Whether `sudo` started this process, from a shell that is not root's.
    pub by_sudo: bool,
}

static HERE: OnceLock<Place> = OnceLock::new();

/// Commands are for this place from now on. Only the first one counts.
pub fn printed_at(place: Place) {
    // Nothing was proposed before.
    let _ = HERE.set(place);
}

/// A command to paste, with what it needs to mean here what it says: `--netns`, `--bpffs`, `sudo`.
/// [`Display`] quotes it for shells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    program: Program,
    words: Vec<String>,
    options: Vec<String>,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// nicctl itself, which goes to a network namespace by itself.
    Nicctl,
    /// One that looks at the network namespace that it runs in.
    Networking,
    /// One that does not.
    Other,
}

impl CommandLine {
    /// A command of nicctl.
    pub fn nicctl(subcommand: &str) -> Self {
        Self::new(Program::Nicctl, &["nicctl", subcommand])
    }

    /// Another program, of the network namespace that this process works in.
    pub fn networking(words: &[&str]) -> Self {
        Self::new(Program::Networking, words)
    }

    /// Another program, of the machine.
    pub fn other(words: &[&str]) -> Self {
        Self::new(Program::Other, words)
    }

    fn new(program: Program, words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let place = HERE.get().cloned().unwrap_or_default();
        Self { program, words, options: Vec::new(), place }
    }

    /// Adds a word that is no option: the name of an interface, a setting.
    #[must_use]
    pub fn on(mut self, word: impl Display) -> Self {
        self.words.push(word.to_string());
        self
    }

    /// Adds words that are no options.
    #[must_use]
    pub fn on_all(self, words: impl IntoIterator<Item = impl Display>) -> Self {
        words.into_iter().fold(self, Self::on)
    }

    /// Adds an option.
    #[must_use]
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }

    /// Adds an option, if `is_given`.
    #[must_use]
    pub fn option_if(self, is_given: bool, option: &str) -> Self {
        if is_given { self.option(option) } else { self }
    }

    /// Adds an option with its value.
    #[must_use]
    pub fn with(self, option: &str, value: impl Display) -> Self {
        self.option(option).option(&value.to_string())
    }

    /// For another network namespace than this process's, by name or path, if there is one.
    #[must_use]
    pub fn in_netns(mut self, name: Option<&str>) -> Self {
        if let Some(name) = name {
            self.place.netns = Some(name.to_owned());
        }
        self
    }

    /// For all network namespaces.
    #[must_use]
    pub fn everywhere(mut self) -> Self {
        self.place.netns = None;
        self
    }

    /// With the pins of this bpffs.
    #[must_use]
    pub fn in_bpffs(mut self, path: PathBuf) -> Self {
        self.place.bpffs = Some(path);
        self
    }

    /// As a part of a sentence.
    pub fn quoted(&self) -> String {
        format!("`{self}`")
    }

    /// This one, and if it was good another.
    pub fn and(&self, other: &Self) -> String {
        format!("{self} && {other}")
    }

    fn all_words(&self) -> Vec<String> {
        let Place { netns, bpffs, by_sudo } = &self.place;
        let mut all: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|&word| word.to_owned()));
        if *by_sudo {
            add(&["sudo"]);
        }
        let by_name = netns.as_deref().filter(|netns| !netns.contains('/'));
        match (self.program, by_name, netns) {
            (Program::Networking, Some(name), _) => add(&["ip", "netns", "exec", name]),
            (Program::Networking | Program::Nicctl, None, Some(path)) => {
                add(&["nsenter", &format!("--net={path}")]);
            }
            _ => {}
        }
        let mut options = self.options.clone();
        if self.program == Program::Nicctl {
            let option = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
            options.extend(by_name.iter().flat_map(|name| option("--netns", name)));
            let path = bpffs.as_ref().map(|path| path.display().to_string());
            options.extend(path.iter().flat_map(|path| option("--bpffs", path)));
        }
        // The first two are the program and its subcommand.
        let (command, words) = self.words.split_at(self.words.len().min(2));
        all.extend_from_slice(command);
        if words.iter().any(|word| word.starts_with('-')) && self.program == Program::Nicctl {
            all.extend(options);
            all.push("--".to_owned());
            all.extend_from_slice(words);
        } else {
            all.extend_from_slice(words);
            all.extend(options);
        }
        all
    }
}

impl Display for CommandLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.all_words().iter().map(|word| quoted(word)).collect();
        f.write_str(&words.join(" "))
    }
}

impl From<CommandLine> for String {
    fn from(command: CommandLine) -> Self {
        command.to_string()
    }
}

/// A word as shells read it. What controls a terminal is written by its number, as bash, zsh and
/// ksh know it (`$'...'`).
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    match word {
        "" => "''".to_owned(),
        word if word.chars().all(is_plain) => word.to_owned(),
        word if word.chars().any(char::is_control) => format!("$'{}'", numbered(word)),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn numbered(word: &str) -> String {
    let escaped = |c: char| match c {
        '\\' | '\'' => format!("\\{c}"),
        c if c.is_control() => {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")).collect()
        }
        c => c.to_string(),
    };
    word.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn at(place: Place, command: CommandLine) -> String {
        CommandLine { place, ..command }.to_string()
    }

    #[test]
    fn a_command_goes_where_it_was_meant_to() {
        let attach = || CommandLine::nicctl("attach").on("eth0").with("--mode", "generic");
        let blue = Place { netns: Some("blue".into()), bpffs: Some("/b p".into()), by_sudo: false };
        assert_eq!(attach().to_string(), "nicctl attach eth0 --mode generic");
        assert_eq!(
            at(blue.clone(), attach()),
            "nicctl attach eth0 --mode generic --netns blue --bpffs '/b p'"
        );
        let up = || CommandLine::networking(&["ip", "link", "set", "dev", "eth0", "up"]);
        assert_eq!(at(blue.clone(), up()), "ip netns exec blue ip link set dev eth0 up");
        let mount = || CommandLine::other(&["mount", "-t", "bpf"]);
        assert_eq!(at(blue, mount()), "mount -t bpf");
        let sudo = Place { by_sudo: true, ..Place::default() };
        assert_eq!(at(sudo, mount()), "sudo mount -t bpf");
        assert_eq!(
            CommandLine::nicctl("restore").on("eth0").in_netns(Some("red")).to_string(),
            "nicctl restore eth0 --netns red"
        );
        assert_eq!(
            CommandLine::nicctl("restore").on("eth0").in_netns(Some("/proc/7/ns/net")).to_string(),
            "nsenter --net=/proc/7/ns/net nicctl restore eth0"
        );
    }

    #[test]
    fn a_name_is_not_taken_for_an_option() {
        let command = CommandLine::nicctl("attach").on("-eth0").option("--log");
        assert_eq!(command.to_string(), "nicctl attach --log -- -eth0");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        /// Every byte but NUL, which no argument has.
        #[test]
        fn bash_reads_the_words_that_were_meant(word in "[^\0]{0,20}") {
            let line = format!("printf %s {}", quoted(&word));
            let output = Command::new("bash").args(["-c", &line]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
            prop_assert!(!quoted(&line).contains(char::is_control));
        }
    }
}
