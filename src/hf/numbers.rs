//! Numbers of each layer that are tensors in a folder, and a list of all layers under a key in GGUF.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::family::{Family, Keys};
use super::layout;
use super::names;
use super::weights::Stored;
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// What was found, by key and layer.
#[derive(Default)]
pub struct Numbers<'a>(BTreeMap<&'static str, BTreeMap<usize, (f32, &'a str)>>);

impl<'a> Numbers<'a> {
    /// The key and the layer of the tensor `name` if it is such a number.
    pub fn place(family: &Family, keys: &Keys, name: &str) -> Option<(&'static str, usize)> {
        let layer = names::layer(family, name)?;
        let own = names::without_prefix(family, name).strip_prefix("layers.")?.split_once('.')?.1;
        keys.numbers.iter().find(|(tensor, _)| *tensor == own).map(|(_, key)| (*key, layer))
    }

    /// Takes the number in a tensor.
    ///
    /// # Errors
    /// `Format` where it is not finite or not one, or another tensor is the same number.
    pub fn take(&mut self, (key, layer): (&'static str, usize), stored: &'a Stored) -> Result<()> {
        let number = layout::number(stored.expect(false)?)?;
        let name = quoted(stored.name.as_bytes());
        if !number.is_finite() {
            return Err(Error::Format(format!("the tensor {name} is {number}, expected a finite number")));
        }
        match self.0.entry(key).or_default().insert(layer, (number, &stored.name)) {
            None => Ok(()),
            Some((_, other)) => {
                let other = quoted(other.as_bytes());
                Err(Error::Format(format!("the tensors {other} and {name} mean the same")))
            }
        }
    }

    /// Writes the lists.
    ///
    /// # Errors
    /// `Format` where a layer lacks its number; `prefix` is what tensors' names begin with.
    pub fn write(self, keys: &mut Keys, n_layer: usize, prefix: &str) -> Result<()> {
        for (own, key) in keys.numbers {
            let found = self.0.get(key);
            let of_layer = |i: usize| found.and_then(|found| found.get(&i)).map(|(number, _)| *number);
            if let Some(i) = (0..n_layer).find(|i| of_layer(*i).is_none()) {
                return Err(Error::Format(format!("the tensor \"{prefix}layers.{i}.{own}\" is missing")));
            }
            let list: Vec<f32> = (0..n_layer).filter_map(of_layer).collect();
            keys.entries.push(((*key).into(), list.into()));
        }
        Ok(())
    }
}
