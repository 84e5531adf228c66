//! JSON read byte by byte: finds the end of a value, and refuses other text.
#![forbid(unsafe_code)]

/// The deepest nesting of values.
pub(super) const MOST_NESTED: usize = 128;

/// The role of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// A part of the value, which goes on.
    Part,
    /// The last byte of the value.
    End,
    /// After the value, and not taken: numbers end that way.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    After,
    String,
    Escape,
    /// Digits of `\u` that are still missing.
    Hex(u8),
    /// The second half of a surrogate pair is missing: its backslash, its `u`.
    Half,
    HalfEscape,
    Number(Part),
    /// The missing bytes of `true`, `false` or `null`.
    Word(&'static [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Letter,
    Sign,
    Exponent,
}

/// Reads one value.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    state: State,
    /// For each open value whether it is an object.
    open: Vec<bool>,
    is_key: bool,
    unit: u16,
    high: bool,
}

impl Walk {
    /// Before a value.
    pub(super) fn new() -> Walk {
        Walk { state: State::Value, open: Vec::new(), is_key: false, unit: 0, high: false }
    }

    /// Reads the next byte, and writes the bytes of the value to `out`. A control character inside a string, which JSON forbids,
    /// is written as an escape.
    ///
    /// # Errors
    /// Why the text is not JSON.
    pub(super) fn step(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<Walked, &'static str> {
        let walked = self.walk(byte)?;
        match (walked, self.state) {
            (Walked::After, _) => {}
            (_, State::String) if byte < 0x20 => match byte {
                b'\n' => out.extend(b"\\n"),
                b'\r' => out.extend(b"\\r"),
                b'\t' => out.extend(b"\\t"),
                _ => out.extend(format!("\\u{byte:04x}").bytes()),
            },
            _ => out.push(byte),
        }
        Ok(walked)
    }

    fn walk(&mut self, byte: u8) -> Result<Walked, &'static str> {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.state {
            State::Value
            | State::FirstElement
            | State::FirstKey
            | State::Key
            | State::Colon
            | State::After
                if is_space => {}
            State::FirstElement if byte == b']' => return Ok(self.close()),
            State::FirstKey if byte == b'}' => return Ok(self.close()),
            State::Value | State::FirstElement => self.begin(byte)?,
            State::FirstKey | State::Key => match byte {
                b'"' => (self.state, self.is_key) = (State::String, true),
                _ => return Err("an object has something other than a key in quotation marks"),
            },
            State::Colon => match byte {
                b':' => self.state = State::Value,
                _ => return Err("a key has no colon after it"),
            },
            State::After => match (byte, self.open.last()) {
                (b',', Some(true)) => self.state = State::Key,
                (b',', Some(false)) => self.state = State::Value,
                (b'}', Some(true)) | (b']', Some(false)) => return Ok(self.close()),
                _ => return Err("something other than a comma or the end follows a value"),
            },
            State::String => match byte {
                b'"' if self.is_key => (self.state, self.is_key) = (State::Colon, false),
                b'"' => return Ok(self.after()),
                b'\\' => self.state = State::Escape,
                _ => {}
            },
            State::Escape => match byte {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.state = State::String,
                b'u' => (self.state, self.unit, self.high) = (State::Hex(4), 0, false),
                _ => return Err("a string has an escape that JSON does not know"),
            },
            State::Half if byte == b'\\' => self.state = State::HalfEscape,
            State::HalfEscape if byte == b'u' => (self.state, self.unit) = (State::Hex(4), 0),
            State::Half | State::HalfEscape => return Err("a string has half a surrogate pair"),
            State::Hex(n) => return self.hex(byte, n),
            State::Number(part) => return self.number(byte, part),
            State::Word(rest) => match rest.split_first() {
                Some((&first, rest)) if first == byte => match rest.is_empty() {
                    true => return Ok(self.after()),
                    false => self.state = State::Word(rest),
                },
                _ => return Err("a value is none of JSON's"),
            },
        }
        Ok(Walked::Part)
    }

    fn begin(&mut self, byte: u8) -> Result<(), &'static str> {
        self.state = match byte {
            b'{' | b'[' if self.open.len() >= MOST_NESTED => return Err("values are nested too deeply"),
            b'{' => {
                self.open.push(true);
                State::FirstKey
            }
            b'[' => {
                self.open.push(false);
                State::FirstElement
            }
            b'"' => State::String,
            b'-' => State::Number(Part::Minus),
            b'0' => State::Number(Part::Zero),
            b'1'..=b'9' => State::Number(Part::Whole),
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            _ => return Err("a value is none of JSON's"),
        };
        Ok(())
    }

    fn close(&mut self) -> Walked {
        self.open.pop();
        self.after()
    }

    fn after(&mut self) -> Walked {
        self.state = State::After;
        if self.open.is_empty() { Walked::End } else { Walked::Part }
    }

    fn hex(&mut self, byte: u8, n: u8) -> Result<Walked, &'static str> {
        let digit = (byte as char).to_digit(16).ok_or("a string has an escape that JSON does not know")?;
        self.unit = (self.unit << 4) | digit as u16;
        self.state = match (n, self.unit) {
            (2.., _) => State::Hex(n - 1),
            (_, 0xdc00..=0xdfff) if self.high => State::String,
            (_, 0xd800..=0xdbff) if !self.high => {
                self.high = true;
                State::Half
            }
            (_, 0xd800..=0xdfff) => return Err("a string has half a surrogate pair"),
            _ if self.high => return Err("a string has half a surrogate pair"),
            _ => State::String,
        };
        Ok(Walked::Part)
    }

    fn number(&mut self, byte: u8, part: Part) -> Result<Walked, &'static str> {
        use Part::*;
        let next = match (part, byte) {
            (Minus, b'0') => Zero,
            (Minus | Whole, b'0'..=b'9') => Whole,
            (Zero | Whole, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Whole | Fraction, b'e' | b'E') => Letter,
            (Letter, b'+' | b'-') => Sign,
            (Letter | Sign | Exponent, b'0'..=b'9') => Exponent,
            (Zero | Whole | Fraction | Exponent, _) => {
                self.state = State::After;
                return if self.open.is_empty() { Ok(Walked::After) } else { self.walk(byte) };
            }
            _ => return Err("a number is not one of JSON's"),
        };
        self.state = State::Number(next);
        Ok(Walked::Part)
    }

    /// Whether the text so far is a whole value: an ended one, or a number.
    pub(super) fn is_whole(&self) -> bool {
        use Part::{Exponent, Fraction, Whole, Zero};
        let number = matches!(self.state, State::Number(Zero | Whole | Fraction | Exponent));
        self.open.is_empty() && (number || self.state == State::After)
    }
}

/// The value of `text`, without white space around it, or why it is none.
pub(super) fn whole_value(text: &str) -> Result<String, &'static str> {
    let (mut walk, mut out) = (Walk::new(), Vec::new());
    let text = text.trim();
    for (i, byte) in text.bytes().enumerate() {
        match walk.step(byte, &mut out)? {
            Walked::Part => {}
            Walked::End if i + 1 == text.len() => {}
            Walked::End | Walked::After => return Err("something follows the value"),
        }
    }
    match walk.is_whole() {
        true => String::from_utf8(out).map_err(|_| "the text is not UTF-8"),
        false => Err("the value has no end"),
    }
}

/// Writes `text` as the inside of a JSON string.
pub(super) fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
}

/// `text` as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape(text, &mut out);
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn a_value_is_what_serde_json_takes_for_one() {
        let words = [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "u", "d83d", "\\ude00", "00e9", "a", "1", "0", "-",
            ".", "e", "+", "true", "null", "false", " ", "\"k\"", "\"k\":", "é", "x",
        ];
        let mut random: u64 = 7;
        let mut n_good = 0;
        for _ in 0..400_000 {
            let mut text = String::new();
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            for _ in 0..1 + (random >> 33) % 7 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                text.push_str(words[(random >> 33) as usize % words.len()]);
            }
            let want = serde_json::from_str::<serde_json::Value>(&text);
            let got = whole_value(&text);
            assert_eq!(got.is_ok(), want.is_ok(), "{text:?}: {got:?} {want:?}");
            n_good += usize::from(got.is_ok());
        }
        assert!(n_good > 1000, "{n_good}");
    }

    #[test]
    fn control_characters_become_escapes_and_nesting_is_bounded() {
        assert_eq!(whole_value("\"a\nb\u{1}\""), Ok("\"a\\nb\\u0001\"".into()));
        assert!(whole_value(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
        assert!(whole_value(&"[".repeat(129)).unwrap_err().contains("deep"));
        assert_eq!(quoted("a\"\\\n\u{7}é"), "\"a\\\"\\\\\\n\\u0007é\"");
    }
}
