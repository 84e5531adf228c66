//! Pooling: from the hidden states of a text's tokens to its embedding.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};

/// The hidden states of a text that make its embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// All of them, one row each.
    None,
    /// Their mean.
    Mean,
    /// The first token's, where encoders have `[CLS]`.
    Cls,
    /// The last token's, the only one of a causal model that saw the whole text.
    Last,
}

/// What the hidden states of a text become, by the model's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooled {
    /// An embedding.
    Embedding(Pooling),
    /// Scores.
    Scores,
}

impl Pooled {
    /// The meaning of the key `key`, with the numbers of GGUF's `pooling_type`.
    ///
    /// Errors: `Format` for an unknown number.
    pub fn from_gguf(key: &str, number: u32) -> Result<Pooled> {
        let embedding = |pooling| Ok(Pooled::Embedding(pooling));
        match number {
            0 => embedding(Pooling::None),
            1 => embedding(Pooling::Mean),
            2 => embedding(Pooling::Cls),
            3 => embedding(Pooling::Last),
            4 => Ok(Pooled::Scores),
            _ => Err(Error::Format(format!(
                "the key \"{key}\" is {number}, expected 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)"
            ))),
        }
    }

    /// The pooling of embeddings.
    pub fn embeddings(self) -> Option<Pooling> {
        match self {
            Pooled::Embedding(pooling) => Some(pooling),
            Pooled::Scores => None,
        }
    }
}

impl Pooling {
    /// Whether the token at `position` of a text of `len` tokens takes part.
    pub fn wants(self, position: usize, len: usize) -> bool {
        match self {
            Pooling::None | Pooling::Mean => true,
            Pooling::Cls => position == 0,
            Pooling::Last => position + 1 == len,
        }
    }

    /// Rows that a text of `len` tokens gives.
    pub fn n_rows(self, len: usize) -> usize {
        match self {
            Pooling::None => len,
            Pooling::Mean | Pooling::Cls | Pooling::Last => 1,
        }
    }
}

/// Scales `row` to length 1; a row of zeros stays as it is.
pub fn normalize(row: &mut [f32]) {
    let square = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    if square > 0.0 {
        let factor = 1.0 / square.sqrt();
        row.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_length_one() {
        let mut row = [3.0f32, 0.0, -4.0];
        normalize(&mut row);
        assert_eq!(row, [0.6, 0.0, -0.8]);
        let mut zeros = [0.0f32; 4];
        normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 4]);
        // Squares beyond what f32 holds, in both directions.
        for x in [1e30f32, 1e-30] {
            let mut row = [x, x, x, x];
            normalize(&mut row);
            assert_eq!(row, [0.5; 4]);
        }
    }

    #[test]
    fn each_pooling_wants_its_tokens() {
        let wanted = |p: Pooling, len: usize| (0..len).filter(|&i| p.wants(i, len)).collect::<Vec<usize>>();
        assert_eq!(wanted(Pooling::None, 3), [0, 1, 2]);
        assert_eq!(wanted(Pooling::Mean, 3), [0, 1, 2]);
        assert_eq!(wanted(Pooling::Cls, 3), [0]);
        assert_eq!(wanted(Pooling::Last, 3), [2]);
        assert_eq!(wanted(Pooling::Last, 1), [0]);
    }
}
