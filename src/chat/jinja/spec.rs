//! The format of one value: the text after `%` in Python's `%` formats and after `:` in those with brackets.
#![forbid(unsafe_code)]

use super::fault::{Budget, Res, fail};
use super::format::fixed;
use super::text;
use super::value::{Value, whole};

/// How one value is written.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Spec {
    pub(super) fill: Option<char>,
    /// `<`, `>`, `^` or `=`.
    pub(super) align: Option<char>,
    /// `+` or a space: the character before a number that is not negative.
    pub(super) plus: Option<char>,
    pub(super) alternate: bool,
    pub(super) zero: bool,
    pub(super) width: usize,
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
}

/// A number of at most four digits at the start of a text.
pub(super) fn digits(text: &str) -> Res<(Option<usize>, &str)> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    match n {
        0 => Ok((None, text)),
        1..=4 => Ok((text[..n].parse().ok(), &text[n..])),
        _ => fail("a width in a format is too large"),
    }
}

impl Spec {
    /// The text after the colon of `{:…}`, and the letter at its end.
    pub(super) fn of_brackets(text: &str) -> Res<(Spec, Option<char>)> {
        let mut spec = Spec::default();
        let mut chars = text.chars();
        let is_align = |c: char| matches!(c, '<' | '>' | '^' | '=');
        let mut rest = text;
        match (chars.next(), chars.next()) {
            (Some(fill), Some(align)) if is_align(align) => {
                (spec.fill, spec.align) = (Some(fill), Some(align));
                rest = chars.as_str();
            }
            (Some(align), _) if is_align(align) => {
                spec.align = Some(align);
                rest = &text[1..];
            }
            _ => {}
        }
        if let Some(sign @ ('+' | '-' | ' ')) = rest.chars().next() {
            spec.plus = Some(sign).filter(|sign| *sign != '-');
            rest = &rest[1..];
        }
        let mut take = |c: char| match rest.strip_prefix(c) {
            Some(tail) => {
                rest = tail;
                true
            }
            None => false,
        };
        (spec.alternate, spec.zero) = (take('#'), take('0'));
        let (width, mut rest) = digits(rest)?;
        spec.width = width.unwrap_or(0);
        if let Some(grouping @ (',' | '_')) = rest.chars().next() {
            spec.grouping = Some(grouping);
            rest = &rest[1..];
        }
        if let Some(tail) = rest.strip_prefix('.') {
            let (precision, tail) = digits(tail)?;
            let Some(precision) = precision else { return fail("a format has a point without a precision") };
            spec.precision = Some(precision);
            rest = tail;
        }
        let mut kinds = rest.chars();
        let kind = kinds.next();
        match kinds.next() {
            None => Ok((spec, kind)),
            Some(_) => fail(format!("the format \":{text}\" is not supported")),
        }
    }

    /// `value` as `format(value, spec)` writes it.
    pub(super) fn bracketed(
        &self,
        out: &mut String,
        kind: Option<char>,
        value: &Value,
        budget: &mut Budget,
    ) -> Res<()> {
        if value.number().is_some() && kind != Some('s') {
            let whole = matches!(kind, Some('b' | 'o' | 'x' | 'X'));
            if whole && (self.precision.is_some() || self.grouping.is_some()) {
                return fail("a format of digits that are not decimal has a precision or groups");
            }
            let (sign, body) = match (kind, value) {
                (None | Some('n'), Value::Float(x)) if self.precision.is_none() => {
                    self.signed(text::float(*x))
                }
                (None | Some('n'), Value::Float(_)) => {
                    return fail("a format with a precision needs its letter");
                }
                (None | Some('n' | 'd'), value) => match value.integer() {
                    Some(_) if self.precision.is_some() => {
                        return fail("the format of an integer has a precision");
                    }
                    Some(n) => self.signed(n.to_string()),
                    None => return fail(format!("{} does not go with \"d\"", value.type_name())),
                },
                (Some('b'), value) => match value.integer() {
                    Some(n) => self.prefixed(n, format!("{:b}", n.unsigned_abs()), "0b"),
                    None => return fail(format!("{} does not go with \"b\"", value.type_name())),
                },
                (Some('%'), value) => {
                    let n = value.number().map_or(0.0, |n| n.float()) * 100.0;
                    let (sign, body) = self.signed(fixed(n, self.precision.unwrap_or(6), budget)?);
                    (sign, body + "%")
                }
                (Some(kind), value) => self.number(kind, value, budget)?,
            };
            let body = self.grouped(body, budget)?;
            let align = self.align.unwrap_or(if self.zero { '=' } else { '>' });
            return self.pad(out, &sign, &body, align, budget);
        }
        if !matches!(kind, None | Some('s')) || value.str().is_none() {
            return fail(format!("{} does not go with this format", value.type_name()));
        }
        if self.plus.is_some() || self.alternate || self.grouping.is_some() || self.align == Some('=') {
            return fail("the format of a string is that of a number");
        }
        let mut body = text::str(value, budget)?;
        if let Some(n) = self.precision {
            body = body.chars().take(n).collect();
        }
        self.pad(out, "", &body, self.align.unwrap_or('<'), budget)
    }

    /// The sign of a formatted number, and its digits.
    fn signed(&self, body: String) -> (String, String) {
        match (body.strip_prefix('-'), self.plus) {
            (Some(digits), _) => ("-".into(), digits.to_owned()),
            (None, Some(plus)) => (plus.to_string(), body),
            (None, None) => (String::new(), body),
        }
    }

    /// An integer in another base.
    fn prefixed(&self, n: i128, digits: String, prefix: &str) -> (String, String) {
        let (mut sign, digits) = self.signed(if n < 0 { format!("-{digits}") } else { digits });
        sign.push_str(if self.alternate { prefix } else { "" });
        (sign, digits)
    }

    /// A number by its letter: its sign and prefix, and its digits.
    pub(super) fn number(&self, kind: char, value: &Value, budget: &mut Budget) -> Res<(String, String)> {
        let precision = self.precision.unwrap_or(6);
        let float = || value.number().map(|n| n.float());
        if self.alternate && matches!(kind, 'f' | 'F' | 'e' | 'E' | 'g' | 'G') {
            return fail("the flag \"#\" is not supported for floats");
        }
        Ok(match (kind, value.integer(), float()) {
            ('x', Some(n), _) => self.prefixed(n, format!("{:x}", n.unsigned_abs()), "0x"),
            ('X', Some(n), _) => self.prefixed(n, format!("{:X}", n.unsigned_abs()), "0X"),
            ('o', Some(n), _) => self.prefixed(n, format!("{:o}", n.unsigned_abs()), "0o"),
            ('f' | 'F' | 'e' | 'E' | 'g' | 'G', _, Some(x)) if !x.is_finite() => {
                let body = text::float(x);
                self.signed(if kind.is_uppercase() { body.to_uppercase() } else { body })
            }
            ('f' | 'F', _, Some(x)) => self.signed(fixed(x, precision, budget)?),
            ('e' | 'E' | 'g' | 'G', _, Some(x)) => {
                let body = if matches!(kind, 'e' | 'E') {
                    scientific(x, precision, budget)?
                } else {
                    general(x, precision.max(1), budget)?
                };
                self.signed(if kind.is_uppercase() { body.to_uppercase() } else { body })
            }
            _ => return fail(format!("{} does not go with \"{kind}\" in a format", value.type_name())),
        })
    }

    /// Commas or underscores between the digits before the point.
    fn grouped(&self, body: String, budget: &mut Budget) -> Res<String> {
        let Some(mark) = self.grouping else { return Ok(body) };
        if self.zero {
            return fail("a format with zeros and groups of digits is not supported");
        }
        budget.bytes(body.len())?;
        let n = body.bytes().take_while(u8::is_ascii_digit).count();
        let mut out = String::with_capacity(body.len() * 2);
        for (i, c) in body.chars().enumerate() {
            if i > 0 && i < n && (n - i) % 3 == 0 {
                out.push(mark);
            }
            out.push(c);
        }
        Ok(out)
    }

    /// Appends sign and body, padded to the wanted width.
    pub(super) fn pad(
        &self,
        out: &mut String,
        sign: &str,
        body: &str,
        align: char,
        budget: &mut Budget,
    ) -> Res<()> {
        budget.scan(body)?;
        let missing = self.width.saturating_sub(sign.len() + body.chars().count());
        budget.bytes(sign.len() + body.len() + missing.saturating_mul(4))?;
        let fill = self.fill.unwrap_or(if self.zero { '0' } else { ' ' });
        let (before, between, after) = match align {
            '<' => (0, 0, missing),
            '^' => (missing / 2, 0, missing - missing / 2),
            '=' => (0, missing, 0),
            _ => (missing, 0, 0),
        };
        out.extend(std::iter::repeat_n(fill, before));
        out.push_str(sign);
        out.extend(std::iter::repeat_n(fill, between));
        out.push_str(body);
        out.extend(std::iter::repeat_n(fill, after));
        Ok(())
    }
}

/// A finite number as `%e` writes it.
fn scientific(x: f64, precision: usize, budget: &mut Budget) -> Res<String> {
    let text = format!("{x:.precision$e}");
    budget.steps(text.len() / 4)?;
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    Ok(format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()))
}

/// A finite number as `%g` writes it: `precision` digits, without zeros at the end.
fn general(x: f64, precision: usize, budget: &mut Budget) -> Res<String> {
    let text = scientific(x, precision - 1, budget)?;
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let n: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if n < -4 || n >= precision as i32 {
        return Ok(format!("{}e{exponent}", trimmed(digits)));
    }
    let places = usize::try_from(precision as i32 - 1 - n).unwrap_or(0);
    Ok(trimmed(&fixed(x, places, budget)?))
}

/// A number cut to an integer, as `%d` does.
pub(super) fn integer(value: &Value) -> Res<i128> {
    match (value.integer(), value.number()) {
        (Some(n), _) => Ok(n),
        (None, Some(number)) => match whole(number.float()) {
            Some(n) => Ok(n),
            None => fail("a number is too large"),
        },
        _ => fail(format!("{} does not go with \"%d\"", value.type_name())),
    }
}
