//! Breakers of DRY: texts that interrupt a passage, as the runs of tokens that may hold them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::tokenizer::Tokenizer;

/// The longest text.
const MOST_BYTES: usize = 40;
/// The most tokens after the one in which a text begins.
const MOST_TAIL: usize = 20;
/// The most texts: each is looked for in every token.
const MOST_TEXTS: usize = 128;
/// The breakers of DRY's author.
pub const DEFAULT_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// The runs of tokens in which one of `texts` stands or begins: every token that has the text, alone; and every token that ends
/// with a beginning of the text, followed by the tokens of the rest.
///
/// # Errors
/// `InvalidArgument` for a text that is empty or too long, and for too many.
pub fn breakers(tokenizer: &Tokenizer, texts: &[&str]) -> Result<Vec<Vec<u32>>> {
    let mut runs = Vec::new();
    let mut different = BTreeSet::new();
    for (i, text) in texts.iter().enumerate() {
        if text.is_empty() || text.len() > MOST_BYTES {
            return Err(Error::InvalidArgument(format!(
                "sequence breaker {i} must have 1 to {MOST_BYTES} bytes, got {} ({})",
                text.len(),
                quoted(text.as_bytes())
            )));
        }
        different.insert(*text);
        if different.len() > MOST_TEXTS {
            return Err(Error::InvalidArgument(format!(
                "there may be {MOST_TEXTS} different sequence breakers at most, got more of {}",
                texts.len()
            )));
        }
    }
    for text in different {
        let text = text.as_bytes();
        // The tokens of the text after its first `n` bytes.
        let rest = |n: usize| -> Result<Vec<u32>> {
            let mut tail = tokenizer.encode_bytes(&text[n..], false, false)?;
            tail.truncate(MOST_TAIL);
            Ok(tail)
        };
        let tails: Vec<Vec<u32>> = (1..text.len()).map(rest).collect::<Result<_>>()?;
        for token in 0..tokenizer.n_vocab() as u32 {
            let bytes = tokenizer.token_bytes(token)?;
            if bytes.windows(text.len()).any(|part| part == text) {
                runs.push(vec![token]);
                continue;
            }
            for n in (1..text.len()).filter(|&n| bytes.ends_with(&text[..n])) {
                runs.push([&[token], &tails[n - 1][..]].concat());
            }
        }
    }
    Ok(runs)
}
