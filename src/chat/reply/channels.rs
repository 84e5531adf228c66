//! The grammar of replies in channels.
#![forbid(unsafe_code)]

use super::grammar::Maker;
use super::lark::{ANY, escaped, regex, row};
use super::shape::Piece;
use super::tools::Tool;
use crate::error::Result;

impl Maker<'_> {
    /// Replies of gpt-oss, which are constrained from their beginning: a free header could name a tool in ways that no mark
    /// shows.
    pub(super) fn in_channels(&mut self, tools: &[&Tool], in_thought: bool) -> Result<String> {
        let [channel, message, constrain, end, start] =
            ["<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|start|>assistant"]
                .map(|mark| self.lark.mark(mark));
        let kind = self.lark.rule("kind", &format!("(/ ?/ {constrain} | \" \") \"json\""));
        let named = self.lark.rule("channel", &format!("{channel} (\"commentary\" | \"analysis\")"));
        let mut ways = Vec::new();
        for tool in tools {
            let name = self.written(&[Piece::Name], tool)?;
            let arguments = self.written(&[Piece::Arguments], tool)?;
            ways.push(row([name, format!("{named}? {kind}?"), message.clone(), arguments]));
        }
        // The name stands in the header, before or after the channel.
        let call = self.lark.rule("call", &format!("\"functions.\" ({})", ways.join(" | ")));
        let mark = "<|call|>";
        let rest = self.lark.rule("rest", &row([call, self.lark.mark(mark)]));
        let first = self.lark.rule("first", &format!("{named}? \" to=\" {rest}"));
        let ends = |mark: &str| (self.lark.parts.controls)(mark).iter().any(|control| control.is_end);
        let (call_is_last, end_is_last) = (ends(mark), ends("<|end|>"));
        // Texts of messages contain no mark that would end them, however it is spelled.
        let marks = ["<|end|>", mark, "<|return|>", "<|start|>", "<|channel|>"].map(escaped).join("|");
        let free = format!("~{}", regex(&format!("{ANY}({marks}){ANY}")));
        let head = match self.is_lazy {
            true => format!("{channel} (\"analysis\" | \"commentary\" | \"final\") {kind}?"),
            false => named,
        };
        let text = self.lark.text(std::slice::from_ref(&free), "<|end|>", &[]);
        let said = self.lark.rule("said", &row([head.clone(), message.clone(), text.clone(), start.clone()]));
        let before = match () {
            () if end_is_last => String::new(),
            () if self.is_lazy => format!("{said}*"),
            () => upto(4, &said),
        };
        let before = self.lark.rule("before", &before);
        let most = if call_is_last { 1 } else { self.most };
        if !self.is_lazy {
            let begin = if in_thought { row([text, start.clone()]) } else { String::new() };
            let more = upto(most - 1, &row([start, first.clone()]));
            return Ok(row([begin, before, first, more]));
        }
        // The last message may be any except a call. A reply may also be a text without a header, or begin inside a thought or a
        // header.
        let maybe_end = if end.is_empty() { end } else { format!("({end})?") };
        let last = self.lark.rule("LAST", &format!("{} & {free}", regex(ANY)));
        let last = self.lark.rule("last", &row([head, message.clone(), last, maybe_end.clone()]));
        let one = self.lark.rule("one", &row([first.clone(), start.clone(), before.clone()]));
        let (calls, others) = (upto(most - 1, &one), upto(if call_is_last { 0 } else { most }, &one));
        let reply = format!("{before} ({calls} {first} | {others} {last})");
        let reply = self.lark.rule("reply", &reply);
        let header = "~/( ?to=|<\\|(message|constrain)\\|>)(?s:.)*/".to_owned();
        let begun: &[String] = if in_thought { &[free] } else { &[free, header] };
        let plain = self.lark.rule("PLAIN", &format!("{} & {}", regex(ANY), begun.join(" & ")));
        let text = self.lark.text(begun, "<|end|>", &[]);
        let more = if end_is_last { String::new() } else { format!("| {text} {start} {reply}") };
        let begun = self.lark.rule("begun", &format!("{plain} {maybe_end} {more}"));
        Ok(if in_thought { begun } else { format!("{reply} | ({message})? {begun}") })
    }
}

/// At most `n` of these.
fn upto(n: usize, what: &str) -> String {
    if n == 0 { String::new() } else { format!("({what}){{0,{n}}}") }
}
