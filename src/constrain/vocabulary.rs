//! A model's tokens as a trie of bytes.
#![forbid(unsafe_code)]

use std::sync::Arc;

use ahash::AHashMap;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use toktrie::{InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::error::{Error, Result};
use crate::memory::expect_memory;
use crate::tokenizer::Tokenizer;

/// Longest token that a constraint allows; the trie holds no longer ones. (GLM-4 has one of 1024 spaces.)
const MAX_TOKEN: usize = 1000;
/// Most nodes of a trie.
const MAX_NODES: usize = (1 << 22) - 2;
/// Most tokens of a trie.
const MAX_TOKENS: usize = (1 << 24) - 2;

/// The tokens of a model in the form that constraints need. Made once for a model, and shared.
pub struct Vocabulary {
    tokenizer: Arc<Tokenizer>,
    env: TokEnv,
    factory: ParserFactory,
    /// Tokens with the same bytes as another one, and that one. The trie has only the latter.
    doubles: Vec<(u32, u32)>,
    /// The tokens that end a text.
    ends: Vec<u32>,
    /// For each byte whether it is a token.
    bytes: [bool; 256],
    size: usize,
}

/// The tokens and the tokenizer for `llguidance`.
struct Env {
    trie: TokTrie,
    tokenizer: Arc<Tokenizer>,
    originals: AHashMap<u32, u32>,
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// The tokens that the tokenizer gives for a text, where they stand for exactly its bytes; otherwise the longest ones.
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let text = std::str::from_utf8(bytes).ok();
        let ids = text.and_then(|text| self.tokenizer.encode_inside(text).ok());
        let ids =
            ids.map(|ids| ids.iter().map(|id| self.originals.get(id).copied().unwrap_or(*id)).collect());
        let exact = |ids: &Vec<TokenId>| {
            let spelt = ids.iter().flat_map(|&id| self.trie.token(id));
            spelt.eq(bytes)
        };
        ids.filter(exact).unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }
}

/// The bytes that the trie has for a token.
fn word(tokenizer: &Tokenizer, id: u32) -> &[u8] {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    if bytes.len() > MAX_TOKEN { &[] } else { bytes }
}

impl Vocabulary {
    /// Builds the trie of `tokenizer`'s tokens: a few hundred milliseconds for large vocabularies.
    ///
    /// # Errors
    /// `Unsupported` for a vocabulary that is too large, or has no token that ends a text; `NoMemory`.
    pub fn new(tokenizer: &Arc<Tokenizer>) -> Result<Vocabulary> {
        let n = tokenizer.n_vocab();
        let ends: Vec<u32> = (0..n as u32).filter(|&id| tokenizer.is_eog(id)).collect();
        let [end, ..] = ends[..] else {
            return Err(Error::Unsupported(
                "the vocabulary has no token that ends a text, which a constraint needs".into(),
            ));
        };
        let n_bytes: usize = (0..n as u32).map(|id| word(tokenizer, id).len() + 1).sum();
        if n > MAX_TOKENS {
            return Err(Error::Unsupported(format!(
                "the vocabulary has {n} tokens, but constraints know at most {MAX_TOKENS}"
            )));
        }
        // A vector and a node of the builder for each token, two copies of the trie and of its slices.
        expect_memory(
            n.saturating_mul(64).saturating_add(n_bytes.saturating_mul(16)),
            "the trie of the vocabulary",
        )?;
        let mut bytes = [false; 256];
        let (mut words, mut doubles): (Vec<Vec<u8>>, Vec<_>) = (Vec::with_capacity(n), Vec::new());
        let mut firsts: AHashMap<&[u8], u32> = AHashMap::with_capacity(n);
        // Of tokens with the same bytes the one that texts consist of counts, not the byte token.
        let is_text = |id: &u32| !tokenizer.is_byte(*id);
        let plain = |id: &u32| !tokenizer.is_hidden(*id) && !tokenizer.is_eog(*id);
        let all = || (0..n as u32).filter(plain);
        for id in all().filter(is_text).chain(all().filter(|id| !is_text(id))) {
            let word = word(tokenizer, id);
            if let [byte] = word {
                bytes[usize::from(*byte)] = true;
            }
            if !word.is_empty() {
                let first = *firsts.entry(word).or_insert(id);
                if first != id {
                    doubles.push((id, first));
                }
            }
        }
        let originals: AHashMap<u32, u32> = doubles.iter().copied().collect();
        for id in 0..n as u32 {
            let word = word(tokenizer, id);
            words.push(if originals.contains_key(&id) {
                Vec::new()
            } else if plain(&id) {
                word.to_vec()
            } else {
                // No text contains this byte.
                [&[TokTrie::SPECIAL_TOKEN_MARKER], word].concat()
            });
        }
        check_nodes(&words)?;
        let info = TokRxInfo::new(n as u32, end);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&ends);
        drop(words);
        let env: TokEnv = Arc::new(Env { trie, tokenizer: Arc::clone(tokenizer), originals });
        let slices = SlicedBiasComputer::general_slices();
        let capabilities = InferenceCapabilities { ff_tokens: true, ..Default::default() };
        let factory = ParserFactory::new(&env, capabilities, &slices);
        let mut factory =
            factory.map_err(|e| Error::Internal(format!("a vocabulary cannot be arranged: {e}")))?;
        factory.quiet();
        // Each trie has the bytes of all tokens, nodes of eight bytes, and twelve bytes for each token.
        let size = 2 * (n_bytes + 12 * n + 8 * n_bytes);
        Ok(Vocabulary { tokenizer: Arc::clone(tokenizer), env, factory, doubles, ends, bytes, size })
    }

    /// Its approximate memory in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.tokenizer.n_vocab()
    }

    /// Whether there are no tokens, which never happens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(super) fn factory(&self) -> &ParserFactory {
        &self.factory
    }

    /// The first of these bytes that is not a token, if there is one.
    pub(super) fn missing(&self, mut bytes: impl Iterator<Item = u8>) -> Option<u8> {
        bytes.find(|&byte| !self.bytes[usize::from(byte)])
    }

    /// Whether `id` ends a text.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The tokens that end a text.
    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The tokens that end a text, and no others.
    pub(super) fn end_mask(&self) -> SimpleVob {
        self.env.tok_trie().eos_token_set()
    }

    /// Allows tokens that stand for the same bytes as allowed ones.
    pub(super) fn allow_doubles(&self, mask: &mut SimpleVob) {
        for &(double, first) in &self.doubles {
            if mask.is_allowed(first) {
                mask.allow_token(double);
            }
        }
    }

    /// The token that the trie has in place of `id`.
    pub(super) fn original(&self, id: u32) -> u32 {
        // There are few, and they are sorted only in parts.
        self.doubles.iter().find(|(double, _)| *double == id).map_or(id, |(_, first)| *first)
    }

    /// Tokens that stand for these bytes; `None` where there are none.
    pub(super) fn spell(&self, bytes: &[u8]) -> Option<Vec<u32>> {
        let trie = self.env.tok_trie();
        let ids = trie.greedy_tokenize(bytes);
        let n: usize = ids.iter().map(|&id| trie.token(id).len()).sum();
        (n == bytes.len()).then_some(ids)
    }
}

/// `Unsupported` for more nodes than a trie can have.
fn check_nodes(words: &[Vec<u8>]) -> Result<()> {
    let mut sorted: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    sorted.sort_unstable();
    let shared = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let new = sorted.windows(2).map(|pair| pair[1].len() - shared(pair[0], pair[1]));
    let n: usize = new.sum::<usize>() + sorted.first().map_or(0, |first| first.len());
    match n <= MAX_NODES {
        true => Ok(()),
        false => Err(Error::Unsupported(format!(
            "the texts of the vocabulary make a trie of {n} nodes, but constraints hold at most {MAX_NODES}"
        ))),
    }
}
