//! A vocabulary: what each token is, its exact bytes, and the way back from bytes to the token.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use ahash::RandomState;

use hashbrown::HashTable;

use super::looks::Looks;
use crate::error::{Error, Result, quoted};
use crate::gguf::with_capacity;

/// How SentencePiece writes a space.
pub(super) const SPACE: &str = "\u{2581}";

/// The purpose of memory, in error sentences.
const WHAT: &str = "the texts of the vocabulary's tokens";

/// What kind of token it is; the numbers are those of `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenType {
    /// 0, or a number without a meaning: treated as normal text.
    Undefined,
    /// 1: text.
    Normal,
    /// 2: stands for text that the vocabulary cannot express.
    Unknown,
    /// 3: steers the model (`<|im_end|>`); never spelled by plain text.
    Control,
    /// 4: a text that is always kept whole.
    UserDefined,
    /// 5: a spare; treated as normal text.
    Unused,
    /// 6: one byte, written `<0xNN>`.
    Byte,
}

impl TokenType {
    /// The type with that number.
    pub(super) fn from_number(number: i32) -> TokenType {
        match number {
            1 => TokenType::Normal,
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => TokenType::Undefined,
        }
    }

    /// Kept whole, and written in the file as in text.
    pub(super) fn is_special(self) -> bool {
        self.is_hidden() || self == TokenType::UserDefined
    }

    /// Is no part of texts that are encoded as plain text.
    pub(super) fn is_hidden(self) -> bool {
        matches!(self, TokenType::Control | TokenType::Unknown)
    }

    /// Rendered only when special tokens are asked for. Those that are not used, such as padding of the vocabulary, are nothing in a text.
    pub(super) fn is_silent(self) -> bool {
        self.is_hidden() || self == TokenType::Unused
    }
}

/// Token texts as the source writes them, and types; the index is the token.
pub(super) struct Vocab<'m> {
    pub(super) texts: Vec<&'m str>,
    /// As many as there are texts.
    pub(super) types: Vec<TokenType>,
    /// Tokens that no text spells.
    pub(super) apart: HashSet<u32>,
}

impl<'m> Vocab<'m> {
    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Each token with its text and type, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &'m str, TokenType)> {
        (0..).zip(&self.texts).zip(&self.types).map(|((id, &text), &ty)| (id, text, ty))
    }

    /// The first token of that text.
    pub(super) fn find(&self, wanted: &str) -> Option<u32> {
        self.texts.iter().position(|&text| text == wanted).map(|id| id as u32)
    }
}

/// How a vocabulary writes bytes down as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// One printable character per byte (byte-level BPE).
    Alphabet,
    /// Unchanged, with `▁` for the space (SentencePiece); byte tokens are written `<0xNN>`.
    Pieces,
    /// Unchanged; byte tokens are written `<0xNN>`.
    Plain,
    /// WordPiece: a token that continues a word begins with `##`, all others begin a word.
    Continued,
    /// Bytes that are no printable ASCII are escaped as in Python (RWKV).
    Escaped,
}

/// The last character of the byte alphabet is below this.
const ALPHABET_END: usize = 0x144;

/// Writes the exact bytes of a token text.
pub(super) struct Speller {
    spelling: Spelling,
    /// The byte of each character of the byte alphabet.
    bytes_of: [Option<u8>; ALPHABET_END],
}

impl Speller {
    pub(super) fn new(spelling: Spelling) -> Speller {
        let mut bytes_of = [None; ALPHABET_END];
        for byte in 0..=255 {
            bytes_of[byte_char(byte) as usize] = Some(byte);
        }
        Speller { spelling, bytes_of }
    }

    /// The spelling that it was made for.
    pub(super) fn spelling(&self) -> Spelling {
        self.spelling
    }

    /// How many bytes longer than the text its spelled bytes can be.
    fn n_added(&self) -> usize {
        usize::from(self.spelling == Spelling::Continued)
    }

    /// Appends the bytes of `text` to `out`, or nothing and false if the spelling cannot have written it.
    pub(super) fn spell(&self, text: &str, out: &mut Vec<u8>) -> bool {
        match self.spelling {
            Spelling::Alphabet => {
                let start = out.len();
                for c in text.chars() {
                    let Some(&Some(byte)) = self.bytes_of.get(c as usize) else {
                        out.truncate(start);
                        return false;
                    };
                    out.push(byte);
                }
            }
            Spelling::Plain => out.extend_from_slice(text.as_bytes()),
            Spelling::Escaped => unescape(text.as_bytes(), out),
            Spelling::Pieces => {
                let mut parts = text.split(SPACE);
                out.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
                for part in parts {
                    out.push(b' ');
                    out.extend_from_slice(part.as_bytes());
                }
            }
            Spelling::Continued => match text.strip_prefix("##") {
                Some(rest) => out.extend_from_slice(rest.as_bytes()),
                None => {
                    out.push(b' ');
                    out.extend_from_slice(text.as_bytes());
                }
            },
        }
        true
    }
}

/// Appends the bytes of `text`: `\t`, `
/// `, `\r`, `\xNN`, and after any other backslash the next byte.
fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    while let [first, rest @ ..] = text {
        text = rest;
        let byte = match (first, text) {
            (b'\\', [b'x', high, low, rest @ ..])
                if let (Some(high), Some(low)) = (digit(*high), digit(*low)) =>
            {
                text = rest;
                high << 4 | low
            }
            (b'\\', [other, rest @ ..]) => {
                text = rest;
                match other {
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'r' => b'\r',
                    other => *other,
                }
            }
            (first, _) => *first,
        };
        out.push(byte);
    }
}

/// The printable character that stands for a byte in byte-level BPE: itself where it is printable in Latin-1, else one
/// of the characters from U+0100 on, in order.
fn byte_char(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return byte as char;
    }
    let rank = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + rank).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte of a text of the form `<0xNN>`.
pub(super) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let two_digits = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if two_digits { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The exact bytes of every token, and which token plain text spells by them.
pub(super) struct Lexicon {
    pieces: Pieces,
    /// The tokens that plain text may spell. Special and byte tokens are not among them.
    table: HashTable<u32>,
    /// Its keys are random, so that no file can choose texts that collide.
    hashing: RandomState,
    /// The tokens `<0x00>` to `<0xFF>`.
    pub(super) bytes: [Option<u32>; 256],
    /// The length in bytes of the longest text in `table`.
    pub(super) max_len: usize,
}

impl Lexicon {
    /// Spells out and indexes a vocabulary. Of tokens with the same bytes the first counts.
    ///
    /// # Errors
    /// `Format` for a byte token that is not written as one, or texts that take 4 GiB; what ends it early.
    pub(super) fn new(vocab: &Vocab<'_>, speller: &Speller, looks: Looks<'_>) -> Result<Lexicon> {
        let n_bytes: usize = vocab.texts.iter().map(|text| text.len()).sum();
        let mut pieces = Pieces::with_capacity(vocab.len(), n_bytes + speller.n_added() * vocab.len())?;
        let mut spelled = with_capacity(vocab.len(), WHAT)?;
        let mut bytes = [None; 256];
        let longest = vocab.texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let mut piece = with_capacity(longest + speller.n_added(), WHAT)?;
        let in_alphabet = matches!(speller.spelling, Spelling::Alphabet | Spelling::Escaped);
        for (id, text, ty) in vocab.iter() {
            looks.at(id as usize)?;
            piece.clear();
            let byte = if in_alphabet { None } else { byte_token(text) };
            if let Some(byte) = byte {
                bytes[byte as usize].get_or_insert(id);
            }
            if ty == TokenType::Byte && !in_alphabet {
                piece.push(byte.ok_or_else(|| {
                    let text = quoted(text.as_bytes());
                    Error::Format(format!("token {id} is a byte token, but its text is {text}, not <0xNN>"))
                })?);
                pieces.push(&piece)?;
                continue;
            }
            if vocab.apart.contains(&id) {
                pieces.push(text.as_bytes())?;
                continue;
            }
            // Special tokens are written unchanged, except that `▁` is a space in a user-defined one too.
            let as_is = ty.is_hidden()
                || ty == TokenType::UserDefined
                    && matches!(
                        speller.spelling,
                        Spelling::Alphabet | Spelling::Continued | Spelling::Escaped
                    );
            let is_spelled = speller.spell(text, &mut piece);
            // Pieces have no spaces: one that has is found in the unnormalized text, but no merge leads to it.
            if ty == TokenType::UserDefined && speller.spelling == Spelling::Pieces && text.contains(' ') {
                pieces.push(&piece)?;
                continue;
            }
            if as_is || !is_spelled {
                let same = piece == text.as_bytes();
                piece.clear();
                piece.extend_from_slice(text.as_bytes());
                // A user-defined text is also found where merging leads to it.
                if ty == TokenType::UserDefined && same && !piece.is_empty() {
                    spelled.push(id);
                }
            } else if !piece.is_empty() {
                spelled.push(id);
            }
            pieces.push(&piece)?;
        }
        let mut table = HashTable::new();
        let reserved = table.try_reserve(spelled.len(), |_| 0);
        reserved
            .map_err(|_| Error::NoMemory(format!("no memory for {WHAT}: a table of {}", spelled.len())))?;
        let mut lexicon = Lexicon { pieces, table, hashing: RandomState::new(), bytes, max_len: 0 };
        for (i, id) in spelled.into_iter().enumerate() {
            looks.at(i)?;
            lexicon.index(id);
        }
        Ok(lexicon)
    }

    fn index(&mut self, id: u32) {
        let Lexicon { pieces, table, hashing, max_len, .. } = self;
        let bytes = pieces.get(id).unwrap_or_default();
        *max_len = bytes.len().max(*max_len);
        let hash = |&other: &u32| hashing.hash_one(pieces.get(other).unwrap_or_default());
        // Taken or new: the first token of that text counts.
        table.entry(hash(&id), |&other| pieces.get(other) == Some(bytes), hash).or_insert(id);
    }

    /// The token that plain text of these bytes spells.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.max_len {
            return None;
        }
        self.table.find(self.hashing.hash_one(bytes), |&id| self.pieces.get(id) == Some(bytes)).copied()
    }

    /// The tokens that plain text may spell, in no particular order.
    pub(super) fn spelled(&self) -> impl Iterator<Item = u32> {
        self.table.iter().copied()
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.pieces.ends.len()
    }

    /// The bytes of `token`, or None if there is no such token.
    pub(super) fn get(&self, token: u32) -> Option<&[u8]> {
        self.pieces.get(token)
    }

    /// Appends the byte tokens of `bytes`; a byte without a token becomes `unk`, or nothing if there is none.
    pub(super) fn fall_back(&self, bytes: &[u8], unk: Option<u32>, out: &mut Vec<u32>) {
        out.extend(bytes.iter().filter_map(|&b| self.bytes[b as usize].or(unk)));
    }
}

/// Byte strings in one block.
struct Pieces {
    bytes: Vec<u8>,
    /// Where each ends; it starts where the one before ends.
    ends: Vec<u32>,
}

impl Pieces {
    /// Capacity for `n` strings of `n_bytes` in all.
    fn with_capacity(n: usize, n_bytes: usize) -> Result<Pieces> {
        Ok(Pieces { bytes: with_capacity(n_bytes, WHAT)?, ends: with_capacity(n, WHAT)? })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        let end = u32::try_from(self.bytes.len());
        self.ends.push(end.map_err(|_| Error::Format("the texts of the tokens take 4 GiB or more".into()))?);
        Ok(())
    }

    fn get(&self, token: u32) -> Option<&[u8]> {
        let index = token as usize;
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        self.bytes.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_gpt2s() {
        let all: std::collections::HashSet<char> = (0..=255).map(byte_char).collect();
        assert_eq!(all.len(), 256);
        assert_eq!((byte_char(b' '), byte_char(b'\n'), byte_char(b'a')), ('Ġ', 'Ċ', 'a'));
        assert_eq!((byte_char(0), byte_char(0x7f), byte_char(0xad), byte_char(0xff)), ('Ā', 'ġ', 'Ń', 'ÿ'));
    }
}
