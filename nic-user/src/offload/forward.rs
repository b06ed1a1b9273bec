//! The programs that forward between two interfaces in the kernel. Nothing is pinned: they go with
//! the process.

use aya::{
    maps::{Array, DevMapHash, Map, MapData},
    programs::{Xdp, XdpMode as AyaMode},
};
use nic_common::{counters::ForwardCounters, forward::Gate};

use super::{
    btf::Btf,
    lock::Lock,
    map::CounterMap,
    object::{FORWARD_FRAMES, FORWARD_PACKETS, Object},
    pinned, privilege, rings,
    slot::Slot,
};
use crate::{
    command_line::CommandLine,
    error::{Error, Kind, Result},
    netlink::link::{Links, XdpMode},
    nic::{Nic, namespace, preflight},
};

/// The programs, attached to both interfaces.
pub struct ForwardPrograms {
    object: Object,
    ends: [End; 2],
    /// Whether drivers' refusals are counted.
    counts_not_taken: bool,
}

#[derive(Clone)]
struct End {
    name: String,
    ifindex: u32,
    mode: XdpMode,
}

impl ForwardPrograms {
    /// Attaches to two interfaces of the present network namespace: natively where the driver can,
    /// else generically. With `route`, IP packets go where the kernel's routes lead, among these
    /// two; else every frame to the other one.
    pub fn attach(nics: [&Nic; 2], route: bool) -> Result<Self> {
        let action = format!("forward between {} and {}", nics[0].name(), nics[1].name());
        privilege::check(&action)?;
        let _lock = Lock::take(|_| {})?;
        Self::attach_locked(nics, route).map_err(|error| error.while_doing(action))
    }

    fn attach_locked(nics: [&Nic; 2], route: bool) -> Result<Self> {
        let [first, second] = nics.map(Nic::ifindex);
        nics.into_iter().try_for_each(refuse_if_taken)?;
        let device = Btf::kernel().and_then(|btf| btf.device_layout());
        let netns_cookie = namespace::current_cookie()?;
        let layout = device.clone().unwrap_or_default();
        let mut object = Object::load_to_forward([first, second], netns_cookie, &layout)?;
        let ways = if route {
            [(first, first), (second, second)]
        } else {
            [(first, second), (second, first)]
        };
        object.with_map("NIC_PORTS", |map| {
            let mut ports: DevMapHash<&mut MapData> = map.try_into()?;
            ways.into_iter().try_for_each(|(key, to)| ports.insert(key, to, None, 0))
        })?;
        // Before the first frame.
        let counts_not_taken = device.is_ok() && object.count_not_taken().is_ok();
        let program = object.forward(if route { FORWARD_PACKETS } else { FORWARD_FRAMES })?;
        let end = |nic: &Nic, program: &mut Xdp| -> Result<End> {
            let mode = attach(program, nic)?;
            Ok(End { name: nic.name().to_owned(), ifindex: nic.ifindex(), mode })
        };
        let ends = [end(nics[0], program)?, end(nics[1], program)?];
        Ok(Self { object, ends, counts_not_taken })
    }

    /// From now on those packets are routed; before the first call, none.
    pub fn open_gates(&mut self, gates: [Gate; 2]) -> Result<()> {
        self.object.with_map("NIC_GATES", |map| {
            let mut map: Array<&mut MapData, Gate> = map.try_into()?;
            (0..).zip(gates).try_for_each(|(index, gate)| map.set(index, gate, 0))?;
            Ok(())
        })
    }

    /// How XDP runs at either interface.
    pub fn modes(&self) -> [XdpMode; 2] {
        self.ends.each_ref().map(|end| end.mode)
    }

    /// Whether it is known how many of the frames that arrive at this interface the other one did
    /// not take. The kernel tells it of native XDP only, and where it may be traced.
    pub fn counts_not_taken(&self, from: usize) -> bool {
        self.counts_not_taken && self.ends[from].mode == XdpMode::Native
    }

    /// Fails if an interface is gone.
    pub fn check(&self) -> Result<()> {
        let mut links = Links::open().map_err(|error| error.while_doing("look for interfaces"))?;
        for End { name, ifindex, .. } in &self.ends {
            if let Err(error) = links.by_index(*ifindex)
                && error.errno == libc::ENODEV
            {
                return Err(Error::not_found(format!("{name} is gone")));
            }
        }
        Ok(())
    }

    /// What was counted of what arrived at either.
    pub fn counters(&self) -> Result<[ForwardCounters; 2]> {
        let action = "read counters";
        let Some(Map::PerCpuArray(map)) = self.object.map("NIC_FORWARD") else {
            return Err(Error::failed("the BPF object has no counters of forwarding"));
        };
        let counters = CounterMap::made(map)?.read().map_err(|error| Error::io(action, &error))?;
        <[ForwardCounters; 2]>::try_from(counters)
            .map_err(|_| Error::failed(format!("{action}: some are missing")))
    }
}

fn refuse_if_taken(nic: &Nic) -> Result<()> {
    rings::refuse_if_used(nic.name(), &Slot::of(&nic.link)?)?;
    let Some(program) = nic.xdp().first() else { return Ok(()) };
    let (name, id) = (nic.name(), program.prog_id);
    Err(Error::failed(format!("{name} has an XDP program already (id {id})")).with_fix(format!(
        "if it is nicctl's: {}; or forward through rings, without --in-kernel",
        CommandLine::nicctl("detach").on(name).quoted()
    )))
}

fn attach(program: &mut Xdp, nic: &Nic) -> Result<XdpMode> {
    let native = match preflight::xdp_findings(nic, XdpMode::Native).iter().find(|it| it.blocks) {
        Some(blocking) => Err(Error::failed(&blocking.what)),
        None => attach_as(program, nic, AyaMode::Driver),
    };
    match native {
        Ok(()) => Ok(XdpMode::Native),
        Err(error) if error.kind() == Kind::NotPermitted => Err(error),
        Err(_) => attach_as(program, nic, AyaMode::Skb).map(|()| XdpMode::Generic),
    }
}

fn attach_as(program: &mut Xdp, nic: &Nic, mode: AyaMode) -> Result<()> {
    let attached = program.attach_to_if_index(nic.ifindex(), mode);
    attached
        .map(drop)
        .map_err(|error| pinned::aya_error(&format!("attach to {}", nic.name()), &error))
}
