//! A template's output for known conversations: how it begins a reply, and how it writes a call.
#![forbid(unsafe_code)]

use super::super::{ChatInput, ChatTemplate};
use super::thinking::{SWITCHES, ThinkingMarks, ThinkingSwitch};

const USER: &str = "what-the-user-says";
/// The tool that probes call, and its arguments.
pub(super) const NAME: &str = "get_weather";
pub(super) const ARGUMENTS: &str = r#"{"city": "Paris"}"#;
const TOOLS: &str = r#"[{"type":"function","function":{"name":"get_weather","description":"d","parameters":
{"type":"object","properties":{"city":{"type":"string","description":"d"}},"required":["city"]}}}]"#;

/// A template to probe.
pub(super) struct Probe<'t> {
    template: &'t ChatTemplate,
}

impl<'t> Probe<'t> {
    pub(super) fn new(template: &'t ChatTemplate) -> Probe<'t> {
        Probe { template }
    }

    fn render(
        &self,
        messages: &str,
        add_generation_prompt: bool,
        tools: bool,
        variables: &str,
    ) -> Option<String> {
        let token = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let input = ChatInput {
            tools: tools.then(|| TOOLS.to_owned()),
            variables: (!variables.is_empty()).then(|| variables.to_owned()),
            add_generation_prompt,
            special_tokens: vec![token("bos_token", "<s>"), token("eos_token", "</s>")],
            now: Some(0),
        };
        self.template.render(messages, &input).ok()
    }

    fn user() -> String {
        format!(r#"[{{"role":"user","content":"{USER}"}}]"#)
    }

    /// The text that `add_generation_prompt` adds, with these variables.
    pub(super) fn beginning(&self, variables: &str) -> Option<String> {
        let user = Probe::user();
        // Some templates fail without tools.
        let [with, without] = [true, false].map(|add| {
            self.render(&user, add, false, variables).or_else(|| self.render(&user, add, true, variables))
        });
        let with = with?;
        let n = without.map_or(0, |without| common(&with, &without));
        let after_user = with.rfind(USER).map_or(0, |at| at + USER.len());
        Some(with[n.max(after_user)..].to_owned())
    }

    /// The texts of replies that call the tool, for several forms of the message.
    pub(super) fn calls(&self) -> impl Iterator<Item = String> {
        let quoted = format!("{ARGUMENTS:?}");
        let contents = [r#""content":"","#, "", r#""content":null,"#, r#""content":"Text.","#];
        let ways = contents.into_iter().flat_map(move |content| {
            [ARGUMENTS.to_owned(), quoted.clone()].map(|arguments| {
                format!(
                    r#"[{{"role":"user","content":"{USER}"}},{{"role":"assistant",{content}"tool_calls":[{{"id":"abcdefgh1",
                    "type":"function","function":{{"name":"{NAME}","arguments":{arguments}}}}}]}}]"#
                )
            })
        });
        ways.filter_map(|messages| {
            let text = self.render(&messages, false, true, "")?;
            let at = text.rfind(USER)? + USER.len();
            let text = text[at..].to_owned();
            text.contains(NAME).then_some(text)
        })
    }

    /// The variable that switches thinking: one that the template's text names and that changes its output.
    pub(super) fn switch(&self, source: &str) -> Option<ThinkingSwitch> {
        let prompt = |name: &str, value: &str| {
            let user = Probe::user();
            self.render(&user, true, false, &format!("{{\"{name}\": {value}}}"))
        };
        SWITCHES.iter().filter(|(name, ..)| names(source, name)).find_map(|(name, on, offs)| {
            let with = prompt(name, on)?;
            let off = offs.iter().find(|off| prompt(name, off).is_some_and(|text| text != with));
            // Templates write an unknown level into the prompt as it is: that does not switch thinking off.
            let is_level = |off: &&&str| *name == "reasoning_effort" && names_text(source, off) == 0;
            let off = off.filter(|off| !is_level(off));
            let has_levels = *name == "reasoning_effort";
            (off.is_some() || has_levels).then(|| ThinkingSwitch {
                variable: (*name).to_owned(),
                on: (*on).to_owned(),
                off: off.map(|off| (*off).to_owned()),
            })
        })
    }
}

/// The length of the common prefix of two texts.
pub(super) fn common(a: &str, b: &str) -> usize {
    let same = a.char_indices().zip(b.chars()).take_while(|((_, x), y)| x == y);
    same.last().map_or(0, |((i, c), _)| i + c.len_utf8())
}

/// Whether a template's text has a name, and not as a part of a longer one.
fn names(source: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(name).any(|(at, _)| {
        let before = source[..at].chars().next_back();
        let next = source[at + name.len()..].chars().next();
        !before.is_some_and(|c| is_part(c) || c == '.' || c == '<')
            && !next.is_some_and(|c| is_part(c) || c == '>')
    })
}

/// How many times a template's text has the string of a JSON text.
fn names_text(source: &str, json: &str) -> usize {
    let inner = json.trim_matches('"');
    source.matches(&format!("'{inner}'")).count() + source.matches(&format!("\"{inner}\"")).count()
}

/// Splits the beginning of a reply into the part of every reply, and the part of a thought.
pub(super) fn split<'b>(beginning: &'b str, marks: Option<&ThinkingMarks>) -> (&'b str, &'b str) {
    let at = |mark: &str| beginning.find(mark).unwrap_or(beginning.len());
    let at = marks.map_or(beginning.len(), |m| at(&m.open).min(at(&m.close)));
    beginning.split_at(at)
}
