//! Values in other notations converted to JSON: Python's, and Gemma's with marks for quotes.
#![forbid(unsafe_code)]

use super::super::walk::{MOST_NESTED, escape, quoted, whole_value};

/// The JSON of a value in Python's notation, which may also be JSON. A quotation mark ends a string only where one can end:
/// templates write strings without escapes.
pub(in super::super) fn python(text: &str) -> Result<String, String> {
    Literal { text, at: 0, quote: None, out: String::new() }.whole()
}

/// The JSON of a value whose strings stand between two `quote`.
pub(in super::super) fn with_quotes(text: &str, quote: &'static str) -> Result<String, String> {
    Literal { text, at: 0, quote: Some(quote), out: String::new() }.whole()
}

/// Whether a string may end before `c`.
pub(in super::super) fn follows_string(c: char) -> bool {
    matches!(c, ',' | ')' | ']' | '}' | ':')
}

struct Literal<'t> {
    text: &'t str,
    at: usize,
    quote: Option<&'static str>,
    out: String,
}

impl<'t> Literal<'t> {
    fn whole(mut self) -> Result<String, String> {
        self.value(0)?;
        self.space();
        match self.rest().is_empty() {
            true => Ok(self.out),
            false => Err(format!("{:.40?} follows a value", self.rest())),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn accept(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<(), String> {
        if depth > MOST_NESTED {
            return Err("values are nested too deeply".into());
        }
        self.space();
        if let Some(quote) = self.quote
            && self.accept(quote)
        {
            let inner = self.marked(quote)?;
            self.out.push_str(&quoted(inner));
            return Ok(());
        }
        match self.rest().chars().next() {
            Some('{') => self.list('}', depth),
            Some('[') => self.list(']', depth),
            Some('(') if self.quote.is_none() => self.list(')', depth),
            Some(c @ ('"' | '\'')) => {
                self.at += 1;
                self.string(c)
            }
            _ => self.word(),
        }
    }

    /// Text up to the next quotation mark of the format.
    fn marked(&mut self, quote: &str) -> Result<&'t str, String> {
        let n = self.rest().find(quote).ok_or("a string has no end")?;
        let inner = &self.rest()[..n];
        self.at += n + quote.len();
        Ok(inner)
    }

    fn list(&mut self, close: char, depth: usize) -> Result<(), String> {
        self.at += 1;
        let is_object = close == '}';
        self.out.push(if is_object { '{' } else { '[' });
        let mut n = 0;
        loop {
            self.space();
            if self.rest().starts_with(close) {
                self.at += 1;
                break;
            }
            if n > 0 {
                if !self.accept(",") {
                    return Err("a comma is missing between two values".into());
                }
                self.space();
                if self.rest().starts_with(close) {
                    continue;
                }
                self.out.push_str(", ");
            }
            if is_object {
                self.key()?;
                self.out.push_str(": ");
            }
            self.value(depth + 1)?;
            n += 1;
        }
        self.out.push(if is_object { '}' } else { ']' });
        Ok(())
    }

    fn key(&mut self) -> Result<(), String> {
        let rest = self.rest();
        match (self.quote, rest.chars().next()) {
            (Some(quote), _) if rest.starts_with(quote) => {
                self.at += quote.len();
                let key = self.marked(quote)?;
                self.out.push_str(&quoted(key));
            }
            (_, Some(c @ ('"' | '\''))) => {
                self.at += 1;
                self.string(c)?;
            }
            _ => {
                let n = rest.find(':').ok_or("a key has no colon after it")?;
                self.out.push_str(&quoted(rest[..n].trim()));
                self.at += n;
            }
        }
        self.space();
        match self.accept(":") {
            true => Ok(()),
            false => Err("a key has no colon after it".into()),
        }
    }

    /// The inside of a string in quotation marks, with Python's escapes.
    fn string(&mut self, quote: char) -> Result<(), String> {
        self.out.push('"');
        loop {
            let rest = self.rest();
            let n = rest.find([quote, '\\']).ok_or("a string has no end")?;
            escape(&rest[..n], &mut self.out);
            self.at += n + 1;
            if rest[n..].starts_with('\\') {
                self.escape()?;
                continue;
            }
            match self.rest().trim_start().chars().next() {
                Some(c) if !follows_string(c) => escape(quote.encode_utf8(&mut [0; 4]), &mut self.out),
                _ => break,
            }
        }
        self.out.push('"');
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let c = self.rest().chars().next().ok_or("a string has no end")?;
        self.at += c.len_utf8();
        let n_digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        let plain = match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '\\' | '\'' | '"' | '/' => c,
            _ if n_digits > 0 => match self.code(n_digits) {
                Some(c) => c,
                None => return self.unknown(c),
            },
            _ => return self.unknown(c),
        };
        escape(plain.encode_utf8(&mut [0; 4]), &mut self.out);
        Ok(())
    }

    /// An unknown escape stands for itself, as in Python.
    fn unknown(&mut self, c: char) -> Result<(), String> {
        self.out.push_str("\\\\");
        escape(c.encode_utf8(&mut [0; 4]), &mut self.out);
        Ok(())
    }

    fn code(&mut self, n_digits: usize) -> Option<char> {
        let number = |text: Option<&str>| {
            let text = text.filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u32::from_str_radix(text, 16).ok()
        };
        let code = number(self.rest().get(..n_digits))?;
        if let Some(c) = char::from_u32(code) {
            self.at += n_digits;
            return Some(c);
        }
        // JSON writes characters beyond 16 bits as two halves.
        let low = number(self.rest()[n_digits..].strip_prefix("\\u").and_then(|t| t.get(..4)))?;
        let pair = [u16::try_from(code).ok()?, u16::try_from(low).ok()?];
        let c = char::decode_utf16(pair).next()?.ok()?;
        self.at += n_digits + 6;
        Some(c)
    }

    /// A number or a name for a value.
    fn word(&mut self) -> Result<(), String> {
        let is_end = |c: char| c.is_whitespace() || follows_string(c);
        let n = self.rest().find(is_end).unwrap_or(self.rest().len());
        let word = &self.rest()[..n];
        self.at += n;
        let json = match word {
            "" => None,
            "None" | "null" => Some("null".to_owned()),
            "True" | "true" => Some("true".to_owned()),
            "False" | "false" => Some("false".to_owned()),
            number => whole_value(number).ok().or_else(|| python_number(number)),
        };
        self.out.push_str(&json.ok_or_else(|| format!("{word:.40?} is no value"))?);
        Ok(())
    }
}

/// Numbers in Python's forms that JSON does not have: `1_000`, `.5`, `5.`, `+1`.
fn python_number(text: &str) -> Option<String> {
    let plain: String = text.strip_prefix('+').unwrap_or(text).chars().filter(|c| *c != '_').collect();
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |d| ("-", d));
    let digits = if digits.starts_with('.') { format!("0{digits}") } else { digits.to_owned() };
    let digits = digits.strip_suffix('.').map_or(digits.clone(), |d| format!("{d}.0"));
    whole_value(&format!("{sign}{digits}")).ok().filter(|n| n.ends_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn values_of_python_become_json() {
        for (python_text, json) in [
            ("None", "null"),
            (" True ", "true"),
            ("-1.5e3", "-1.5e3"),
            ("1_000", "1000"),
            (".5", "0.5"),
            ("'a'", "\"a\""),
            (r#"'it\'s "q"'"#, r#""it's \"q\"""#),
            ("'it's fine'", "\"it's fine\""),
            ("\"a\\nb\\q\\u00e9\\ud83d\\ude00\\x41\"", "\"a\\nb\\\\qé😀A\""),
            (
                "[1, 'a', (2, 3), {'k': False, \"j\": null}, {}, [], ]",
                "[1, \"a\", [2, 3], {\"k\": false, \"j\": null}, {}, []]",
            ),
        ] {
            assert_eq!(python(python_text).as_deref(), Ok(json), "{python_text}");
        }
        for bad in ["", "a", "'a", "[1", "[1 2]", "{1}", "{'a' 1}", "1 2", "nan", "--1", "'\\", "[\"a]"] {
            assert!(python(bad).is_err(), "{bad}");
        }
        assert!(python(&"[".repeat(100_000)).unwrap_err().contains("deep"));
    }

    #[test]
    fn values_with_marks_for_quotes_become_json() {
        let text = r#"{k:<|"|>a "b" {,}<|"|>,<|"|>j x<|"|>:[1,true,None],o:{}}"#;
        assert_eq!(
            with_quotes(text, "<|\"|>").as_deref(),
            Ok(r#"{"k": "a \"b\" {,}", "j x": [1, true, null], "o": {}}"#)
        );
        assert!(with_quotes("<|\"|>a", "<|\"|>").is_err());
    }
}
