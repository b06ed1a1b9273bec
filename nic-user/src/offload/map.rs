//! Maps that are what they have to be. A map is pinned by whoever may write to bpffs, and the
//! kernel reads and writes keys and values as long as the map says: so it is looked at first, and
//! all that needs to know how long they are takes only what was found good.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use aya::maps::MapData;
use nic_common::{record::AttachRecord, steer::Rules};

use super::{
    layout::{Counted, Format, to_bytes},
    pinned::aya_error,
    slot,
    sys::{self, Command, Object},
};
use crate::error::{Error, Result};

/// A packet says in 16 bits which queue it came from (`skb->queue_mapping`), so no interface has
/// more.
pub const MAX_QUEUES: u32 = 1 << 16;
/// No release has counters or a record that are longer: ours have 624 bytes.
const MAX_VALUE: u32 = 4096;
/// The ring of the log, in pages of 4 KiB and bytes: aya-log's has 128 KiB.
const LOG_BYTES: std::ops::RangeInclusive<u32> = 4096..=1 << 24;

/// Values of one batch: keeps memory small on machines with many queues and CPUs.
const BATCH: usize = 16;

/// `enum bpf_map_type` (linux/bpf.h)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapType {
    /// One value for all.
    Array = 2,
    /// A value for each CPU.
    PerCpuArray = 6,
    /// AF_XDP sockets.
    XskMap = 17,
    /// A ring that programs write to.
    RingBuf = 27,
}

/// What a map has to be.
#[derive(Clone, Debug)]
pub struct Spec {
    map_type: MapType,
    key_size: u32,
    value_size: std::ops::RangeInclusive<u32>,
    max_entries: std::ops::RangeInclusive<u32>,
}

impl Spec {
    const fn array(map_type: MapType, value_size: usize, max_entries: u32) -> Self {
        let value_size = value_size as u32;
        let (value_size, max_entries) = (value_size..=value_size, 1..=max_entries);
        Self { map_type, key_size: 4, value_size, max_entries }
    }

    /// Counters of any release.
    pub const COUNTERS: Self =
        Self { value_size: 8..=MAX_VALUE, ..Self::array(MapType::PerCpuArray, 8, MAX_QUEUES) };

    /// The record of any release.
    pub const RECORD: Self =
        Self { value_size: 8..=MAX_VALUE, ..Self::array(MapType::Array, 8, 1) };

    /// What is pinned under this name.
    pub fn of(pin: &str) -> Self {
        match pin {
            slot::RECORD => Self::RECORD,
            slot::POLICY => Self::array(MapType::Array, size_of::<u64>(), 1),
            slot::STEER => Self::array(MapType::Array, size_of::<Rules>(), MAX_QUEUES),
            slot::SOCKETS => Self::array(MapType::XskMap, size_of::<u32>(), MAX_QUEUES),
            slot::LOG => Self {
                map_type: MapType::RingBuf,
                key_size: 0,
                value_size: 0..=0,
                max_entries: LOG_BYTES,
            },
            _ => Self::COUNTERS,
        }
    }

    /// What of a map is not as it has to be.
    fn mismatch(&self, info: &Info) -> Option<String> {
        let numbers = [
            ("type", info.map_type, self.map_type as u32..=self.map_type as u32),
            ("key size", info.key_size, self.key_size..=self.key_size),
            ("value size", info.value_size, self.value_size.clone()),
            ("number of entries", info.max_entries, self.max_entries.clone()),
            ("flags", info.map_flags, 0..=0),
        ];
        let wrong = numbers.into_iter().find(|(_, is, must_be)| !must_be.contains(is));
        wrong.map(|(what, is, must_be)| {
            let (from, to) = must_be.into_inner();
            let range = if from == to { from.to_string() } else { format!("{from} to {to}") };
            format!("a map with {what} {is}, not {range}")
        })
    }
}

/// What the kernel knows of a map: `struct bpf_map_info` up to the types of its values.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    map_type: u32,
    /// Its id.
    pub id: u32,
    key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Entries.
    pub max_entries: u32,
    map_flags: u32,
    _name: [u32; 4],
    _device: [u32; 6],
    /// Id of its types; 0 if it has none.
    pub btf_id: u32,
    _btf_key_type_id: u32,
    /// The type of its values.
    pub btf_value_type_id: u32,
    _hole: u32,
}

/// The id of a map of any kind; `None` if it is no map.
pub fn id_of(fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let is_map = Object::of(fd)? == Object::Map;
    is_map.then(|| info(fd)).transpose().map(|info| info.map(|info| info.id))
}

/// What the kernel knows of `fd`, which is a map.
fn info(fd: BorrowedFd<'_>) -> io::Result<Info> {
    let mut info = Info::default();
    // SAFETY: there is no pointer in it.
    unsafe { sys::info(fd, &mut info) }.map(|()| info)
}

/// A map that is what it has to be. Made only by looking.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    info: Info,
}

impl Map {
    /// Looks at a descriptor.
    ///
    /// # Errors
    ///
    /// It is no map, or another one.
    pub fn new(fd: OwnedFd, spec: &Spec) -> Result<Self> {
        let look = "look at it";
        match Object::of(fd.as_fd()).map_err(|error| Error::io(look, &error))? {
            Object::Map => {}
            other => return Err(Error::failed(format!("it is {}, not a map", other.name()))),
        }
        let info = info(fd.as_fd()).map_err(|error| Error::io(look, &error))?;
        match spec.mismatch(&info) {
            None => Ok(Self { fd, info }),
            Some(wrong) => Err(Error::failed(format!("it is {wrong}"))),
        }
    }

    /// Whether the kernel knows the types of its values, as it does of all counters of ours.
    pub const fn has_types(&self) -> bool {
        self.info.btf_id != 0
    }

    /// As aya has it.
    pub fn into_aya(self) -> Result<MapData> {
        MapData::from_fd(self.fd).map_err(|error| aya_error("open it", &error))
    }

    /// Its only value.
    fn value(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0_u8; self.info.value_size as usize];
        let key = 0_u32;
        let mut attr = Element::of(&self.fd, &key, bytes.as_mut_ptr() as u64);
        // SAFETY: an array has keys of four bytes, and there is room for a value.
        unsafe { sys::bpf(Command::MapLookup, &mut attr) }?;
        Ok(bytes)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The part of `union bpf_attr` for one element of a map.
#[repr(C)]
struct Element {
    map_fd: u32,
    _hole: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Element {
    fn of(map: &OwnedFd, key: &u32, value: u64) -> Self {
        let key = &raw const *key as u64;
        Self { map_fd: map.as_raw_fd() as u32, _hole: 0, key, value, flags: 0 }
    }
}

/// The record of an attachment.
#[derive(Debug)]
pub struct RecordMap(Map);

impl RecordMap {
    /// In a map that was opened as [`Spec::RECORD`].
    pub fn new(fd: OwnedFd) -> Result<Self> {
        Map::new(fd, &Spec::RECORD).map(Self)
    }

    /// The record, and whether its layout is ours.
    pub fn read(&self) -> Result<(AttachRecord, bool)> {
        let bytes = self.0.value().map_err(|error| Error::io("read it", &error))?;
        let layout = bytes.first_chunk().map(|word| u64::from_ne_bytes(*word));
        let is_ours =
            layout == Some(AttachRecord::LAYOUT) && bytes.len() == size_of::<AttachRecord>();
        let record = Format::of::<AttachRecord>(&self.0.info, is_ours)?.value(&bytes);
        let record = record.ok_or_else(|| Error::failed("its layout is not understood"))?;
        Ok((record, is_ours))
    }

    /// Makes it this record; only where its layout is ours.
    pub fn write(&self, record: &AttachRecord) -> Result<()> {
        if self.0.info.value_size as usize != size_of::<AttachRecord>() {
            return Err(Error::failed("write the record: it is not as long"));
        }
        let key = 0_u32;
        let mut attr = Element::of(&self.0.fd, &key, to_bytes(record).as_ptr() as u64);
        // SAFETY: an array has keys of four bytes, and the record is as long as its value.
        unsafe { sys::bpf(Command::MapUpdate, &mut attr) }
            .map(drop)
            .map_err(|error| Error::io("write the record", &error))
    }
}

/// Counters by queue, a value for each CPU.
#[derive(Debug)]
pub struct CounterMap<C> {
    map: Map,
    format: Format,
    cpus: usize,
    counters: PhantomData<C>,
}

impl<C: Counted> CounterMap<C> {
    /// In a map of which is known whether its layout is ours; if not, the kernel is asked.
    pub fn new(fd: OwnedFd, is_ours: bool) -> Result<Self> {
        const { assert!(size_of::<C>().is_multiple_of(8), "the kernel rounds up to 8 bytes") };
        let map = Map::new(fd, &Spec::COUNTERS)?;
        let is_ours = is_ours && map.info.value_size as usize == size_of::<C>();
        let format = Format::of::<C>(&map.info, is_ours)?;
        let cpus = aya::util::nr_cpus().map_err(|(what, error)| Error::io(what, &error))?;
        Ok(Self { map, format, cpus, counters: PhantomData })
    }

    /// In a map that this process has made.
    pub fn made(map: &MapData) -> Result<Self> {
        let fd = map.fd().as_fd().try_clone_to_owned();
        Self::new(fd.map_err(|error| Error::io("copy a descriptor", &error))?, true)
    }

    /// Its id.
    pub const fn id(&self) -> u32 {
        self.map.info.id
    }

    /// Whether its layout is ours.
    pub const fn is_ours(&self) -> bool {
        matches!(self.format, Format::Ours)
    }

    /// Bytes of a value as the kernel copies it.
    const fn stride(&self) -> usize {
        (self.map.info.value_size as usize).next_multiple_of(8)
    }

    /// The values of all queues, each summed over CPUs, in few calls.
    pub fn read(&self) -> io::Result<Vec<C>> {
        #[repr(C)]
        struct Attr {
            in_batch: u64,
            out_batch: u64,
            keys: u64,
            values: u64,
            count: u32,
            map_fd: u32,
            elem_flags: u64,
            flags: u64,
        }
        let entries = self.map.info.max_entries as usize;
        let per_queue = self.stride() * self.cpus;
        let mut sums = Vec::with_capacity(entries);
        let mut keys = [0_u32; BATCH];
        let mut values = vec![0_u8; BATCH.min(entries) * per_queue];
        let mut position = 0_u32;
        while sums.len() < entries {
            let wanted = BATCH.min(entries - sums.len());
            let mut attr = Attr {
                in_batch: if sums.is_empty() { 0 } else { &raw const position as u64 },
                out_batch: &raw mut position as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: wanted as u32,
                map_fd: self.map.fd.as_raw_fd() as u32,
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: keys have four bytes, a value has `stride` bytes for each CPU that the
            // machine can have, and there is room for `count` of either, which is the most that
            // the kernel writes.
            match unsafe { sys::bpf(Command::MapLookupBatch, &mut attr) } {
                Ok(_) => {}
                // The last batch, whole or not.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) && attr.count > 0 => {}
                Err(error) => return Err(error),
            }
            let got = (attr.count as usize).min(wanted);
            if got == 0 {
                return Err(io::Error::from_raw_os_error(libc::ENOENT));
            }
            sums.extend(values.chunks_exact(per_queue).take(got).map(|queue| self.sum(queue)));
        }
        Ok(sums)
    }

    fn sum(&self, queue: &[u8]) -> C {
        let size = self.map.info.value_size as usize;
        let values = queue.chunks_exact(self.stride()).filter_map(|value| value.get(..size));
        let mut sum = C::ZERO;
        values.filter_map(|value| self.format.value(value)).for_each(|value| sum.add(&value));
        sum
    }

    /// Makes these its values, where its layout is ours; those of queues that it does not have are
    /// added to the last. Only while no program counts in it.
    pub fn write(&self, values: &[C]) -> Result<()> {
        let last = self.map.info.max_entries as usize - 1;
        let mut queues = vec![C::ZERO; values.len().min(last + 1)];
        for (queue, value) in values.iter().enumerate() {
            if let Some(there) = queues.get_mut(queue.min(last)) {
                there.add(value);
            }
        }
        for (queue, value) in (0_u32..).zip(&queues) {
            self.write_one(queue, value)
                .map_err(|error| Error::io("carry the counters over", &error))?;
        }
        Ok(())
    }

    /// The first CPU gets it all.
    fn write_one(&self, queue: u32, value: &C) -> io::Result<()> {
        let mut bytes = vec![0_u8; self.stride() * self.cpus];
        if !self.is_ours() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        bytes.iter_mut().zip(to_bytes(value)).for_each(|(to, from)| *to = *from);
        let mut attr = Element::of(&self.map.fd, &queue, bytes.as_ptr() as u64);
        // SAFETY: keys have four bytes, and there are `stride` bytes for each CPU.
        unsafe { sys::bpf(Command::MapUpdate, &mut attr) }.map(drop)
    }
}

impl<C> AsFd for CounterMap<C> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
