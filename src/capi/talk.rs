//! A conversation and what it uses, for the functions of `conversation`.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::chat_options::ChatOptions;
use super::chat_reading::{Parts, parts_of};
use super::context::ContextState;
use super::handle::Exclusive;
use crate::chat::reply::{Event, ToolChoice};
use crate::conversation::{
    Conversation, ConversationOptions, Message, OnFull, Piece, Role, TurnUsage, WhenFull,
};
use crate::error::Result;
use crate::generate::{FinishReason, GenerateOptions};
use crate::sampler::Sampler;

/// The object that an `ember_conversation` handle points to.
pub struct Talk {
    conversation: Conversation,
    context: Arc<Exclusive<ContextState>>,
    sampler: Option<Arc<Exclusive<Sampler>>>,
    current: Option<Event>,
    finish: Option<FinishReason>,
}

fn to_options(
    chat: ChatOptions,
    generate: GenerateOptions,
    system: Option<String>,
) -> Result<ConversationOptions> {
    Ok(ConversationOptions {
        system,
        tools: chat.tools,
        tool_choice: ToolChoice::parse(chat.tool_choice.as_deref().unwrap_or_default())?,
        parallel_calls: chat.parallel_calls,
        strict_tools: chat.strict_tools,
        thinking: chat.thinking,
        variables: chat.variables,
        template: chat.template,
        template_name: chat.template_name,
        now: chat.now,
        generate,
        ..ConversationOptions::default()
    })
}

impl Talk {
    fn over(conversation: Conversation, context: &Arc<Exclusive<ContextState>>) -> Talk {
        Talk { conversation, context: Arc::clone(context), sampler: None, current: None, finish: None }
    }

    pub fn new(
        context: &Arc<Exclusive<ContextState>>,
        system: Option<String>,
        chat: ChatOptions,
        generate: GenerateOptions,
    ) -> Result<Talk> {
        let model = Arc::clone(context.lock("context")?.context.model());
        let conversation = Conversation::new(&model, to_options(chat, generate, system)?)?;
        Ok(Talk::over(conversation, context))
    }

    pub fn load(
        context: &Arc<Exclusive<ContextState>>,
        saved: &[u8],
        chat: ChatOptions,
        generate: GenerateOptions,
    ) -> Result<Talk> {
        let model = Arc::clone(context.lock("context")?.context.model());
        let conversation = Conversation::load(&model, to_options(chat, generate, None)?, saved)?;
        Ok(Talk::over(conversation, context))
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        self.conversation.save()
    }

    pub fn fork(&self, seq: u32) -> Result<Talk> {
        let mut context = self.context.lock("the conversation's context")?;
        let fork = self.conversation.fork(seq, Some(&mut context.context))?;
        Ok(Talk::over(fork, &self.context))
    }

    pub fn add(&mut self, message: &str) -> Result<()> {
        self.conversation.add(Message::parse(message)?)
    }

    /// Begins a reply, to a user's text where there is one, which is no message when that fails.
    pub fn begin(&mut self, text: Option<&str>, sampler: Arc<Exclusive<Sampler>>) -> Result<()> {
        let mut context = self.context.lock("the conversation's context")?;
        if let Some(text) = text {
            self.conversation.add(Message::text(Role::User, text)?)?;
        }
        if let Err(error) = self.conversation.begin(&mut context.context) {
            if text.is_some() {
                self.conversation.undo()?;
            }
            return Err(error);
        }
        (self.sampler, self.finish) = (Some(sampler), None);
        Ok(())
    }

    /// The next event, which stays until the next call, and why the reply ended, if it has.
    pub fn next(&mut self) -> Result<(Parts<'_>, Option<FinishReason>)> {
        self.current = None;
        let Some(sampler) = &self.sampler else { return Ok((Parts::default(), self.finish)) };
        let mut context = self.context.lock("the conversation's context")?;
        let mut sampler = sampler.lock("the conversation's sampler")?;
        match self.conversation.next(&mut context.context, &mut sampler)? {
            None => {}
            Some(Piece::Reply(event)) => self.current = Some(event),
            Some(Piece::End(reason)) => {
                drop(sampler);
                (self.sampler, self.finish) = (None, Some(reason));
            }
        }
        let end = self.finish.filter(|_| self.current.is_none());
        Ok((self.current.as_ref().map_or(Parts::default(), parts_of), end))
    }

    pub fn is_under_way(&self) -> bool {
        self.sampler.is_some()
    }

    pub fn abandon(&mut self) {
        self.conversation.abandon();
        self.sampler = None;
    }

    pub fn undo(&mut self) -> Result<()> {
        self.conversation.undo()
    }

    pub fn messages(&self) -> String {
        self.conversation.messages()
    }

    pub fn usage(&self) -> TurnUsage {
        self.conversation.usage()
    }

    pub fn set_thinking_budget(&mut self, budget: Option<usize>) -> Result<()> {
        self.conversation.set_thinking_budget(budget)
    }

    pub fn set_tool_choice(&mut self, choice: &str) -> Result<()> {
        self.conversation.set_tool_choice(ToolChoice::parse(choice)?)
    }

    pub fn set_when_full(&mut self, when_full: WhenFull, reserve: Option<usize>) {
        self.conversation.set_when_full(when_full, reserve);
    }

    pub fn set_on_full(&mut self, on_full: Option<OnFull>) {
        self.conversation.set_on_full(on_full);
    }
}
