//! Lists as long as a file says: the one thing here that may take more memory than the system has.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::memory::fallible;

/// An empty list with room for `n` elements of `what`.
///
/// # Errors
/// `NoMemory`, naming `what`.
pub fn with_room<T>(n: usize, what: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    match fallible(|| list.try_reserve_exact(n)) {
        Ok(()) => Ok(list),
        Err(_) => {
            let size = size_of::<T>();
            Err(Error::NoMemory(format!("no memory for {what}: {n} elements of {size} bytes")))
        }
    }
}

/// A text of its own.
///
/// # Errors
/// `NoMemory`, naming `what` it is.
pub fn owned(text: &str, what: &str) -> Result<String> {
    let mut owned = String::new();
    match fallible(|| owned.try_reserve_exact(text.len())) {
        Ok(()) => owned.push_str(text),
        Err(_) => return Err(Error::NoMemory(format!("no memory for {what}: {} bytes", text.len()))),
    }
    Ok(owned)
}

/// What `elements` gives, one after the other, `n` at most.
///
/// # Errors
/// The first that there is among them; `NoMemory`, naming `what`.
pub fn collected<T>(n: usize, what: &str, elements: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut list = with_room(n, what)?;
    for element in elements.take(n) {
        list.push(element?);
    }
    Ok(list)
}
