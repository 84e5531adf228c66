//! Text that comes in chunks: which of it may be parsed now, and which has to wait for more.
#![forbid(unsafe_code)]

/// The unread text of a reply. A reader takes what it understands; the rest comes again, with more after it.
#[derive(Debug, Clone)]
pub(super) struct Input<'t> {
    text: &'t str,
    at: usize,
    last: bool,
}

/// Whether a mark is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It is next, and is taken.
    Yes,
    /// Something else is next.
    No,
    /// There is too little text to decide.
    More,
}

impl<'t> Input<'t> {
    /// Over `text`; `last`: no more text will come.
    pub(super) fn new(text: &'t str, last: bool) -> Input<'t> {
        Input { text, at: 0, last }
    }

    /// How many bytes were taken.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The text taken from byte `from` on.
    pub(super) fn taken(&self, from: usize) -> &'t str {
        &self.text[from..self.at]
    }

    /// The text that is not taken yet.
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Whether no more text will come.
    pub(super) fn is_last(&self) -> bool {
        self.last
    }

    /// Takes the next `n` bytes, which end between two characters.
    pub(super) fn take(&mut self, n: usize) -> &'t str {
        let from = self.at;
        self.at += n;
        self.taken(from)
    }

    /// The next character, which stays.
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes white space.
    pub(super) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes `mark` if it is next.
    pub(super) fn accept(&mut self, mark: &str) -> Next {
        let rest = self.rest();
        if rest.starts_with(mark) {
            self.at += mark.len();
            Next::Yes
        } else if !self.last && mark.starts_with(rest) {
            Next::More
        } else {
            Next::No
        }
    }

    /// Takes the first of `marks` that is next. `Ok(None)`: none is; `Err`: there is too little text to decide.
    pub(super) fn accept_any(&mut self, marks: &[&str]) -> Result<Option<usize>, ()> {
        let mut more = false;
        for (i, mark) in marks.iter().enumerate() {
            match self.accept(mark) {
                Next::Yes => return Ok(Some(i)),
                Next::More => more = true,
                Next::No => {}
            }
        }
        if more { Err(()) } else { Ok(None) }
    }

    /// Takes text up to the first of `marks`, and the mark. A possible beginning of one stays, until more text comes. Returns the
    /// text before it, and which mark it was. At one place the first mark of the list wins.
    pub(super) fn until(&mut self, marks: &[&str]) -> (&'t str, Option<usize>) {
        let (from, rest) = (self.at, self.rest());
        let begins = |byte: u8| marks.iter().any(|m| m.as_bytes().first() == Some(&byte));
        for (i, &byte) in rest.as_bytes().iter().enumerate() {
            if !begins(byte) {
                continue;
            }
            let here = &rest.as_bytes()[i..];
            if let Some(which) = marks.iter().position(|m| here.starts_with(m.as_bytes())) {
                self.at = from + i + marks[which].len();
                return (&rest[..i], Some(which));
            }
            if !self.last && marks.iter().any(|m| m.as_bytes().starts_with(here)) {
                self.at = from + i;
                return (&rest[..i], None);
            }
        }
        self.at = self.text.len();
        (rest, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_begin_a_mark_waits() {
        let mut input = Input::new("one <to", false);
        assert_eq!(input.until(&["<tool>", "<ab>"]), ("one ", None));
        assert_eq!(input.rest(), "<to");
        let mut input = Input::new("<to", true);
        assert_eq!(input.until(&["<tool>"]), ("<to", None));
        let mut input = Input::new("a<to<ab>b", false);
        assert_eq!(input.until(&["<tool>", "<ab>"]), ("a<to", Some(1)));
        assert_eq!(input.rest(), "b");
        let mut input = Input::new("é日<本", false);
        assert_eq!(input.until(&["<x", "本本"]), ("é日<", None));
    }

    #[test]
    fn marks_are_taken_when_they_are_next() {
        let mut input = Input::new("  <a>b", false);
        assert_eq!(input.accept("<a>"), Next::No);
        input.skip_space();
        assert_eq!(input.accept("<a>"), Next::Yes);
        assert_eq!(input.accept("bc"), Next::More);
        assert_eq!(input.accept_any(&["x", "bc"]), Err(()));
        assert_eq!(input.accept_any(&["x", "b"]), Ok(Some(1)));
        assert!(!input.is_last() && Input::new("", true).is_last());
    }
}
