//! Frames for the stack that it did not get when they arrived, because rings took them.

use aya::{
    TestRun,
    programs::{TestRunAttrs, TestRunOptions},
};

use super::{
    btf::DeviceLayout,
    object::{Object, PASS},
    privilege,
};
use crate::error::Result;

/// Hands frames to the stack, as if they had just arrived and an XDP program had let them pass
/// (`BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18). Programs on the interface do not see them again.
pub struct ToStack {
    object: Object,
}

impl ToStack {
    /// Loads the program.
    pub fn load() -> Result<Self> {
        privilege::check("load the program")?;
        let mut object = Object::load_to_forward([0; 2], 0, &DeviceLayout::default())?;
        object.forward(PASS)?;
        Ok(Self { object })
    }

    /// Hands over a frame that arrived at a queue of an interface of the present network
    /// namespace; false if the kernel did not take it, as it takes none that is longer than a page
    /// less what is around it.
    pub fn hand(&self, ifindex: u32, queue: u32, frame: &[u8]) -> bool {
        let Ok(program) = self.object.loaded(PASS) else { return false };
        // `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index,
        // egress_ifindex.
        let context = [0, frame.len() as u32, 0, ifindex, queue, 0].map(u32::to_ne_bytes);
        let options = TestRunOptions {
            data_in: Some(frame),
            ctx_in: Some(context.as_flattened()),
            attrs: TestRunAttrs::new().xdp_live_frames(1),
            ..TestRunOptions::new()
        };
        program.test_run(options).is_ok()
    }
}
