//! stub
use super::Nic;
use crate::netlink::link::XdpMode;
pub struct Finding {
    pub blocks: bool,
    pub what: String,
    pub fix: String,
}
pub fn xdp_findings(_nic: &Nic, _mode: XdpMode) -> Vec<Finding> {
    Vec::new()
}
pub fn needs_frags(nic: &Nic) -> bool {
    nic.mtu() > 3498
}
