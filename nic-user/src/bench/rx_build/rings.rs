//! Our driver, which builds packets when frames have arrived, beside the ways of before.

use std::rc::Rc;

use nic_common::policy::CopyPolicy;

use super::frame;
use crate::{
    bench::{
        experiment::{Case, Sample, Trial, Variant},
        fed::{BATCH, Fed},
        model::Measure,
        round::{Count, Round},
    },
    driver::{
        baseline::{Preallocated, Uncached},
        queue::Queue,
        receive::Building,
    },
    error::Result,
    lab::frames::Ends,
};

/// Lengths of frames with FCS.
const LENGTHS: [usize; 3] = [64, 512, 1518];
/// 4.33 to 5.51 Mpps, one stream of 64 B.
const PUBLISHED: f64 = 1.27;

/// Packets that are made beforehand, and bytes of each: one frame.
const RING: (usize, usize) = (1024, 2048);

/// Packets stay in their frames.
const WHOLE: Building = Building {
    policy: CopyPolicy { rx_copybreak: 0, max_linear: 0, split: false },
    bounce_below: 0,
};

#[derive(Clone, Copy)]
enum Build {
    /// Into a ring of packets, which are copied to.
    Preallocated,
    /// On demand, around a page that is allocated for it.
    Uncached,
    /// On demand, around a page that recycles itself.
    Cached,
}

/// The cases of our driver.
pub fn cases() -> Result<Vec<Case>> {
    LENGTHS.into_iter().map(case).collect()
}

fn case(len: usize) -> Result<Case> {
    let fed = Rc::new(Fed::new(1500, |lab| frame(&Ends::between(lab.a(), lab.b()), len))?);
    let variant = |title, build| Variant::new(title, BuildTrial { fed: fed.clone(), build });
    let published = (len == 64).then_some(PUBLISHED);
    Ok(Case::new(
        format!("our driver, {len} B frames, 1 stream"),
        Measure::Packets,
        vec![
            variant("made before", Build::Preallocated),
            variant("no page cache", Build::Uncached),
            variant("page cache", Build::Cached).published(published, None),
        ],
    ))
}

struct BuildTrial {
    fed: Rc<Fed>,
    build: Build,
}

impl Trial for BuildTrial {
    fn round(&mut self, round: &Round<'_>) -> Result<Sample> {
        let packets = [Count::default()];
        let [count] = &packets;
        let build = self.build;
        let (sample, [packets]) = self.fed.measure(round, WHOLE, &packets, |_| {
            let (made, size) = RING;
            let mut ring = Preallocated::new(made, size);
            move |queue: &mut Queue| {
                let received = match build {
                    Build::Preallocated => {
                        queue.receive_frames(BATCH, |frag, _| drop(ring.build(&frag)))
                    }
                    Build::Uncached => {
                        queue.receive_frames(BATCH, |frag, _| drop(Uncached::build(frag)))
                    }
                    Build::Cached => queue.receive(BATCH, drop),
                };
                count.add(received.into());
                received
            }
        })?;
        Ok(Sample { done: packets as f64, ..sample })
    }
}
