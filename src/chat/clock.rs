//! The time as templates write it into system prompts ("Today's date is …").
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A moment: seconds since the start of 1970 on the local clock. The caller knows the time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    seconds: i64,
}

impl Clock {
    /// A given moment; no earlier and no later than the years 1 and 9999, which have four digits.
    pub(super) fn at(seconds: i64) -> Clock {
        Clock { seconds: seconds.clamp(-62_135_596_800, 253_402_300_799) }
    }

    /// This moment in universal time.
    pub(super) fn now() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Clock::at(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// Year, month (1 to 12) and day (1 to 31): Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    fn date(self) -> (i64, i64, i64) {
        let days = self.seconds.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let day = days.rem_euclid(146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (m, d) = ((month + 2) % 12 + 1, day - (153 * month + 2) / 5 + 1);
        (year + era * 400 + i64::from(m <= 2), m, d)
    }

    /// The moment in the format of C's `strftime`, in English.
    pub(super) fn format(self, format: &str) -> Result<String, String> {
        let (year, month, day) = self.date();
        let second = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let weekday = (self.seconds.div_euclid(86_400) + 3).rem_euclid(7);
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let starts = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let year_day = starts[(month - 1) as usize] + day + i64::from(leap && month > 2);
        let hour_12 = (hour + 11) % 12 + 1;
        let (day_name, month_name) = (DAYS[weekday as usize], MONTHS[(month - 1) as usize]);
        let half = if hour < 12 { "AM" } else { "PM" };
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut kind = chars.next();
            let plain = kind == Some('-');
            if plain {
                kind = chars.next();
            }
            let mut number = |n: i64, width: usize| {
                let width = if plain { 0 } else { width };
                // Writing to a string cannot fail.
                let _ = write!(out, "{n:0width$}");
            };
            match kind {
                Some('Y') => number(year, 4),
                Some('y') => number(year % 100, 2),
                Some('m') => number(month, 2),
                Some('d') => number(day, 2),
                Some('H') => number(hour, 2),
                Some('I') => number(hour_12, 2),
                Some('M') => number(minute, 2),
                Some('S') => number(second, 2),
                Some('f') => number(0, 6),
                Some('j') => number(year_day, 3),
                Some('u') => number(weekday + 1, 1),
                Some('w') => number((weekday + 1) % 7, 1),
                Some('e') => {
                    let _ = write!(out, "{day:2}");
                }
                Some('A') => out.push_str(day_name),
                Some('a') => out.push_str(&day_name[..3]),
                Some('B') => out.push_str(month_name),
                Some('b' | 'h') => out.push_str(&month_name[..3]),
                Some('p') => out.push_str(half),
                Some('F') => out.push_str(&self.format("%Y-%m-%d")?),
                Some('T' | 'X') => out.push_str(&self.format("%H:%M:%S")?),
                Some('R') => out.push_str(&self.format("%H:%M")?),
                Some('D' | 'x') => out.push_str(&self.format("%m/%d/%y")?),
                Some('c') => out.push_str(&self.format("%a %b %e %H:%M:%S %Y")?),
                Some('Z' | 'z') => {}
                Some('%') => out.push('%'),
                Some(other) => return Err(format!("strftime_now does not know \"%{other}\"")),
                None => out.push('%'),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's datetime.
    #[test]
    fn moments_have_the_dates_of_the_calendar() {
        let text = |seconds, format| Clock::at(seconds).format(format).expect("a known format");
        assert_eq!(text(0, "%Y-%m-%d %H:%M:%S %A %j"), "1970-01-01 00:00:00 Thursday 001");
        assert_eq!(text(951_782_399, "%d %b %Y %T %a %j"), "28 Feb 2000 23:59:59 Mon 059");
        assert_eq!(text(951_782_400, "%F"), "2000-02-29");
        assert_eq!(text(1_735_646_400, "%-d %B %y, %I:%M %p, %j"), "31 December 24, 12:00 PM, 366");
        assert_eq!(text(-1, "%F %R"), "1969-12-31 23:59");
        assert_eq!(text(i64::MAX, "%Y"), "9999");
        assert!(Clock::at(0).format("%Q").expect_err("no such format").contains("%Q"));
    }
}
