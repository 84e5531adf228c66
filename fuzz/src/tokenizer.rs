//! Any `tokenizer.json` or vocabulary of a GGUF file is a tokenizer or an error, and a tokenizer takes any text.
//!
//! The input is a `tokenizer.json`, a `tokenizer_config.json` and a text, with a NUL between them; or, when it begins with
//! "GGUF", a file with a vocabulary, which gets a fixed text.

use ember::gguf::Gguf;
use ember::tokenizer::Tokenizer;

/// Spaces, digits, capitals, letters in two forms, special tokens, a byte-fallback, emoji joined by code points.
const TEXT: &[u8] =
    "  The <s>quick</s> fox\t\r\n1234 don't DON'T É e\u{301} <0x41>▁x 一二 👩\u{200d}🚀 \u{0} ".as_bytes();

/// Builds the tokenizer and uses it.
pub fn run(bytes: &[u8]) {
    if bytes.starts_with(b"GGUF") {
        let Ok(file) = Gguf::from_bytes(bytes, "fuzz") else { return };
        if let Ok(tokenizer) = Tokenizer::from_gguf(file.metadata()) {
            exercise(&tokenizer, TEXT);
        }
        return;
    }
    let [json, config, text] = super::parts(bytes);
    let config = (!config.is_empty()).then_some(config);
    let text = if text.is_empty() { TEXT } else { text };
    match Tokenizer::from_json(json, config) {
        Ok(tokenizer) => exercise(&tokenizer, text),
        Err(e) => assert!(!e.message().is_empty()),
    }
}

/// Encodes and decodes `text`, and calls every getter.
pub fn exercise(tokenizer: &Tokenizer, text: &[u8]) {
    let n = tokenizer.n_vocab();
    for (add_special, parse_special) in [(false, false), (true, true)] {
        // Some parts of a tokenizer.json fail on some texts.
        let Ok(ids) = tokenizer.encode_bytes(text, add_special, parse_special) else { continue };
        assert!(ids.iter().all(|&id| (id as usize) < n), "a token that does not exist");
        let again = tokenizer.encode_bytes(text, add_special, parse_special);
        assert_eq!(again.as_deref(), Ok(&ids[..]), "the same text has the same tokens");
        for special in [false, true] {
            tokenizer.decode(&ids, special).expect("tokens that exist");
        }
    }
    let named = [tokenizer.bos(), tokenizer.eos(), tokenizer.eot(), tokenizer.pad(), tokenizer.unk()];
    assert!(named.into_iter().flatten().chain(tokenizer.suffix().iter().copied()).all(|t| (t as usize) < n));
    for token in (0..n.min(300) as u32).chain([n as u32, u32::MAX]) {
        assert_eq!(tokenizer.token_bytes(token).is_ok(), (token as usize) < n);
        let _ = (tokenizer.is_eog(token), tokenizer.is_control(token), tokenizer.is_hidden(token));
    }
    for name in tokenizer.chat_template_names() {
        assert!(tokenizer.named_chat_template(name).is_some());
    }
}
