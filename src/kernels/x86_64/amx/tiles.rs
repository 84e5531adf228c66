//! The tile instructions, which stable Rust has no functions for.

use std::arch::asm;
use std::marker::PhantomData;

use crate::quant::Q8Block;
use crate::quant::packed::{Codes, ROWS};

/// The quads of a piece as bytes: byte `4 r + k` of quad `j` for row `r` and column `4 j + k`.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Quads(pub [[u8; 64]; 8]);

const _: () = assert!(size_of::<Quads>() == Codes::U8.bytes());

/// Sums of products, `[vector][row]`.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Sums(pub [[i32; ROWS]; ROWS]);

/// What `ldtilecfg` takes.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Tiles 0 and 1 for sums, 2 and 3 for the activations of a piece, 4 and 5 for its weights.
static CONFIG: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 32, 32, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Tiles that are configured until this is dropped, on this thread. The ABI leaves their configuration to callers, and
/// code without tile instructions does not change it.
pub struct Tiles {
    /// Whether codes are signed.
    signed: bool,
    /// A configuration belongs to a thread.
    _thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the tiles, for codes that are signed or not.
    ///
    /// # Safety
    /// [`super::supported`] has said so. There is one such value at a time on a thread.
    pub unsafe fn configure(signed: bool) -> Tiles {
        // SAFETY: the caller vouches for the instruction, which reads 64 bytes that describe tiles of allowed sizes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(nostack, readonly, preserves_flags)) };
        Tiles { signed, _thread: PhantomData }
    }

    /// `sums[i][t][r] = Σ code · x` over piece `i` of `weights`, for row `r` and the sixteen vectors `t` whose blocks
    /// begin at `x[t * n_blocks]`.
    pub fn multiply<const N: usize>(
        &self,
        weights: &[Quads],
        x: &[Q8Block],
        n_blocks: usize,
        sums: &mut [[Sums; 2]; N],
    ) {
        let n = weights.len();
        assert!(x.len() >= (ROWS - 1) * n_blocks + n && n <= 2 * N, "vectors of activations are too short");
        let block = |i: usize| {
            x.as_ptr().wrapping_add(i).cast::<u8>().wrapping_add(std::mem::offset_of!(Q8Block, qs))
        };
        let quads = |i: usize| weights.as_ptr().wrapping_add(i).cast::<u8>();
        let stride = n_blocks * size_of::<Q8Block>();
        // SAFETY of both: tiles are configured. Below are blocks of sixteen vectors and pieces, which the assertion says are there.
        let pair = |x, weights, sums: &mut _| match self.signed {
            // SAFETY: as above.
            true => unsafe { signed(x, stride, weights, sums) },
            // SAFETY: as above.
            false => unsafe { unsigned(x, stride, weights, sums) },
        };
        for (i, sums) in (0..n).step_by(2).zip(sums) {
            // The last of an odd number is computed twice.
            let next = (i + 1).min(n - 1);
            pair([block(i), block(next)], [quads(i), quads(next)], sums);
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: as there is a value, there are tiles.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// Two products of tiles by one instruction, which the hardware may compute side by side.
macro_rules! pair {
    ($name:ident, $product:literal) => {
        /// # Safety
        /// Tiles are configured. As configured, there are sixteen rows of activations `stride` bytes apart at each of `x`, and
        /// quads one after another at each of `weights`.
        #[inline(always)]
        unsafe fn $name(x: [*const u8; 2], stride: usize, weights: [*const u8; 2], sums: &mut [Sums; 2]) {
            let [first, second] = sums;
            // SAFETY: the caller vouches for the tiles and what is read; sixteen rows of 64 bytes are written to each sum.
            unsafe {
                asm!(
                    "tileloadd tmm4, [{w0} + {row}]",
                    "tileloadd tmm2, [{x0} + {stride}]",
                    "tilezero tmm0",
                    concat!($product, " tmm0, tmm2, tmm4"),
                    "tileloadd tmm5, [{w1} + {row}]",
                    "tileloadd tmm3, [{x1} + {stride}]",
                    "tilezero tmm1",
                    concat!($product, " tmm1, tmm3, tmm5"),
                    "tilestored [{s0} + {row}], tmm0",
                    "tilestored [{s1} + {row}], tmm1",
                    row = in(reg) 64usize,
                    stride = in(reg) stride,
                    x0 = in(reg) x[0],
                    x1 = in(reg) x[1],
                    w0 = in(reg) weights[0],
                    w1 = in(reg) weights[1],
                    s0 = in(reg) first,
                    s1 = in(reg) second,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

pair!(unsigned, "tdpbsud");
pair!(signed, "tdpbssd");
