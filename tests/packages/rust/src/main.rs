//! Answers each line of standard input, as it comes.

use std::io::{BufRead, Write};
use std::sync::Arc;

use ember::context::{Context, ContextOptions};
use ember::conversation::{Conversation, ConversationOptions, Message, Piece, ReplyEvent, Role};
use ember::error::Error;
use ember::generate::GenerateOptions;
use ember::model::{LoadOptions, LoadedModel};
use ember::sampler::{Sampler, Stage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("chat MODEL")?;
    let model = Arc::new(LoadedModel::open(path.as_ref(), &LoadOptions::default())?);
    let mut context = Context::new(&model, &ContextOptions::default())?;
    let generate = GenerateOptions { max_tokens: 32, ..GenerateOptions::default() };
    let mut chat = Conversation::new(&model, ConversationOptions { generate, ..ConversationOptions::default() })?;
    let mut sampler = Sampler::new(0);
    sampler.push(Stage::Greedy)?;
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        chat.add(Message::text(Role::User, &line?)?)?;
        chat.begin(&mut context)?;
        answer(&mut chat, &mut context, &mut sampler, &mut out)?;
    }
    Ok(())
}

/// Writes one answer.
fn answer(chat: &mut Conversation, context: &mut Context, sampler: &mut Sampler, out: &mut impl Write) -> Result<(), Error> {
    while let Some(piece) = chat.next(context, sampler)? {
        match piece {
            Piece::Reply(ReplyEvent::Text(text)) => write!(out, "{text}").and_then(|()| out.flush())?,
            Piece::Reply(_) => {}
            Piece::End(_) => break,
        }
    }
    Ok(writeln!(out)?)
}
