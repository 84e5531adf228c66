//! The tokens on top of a model's vocabulary, as `transformers` adds them to those of a `tokenizer.json`.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::json_class::Class;
use super::json_config::{self, ConfigFile, Flags, ROLES, TokenFile};
use super::json_file::{AddedFile, TokenizerFile, VocabFile};
use crate::error::{Error, Result, quoted};
use crate::gguf::with_capacity;

/// Special, and found in the unnormalized text.
const SPECIAL: Flags =
    Flags { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
/// The purpose of memory, in error sentences.
const ADDED: &str = "the added tokens";

impl AddedFile<'_> {
    fn flags(&self) -> Flags {
        let AddedFile { single_word, lstrip, rstrip, normalized, special, .. } = *self;
        Flags { single_word, lstrip, rstrip, normalized, special }
    }
}

/// Replaces the file's added tokens by the final ones. `older` is an `added_tokens.json`.
pub(super) fn add(
    file: &mut TokenizerFile<'_>,
    config: &ConfigFile,
    class: Option<Class>,
    older: &json_config::AddedFile,
) -> Result<()> {
    let n_config = config.added_tokens_decoder.as_ref().map_or(0, |added| added.0.len());
    let n = file.added_tokens.len() + n_config + older.0.len() + config.extra().count() + ROLES.len();
    with_capacity::<(AddedFile<'_>, [usize; 8])>(n, ADDED)?;
    let wanted = wanted(file, config, class, older);
    let kept = match class {
        Some(_) => Vec::new(),
        None => std::mem::take(&mut file.added_tokens),
    };
    let mut list = List::new(kept, &file.model.vocab);
    for (content, flags) in wanted {
        list.add(content, flags);
    }
    if class == Some(Class::Qwen2) {
        for (content, _) in roles(config, class).into_iter().flatten().chain(config.extra().map(as_is)) {
            list.add(content.into(), SPECIAL);
        }
    }
    file.added_tokens = list.added;
    Ok(())
}

/// Refuses a word of the model's vocabulary that is also an added token to be found between words only: both would apply.
pub(super) fn check_words(file: &TokenizerFile<'_>) -> Result<()> {
    let mut singles =
        file.added_tokens.iter().filter(|added| added.single_word && !added.normalized).peekable();
    if singles.peek().is_none() {
        return Ok(());
    }
    let words = List::new(Vec::new(), &file.model.vocab).vocab;
    match singles.find(|added| words.contains_key(&*added.content)) {
        None => Ok(()),
        Some(added) => Err(Error::Unsupported(format!(
            "the token {} of \"added_tokens_decoder\" or \"added_tokens\" is a single word and one of the model's vocabulary, \
             which is not supported",
            quoted(added.content.as_bytes())
        ))),
    }
}

/// Refuses an unknown token that is not in the class's vocabulary.
pub(super) fn check_unk(file: &TokenizerFile<'_>) -> Result<()> {
    let Some(unk) = &file.model.settings.unk_token else { return Ok(()) };
    match List::new(Vec::new(), &file.model.vocab).vocab.contains_key(&**unk) {
        true => Ok(()),
        false => Err(Error::Format(format!(
            "the \"unk_token\" {} is not in the vocabulary of the model",
            quoted(unk.as_bytes())
        ))),
    }
}

/// A token's text and flags.
fn as_is(token: &TokenFile) -> (&str, Option<Flags>) {
    (&token.content, token.flags)
}

/// The tokens with a role, in the order of [`ROLES`].
fn roles(config: &ConfigFile, class: Option<Class>) -> [Option<(&str, Option<Flags>)>; ROLES.len()] {
    ROLES.map(|role| {
        let default = || class.and_then(|class| class.default_role(role)).map(|text| (text, None));
        config.role(role).map_or_else(default, |token| token.map(as_is))
    })
}

/// The tokens to add, in their order, with their flags.
fn wanted(
    file: &TokenizerFile<'_>,
    config: &ConfigFile,
    class: Option<Class>,
    older: &json_config::AddedFile,
) -> Vec<(Box<str>, Flags)> {
    let roles = roles(config, class);
    let named: HashSet<&str> = roles.iter().flatten().map(|(text, _)| *text).collect();
    let mut out: Vec<(Box<str>, Flags)> = match &config.added_tokens_decoder {
        Some(added) => {
            let flags = |token: &TokenFile| token.flags.unwrap_or(SPECIAL);
            added.0.iter().map(|(_, token)| (token.content.clone(), flags(token))).collect()
        }
        None => {
            let special =
                |text: &str| named.contains(text) || config.extra().any(|token| *token.content == *text);
            let mut by_id: std::collections::BTreeMap<u32, (Box<str>, Flags)> = Default::default();
            for (text, id) in &older.0 {
                let special = special(text);
                by_id
                    .insert(*id, (text.clone(), Flags { special, normalized: !special, ..Flags::default() }));
            }
            by_id.extend(
                file.added_tokens.iter().map(|added| (added.id, (Box::from(&*added.content), added.flags()))),
            );
            by_id.into_values().collect()
        }
    };
    for (text, flags) in &mut out {
        flags.special |= named.contains(&**text);
    }
    let mut seen: HashSet<Box<str>> = out.iter().map(|(text, _)| text.clone()).collect();
    if class.is_none() {
        seen.extend(file.added_tokens.iter().map(|added| Box::from(&*added.content)));
    }
    // A text may occur several times with different flags: the last ones count.
    let mut several = HashSet::new();
    for (text, flags) in roles.into_iter().flatten().chain(config.extra().map(as_is)) {
        if !seen.contains(text) && several.insert((text, flags)) {
            let mut flags = flags.unwrap_or(SPECIAL);
            flags.special |= named.contains(text);
            out.push((text.into(), flags));
        }
    }
    out
}

/// Added tokens in the making.
struct List<'f, 'v> {
    added: Vec<AddedFile<'f>>,
    places: HashMap<Box<str>, usize>,
    vocab: HashMap<&'v str, u32>,
    /// The id of the next token that the model does not have.
    next: u32,
}

impl<'f, 'v> List<'f, 'v> {
    fn new(added: Vec<AddedFile<'f>>, vocab: &'v VocabFile<'_>) -> List<'f, 'v> {
        let places = added.iter().enumerate().map(|(i, added)| (Box::from(&*added.content), i)).collect();
        let vocab: HashMap<&str, u32> = match vocab {
            VocabFile::Ids(tokens) => tokens.iter().map(|(text, id)| (&**text, *id)).collect(),
            VocabFile::Scores(tokens) => (0..).zip(tokens).map(|(id, (text, _))| (&**text, id)).collect(),
        };
        let first_free = added.iter().map(|added| added.id.saturating_add(1)).max().unwrap_or(0);
        let next = first_free.max(vocab.len() as u32);
        List { added, places, vocab, next }
    }

    /// Adds a token, or gives the one with its text these flags.
    fn add(&mut self, content: Box<str>, flags: Flags) {
        if content.is_empty() {
            return;
        }
        let Flags { single_word, lstrip, rstrip, normalized, special } = flags;
        let token = |id, content: Box<str>| AddedFile {
            id,
            content: Cow::Owned(content.into()),
            single_word,
            lstrip,
            rstrip,
            normalized,
            special,
        };
        if let Some(&place) = self.places.get(&content) {
            self.added[place] = token(self.added[place].id, content);
            return;
        }
        let id = self.vocab.get(&*content).copied().unwrap_or(self.next);
        self.next = self.next.max(id.saturating_add(1));
        self.places.insert(content.clone(), self.added.len());
        self.added.push(token(id, content));
    }
}
