//! The `nicctl` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    nic_user::cli::main()
}
