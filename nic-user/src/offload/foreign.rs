//! XDP programs of others: named, never removed.

use std::{fs, path::Path};

use aya::programs::{loaded_links, loaded_programs};

use crate::{
    command_line::CommandLine,
    error::Error,
    netlink::link::{XdpAttachment, XdpMode},
    nic::Nic,
};

/// What there is to say of an interface that has a program of somebody else.
pub fn description(nic: &Nic, attached: &XdpAttachment) -> String {
    let (name, mode, id) = (nic.name(), attached.mode.name(), attached.prog_id);
    let program = program_name(id).map(|name| format!(" `{name}`")).unwrap_or_default();
    format!("{name} has a {mode} XDP program{program} (id {id}) that is not nicctl's")
}

/// The error where XDP is wanted on such an interface.
pub fn refusal(nic: &Nic, attached: &XdpAttachment) -> Error {
    let (message, name) = (description(nic, attached), nic.name());
    let beside = CommandLine::nicctl("attach").on(name).with("--mode", "tc").quoted();
    match link_of(attached.prog_id) {
        Some(link) => {
            let owner = holder(link).map(|owner| format!(", held by {owner}")).unwrap_or_default();
            Error::failed(format!("{message}, attached by link {link}{owner}")).with_fix(format!(
                "stop its owner, or detach it: {}; or count beside it: {beside}",
                CommandLine::other(&["bpftool", "link", "detach", "id"]).on(link).quoted()
            ))
        }
        None => Error::failed(message).with_fix(format!(
            "detach it first if it is not needed: {}; or count beside it: {beside}",
            CommandLine::networking(&["ip", "link", "set", "dev", name])
                .on(match attached.mode {
                    XdpMode::Native => "xdpdrv",
                    XdpMode::Generic => "xdpgeneric",
                    XdpMode::Offload => "xdpoffload",
                })
                .on("off")
                .quoted()
        )),
    }
}

fn program_name(id: u32) -> Option<String> {
    let info = loaded_programs().flatten().find(|program| program.id() == id)?;
    info.name_as_str().map(str::to_owned)
}

fn link_of(program: u32) -> Option<u32> {
    loaded_links().flatten().find(|link| link.program_id() == program).map(|link| link.id())
}

/// The process that has a link open, as `name (process 123)`.
fn holder(link: u32) -> Option<String> {
    let wanted = format!("link_id:\t{link}");
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let path = process.path();
        let pid: u32 = path.file_name()?.to_str()?.parse().ok()?;
        holds(&path, &wanted).then(|| {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            format!("{} (process {pid})", name.trim())
        })
    })
}

fn holds(process: &Path, line: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fdinfo")) else { return false };
    descriptors.flatten().any(|descriptor| {
        fs::read_to_string(descriptor.path())
            .is_ok_and(|info| info.lines().any(|found| found == line))
    })
}
