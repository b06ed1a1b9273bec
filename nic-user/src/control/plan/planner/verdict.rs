//! What becomes of one wish.

use std::fmt;

use super::Planner;
use crate::{
    command_line::CommandLine,
    control::{
        names,
        plan::{
            Xdp,
            compare::{DEFAULT, can_be_default, is_now},
        },
        rules::{self, State},
        wanted::{Origin, Request, Wanted},
    },
    error::Kind,
    nic::{
        cpus::{self, Choice, Notation},
        setting::{Access, Group, Key, Setting, Value},
    },
};

/// Why a wish cannot come true.
pub(super) struct Refusal {
    pub kind: Kind,
    pub what: String,
    pub fix: Option<String>,
}

impl Refusal {
    pub fn new(kind: Kind, what: impl fmt::Display) -> Self {
        Self { kind, what: what.to_string(), fix: None }
    }

    pub fn with_fix(mut self, fix: impl fmt::Display) -> Self {
        self.fix = Some(fix.to_string());
        self
    }
}

/// What becomes of one wish.
pub(super) enum Verdict {
    /// It becomes this; `asked` is how that was said.
    Value { to: Value, asked: Option<String> },
    /// It stays as it is, wished or not.
    Keep,
    /// It is left out, and that is told.
    Skip(String),
    /// It cannot be.
    Refuse(Refusal),
}

impl Planner<'_> {
    pub(super) fn decide(&self, key: &Key, request: &Request) -> Verdict {
        if request.wanted == Wanted::Keep {
            return Verdict::Keep;
        }
        let Some(setting) = self.current.get(key) else {
            return self.absent(key, request);
        };
        match self.value(key, setting, request) {
            Ok((to, asked)) => match self.obstacle(key, setting, &to) {
                Some(refusal) => Verdict::Refuse(refusal),
                None => Verdict::Value { to, asked },
            },
            Err(refusal) => Verdict::Refuse(refusal),
        }
    }

    /// What becomes of a wish for a setting that the device does not have.
    fn absent(&self, key: &Key, request: &Request) -> Verdict {
        let names = self.current.keys().filter(|known| known.group == key.group);
        let names: Vec<&str> = names.map(|known| known.name.as_str()).collect();
        if key.group == Group::Feature && !names::is_possible(key) {
            let what = format!("{} has no feature {:?}", self.name(), key.name);
            let refusal = Refusal::new(Kind::Usage, what);
            return Verdict::Refuse(match names::suggestion(key.group, &key.name, names) {
                Some(nearest) => refusal.with_fix(format_args!("did you mean {nearest}?")),
                None => refusal.with_fix(format_args!(
                    "{} lists the features",
                    self.show(Group::Feature).quoted()
                )),
            });
        }
        if matches!(request.origin, Origin::Profile { .. }) {
            return Verdict::Skip(format!("{} has no {key}", self.name()));
        }
        let refusal = Refusal::new(Kind::Failed, format_args!("{} has no {key}", self.name()));
        let nearest = names::suggestion(key.group, &key.name, names.iter().copied())
            .filter(|nearest| names.contains(nearest));
        Verdict::Refuse(match nearest {
            Some(nearest) => {
                refusal.with_fix(format_args!("did you mean {}.{nearest}?", key.group))
            }
            None if names.is_empty() => refusal.with_fix(format_args!(
                "omit it: the driver has no settings in group {}",
                key.group
            )),
            None => refusal.with_fix(format_args!("it has: {}", names.join(", "))),
        })
    }

    /// The value that a wish means on this device.
    fn value(
        &self,
        key: &Key,
        setting: &Setting,
        request: &Request,
    ) -> Result<(Value, Option<String>), Refusal> {
        let unknown = |limit| {
            Refusal::new(Kind::Failed, format_args!("the {limit} of {key} is unknown"))
                .with_fix("give a number")
        };
        let asked = request.wanted.to_string();
        match &request.wanted {
            Wanted::Keep => Ok((setting.value.clone(), None)),
            Wanted::Max => {
                let max = self.max(key, setting).ok_or_else(|| unknown("maximum"))?;
                Ok((Value::Number(max), Some(asked)))
            }
            Wanted::Min => {
                Ok((Value::Number(setting.min.ok_or_else(|| unknown("minimum"))?), Some(asked)))
            }
            Wanted::Percent(percent) => {
                let max = self.max(key, setting).ok_or_else(|| unknown("maximum"))?;
                let part = u128::from(max) * u128::from(*percent) / 100;
                let part = u64::try_from(part).unwrap_or(max);
                let least = least(key, setting);
                if part >= least || request.origin.is_best_effort() {
                    return Ok((Value::Number(part.max(least)), Some(asked)));
                }
                let percent = (u128::from(least) * 100).div_ceil(u128::from(max.max(1)));
                let what = format!("{key} {asked} is {part} of {max}: the minimum is {least}");
                Err(Refusal::new(Kind::Usage, what)
                    .with_fix(format_args!("{key}={percent}%, or {key}={least}")))
            }
            Wanted::Value(value) if is_now(key, setting, value) => {
                Ok((setting.value.clone(), None))
            }
            Wanted::Value(value) if cpus::notation(key.group).is_some() => {
                self.cpus(key, setting, value).map(|value| (value, None))
            }
            Wanted::Value(value) => {
                let value = fit(key, value, setting)?;
                self.within_limits(key, setting, value, request)
            }
        }
    }

    /// The CPUs that are meant, as the kernel writes them.
    fn cpus(&self, key: &Key, setting: &Setting, value: &Value) -> Result<Value, Refusal> {
        let text = value.to_string();
        let refusal = |what| Refusal::new(Kind::Usage, what);
        let notation = cpus::notation(key.group).unwrap_or(Notation::List);
        let online = self.context.around.cpus.as_ref();
        let set = match (Choice::parse(&text, notation), online) {
            (Some(Choice::Of(set)), Some(online)) if !set.is_within(online) => {
                let what = format!("{key} is CPUs {set}, but the machine has CPUs {online} online");
                return Err(refusal(what).with_fix(format_args!("{key}={online}, or {key}=all")));
            }
            (Some(Choice::Of(set)), _) => set,
            (Some(Choice::All), Some(online)) => online.clone(),
            (Some(Choice::All), None) => {
                return Err(refusal(format!("{key}: the online CPUs are unknown"))
                    .with_fix("name them: 0-3"));
            }
            (None, _) => return Err(refusal(format!("{key} takes CPUs, not {text:?}"))),
        };
        match key.group {
            Group::Irq if set.is_empty() => Err(refusal(format!("{key} needs at least one CPU"))
                .with_fix(format_args!("{key}=all"))),
            Group::Irq => Ok(set.to_string().into()),
            _ => Ok(set.mask_like(&setting.value.to_string()).into()),
        }
    }

    /// The most that the device takes, with the XDP program that is there or will be.
    fn max(&self, key: &Key, setting: &Setting) -> Option<u64> {
        let limit = self.limit_of_xdp(key).unwrap_or(u64::MAX);
        setting.max.map(|max| max.min(limit))
    }

    fn limit_of_xdp(&self, key: &Key) -> Option<u64> {
        self.context.limits.iter().find(|(of, _)| of == key).map(|(_, limit)| *limit)
    }

    fn within_limits(
        &self,
        key: &Key,
        setting: &Setting,
        value: Value,
        request: &Request,
    ) -> Result<(Value, Option<String>), Refusal> {
        let Value::Number(number) = value else { return Ok((value, None)) };
        let name = self.name();
        match (setting.min, setting.max) {
            (_, Some(max)) if number > max && request.origin.is_best_effort() => {
                Ok((Value::Number(max), Some(format!("{number}, limited to {max} by {name}"))))
            }
            (_, Some(max)) if number > max => Err(Refusal::new(
                Kind::Usage,
                format_args!("{key} {number} exceeds the maximum of {name}, {max}"),
            )
            .with_fix(format_args!("{key}={max}, or {key}=max"))),
            (Some(min), _) if number < min => Err(Refusal::new(
                Kind::Usage,
                format_args!("{key} {number} is below the minimum of {name}, {min}"),
            )
            .with_fix(format_args!("{key}={min}, or {key}=min"))),
            _ => self.within_limit_of_xdp(key, number, request),
        }
    }

    fn within_limit_of_xdp(
        &self,
        key: &Key,
        number: u64,
        request: &Request,
    ) -> Result<(Value, Option<String>), Refusal> {
        match self.limit_of_xdp(key).filter(|limit| number > *limit) {
            None => Ok((Value::Number(number), None)),
            Some(limit) if request.origin.is_best_effort() => {
                let asked = format!("{number}, limited to {limit} by native XDP");
                Ok((Value::Number(limit), Some(asked)))
            }
            Some(limit) => Err(Refusal::new(
                Kind::Failed,
                format_args!("{key} {number} exceeds the maximum for native XDP, {limit}"),
            )
            .with_fix(format_args!("{key}={limit}, or attach with --mode generic"))),
        }
    }

    /// What keeps a setting from becoming `to`, apart from the value itself.
    fn obstacle(&self, key: &Key, setting: &Setting, to: &Value) -> Option<Refusal> {
        if is_now(key, setting, to) {
            return None;
        }
        match &setting.access {
            Access::ReadWrite => self.xdp_obstacle(key, to),
            Access::ReadOnly => Some(
                Refusal::new(Kind::Failed, format_args!("{key} is read-only")).with_fix("omit it"),
            ),
            Access::Fixed { by } => {
                let what = format!("{key} is fixed by the {by}: it is {}", setting.value);
                let refusal = Refusal::new(Kind::Failed, what);
                Some(match by.as_str() {
                    "host" => refusal.with_fix("omit it, or change it on the host"),
                    "module parameter" => {
                        refusal.with_fix("omit it, or load the driver with another value")
                    }
                    _ => refusal.with_fix("omit it"),
                })
            }
        }
    }

    fn xdp_obstacle(&self, key: &Key, to: &Value) -> Option<Refusal> {
        if self.context.xdp == Xdp::None || !State::On.is(to) {
            return None;
        }
        if rules::is_off_with_xdp(key) {
            let what = format!("XDP does not work with {key} on");
            return Some(Refusal::new(Kind::Failed, what).with_fix(format_args!(
                "keep it off, or detach first: {}",
                CommandLine::nicctl("detach").on(self.name()).quoted()
            )));
        }
        // net/ethtool/rings.c ethnl_set_rings, net/core/dev.c dev_xdp_install.
        let splits = key.group == Group::Ring && key.name == names::TCP_DATA_SPLIT;
        (splits && self.context.xdp == Xdp::SingleBuffer).then(|| {
            let what = format!("{key} cannot be on with a single-buffer XDP program");
            Refusal::new(Kind::Failed, what)
                .with_fix("omit it, or detach and attach with it if the driver supports frags")
        })
    }
}

/// The least that a setting can be: one queue and one descriptor, where the device does not say.
fn least(key: &Key, setting: &Setting) -> u64 {
    let at_least_one = match key.group {
        Group::Channels => key.name != "other",
        Group::Ring => matches!(key.name.as_str(), "rx" | "tx"),
        _ => false,
    };
    setting.min.unwrap_or_else(|| at_least_one.into())
}

/// The value as the device has it: what is text there may be written as a number or a switch.
fn fit(key: &Key, value: &Value, setting: &Setting) -> Result<Value, Refusal> {
    match (value, &setting.value) {
        (Value::Text(text), Value::Text(_)) if text == DEFAULT && !can_be_default(key) => {
            Ok(setting.default.clone().unwrap_or_else(|| value.clone()))
        }
        // `threaded` is on, off or busy-poll.
        (Value::Text(_), Value::Switch(_)) if key.group == Group::Napi => Ok(value.clone()),
        (Value::Number(_), Value::Number(_))
        | (Value::Switch(_), Value::Switch(_))
        | (Value::Text(_), Value::Text(_)) => Ok(value.clone()),
        (_, Value::Text(_)) => Ok(Value::Text(value.to_string())),
        (_, Value::Number(_)) => {
            Err(Refusal::new(Kind::Usage, format_args!("{key} takes a number, not {value}")))
        }
        (_, Value::Switch(_)) => {
            Err(Refusal::new(Kind::Usage, format_args!("{key} takes on or off, not {value}")))
        }
    }
}
