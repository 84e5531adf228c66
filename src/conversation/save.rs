//! A conversation as bytes: its messages, and what its sequence holds. The sequence itself is saved by its context.
#![forbid(unsafe_code)]

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::held::{Held, Joint};
use super::messages::{array, parse_array};
use super::{Conversation, ConversationOptions};
use crate::error::{Error, Result};
use crate::model::LoadedModel;

const MAGIC: &[u8; 8] = b"emb:conv";
const VERSION: u64 = 1;
/// Bytes of the checksum at the end.
const SUM: usize = 16;

impl Conversation {
    /// The conversation as bytes. `Busy` while a reply is under way.
    pub fn save(&self) -> Result<Vec<u8>> {
        self.check_idle()?;
        let Held { text, tokens, joints, foreign, generated } = &self.held;
        let mut out = MAGIC.to_vec();
        let numbers = |out: &mut Vec<u8>, list: &[u64]| {
            out.extend_from_slice(&(list.len() as u64).to_le_bytes());
            list.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        };
        let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        numbers(&mut out, &[VERSION, self.dropped.start as u64, self.dropped.end as u64]);
        bytes(&mut out, array(self.messages.iter()).as_bytes());
        bytes(&mut out, text);
        numbers(&mut out, &tokens.iter().map(|&id| id.into()).collect::<Vec<_>>());
        numbers(
            &mut out,
            &joints.iter().flat_map(|j| [j.n_tokens as u64, j.n_bytes as u64]).collect::<Vec<_>>(),
        );
        numbers(&mut out, &foreign.iter().map(|&at| at as u64).collect::<Vec<_>>());
        numbers(&mut out, &generated.iter().flat_map(|r| [r.start as u64, r.end as u64]).collect::<Vec<_>>());
        let sum = xxh3_128(&out).to_le_bytes();
        out.extend_from_slice(&sum);
        Ok(out)
    }

    /// A saved conversation, with new options: `system` must not be among them. Where its sequence was not loaded with it, the
    /// next reply runs all of it again.
    ///
    /// Errors: `Format` for damaged bytes, `Unsupported` for those of a later version, and those of [`Conversation::new`].
    pub fn load(
        model: &Arc<LoadedModel>,
        options: ConversationOptions,
        saved: &[u8],
    ) -> Result<Conversation> {
        if options.system.is_some() {
            return Err(Error::InvalidArgument(
                "a saved conversation has its system text: none can be given".into(),
            ));
        }
        let mut conversation = Conversation::new(model, options)?;
        let damaged = |what: &str| Error::Format(format!("the saved conversation is damaged: {what}"));
        let Some((body, sum)) = saved.split_last_chunk::<SUM>() else {
            return Err(damaged("it is too short"));
        };
        let mut rest = body.strip_prefix(MAGIC).ok_or_else(|| damaged("it does not begin as one"))?;
        if xxh3_128(body) != u128::from_le_bytes(*sum) {
            return Err(damaged("its checksum is another one"));
        }
        let cut = || damaged("it is cut off");
        let head = numbers(&mut rest).ok_or_else(cut)?;
        let &[version, start, end] = &head[..] else { return Err(damaged("its head is no head")) };
        if version != VERSION {
            return Err(Error::Unsupported(format!(
                "the saved conversation is of version {version}, known is {VERSION}"
            )));
        }
        let json = std::str::from_utf8(bytes(&mut rest).ok_or_else(cut)?)
            .map_err(|_| damaged("its messages are no text"))?;
        conversation.messages = parse_array(json)?;
        let (start, end) = (start as usize, end as usize);
        if start > end || end > conversation.messages.len() {
            return Err(damaged("it dropped messages that it does not have"));
        }
        conversation.dropped = start..end;
        let text = bytes(&mut rest).ok_or_else(cut)?.to_vec();
        let mut next = || numbers(&mut rest).ok_or_else(cut);
        let (tokens, joints, foreign, generated) = (next()?, next()?, next()?, next()?);
        let n_vocab = model.info().n_vocab as u64;
        let (n_tokens, n_bytes) = (tokens.len() as u64, text.len() as u64);
        let ascending = |list: &[u64]| list.is_sorted();
        let [joints, generated] = [joints, generated].map(|list| list.as_chunks::<2>().0.to_vec());
        let [of_tokens, of_bytes] = [0, 1].map(|i| joints.iter().map(|joint| joint[i]).collect::<Vec<_>>());
        let fits = tokens.iter().all(|&id| id < n_vocab)
            && ascending(&of_tokens)
            && of_bytes.is_sorted_by(|a, b| a < b)
            && joints.iter().all(|&[tokens, bytes]| tokens <= n_tokens && bytes <= n_bytes)
            && are_boundaries(&text, &of_bytes)
            && ascending(&foreign)
            && foreign.iter().all(|&at| at < n_bytes)
            && ascending(generated.as_flattened())
            && generated.iter().all(|&[_, end]| end <= n_bytes);
        if !fits || !rest.is_empty() {
            return Err(damaged("what it says of its sequence contradicts itself"));
        }
        let joint = |&[n_tokens, n_bytes]: &[u64; 2]| Joint {
            n_tokens: n_tokens as usize,
            n_bytes: n_bytes as usize,
        };
        conversation.held = Held {
            text,
            tokens: tokens.iter().map(|&id| id as u32).collect(),
            joints: joints.iter().map(joint).collect(),
            foreign: foreign.iter().map(|&at| at as usize).collect(),
            generated: generated.iter().map(|&[start, end]| start as usize..end as usize).collect(),
        };
        Ok(conversation)
    }
}

/// Whether `places`, which are ascending, are character boundaries of `text`.
fn are_boundaries(text: &[u8], places: &[u64]) -> bool {
    let mut first = 0;
    places.iter().all(|&place| {
        let part = &text[std::mem::replace(&mut first, place as usize)..place as usize];
        std::str::from_utf8(part).is_ok()
    })
}

/// Bytes that follow their number.
fn bytes<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (n, tail) = rest.split_first_chunk::<8>()?;
    let (bytes, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*n)).ok()?)?;
    *rest = tail;
    Some(bytes)
}

/// Numbers that follow their number.
fn numbers(rest: &mut &[u8]) -> Option<Vec<u64>> {
    let (n, tail) = rest.split_first_chunk::<8>()?;
    let n_bytes = usize::try_from(u64::from_le_bytes(*n)).ok()?.checked_mul(8)?;
    let (list, tail) = tail.split_at_checked(n_bytes)?;
    *rest = tail;
    Some(list.as_chunks::<8>().0.iter().map(|n| u64::from_le_bytes(*n)).collect())
}
