//! From a grammar to a matcher at its beginning.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use llguidance::api::{GrammarInit, GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::earley::{CGrammar, CSymIdx};
use llguidance::{Logger, Matcher};
use toktrie::InferenceCapabilities;

use super::options::{ConstraintOptions, Grammar, Limits, MAX_WHITESPACE};
use super::schema;
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result, quoted};

/// Most characters of an error of `llguidance` that are passed on.
const MAX_SENTENCE: usize = 300;

impl Grammar<'_> {
    /// Its name in error sentences.
    fn name(&self) -> &'static str {
        match self {
            Grammar::JsonSchema(_) => "the JSON schema",
            Grammar::JsonObject => "the JSON object",
            Grammar::Regex(_) => "the regular expression",
            Grammar::Lark(_) => "the grammar",
            Grammar::Choices(_) => "the list of choices",
        }
    }

    fn n_bytes(&self) -> usize {
        match self {
            Grammar::JsonObject => 0,
            Grammar::JsonSchema(text) | Grammar::Regex(text) | Grammar::Lark(text) => text.len(),
            Grammar::Choices(texts) => texts.iter().map(|text| text.len()).sum(),
        }
    }

    /// The bytes that its texts may need: those in its source, and, except for choices, all printable ASCII.
    fn needs(&self) -> impl Iterator<Item = u8> {
        let texts: &[&str] = match self {
            Grammar::JsonSchema(text) | Grammar::Regex(text) | Grammar::Lark(text) => &[text],
            Grammar::Choices(texts) => texts,
            Grammar::JsonObject => &[],
        };
        let mut needed = [false; 256];
        let is_layout = |byte: u8| byte.is_ascii_whitespace() && !matches!(self, Grammar::Choices(_));
        let written = texts.iter().flat_map(|text| text.bytes()).filter(|&byte| !is_layout(byte));
        written.for_each(|byte| needed[usize::from(byte)] = true);
        if !matches!(self, Grammar::Choices(_)) {
            needed[usize::from(b' ')..=usize::from(b'~')].fill(true);
        }
        (0..=255).filter(move |&byte| needed[usize::from(byte)])
    }
}

/// Does the cheap checks.
pub(super) fn check(
    grammar: &Grammar<'_>,
    options: &ConstraintOptions,
    vocabulary: &Vocabulary,
) -> Result<()> {
    let refuse = |why: String| Err(Error::InvalidArgument(why));
    let (n, most) = (grammar.n_bytes(), options.limits.source);
    if n > most {
        return refuse(format!("{} has {n} bytes, more than its limit of {most} (source)", grammar.name()));
    }
    if options.whitespace > MAX_WHITESPACE {
        let n = options.whitespace;
        return refuse(format!("the white space between parts of JSON is at most {MAX_WHITESPACE}, got {n}"));
    }
    if options.repeat && options.triggers.is_empty() {
        return refuse("a constraint that repeats needs a trigger to begin again".into());
    }
    match grammar {
        Grammar::Choices([]) => return refuse("the list of choices is empty".into()),
        Grammar::Choices(texts) if texts.contains(&"") => return refuse("a choice is empty".into()),
        Grammar::Regex("") => return refuse("the regular expression is empty".into()),
        _ => {}
    }
    match vocabulary.missing(grammar.needs()) {
        None => Ok(()),
        Some(byte) => Err(Error::Unsupported(format!(
            "the vocabulary has no token for the byte 0x{byte:02x} {}, so it cannot spell every text of {}",
            quoted(&[byte]),
            grammar.name()
        ))),
    }
}

fn to_limits(limits: &Limits) -> ParserLimits {
    ParserLimits {
        initial_lexer_fuel: limits.compile,
        step_lexer_fuel: limits.mask,
        step_max_items: limits.items,
        max_lexer_states: limits.states,
        max_grammar_size: limits.grammar,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// The grammar in one of the forms of `llguidance`.
fn to_init(grammar: &Grammar<'_>, options: &ConstraintOptions) -> Result<GrammarWithLexer> {
    Ok(match grammar {
        Grammar::JsonSchema(text) => GrammarWithLexer::from_json_schema(schema::read(text, options)?),
        Grammar::JsonObject => GrammarWithLexer::from_json_schema(schema::object(options)),
        Grammar::Regex(rx) => GrammarWithLexer::from_regex(whole(rx)),
        Grammar::Lark(text) => GrammarWithLexer::from_lark((*text).to_owned()),
        Grammar::Choices(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| regex::escape(text)).collect();
            GrammarWithLexer::from_regex(&texts.join("|"))
        }
    })
}

/// The expression without anchors at its ends, where it matches as a whole anyway.
fn whole(rx: &str) -> &str {
    let rx = rx.strip_prefix('^').unwrap_or(rx);
    let is_escaped = |rx: &str| rx.bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1;
    rx.strip_suffix('$').filter(|rest| !is_escaped(rest)).unwrap_or(rx)
}

/// The matcher at the beginning of the grammar, with the mask of the first token computed.
pub(super) fn compile(
    grammar: &Grammar<'_>,
    options: &ConstraintOptions,
    vocabulary: &Vocabulary,
) -> Result<Matcher> {
    let name = grammar.name();
    let init = GrammarInit::Serialized(TopLevelGrammar::from_grammar(to_init(grammar, options)?));
    let capabilities = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
    let limits = to_limits(&options.limits);
    let parser =
        vocabulary.factory().create_parser_from_init_ext(init, Logger::new(0, 0), capabilities, limits);
    let mut parser = parser.map_err(|e| refusal(name, &e))?;
    if !can_end(parser.parser.grammar()) {
        return Err(Error::InvalidArgument(format!(
            "{name} cannot be met: each text of it would need another one within itself"
        )));
    }
    if let [warning, ..] = &parser.grammar_warnings()[..] {
        return Err(Error::Unsupported(format!("{name}: {}", one_line(warning))));
    }
    let mut matcher = Matcher::new(Ok(parser));
    match matcher.compute_mask() {
        Ok(_) => Ok(matcher),
        Err(e) if sentence(&e).contains("NoExtensionBias") => {
            Err(Error::InvalidArgument(format!("{name} cannot be met: no token may come first")))
        }
        Err(e) => Err(refusal(name, &e)),
    }
}

/// An error of `llguidance` about a grammar.
fn refusal(name: &str, error: &anyhow::Error) -> Error {
    let text = sentence(error);
    let is_missing = [
        "Unimplemented",
        "not supported",
        "only supported",
        "nsupported",
        "Unknown format",
        "not implemented",
    ];
    let text = match text.strip_prefix("Unsatisfiable schema: ") {
        Some(why) => format!("{name} cannot be met: {why}"),
        None => format!("{name} is refused: {text}"),
    };
    match is_missing.iter().any(|mark| text.contains(mark)) {
        true => Error::Unsupported(text),
        false => Error::InvalidArgument(text),
    }
}

/// An error of `llguidance` as one line.
pub(super) fn sentence(error: &anyhow::Error) -> String {
    let text = error.to_string();
    // Their internal errors come with a backtrace.
    let text = text.split("<backtrace>").next().unwrap_or_default();
    let text = one_line(text.split("<non-verbose/>").next().unwrap_or_default());
    match text.strip_prefix("panic: ") {
        Some(why) => format!("llguidance fails on it ({why})"),
        None => text,
    }
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX_SENTENCE) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

/// Whether some text follows the grammar: whether its start leads to terminals alone.
fn can_end(grammar: &CGrammar) -> bool {
    let mut symbols: Vec<CSymIdx> = vec![grammar.start()];
    let mut places = BTreeMap::from([(grammar.start().as_index(), 0)]);
    // For each rule its symbol, and how many of its parts may have no end; for each symbol the rules that contain it.
    let mut rules: Vec<(usize, usize)> = Vec::new();
    let mut uses: Vec<Vec<usize>> = vec![Vec::new()];
    let mut settled = Vec::new();
    let mut at = 0;
    while let Some(&symbol) = symbols.get(at) {
        let data = grammar.sym_data(symbol);
        let is_text = data.is_terminal || data.lexeme.is_some() || data.gen_grammar.is_some();
        if is_text || data.is_nullable || !data.cond_nullable.is_empty() {
            settled.push(at);
        }
        for &rule in grammar.rules_of(symbol) {
            let (parts, _, _) = grammar.rule_rhs(rule);
            for part in parts {
                let place = *places.entry(part.as_index()).or_insert_with(|| {
                    symbols.push(*part);
                    uses.push(Vec::new());
                    symbols.len() - 1
                });
                uses[place].push(rules.len());
            }
            rules.push((at, parts.len()));
        }
        at += 1;
    }
    let mut ends = vec![false; symbols.len()];
    settled.iter().for_each(|&symbol| ends[symbol] = true);
    while let Some(symbol) = settled.pop() {
        for &rule in &uses[symbol] {
            let (whole, n_open) = &mut rules[rule];
            *n_open -= 1;
            if *n_open == 0 && !ends[*whole] {
                ends[*whole] = true;
                settled.push(*whole);
            }
        }
    }
    ends[0]
}
