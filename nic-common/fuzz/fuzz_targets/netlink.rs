//! Any bytes as a reply of the kernel.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| nic_user::netlink::fuzzing::decode(bytes));
