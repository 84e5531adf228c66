//! Strings as numbers, the way Python's `int` and `float` read them.
#![forbid(unsafe_code)]

use std::num::IntErrorKind;

use super::fault::{Budget, Res, fail};
use super::lexer::is_space;
use super::value::{Value, whole};

/// The digits zero of the scripts that write numbers with ten digits.
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50,
    0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40,
    0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950,
    0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6,
    0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// The value of a decimal digit of any script.
fn decimal(c: char) -> Option<u32> {
    let code = c as u32;
    let zero = ZEROS[..ZEROS.partition_point(|&zero| zero <= code)].last()?;
    Some(code - zero).filter(|&digit| digit < 10)
}

/// As Python's `str.isdecimal`.
pub(super) fn is_decimal(c: char) -> bool {
    decimal(c).is_some()
}

/// As Python's `str.isdigit`: decimal digits, and superscript, subscript and circled ones.
pub(super) fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c as u32, 0xb2 | 0xb3 | 0xb9 | 0x1369..=0x1371 | 0x19da | 0x2070 | 0x2074..=0x2079
            | 0x2080..=0x2089 | 0x2460..=0x2468 | 0x2474..=0x247c | 0x2488..=0x2490 | 0x24ea | 0x24f5..=0x24fd
            | 0x24ff | 0x2776..=0x277e | 0x2780..=0x2788 | 0x278a..=0x2792 | 0x10a40..=0x10a43
            | 0x10e60..=0x10e68 | 0x11052..=0x1105a | 0x1f100..=0x1f10a)
}

/// A text without white space around it, with ASCII digits and without underscores, each of which must stand between two digits
/// or letters, or after a prefix; otherwise `None`.
fn plain(text: &str, budget: &mut Budget) -> Res<Option<String>> {
    budget.scan(text)?;
    budget.bytes(text.len())?;
    let text = text.trim_matches(is_space);
    let mut out = String::with_capacity(text.len());
    let mut before = false;
    for c in text.chars() {
        if c == '_' {
            if !before {
                return Ok(None);
            }
            before = false;
            continue;
        }
        if !before && out.len() > 1 && !c.is_ascii_alphanumeric() && text.contains('_') {
            return Ok(None);
        }
        let c = decimal(c).and_then(|digit| char::from_digit(digit, 10)).unwrap_or(c);
        before = c.is_ascii_alphanumeric();
        out.push(c);
    }
    Ok(Some(out).filter(|_| before || !text.ends_with('_')))
}

/// The result of Python's `int(text, base)`; `None` when that is an error.
fn parsed(text: &str, base: i128, budget: &mut Budget) -> Res<Option<i128>> {
    let Some(text) = plain(text, budget)? else { return Ok(None) };
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (&text[..1], digits),
        None => ("", &text[..]),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let of_prefix = match prefix.as_deref() {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => 0,
    };
    let has_prefix = of_prefix > 0 && (base == 0 || base == of_prefix);
    let (base, digits) = match (has_prefix, base) {
        (true, _) => (of_prefix, &digits[2..]),
        // Zeros before a number could mark it as octal, so Python refuses them.
        (false, 0) if digits.starts_with('0') && digits.bytes().any(|b| b != b'0') => return Ok(None),
        (false, 0) => (10, digits),
        (false, base) => (base, digits),
    };
    let Some(radix) = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix)) else {
        return Ok(None);
    };
    // A sign in the middle.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    budget.bytes(digits.len() + 1)?;
    match i128::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => {
            fail("a number is too large")
        }
        Err(_) => Ok(None),
    }
}

/// The result of Python's `float(text)`; `None` when that is an error.
fn parsed_float(text: &str, budget: &mut Budget) -> Res<Option<f64>> {
    Ok(plain(text, budget)?.and_then(|text| text.parse().ok()))
}

/// A float without its fraction.
fn cut(x: f64) -> Res<Option<i128>> {
    match whole(x) {
        None if x.is_finite() => fail("a number is too large"),
        whole => Ok(whole),
    }
}

/// The filter `int` on a value: `None` when that is no number.
pub(super) fn int(value: &Value, base: Option<&Value>, budget: &mut Budget) -> Res<Option<i128>> {
    match value {
        Value::Undefined(_) => Err(value.undefined_error()),
        Value::Float(x) if x.is_infinite() => fail("infinity has no integer"),
        Value::Float(x) => cut(*x),
        Value::Str(text) => {
            // A base that is no integer is an error in Python, after which the text is read as a float.
            let base = base.map_or(Some(10), Value::integer);
            let number = base.map_or(Ok(None), |base| parsed(text, base, budget))?;
            match number {
                Some(n) => Ok(Some(n)),
                None => parsed_float(text, budget)?.map_or(Ok(None), cut),
            }
        }
        other => Ok(other.integer()),
    }
}

/// The filter `float` on a value: `None` when that is no number.
pub(super) fn float(value: &Value, budget: &mut Budget) -> Res<Option<f64>> {
    match value {
        Value::Undefined(_) => Err(value.undefined_error()),
        Value::Str(text) => parsed_float(text, budget),
        other => Ok(other.number().map(|n| n.float())),
    }
}

/// As Python's `round(n, precision)` for integers: to a multiple of a power of ten, halves to the even one.
pub(super) fn round_int(n: i128, precision: i128) -> Res<i128> {
    let Some(places) = precision.checked_neg().filter(|&places| places > 0) else { return Ok(n) };
    let Some(unit) = u32::try_from(places).ok().and_then(|places| 10i128.checked_pow(places)) else {
        return Ok(0);
    };
    let (quotient, rest) = (n.div_euclid(unit), n.rem_euclid(unit));
    let up = rest > unit / 2 || (rest == unit / 2 && quotient % 2 != 0);
    match (quotient + i128::from(up)).checked_mul(unit) {
        Some(n) => Ok(n),
        None => fail("a number is too large"),
    }
}
