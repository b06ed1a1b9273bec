//! NAPI instances: what polls queues, and when (`NETDEV_A_NAPI_*`). Since Linux 6.8.

use std::collections::BTreeMap;

use super::Netdev;
use crate::netlink::attribute::Attributes;
use crate::netlink::request::{Places, Request};
use crate::netlink::{Error, Result, generic};

const NAPI_GET: u8 = 11;
const NAPI_SET: u8 = 14;

const IFINDEX: u16 = 1;
const ID: u16 = 2;
const IRQ: u16 = 3;
const PID: u16 = 4;

/// A setting of a NAPI instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NapiParameter {
    /// Polls in a row that may find nothing before interrupts are enabled again. Since Linux 6.13.
    DeferHardIrqs,
    /// Nanoseconds until the next poll while interrupts are deferred; also how long receive
    /// offload may hold packets back. Since Linux 6.13.
    GroFlushTimeout,
    /// Nanoseconds for which interrupts stay off while an application polls and finds packets.
    /// Since Linux 6.13.
    IrqSuspendTimeout,
    /// Whether a kernel thread polls: 0 no, 1 yes, 2 without a break. Since Linux 6.17.
    Threaded,
}

impl NapiParameter {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::DeferHardIrqs, Self::GroFlushTimeout, Self::IrqSuspendTimeout, Self::Threaded];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeferHardIrqs => "defer-hard-irqs",
            Self::GroFlushTimeout => "gro-flush-timeout",
            Self::IrqSuspendTimeout => "irq-suspend-timeout",
            Self::Threaded => "threaded",
        }
    }

    const fn attribute(self) -> u16 {
        match self {
            Self::DeferHardIrqs => 5,
            Self::GroFlushTimeout => 6,
            Self::IrqSuspendTimeout => 7,
            Self::Threaded => 8,
        }
    }

    fn encode(self, request: Request, value: u64) -> Result<Request> {
        match self {
            Self::GroFlushTimeout | Self::IrqSuspendTimeout => {
                Ok(request.uint(self.attribute(), value))
            }
            Self::DeferHardIrqs | Self::Threaded => match u32::try_from(value) {
                Ok(value) => Ok(request.u32(self.attribute(), value)),
                Err(_) => Err(Error::from_errno(libc::ERANGE).at(self.name())),
            },
        }
    }
}

/// A NAPI instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Napi {
    /// Its id, unique in the kernel while it lives.
    pub id: u32,
    /// The interrupt that starts it.
    pub irq: Option<u32>,
    /// The kernel thread that polls, if one does.
    pub pid: Option<u32>,
    /// Its settings. One that the kernel does not have for each instance is absent.
    pub parameters: BTreeMap<NapiParameter, u64>,
}

impl Netdev {
    /// The NAPI instances of the device with this index, by id; none before Linux 6.8, and none
    /// while the device is down.
    pub fn napis(&mut self, ifindex: u32) -> Result<Vec<Napi>> {
        let mut napis = self.dump(NAPI_GET, |query| query.u32(IFINDEX, ifindex), decode)?;
        napis.sort_by_key(|napi| napi.id);
        Ok(napis)
    }

    /// Changes settings of the NAPI instance with this id, and no others. Returns what the kernel
    /// remarked although it obeyed. `EOPNOTSUPP` before Linux 6.13.
    pub fn set_napi(
        &mut self,
        id: u32,
        changes: &[(NapiParameter, u64)],
    ) -> Result<Option<String>> {
        let mut request = generic::command(NAPI_SET).u32(ID, id);
        let mut places = Places::default();
        for &(parameter, value) in changes {
            places.mark(&request, parameter.name());
            request = parameter.encode(request, value)?;
        }
        let reply = self.family.request(&request).map_err(|error| places.name_in(error))?;
        Ok(reply.warning)
    }
}

pub(crate) fn decode(attributes: Attributes<'_>) -> Result<Option<Napi>> {
    let mut napi = Napi::default();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            ID => napi.id = attribute.u32()?,
            IRQ => napi.irq = Some(attribute.u32()?),
            PID => napi.pid = Some(attribute.u32()?),
            kind => {
                if let Some(parameter) =
                    NapiParameter::ALL.into_iter().find(|parameter| parameter.attribute() == kind)
                {
                    napi.parameters.insert(parameter, attribute.uint()?);
                }
            }
        }
    }
    Ok((napi.id != 0).then_some(napi))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_instance_of_an_old_kernel_has_fewer_settings() {
        let message = Request::default().u32(IFINDEX, 2).u32(ID, 8193).u32(IRQ, 40);
        let old = Napi { id: 8193, irq: Some(40), ..Napi::default() };
        assert_eq!(decode(Attributes::new(message.as_bytes())), Ok(Some(old.clone())));

        let message = message.u32(5, 2).uint(6, 20_000).uint(7, 5_000_000_000).u32(99, 1);
        let parameters = BTreeMap::from([
            (NapiParameter::DeferHardIrqs, 2),
            (NapiParameter::GroFlushTimeout, 20_000),
            (NapiParameter::IrqSuspendTimeout, 5_000_000_000),
        ]);
        let new = Napi { parameters, ..old };
        assert_eq!(decode(Attributes::new(message.as_bytes())), Ok(Some(new)));
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_by_name() {
        let error = NapiParameter::Threaded.encode(Request::default(), 1 << 32).err().unwrap();
        assert_eq!((error.errno, error.attribute.as_deref()), (libc::ERANGE, Some("threaded")));
    }

    proptest! {
        #[test]
        fn no_attributes_make_the_decoder_panic(attributes: Vec<(u16, Vec<u8>)>, raw: Vec<u8>) {
            let message = attributes.iter().fold(Request::default(), |message, (kind, value)| {
                message.bytes(kind % 12, value)
            });
            let _ = decode(Attributes::new(message.as_bytes()));
            let _ = decode(Attributes::new(&raw));
        }
    }
}
