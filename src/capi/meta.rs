//! Metadata of a model file, key by key.

use std::ffi::c_char;

use super::args::{fill, handle, output, text};
use super::error::ember_error;
use super::guard::guard;
use super::model::ember_model;
use crate::error::{Error, Result, ember_status};
use crate::gguf::{Array, Metadata, Value, quoted};

/// The value, or `NotFound` naming the key.
fn present<T>(key: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::NotFound(format!("the file has no key {}", quoted(key.as_bytes()))))
}

/// The number, or an error that blames the caller, who asked for the wrong type, not the file.
fn number<T>(key: &str, value: Result<Option<T>>) -> Result<T> {
    let value = value.map_err(|e| match e {
        Error::Format(sentence) => Error::InvalidArgument(sentence),
        other => other,
    });
    present(key, value?)
}

fn nth_key(meta: &Metadata, index: usize) -> Result<&str> {
    meta.iter().nth(index).map(|(key, _)| key).ok_or_else(|| {
        Error::NotFound(format!("there is no key number {index}: the file has {}, from 0 on", meta.len()))
    })
}

fn string<'a>(meta: &'a Metadata, key: &str) -> Result<&'a [u8]> {
    match present(key, meta.get(key))? {
        Value::String(s) => Ok(s.as_bytes()),
        other => Err(Error::InvalidArgument(format!(
            "the key \"{key}\" is of type {}, not a string",
            other.value_type().name()
        ))),
    }
}

fn array<'a>(meta: &'a Metadata, key: &str) -> Result<&'a Array> {
    match present(key, meta.get(key))? {
        Value::Array(array) => Ok(array),
        other => Err(Error::InvalidArgument(format!(
            "the key \"{key}\" is of type {}, not an array",
            other.value_type().name()
        ))),
    }
}

/// Element `index`, where `pick` gives the element of an array of the wanted type.
fn element<T>(
    meta: &Metadata,
    key: &str,
    index: usize,
    (pick, wanted): (impl FnOnce(&Array, usize) -> Option<T>, &str),
) -> Result<T> {
    let array = array(meta, key)?;
    if index >= array.len() {
        return Err(Error::NotFound(format!(
            "the array \"{key}\" has no element {index}: it has {}, from 0 on",
            array.len()
        )));
    }
    pick(array, index).ok_or_else(|| {
        Error::InvalidArgument(format!(
            "element {index} of \"{key}\", an array of {}, is not {wanted}",
            array.element_type().name()
        ))
    })
}

fn float(array: &Array, i: usize) -> Option<f64> {
    match array {
        Array::F32(list) => list.get(i).map(|&x| x.into()),
        Array::F64(list) => list.get(i).copied(),
        _ => None,
    }
}

fn integer<T: TryFrom<i128>>(array: &Array, i: usize) -> Option<T> {
    array.integer(i).and_then(|n| T::try_from(n).ok())
}

fn boolean(array: &Array, i: usize) -> Option<bool> {
    match array {
        Array::Bool(list) => list.get(i).copied(),
        _ => None,
    }
}

fn string_element<'a>(meta: &'a Metadata, key: &str, index: usize) -> Result<&'a [u8]> {
    let Array::String(list) = array(meta, key)? else {
        return Err(Error::InvalidArgument(format!("the key \"{key}\" is no array of strings")));
    };
    list.get(index).ok_or_else(|| {
        Error::NotFound(format!(
            "the array \"{key}\" has no element {index}: it has {}, from 0 on",
            list.len()
        ))
    })
}

/// Counts the metadata keys of a model.
/// - @param model the model; not NULL
/// - @param out receives the number of keys; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_INVALID_ARGUMENT.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_count(
    model: *const ember_model,
    out: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || output!(out).set(handle!(model).model.gguf().metadata().len()))
}

/// Writes the name of a metadata key.
/// - @param model the model; not NULL
/// - @param index number of the key in the order of the file, from 0
/// - @param buffer receives the name, without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for an index that is too large; EMBER_E_INVALID_ARGUMENT, EMBER_E_BUFFER_TOO_SMALL.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_key(
    model: *const ember_model,
    index: usize,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let key = nth_key(handle!(model).model.gguf().metadata(), index)?;
        fill!(key.as_bytes(), buffer, capacity, n_needed)
    })
}

/// Writes the type of a metadata key, numbered as in GGUF files.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the type: 0 uint8, 1 int8, 2 uint16, 3 int16, 4 uint32, 5 int32, 6 float32, 7 bool, 8
///   string, 9 array, 10 uint64, 11 int64, 12 float64; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT, EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_type(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    out: *mut u32,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(present(key, model.model.gguf().metadata().get(key))?.value_type() as u32)
    })
}

/// Reads a metadata key that is a string.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param buffer receives the bytes as in the file, without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT for a key of another type;
///   EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_string(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key) = (handle!(model), text!(key, key_len));
        fill!(string(model.model.gguf().metadata(), key)?, buffer, capacity, n_needed)
    })
}

/// Reads a metadata key that is an integer, as 64 unsigned bits.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT for a key of another type or a
///   value that does not fit; EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_u64(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    out: *mut u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(number(key, model.model.gguf().metadata().u64(key))?)
    })
}

/// Reads a metadata key that is an integer, as 64 signed bits.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT for a key of another type or a
///   value that does not fit; EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_i64(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    out: *mut i64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(number(key, model.model.gguf().metadata().i64(key))?)
    })
}

/// Reads a metadata key that is a floating-point number.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT for a key of another type;
///   EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_f64(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    out: *mut f64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(number(key, model.model.gguf().metadata().f64(key))?)
    })
}

/// Reads a metadata key that is a boolean.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT for a key of another type;
///   EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_bool(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    out: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(number(key, model.model.gguf().metadata().bool(key))?)
    })
}

/// Writes the type and the number of the elements of an array.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param element_type receives the type, numbered as by ember_model_meta_type; 9 for an array of arrays, whose
///   elements no function reads; not NULL
/// - @param n_elements receives the number of elements; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key that is not there; EMBER_E_INVALID_ARGUMENT for a key that is no array;
///   EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_array(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    element_type: *mut u32,
    n_elements: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key) = (handle!(model), text!(key, key_len));
        let (element_type, n_elements) = (output!(element_type), output!(n_elements));
        let array = array(model.model.gguf().metadata(), key)?;
        element_type.set(array.element_type() as u32)?;
        n_elements.set(array.len())
    })
}

/// Reads an element of an array of strings.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param index number of the element, from 0
/// - @param buffer receives the bytes as in the file, without NUL; may be NULL if `capacity` is 0
/// - @param capacity bytes that `buffer` can take; 0 to ask for the number
/// - @param n_needed receives how many bytes there are, also with EMBER_E_BUFFER_TOO_SMALL; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there; EMBER_E_INVALID_ARGUMENT for a key of
///   another type; EMBER_E_UTF8, EMBER_E_BUFFER_TOO_SMALL, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_array_string(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    index: usize,
    buffer: *mut u8,
    capacity: usize,
    n_needed: *mut usize,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key) = (handle!(model), text!(key, key_len));
        fill!(string_element(model.model.gguf().metadata(), key, index)?, buffer, capacity, n_needed)
    })
}

/// Reads an element of an array of integers, as 64 unsigned bits.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param index number of the element, from 0
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there; EMBER_E_INVALID_ARGUMENT for a key of
///   another type or a value that does not fit; EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_array_u64(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    index: usize,
    out: *mut u64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(element(
            model.model.gguf().metadata(),
            key,
            index,
            (integer, "an integer of 64 unsigned bits"),
        )?)
    })
}

/// Reads an element of an array of integers, as 64 signed bits.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param index number of the element, from 0
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there; EMBER_E_INVALID_ARGUMENT for a key of
///   another type or a value that does not fit; EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_array_i64(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    index: usize,
    out: *mut i64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(element(
            model.model.gguf().metadata(),
            key,
            index,
            (integer, "an integer of 64 signed bits"),
        )?)
    })
}

/// Reads an element of an array of floating-point numbers.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param index number of the element, from 0
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there; EMBER_E_INVALID_ARGUMENT for a key of
///   another type; EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_array_f64(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    index: usize,
    out: *mut f64,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(element(model.model.gguf().metadata(), key, index, (float, "a floating-point number"))?)
    })
}

/// Reads an element of an array of booleans.
/// - @param model the model; not NULL
/// - @param key the name of the key, UTF-8; not NULL
/// - @param key_len length of `key` in bytes, or EMBER_NUL_TERMINATED
/// - @param index number of the element, from 0
/// - @param out receives the value; not NULL
/// - @param err receives an error that the caller frees, or NULL on EMBER_OK; may be NULL
/// - Threads: Any thread, also several at the same time.
/// - Errors: EMBER_E_NOT_FOUND for a key or an element that is not there; EMBER_E_INVALID_ARGUMENT for a key of
///   another type; EMBER_E_UTF8, EMBER_E_NOMEM.
/// - @return EMBER_OK, or the status of the error
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ember_model_meta_array_bool(
    model: *const ember_model,
    key: *const c_char,
    key_len: usize,
    index: usize,
    out: *mut bool,
    err: *mut *mut ember_error,
) -> ember_status {
    guard(err, || {
        let (model, key, out) = (handle!(model), text!(key, key_len), output!(out));
        out.set(element(model.model.gguf().metadata(), key, index, (boolean, "a boolean"))?)
    })
}
