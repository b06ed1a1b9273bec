//! Groups of parameters that are an attribute each: what is read and written alike for rings,
//! channels, coalescing and pause frames.

use std::collections::BTreeMap;
use std::fmt;

use super::Ethtool;
use crate::netlink::attribute::Attributes;
use crate::netlink::request::{Places, Request};
use crate::netlink::{Error, IfSupported, Result, generic};

/// What the values of a parameter mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Number,
    /// 0: off, 1: on.
    Switch,
    /// 0: as the driver likes (`auto`), 1: off, 2: on.
    AutoSwitch,
}

/// A parameter's value on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The current value.
    pub value: u32,
    /// The largest that the device allows, if it says.
    pub max: Option<u32>,
}

/// The parameters of a group that a device has. One that it does not have is absent.
pub type Readings<P> = BTreeMap<P, Reading>;

/// A parameter of one group. Its name is ethtool's.
pub trait Parameter: Copy + Ord + fmt::Debug + 'static {
    /// All parameters of the group.
    const ALL: &'static [Self];
    /// The command that reads the group (`ETHTOOL_MSG_*_GET`).
    const GET: u8;
    /// The command that changes the group (`ETHTOOL_MSG_*_SET`).
    const SET: u8;

    /// ethtool's name for it.
    fn name(self) -> &'static str;

    /// What its values mean.
    fn kind(self) -> Kind;

    /// The attribute that has its value.
    fn attribute(self) -> u16;

    /// The attribute that has its upper limit.
    fn max_attribute(self) -> Option<u16>;

    /// The parameter called `name`.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|parameter| parameter.name() == name)
    }
}

/// Defines a group: `Variant = attribute [max limit's attribute], "name", kind;`.
macro_rules! parameters {
    (
        $(#[$group_doc:meta])*
        $group:ident, get $get:literal, set $set:literal;
        $(
            $(#[$doc:meta])*
            $variant:ident = $attribute:literal $(max $max:literal)?, $name:literal, $kind:ident;
        )*
    ) => {
        $(#[$group_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $group {
            $($(#[$doc])* $variant,)*
        }

        impl $crate::netlink::ethtool::parameter::Parameter for $group {
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            const GET: u8 = $get;
            const SET: u8 = $set;

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            fn kind(self) -> $crate::netlink::ethtool::parameter::Kind {
                match self {
                    $(Self::$variant => $crate::netlink::ethtool::parameter::Kind::$kind,)*
                }
            }

            fn attribute(self) -> u16 {
                match self {
                    $(Self::$variant => $attribute,)*
                }
            }

            fn max_attribute(self) -> Option<u16> {
                match self {
                    $(Self::$variant => [$($max)?].first().copied(),)*
                }
            }
        }
    };
}
pub(super) use parameters;

impl Ethtool {
    /// Reads a group of the device with this index. It is empty if the driver or the kernel has
    /// no such group.
    pub fn get<P: Parameter>(&mut self, ifindex: u32) -> Result<Readings<P>> {
        match self.family.request(&Self::command(P::GET, ifindex)).if_supported()? {
            Some(reply) => decode(generic::only_message(&reply)?),
            None => Ok(Readings::new()),
        }
    }

    /// Changes parameters of the device with this index, and no others. Returns what the kernel
    /// remarked although it obeyed.
    ///
    /// A driver may round or limit a value without a word: read it back.
    pub fn set<P: Parameter>(
        &mut self,
        ifindex: u32,
        changes: &[(P, u32)],
    ) -> Result<Option<String>> {
        let mut request = Self::command(P::SET, ifindex);
        let mut places = Places::default();
        for &(parameter, value) in changes {
            places.mark(&request, parameter.name());
            request = encode(request, parameter, value)?;
        }
        self.change(&request, &places).map(|reply| reply.warning)
    }
}

fn encode<P: Parameter>(request: Request, parameter: P, value: u32) -> Result<Request> {
    match parameter.kind() {
        Kind::Number => Ok(request.u32(parameter.attribute(), value)),
        Kind::Switch | Kind::AutoSwitch => match u8::try_from(value) {
            Ok(value) => Ok(request.bytes(parameter.attribute(), &[value])),
            Err(_) => Err(Error::from_errno(libc::ERANGE).at(parameter.name())),
        },
    }
}

pub(crate) fn decode<P: Parameter>(attributes: Attributes<'_>) -> Result<Readings<P>> {
    let mut readings = Readings::new();
    let mut limits = BTreeMap::new();
    for attribute in attributes {
        let attribute = attribute?;
        for &parameter in P::ALL {
            if parameter.attribute() == attribute.kind {
                let value = match parameter.kind() {
                    Kind::Number => attribute.u32()?,
                    Kind::Switch | Kind::AutoSwitch => attribute.u8()?.into(),
                };
                readings.insert(parameter, Reading { value, max: None });
            } else if parameter.max_attribute() == Some(attribute.kind) {
                limits.insert(parameter, attribute.u32()?);
            }
        }
    }
    for (parameter, reading) in &mut readings {
        reading.max = limits.get(parameter).copied();
    }
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::{channels::Channel, coalesce::Coalesce, pause::Pause, rings::Ring};
    use super::*;

    /// `ETHTOOL_A_*_HEADER`.
    const HEADER: u16 = 1;

    fn decoded<P: Parameter>(message: &Request) -> Result<Readings<P>> {
        decode(Attributes::new(message.as_bytes()))
    }

    #[test]
    fn absent_attributes_are_absent_parameters() {
        let message = Request::default().nest(HEADER, |header| header.u32(1, 7)).u32(2, 4096);
        let message = message.u32(6, 256).bytes(13, &[1]).u32(999, 1);
        let readings = decoded::<Ring>(&message).unwrap();
        let expected = [
            (Ring::Rx, Reading { value: 256, max: Some(4096) }),
            (Ring::TxPush, Reading { value: 1, max: None }),
        ];
        assert_eq!(readings, Readings::from(expected));
    }

    #[test]
    fn a_limit_without_a_value_is_no_parameter() {
        assert_eq!(decoded::<Ring>(&Request::default().u32(2, 4096)), Ok(Readings::new()));
    }

    #[test]
    fn a_cut_reply_is_malformed() {
        let message = Request::default().u32(6, 1).u32(7, 2).u32(8, 3).u32(9, 4);
        let bytes = message.as_bytes();
        for len in (1..bytes.len()).filter(|len| len % 8 != 0) {
            let error = decode::<Channel>(Attributes::new(&bytes[..len])).unwrap_err();
            assert_eq!(error.errno, libc::EBADMSG, "{len}");
        }
    }

    #[test]
    fn a_switch_takes_no_number_that_does_not_fit() {
        let error = encode(Request::default(), Ring::TxPush, 256).err().unwrap();
        assert_eq!(error.errno, libc::ERANGE);
        assert!(error.to_string().starts_with("tx-push: "), "{error}");
    }

    fn names_and_attributes_are_distinct<P: Parameter>() {
        let names: BTreeSet<_> = P::ALL.iter().map(|parameter| parameter.name()).collect();
        let attributes: BTreeSet<_> = P::ALL
            .iter()
            .flat_map(|parameter| [Some(parameter.attribute()), parameter.max_attribute()])
            .flatten()
            .collect();
        let limits = P::ALL.iter().filter(|parameter| parameter.max_attribute().is_some()).count();
        assert_eq!(names.len(), P::ALL.len());
        assert_eq!(attributes.len(), P::ALL.len() + limits);
        assert!(!attributes.contains(&HEADER));
        for &parameter in P::ALL {
            assert_eq!(P::from_name(parameter.name()), Some(parameter));
        }
    }

    #[test]
    fn tables_have_nothing_twice() {
        names_and_attributes_are_distinct::<Ring>();
        names_and_attributes_are_distinct::<Channel>();
        names_and_attributes_are_distinct::<Coalesce>();
        names_and_attributes_are_distinct::<Pause>();
    }

    #[test]
    fn commands_are_those_of_ethtool_netlink_h() {
        assert_eq!((Ring::GET, Ring::SET), (15, 16));
        assert_eq!((Channel::GET, Channel::SET), (17, 18));
        assert_eq!((Coalesce::GET, Coalesce::SET), (19, 20));
        assert_eq!((Pause::GET, Pause::SET), (21, 22));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = decode::<Ring>(Attributes::new(&bytes));
            let _ = decode::<Coalesce>(Attributes::new(&bytes));
        }

        #[test]
        fn no_attributes_make_the_decoder_panic(attributes: Vec<(u16, Vec<u8>)>) {
            let message = attributes.iter().fold(Request::default(), |message, (kind, value)| {
                message.bytes(kind % 40, value)
            });
            let _ = decoded::<Ring>(&message);
            let _ = decoded::<Channel>(&message);
            let _ = decoded::<Coalesce>(&message);
            let _ = decoded::<Pause>(&message);
        }

        #[test]
        fn a_valid_reply_survives_unknown_attributes(kind in 40_u16..4000, value: Vec<u8>) {
            let message = Request::default().bytes(kind, &value).u32(2, 8);
            let readings = decoded::<Coalesce>(&message).unwrap();
            prop_assert_eq!(readings[&Coalesce::RxUsecs].value, 8);
        }
    }
}
