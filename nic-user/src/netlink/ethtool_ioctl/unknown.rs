//! What is answered, besides `EOPNOTSUPP`, to a question that a driver or the kernel does not know:
//! data with its source. Any other error number says only that it could not be read now: `ELNRNG`
//! of r8169, of coalescing without a link; `EBUSY` of hns3 in reset, or of st_gmac while it is down
//! (`stmmac_check_if_running`, before Linux 6.10).

use crate::netlink::Error;

/// A question that only some drivers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `ETHTOOL_GTUNABLE`
    Tunable,
    /// `ETHTOOL_GRXFH`
    HashFields,
}

/// One answer that says that somebody does not know a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The question.
    pub question: Question,
    /// The error number, positive.
    pub errno: i32,
    /// The driver, as `ethtool -i` shows it, or `kernel`.
    pub by: &'static str,
    /// Where this is from.
    pub source: &'static str,
}

const fn row(question: Question, errno: i32, by: &'static str, source: &'static str) -> Refusal {
    Refusal { question, errno, by, source }
}

/// All of them.
pub const REFUSALS: &[Refusal] = &[
    row(
        Question::Tunable,
        libc::EINVAL,
        "kernel",
        "net/ethtool/ioctl.c ethtool_tunable_valid: one that came later, as tx-buf-size did in 5.17",
    ),
    row(
        Question::Tunable,
        libc::EINVAL,
        "ena",
        "drivers/net/ethernet/amazon/ena/ena_ethtool.c ena_get_tunable",
    ),
    row(
        Question::Tunable,
        libc::EINVAL,
        "gve",
        "drivers/net/ethernet/google/gve/gve_ethtool.c gve_get_tunable, at first",
    ),
    row(
        Question::Tunable,
        libc::EINVAL,
        "fs_enet",
        "drivers/net/ethernet/freescale/fs_enet/fs_enet-main.c fs_get_tunable",
    ),
    row(
        Question::Tunable,
        libc::EINVAL,
        "st_gmac",
        "drivers/net/ethernet/stmicro/stmmac/stmmac_ethtool.c stmmac_get_tunable",
    ),
    row(
        Question::HashFields,
        libc::EINVAL,
        "igb",
        "drivers/net/ethernet/intel/igb/igb_ethtool.c igb_get_rss_hash_opts",
    ),
    row(
        Question::HashFields,
        libc::EINVAL,
        "vmxnet3",
        "drivers/net/vmxnet3/vmxnet3_ethtool.c vmxnet3_get_rss_hash_opts",
    ),
];

/// Whether this answer says that nobody there knows the question.
pub(super) fn says_unknown(question: Question, error: &Error) -> bool {
    let is_row = |row: &Refusal| row.question == question && row.errno == error.errno;
    error.is_unsupported() || error.answered && REFUSALS.iter().any(is_row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_what_is_known_of_someone_says_unknown() {
        for question in [Question::Tunable, Question::HashFields] {
            let says = |errno| says_unknown(question, &Error::from_errno(errno));
            assert!(says(libc::EOPNOTSUPP) && says(libc::EINVAL));
            assert!(![libc::EPERM, libc::EIO, libc::ENODEV, libc::EBUSY].into_iter().any(says));
        }
    }

    #[test]
    fn every_row_has_a_source_and_none_is_there_twice() {
        let rows: BTreeSet<_> =
            REFUSALS.iter().map(|row| (row.question as u8, row.errno, row.by)).collect();
        assert_eq!(rows.len(), REFUSALS.len());
        assert!(REFUSALS.iter().all(|row| row.source.contains(".c ")));
    }
}
