//! Two USB network adapters with a cable between them, for the kernel's own r8152 driver: a model
//! of what the driver sees of an RTL8153, behind the kernel's USB/IP controller.

mod registers;
mod usbip;

use std::{
    collections::VecDeque,
    fs, io,
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::{Context, Result};
use nic_user::nic::{Nic, setting::Group, settings};

use self::{
    registers::{Registers, Space},
    usbip::{Request, Setup, Transfer},
};
use crate::card;

pub const DRIVER: &str = "r8152";

/// What real ones do and this one does not: it sends frames as they are.
const NOT_MODELLED: [&str; 2] = ["tx-tcp-segmentation", "tx-tcp6-segmentation"];

const CONTROLLER: &str = "/sys/devices/platform/vhci_hcd.0/attach";
const HIGH_SPEED: u32 = 3;
/// Of its own bus, which the controller does not care for.
const BUS_AND_DEVICE: u32 = 1 << 16 | 2;

/// Endpoints.
const CONTROL: u32 = 0;
const BULK_IN: u32 = 1;
const BULK_OUT: u32 = 2;
const INTERRUPT: u32 = 3;

/// Descriptors (USB 2.0, 9.6): Realtek's RTL8153, with one interface of three endpoints.
const DEVICE: [u8; 18] = [18, 1, 0x10, 2, 0, 0, 0, 64, 0xda, 0x0b, 0x53, 0x81, 0, 0x30, 0, 0, 0, 1];
const CONFIGURATION: [u8; 39] = [
    9, 2, 39, 0, 1, 1, 0, 0xa0, 50, 9, 4, 0, 0, 3, 0xff, 0xff, 0, 0, 7, 5, 0x81, 2, 0, 2, 0, 7, 5,
    0x02, 2, 0, 2, 0, 7, 5, 0x83, 3, 2, 0, 8,
];
const OF_DEVICE: u8 = 1;
const OF_CONFIGURATION: u8 = 2;

/// Control requests: those that every device has, and those of the vendor.
const GET_DESCRIPTOR: (u8, u8) = (0x80, 6);
const GET_CONFIGURATION: (u8, u8) = (0x80, 8);
const READ_REGISTERS: (u8, u8) = (0xc0, 5);
const WRITE_REGISTERS: (u8, u8) = (0x40, 5);
const TO_HOST: u8 = 0x80;

/// What an interrupt says: `INTR_LINK`, the link is up.
const LINK_IS_UP: [u8; 2] = [4, 0];

/// In front of received and of sent frames: `struct rx_desc`, `struct tx_desc`; and what the next
/// one is aligned to.
const RX_DESCRIPTOR: usize = 24;
const RX_ALIGN: usize = 8;
const TX_DESCRIPTOR: usize = 8;
const TX_ALIGN: usize = 4;
const TX_LEN: u32 = 0x3_ffff;
/// `RD_IPV4_CS`, `RD_TCP_CS`, `RD_UDP_CS`: checksums were looked at, and are right.
const CHECKED: u32 = 1 << 19 | 1 << 22 | 1 << 23;
const SHORTEST_FRAME: usize = 60;
const FRAME_CHECK: usize = 4;

/// Plugs both adapters in, and waits for what the driver makes of them.
pub fn make() -> Result<[u32; 2]> {
    let (a_bus, a) = Adapter::attach(0)?;
    let (b_bus, b) = Adapter::attach(1)?;
    for (bus, adapter, other) in [(a_bus, a.clone(), b.clone()), (b_bus, b, a)] {
        thread::spawn(move || serve(bus, &adapter, &other));
    }
    let cards = card::pair(DRIVER)?;
    for card in cards {
        let nic = Nic::by_index(card)?;
        settings::write(
            &nic,
            Group::Feature,
            &NOT_MODELLED.map(|name| (name.into(), false.into())),
        )?;
    }
    Ok(cards)
}

/// One end of the cable.
struct Adapter {
    bus: UnixStream,
    registers: Registers,
    /// Transfers that wait for frames: number and room of each.
    waiting: VecDeque<(u32, usize)>,
    /// Frames that wait for transfers.
    frames: VecDeque<Vec<u8>>,
    /// The transfer that waits for an interrupt.
    interrupt: Option<u32>,
    link_told: bool,
}

/// Until the controller hangs up.
fn serve(mut bus: UnixStream, adapter: &Mutex<Adapter>, other: &Mutex<Adapter>) -> io::Result<()> {
    loop {
        match usbip::receive(&mut bus)? {
            Request::Unlink { number, transfer } => locked(adapter).unlink(number, transfer)?,
            Request::Submit(transfer) if transfer.endpoint == BULK_OUT => {
                usbip::taken(&mut locked(adapter).bus, &transfer)?;
                let mut other = locked(other);
                other.frames.extend(sent_frames(&transfer.data));
                other.deliver()?;
            }
            Request::Submit(transfer) => locked(adapter).submit(&transfer)?,
        }
    }
}

fn locked(adapter: &Mutex<Adapter>) -> MutexGuard<'_, Adapter> {
    adapter.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Adapter {
    /// Gives the controller one end of a socket, and returns the other.
    fn attach(port: u8) -> Result<(UnixStream, Arc<Mutex<Self>>)> {
        let (ours, theirs) = UnixStream::pair()?;
        let socket = theirs.as_raw_fd();
        fs::write(CONTROLLER, format!("{port} {socket} {BUS_AND_DEVICE} {HIGH_SPEED}"))
            .context("attach a device to the USB/IP controller")?;
        let adapter = Self {
            bus: ours.try_clone()?,
            registers: Registers::new([0, 0xe0, 0x4c, 0, 0, port]),
            waiting: VecDeque::new(),
            frames: VecDeque::new(),
            interrupt: None,
            link_told: false,
        };
        Ok((ours, Arc::new(Mutex::new(adapter))))
    }

    fn submit(&mut self, transfer: &Transfer) -> io::Result<()> {
        match transfer.endpoint {
            CONTROL => self.control(transfer),
            BULK_IN => {
                self.waiting.push_back((transfer.number, transfer.room));
                self.deliver()
            }
            INTERRUPT if self.link_told => {
                self.interrupt = Some(transfer.number);
                Ok(())
            }
            INTERRUPT => {
                self.link_told = true;
                usbip::answer(&mut self.bus, transfer.number, &LINK_IS_UP)
            }
            _ => usbip::refuse(&mut self.bus, transfer.number),
        }
    }

    fn control(&mut self, transfer: &Transfer) -> io::Result<()> {
        let Setup { kind, request, value, index } = transfer.setup;
        let answer = match (kind, request) {
            READ_REGISTERS => {
                let bytes = (0..transfer.room as u16).map(|offset| value.wrapping_add(offset));
                bytes.map(|address| self.registers.read(Space::of(index), address)).collect()
            }
            WRITE_REGISTERS => {
                self.registers.write(Space::of(index), value, &transfer.data, index as u8);
                return usbip::taken(&mut self.bus, transfer);
            }
            GET_DESCRIPTOR => match (value >> 8) as u8 {
                OF_DEVICE => DEVICE.to_vec(),
                OF_CONFIGURATION => CONFIGURATION.to_vec(),
                _ => return usbip::refuse(&mut self.bus, transfer.number),
            },
            GET_CONFIGURATION => vec![1],
            _ if kind & TO_HOST != 0 => vec![0; transfer.room],
            _ => return usbip::taken(&mut self.bus, transfer),
        };
        let len = answer.len().min(transfer.room);
        usbip::answer(&mut self.bus, transfer.number, &answer[..len])
    }

    fn unlink(&mut self, number: u32, transfer: u32) -> io::Result<()> {
        let waiting = self.waiting.len();
        self.waiting.retain(|(waiting, _)| *waiting != transfer);
        let was_interrupt = self.interrupt == Some(transfer);
        if was_interrupt {
            // Whoever listens next wants to know.
            (self.interrupt, self.link_told) = (None, false);
        }
        usbip::unlinked(&mut self.bus, number, was_interrupt || self.waiting.len() < waiting)
    }

    /// Hands over frames, as many to a transfer as it has room for.
    fn deliver(&mut self) -> io::Result<()> {
        while !self.frames.is_empty()
            && let Some((number, room)) = self.waiting.pop_front()
        {
            let mut data = Vec::with_capacity(room);
            while let Some(frame) = self.frames.front() {
                let start = data.len().next_multiple_of(RX_ALIGN);
                let padded = frame.len().max(SHORTEST_FRAME);
                let end = start + RX_DESCRIPTOR + padded + FRAME_CHECK;
                if end > room && start > 0 {
                    break;
                }
                data.resize(start, 0);
                data.extend(((padded + FRAME_CHECK) as u32).to_le_bytes());
                data.extend(CHECKED.to_le_bytes());
                data.resize(start + RX_DESCRIPTOR, 0);
                data.extend(frame);
                data.resize(end, 0);
                self.frames.pop_front();
            }
            data.truncate(room);
            usbip::answer(&mut self.bus, number, &data)?;
        }
        Ok(())
    }
}

/// The frames in a transfer from the driver.
fn sent_frames(mut data: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((descriptor, rest)) = data.split_first_chunk::<TX_DESCRIPTOR>() {
        let [first @ .., _, _, _, _] = *descriptor;
        let len = (u32::from_le_bytes(first) & TX_LEN) as usize;
        let Some(frame) = rest.get(..len) else { break };
        frames.push(frame.to_vec());
        let used = (TX_DESCRIPTOR + len).next_multiple_of(TX_ALIGN);
        data = data.get(used..).unwrap_or_default();
    }
    frames
}
