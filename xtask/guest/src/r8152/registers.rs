//! The registers of an RTL8153, of which there are two spaces; most of them only remember what was
//! written.

/// Where they are.
#[derive(Clone, Copy, Debug)]
pub enum Space {
    Usb,
    Pla,
}

impl Space {
    /// By the index of a vendor request (`MCU_TYPE_PLA`).
    pub const fn of(index: u16) -> Self {
        if index & 0x100 == 0 { Self::Usb } else { Self::Pla }
    }
}

/// The registers that the driver waits for, or asks about; names are the driver's.
const PLA_IDR: u16 = 0xc000;
const PLA_BACKUP: u16 = 0xd000;
const PLA_BOOT_CTRL: u16 = 0xe004;
const PLA_TCR0: u16 = 0xe610;
const PLA_TCR1: u16 = 0xe612;
const PLA_CR: u16 = 0xe813;
const PLA_OOB_CTRL: u16 = 0xe84f;
const PLA_PHYSTATUS: u16 = 0xe908;
/// `OCP_PHY_STATUS` and `MII_BMSR`, through the window that the driver reads PHY registers by.
const PHY_STATUS: u16 = 0xb420;
const PHY_BMSR: u16 = 0xb402;

const AUTOLOAD_DONE: u8 = 0x02;
/// The upper half of `TCR0_TX_EMPTY`.
const TX_EMPTY: u8 = 0x08;
/// `RTL_VER_06`, an RTL8153.
const VERSION: [u8; 2] = 0x5c30_u16.to_le_bytes();
const CR_RST: u8 = 0x10;
/// `LINK_LIST_READY`, `RXFIFO_EMPTY`, `TXFIFO_EMPTY`.
const READY_AND_EMPTY: u8 = 0x32;
/// `LINK_STATUS`, `_1000bps`.
const LINK_AT_GIGABIT: u8 = 0x12;
const PHY_STAT_MASK: u8 = 0x07;
const PHY_STAT_LAN_ON: u8 = 3;
const BMSR_LSTATUS: u8 = 0x04;

/// All of them.
pub struct Registers {
    usb: Vec<u8>,
    pla: Vec<u8>,
}

impl Registers {
    /// As they are after power-on.
    pub fn new(mac: [u8; 6]) -> Self {
        let mut registers = Self { usb: vec![0; 1 << 16], pla: vec![0; 1 << 16] };
        for base in [PLA_IDR, PLA_BACKUP] {
            registers.write(Space::Pla, base, &mac, u8::MAX);
        }
        registers
    }

    /// Reads one byte.
    pub fn read(&self, space: Space, address: u16) -> u8 {
        let byte = match space {
            Space::Usb => return self.usb[usize::from(address)],
            Space::Pla => self.pla[usize::from(address)],
        };
        const PLA_TCR0_UPPER: u16 = PLA_TCR0 + 1;
        const PLA_TCR1_UPPER: u16 = PLA_TCR1 + 1;
        match address {
            PLA_BOOT_CTRL => byte | AUTOLOAD_DONE,
            PLA_TCR0_UPPER => byte | TX_EMPTY,
            PLA_TCR1 => VERSION[0],
            PLA_TCR1_UPPER => VERSION[1],
            PLA_CR => byte & !CR_RST,
            PLA_OOB_CTRL => byte | READY_AND_EMPTY,
            PLA_PHYSTATUS => byte | LINK_AT_GIGABIT,
            PHY_BMSR => byte | BMSR_LSTATUS,
            PHY_STATUS => byte & !PHY_STAT_MASK | PHY_STAT_LAN_ON,
            _ => byte,
        }
    }

    /// Writes bytes; of four, those that `enabled` has a bit for.
    pub fn write(&mut self, space: Space, address: u16, bytes: &[u8], enabled: u8) {
        let registers = match space {
            Space::Usb => &mut self.usb,
            Space::Pla => &mut self.pla,
        };
        for (offset, byte) in (0_u16..).zip(bytes) {
            if bytes.len() != 4 || enabled & 1 << offset != 0 {
                registers[usize::from(address.wrapping_add(offset))] = *byte;
            }
        }
    }
}
