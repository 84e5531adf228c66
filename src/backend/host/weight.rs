//! Weights: rows in the model file's own bytes, or packed.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::Zeroed;
use super::packer::{PackedRows, Packer, Source};
use crate::backend::{WeightRole, WeightSource};
use crate::error::Result;
use crate::gguf::FileBytes;
use crate::memory::Memory;
use crate::quant::Format;
use crate::quant::packed::{Codes, Packing};

/// A weight of the CPU backends: rows in the model file's own bytes, or an owned f32 copy where the file's cannot be
/// used in place.
pub struct HostWeight {
    /// Number format of the rows.
    pub format: Format,
    /// Rows.
    pub n_rows: usize,
    /// Length of a row in elements.
    pub n_cols: usize,
    row_bytes: usize,
    storage: Storage,
    /// Rows rearranged for this machine's products, sixteen to a group, once the packer has run. From then on the file's rows are
    /// only looked up.
    packed: Option<Packed>,
}

struct Packed {
    packing: &'static Packing,
    rows: Arc<OnceLock<PackedRows>>,
}

enum Storage {
    File {
        file: Arc<FileBytes>,
        range: Range<usize>,
    },
    /// In the file until the packer has run, and then in a copy.
    Copied {
        file: Arc<FileBytes>,
        range: Range<usize>,
        copy: Arc<OnceLock<PackedRows>>,
    },
    Owned(Zeroed<f32>),
}

impl HostWeight {
    /// Refers to the file where possible; vectors in another format than f32, and f32 data at an address that is no
    /// multiple of 4, become an owned f32 copy.
    pub fn new(src: &WeightSource<'_>, memory: &Memory) -> Result<HostWeight> {
        let row_bytes = src.format.row_bytes(src.n_cols);
        let range = src.offset..src.offset + row_bytes * src.n_rows;
        let in_place = match (src.format, src.role) {
            (Format::F32, _) => src.file.is_aligned_at(src.offset),
            (_, WeightRole::Matrix | WeightRole::Table) => true,
            (_, WeightRole::Vector) => false,
        };
        let (n_rows, n_cols) = (src.n_rows, src.n_cols);
        if in_place {
            let storage = Storage::File { file: Arc::clone(src.file), range };
            return Ok(HostWeight { format: src.format, n_rows, n_cols, row_bytes, storage, packed: None });
        }
        let mut copy = memory.zeroed::<f32>(n_rows * n_cols, "a weight's f32 copy")?;
        if !memory.measures() {
            (src.format.info().dequantize)(&src.file[range], &mut copy);
        }
        let row_bytes = Format::F32.row_bytes(n_cols);
        Ok(HostWeight {
            format: Format::F32,
            n_rows,
            n_cols,
            row_bytes,
            storage: Storage::Owned(copy),
            packed: None,
        })
    }

    /// Has `packer` pack the rows when it runs next, with one of their format's packings.
    pub fn pack_later(&mut self, name: &str, packing: &'static Packing, packer: &mut Packer) {
        if let Storage::File { file, range } = &self.storage {
            let rows = packer.add(self.source(name, file, range, Some(packing)));
            self.packed = Some(Packed { packing, rows });
        }
    }

    /// Has `packer` copy the rows when it runs next.
    pub fn copy_later(&mut self, name: &str, packer: &mut Packer) {
        if let Storage::File { file, range } = &self.storage {
            let copy = packer.add(self.source(name, file, range, None));
            self.storage = Storage::Copied { file: Arc::clone(file), range: range.clone(), copy };
        }
    }

    fn source(
        &self,
        name: &str,
        file: &Arc<FileBytes>,
        range: &Range<usize>,
        packing: Option<&'static Packing>,
    ) -> Source {
        Source {
            name: name.to_owned(),
            file: Arc::clone(file),
            range: range.clone(),
            format: self.format,
            packing,
            n_rows: self.n_rows,
            n_cols: self.n_cols,
            slot: Arc::new(OnceLock::new()),
        }
    }

    /// Locks the rows that are not packed into memory.
    pub fn lock(&self) -> std::io::Result<()> {
        match &self.storage {
            _ if self.packed.is_some() => Ok(()),
            Storage::Copied { .. } => Ok(()),
            Storage::File { file, range } => file.lock(range.clone()),
            Storage::Owned(copy) => copy.lock(),
        }
    }

    /// Whether there are groups.
    pub fn is_packed(&self) -> bool {
        self.packed.as_ref().is_some_and(|packed| packed.rows.get().is_some())
    }

    /// Whether there are groups of 16-bit integers.
    pub fn is_wide(&self) -> bool {
        self.is_packed() && self.packed.as_ref().is_some_and(|packed| packed.packing.codes == Codes::Wide)
    }

    /// Groups of sixteen rows of a weight that is packed; `None` when it is not.
    pub fn groups(&self, groups: Range<usize>) -> Option<&[u8]> {
        let Packed { packing, rows } = self.packed.as_ref()?;
        let (group_bytes, bytes) = (packing.group_bytes(self.n_cols), rows.get()?.bytes());
        Some(&bytes[groups.start * group_bytes..groups.end * group_bytes])
    }

    fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::File { file, range } => &file[range.clone()],
            Storage::Copied { file, range, copy } => {
                copy.get().map_or_else(|| &file[range.clone()], PackedRows::bytes)
            }
            Storage::Owned(data) => bytemuck::cast_slice(data),
        }
    }

    /// The bytes of row `i`.
    pub fn row(&self, i: usize) -> &[u8] {
        &self.bytes()[i * self.row_bytes..(i + 1) * self.row_bytes]
    }

    /// The bytes of row `i` of a table. Rows of a mapped file are read into `buffer`, since the system would map many pages for
    /// each touched row. The errors are those of [`FileBytes::read_at`].
    pub fn read_row<'a>(&'a self, i: usize, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
        match &self.storage {
            Storage::File { file, range } => {
                let start = range.start + i * self.row_bytes;
                file.read_at(start..start + self.row_bytes, buffer)
            }
            Storage::Copied { .. } | Storage::Owned(_) => Ok(self.row(i)),
        }
    }

    /// The bytes of some rows.
    pub fn rows(&self, rows: Range<usize>) -> &[u8] {
        &self.bytes()[rows.start * self.row_bytes..rows.end * self.row_bytes]
    }

    /// All elements of a weight in format F32, row after row.
    pub fn f32s(&self) -> &[f32] {
        bytemuck::cast_slice(self.bytes())
    }
}
