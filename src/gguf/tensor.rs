//! The tensor directory's vocabulary: element types, shapes and entries.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Deref;

use crate::error::{Error, Result, sizes};

/// The most dimensions a tensor can have.
pub const MAX_DIMS: usize = 4;

/// A tensor's element type by its ggml id: one number in the file, one row of the table below.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorType(pub u32);

/// One row of the type table: (id, name, elements per block, bytes per block).
type Row = (u32, &'static str, usize, usize);

macro_rules! tensor_types {
    ($($name:ident = $id:literal, $block_len:literal, $block_bytes:literal;)*) => {
        #[allow(non_upper_case_globals, missing_docs, reason = "the names are ggml's, and say all there is to say")]
        impl TensorType {
            $(pub const $name: TensorType = TensorType($id);)*
        }
        /// Every element type that ggml defines and has not withdrawn, by ascending id.
        const TYPES: &[Row] = &[$(($id, stringify!($name), $block_len, $block_bytes)),*];
    };
}

tensor_types! {
    F32 = 0, 1, 4;
    F16 = 1, 1, 2;
    Q4_0 = 2, 32, 18;
    Q4_1 = 3, 32, 20;
    Q5_0 = 6, 32, 22;
    Q5_1 = 7, 32, 24;
    Q8_0 = 8, 32, 34;
    Q8_1 = 9, 32, 36;
    Q2_K = 10, 256, 84;
    Q3_K = 11, 256, 110;
    Q4_K = 12, 256, 144;
    Q5_K = 13, 256, 176;
    Q6_K = 14, 256, 210;
    Q8_K = 15, 256, 292;
    IQ2_XXS = 16, 256, 66;
    IQ2_XS = 17, 256, 74;
    IQ3_XXS = 18, 256, 98;
    IQ1_S = 19, 256, 50;
    IQ4_NL = 20, 32, 18;
    IQ3_S = 21, 256, 110;
    IQ2_S = 22, 256, 82;
    IQ4_XS = 23, 256, 136;
    I8 = 24, 1, 1;
    I16 = 25, 1, 2;
    I32 = 26, 1, 4;
    I64 = 27, 1, 8;
    F64 = 28, 1, 8;
    IQ1_M = 29, 256, 56;
    BF16 = 30, 1, 2;
    TQ1_0 = 34, 256, 54;
    TQ2_0 = 35, 256, 66;
    MXFP4 = 39, 32, 17;
    NVFP4 = 40, 64, 36;
    Q1_0 = 41, 128, 18;
    Q2_0 = 42, 64, 18;
}

/// Ids that ggml once used and has withdrawn: named, so that an old file is refused by name.
const WITHDRAWN: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

impl TensorType {
    fn row(self) -> Option<&'static Row> {
        TYPES.iter().find(|row| row.0 == self.0)
    }

    /// Every type in the table, by ascending id.
    pub fn all() -> impl Iterator<Item = TensorType> {
        TYPES.iter().map(|row| TensorType(row.0))
    }

    /// Whether the table has this id. Every tensor of an opened file has a known type.
    pub fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// Refuses an id that the table does not have: the rest of a sentence that begins with the tensor.
    pub(super) fn check(self) -> std::result::Result<(), String> {
        match self.is_known() {
            true => Ok(()),
            false => Err(format!("has the type {} ({self}), which Ember does not know", self.0)),
        }
    }

    /// ggml's name, "Q8_0"; a withdrawn type has a name too, anything else is "unknown".
    pub fn name(self) -> &'static str {
        let withdrawn = || WITHDRAWN.iter().find(|w| w.0 == self.0).map(|w| w.1);
        self.row().map(|row| row.1).or_else(withdrawn).unwrap_or("unknown")
    }

    /// Elements per block; a row's length is a multiple of it. 1 for an unknown type.
    pub fn block_len(self) -> usize {
        self.row().map_or(1, |row| row.2)
    }

    /// Bytes per block. 0 for an unknown type.
    pub fn block_bytes(self) -> usize {
        self.row().map_or(0, |row| row.3)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// A tensor's shape in ggml's order: `dims[0]` is the length of a row, whose elements are adjacent. One to four
/// dimensions; reads as a slice.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    len: u8,
    dims: [usize; MAX_DIMS],
}

impl Dims {
    /// A shape, or `None` unless it has one to four dimensions, all non-zero.
    pub fn new(dims: &[usize]) -> Option<Dims> {
        if dims.is_empty() || dims.len() > MAX_DIMS || dims.contains(&0) {
            return None;
        }
        let mut padded = [1; MAX_DIMS];
        padded[..dims.len()].copy_from_slice(dims);
        Some(Dims { len: dims.len() as u8, dims: padded })
    }

    /// The number of bytes that a tensor of the known type `ty` and this shape takes: whole blocks along each row.
    ///
    /// # Errors
    /// Why there is no such tensor: the rest of a sentence that begins with the tensor.
    pub(super) fn n_bytes(&self, ty: TensorType) -> std::result::Result<usize, String> {
        let (block_len, row_len) = (ty.block_len(), self.dims[0]);
        if !row_len.is_multiple_of(block_len) {
            return Err(format!(
                "has rows of {row_len} elements, expected a multiple of {block_len} for {ty}"
            ));
        }
        let product = |first: usize| self.dims[1..].iter().try_fold(first, |n, &d| n.checked_mul(d));
        let n_elements = product(row_len);
        let n_bytes = (row_len / block_len).checked_mul(ty.block_bytes()).and_then(product);
        match (n_elements, n_bytes) {
            (Some(_), Some(n_bytes)) => Ok(n_bytes),
            _ => Err(format!("has the shape {self:?}, which is more than this machine can address")),
        }
    }
}

impl Deref for Dims {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.dims[..usize::from(self.len)]
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// One entry of the tensor directory, checked when the model was opened: the data lies inside its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The tensor's name, unique in its model.
    pub name: String,
    /// Element type.
    pub ty: TensorType,
    /// Shape, row length first.
    pub dims: Dims,
    /// Which of the model's files holds the data: 0 where there is but one.
    pub file: usize,
    /// Where the data begins, in bytes from the start of that file.
    pub offset: usize,
    /// How many bytes the data takes.
    pub n_bytes: usize,
}

impl TensorInfo {
    /// An entry for data of type `ty` and shape `dims` (row length first) that begins at `offset` of the model's file
    /// number `file`.
    ///
    /// # Errors
    /// `Unsupported` for an unknown type, `Format` for an impossible shape; the sentence names the tensor.
    pub fn new(name: &str, ty: TensorType, dims: &[usize], file: usize, offset: usize) -> Result<TensorInfo> {
        let wrong = |why: String| Error::Format(format!("the tensor {name:?} {why}"));
        ty.check().map_err(|why| Error::Unsupported(format!("the tensor {name:?} {why}")))?;
        let impossible = || wrong(format!("has the impossible shape {}", sizes(dims)));
        let dims = Dims::new(dims).ok_or_else(impossible)?;
        let n_bytes = dims.n_bytes(ty).map_err(wrong)?;
        Ok(TensorInfo { name: name.to_owned(), ty, dims, file, offset, n_bytes })
    }
}
