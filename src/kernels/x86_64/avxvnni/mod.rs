//! AVX2 with VNNI, the dot products of bytes: processors without AVX-512 (Intel from Alder Lake).

mod packed;

use super::avx2::{self, AVX2};
use crate::kernels::{Isa, Kernels, PackedProduct};
use crate::quant::FORMAT_COUNT;

/// The table.
pub static AVXVNNI: Kernels = Kernels { isa: Isa::AvxVnni, packed: with_rows(packed::TABLE), ..AVX2 };

/// The table with AVX2's products of the formats that it multiplies in place too: they have the same bits.
const fn with_rows(
    mut table: [Option<PackedProduct>; FORMAT_COUNT],
) -> [Option<PackedProduct>; FORMAT_COUNT] {
    let mut i = 0;
    while i < FORMAT_COUNT {
        if avx2::ROWS[i].is_some() {
            table[i] = avx2::PACKED[i];
        }
        i += 1;
    }
    table
}

/// Whether this machine has the instructions that the functions of [`AVXVNNI`] are compiled for.
pub fn supported() -> bool {
    avx2::supported() && is_x86_feature_detected!("avxvnni")
}
