//! The known keys `tokenizer.ggml.*`, and warnings of others.
#![forbid(unsafe_code)]

use crate::error::{quoted, shortened};
use crate::gguf::Metadata;

/// What the names of all these keys begin with.
const PREFIX: &str = "tokenizer.ggml.";

/// Keys that are read, or that have no effect.
const KNOWN: [&str; 37] = [
    "add_bos_token",
    "add_eos_token",
    "add_sep_token",
    "add_space_prefix",
    "added_tokens",
    "bos_token_id",
    "cls_token_id",
    "eom_token_id",
    "eos_token_id",
    "eot_token_id",
    "fim_mid_token_id",
    "fim_pad_token_id",
    "fim_pre_token_id",
    "fim_rep_token_id",
    "fim_sep_token_id",
    "fim_suf_token_id",
    "mask_token_id",
    "merges",
    "middle_token_id",
    "model",
    "normalizer.lowercase",
    "normalizer.strip_accents",
    "padding_token_id",
    "pre",
    "precompiled_charsmap",
    "prefix_token_id",
    "remove_extra_whitespaces",
    "scores",
    "separator_token_id",
    "seperator_token_id",
    "suffix_token_id",
    "suppress_tokens",
    "token_type",
    "token_type_count",
    "tokens",
    "unknown_token_id",
    "vocab_size",
];

/// Tokens that the model's authors would never have chosen.
const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";

/// How many keys a warning names.
const SHOWN: usize = 8;

/// Logs which keys are ignored.
pub(super) fn warn_of_keys(meta: &Metadata) {
    if meta.get(SUPPRESSED).is_some() {
        log::warn!(
            "the key {SUPPRESSED:?} names tokens that should not be chosen; it is ignored, a sampler's biases do that"
        );
    }
    let unknown = || {
        let names = meta.iter().filter_map(|(key, _)| Some((key, key.strip_prefix(PREFIX)?)));
        names.filter(|(_, name)| !KNOWN.contains(name)).map(|(key, _)| key)
    };
    let n = unknown().count();
    let shown: Vec<String> = unknown().take(SHOWN).map(|key| shortened(quoted(key.as_bytes()))).collect();
    let more = if n > SHOWN { format!(" and {} more", n - SHOWN) } else { String::new() };
    if n > 0 {
        log::warn!("this version does not know these keys, which are ignored: {}{more}", shown.join(", "));
    }
}
