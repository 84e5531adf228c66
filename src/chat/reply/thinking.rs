//! The marks around thoughts, and the variables of templates that switch them on and off.
#![forbid(unsafe_code)]

/// The marks around a thought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinkingMarks {
    /// Before it.
    pub open: String,
    /// After it. It also closes a thought that has become too long.
    pub close: String,
    /// Whether a thought may also begin in the middle of an answer.
    pub(super) anywhere: bool,
}

/// The variable of a template that says whether the model thinks. The values are JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinkingSwitch {
    /// Its name, for `ChatInput::variables`.
    pub variable: String,
    /// The value with which the model thinks.
    pub on: String,
    /// The value with which it does not; `None` where it always thinks, more or less.
    pub off: Option<String>,
}

/// The known marks: before and after a thought, and whether one may begin anywhere. The first pair in a template is the
/// template's.
const MARKS: [(&str, &str, bool); 14] = [
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>", false),
    ("<|think|>", "<|end|>", false),
    ("<|channel>thought", "<channel|>", true),
    ("<|START_THINKING|>", "<|END_THINKING|>", true),
    ("[THINK]", "[/THINK]", true),
    ("<seed:think>", "</seed:think>", false),
    ("<mm:think>", "</mm:think>", false),
    ("<think:opensource>", "</think:opensource>", false),
    ("<|inner_prefix|>", "<|inner_suffix|>", true),
    ("<|think|>", "<|/think|>", false),
    ("<think>", "</think>", false),
    ("<thinking>", "</thinking>", false),
    ("<thought>", "</thought>", false),
    ("<reasoning>", "</reasoning>", false),
];

/// Harmony's: the mark that closes a thought includes the beginning of the answer.
const CHANNELS: (&str, &str) =
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>");

/// The marks of a template with this text.
pub(super) fn marks(source: &str, has_channels: bool) -> Option<ThinkingMarks> {
    let known = |(open, close, anywhere): (&str, &str, bool)| ThinkingMarks {
        open: open.to_owned(),
        close: close.to_owned(),
        anywhere,
    };
    if has_channels {
        return Some(known((CHANNELS.0, CHANNELS.1, true)));
    }
    // Templates sometimes write marks in parts ("<|channel>" and "thought"), so the closing one is enough.
    let is_written = |(open, close, _): &(&str, &str, bool)| match *close {
        // The mark that ends thoughts of Solar ends other messages of other models.
        "<|end|>" => source.contains(open) && source.contains(close),
        // Kimi K3's template assembles its tags.
        "<|close|>think<|sep|>" => source.contains("<|open|>") && source.contains("<|close|>"),
        close => source.contains(close),
    };
    MARKS.into_iter().find(is_written).map(known)
}

/// Variables that switch thinking, with their values for on and off, the plainest first.
pub(super) const SWITCHES: [(&str, &str, &[&str]); 6] = [
    ("enable_thinking", "true", &["false"]),
    ("thinking", "true", &["false"]),
    ("reasoning", "true", &["false"]),
    ("thinking_mode", "\"thinking\"", &["\"chat\"", "\"disabled\""]),
    ("thinking_budget", "-1", &["0"]),
    ("reasoning_effort", "\"high\"", &["\"none\"", "\"no_think\""]),
];
