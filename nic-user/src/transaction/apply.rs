//! Settings of several interfaces as one.

use super::{
    Lock,
    together::{Manner, Part, together},
};
use crate::{
    control::{KernelDevice, Plan, Report},
    error::Result,
};

/// Carries out the plans of all interfaces, or none. What became of each is
/// returned, also of those that were not reached.
pub fn apply(
    _lock: &Lock,
    planned: Vec<(KernelDevice, Plan)>,
    manner: Manner<'_>,
) -> (Vec<Report>, Result<()>) {
    let part = |(device, plan)| Part { device, plan, rest: () };
    let (done, result) = together(planned.into_iter().map(part).collect(), manner);
    (done.into_iter().map(|((), report)| report).collect(), result)
}
