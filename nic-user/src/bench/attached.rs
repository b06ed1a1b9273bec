//! Programs that are attached for a round only.

use crate::{
    error::Result,
    lab::{
        Host,
        bpf::{Link, Program},
    },
};

/// Attaches programs for as long as the links exist. Network cards may lose the carrier for that.
pub fn attach(programs: &[(&Program, &Host)]) -> Result<Vec<Link>> {
    let links = programs.iter().map(|(program, host)| program.attach(host, host.ifindex()));
    let links = links.collect::<Result<_>>()?;
    programs.iter().try_for_each(|(_, host)| host.wait_until_running())?;
    Ok(links)
}
