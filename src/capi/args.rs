//! Arguments from C, checked: text, arrays, outputs. The macros name the argument after the variable.

use std::ffi::{CStr, c_char, c_void};

use crate::error::{Error, Result};
use crate::memory::fallible;

/// `EMBER_NUL_TERMINATED`, which cbindgen.toml writes into the header.
const NUL_TERMINATED: usize = usize::MAX;

/// `len` elements at `ptr`. NULL is fine for an empty array.
///
/// # Safety
/// `ptr` is NULL or points to `len` initialised elements that nobody changes while the export runs.
pub unsafe fn slice<'a, T>(ptr: *const T, len: usize, arg: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check_array(ptr, len, (arg, "length"))?;
    // SAFETY: not NULL, aligned, of a size that exists, and valid by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

/// As [`slice`], for elements that outlive the export.
///
/// # Safety
/// As [`slice`], and they stay valid and unchanged as long as the result is used.
pub unsafe fn lasting_slice<T>(ptr: *const T, len: usize, arg: &str) -> Result<&'static [T]> {
    // SAFETY: forwarded.
    unsafe { slice(ptr, len, arg) }
}

/// As [`slice`], but NULL stands for "not given".
///
/// # Safety
/// As [`slice`].
pub unsafe fn optional_slice<'a, T>(ptr: *const T, len: usize, arg: &str) -> Result<Option<&'a [T]>> {
    match ptr.is_null() {
        true => Ok(None),
        // SAFETY: forwarded.
        false => unsafe { slice(ptr, len, arg) }.map(Some),
    }
}

/// UTF-8 text of `len` bytes at `ptr`, or up to its NUL byte when `len` is [`NUL_TERMINATED`].
///
/// # Safety
/// As [`slice`].
pub unsafe fn utf8<'a>(ptr: *const c_char, len: usize, arg: &str) -> Result<&'a str> {
    let len = match len {
        NUL_TERMINATED if !ptr.is_null() => {
            // SAFETY: the caller says that the text ends at a NUL byte.
            unsafe { CStr::from_ptr(ptr) }.count_bytes()
        }
        NUL_TERMINATED => return Err(Error::InvalidArgument(format!("{arg} is NULL"))),
        len => len,
    };
    // SAFETY: forwarded; char and u8 have the same layout.
    let bytes = unsafe { slice(ptr.cast::<u8>(), len, arg) }?;
    std::str::from_utf8(bytes).map_err(|e| {
        Error::Utf8(format!("{arg} is not UTF-8: byte {} starts an invalid sequence", e.valid_up_to()))
    })
}

/// `n` texts: element `i` is UTF-8 of `lengths[i]` bytes at `texts[i]`, or up to its NUL byte when `lengths` is NULL.
///
/// # Safety
/// As [`slice`], for both arrays and for each text.
pub unsafe fn utf8s<'a>(
    texts: *const *const c_char,
    lengths: *const usize,
    n: usize,
    (texts_arg, lengths_arg): (&str, &str),
) -> Result<Vec<&'a str>> {
    // SAFETY: forwarded.
    let texts = unsafe { slice(texts, n, texts_arg) }?;
    // SAFETY: forwarded.
    let lengths = unsafe { optional_slice(lengths, n, lengths_arg) }?;
    let text = |(i, &text): (usize, &*const c_char)| {
        let len = lengths.map_or(NUL_TERMINATED, |lengths| lengths[i]);
        // SAFETY: forwarded.
        unsafe { utf8(text, len, &format!("{texts_arg}[{i}]")) }
    };
    let mut list = Vec::new();
    fallible(|| list.try_reserve_exact(n))
        .map_err(|_| Error::NoMemory(format!("no memory for a list of {n} {texts_arg}")))?;
    for text in texts.iter().enumerate().map(text) {
        list.push(text?);
    }
    Ok(list)
}

/// Checks the address of `len` elements; `what` is the word for their number.
fn check_array<T>(ptr: *const T, len: usize, (arg, what): (&str, &str)) -> Result<()> {
    if ptr.is_null() {
        return Err(Error::InvalidArgument(format!("{arg} is NULL, but its {what} is {len}")));
    }
    if !ptr.is_aligned() {
        return Err(Error::InvalidArgument(format!(
            "{arg} is not aligned to {} bytes",
            std::mem::align_of::<T>()
        )));
    }
    let fits = len.checked_mul(std::mem::size_of::<T>()).is_some_and(|n| n <= isize::MAX as usize);
    match fits {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("{arg} has {what} {len}, more than memory can hold"))),
    }
}

/// A place for a result, written only when the call succeeds.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks the pointer before any work is done.
    ///
    /// # Safety
    /// `ptr` is NULL or may be written as a `T` while the export runs.
    pub unsafe fn new(ptr: *mut T, arg: &str) -> Result<Out<T>> {
        match ptr.is_null() || !ptr.is_aligned() {
            true => Err(Error::InvalidArgument(format!(
                "{arg} is NULL or misaligned; it must point to the result"
            ))),
            false => Ok(Out(ptr)),
        }
    }

    /// As [`Out::new`], but NULL stands for "not wanted".
    ///
    /// # Safety
    /// As [`Out::new`].
    pub unsafe fn optional(ptr: *mut T, arg: &str) -> Result<Option<Out<T>>> {
        match ptr.is_null() {
            true => Ok(None),
            // SAFETY: forwarded.
            false => unsafe { Out::new(ptr, arg) }.map(Some),
        }
    }

    /// Writes the result; returns what an export ends with.
    pub fn set(self, value: T) -> Result<()> {
        // SAFETY: `new` checked the pointer, and its caller promised that it may be written.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// Copies `data` to the caller's `buffer` (argument `arg`) of `capacity` elements and writes the needed length. A buffer
/// that is too small is left alone; the needed length is written all the same, so that a first call may have capacity 0.
///
/// # Safety
/// `buffer` is NULL or may be written for `capacity` elements; `needed` is NULL or may be written.
pub unsafe fn copy_out<T: Copy>(
    data: &[T],
    buffer: *mut T,
    capacity: usize,
    needed: *mut usize,
    arg: &str,
) -> Result<()> {
    let n = data.len();
    // SAFETY: forwarded.
    let needed = unsafe { check_capacity(n, buffer, capacity, needed, arg) }?;
    if n > 0 {
        // SAFETY: the buffer is not NULL, aligned, and large enough by the caller's promise; it cannot overlap `data`,
        // which is Ember's own.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buffer, n) };
    }
    needed.set(n)
}

/// Checks before any work is done that the caller's `buffer` (argument `arg`) of `capacity` elements takes `n`. If it is
/// too small, the needed length is written. Returns the place for the length.
///
/// # Safety
/// As [`copy_out`].
pub unsafe fn check_capacity<T>(
    n: usize,
    buffer: *mut T,
    capacity: usize,
    needed: *mut usize,
    arg: &str,
) -> Result<Out<usize>> {
    // SAFETY: forwarded.
    let needed = unsafe { Out::new(needed, "n_needed") }?;
    if capacity < n {
        needed.set(n)?;
        return Err(Error::BufferTooSmall(format!("{arg} holds {capacity} elements, {n} are needed")));
    }
    if n > 0 {
        check_array(buffer.cast_const(), capacity, (arg, "capacity"))?;
    }
    Ok(needed)
}

/// A place for a result struct whose first field, a `size_t`, says how many bytes may be written: a program built
/// against an older, shorter struct gets the fields it knows.
///
/// The structs are derived as free of padding where `size_t` has 64 bits. Where it has 32, a first field of 64 bits may lie
/// after four bytes of padding (WebAssembly), which mean as little as in C.
pub struct OutStruct<T> {
    place: *mut T,
    struct_size: usize,
}

impl<T: Copy> OutStruct<T> {
    /// Checks the pointer and the size before any work is done.
    ///
    /// # Safety
    /// `ptr` is NULL or points to a struct whose first field is a `size_t` with the number of bytes that may be written
    /// while the export runs.
    pub unsafe fn new(ptr: *mut T, arg: &str) -> Result<OutStruct<T>> {
        // SAFETY: forwarded.
        let Out(place) = unsafe { Out::new(ptr, arg) }?;
        // SAFETY: not NULL, aligned, and initialised by the caller's promise.
        let struct_size = unsafe { place.cast::<usize>().read() };
        let least = 2 * std::mem::size_of::<usize>();
        if struct_size < least || struct_size > isize::MAX as usize {
            return Err(Error::InvalidArgument(format!(
                "{arg}->struct_size is {struct_size}; set it to the size of the struct before the call"
            )));
        }
        Ok(OutStruct { place, struct_size })
    }

    /// As [`OutStruct::new`], but NULL stands for "not wanted".
    ///
    /// # Safety
    /// As [`OutStruct::new`].
    pub unsafe fn optional(ptr: *mut T, arg: &str) -> Result<Option<OutStruct<T>>> {
        match ptr.is_null() {
            true => Ok(None),
            // SAFETY: forwarded.
            false => unsafe { OutStruct::new(ptr, arg) }.map(Some),
        }
    }

    /// Writes the fields that the caller knows; returns what an export ends with.
    pub fn set(self, value: &T) -> Result<()> {
        let n = self.struct_size.min(std::mem::size_of::<T>());
        let from = std::ptr::from_ref(value).cast::<u8>();
        // SAFETY: `n` bytes are within both structs.
        unsafe { std::ptr::copy_nonoverlapping(from, self.place.cast::<u8>(), n) };
        // SAFETY: as for the copy; the field keeps what the caller wrote.
        unsafe { self.place.cast::<usize>().write(self.struct_size) };
        Ok(())
    }
}

/// A caller's `user_data`: handed back to the caller's callback and never looked at.
#[derive(Clone, Copy)]
pub struct UserData(pub *mut c_void);

// SAFETY: Ember only passes the pointer on to the callback it came with, whose documentation says on which thread
// it runs.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

/// Borrows a handle argument.
macro_rules! handle {
    ($ptr:ident) => {{
        // SAFETY: the header's contract: NULL, or a handle that lives while the call runs.
        unsafe { $crate::capi::handle::borrow($ptr, stringify!($ptr)) }?
    }};
}

/// Frees a handle argument, unless the given condition says that it is in use.
macro_rules! free_handle {
    ($ptr:ident) => {
        free_handle!($ptr, |_| true)
    };
    ($ptr:ident, $may_go:expr) => {{
        // SAFETY: the header's contract: NULL, or a handle that nothing uses any more.
        unsafe { $crate::capi::handle::free($ptr, $may_go) }
    }};
}

/// Checks an output argument.
macro_rules! output {
    ($ptr:ident) => {{
        // SAFETY: the header's contract: NULL, or a place that may be written.
        unsafe { $crate::capi::args::Out::new($ptr, stringify!($ptr)) }?
    }};
}

/// Checks an output argument that may be NULL for "not wanted".
macro_rules! optional_output {
    ($ptr:ident) => {{
        // SAFETY: as for `output!`.
        unsafe { $crate::capi::args::Out::optional($ptr, stringify!($ptr)) }?
    }};
}

/// Borrows a text argument.
macro_rules! text {
    ($ptr:ident, $len:ident) => {{
        // SAFETY: the header's contract: NULL, or that many bytes that stay as they are while the call runs.
        unsafe { $crate::capi::args::utf8($ptr, $len, stringify!($ptr)) }?
    }};
}

/// Borrows an array of texts and that of their lengths.
macro_rules! texts {
    ($texts:ident, $lengths:ident, $n:ident) => {{
        let names = (stringify!($texts), stringify!($lengths));
        // SAFETY: the header's contract: NULL, or that many texts that stay as they are while the call runs.
        unsafe { $crate::capi::args::utf8s($texts, $lengths, $n, names) }?
    }};
}

/// Borrows an array argument.
macro_rules! array {
    ($ptr:ident, $len:ident) => {{
        // SAFETY: the header's contract: NULL, or that many elements that stay as they are while the call runs.
        unsafe { $crate::capi::args::slice($ptr, $len, stringify!($ptr)) }?
    }};
}

/// Borrows an array argument that outlives the call.
macro_rules! lasting_array {
    ($ptr:ident, $len:ident) => {{
        // SAFETY: the header's contract: NULL, or that many elements that stay as they are until they are released.
        unsafe { $crate::capi::args::lasting_slice($ptr, $len, stringify!($ptr)) }?
    }};
}

/// Borrows an array argument that may be NULL for "not given".
macro_rules! optional_array {
    ($ptr:ident, $len:ident) => {{
        // SAFETY: as for `array!`.
        unsafe { $crate::capi::args::optional_slice($ptr, $len, stringify!($ptr)) }?
    }};
}

/// Fills the caller's buffer.
macro_rules! fill {
    ($data:expr, $buffer:ident, $capacity:ident, $needed:ident) => {{
        let data = $data;
        // SAFETY: the header's contract: NULL, or space for that many elements.
        unsafe { $crate::capi::args::copy_out(&data[..], $buffer, $capacity, $needed, stringify!($buffer)) }
    }};
}

/// Checks that the caller's buffer is large enough, before the work.
macro_rules! needs_capacity {
    ($n:expr, $buffer:ident, $capacity:ident, $needed:ident) => {{
        let n = $n;
        // SAFETY: as for `fill!`.
        unsafe { $crate::capi::args::check_capacity(n, $buffer, $capacity, $needed, stringify!($buffer)) }?
    }};
}

/// Fills the caller's struct.
macro_rules! fill_struct {
    ($out:ident, $value:expr) => {{
        let value = $value;
        // SAFETY: the header's contract: NULL, or a struct that begins with its size.
        unsafe { $crate::capi::args::OutStruct::new($out, stringify!($out)) }?.set(&value)
    }};
}

/// Checks an output struct, before the work.
macro_rules! output_struct {
    ($out:ident) => {{
        // SAFETY: the header's contract: NULL, or a struct that begins with its size.
        unsafe { $crate::capi::args::OutStruct::new($out, stringify!($out)) }?
    }};
}

/// Checks an output struct that may be NULL for "not wanted".
macro_rules! optional_struct {
    ($out:ident) => {{
        // SAFETY: the header's contract: NULL, or a struct that begins with its size.
        unsafe { $crate::capi::args::OutStruct::optional($out, stringify!($out)) }?
    }};
}

pub(super) use {
    array, fill, fill_struct, free_handle, handle, lasting_array, needs_capacity, optional_array,
    optional_output, optional_struct, output, output_struct, text, texts,
};
