//! A tokenizer's knowledge of its tokens, and its chat templates.
#![forbid(unsafe_code)]

use super::vocab::TokenType;
use super::{FillIn, Tokenizer};

impl Tokenizer {
    /// Whether `token` ends a generation: end of text, turn or message, or one of the tokens that models are known
    /// to stop with.
    pub fn is_eog(&self, token: u32) -> bool {
        self.roles.eog.contains(&token)
    }

    /// Makes further tokens end a generation; missing tokens are ignored.
    pub fn add_ends(&mut self, tokens: &[u32]) {
        let n_vocab = self.n_vocab();
        self.roles.eog.extend(tokens.iter().filter(|&&token| (token as usize) < n_vocab));
    }

    /// Whether `token` is a control token, such as BOS, which stands for no text.
    pub fn is_control(&self, token: u32) -> bool {
        self.types.get(token as usize) == Some(&TokenType::Control)
    }

    /// Whether `token` is a byte token by its type, for texts without a token.
    pub fn is_byte(&self, token: u32) -> bool {
        self.types.get(token as usize) == Some(&TokenType::Byte)
    }

    /// Whether [`Tokenizer::decode`] leaves `token` out unless special tokens are asked for.
    pub fn is_hidden(&self, token: u32) -> bool {
        self.types.get(token as usize).is_some_and(|ty| ty.is_silent())
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.roles.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.roles.eos
    }

    /// The token that ends a turn of a conversation.
    pub fn eot(&self) -> Option<u32> {
        self.roles.eot
    }

    /// The token that fills up a batch.
    pub fn pad(&self) -> Option<u32> {
        self.roles.pad
    }

    /// The token for what the vocabulary cannot express.
    pub fn unk(&self) -> Option<u32> {
        self.roles.unk
    }

    /// The tokens that ask a model to fill a gap in a text.
    pub fn fill_in(&self) -> &FillIn {
        &self.roles.fill_in
    }

    /// Whether [`Tokenizer::encode`] with `add_special` puts a token, usually BOS, first.
    pub fn add_bos(&self) -> bool {
        !self.roles.prefix.is_empty()
    }

    /// The special tokens that encoding puts after a text.
    pub fn suffix(&self) -> &[u32] {
        &self.roles.suffix
    }

    /// Whether [`Tokenizer::encode`] with `add_special` puts a token, usually EOS, last.
    pub fn add_eos(&self) -> bool {
        !self.roles.suffix.is_empty()
    }

    /// The source's template for conversations, in the Jinja language.
    pub fn chat_template(&self) -> Option<&str> {
        self.named_chat_template("default")
    }

    /// A template by its name: some sources have one for tools (`tool_use`) or for documents (`rag`).
    pub fn named_chat_template(&self, name: &str) -> Option<&str> {
        self.chat_templates.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
    }

    /// The names of the source's templates for conversations.
    pub fn chat_template_names(&self) -> impl Iterator<Item = &str> {
        self.chat_templates.iter().map(|(name, _)| name.as_str())
    }

    /// Replaces the chat templates by these, which have names; the one called `default` stays where there is no other.
    #[cfg(feature = "hf")]
    pub fn set_chat_templates(&mut self, templates: Vec<(String, String)>) {
        if templates.is_empty() {
            return;
        }
        let has_default = templates.iter().any(|(name, _)| name == "default");
        self.chat_templates.retain(|(name, _)| name == "default" && !has_default);
        self.chat_templates.extend(templates);
    }
}
