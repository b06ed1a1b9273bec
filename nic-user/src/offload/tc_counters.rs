//! The TC programs of an interface for as long as somebody looks.

use aya::{
    maps::Map,
    programs::{LinkOrder, TcAttachType, tc::TcAttachOptions},
};
use nic_common::{
    counters::{IngressCounters, TxCounters},
    policy::CopyPolicy,
};

use super::{
    layout::Counted,
    map::CounterMap,
    object::{EGRESS, INGRESS, Object, Parameters},
    pinned,
    programs::PARAMETERS,
};
use crate::error::{Error, Result};

/// The TC programs on an interface, without XDP and without pins: gone when dropped. They need TCX
/// (Linux 6.6).
pub struct TcCounters {
    object: Object,
}

impl TcCounters {
    /// Attaches to an interface of the calling thread's network namespace that has up to `queues`
    /// queues in either direction.
    pub fn attach(interface: &str, queues: u32) -> Result<Self> {
        Self::with(interface, queues, PARAMETERS)
    }

    /// The same, and packets of up to `rx_copybreak` bytes that arrive in pieces are pulled
    /// together.
    pub fn attach_pulling(interface: &str, queues: u32, rx_copybreak: u16) -> Result<Self> {
        let policy = CopyPolicy { rx_copybreak, ..PARAMETERS.policy };
        Self::with(interface, queues, Parameters { policy, pull: true, ..PARAMETERS })
    }

    fn with(interface: &str, queues: u32, parameters: Parameters) -> Result<Self> {
        let parameters = Parameters {
            rx_queues: queues,
            tx_queues: queues,
            real_tx_queues: queues,
            ..parameters
        };
        let mut object = Object::load(&parameters)?;
        for (name, hook) in [(INGRESS, TcAttachType::Ingress), (EGRESS, TcAttachType::Egress)] {
            let order = TcAttachOptions::TcxOrder(LinkOrder::default());
            object.classifier(name)?.attach_with_options(interface, hook, order).map_err(
                |error| pinned::aya_error(&format!("attach {name} to {interface}"), &error),
            )?;
        }
        Ok(Self { object })
    }

    /// What was counted so far, on all queues together.
    pub fn read(&self) -> Result<(IngressCounters, TxCounters)> {
        Ok((self.total("NIC_INGRESS")?, self.total("NIC_TX")?))
    }

    fn total<C: Counted>(&self, map: &str) -> Result<C> {
        let action = || format!("read {map}");
        let Some(Map::PerCpuArray(map)) = self.object.map(map) else {
            return Err(Error::failed(format!("{}: no such map", action())));
        };
        let queues = CounterMap::made(map)?.read().map_err(|error| Error::io(action(), &error))?;
        Ok(queues.iter().fold(C::ZERO, |mut sum, queue| {
            sum.add(queue);
            sum
        }))
    }
}
