//! Points in time as RFC 3339 in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: i64 = 86_400;

/// `YYYY-MM-DDThh:mm:ssZ`, rounded down to the second. Times outside the years 0 to 9999, which
/// RFC 3339 cannot write, are brought to its ends.
pub fn rfc3339(time: SystemTime) -> String {
    const FIRST: i64 = -62_167_219_200;
    const LAST: i64 = 253_402_300_799;
    let seconds = unix_seconds(time).clamp(FIRST, LAST);
    let (days, second) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            -whole.saturating_add(i64::from(before.subsec_nanos() > 0))
        }
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar: Howard
/// Hinnant's `civil_from_days`. Its years begin in March, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_times() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(at(253_402_300_799), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn times_before_1970_and_after_9999() {
        let before = |millis| rfc3339(UNIX_EPOCH - Duration::from_millis(millis));
        assert_eq!(before(1), "1969-12-31T23:59:59Z");
        assert_eq!(before(1000), "1969-12-31T23:59:59Z");
        assert_eq!(before(62_167_219_200_000), "0000-01-01T00:00:00Z");
        assert_eq!(before(62_167_219_200_001), "0000-01-01T00:00:00Z");
        let end = UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(rfc3339(end), "9999-12-31T23:59:59Z");
    }
}
