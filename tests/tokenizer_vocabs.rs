//! The vocabulary files and test vectors that llama.cpp's source carries (`make models` fetches them): every
//! vocabulary loads, and every vector gives the same tokens. The vectors were written by the models' own Hugging Face
//! tokenizers (llama.cpp, `convert_hf_to_gguf_update.py`).
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod common;

use ember::gguf::Gguf;
use ember::tokenizer::Tokenizer;

/// The vocabularies with vectors.
const WITH_VECTORS: [&str; 15] = [
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
];

/// The others.
const WITHOUT_VECTORS: [&str; 4] = ["aquila", "baichuan", "gpt-neox", "nomic-bert-moe"];

fn open(name: &str) -> Tokenizer {
    let file = common::real_model(&format!("vocabs/ggml-vocab-{name}.gguf"));
    let gguf = Gguf::open(&file).unwrap();
    Tokenizer::from_gguf(gguf.metadata()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn every_vector_gives_the_same_tokens() {
    let mut wrong = Vec::new();
    for name in WITH_VECTORS {
        let tokens = open(name);
        let read = |end: &str| {
            let file = common::real_model(&format!("vocabs/ggml-vocab-{name}.gguf.{end}"));
            std::fs::read_to_string(file).unwrap()
        };
        let (texts, ids) = (read("inp"), read("out"));
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        let ids: Vec<&str> = ids.lines().collect();
        // The last text ends in the separator of the next one, which is not there.
        let texts = &texts[..ids.len()];
        assert!(texts.len() >= 40, "{name} has {} texts", texts.len());
        for (text, ids) in texts.iter().zip(ids) {
            let expected: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let found = tokens.encode(text, false, false).unwrap();
            if found != expected {
                wrong.push(format!("{name}: {text:?}\n   gives {found:?}\nexpected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_vocabulary_loads_and_brings_text_back() {
    let text = "Hello, world! 123 it's  two\nlines";
    for name in WITH_VECTORS.iter().chain(&WITHOUT_VECTORS) {
        let tokens = open(name);
        let ids = tokens.encode(text, false, false).unwrap();
        let decoded = String::from_utf8(tokens.decode(&ids, false).unwrap()).unwrap();
        match *name {
            // These fold the case and put spaces between words, or fold white space.
            "bert-bge" => assert_eq!(decoded, "hello , world ! 123 it ' s two lines"),
            "nomic-bert-moe" => assert_eq!(decoded, "Hello, world! 123 it's two lines"),
            _ => assert_eq!(decoded, text, "{name}"),
        }
    }
}
