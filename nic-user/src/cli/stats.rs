//! `nicctl stats`: counters of every queue.

use std::time::Duration;

use super::name;

/// Show the counters of every queue, in both directions
///
/// Rows per queue and totals: packets, bytes, the share of each verdict, bytes copied and spared,
/// header bytes, and what is out of the ordinary. Without IFACE, of every attached interface.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nicctl stats
  nicctl stats eth0 --watch
  nicctl stats eth0 --queue 3 --histogram
  nicctl stats --json | jq '.interfaces[].total.rx.packets'")]
pub(super) struct Args {
    /// Interfaces to show; all that are attached without
    #[arg(value_name = "IFACE", value_parser = name::utf8())]
    interfaces: Vec<String>,

    /// Show rates again and again, every SECS seconds, 0.1 or more [default: 1]
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "1",
        value_parser = seconds)]
    watch: Option<Duration>,

    /// Show queue N alone
    #[arg(long, value_name = "N")]
    queue: Option<u32>,

    /// Show how long frames and their headers are
    #[arg(long)]
    histogram: bool,

    /// The network namespace that the interfaces are in, as `ip netns` names it
    #[arg(long, value_name = "NAME", value_parser = name::utf8())]
    netns: Option<String>,

    /// Print JSON (`nicctl schema stats`); with --watch, one document a line
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    const LEAST: Duration = Duration::from_millis(100);
    let seconds: f64 = text.parse().map_err(
        |_| "it is no number of seconds; interfaces go before --watch, or write --watch=1",
    )?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(interval) if interval >= LEAST => Ok(interval),
        _ => Err("it must be 0.1 or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["eth0", "", "0", "-1", "NaN", "inf", "1e300"] {
            assert!(seconds(wrong).is_err(), "{wrong:?}");
        }
    }
}
