//! 100,000 random texts per family against Hugging Face's tokenizers, which `tests/oracle/tokenizer_random.py` ran: all
//! of Unicode, emoji sequences, combining marks, East Asian and Arabic text, long runs of digits and white space,
//! control characters, special tokens at every boundary, and bytes that are no UTF-8. A fixture has one hash for each
//! 1,000 texts; the texts are made here by the script's rules.
//!
//! When a chunk differs, the script's `--show FAMILY CHUNK >FILE` and this test with `EMBER_TOKENS_SHOW=FILE` print
//! which texts do.
#![cfg(feature = "hf")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise, and say it"
)]

use crate::common;

use ember::gguf::writer::Writer;
use ember::gguf::{Array, Gguf, StringArray, Value};
use ember::tokenizer::Tokenizer;
use serde_json::json;

/// The vocabulary of XLM-RoBERTa.
const UNIGRAM_FILE: &str = "vocabs/ggml-vocab-nomic-bert-moe.gguf";
const UNIGRAM: [&str; 5] = ["<s>", "</s>", "<unk>", "<mask>", "<pad>"];
const N_CHUNKS: u64 = 100;
const CHUNK: u64 = 1000;

const WORDS: &str = "the of and to in is you that it he was for on are as with his they at be this have from or one \
    had by word but not what all were we when your can said there use an each which she do how their if will up other \
    about out many then them these so some her would make like him into time has look two more write go see number no \
    way could internationalization don't I'm def return print self function const var null true false {} [] != == /* \
    */ </div>";
const SPACES: [&str; 14] = [
    " ", " ", " ", "\n", "\t", "\r\n", "\u{a0}", "\u{2003}", "\u{3000}", "\u{85}", "\u{2028}", "\u{b}",
    "\u{c}", "\r",
];
const MARKS: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const CONTRACTIONS: [&str; 17] =
    ["'s", "'S", "'re", "'LL", "'d", "'ve", "'ſ", "'T", "'m", "’s", "'Re", "''", "'x", "İ", "ß", "ﬁ", "ŉ"];
const EMOJI: [u32; 13] = [
    0x1F600, 0x1F468, 0x1F469, 0x1F467, 0x1F3F3, 0x2764, 0x1F44D, 0x1F9D1, 0x1F680, 0x1F1E9, 0x1F1EA, 0x31,
    0x23,
];
const JOINERS: [u32; 9] = [0x200D, 0xFE0F, 0x1F3FB, 0x1F3FF, 0x20E3, 0xE0067, 0xE007F, 0x200D, 0x200D];
type Ranges = &'static [(u32, u32)];
const MARKED: Ranges = &[
    (0x300, 0x36F),
    (0x483, 0x489),
    (0x591, 0x5BD),
    (0x64B, 0x65F),
    (0x93A, 0x94D),
    (0xE31, 0xE3A),
    (0x1AB0, 0x1ABD),
    (0x20D0, 0x20F0),
];
const CONTROLS: Ranges = &[
    (0, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x2064),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFD),
];
const CJK: Ranges = &[
    (0x4E00, 0x9FA5),
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
    (0xAC00, 0xD7A3),
    (0x3400, 0x4DB5),
    (0x3001, 0x3020),
    (0xFF01, 0xFF5E),
    (0x20000, 0x2A6D6),
    (0xF900, 0xFA6D),
];
const ARABIC: Ranges =
    &[(0x620, 0x64A), (0x660, 0x669), (0x6F0, 0x6F9), (0x671, 0x6D3), (0xFB50, 0xFBB1), (0xFE70, 0xFE74)];
const LETTERS: Ranges = &[
    (0xA1, 0x24F),
    (0x391, 0x3A1),
    (0x3B1, 0x3C9),
    (0x410, 0x44F),
    (0x531, 0x556),
    (0x5D0, 0x5EA),
    (0x905, 0x939),
    (0x995, 0x9A8),
    (0xE01, 0xE2E),
    (0x10A0, 0x10C5),
    (0x1E00, 0x1EFF),
    (0x1F00, 0x1F15),
    (0x2160, 0x2188),
    (0x1D400, 0x1D454),
];
const OTHERS: Ranges = &[
    (0xB2, 0xB3),
    (0xBC, 0xBE),
    (0x2010, 0x2027),
    (0x2070, 0x2071),
    (0x20A0, 0x20BF),
    (0x2190, 0x23FF),
    (0x2460, 0x24FF),
    (0x2581, 0x2581),
    (0xE000, 0xF8FF),
    (0x1F300, 0x1F64F),
    (0xF0000, 0xFFFFD),
    (0x100000, 0x10FFFF),
];

/// The texts, each made by SplitMix64 from its number.
struct Texts {
    words: Vec<&'static str>,
    specials: Vec<String>,
    state: u64,
}

impl Texts {
    fn new(specials: Vec<String>) -> Texts {
        Texts { words: WORDS.split_whitespace().collect(), specials, state: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn char(&mut self, ranges: Ranges) -> char {
        let (first, last) = self.one_of(ranges);
        char::from_u32(first + self.below(u64::from(last - first + 1)) as u32).unwrap()
    }

    fn run(&mut self, ranges: Ranges, longest: u64, out: &mut String) {
        (0..1 + self.below(longest)).for_each(|_| out.push(self.char(ranges)));
    }

    fn code(&mut self, choices: &[u32]) -> char {
        char::from_u32(self.one_of(choices)).unwrap()
    }

    fn letter(&mut self, first: u8, n: u64) -> char {
        char::from(first + self.below(n) as u8)
    }

    fn word(&mut self) -> &'static str {
        let index = self.below(self.words.len() as u64) as usize;
        self.words[index]
    }

    fn part(&mut self) -> String {
        let mut out = String::new();
        match self.below(18) {
            0 | 1 => out = format!(" {}", self.word()),
            2 => {
                let word = self.word();
                out.push_str(&word[..1].to_ascii_uppercase());
                out.push_str(&word[1..]);
            }
            kind @ (3 | 4) => {
                let space = self.one_of(&SPACES);
                out = space.repeat(1 + self.below(if kind == 3 { 4 } else { 60 }) as usize);
            }
            5 => (0..1 + self.below(24)).for_each(|_| out.push(self.letter(b'0', 10))),
            6 => (0..1 + self.below(6)).for_each(|_| out.push(char::from(self.one_of(MARKS.as_bytes())))),
            7 => out.push_str(self.one_of(&CONTRACTIONS)),
            8 => self.run(CONTROLS, 3, &mut out),
            9 => {
                let code = self.below(0x11_0000 - 0x800) as u32;
                out.push(char::from_u32(if code < 0xD800 { code } else { code + 0x800 }).unwrap());
            }
            10 => {
                for _ in 0..1 + self.below(4) {
                    out.push(self.code(&EMOJI));
                    out.push(self.code(&JOINERS));
                }
                out.push(self.code(&EMOJI));
            }
            11 => {
                for _ in 0..1 + self.below(3) {
                    out.push(self.letter(b'a', 26));
                    self.run(MARKED, 3, &mut out);
                }
            }
            12 => self.run(CJK, 6, &mut out),
            13 => self.run(ARABIC, 6, &mut out),
            14 => self.run(LETTERS, 6, &mut out),
            15 => self.run(OTHERS, 3, &mut out),
            _ => {
                let index = self.below(self.specials.len() as u64) as usize;
                out.push_str(&self.specials[index]);
            }
        }
        out
    }

    /// Text `number`.
    fn make(&mut self, number: u64) -> Vec<u8> {
        self.state = number.wrapping_mul(0x2545_F491_4F6C_DD1D);
        let mut parts: Vec<Vec<u8>> = (0..1 + self.below(10)).map(|_| self.part().into_bytes()).collect();
        if number % 8 == 7 {
            for _ in 0..1 + self.below(3) {
                let gap = (0..1 + self.below(4)).map(|_| 0x80 + self.below(0x80) as u8).collect();
                let place = self.below(parts.len() as u64 + 1) as usize;
                parts.insert(place, gap);
            }
        }
        parts.concat()
    }
}

fn fnv(hash: u64, number: u32) -> u64 {
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    number.to_le_bytes().iter().fold(hash, step)
}

/// Compares all texts of a family.
fn check(family: &str, tokens: &Tokenizer, specials: Vec<String>) {
    if let Some(file) = std::env::var_os("EMBER_TOKENS_SHOW") {
        return show(std::path::Path::new(&file), tokens);
    }
    let mut texts = Texts::new(specials);
    let fixture = common::fixture(&format!("tokenizer/random/{family}.txt"));
    let expected = std::fs::read_to_string(fixture).unwrap();
    assert_eq!(expected.lines().count() as u64, N_CHUNKS);
    let mut wrong = Vec::new();
    for (chunk, line) in (0..).zip(expected.lines()) {
        let mut hash = 0xCBF2_9CE4_8422_2325;
        for number in chunk * CHUNK..(chunk + 1) * CHUNK {
            let mut text = texts.make(number);
            if family == "gguf-unigram" {
                text = text.utf8_chunks().flat_map(|chunk| chunk.valid().bytes()).collect();
            }
            let parse_special = number % 2 == 0 || family == "json-unigram";
            let ids = tokens.encode_bytes(&text, false, parse_special).unwrap();
            hash = fnv(hash, ids.len() as u32);
            hash = ids.iter().fold(hash, |hash, &id| fnv(hash, id));
        }
        if format!("{hash:016x}") != line {
            wrong.push(chunk);
        }
    }
    assert!(wrong.is_empty(), "{family}: the tokens of chunks {wrong:?} differ");
}

/// Compares with the output of the script's `--show`.
fn show(file: &std::path::Path, tokens: &Tokenizer) {
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let hex = line[0].as_str().unwrap();
        let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        let text: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let ids = tokens.encode_bytes(&text, false, line[1].as_bool().unwrap()).unwrap();
        if ids != common::ids(&line[2]) {
            println!("{:?} {}\n     gives {ids:?}\n  expected {}", text.utf8_chunks(), line[1], line[2]);
        }
    }
}

/// A family by its `tokenizer.json` alone, whose added tokens all occur in the texts. (What settings beside it do is in
/// `tests/it/hf_tokenizer_fields.rs`.)
fn check_json(family: &str, folder: &str) {
    let json = std::fs::read(common::real_model(&format!("{folder}/tokenizer.json"))).unwrap();
    let tokens = Tokenizer::from_json(&json, None).unwrap_or_else(|e| panic!("{family}: {e}"));
    let file: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let added = file["added_tokens"].as_array().unwrap();
    let specials = added.iter().map(|added| added["content"].as_str().unwrap().to_owned()).collect();
    check(family, &tokens, specials);
}

/// A family by a GGUF file; these of its special tokens occur in the texts.
fn check_gguf(family: &str, file: &str, specials: &[&str]) {
    let gguf = Gguf::open(&common::real_model(file)).unwrap();
    let tokens = Tokenizer::from_gguf(gguf.metadata()).unwrap_or_else(|e| panic!("{family}: {e}"));
    check(family, &tokens, specials.iter().map(|&s| s.to_owned()).collect());
}

macro_rules! families {
    ($($family:ident)*) => {
        $(
            #[test]
            fn $family() {
                check_json(stringify!($family), concat!("tokenizers/", stringify!($family)));
            }
        )*
    };
}

families! { deepseek_v3 gemma3 gpt2 gptoss llama2 llama3_2 mistral_nemo qwen2_5 qwen3 }

#[test]
fn minilm() {
    check_json("minilm", "all-MiniLM-L6-v2");
}

/// The Unigram vocabulary of XLM-RoBERTa as a `tokenizer.json`, as the script makes it of the GGUF file.
#[test]
fn json_unigram() {
    let gguf = Gguf::open(&common::real_model(UNIGRAM_FILE)).unwrap();
    let meta = gguf.metadata();
    let texts: Vec<&str> = meta
        .require_strings("tokenizer.ggml.tokens")
        .unwrap()
        .iter()
        .map(|t| str::from_utf8(t).unwrap())
        .collect();
    let scores = meta.require_f32s("tokenizer.ggml.scores").unwrap();
    let Some(Value::Array(Array::U8(charsmap))) = meta.get("tokenizer.ggml.precompiled_charsmap") else {
        panic!("no table")
    };
    let added = UNIGRAM.map(|text| {
        let id = texts.iter().position(|t| *t == text);
        json!({ "id": id, "content": text, "lstrip": text == "<mask>", "special": true })
    });
    let vocab: Vec<(&str, f64)> = texts.into_iter().zip(scores.iter().map(|&s| f64::from(s))).collect();
    let metaspace =
        json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true });
    let file = json!({
        "added_tokens": added,
        "normalizer": { "type": "Precompiled", "precompiled_charsmap": base64(charsmap) },
        "pre_tokenizer": metaspace,
        "decoder": metaspace,
        "model": { "type": "Unigram", "unk_id": 3, "vocab": vocab },
    });
    let tokens = Tokenizer::from_json(&serde_json::to_vec(&file).unwrap(), None).unwrap();
    check("json-unigram", &tokens, UNIGRAM.map(String::from).into());
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |group: &[u8]| {
        let byte = |i| u32::from(*group.get(i).unwrap_or(&0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit =
            |i: usize| if i <= group.len() { DIGITS[(bits >> (18 - 6 * i)) as usize & 63] } else { b'=' };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    String::from_utf8(bytes.chunks(3).flat_map(digits).collect()).unwrap()
}

/// Against llama.cpp, which takes no bytes that are not UTF-8.
#[test]
fn gguf_unigram() {
    check_gguf("gguf-unigram", UNIGRAM_FILE, &UNIGRAM[..3]);
}

#[test]
fn gguf_bert() {
    let specials = ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]"];
    check_gguf("gguf-bert", "vocabs/ggml-vocab-bert-bge.gguf", &specials);
}

#[test]
fn gguf_gemma3() {
    let specials = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<h1>", "</table>", "[multimodal]"];
    check_gguf("gguf-gemma3", "gemma-3-270m.Q4_K_M.gguf", &specials);
}

#[test]
fn gguf_gpt2() {
    check_gguf("gguf-gpt2", "vocabs/ggml-vocab-gpt-2.gguf", &["<|endoftext|>"]);
}

/// No GGUF file has the vocabulary of this `tokenizer.json`, so one is written: its merges come from SentencePiece's
/// scores, which go down by one with each piece; those of runs of spaces are -1e9.
#[test]
fn gguf_llama2() {
    let file = common::read_json(&common::real_model("tokenizers/llama2/tokenizer.json"));
    let mut texts: Vec<(&str, u64)> = Vec::new();
    texts.extend(
        file["model"]["vocab"].as_object().unwrap().iter().map(|(t, id)| (&**t, id.as_u64().unwrap())),
    );
    texts.sort_by_key(|&(_, id)| id);
    let texts: Vec<&str> = texts.into_iter().map(|(text, _)| text).collect();
    let types: Vec<i32> = (0..texts.len())
        .map(|id| match id {
            0 => 2,
            1 | 2 => 3,
            3..259 => 6,
            _ => 1,
        })
        .collect();
    let mut writer = Writer::new();
    writer.set("tokenizer.ggml.model", "llama");
    writer.set("tokenizer.ggml.tokens", StringArray::copy(&texts).unwrap());
    let spaces = |text: &str| text.chars().all(|c| c == '▁');
    let score = |(id, &text): (usize, &&str)| if spaces(text) { -1e9 } else { 259.0 - id as f32 };
    writer.set("tokenizer.ggml.scores", texts.iter().enumerate().map(score).collect::<Vec<f32>>());
    writer.set("tokenizer.ggml.token_type", types);
    let gguf = Gguf::from_bytes(&writer.to_bytes().unwrap(), "llama2").unwrap();
    let tokens = Tokenizer::from_gguf(gguf.metadata()).unwrap();
    check("gguf-llama2", &tokens, ["<s>", "</s>", "<unk>"].map(String::from).into());
}

#[test]
fn gguf_llama3() {
    let specials =
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"];
    check_gguf("gguf-llama3", "vocabs/ggml-vocab-llama-bpe.gguf", &specials);
}

#[test]
fn gguf_qwen2() {
    let specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    check_gguf("gguf-qwen2", "vocabs/ggml-vocab-qwen2.gguf", &specials);
}
