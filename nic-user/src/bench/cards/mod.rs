//! Two interfaces of this machine that are cabled together, as the cable of a lab; and back again.

mod loan;
mod refuse;
mod sysctls;

use std::{
    io::{self, ErrorKind},
    net::UdpSocket,
    rc::Rc,
    time::Duration,
};

pub use loan::{give_back_with, left_behind};

use loan::{End, Loan};

use crate::{
    error::{Error, Result},
    lab::{Host, Lab},
    nic::{self, InterfaceName, Nic},
};

/// How often a packet is sent that shows whether there is a cable.
const ATTEMPTS: u32 = 25;
/// How long each may take.
const PATIENCE: Duration = Duration::from_millis(200);

/// Interfaces in a lab. They are given back when this is dropped, and so is what they were:
/// addresses, settings, whether they were up.
#[derive(Debug)]
pub struct Cards {
    lab: Rc<Lab>,
    loan: Loan,
}

impl Cards {
    /// Takes two interfaces of the present network namespace.
    ///
    /// # Errors
    ///
    /// One of them is in use, or they are not cabled together.
    pub fn lend(names: [&str; 2]) -> Result<Self> {
        let given = loan::give_back_all();
        let nic = |name| {
            let nic = Nic::by_name(&InterfaceName::new(name)?);
            // It may be among what could not be given back.
            nic.map_err(|error| given.as_ref().err().cloned().unwrap_or(error))
        };
        let [tx, rx] = names.map(nic);
        let nics = [tx?, rx?];
        refuse::refuse(&nics, &nic::links()?)?;
        let [tx, rx] = &nics;
        let ends = [End::of(tx)?, End::of(rx)?];
        let mut loan = None;
        let lab = Lab::around([&tx.link, &rx.link], |namespaces| {
            loan = Some(Loan::begin(ends, namespaces)?);
            Ok(())
        });
        match (lab, loan) {
            (Ok(lab), Some(loan)) => {
                let cards = Self { lab: Rc::new(lab), loan };
                cards.check_cable()?;
                Ok(cards)
            }
            (Err(error), Some(loan)) => Err(loan.give_back().err().unwrap_or(error)),
            (Err(error), None) => Err(error),
            (Ok(_), None) => Err(Error::failed("borrow interfaces: nothing was recorded")),
        }
    }

    /// The lab that they are in.
    pub const fn lab(&self) -> &Rc<Lab> {
        &self.lab
    }

    /// Gives them back.
    ///
    /// # Errors
    ///
    /// Something of what they were could not be had again.
    pub fn give_back(self) -> Result<()> {
        self.loan.give_back()
    }

    fn check_cable(&self) -> Result<()> {
        let fail = |error: io::Error| Error::io("look for a cable", &error);
        let [a, b] = [self.lab.a(), self.lab.b()];
        let [from, to] = [socket(a)?, socket(b)?];
        let target = to.local_addr().map_err(fail)?;
        for _ in 0..ATTEMPTS {
            from.send_to(&[0], target).map_err(fail)?;
            match to.recv_from(&mut [0]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(fail(error)),
            }
        }
        let [a, b] = [a, b].map(Host::interface);
        Err(Error::failed(format!("nothing sent from {a} arrives at {b}"))
            .with_fix("connect them by a cable, or by a switch that passes everything"))
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        // Whoever wants to know of errors gives them back before; what is not given back is still
        // written down, for the next run and for `nicctl doctor`.
        let _ = self.loan.give_back();
    }
}

fn socket(host: &Host) -> Result<UdpSocket> {
    let open = || {
        let socket = UdpSocket::bind((host.ipv4(), 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    };
    host.run(open)?.map_err(|error: io::Error| Error::io("look for a cable", &error))
}
