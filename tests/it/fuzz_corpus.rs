//! Every file of the corpora in `fuzz/corpus`, which fuzzing found, goes through its target: the same code that is fuzzed.
#![cfg(all(feature = "chat", feature = "constraints", feature = "hf", not(target_family = "wasm")))]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(missing_docs, reason = "the targets say what they do at their head")]

#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

use std::path::Path;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

#[test]
fn every_input_of_the_corpora_is_harmless() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in fuzz::TARGETS {
        let mut n_files = 0;
        for entry in std::fs::read_dir(corpora.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let outcome = std::panic::catch_unwind(|| target(&std::fs::read(&path).unwrap()));
            assert!(outcome.is_ok(), "{}", path.display());
            n_files += 1;
        }
        assert!(n_files >= 5, "the corpus of {name} is there");
    }
}

/// Random inputs. `EMBER_FUZZ_INPUTS` says how many for each target; `make fuzz` looks for such that come further.
#[test]
fn inputs_by_chance_are_harmless() {
    let n: u64 = std::env::var("EMBER_FUZZ_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    for (name, target) in fuzz::TARGETS {
        for seed in 0..n {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut input = vec![0; random.random_range(2..60)];
            random.fill(&mut input[..]);
            // So that the inputs of a target begin with every byte.
            input[0] = seed as u8;
            let outcome = std::panic::catch_unwind(|| target(&input));
            assert!(outcome.is_ok(), "{name}: {input:?}");
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut found: Vec<_> = std::fs::read_dir(corpora)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, fuzz::TARGETS.map(|(name, _)| name));
}
