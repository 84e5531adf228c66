//! Expressions of a `tokenizer.json` are Oniguruma's, in the syntax of Ruby
//! (<https://github.com/kkos/oniguruma/blob/master/doc/RE>). Syntax with another meaning in the `regex` crate is translated; the
//! rest stays.
#![forbid(unsafe_code)]

use std::borrow::Cow;

/// POSIX brackets, which are Unicode properties in Oniguruma and ASCII in the `regex` crate.
const BRACKETS: [(&str, &str); 10] = [
    ("alnum", r"\p{Alphabetic}\p{Nd}"),
    ("alpha", r"\p{Alphabetic}"),
    ("blank", r"\p{Zs}\t"),
    ("cntrl", r"\p{Cc}"),
    ("digit", r"\p{Nd}"),
    ("lower", r"\p{Lowercase}"),
    ("punct", r"\p{P}\p{S}"),
    ("space", r"\s"),
    ("upper", r"\p{Uppercase}"),
    ("word", r"\w"),
];

/// The expression for the `regex` crate.
pub(super) fn translated(expression: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(expression.len() + 4);
    let (mut rest, mut n_classes, mut has_anchors) = (expression, 0usize, false);
    while let Some(c) = rest.chars().next() {
        let end = match c {
            '\\' => rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end),
            '[' if let Some((class, len)) = bracket(rest, n_classes) => {
                out.push_str(&class);
                rest = &rest[len..];
                continue;
            }
            '(' if n_classes == 0 && rest.starts_with("(?") => {
                let len =
                    2 + rest[2..].bytes().take_while(|b| matches!(b, b'i' | b'm' | b'x' | b'-')).count();
                let is_flags = matches!(rest.as_bytes().get(len), Some(b')' | b':'));
                // The dot matches a line end too.
                let flags = if is_flags { rest[..len].replace('m', "s") } else { rest[..len].to_owned() };
                out.push_str(&flags);
                rest = &rest[len..];
                continue;
            }
            // A bracket that comes first is a member of the class.
            '[' => {
                let after = rest[1..].strip_prefix('^').unwrap_or(&rest[1..]);
                rest.len() - after.strip_prefix(']').unwrap_or(after).len()
            }
            _ => c.len_utf8(),
        };
        match c {
            '[' => n_classes += 1,
            ']' => n_classes = n_classes.saturating_sub(1),
            // Beginning and end of each line, always.
            '^' | '$' => has_anchors |= n_classes == 0,
            _ => {}
        }
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    match (has_anchors, out == expression) {
        (true, _) => Cow::Owned(["(?m)", &out].concat()),
        (false, true) => Cow::Borrowed(expression),
        (false, false) => Cow::Owned(out),
    }
}

/// The translation of a POSIX bracket at the beginning of `text`, within `n_classes` classes, and its length.
fn bracket(text: &str, n_classes: usize) -> Option<(String, usize)> {
    let name = text.strip_prefix("[:").filter(|_| n_classes > 0)?;
    let (name, _) = name.split_once(":]")?;
    let (name, is_negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let (_, class) = BRACKETS.iter().find(|(known, _)| *known == name)?;
    let class = if is_negated { format!("[^{class}]") } else { (*class).to_owned() };
    Some((class, name.len() + 4 + usize::from(is_negated)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::*;
    use crate::tokenizer::effort::Effort;
    use crate::tokenizer::expression::Expressions;

    fn matches(expression: &str, text: &str) -> Vec<String> {
        let matcher = Expressions::new().compile(&translated(expression)).unwrap();
        let mut effort = Effort::new(text.len());
        let (mut at, mut found) = (0, Vec::new());
        while let Some((start, end)) = matcher.find(text, at, &mut effort).unwrap() {
            found.push(text[start..end].to_owned());
            at = end;
        }
        found
    }

    /// As the Python package `tokenizers` 0.23.3 finds them.
    #[test]
    fn expressions_match_what_oniguruma_matches() {
        let cases: [(&str, &str, &[&str]); 17] = [
            ("^a", "a\nab", &["a", "a"]),
            ("a$", "a\nba\n", &["a", "a"]),
            ("(?m:a.)", "a\na", &["a\n"]),
            ("(?m)a.", "a\na", &["a\n"]),
            ("(?i-m:A.)", "a\na", &[]),
            ("(?i)AB", "ab", &["ab"]),
            ("a.", "a\n", &[]),
            (r"\Aa", "aa", &["a"]),
            (r"\^a\$", "^a$", &["^a$"]),
            ("[$^]", "a^$", &["^", "$"]),
            ("[[:alpha:]]+", "aé½ª1中", &["aé", "ª", "中"]),
            ("[[:digit:]_]+", "1٣½_a", &["1٣", "_"]),
            ("[^[:punct:]]+", "a€b!c$«d", &["a", "b", "c", "d"]),
            ("[[:^space:]]+", "a\u{2003}b\u{85}c", &["a", "b", "c"]),
            ("[[:upper:]][[:lower:]]*", "ÀÉéⅠⅰ", &["À", "Éé", "Ⅰⅰ"]),
            (r"\s+(?!\S)|[[:alnum:]]+", "a  b", &["a", " ", "b"]),
            ("[[:word:]]+", "éb ٣1_漢a．b", &["éb", "٣1_漢a", "b"]),
        ];
        for (expression, text, expected) in cases {
            assert_eq!(matches(expression, text), expected, "{expression} in {text:?}");
        }
    }

    #[test]
    fn what_means_the_same_stays() {
        for expression in [
            r"[^\r\n\p{L}\p{N}]?\p{L}+|\s+(?!\S)",
            r"(?i:'s|'t)|[^\s]+",
            r"\[:alpha:]",
            "[]^a]",
            "a(?=b)(?<!c)",
            r"\",
            "[",
            "",
        ] {
            assert!(matches!(translated(expression), Cow::Borrowed(_)), "{expression}");
        }
    }
}
