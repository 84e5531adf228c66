//! Lookup by name: four bytes per name, and fast for any input.
#![forbid(unsafe_code)]

/// The positions of unique names in a list kept elsewhere, ordered by name.
#[derive(Debug)]
pub(super) struct NameIndex(Vec<u32>);

impl NameIndex {
    /// Orders the names of positions `0..n`. When two are equal, `Err` is the position of one of them.
    pub fn new<'a>(n: usize, name: impl Fn(usize) -> &'a str) -> Result<NameIndex, usize> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_unstable_by_key(|&i| name(i as usize));
        match order.windows(2).find(|pair| name(pair[0] as usize) == name(pair[1] as usize)) {
            Some(pair) => Err(pair[0] as usize),
            None => Ok(NameIndex(order)),
        }
    }

    /// The position of `wanted`.
    pub fn find<'a>(&self, wanted: &str, name: impl Fn(usize) -> &'a str) -> Option<usize> {
        let found = self.0.binary_search_by_key(&wanted, |&i| name(i as usize)).ok()?;
        Some(self.0[found] as usize)
    }
}
