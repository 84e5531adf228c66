//! Scores of texts by a model's head: of each text alone, or of pairs of a query and a document.
#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::path::Path;

use super::{Context, EmbedOptions};
use crate::arch::head::TextHead;
use crate::error::{Error, Result};
use crate::gguf::ScoreActivation;
use crate::memory::{expect_memory, filled};
use crate::nn::pooling::Pooling;
use crate::tokenizer::Encoder;

/// How texts are scored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScoreOptions {
    /// The function applied to the head's outputs; `None`: the one that the model's source names.
    pub activation: Option<ScoreActivation>,
    /// Cut a text that is too long to what fits, instead of refusing it; of a pair, the document.
    pub truncate: bool,
    /// For a decoder that scores pairs, the prompt with `{query}` and `{document}`; empty: the model's.
    pub template: String,
    /// Score pairs by the logits of the tokens "yes" and "no", in a model without a head.
    pub yes_no: bool,
}

/// The answers that such a prompt asks for.
const ANSWERS: [&str; 2] = ["yes", "no"];

/// A prompt cut at its placeholders: before, between and after query and document.
struct Template<'t> {
    before: &'t str,
    between: &'t str,
    after: &'t str,
    document_first: bool,
}

impl<'t> Template<'t> {
    fn new(text: &'t str) -> Result<Template<'t>> {
        let once = |place: &str| match (text.match_indices(place).next(), text.matches(place).count()) {
            (Some((at, _)), 1) => Ok(at..at + place.len()),
            (_, n) => Err(Error::InvalidArgument(format!(
                "the prompt of a reranker must have the place {place} once, found {n}"
            ))),
        };
        let (query, document) = (once("{query}")?, once("{document}")?);
        let document_first = document.start < query.start;
        let (first, second) = if document_first { (document, query) } else { (query, document) };
        Ok(Template {
            before: &text[..first.start],
            between: &text[first.end..second.start],
            after: &text[second.end..],
            document_first,
        })
    }

    /// The tokens of the prompt; with `most`, those of the last text are cut to what fits.
    fn encode(
        &self,
        tokenizer: Encoder<'_>,
        query: &str,
        document: &str,
        most: Option<usize>,
    ) -> Result<Vec<u32>> {
        let (first, second) = if self.document_first { (document, query) } else { (query, document) };
        let head = [(self.before, true), (first, false), (self.between, true), (second, false)];
        let all = [head[0], head[1], head[2], head[3], (self.after, true)];
        let mut tokens = tokenizer.encode_parts(&all)?;
        let Some(most) = most.filter(|&most| tokens.len() > most && !self.document_first) else {
            return Ok(tokens);
        };
        // The text after the document begins with a control token, so it has the same tokens alone.
        let after = tokenizer.encode_parts(&[(self.after, true)])?;
        tokens.truncate(most.saturating_sub(after.len()));
        tokens.extend(after);
        Ok(tokens)
    }
}

impl Context {
    /// The scores of `texts` by the model's head: `[texts, labels]`. Texts run together as those of [`Context::embed`].
    ///
    /// Errors: `Unsupported` for a model without a head or a tokenizer; those of [`Context::embed`].
    pub fn classify(&mut self, texts: &[&str], options: &ScoreOptions) -> Result<Vec<f32>> {
        let model = self.model.clone();
        let head = model.require_head()?;
        let tokens = self.tokenize_texts(
            texts,
            &EmbedOptions { truncate: options.truncate, pooling: Some(Pooling::Cls), ..Default::default() },
        )?;
        self.score(&tokens, None, head, options.activation)
    }

    /// How well each of `documents` answers `query`: one score for each, the higher the better.
    ///
    /// Errors: `Unsupported` for a model that does not score pairs; those of [`Context::embed`].
    pub fn rerank(&mut self, query: &str, documents: &[&str], options: &ScoreOptions) -> Result<Vec<f32>> {
        let model = self.model.clone();
        let of_answers;
        let head = match model.head() {
            None if options.yes_no || self.is_reranker_by_name() => {
                of_answers = self.answers()?;
                &of_answers
            }
            _ => model.require_head()?,
        };
        let column = match head.labels() {
            [_] => 0,
            labels => labels.iter().position(|label| label == ANSWERS[0]).ok_or_else(|| {
                Error::Unsupported(format!(
                    "{}: the model has {} labels, none of them \"yes\": it classifies texts (ember_classify) and does not rank them",
                    model.name(),
                    labels.len()
                ))
            })?,
        };
        let n_bytes: usize = documents.iter().map(|text| 512 + 2 * (query.len() + text.len())).sum();
        expect_memory(n_bytes, "tokenizing so many texts")?;
        let most = options.truncate.then_some(self.longest().most);
        let (mut tokens, mut seconds) = (Vec::new(), Vec::new());
        let watch = self.watch(None);
        let look = || watch.check();
        match model.info().causal {
            false => {
                for document in documents {
                    watch.check()?;
                    let tokenizer = model.tokenizer_for(query.len() + document.len())?.under(&look);
                    let pair = tokenizer.encode_pair(query, document, most)?;
                    tokens.push(pair.tokens);
                    seconds.push(pair.second);
                }
            }
            true => {
                let template = Template::new(self.template(options)?)?;
                for document in documents {
                    watch.check()?;
                    let tokenizer = model.tokenizer_for(query.len() + document.len())?.under(&look);
                    tokens.push(template.encode(tokenizer, query, document, most)?);
                }
            }
        }
        let seconds = (!model.info().causal).then_some(&seconds[..]);
        let scores = self.score(&tokens, seconds, head, options.activation)?;
        Ok(scores.chunks_exact(head.labels().len()).map(|row| row[column]).collect())
    }

    /// The prompt for a pair.
    fn template<'t>(&'t self, options: &'t ScoreOptions) -> Result<&'t str> {
        if !options.template.is_empty() {
            return Ok(&options.template);
        }
        match self.model.tokenizer()?.named_chat_template("rerank") {
            Some(template) => Ok(template),
            None => self.model.info().reranker_prompt().ok_or_else(|| {
                Error::Unsupported(format!(
                    "{}: the file has no prompt for reranking (\"tokenizer.chat_template.rerank\"), and none was given",
                    self.model.name()
                ))
            }),
        }
    }

    /// Whether a model without a head is Qwen's reranker. Only the names in its files say so.
    fn is_reranker_by_name(&self) -> bool {
        let model = &self.model;
        let name = model.gguf().metadata().str("general.name").ok().flatten().unwrap_or_default();
        let is_it = |name: &str| name.to_ascii_lowercase().contains("qwen3-reranker");
        let file = Path::new(model.name()).file_name().and_then(OsStr::to_str).unwrap_or_default();
        model.info().reranker_prompt().is_some() && (is_it(file) || is_it(&name.replace(' ', "-")))
    }

    /// The head that gives the logits of "yes" and "no".
    fn answers(&self) -> Result<TextHead> {
        let (model, info) = (&self.model, self.model.info());
        // Other models may change logits after the product.
        if info.reranker_prompt().is_none() || !info.has_logits {
            return Err(Error::Unsupported(format!(
                "{}: scores by \"yes\" and \"no\" are supported for Qwen3, found the architecture {:?}",
                model.name(),
                info.architecture
            )));
        }
        let tokenizer = model.tokenizer()?;
        let mut tokens = Vec::new();
        for answer in ANSWERS {
            match tokenizer.encode(answer, false, false)?[..] {
                [token] => tokens.push((token, answer)),
                _ => {
                    let sentence = format!("{}: the tokenizer has no token {answer:?}", model.name());
                    return Err(Error::Unsupported(sentence));
                }
            }
        }
        TextHead::of_tokens(model.gguf(), info, &tokens)
    }

    /// The head's outputs for texts, or for pairs of texts whose second ones begin at `seconds`.
    fn score(
        &mut self,
        texts: &[Vec<u32>],
        seconds: Option<&[usize]>,
        head: &TextHead,
        activation: Option<ScoreActivation>,
    ) -> Result<Vec<f32>> {
        let (n_embd, causal) = (self.model.info().n_embd, self.model.info().causal);
        let pooling = Some(if causal { Pooling::Last } else { Pooling::Cls });
        let options = EmbedOptions { pooling, ..EmbedOptions::default() };
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let hidden = self.hidden(&texts, seconds, &options)?;
        let n_labels = head.labels().len();
        let mut scores = filled(0.0f32, texts.len() * n_labels, "the scores of texts")?;
        let activation = activation.unwrap_or(head.activation());
        for (row, scores) in hidden.chunks_exact(n_embd).zip(scores.chunks_exact_mut(n_labels)) {
            head.forward(row, scores)?;
            activation.apply(scores);
        }
        Ok(scores)
    }
}
