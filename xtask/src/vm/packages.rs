//! Debian packages, without installing them: fetched by a configuration of apt that is ours alone,
//! so that the system's own sources stay as they are and it takes no root.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, bail};

use crate::process::{command, find, output, root, run};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Suites that packages are taken from.
struct Sources {
    /// Their folder in the cache.
    name: &'static str,
    /// Archive and suite.
    suites: &'static [(&'static str, &'static str)],
    /// Its lists are fresh, or why they could not be fetched.
    lists: OnceLock<Result<(), String>>,
}

static STABLE: Sources = Sources {
    name: "apt",
    suites: &[
        ("debian", "bookworm"),
        ("debian", "trixie"),
        ("debian-security", "bookworm-security"),
        ("debian", "bookworm-backports"),
        ("debian", "trixie-backports"),
    ],
    lists: OnceLock::new(),
};

/// Apart from the others: everything in it is newer.
static TESTING: Sources =
    Sources { name: "apt-testing", suites: &[("debian", "testing")], lists: OnceLock::new() };

/// Where everything is kept that is fetched for guests.
pub fn cache() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| env::home_dir().unwrap_or_else(|| root().join("target")).join(".cache"));
    cache.join("nicctl/vm")
}

/// Makes the directory `name` in the cache by `fill`, unless it is there; it appears only when it
/// is complete.
pub fn cached(name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let directory = cache().join(name);
    if directory.exists() {
        return Ok(directory);
    }
    let partial = cache().join(format!("{name}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    fill(&partial)?;
    fs::rename(&partial, &directory)?;
    Ok(directory)
}

/// The names of all packages that begin with `prefix`.
pub fn names(prefix: &str) -> Result<Vec<String>> {
    let names = output(STABLE.apt("apt-cache")?.args(["pkgnames", prefix]))?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// The version of the package, the newest there is.
pub fn version(package: &str) -> Result<String> {
    let mut show = STABLE.apt("apt-cache")?;
    let about = output(show.args(["show", "--no-all-versions", package]))?;
    let version = about.lines().find_map(|line| line.strip_prefix("Version: "));
    version.map(str::to_owned).with_context(|| format!("{package} has no version"))
}

/// The packages that it depends on.
pub fn dependencies(package: &str) -> Result<Vec<String>> {
    let depends = output(STABLE.apt("apt-cache")?.args(["depends", package]))?;
    let name = |line: &str| line.trim_start().strip_prefix("Depends: ").map(str::to_owned);
    Ok(depends.lines().filter_map(name).collect())
}

/// Fetches packages and unpacks them into `directory`. A package is a name, with `/suite` or
/// `=version` behind it where the newest is not the one that is meant.
pub fn unpack(packages: &[String], directory: &Path) -> Result<()> {
    STABLE.unpack(packages, directory)
}

/// Fetches packages of Debian's next release and unpacks them into `directory`.
pub fn unpack_testing(packages: &[String], directory: &Path) -> Result<()> {
    TESTING.unpack(packages, directory)
}

impl Sources {
    fn unpack(&self, packages: &[String], directory: &Path) -> Result<()> {
        println!("fetching {}", packages.join(", "));
        let debs = directory.join("debs");
        fs::create_dir_all(&debs)?;
        let mut download = self.apt("apt-get")?;
        run(download.args(["--quiet=2", "download"]).args(packages).current_dir(&debs))?;
        for deb in fs::read_dir(&debs)? {
            run(command("dpkg").arg("-x").arg(deb?.path()).arg(directory))?;
        }
        fs::remove_dir_all(debs)?;
        Ok(())
    }

    /// A program of apt, set to our configuration, with fresh lists.
    fn apt(&self, program: &str) -> Result<Command> {
        let fresh = self.lists.get_or_init(|| self.update().map_err(|error| format!("{error:#}")));
        fresh.as_ref().map_err(|error| anyhow!("{error}"))?;
        Ok(self.configured(program))
    }

    fn update(&self) -> Result<()> {
        if find("apt-get").is_none() || find("dpkg").is_none() {
            bail!("no apt-get and dpkg: this is no Debian");
        }
        if !Path::new(KEYRING).exists() {
            bail!("no {KEYRING} (package debian-archive-keyring)");
        }
        let directory = self.directory();
        for subdirectory in ["lists/partial", "archives/partial", "parts"] {
            fs::create_dir_all(directory.join(subdirectory))?;
        }
        let mirror = mirror()?;
        let sources = self.suites.iter().map(|(archive, suite)| {
            format!("deb [signed-by={KEYRING}] {mirror}/{archive} {suite} main\n")
        });
        fs::write(directory.join("sources.list"), sources.collect::<String>())?;
        println!("fetching Debian's lists of packages");
        let mut update = self.configured("apt-get");
        update.args(["--quiet=2", "update"]);
        // Without this it only warns of lists that it cannot get.
        update.args(["-o", "APT::Update::Error-Mode=any"]);
        run(&mut update).context("fetch Debian's lists of packages")
    }

    fn configured(&self, program: &str) -> Command {
        let directory = self.directory();
        let set = |option: &str, value: &Path| format!("{option}={}", value.display());
        let mut apt = command(program);
        for option in [
            set("Dir::Etc::sourcelist", &directory.join("sources.list")),
            set("Dir::Etc::sourceparts", &directory.join("parts")),
            set("Dir::State::lists", &directory.join("lists")),
            set("Dir::Cache", &directory),
            // Its own user may not write here.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ] {
            apt.args(["-o", &option]);
        }
        apt
    }

    fn directory(&self) -> PathBuf {
        cache().join(self.name)
    }
}

/// Where this machine has its own Debian packages from, without the archive's name.
fn mirror() -> Result<String> {
    let uris = output(command("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let mirror = uris.lines().find_map(|uri| uri.trim_end_matches('/').strip_suffix("/debian"));
    mirror.map(str::to_owned).context("apt has no Debian archive among its sources")
}
