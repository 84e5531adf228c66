//! Python's string methods on `str`.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::fault::{Budget, Res, fail};
use super::lexer::is_space;
use super::value::{STRING, Value};

/// `text` without white space, or without `chars`, at its ends.
pub(super) fn strip<'t>(
    text: &'t str,
    chars: Option<&str>,
    start: bool,
    end: bool,
    budget: &mut Budget,
) -> Res<&'t str> {
    budget.bytes(chars.map_or(0, str::len).saturating_mul(8))?;
    let chars: Option<HashSet<char, ahash::RandomState>> = chars.map(|chars| chars.chars().collect());
    let goes = |c: char| chars.as_ref().map_or(is_space(c), |chars| chars.contains(&c));
    let text = if start { text.trim_start_matches(goes) } else { text };
    Ok(if end { text.trim_end_matches(goes) } else { text })
}

/// The parts of `text` between separators, or between white space; at most `most` cuts, from the end if `from_end`.
pub(super) fn split(
    text: &str,
    separator: Option<&str>,
    most: Option<usize>,
    from_end: bool,
    budget: &mut Budget,
) -> Res<Vec<Value>> {
    let most = most.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    match (separator, from_end) {
        (Some(separator), false) => {
            for part in text.splitn(most.saturating_add(1), separator) {
                push_part(&mut parts, part, budget)?;
            }
        }
        (Some(separator), true) => {
            for part in text.rsplitn(most.saturating_add(1), separator) {
                push_part(&mut parts, part, budget)?;
            }
        }
        (None, false) => {
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() {
                let end = rest.find(is_space).filter(|_| parts.len() < most).unwrap_or(rest.len());
                push_part(&mut parts, &rest[..end], budget)?;
                rest = rest[end..].trim_start_matches(is_space);
            }
        }
        (None, true) => {
            let mut rest = text.trim_end_matches(is_space);
            while !rest.is_empty() {
                let cut =
                    rest.char_indices().rev().find(|(_, c)| is_space(*c)).filter(|_| parts.len() < most);
                let start = cut.map_or(0, |(i, c)| i + c.len_utf8());
                push_part(&mut parts, &rest[start..], budget)?;
                rest = rest[..start].trim_end_matches(is_space);
            }
        }
    }
    if from_end {
        parts.reverse();
    }
    Ok(parts)
}

/// Adds a part of a text that was charged already.
pub(super) fn push_part(parts: &mut Vec<Value>, part: &str, budget: &mut Budget) -> Res<()> {
    budget.bytes(STRING)?;
    parts.push(Value::from(part));
    Ok(())
}

/// The lines of `text`, with or without their line ends.
pub(super) fn lines(text: &str, keep_ends: bool) -> impl Iterator<Item = &str> {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(ends).unwrap_or(rest.len());
        let tail = &rest[end..];
        let n = if tail.starts_with("\r\n") { 2 } else { tail.chars().next().map_or(0, char::len_utf8) };
        let line = &rest[..if keep_ends { end + n } else { end }];
        rest = &rest[end + n..];
        Some(line)
    })
}

/// A text computed character by character from another that was charged.
pub(super) fn cased(made: String, budget: &mut Budget) -> Res<Value> {
    budget.bytes(made.len())?;
    Ok(Value::from(made))
}

/// `text` with `old` replaced by `new`, at most `count` times.
pub(super) fn replace(
    text: &str,
    old: &str,
    new: &str,
    count: Option<usize>,
    budget: &mut Budget,
) -> Res<String> {
    let n = text.matches(old).count().min(count.unwrap_or(usize::MAX));
    budget.bytes(text.len().saturating_add(new.len().saturating_mul(n)))?;
    Ok(text.replacen(old, new, n))
}

/// `text` padded to `width` characters by the method `how`.
pub(super) fn pad(text: &str, how: &str, width: i128, fill: &str, budget: &mut Budget) -> Res<String> {
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return fail("the filling is one character");
    };
    budget.scan(text)?;
    let n = text.chars().count();
    let width = usize::try_from(width).unwrap_or(if width < 0 { 0 } else { usize::MAX });
    let missing = width.saturating_sub(n);
    budget.bytes(missing.saturating_mul(4).saturating_add(text.len()))?;
    let left = match how {
        "ljust" => 0,
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let (sign, body) = match (how, text.chars().next()) {
        ("zfill", Some('+' | '-')) => text.split_at(1),
        _ => ("", text),
    };
    let mut out = String::from(sign);
    out.extend(std::iter::repeat_n(fill, left));
    out.push_str(body);
    out.extend(std::iter::repeat_n(fill, missing - left));
    Ok(out)
}

/// Appends a letter in title case: `ß` as `Ss`.
fn push_title(out: &mut String, c: char) {
    let mut upper = c.to_uppercase();
    out.extend(upper.next());
    out.extend(upper.flat_map(char::to_lowercase));
}

/// Every word's first letter in upper case, the others in lower case.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            push_title(&mut out, c)
        }
        inside = c.is_alphabetic();
    }
    out
}

/// The first letter in upper case, the others in lower case.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    if let Some(first) = chars.next() {
        push_title(&mut out, first);
    }
    out.push_str(&chars.as_str().to_lowercase());
    out
}

/// Upper and lower case exchanged.
pub(super) fn swap_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_uppercase() { out.extend(c.to_lowercase()) } else { out.extend(c.to_uppercase()) }
    }
    out
}

/// Lower case, with special letters case-folded.
pub(super) fn case_fold(text: &str) -> String {
    text.to_lowercase().replace('ß', "ss").replace('ς', "σ")
}

/// As the filter `title`: words end at white space and at `-`, `(`, `{`, `[`, `<`.
pub(super) fn title_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            push_title(&mut out, c)
        }
        inside = !(is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<'));
    }
    out
}

/// The part of `text` that search methods read, and the number of characters before it. `None` for a start after the end, where
/// not even the empty text is found.
pub(super) fn between(text: &str, bounds: [Option<Value>; 2]) -> Res<Option<(usize, &str)>> {
    if bounds.iter().all(Option::is_none) {
        return Ok(Some((0, text)));
    }
    let n = text.chars().count();
    let mut at = [0, n];
    for (at, bound) in at.iter_mut().zip(bounds) {
        let bound = match bound {
            None | Some(Value::None) => continue,
            Some(bound) => bound,
        };
        let Some(index) = bound.integer() else { return fail("a place in a text is an integer") };
        let index = if index < 0 { index.saturating_add(n as i128).max(0) } else { index };
        *at = usize::try_from(index).unwrap_or(usize::MAX);
    }
    if at[0] > n || at[0] > at[1] {
        return Ok(None);
    }
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(i, _)| i);
    Ok(Some((at[0], &text[byte(at[0])..byte(at[1].min(n))])))
}

/// `text` with spaces for its tabs, up to columns that are multiples of `size`.
pub(super) fn expand_tabs(text: &str, size: usize, budget: &mut Budget) -> Res<String> {
    let mut out = String::new();
    let mut column = 0_usize;
    for c in text.chars() {
        match c {
            '\t' => {
                let n = size - column.checked_rem(size).unwrap_or(0);
                budget.bytes(n)?;
                out.extend(std::iter::repeat_n(' ', n));
                column += n;
            }
            c => {
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                budget.push(&mut out, c.encode_utf8(&mut [0; 4]))?;
            }
        }
    }
    Ok(out)
}

/// `text` cut to `length` characters, followed by `end`, unless it is at most `leeway` longer.
pub(super) fn truncate(
    text: &str,
    [length, leeway]: [usize; 2],
    kill_words: bool,
    end: &str,
    budget: &mut Budget,
) -> Res<String> {
    budget.scan(text)?;
    budget.bytes(text.len() + end.len())?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.to_owned());
    }
    let kept = length.saturating_sub(end.chars().count());
    let cut = &text[..text.char_indices().nth(kept).map_or(text.len(), |(i, _)| i)];
    let cut = if kill_words { cut } else { cut.rsplit_once(' ').map_or(cut, |(before, _)| before) };
    Ok(format!("{cut}{end}"))
}

/// `text` with `%` and a code for characters that an address may not have. In a query a space becomes `+`, and `/` becomes its
/// code.
pub(super) fn url_quote(out: &mut String, text: &str, in_query: bool, budget: &mut Budget) -> Res<()> {
    budget.bytes(text.len().saturating_mul(3))?;
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
            b'/' if !in_query => out.push('/'),
            b' ' if in_query => out.push('+'),
            byte => {
                let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0').to_ascii_uppercase();
                out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    Ok(())
}
