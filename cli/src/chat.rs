//! `ember chat`: a conversation by the model's own template.
#![forbid(unsafe_code)]

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Editor, Helper};

use crate::failure::{Failure, Result};
use crate::library::{ChatOptions, Conversation, Part, finish};
use crate::output;
use crate::run::read_input;
use crate::text::{Loaded, TextArgs, per_second, read_text};
use crate::{ffi, interrupt};

#[derive(clap::Args)]
pub struct ChatArgs {
    /// GGUF file, Hugging Face folder, or OWNER/NAME that `ember pull` fetched
    model: String,

    /// One message to answer, in place of a conversation
    #[arg(short, long, value_name = "TEXT")]
    prompt: Option<String>,

    /// System message: instructions for the whole conversation
    #[arg(long, visible_alias = "system-prompt", value_name = "TEXT")]
    system: Option<String>,

    /// File with a chat template in Jinja, in place of the model's own
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,

    /// Whether the model thinks before it answers, if its template can say that [default: as the template has it]
    #[arg(long, value_name = "WHEN")]
    thinking: Option<Thinking>,

    /// Takes each line of standard input for a message, where it is no terminal; else all of it is one message
    #[arg(long, conflicts_with = "prompt")]
    lines: bool,

    #[command(flatten)]
    text: TextArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Thinking {
    On,
    Off,
}

/// What a person may type in place of a message.
const HELP: &str = "\
/reset   begins a new conversation
/undo    takes the last message and its reply back
/quit    ends the program, as Ctrl-D does
A line that ends with \\ goes on in the next one. Pasted lines are one message. Ctrl-C ends a reply.";

struct Chat<'a> {
    args: &'a ChatArgs,
    loaded: Loaded,
    conversation: Conversation,
}

pub fn run(args: &ChatArgs) -> Result<()> {
    let input = std::io::stdin();
    let piped = match &args.prompt {
        Some(_) => None,
        None if input.is_terminal() || args.lines => None,
        None => Some(read_input("")?),
    };
    // An editor takes Ctrl-C to itself when it is made, and the model's loading takes it back: while a line is edited it is a key.
    let editor = match args.prompt.is_none() && input.is_terminal() {
        true => Some(Lines::editor()?),
        false => None,
    };
    let loaded = args.text.load(&args.model, 1024)?;
    let conversation = begin(args, &loaded)?;
    let mut chat = Chat { args, loaded, conversation };
    match (args.prompt.as_ref().or(piped.as_ref()), editor) {
        (Some(message), _) => chat.answer_only(message.trim_end_matches(['\n', '\r'])),
        (None, Some(editor)) => chat.converse(editor),
        (None, None) => input.lock().lines().try_for_each(|line| {
            let line = line.map_err(|e| Failure::of("standard input", &e))?;
            if line.is_empty() { Ok(()) } else { chat.answer_only(&line) }
        }),
    }
}

/// A conversation without messages.
fn begin(args: &ChatArgs, loaded: &Loaded) -> Result<Conversation> {
    let mut options = ChatOptions::new()?;
    if let Some(file) = &args.template {
        options.template(&read_text(file)?)?;
    }
    if let Some(thinking) = args.thinking {
        options.thinking(match thinking {
            Thinking::On => ffi::EMBER_THINKING_ON,
            Thinking::Off => ffi::EMBER_THINKING_OFF,
        })?;
    }
    Conversation::new(&loaded.context, args.system.as_deref().unwrap_or_default(), &options, &loaded.options)
}

impl Chat<'_> {
    /// Answers a message that no person waits beside: an interrupt ends the program.
    fn answer_only(&mut self, message: &str) -> Result<()> {
        match self.answer(message)? {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        }
    }

    /// Prints the reply to a message as it comes, and says whether Ctrl-C ended it.
    fn answer(&mut self, message: &str) -> Result<bool> {
        let (dim, plain) = if output::has_colours() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        let conversation = &mut self.conversation;
        let sampler = &mut self.loaded.sampler;
        let (result, interrupted) = interrupt::during(|| {
            conversation.begin(message, sampler)?;
            let (mut thinks, mut ended_line) = (false, false);
            loop {
                match conversation.next()? {
                    // Thoughts are for people, not for programs that read the answer.
                    Part::Thought(text) if output::is_terminal() => {
                        output::print(&if thinks { text.to_owned() } else { format!("{dim}{text}") })?;
                        thinks = true;
                    }
                    Part::Text(text) if !text.is_empty() => {
                        if std::mem::take(&mut thinks) {
                            output::print(&format!("{plain}\n"))?;
                        }
                        ended_line = text.ends_with('\n');
                        output::print(text)?;
                    }
                    Part::Call(name, arguments) => output::print(&format!("{name}({arguments})"))?,
                    Part::End => break,
                    _ => {}
                }
            }
            if thinks {
                output::print(plain)?;
            }
            if !ended_line {
                output::print("\n")?;
            }
            conversation.usage()
        })?;
        if self.args.text.verbose {
            output::note(format_args!(
                "prompt {} tokens, {} of them new | generated {} tokens, {:.1} tokens/s | {} | seed {}",
                result.n_prompt,
                result.n_prompt - result.n_reused.min(result.n_prompt),
                result.n_generated,
                per_second(result.n_generated.into(), result.decode_ns),
                finish(result.finish_reason),
                self.loaded.sampler.seed()?,
            ));
        }
        if result.n_dropped_turns > 0 {
            output::note(format_args!(
                "ember: the oldest {} messages were forgotten, for the context is full",
                result.n_dropped_turns
            ));
        }
        if [ffi::EMBER_FINISH_MAX_TOKENS, ffi::EMBER_FINISH_CONTEXT_FULL].contains(&result.finish_reason) {
            let why = finish(result.finish_reason);
            match self.args.text.json_schema {
                Some(_) => return Err(Failure::said(format!("the JSON is not complete: {why}"))),
                None => output::note(format_args!("ember: the reply is cut off: {why}")),
            }
        }
        Ok(interrupted)
    }

    /// Talks with a person, whom an error does not throw out.
    fn converse(&mut self, mut editor: Editor<Lines, MemHistory>) -> Result<()> {
        output::note(format_args!("/help says what there is beside messages."));
        loop {
            let typed = match editor.readline("> ") {
                Ok(typed) => typed,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(e) => return Err(unreadable(&e)),
            };
            let message = joined(&typed);
            if message.trim().is_empty() {
                continue;
            }
            let _ = editor.add_history_entry(&typed);
            let done = match message.trim() {
                "/quit" | "/exit" | "/bye" => return Ok(()),
                "/help" | "/?" => output::print(&format!("{HELP}\n")),
                "/undo" => self.conversation.undo(),
                "/reset" | "/clear" => self.reset(),
                command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
                    Err(Failure::said(format!("there is no command {command}; /help says what there is")))
                }
                _ => self.answer(&message).map(|_| ()),
            };
            match done {
                Ok(()) => {}
                Err(Failure::Said(sentence)) => {
                    self.conversation.abandon()?;
                    output::note(format_args!("ember: {sentence}"));
                }
                Err(Failure::Interrupted) => self.conversation.abandon()?,
                Err(failure) => return Err(failure),
            }
        }
    }

    fn reset(&mut self) -> Result<()> {
        self.conversation = begin(self.args, &self.loaded)?;
        Ok(())
    }
}

fn unreadable(e: &ReadlineError) -> Failure {
    Failure::said(format!("the terminal cannot be read: {e}"))
}

/// A message of several lines, without the marks that they go on.
fn joined(typed: &str) -> String {
    typed.replace("\\\n", "\n")
}

/// A line that ends with a backslash goes on.
struct Lines;

impl Lines {
    fn editor() -> Result<Editor<Lines, MemHistory>> {
        let mut editor = Editor::new().map_err(|e| unreadable(&e))?;
        editor.set_helper(Some(Lines));
        Ok(editor)
    }
}

impl Completer for Lines {
    type Candidate = String;
}

impl Hinter for Lines {
    type Hint = String;
}

impl Highlighter for Lines {}

impl Helper for Lines {}

impl Validator for Lines {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}
