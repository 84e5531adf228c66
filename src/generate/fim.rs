//! Prompts to fill a gap in a text, in the tokens that code models were trained with.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::memory::expect_memory;
use crate::tokenizer::Tokenizer;

/// The order of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FimOrder {
    /// The order that the model's family was trained with: [`FimOrder::Psm`], and [`FimOrder::Spm`] where there is no token for
    /// the middle.
    #[default]
    Auto,
    /// Prefix, suffix, middle: each part after its token.
    Psm,
    /// Suffix, prefix, middle: each part after its token.
    Spm,
    /// The suffix first, with the tokens in another order: those of prefix and suffix, the suffix, that of the middle, the prefix
    /// (Bavarian et al. 2022, arXiv:2207.14255, "SPM variant 2").
    Spm2,
}

/// The other parts of a prompt, beside the text around the gap.
#[derive(Debug, Clone, Default)]
pub struct FimOptions {
    /// The order of the parts.
    pub order: FimOrder,
    /// The name of the repository; empty for none.
    pub repository: String,
    /// The name of the file with the gap; empty for none.
    pub file: String,
    /// Names and texts of other files, which stand before it.
    pub others: Vec<(String, String)>,
}

/// The token, or `Unsupported` that says what needs it.
fn needed(token: Option<u32>, which: &str, why: &str) -> Result<u32> {
    token.ok_or_else(|| {
        Error::Unsupported(format!("the tokenizer has no fill-in-the-middle token for {which}, which {why}"))
    })
}

/// The prompt for the text between `prefix` and `suffix`. Texts spell no control tokens.
///
/// # Errors
/// `Unsupported` names the token that the tokenizer lacks; `NoMemory`.
pub fn fim_prompt(
    tokenizer: &Tokenizer,
    prefix: &str,
    suffix: &str,
    options: &FimOptions,
) -> Result<Vec<u32>> {
    let n_bytes = options.others.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>();
    let n_bytes = n_bytes.saturating_add(prefix.len()).saturating_add(suffix.len());
    expect_memory(n_bytes.saturating_mul(tokenizer.memory_per_byte()), "tokenizing a text of this length")?;
    let marks = tokenizer.fill_in();
    let before = needed(marks.prefix, "the text before the gap", "this needs")?;
    let after = needed(marks.suffix, "the text after the gap", "this needs")?;
    let middle = || needed(marks.middle, "the middle", "this order needs");
    let order = match (options.order, marks.middle) {
        (FimOrder::Auto, None) => FimOrder::Spm,
        (FimOrder::Auto, Some(_)) => FimOrder::Psm,
        (order, _) => order,
    };
    let mut out: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.add_bos()).into_iter().collect();
    // A text after a mark is no beginning: only the text before the gap may get the space that some vocabularies put before a
    // text.
    let inside = |text: &str| tokenizer.encode_inside(text);
    if !options.repository.is_empty() {
        out.push(needed(marks.repository, "a repository", "the option for its name needs")?);
        out.extend(inside(&format!("{}\n", options.repository))?);
    }
    let of_file = || needed(marks.file, "a file", "names and texts of files need");
    for (name, text) in &options.others {
        out.push(of_file()?);
        out.extend(inside(&format!("{name}\n"))?);
        out.extend(inside(text)?);
    }
    if !options.file.is_empty() {
        out.push(of_file()?);
        out.extend(inside(&format!("{}\n", options.file))?);
    }
    let (prefix, suffix) = (tokenizer.encode(prefix, false, false)?, inside(suffix)?);
    match order {
        FimOrder::Auto | FimOrder::Psm => {
            out.push(before);
            out.extend(prefix);
            out.push(after);
            out.extend(suffix);
            out.push(middle()?);
        }
        FimOrder::Spm => {
            out.push(after);
            out.extend(suffix);
            out.push(before);
            out.extend(prefix);
            out.extend(marks.middle);
        }
        FimOrder::Spm2 => {
            out.extend([before, after]);
            out.extend(suffix);
            out.push(middle()?);
            out.extend(prefix);
        }
    }
    Ok(out)
}
