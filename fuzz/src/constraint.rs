//! Any schema, expression or grammar is refused with a sentence, or leads to masks that allow something until the text is at its
//! end, in bounded time and memory.
//!
//! The input is a byte that says what it is, the text, a trigger and choices of tokens, with a NUL between them.

use std::sync::{Arc, OnceLock};

use ember::constrain::{Constraint, ConstraintOptions, Grammar, Limits, Mask, Progress, Trigger, Vocabulary};
use ember::gguf::Gguf;
use ember::tokenizer::Tokenizer;

/// Every byte, some words, and what ends a text.
fn vocabulary() -> &'static Arc<Vocabulary> {
    static VOCABULARY: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/models/ember-tales.gguf");
        let model = if std::path::Path::new(model).exists() {
            model.to_owned()
        } else {
            concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/models/ember-tales.gguf").to_owned()
        };
        let file = Gguf::open(std::path::Path::new(&model)).expect("the bundled model");
        let tokenizer = Tokenizer::from_gguf(file.metadata()).expect("its tokenizer");
        Arc::new(Vocabulary::new(&Arc::new(tokenizer)).expect("it can be arranged"))
    })
}

/// Compiles it and follows it.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let [text, trigger, choices] = super::parts(rest);
    let (Some(text), Some(trigger)) = (super::text(text), super::text(trigger)) else { return };
    let texts: Vec<&str> = text.split('|').collect();
    let grammar = match kind % 5 {
        0 => Grammar::JsonSchema(text),
        1 => Grammar::Regex(text),
        2 => Grammar::Lark(text),
        3 => Grammar::Choices(&texts),
        _ => Grammar::JsonObject,
    };
    // A tenth of the usual, so that many inputs can be tried.
    let limits = Limits {
        grammar: 20_000,
        compile: 100_000,
        mask: 20_000,
        items: 5_000,
        states: 5_000,
        ..Limits::default()
    };
    let triggers = if trigger.is_empty() { vec![] } else { vec![Trigger::Text(trigger.into())] };
    let options = ConstraintOptions {
        repeat: kind & 32 != 0,
        whitespace: usize::from(kind >> 6),
        triggers,
        limits,
        ..ConstraintOptions::default()
    };
    let constraint = match Constraint::new(vocabulary(), grammar, &options) {
        Ok(constraint) => constraint,
        Err(e) => return assert!(!e.message().is_empty() && !e.message().contains("panic"), "{e}"),
    };
    let mut run = constraint.start();
    let mut ids = Vec::new();
    for &choice in choices.iter().take(64) {
        let allowed: Vec<u32> = match run.mask() {
            Ok(Mask::Free) => vec![u32::from(choice)],
            Ok(Mask::Deny(ids)) => {
                (0..vocabulary().len() as u32).filter(|id| ids.binary_search(id).is_err()).collect()
            }
            Ok(Mask::Allow(words)) => {
                let is_set = |id: &u32| words[*id as usize / 32] >> (id % 32) & 1 == 1;
                (0..vocabulary().len() as u32).filter(is_set).collect()
            }
            // A limit was reached.
            Err(e) => return assert!(!e.message().is_empty() && !e.message().contains("panic"), "{e}"),
        };
        let id = allowed[usize::from(choice) % allowed.len()];
        if vocabulary().is_end(id) {
            assert!(run.progress() != Progress::Unfinished, "a text ends where it may not");
            break;
        }
        let forced = run.forced(4);
        assert!(forced.first().is_none_or(|first| allowed == [*first]), "{forced:?} of {allowed:?}");
        run.accept(id);
        ids.push(id);
    }
    // A copy and a second text get the same tokens.
    let mut copy = run.clone();
    assert_eq!(format!("{:?}", copy.mask()), format!("{:?}", run.mask()));
    run.reset();
    let mut fresh = constraint.start();
    assert_eq!(format!("{:?}", run.mask()), format!("{:?}", fresh.mask()));
    ids.iter().for_each(|&id| fresh.accept(id));
    assert_eq!(format!("{:?}", copy.mask()), format!("{:?}", fresh.mask()));
}
