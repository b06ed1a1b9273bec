//! Numbers for people: three digits and a decimal prefix.

const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A count: `999`, `1.23 M`.
pub fn count(n: u64) -> String {
    scaled(n as f64, "")
}

/// Bytes: `64 B`, `4.50 GB` (powers of 1000, as for rates on the wire).
pub fn bytes(n: u64) -> String {
    scaled(n as f64, "B")
}

/// Events a second, `unit` being what is counted: `per_second(1.2e6, "pps")` is `1.20 Mpps`.
pub fn per_second(rate: f64, unit: &str) -> String {
    scaled(rate, unit)
}

/// Bytes a second as bits on the wire: `bit_rate(1.25e9)` is `10.0 Gbit/s`.
pub fn bit_rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second * 8.0, "bit/s")
}

/// A share of a whole in percent: `12.3%`; `-` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1}%", part as f64 / whole as f64 * 100.0)
}

/// `value` with three significant digits. Whole numbers below 1000 stay whole.
fn scaled(value: f64, unit: &str) -> String {
    let (mut value, mut prefix) = (value, 0);
    // 999.5 would be rounded to four digits.
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let decimals = match value {
        _ if prefix == 0 && value.fract() == 0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let unit = format!("{}{unit}", PREFIXES[prefix]);
    let space = if unit.is_empty() { "" } else { " " };
    format!("{value:.decimals$}{space}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_three_digits() {
        for (n, text) in [
            (0, "0"),
            (7, "7"),
            (999, "999"),
            (1000, "1.00 k"),
            (1234, "1.23 k"),
            (9_994, "9.99 k"),
            (9_996, "10.0 k"),
            (99_960, "100 k"),
            (999_499, "999 k"),
            (999_500, "1.00 M"),
            (1_234_567, "1.23 M"),
            (u64::MAX, "18.4 E"),
        ] {
            assert_eq!(count(n), text, "{n}");
        }
    }

    #[test]
    fn units_follow_the_prefix() {
        assert_eq!(bytes(64), "64 B");
        assert_eq!(bytes(4_500_000_000), "4.50 GB");
        assert_eq!(per_second(1.2e6, "pps"), "1.20 Mpps");
        assert_eq!(per_second(0.5, "pps"), "0.50 pps");
        assert_eq!(bit_rate(1.25e9), "10.0 Gbit/s");
        assert_eq!(share(1, 3), "33.3%");
        assert_eq!(share(0, 0), "-");
    }
}
