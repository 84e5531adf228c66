//! The steps of a conversation, chosen by any bytes: a message of a user or of a tool, a turn taken back, a fork, or bytes that
//! change a saved conversation. In every case a sequence holds the tokens of the prompt, no user spells a control token, and a
//! saved conversation takes no more bytes than it says.
//!
//! The first byte says how long sequences are and what happens when one is full. Then come the steps, with zeros between.

use std::sync::{Arc, OnceLock};

use ember::context::{BackendKind, Context, ContextOptions};
use ember::conversation::{Conversation, ConversationOptions, Message, Role, WhenFull};
use ember::generate::GenerateOptions;
use ember::model::LoadedModel;
use ember::sampler::{Sampler, Stage};
use xxhash_rust::xxh3::xxh3_128;

const TEMPLATE: &str =
    "{% for m in messages %}<|endoftext|>{{ m.role }}: {{ m.content }}\n{% endfor %}<|endoftext|>assistant:";

fn model() -> &'static Arc<LoadedModel> {
    static MODEL: OnceLock<Arc<LoadedModel>> = OnceLock::new();
    let bytes = include_bytes!("../../examples/models/ember-tales.gguf");
    MODEL.get_or_init(|| Arc::new(LoadedModel::from_bytes(bytes, "tales").unwrap_or_else(|e| panic!("{e}"))))
}

fn options(when_full: WhenFull) -> ConversationOptions {
    ConversationOptions {
        template: Some(TEMPLATE.into()),
        when_full,
        generate: GenerateOptions { max_tokens: 2, ..GenerateOptions::default() },
        ..ConversationOptions::default()
    }
}

/// The whole reply, if one can begin.
fn reply(conversation: &mut Conversation, context: &mut Context) {
    let mut sampler = Sampler::new(0);
    sampler.push(Stage::Greedy).expect("a stage");
    if conversation.begin(context).is_ok() {
        while conversation.next(context, &mut sampler).expect("a reply that began ends").is_some() {}
        // A mark for each message that was not dropped, and one for the reply: the users spelled none.
        let tokenizer = model().tokenizer().expect("a tokenizer");
        let mark = tokenizer.encode("<|endoftext|>", false, true).expect("a mark")[0];
        let ids = context.tokens(0).expect("the sequence");
        let n_marks = ids.iter().filter(|&&id| id == mark).count();
        let n_messages = conversation.messages().matches("\"role\":").count();
        assert!(n_marks <= n_messages + 1, "{n_marks} marks of {n_messages} messages");
    }
}

/// Fuzzes conversations.
pub fn run(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let when_full = [WhenFull::DropOldest, WhenFull::DropOldestAndFirst, WhenFull::Refuse][how as usize % 3];
    let n_ctx = 32 + how as usize / 3;
    let context_options = ContextOptions {
        n_ctx,
        n_seq: 2,
        n_threads: 1,
        backend: BackendKind::Auto,
        ..ContextOptions::default()
    };
    let mut context = Context::new(model(), &context_options).unwrap_or_else(|e| panic!("{e}"));
    let mut conversation = Conversation::new(model(), options(when_full)).unwrap_or_else(|e| panic!("{e}"));
    for step in rest.split(|&byte| byte == 0).take(12) {
        let Some((&kind, step)) = step.split_first() else { continue };
        let text = String::from_utf8_lossy(step);
        match kind % 6 {
            0 | 1 => {
                conversation.add(Message::text(Role::User, &text).expect("a message")).expect("idle");
                reply(&mut conversation, &mut context);
            }
            2 => {
                if let Ok(message) = Message::parse(&text) {
                    conversation.add(message).expect("idle");
                    reply(&mut conversation, &mut context);
                }
            }
            3 => drop(conversation.undo()),
            4 => drop(conversation.fork(1, Some(&mut context))),
            _ => {
                // A saved conversation with changed bytes and a correct checksum.
                let mut saved = conversation.save().expect("idle");
                let n = saved.len() - 16;
                for pair in step.chunks_exact(3) {
                    let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % n;
                    saved[at] = saved[at].wrapping_add(pair[2]);
                }
                let sum = xxh3_128(&saved[..n]).to_le_bytes();
                saved[n..].copy_from_slice(&sum);
                let Ok(mut loaded) = Conversation::load(model(), options(when_full), &saved) else {
                    continue;
                };
                loaded.add(Message::text(Role::User, "Hi").expect("a message")).expect("idle");
                let mut sampler = Sampler::new(0);
                if loaded.begin(&mut context).is_ok() {
                    while loaded.next(&mut context, &mut sampler).is_ok_and(|piece| piece.is_some()) {}
                }
            }
        }
    }
}
