//! The vocabulary files and test vectors that llama.cpp's source carries (`make models` fetches them): every
//! vocabulary loads, and every vector gives the same tokens. The vectors were written by the models' own Hugging Face
//! tokenizers (llama.cpp, `convert_hf_to_gguf_update.py`).
#![cfg(feature = "hf")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop at the first surprise, and say it"
)]

use crate::common;

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

/// Cases of Gemma 3 that other programs have got wrong.
#[test]
fn gemma3_by_both_sources() {
    let spaces = [" ".repeat(40), "hello".into()].concat();
    let cases: [(&str, &[u32]); 7] = [
        ("Derinkuyu is an underground city.", &[17361, 961, 78658, 563, 614, 26407, 3207, 236761]),
        (" hello", &[29104]),
        ("hello", &[23391]),
        ("  hello", &[138, 23391]),
        ("   hello", &[139, 23391]),
        ("回転行列", &[57364, 167089]),
        (&spaces, &[167, 145, 23391]),
    ];
    let gguf = Gguf::open(&common::real_model("gemma-3-270m.Q4_K_M.gguf")).unwrap();
    let json = std::fs::read(common::real_model("tokenizers/gemma3/tokenizer.json")).unwrap();
    let config = std::fs::read(common::real_model("tokenizers/gemma3/tokenizer_config.json")).unwrap();
    let sources =
        [Tokenizer::from_gguf(gguf.metadata()).unwrap(), Tokenizer::from_json(&json, Some(&config)).unwrap()];
    for tokens in &sources {
        for (text, ids) in &cases {
            assert_eq!(tokens.encode(text, false, false).unwrap(), *ids, "{text:?}");
            assert_eq!(tokens.decode(ids, false).unwrap(), text.as_bytes());
        }
        assert_eq!(tokens.encode("hello", true, false).unwrap(), [2, 23391]);
        assert!(tokens.chat_template().is_none_or(|template| template.contains("<start_of_turn>")));
        // By name, and by the roles that each source gives.
        assert_eq!((tokens.bos(), tokens.pad(), tokens.unk()), (Some(2), Some(0), Some(3)));
        assert!(tokens.is_eog(1) && tokens.is_eog(106) && tokens.is_hidden(105));
    }
}

/// Prints how long tokenizers take to load: `cargo test --release --test it -- --ignored --nocapture tokenizer_vocabs::`.
#[test]
#[ignore = "measures"]
fn load_times() {
    let best = |load: &dyn Fn()| {
        let times = (0..5).map(|_| {
            let start = std::time::Instant::now();
            load();
            start.elapsed()
        });
        times.min().unwrap()
    };
    let files =
        ["gemma-3-270m.Q4_K_M.gguf", "vocabs/ggml-vocab-gemma-4.gguf", "vocabs/ggml-vocab-llama-bpe.gguf"];
    for file in files.iter().chain(&["vocabs/ggml-vocab-nomic-bert-moe.gguf", "vocabs/ggml-vocab-qwen2.gguf"])
    {
        let gguf = Gguf::open(&common::real_model(file)).unwrap();
        let time = best(&|| drop(Tokenizer::from_gguf(gguf.metadata()).unwrap()));
        println!("{file}: {time:.1?}");
    }
    for family in ["gemma3", "llama3_2", "qwen3", "gptoss"] {
        let json = std::fs::read(common::real_model(&format!("tokenizers/{family}/tokenizer.json"))).unwrap();
        let time = best(&|| drop(Tokenizer::from_json(&json, None).unwrap()));
        println!("{family}/tokenizer.json, {} MB: {time:.1?}", json.len() >> 20);
    }
}
