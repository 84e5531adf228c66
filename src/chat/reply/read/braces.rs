//! Calls in Gemma's form: `call:name{key:value,…}`, with marks for the quotes of strings.
#![forbid(unsafe_code)]

use super::super::input::{Input, Next};
use super::super::sink::Sink;
use super::super::walk::MOST_NESTED;
use super::literal::with_quotes;
use super::{Arguments, CUT, Reader, Step, take_key, take_name};

/// The marks around a call.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Braces {
    /// The text before the name.
    pub before: &'static str,
    /// The mark after the call.
    pub close: &'static str,
    /// The mark before and after a string.
    pub quote: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Begin,
    Name,
    FirstKey,
    Key,
    Value,
    Close,
}

/// Reads one call.
#[derive(Debug)]
pub(in super::super) struct BraceReader {
    spec: Braces,
    at: At,
    name: String,
    key: String,
    value: String,
    in_string: bool,
    depth: usize,
    arguments: Arguments,
}

impl BraceReader {
    pub(in super::super) fn new(spec: Braces) -> BraceReader {
        BraceReader {
            spec,
            at: At::Begin,
            name: String::new(),
            key: String::new(),
            value: String::new(),
            in_string: false,
            depth: 0,
            arguments: Arguments::default(),
        }
    }

    /// Reads the text of a value up to the comma or the brace after it, which is returned.
    fn value_end(&mut self, input: &mut Input<'_>) -> Result<Option<char>, String> {
        loop {
            if self.in_string {
                let (text, hit) = input.until(&[self.spec.quote]);
                self.value.push_str(text);
                if hit.is_none() {
                    return Ok(None);
                }
                self.value.push_str(self.spec.quote);
                self.in_string = false;
            }
            let (text, hit) = input.until(&[self.spec.quote, ",", "{", "[", "}", "]"]);
            self.value.push_str(text);
            let c = match hit {
                None => return Ok(None),
                Some(0) => {
                    self.value.push_str(self.spec.quote);
                    self.in_string = true;
                    continue;
                }
                Some(i) => [',', ',', '{', '[', '}', ']'][i],
            };
            match c {
                ',' | '}' if self.depth == 0 => return Ok(Some(c)),
                '{' | '[' => self.depth += 1,
                '}' | ']' => {
                    self.depth = self.depth.checked_sub(1).ok_or("a bracket closes that none opens")?
                }
                _ => {}
            }
            if self.depth > MOST_NESTED {
                return Err("values are nested too deeply".into());
            }
            self.value.push(c);
        }
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<Step, String> {
        loop {
            if matches!(self.at, At::Begin | At::FirstKey | At::Close) {
                input.skip_space();
            }
            if input.rest().is_empty() {
                return match input.is_last() {
                    true if self.at == At::Close => Ok(Step::Done),
                    true => Err(CUT.into()),
                    false => Ok(Step::More),
                };
            }
            match self.at {
                At::Begin => match input.accept(self.spec.before) {
                    Next::More => return Ok(Step::More),
                    Next::Yes => self.at = At::Name,
                    Next::No => return Err(format!("{:?} is missing", self.spec.before)),
                },
                At::Name => {
                    if take_name(input, &mut self.name, &["{"], "name")?.is_some() {
                        sink.begin(self.name.trim(), None)?;
                        self.at = At::FirstKey;
                    }
                }
                At::FirstKey if input.peek() == Some('}') => {
                    input.take(1);
                    self.arguments.close(sink);
                    sink.end(input);
                    self.at = At::Close;
                }
                At::FirstKey => {
                    self.key.clear();
                    self.at = At::Key;
                }
                At::Key => {
                    if take_key(input, &mut self.key, ":")? {
                        let key = self.key.trim();
                        let inner =
                            key.strip_prefix(self.spec.quote).and_then(|k| k.strip_suffix(self.spec.quote));
                        let plain = key.strip_prefix('"').and_then(|k| k.strip_suffix('"'));
                        self.key = inner.or(plain).unwrap_or(key).to_owned();
                        (self.at, self.depth, self.in_string) = (At::Value, 0, false);
                        self.value.clear();
                    }
                }
                At::Value => {
                    let Some(end) = self.value_end(input)? else {
                        // The rest may begin a mark, and waits for more.
                        match input.rest().is_empty() {
                            true => continue,
                            false => return Ok(Step::More),
                        }
                    };
                    self.arguments.key(&self.key, sink)?;
                    let json = with_quotes(&self.value, self.spec.quote);
                    sink.arguments(&json.map_err(|e| format!("the argument {:?}: {e}", self.key))?);
                    self.at = if end == ',' { At::FirstKey } else { At::Close };
                    if end == '}' {
                        self.arguments.close(sink);
                        sink.end(input);
                    }
                }
                At::Close => {
                    match input.accept(self.spec.close) {
                        Next::More => return Ok(Step::More),
                        Next::Yes => sink.end(input),
                        Next::No => {}
                    }
                    return Ok(Step::Done);
                }
            }
        }
    }
}

impl Reader for BraceReader {
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(step) => step,
            Err(reason) => Step::Broken(Some(self.name.trim().to_owned()).filter(|n| !n.is_empty()), reason),
        }
    }
}
