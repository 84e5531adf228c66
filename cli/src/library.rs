//! libember, with its handles freed and its errors as sentences.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use crate::failure::{Failure, Result};
use crate::ffi;

/// Calls a function of the library's; the macro gives the last argument, which receives an error.
macro_rules! ember {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let mut error: *mut ffi::ember_error = null_mut();
        // SAFETY: handles are those of the types below, which live; pointers to texts and arrays come from references, with their
        // lengths; pointers to outputs are those of variables.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "arguments are casts of references, as said above")]
        let status = unsafe { ffi::$function($($argument,)* &raw mut error) };
        checked(status, error)
    }};
}

/// What the library's error says. The text is the library's own sentence.
fn checked(status: i32, error: *mut ffi::ember_error) -> Result<()> {
    if status == ffi::EMBER_OK {
        return Ok(());
    }
    // SAFETY: the library gives an error that lives until it is freed, or NULL, which it takes too.
    let message = unsafe { static_text(ffi::ember_error_message(error)) }.map(str::to_owned);
    // SAFETY: nobody uses it after this.
    unsafe { ffi::ember_error_free(error) };
    Err(match status {
        ffi::EMBER_E_CANCELLED => Failure::Interrupted,
        _ => Failure::Said(message.unwrap_or_else(|| format!("the library failed with status {status}"))),
    })
}

/// # Safety
/// `text` is NULL, or ends with a NUL and stays as long as the result is used.
unsafe fn static_text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// # Safety
/// `text` points to `len` bytes of UTF-8 that stay as long as the result is used.
unsafe fn text_of<'a>(text: *const c_char, len: usize) -> &'a str {
    if len == 0 {
        return "";
    }
    // SAFETY: as above. The library promises UTF-8; what is none would be empty here.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(text.cast(), len) }).unwrap_or_default()
}

fn chars(text: &str) -> *const c_char {
    text.as_ptr().cast()
}

/// A path as the library takes it.
pub fn path_text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Failure::said(format!("{}: the path is not UTF-8", path.display())))
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident: $raw:ident, $free:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name(*mut ffi::$raw);

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the handle is this value's own.
                unsafe { ffi::$free(self.0) };
            }
        }
    )*};
}

handles! {
    ChatOptions: ember_chat_options, ember_chat_options_free;
    Constraint: ember_constraint, ember_constraint_free;
    Context: ember_context, ember_context_free;
    ContextOptions: ember_context_options, ember_context_options_free;
    Conversation: ember_conversation, ember_conversation_free;
    EmbedOptions: ember_embed_options, ember_embed_options_free;
    GenerateOptions: ember_generate_options, ember_generate_options_free;
    Generator: ember_generator, ember_generator_free;
    Model: ember_model, ember_model_release;
    ModelOptions: ember_model_options, ember_model_options_free;
    Sampler: ember_sampler, ember_sampler_free;
}

/// The version, and a line about the build.
pub fn version() -> (&'static str, &'static str) {
    // SAFETY: both texts are static.
    unsafe {
        (
            static_text(ffi::ember_version_string()).unwrap_or_default(),
            static_text(ffi::ember_build_info()).unwrap_or_default(),
        )
    }
}

/// Has warnings of the library's written to standard error.
pub fn log_warnings() -> Result<()> {
    unsafe extern "C" fn write(_level: i32, text: *const c_char, len: usize, _: *mut c_void) {
        // SAFETY: so the library promises.
        crate::output::note(format_args!("ember: {}", unsafe { text_of(text, len) }));
    }
    ember!(ember_log_set(Some(write), null_mut(), ffi::EMBER_LOG_WARN))
}

/// Ends calls from another thread.
pub struct CancelToken(*mut ffi::ember_cancel_token);

// SAFETY: any number of threads may use a token at the same time.
unsafe impl Send for CancelToken {}
// SAFETY: as above.
unsafe impl Sync for CancelToken {}

impl Default for CancelToken {
    /// A token that ends nothing.
    fn default() -> CancelToken {
        CancelToken(null_mut())
    }
}

impl CancelToken {
    pub fn new() -> Result<CancelToken> {
        let mut out = null_mut();
        ember!(ember_cancel_token_new(&raw mut out))?;
        Ok(CancelToken(out))
    }

    pub fn cancel(&self) {
        // SAFETY: the token lives, and NULL is fine.
        unsafe { ffi::ember_cancel_token_cancel(self.0) };
    }

    pub fn reset(&self) {
        // SAFETY: as above.
        unsafe { ffi::ember_cancel_token_reset(self.0) };
    }

    pub fn is_cancelled(&self) -> bool {
        // SAFETY: as above.
        unsafe { ffi::ember_cancel_token_is_cancelled(self.0) }
    }
}

impl Model {
    /// Loads a GGUF file or a folder; the token ends that.
    pub fn load(path: &Path, token: &CancelToken) -> Result<Model> {
        Model::load_with(path, token, ffi::EMBER_PACK_AUTO)
    }

    /// The same, for those who only ask: the weights are left alone.
    pub fn load_unpacked(path: &Path, token: &CancelToken) -> Result<Model> {
        Model::load_with(path, token, ffi::EMBER_PACK_NEVER)
    }

    fn load_with(path: &Path, token: &CancelToken, pack: i32) -> Result<Model> {
        let (mut options, mut out) = (null_mut(), null_mut());
        let text = path_text(path)?;
        ember!(ember_model_options_new(&raw mut options))?;
        let options = ModelOptions(options);
        ember!(ember_model_options_set_cancel_token(options.0, token.0))?;
        ember!(ember_model_options_set_pack(options.0, pack))?;
        ember!(ember_model_load(chars(text), text.len(), options.0, &raw mut out))?;
        Ok(Model(out))
    }

    pub fn info(&self) -> Result<ffi::ember_model_info> {
        // SAFETY: numbers, of which zero is one.
        let mut info: ffi::ember_model_info = unsafe { std::mem::zeroed() };
        info.struct_size = size_of_val(&info);
        ember!(ember_model_info_get(self.0, &raw mut info))?;
        Ok(info)
    }

    /// The template of the model's conversations.
    pub fn chat_template(&self) -> Result<String> {
        whole_text(|buffer, capacity, needed| {
            ember!(ember_model_chat_template(self.0, null(), 0, buffer, capacity, needed))
        })
    }

    /// The instruction set that contexts compute with.
    pub fn isa(&self) -> &'static str {
        // SAFETY: the text is static.
        unsafe { static_text(ffi::ember_model_isa(self.0)) }.unwrap_or_default()
    }
}

/// What a file holds and whether it is supported, as JSON.
pub fn inspect(path: &Path) -> Result<String> {
    let text = path_text(path)?;
    whole_text(|buffer, capacity, needed| {
        ember!(ember_model_inspect(chars(text), text.len(), buffer, capacity, needed))
    })
}

/// Asks how long a text is, then for the text. It is asked again where it has become longer.
fn whole_text(mut fill: impl FnMut(*mut u8, usize, *mut usize) -> Result<()>) -> Result<String> {
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let (mut needed, capacity) = (0, bytes.len());
        match fill(bytes.as_mut_ptr(), capacity, &raw mut needed) {
            Ok(()) => {
                bytes.truncate(needed);
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            Err(_) if needed > capacity => bytes.resize(needed, 0),
            Err(failure) => return Err(failure),
        }
    }
}

/// What a model and a context over it take.
pub fn memory(path: &Path, n_ctx: u32) -> Result<ffi::ember_memory> {
    let text = path_text(path)?;
    let options = ContextOptions::new(n_ctx, 0)?;
    // SAFETY: numbers, of which zero is one.
    let mut memory: ffi::ember_memory = unsafe { std::mem::zeroed() };
    memory.struct_size = size_of_val(&memory);
    ember!(ember_memory_estimate(chars(text), text.len(), null(), options.0, &raw mut memory))?;
    Ok(memory)
}

impl ContextOptions {
    /// 0 is the library's own choice, for either.
    pub fn new(n_ctx: u32, n_threads: u32) -> Result<ContextOptions> {
        let mut out = null_mut();
        ember!(ember_context_options_new(&raw mut out))?;
        let options = ContextOptions(out);
        ember!(ember_context_options_set_n_ctx(options.0, n_ctx))?;
        ember!(ember_context_options_set_n_threads(options.0, n_threads))?;
        Ok(options)
    }

    /// Keys and values are not rounded.
    pub fn exact(self) -> Result<ContextOptions> {
        ember!(ember_context_options_set_kv_type(self.0, ffi::EMBER_KV_F32))?;
        Ok(self)
    }
}

impl Context {
    pub fn new(model: &Model, options: &ContextOptions, token: &CancelToken) -> Result<Context> {
        let mut out = null_mut();
        ember!(ember_context_new(model.0, options.0, &raw mut out))?;
        let context = Context(out);
        ember!(ember_context_set_cancel_token(context.0, token.0))?;
        Ok(context)
    }

    pub fn info(&self) -> Result<ffi::ember_context_info> {
        // SAFETY: numbers, of which zero is one.
        let mut info: ffi::ember_context_info = unsafe { std::mem::zeroed() };
        info.struct_size = size_of_val(&info);
        ember!(ember_context_info_get(self.0, &raw mut info))?;
        Ok(info)
    }

    /// Runs tokens at the end of the sequence; the last one's logits are computed.
    pub fn decode(&mut self, tokens: &[u32]) -> Result<()> {
        ember!(ember_context_decode(self.0, tokens.as_ptr(), null(), null(), null(), tokens.len()))
    }

    /// Empties the sequence.
    pub fn clear(&mut self) -> Result<()> {
        ember!(ember_context_rewind(self.0, 0, 0))
    }

    /// The vectors of texts, in a row.
    pub fn embed(&mut self, texts: &[String], options: &EmbedOptions) -> Result<Vec<f32>> {
        let pointers: Vec<*const c_char> = texts.iter().map(|text| chars(text)).collect();
        let lengths: Vec<usize> = texts.iter().map(String::len).collect();
        let n = texts.len();
        vectors(|out, capacity, needed| {
            ember!(ember_embed(
                self.0,
                pointers.as_ptr(),
                lengths.as_ptr(),
                n,
                options.0,
                out,
                capacity,
                needed
            ))
        })
    }

    /// The vector of one text of tokens.
    pub fn embed_tokens(&mut self, tokens: &[u32], options: &EmbedOptions) -> Result<Vec<f32>> {
        let length = tokens.len();
        vectors(|out, capacity, needed| {
            ember!(ember_embed_tokens(
                self.0,
                tokens.as_ptr(),
                length,
                &raw const length,
                1,
                options.0,
                out,
                capacity,
                needed
            ))
        })
    }
}

/// Asks how many numbers there are, then for the numbers.
fn vectors(mut fill: impl FnMut(*mut f32, usize, *mut usize) -> Result<()>) -> Result<Vec<f32>> {
    let mut needed = 0;
    if let Err(failure) = fill(null_mut(), 0, &raw mut needed)
        && needed == 0
    {
        return Err(failure);
    }
    let mut numbers = vec![0.0; needed];
    fill(numbers.as_mut_ptr(), numbers.len(), &raw mut needed)?;
    Ok(numbers)
}

impl EmbedOptions {
    pub fn new() -> Result<EmbedOptions> {
        let mut out = null_mut();
        ember!(ember_embed_options_new(&raw mut out))?;
        Ok(EmbedOptions(out))
    }

    pub fn pooling(&mut self, pooling: i32) -> Result<()> {
        ember!(ember_embed_options_set_pooling(self.0, pooling))
    }

    pub fn normalize(&mut self, normalize: bool) -> Result<()> {
        ember!(ember_embed_options_set_normalize(self.0, normalize))
    }

    pub fn truncate(&mut self, truncate: bool) -> Result<()> {
        ember!(ember_embed_options_set_truncate(self.0, truncate))
    }

    pub fn dimensions(&mut self, dimensions: usize) -> Result<()> {
        ember!(ember_embed_options_set_dimensions(self.0, dimensions))
    }

    pub fn prompt(&mut self, name: &str) -> Result<()> {
        ember!(ember_embed_options_set_prompt(self.0, chars(name), name.len()))
    }
}

mod generation;
mod talk;

pub use generation::finish;
pub use talk::Part;
