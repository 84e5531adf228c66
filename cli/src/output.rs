//! Standard output and standard error. A reader that has gone is no error to report.
#![forbid(unsafe_code)]

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};

use crate::failure::{Failure, Result};

fn written(result: io::Result<()>) -> Result<()> {
    result.map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::of("standard output", &e),
    })
}

/// Writes text and has it seen at once.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

pub fn line(text: Arguments<'_>) -> Result<()> {
    written(writeln!(io::stdout().lock(), "{text}"))
}

/// A line on standard error, which nobody needs to read.
pub fn note(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether text may have colours: on a terminal, unless NO_COLOR says otherwise.
pub fn has_colours() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Text that may go to a terminal whatever it holds: control characters, which a terminal would follow, are escaped.
pub fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        out
    })
}

/// A number of bytes for people, in the units of disks: 1 MB is a million.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 9.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_at_least() {
        let sizes = [0, 999, 1000, 9_949, 9_960, 98_300_000, 999_600_000, 4_370_000_000];
        let texts = ["0 B", "999 B", "1.0 kB", "9.9 kB", "10 kB", "98 MB", "1.0 GB", "4.4 GB"];
        assert_eq!(sizes.map(size), texts);
    }

    #[test]
    fn terminals_get_no_control_characters() {
        assert_eq!(shown("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
    }
}
