//! Calls with the name in plain text followed by the arguments in JSON.
#![forbid(unsafe_code)]

use super::super::input::{Input, Next};
use super::super::sink::Sink;
use super::super::walk::{Walk, Walked};
use super::{CUT, Reader, Step, take_name};

/// A part of a call.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Part {
    /// White space, if any.
    Space,
    /// This text, if it comes.
    Maybe(&'static str),
    /// The name, up to the first of these.
    Name(&'static [&'static str]),
    /// This text in place of a call: the text after it is the answer's.
    Text(&'static str),
    /// If the first mark ended the name: an id, up to the second.
    Id(&'static str, &'static str),
    /// An id up to the mark, which holds the name: `functions.NAME:0`.
    IdWithName(&'static str),
    /// The arguments: a JSON object.
    Arguments,
    /// The end of the call, if it comes: a text that the model may omit at the end of its reply.
    End(&'static str),
}

/// What a reader needs to know of the format.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Named {
    /// The beginning of a call inside a section of calls, and the end of the section; both empty where there are no sections.
    pub item: &'static str,
    pub close: &'static str,
    /// The parts of a call after its beginning.
    pub parts: &'static [Part],
}

/// Reads calls that begin with their name.
#[derive(Debug)]
pub(in super::super) struct NamedReader {
    spec: Named,
    /// The next part of the call; `None` between two calls.
    part: Option<usize>,
    name: String,
    id: String,
    /// The mark that ended the name.
    ended_by: &'static str,
    walk: Walk,
    began: bool,
}

impl NamedReader {
    /// `in_call`: after the mark of a call, not of a section.
    pub(in super::super) fn new(spec: Named, in_call: bool) -> NamedReader {
        NamedReader {
            spec,
            part: (in_call || spec.item.is_empty()).then_some(0),
            name: String::new(),
            id: String::new(),
            ended_by: "",
            walk: Walk::new(),
            began: false,
        }
    }

    fn next_part(&mut self) {
        self.part = self.part.map(|i| i + 1);
    }

    fn begin(&mut self, sink: &mut Sink) -> Result<(), String> {
        let name = self.name.trim();
        sink.begin(name, Some(self.id.trim()))?;
        (self.walk, self.began) = (Walk::new(), true);
        Ok(())
    }

    /// Reads the arguments. Returns whether they ended.
    fn arguments(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<bool, String> {
        if !self.began {
            input.skip_space();
            match input.peek() {
                None => return Ok(false),
                Some('{') => self.begin(sink)?,
                Some(_) => return Err("the arguments are not a JSON object".into()),
            }
        }
        let rest = input.rest();
        let (mut n, mut out, mut ended, mut failed) = (0, Vec::new(), false, None);
        for &byte in rest.as_bytes() {
            match self.walk.step(byte, &mut out) {
                Ok(walked) => {
                    n += 1;
                    if walked == Walked::End {
                        ended = true;
                        break;
                    }
                }
                Err(reason) => {
                    failed = Some(format!("the arguments cannot be read as JSON: {reason}"));
                    break;
                }
            }
        }
        input.take(n);
        sink.arguments(&String::from_utf8_lossy(&out));
        failed.map_or(Ok(ended), Err)
    }

    fn run(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Result<Step, String> {
        loop {
            let Some(part) = self.part.map(|i| self.spec.parts.get(i).copied()) else {
                // Between two calls of a section.
                input.skip_space();
                match input.accept_any(&[self.spec.item, self.spec.close]) {
                    Ok(Some(0)) => self.part = Some(0),
                    Ok(Some(_)) => {
                        sink.end(input);
                        return Ok(Step::Done);
                    }
                    Ok(None) => return Ok(Step::Done),
                    Err(()) => return Ok(Step::More),
                }
                (self.name, self.id, self.ended_by, self.began) = (String::new(), String::new(), "", false);
                continue;
            };
            let Some(part) = part else {
                self.part = None;
                match self.spec.item.is_empty() {
                    true => return Ok(Step::Done),
                    false => continue,
                }
            };
            match part {
                Part::Space => {
                    input.skip_space();
                    if input.rest().is_empty() && !input.is_last() {
                        return Ok(Step::More);
                    }
                    self.next_part();
                }
                Part::Text(text) => match input.accept(text) {
                    Next::More => return Ok(Step::More),
                    Next::No => self.next_part(),
                    Next::Yes => {
                        sink.end(input);
                        return Ok(Step::Done);
                    }
                },
                Part::Maybe(text) => match input.accept(text) {
                    Next::More => return Ok(Step::More),
                    Next::Yes | Next::No => self.next_part(),
                },
                Part::Name(ends) => match take_name(input, &mut self.name, ends, "name")? {
                    Some(which) => {
                        sink.allow(self.name.trim())?;
                        self.ended_by = ends[which];
                        self.next_part();
                    }
                    None if input.is_last() => return Err(CUT.into()),
                    None => return Ok(Step::More),
                },
                Part::Id(open, close) => {
                    if self.ended_by != open {
                        self.next_part();
                        continue;
                    }
                    match take_name(input, &mut self.id, &[close], "id")? {
                        Some(_) => self.next_part(),
                        None if input.is_last() => return Err(CUT.into()),
                        None => return Ok(Step::More),
                    }
                }
                Part::IdWithName(close) => match take_name(input, &mut self.id, &[close], "id")? {
                    Some(_) => {
                        let id = self.id.trim();
                        let name = id.rsplit_once(':').map_or(id, |(name, _)| name);
                        name.strip_prefix("functions.").unwrap_or(name).clone_into(&mut self.name);
                        sink.allow(&self.name)?;
                        self.next_part();
                    }
                    None if input.is_last() => return Err(CUT.into()),
                    None => return Ok(Step::More),
                },
                Part::Arguments => match self.arguments(input, sink)? {
                    true => {
                        sink.end(input);
                        self.next_part();
                    }
                    false if input.is_last() => return Err(CUT.into()),
                    false => return Ok(Step::More),
                },
                Part::End(text) => {
                    // A missing end of a call does not matter: the arguments have their own end.
                    input.skip_space();
                    match input.accept(text) {
                        Next::More => return Ok(Step::More),
                        Next::Yes => sink.end(input),
                        Next::No => {}
                    }
                    self.next_part();
                }
            }
        }
    }
}

impl Reader for NamedReader {
    fn read(&mut self, input: &mut Input<'_>, sink: &mut Sink) -> Step {
        match self.run(input, sink) {
            Ok(step) => step,
            Err(reason) => {
                let name = Some(self.name.trim().to_owned()).filter(|name| !name.is_empty());
                Step::Broken(name, reason)
            }
        }
    }
}
