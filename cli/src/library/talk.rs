//! Conversations.

use super::*;

/// A part of a reply.
pub enum Part<'a> {
    Text(&'a str),
    Thought(&'a str),
    /// A call of a tool: its name and arguments.
    Call(&'a str, &'a str),
    Nothing,
    End,
}

impl ChatOptions {
    pub fn new() -> Result<ChatOptions> {
        let mut out = null_mut();
        ember!(ember_chat_options_new(&raw mut out))?;
        Ok(ChatOptions(out))
    }

    pub fn template(&mut self, template: &str) -> Result<()> {
        ember!(ember_chat_options_set_template(self.0, chars(template), template.len()))
    }

    pub fn thinking(&mut self, thinking: i32) -> Result<()> {
        ember!(ember_chat_options_set_thinking(self.0, thinking))
    }
}

impl Conversation {
    pub fn new(
        context: &Context,
        system: &str,
        chat: &ChatOptions,
        generate: &GenerateOptions,
    ) -> Result<Conversation> {
        let mut out = null_mut();
        ember!(ember_conversation_new(
            context.0,
            chars(system),
            system.len(),
            chat.0,
            generate.0,
            &raw mut out
        ))?;
        Ok(Conversation(out))
    }

    /// Begins the reply to a message.
    pub fn begin(&mut self, message: &str, sampler: &mut Sampler) -> Result<()> {
        ember!(ember_conversation_begin(self.0, chars(message), message.len(), sampler.0))
    }

    pub fn next(&mut self) -> Result<Part<'_>> {
        // SAFETY: numbers and pointers, of which zero is one.
        let mut event: ffi::ember_chat_event = unsafe { std::mem::zeroed() };
        event.struct_size = size_of_val(&event);
        ember!(ember_conversation_next(self.0, &raw mut event))?;
        // SAFETY: the texts stay until the next call, for which this conversation is borrowed.
        let (text, name) =
            unsafe { (text_of(event.text, event.text_len), text_of(event.name, event.name_len)) };
        Ok(match event.kind {
            ffi::EMBER_CHAT_EVENT_TEXT | ffi::EMBER_CHAT_EVENT_CALL_BROKEN => Part::Text(text),
            ffi::EMBER_CHAT_EVENT_THINKING => Part::Thought(text),
            ffi::EMBER_CHAT_EVENT_CALL_DONE => Part::Call(name, text),
            ffi::EMBER_CHAT_EVENT_END => Part::End,
            _ => Part::Nothing,
        })
    }

    /// Gives the reply that is under way up.
    pub fn abandon(&mut self) -> Result<()> {
        ember!(ember_conversation_abandon(self.0))
    }

    /// Forgets the last message and its reply.
    pub fn undo(&mut self) -> Result<()> {
        ember!(ember_conversation_undo(self.0))
    }

    pub fn usage(&self) -> Result<ffi::ember_conversation_usage> {
        // SAFETY: numbers, of which zero is one.
        let mut usage: ffi::ember_conversation_usage = unsafe { std::mem::zeroed() };
        usage.struct_size = size_of_val(&usage);
        ember!(ember_conversation_usage_get(self.0, &raw mut usage))?;
        Ok(usage)
    }
}
