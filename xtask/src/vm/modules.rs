//! Which kernel modules a guest needs, and in which order.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};

use super::{kernel::Kernel, unpack};

/// A module to be loaded.
pub struct Module {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The modules called `names`, each behind those it depends on. What is built in is left out;
/// `built` is one that the kernel came without.
pub fn with_dependencies(
    kernel: &Kernel,
    names: &[&str],
    built: Option<&Path>,
) -> Result<Vec<Module>> {
    let mut index = HashMap::new();
    find(&kernel.modules.join("kernel"), &mut index)?;
    index.extend(built.and_then(|path| Some((name(path)?, path.to_owned()))));
    let builtin = fs::read_to_string(kernel.modules.join("modules.builtin"))?;
    let builtin: Vec<_> = builtin.lines().filter_map(|line| name(Path::new(line))).collect();
    let mut loaded = Vec::new();
    for name in names {
        add(name, &index, &builtin, &mut loaded)?;
    }
    Ok(loaded)
}

fn add(
    name: &str,
    index: &HashMap<String, PathBuf>,
    builtin: &[String],
    loaded: &mut Vec<Module>,
) -> Result<()> {
    if loaded.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let Some(path) = index.get(name) else {
        if builtin.iter().any(|builtin| builtin == name) {
            return Ok(());
        }
        bail!("the kernel has no module {name}");
    };
    let bytes = unpack::module(path)?;
    for dependency in dependencies(&bytes) {
        add(&dependency, index, builtin, loaded)?;
    }
    loaded.push(Module { name: name.to_owned(), bytes });
    Ok(())
}

/// All modules below a directory, by name.
fn find(directory: &Path, index: &mut HashMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(&entry.path(), index)?;
        } else if let Some(name) = name(&entry.path()) {
            index.insert(name, entry.path());
        }
    }
    Ok(())
}

/// A module's name, by its file: `drivers/virtio/virtio-pci.ko.xz` is `virtio_pci`.
fn name(path: &Path) -> Option<String> {
    let (name, _) = path.file_name()?.to_str()?.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

/// What a module's `.modinfo` section says it depends on.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_name_and_dependencies_are_read() {
        assert_eq!(name(Path::new("a/virtio-pci.ko.xz")).as_deref(), Some("virtio_pci"));
        assert_eq!(name(Path::new("modules.order")), None);
        let module = b"\x7fELF..license=GPL\0depends=dca,i2c-algo-bit\0name=igb\0";
        assert_eq!(dependencies(module), ["dca", "i2c_algo_bit"]);
        assert!(dependencies(b"\0depends=\0name=tun\0").is_empty());
    }
}
