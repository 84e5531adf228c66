//! The rows of a table: each by one thread, read from the file where they are not in memory.

use std::sync::OnceLock;

use super::ThreadedBackend;
use crate::backend::Embed;
use crate::error::Result;
use crate::threads::DisjointMut;

impl ThreadedBackend {
    /// See [`Backend::embed`](crate::backend::Backend::embed).
    pub(super) fn look_up(&mut self, args: Embed<'_, Self>) -> Result<()> {
        let Embed { table, rows, out } = args;
        let (expand, n_cols) = (self.kernels.expand[table.format as usize], table.n_cols);
        let buffers = bytemuck::cast_slice_mut::<f32, u8>(&mut self.rows);
        let len = buffers.len() / self.pool.n_threads();
        let (buffers, out, failed) = (DisjointMut::new(buffers), DisjointMut::new(out), OnceLock::new());
        self.pool.run(rows.len(), &|thread, i| {
            // SAFETY: each thread has a buffer of its own.
            let buffer = unsafe { buffers.slice(thread * len..(thread + 1) * len) };
            // SAFETY: tasks have different numbers, and their rows do not overlap.
            let out = unsafe { out.slice(i * n_cols..(i + 1) * n_cols) };
            match table.read_row(rows[i] as usize, buffer) {
                Ok(row) => expand(row, out),
                // Only the first is reported.
                Err(error) => drop(failed.set(error)),
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }
}
