//! Conversations: messages in, events out, with a history.
//!
//! A [`Conversation`] renders its messages with the model's chat template, has the answer generated in a sequence of a context,
//! and parses it by the template's own marks: the answer, thoughts, tool calls. Tokens that the sequence already holds do not run
//! again ([`held`]). Where the sequence would become too long, whole turns are dropped, the oldest first; the system text and the
//! first turn stay.
//!
//! Texts of messages can never spell a control token ([`crate::chat::Guard`]).
#![forbid(unsafe_code)]

mod calls;
mod fit;
mod held;
mod messages;
mod options;
mod save;
mod template;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use calls::{CallConstraints, controls};
pub use fit::OnFull;
use held::Held;
pub use messages::{Message, Reply, Role};
pub use options::{ConversationOptions, WhenFull, with_thinking};
pub use template::Template;

use crate::chat::ChatInput;
use crate::chat::reply::{End, ReplyFormat, ReplyOptions, ReplyParser, Tools};
pub use crate::chat::reply::{Event as ReplyEvent, ToolChoice};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::generate::{EventKind, FinishReason, Generator, Prompt, Usage};
use crate::model::LoadedModel;
use crate::sampler::Sampler;

/// An event of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A piece of the answer, of a thought or of a call.
    Reply(ReplyEvent),
    /// The reply is over; the last piece.
    End(FinishReason),
}

/// Counters of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TurnUsage {
    /// Those of the generation; the prompt is the whole conversation.
    pub generation: Usage,
    /// Tokens of thoughts among those that were generated.
    pub n_thinking: usize,
    /// Turns that were dropped before this reply, to make it fit.
    pub n_dropped_turns: usize,
    /// Tokens that the sequence forgot with them, without running the later ones again.
    pub n_forgotten: usize,
}

/// A conversation with a model in one sequence of a context.
pub struct Conversation {
    model: Arc<LoadedModel>,
    template: Template,
    format: ReplyFormat,
    tools: Tools,
    calls: CallConstraints,
    options: ConversationOptions,
    /// `options.variables` with the variable that switches thinking.
    variables: Option<String>,
    on_full: Option<OnFull>,
    messages: Vec<Message>,
    /// The range of dropped messages: the prompt is without them. Both ends are first messages of turns.
    dropped: std::ops::Range<usize>,
    held: Held,
    reply: Option<Running>,
    usage: TurnUsage,
}

/// A reply that is being generated.
struct Running {
    generator: Generator,
    parser: ReplyParser,
    pieces: VecDeque<Piece>,
    reply: Reply,
    /// Tokens of thoughts so far; `None`: the budget has been used up, and the thought was closed.
    n_thinking: usize,
    was_closed: bool,
    /// Counters of generations before this one, where a thought was closed.
    before: Usage,
}

impl Conversation {
    /// An empty conversation over `model`; each call names the context.
    ///
    /// Errors: `Unsupported` for a model without a template or a tokenizer, for tools that the template does not support and
    /// thinking that it does not switch; `InvalidArgument` for options that contradict each other or are not the JSON they must
    /// be.
    pub fn new(model: &Arc<LoadedModel>, options: ConversationOptions) -> Result<Conversation> {
        model.require_logits()?;
        model.require_one_part(
            "it has no conversations, each of whose turns would be one text for the encoder",
        )?;
        model.tokenizer()?;
        options.check()?;
        let (source, name) = (options.template.as_deref(), options.template_name.as_deref());
        let template = Template::new(model, source, name, options.tools.is_some())?.guarded(model);
        let format = template.reply_format();
        let tools = Tools::parse(options.tools.as_deref().unwrap_or("[]"))?;
        if !tools.is_empty() && format.name().is_none() {
            return Err(Error::Unsupported(format!(
                "{}: the chat template writes no calls of tools in a form that is known, so tools cannot be given",
                model.name()
            )));
        }
        let variables = options.variables_for(&format, model.name())?;
        let calls = options.call_constraints(model, &format, &tools)?;
        let mut conversation = Conversation {
            model: Arc::clone(model),
            template,
            format,
            tools,
            calls,
            variables,
            on_full: None,
            messages: Vec::new(),
            dropped: 0..0,
            held: Held::default(),
            reply: None,
            usage: TurnUsage::default(),
            options,
        };
        // A date in the prompt must not change from one turn to the next: all after it would run again.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        conversation.options.now.get_or_insert(i64::try_from(since).unwrap_or(0));
        if let Some(system) = conversation.options.system.take() {
            conversation.messages.push(Message::text(Role::System, &system)?);
        }
        Ok(conversation)
    }

    /// Sets the callback that says how many turns to drop where the sequence would become too long; `None`: as few as it takes.
    pub fn set_on_full(&mut self, on_full: Option<OnFull>) {
        self.on_full = on_full;
    }

    /// All messages so far, dropped ones included, as a JSON array.
    pub fn messages(&self) -> String {
        messages::array(self.messages.iter())
    }

    /// Counters of the last reply.
    pub fn usage(&self) -> TurnUsage {
        self.usage
    }

    /// The options.
    pub fn options(&self) -> &ConversationOptions {
        &self.options
    }

    /// Most tokens of a thought from now on, after which it is closed; `None`: no limit. `Unsupported` where the template has no
    /// marks of thoughts.
    pub fn set_thinking_budget(&mut self, budget: Option<usize>) -> Result<()> {
        let options = ConversationOptions { thinking_budget: budget, ..self.options.clone() };
        options.variables_for(&self.format, self.model.name())?;
        self.options = options;
        Ok(())
    }

    /// Whether replies from now on have to call a tool.
    ///
    /// Errors, after which the choice is as before: `Busy` while a reply is under way; those that [`Conversation::new`] has for a
    /// choice.
    pub fn set_tool_choice(&mut self, choice: ToolChoice) -> Result<()> {
        self.check_idle()?;
        let options = ConversationOptions { tool_choice: choice, ..self.options.clone() };
        options.check()?;
        self.calls = options.call_constraints(&self.model, &self.format, &self.tools)?;
        self.options = options;
        Ok(())
    }

    /// Sets what happens where the conversation becomes too long, and how many tokens must be free for a reply.
    pub fn set_when_full(&mut self, when_full: WhenFull, reserve: Option<usize>) {
        (self.options.when_full, self.options.reserve) = (when_full, reserve);
    }

    /// Adds a message without an answer to it: a JSON object, as chat templates take them. `Busy` while a reply is under way.
    pub fn add(&mut self, message: Message) -> Result<()> {
        self.check_idle()?;
        self.messages.push(message);
        Ok(())
    }

    fn check_idle(&self) -> Result<()> {
        match self.reply {
            None => Ok(()),
            Some(_) => Err(Error::Busy(
                "a reply of the conversation is under way: take its pieces to the end".into(),
            )),
        }
    }

    /// Begins a reply to the messages so far, the last of which must be a user's or a tool's. [`Conversation::next`] gives its pieces.
    /// Errors, after which the messages are as before: `InvalidArgument` when there is nothing to reply to or the template
    /// refuses the messages; `ContextFull` when they do not fit, whatever is dropped; those of [`Generator::new`].
    pub fn begin(&mut self, context: &mut Context) -> Result<()> {
        self.check_idle()?;
        if !Arc::ptr_eq(context.model(), &self.model) {
            return Err(Error::InvalidArgument(
                "the conversation is with another model than the context's".into(),
            ));
        }
        match self.messages.last().map(|message| message.role) {
            Some(Role::User | Role::Tool) => {}
            None => return Err(Error::InvalidArgument("there is no message to reply to".into())),
            Some(_) => {
                return Err(Error::InvalidArgument(
                    "the last message is neither a user's nor a tool's: there is nothing to reply to".into(),
                ));
            }
        }
        self.usage = TurnUsage::default();
        let prompt = self.fit(context)?;
        let reply = ReplyOptions {
            tools: self.tools.clone(),
            tool_choice: self.options.tool_choice.clone(),
            parallel: self.options.parallel_calls,
            prompt: Some(prompt),
        };
        let parser = ReplyParser::new(&self.format, reply);
        let generator = self.generator(context, self.options.generate.max_tokens, parser.is_thinking())?;
        self.held.begin_reply();
        self.reply = Some(Running {
            generator,
            parser,
            pieces: VecDeque::new(),
            reply: Reply::default(),
            n_thinking: 0,
            was_closed: false,
            before: Usage::default(),
        });
        Ok(())
    }

    /// A generator that continues after the held tokens, inside a thought or not.
    fn generator(&self, context: &Context, max_tokens: usize, is_thinking: bool) -> Result<Generator> {
        let mut options = self.options.generate.clone();
        (options.reuse_prefix, options.render_special, options.max_tokens) = (true, true, max_tokens);
        if let Some(constraint) = self.calls.of(is_thinking) {
            options.constraint = Some(constraint.clone());
        }
        Generator::new(context, Prompt::Tokens(&self.held.tokens), &options)
    }

    /// The next piece of the reply; `None` when there is none under way. After [`Piece::End`] the reply is a message.
    ///
    /// Errors leave the reply where it was: the call can be repeated, or the reply abandoned ([`Conversation::abandon`]).
    pub fn next(&mut self, context: &mut Context, sampler: &mut Sampler) -> Result<Option<Piece>> {
        loop {
            let Some(running) = &mut self.reply else { return Ok(None) };
            if let Some(piece) = running.pieces.pop_front() {
                if let Piece::End(_) = piece {
                    let reply = std::mem::take(&mut running.reply);
                    self.reply = None;
                    self.messages.push(reply.message()?);
                }
                return Ok(Some(piece));
            }
            self.step(context, sampler)?;
        }
    }

    /// Generates one more token, and adds its events to `pieces`.
    fn step(&mut self, context: &mut Context, sampler: &mut Sampler) -> Result<()> {
        let Some(running) = &mut self.reply else { return Ok(()) };
        if running.is_over_budget(self.options.thinking_budget) {
            return self.close_thought(context);
        }
        let event = running.generator.next(context, sampler)?;
        let was_thinking = running.parser.is_thinking();
        let events = running.parser.push(event.text);
        let end = match event.kind {
            EventKind::Echo => None,
            EventKind::Token(token) => {
                self.held.push(token.id, token.bytes);
                running.n_thinking += usize::from(was_thinking);
                None
            }
            EventKind::End(reason) => Some(reason),
        };
        running.take(events);
        self.usage.n_thinking = running.n_thinking;
        self.usage.generation = running.usage();
        if let Some(reason) = end {
            let is_whole = matches!(reason, FinishReason::EndOfGeneration | FinishReason::StopString);
            let events = running.parser.finish(if is_whole { End::Stop } else { End::Cut });
            running.take(events);
            running.pieces.push_back(Piece::End(reason));
            self.held.end_reply();
        }
        Ok(())
    }

    /// Closes a thought that has used up its budget: the closing mark is added as if the model had generated it.
    fn close_thought(&mut self, context: &mut Context) -> Result<()> {
        let Some(running) = &mut self.reply else { return Ok(()) };
        let must_call = matches!(self.options.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        let Some(close) = self.format.thought_end(must_call) else { return Ok(()) };
        let tokenizer = self.model.tokenizer()?;
        let ids = tokenizer.encode_rendered(&self.held.tokens, &close, &[])?;
        // The last token was reported, and may not have run yet; the new generation runs it with the mark.
        let before = running.usage();
        let left = self.options.generate.max_tokens.saturating_sub(before.n_generated + ids.len());
        for &id in &ids {
            self.held.push(id, tokenizer.token_bytes(id)?);
        }
        let generator = self.generator(context, left, false)?;
        let Some(running) = &mut self.reply else { return Ok(()) };
        running.before = Usage { n_generated: before.n_generated + ids.len(), ..before };
        running.was_closed = true;
        running.generator = generator;
        let events = running.parser.push(&close);
        running.take(events);
        Ok(())
    }

    /// Abandons the reply under way: its text becomes no message, and the messages that it was to answer stay.
    pub fn abandon(&mut self) {
        if self.reply.take().is_some() {
            self.held.end_reply();
        }
    }

    /// Forgets the last turn: the user's last message and all after it.
    pub fn undo(&mut self) -> Result<()> {
        self.check_idle()?;
        let last = self.messages.iter().rposition(|message| message.role == Role::User);
        let last = last.ok_or_else(|| Error::InvalidArgument("there is no turn to take back".into()))?;
        self.messages.truncate(last);
        self.dropped.end = self.dropped.end.min(last);
        self.dropped.start = self.dropped.start.min(self.dropped.end);
        Ok(())
    }

    /// The same conversation in another sequence of the same context, or in any sequence of another one; both continue
    /// independently. With `context` the other sequence gets a copy of this one's tokens; without, they run again there.
    pub fn fork(&self, seq: u32, context: Option<&mut Context>) -> Result<Conversation> {
        self.check_idle()?;
        if let Some(context) = context {
            if seq == self.options.generate.seq {
                return Err(Error::InvalidArgument(format!(
                    "sequence {seq} is the conversation's own: a fork needs another one"
                )));
            }
            let n = context.n_past(self.options.generate.seq)?;
            context.copy_sequence(self.options.generate.seq, seq, n)?;
        }
        let mut options = self.options.clone();
        options.generate.seq = seq;
        let mut fork = Conversation::new(&self.model, options)?;
        fork.messages = self.messages.clone();
        fork.dropped = self.dropped.clone();
        fork.held = self.held.clone();
        Ok(fork)
    }

    /// The input of the template.
    fn input(&self) -> ChatInput {
        ChatInput {
            tools: self.options.tools.clone(),
            variables: self.variables.clone(),
            add_generation_prompt: true,
            now: self.options.now,
            ..ChatInput::default()
        }
    }
}

impl Running {
    fn is_over_budget(&self, budget: Option<usize>) -> bool {
        !self.was_closed
            && self.parser.is_thinking()
            && budget.is_some_and(|budget| self.n_thinking >= budget)
    }

    /// Adds events of the reply.
    fn take(&mut self, events: Vec<ReplyEvent>) {
        for event in events {
            match &event {
                ReplyEvent::Text(text) => self.reply.content.push_str(text),
                ReplyEvent::Thinking(text) => self.reply.thinking.push_str(text),
                ReplyEvent::CallDone { id, name, arguments, .. } => {
                    self.reply.calls.push((id.clone(), name.clone(), arguments.clone()));
                }
                ReplyEvent::CallBroken { text, .. } => self.reply.content.push_str(text),
                ReplyEvent::CallBegin { .. } | ReplyEvent::CallArguments { .. } => {}
            }
            self.pieces.push_back(Piece::Reply(event));
        }
    }

    /// The counters of all generations of the reply.
    fn usage(&self) -> Usage {
        let (now, before) = (self.generator.usage(), self.before);
        match self.was_closed {
            false => now,
            true => Usage {
                n_prompt: before.n_prompt,
                n_reused: before.n_reused,
                n_generated: before.n_generated + now.n_generated,
                n_drafted: before.n_drafted + now.n_drafted,
                n_accepted: before.n_accepted + now.n_accepted,
                n_forced: before.n_forced + now.n_forced,
                sum_logprob: before.sum_logprob + now.sum_logprob,
                n_logprobs: before.n_logprobs + now.n_logprobs,
                prefill: before.prefill + now.prefill,
                decode: before.decode + now.decode,
                ..now
            },
        }
    }
}
