//! Any sequence of calls of the C functions, with arguments that a careless host may pass: handles that are NULL or of another
//! type, numbers out of range, bytes that are no text, places for results that are NULL, callbacks that stop or call back, and
//! handles freed in any order. Undefined uses are left out, as the header names them: freed handles, pointers to less memory than
//! stated, two threads.
//!
//! No call may end as EMBER_E_INTERNAL; an error has a sentence; the host's allocator gets all of its memory back.

mod host;
mod objects;
mod work;

use std::ptr::{null, null_mut};

use arbitrary::{Result, Unstructured};
use ember::capi;
use ember::error::ember_status::{self, *};

use host::Heap;

/// Most calls of one input.
const MOST_CALLS: usize = 96;
/// Most living handles of a type.
const MOST_HANDLES: usize = 4;

/// Calls a function whose last argument is the place for an error, and gives its status.
macro_rules! call {
    ($world:expr, $function:ident($($arg:expr),* $(,)?)) => {{
        let mut error = std::ptr::null_mut();
        let wants = $world.wants_error()?;
        let place = if wants { &raw mut error } else { std::ptr::null_mut() };
        // SAFETY: handles are living ones or NULL, lengths are those of what they go with, and what is pointed to stays
        // while the call runs.
        let status = unsafe { ember::capi::$function($($arg,)* place) };
        $world.check(stringify!($function), status, wants.then_some(error));
        status
    }};
}
use call;

/// Makes the calls that `bytes` describe.
pub fn run(bytes: &[u8]) {
    let mut world = World::new(bytes);
    for _ in 0..MOST_CALLS {
        if world.u.is_empty() || world.step().is_err() {
            break;
        }
    }
    world.end();
}

/// All objects that the host has.
struct World<'a> {
    u: Unstructured<'a>,
    models: Vec<*mut capi::ember_model>,
    contexts: Vec<*mut capi::ember_context>,
    samplers: Vec<*mut capi::ember_sampler>,
    generators: Vec<*mut capi::ember_generator>,
    tokens: Vec<*mut capi::ember_cancel_token>,
    model_options: Vec<*mut capi::ember_model_options>,
    context_options: Vec<*mut capi::ember_context_options>,
    generate_options: Vec<*mut capi::ember_generate_options>,
    embed_options: Vec<*mut capi::ember_embed_options>,
    chat_options: Vec<*mut capi::ember_chat_options>,
    /// Saved states.
    states: Vec<Vec<u8>>,
    /// The host's allocator.
    heap: Box<Heap>,
    /// What callbacks get; it lives as long as the world.
    #[allow(clippy::vec_box, reason = "their addresses were given away")]
    callbacks: Vec<Box<host::Callback>>,
}

impl<'a> World<'a> {
    fn new(bytes: &'a [u8]) -> World<'a> {
        let mut world = World {
            u: Unstructured::new(bytes),
            models: Vec::new(),
            contexts: Vec::new(),
            samplers: Vec::new(),
            generators: Vec::new(),
            tokens: Vec::new(),
            model_options: Vec::new(),
            context_options: Vec::new(),
            generate_options: Vec::new(),
            embed_options: Vec::new(),
            chat_options: Vec::new(),
            states: Vec::new(),
            heap: Box::default(),
            callbacks: Vec::new(),
        };
        // Every host has a model and a context; the input chooses the other objects.
        let file = super::tiny::llama();
        let (mut model, mut context, mut sampler) = (null_mut(), null_mut(), null_mut());
        // SAFETY: as in `call`.
        let status = unsafe {
            capi::ember_model_load_buffer(file.as_ptr(), file.len(), null(), &mut model, null_mut())
        };
        assert_eq!(status, EMBER_OK);
        world.models.push(model);
        let options = world.small_options();
        // SAFETY: as in `call`.
        let status = unsafe { capi::ember_context_new(model, options, &mut context, null_mut()) };
        assert_eq!(status, EMBER_OK);
        world.contexts.push(context);
        // SAFETY: as in `call`.
        assert_eq!(unsafe { capi::ember_sampler_new(1, &mut sampler, null_mut()) }, EMBER_OK);
        world.samplers.push(sampler);
        world
    }

    /// Options of a context with one thread and three sequences, which stay in the world.
    fn small_options(&mut self) -> *const capi::ember_context_options {
        let mut options = null_mut();
        // SAFETY: as in `call`.
        assert_eq!(unsafe { capi::ember_context_options_new(&mut options, null_mut()) }, EMBER_OK);
        // SAFETY: as in `call`.
        assert_eq!(unsafe { capi::ember_context_options_set_n_threads(options, 1, null_mut()) }, EMBER_OK);
        // SAFETY: as in `call`.
        assert_eq!(unsafe { capi::ember_context_options_set_n_seq(options, 3, null_mut()) }, EMBER_OK);
        self.context_options.push(options);
        options
    }

    fn step(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=15u8)? {
            0 => self.make(),
            1 => self.free(),
            2 => self.set_model_option(),
            3 => self.set_context_option(),
            4 => self.set_generate_option(),
            5 => self.set_sampler(),
            6 | 7 => self.decode(),
            8 => self.sequences(),
            9 => self.states(),
            10 | 11 => self.generate(),
            12 => self.score_or_embed(),
            13 => self.text(),
            14 => self.chat(),
            _ => self.ask(),
        }
    }

    fn wants_error(&mut self) -> Result<bool> {
        self.u.ratio(7, 8)
    }

    /// What must hold after every call: no defect; a sentence with every error, none without.
    fn check(&mut self, function: &str, status: ember_status, error: Option<*mut capi::ember_error>) {
        assert_ne!(status, EMBER_E_INTERNAL, "{function}");
        let Some(error) = error else { return };
        assert_eq!(error.is_null(), status == EMBER_OK, "{function}: {status:?}");
        if error.is_null() {
            return;
        }
        // SAFETY: the error was just made, here and below.
        assert_eq!(unsafe { capi::ember_error_status(error) }, status, "{function}");
        // SAFETY: as above.
        let message = unsafe { capi::ember_error_message(error) };
        // SAFETY: the message of an error ends with NUL.
        let message = unsafe { std::ffi::CStr::from_ptr(message) };
        assert!(message.to_str().is_ok_and(|text| !text.is_empty()), "{function}: {message:?}");
        // SAFETY: as above; it is used no more.
        unsafe { capi::ember_error_free(error) };
    }

    /// A number: usually small, sometimes out of all range.
    fn number(&mut self) -> Result<u32> {
        Ok(match self.u.int_in_range(0..=9u8)? {
            0 => *self.u.choose(&[u32::MAX, 1 << 31, 0x7fff_ffff, 70_000, 100, 33, 32])?,
            _ => self.u.int_in_range(0..=17)?,
        })
    }

    fn float(&mut self) -> Result<f32> {
        Ok(*self.u.choose(&[
            0.0,
            0.5,
            0.9,
            1.0,
            1.5,
            5.0,
            -1.0,
            1e30,
            1e-30,
            f32::NAN,
            f32::INFINITY,
            -0.0,
        ])?)
    }

    /// Tokens, most of which exist.
    fn ids(&mut self) -> Result<Vec<u32>> {
        let n = match self.u.int_in_range(0..=7u8)? {
            0 => 0,
            1 => self.u.int_in_range(30..=70)?,
            _ => self.u.int_in_range(1..=6)?,
        };
        let strange = self.u.ratio(1, 10)?;
        (0..n).map(|_| if strange { self.number() } else { self.u.int_in_range(0..=15) }).collect()
    }

    /// Bytes in an allocation of just their size, most of them text.
    fn bytes(&mut self) -> Result<Box<[u8]>> {
        let known: [&[u8]; 12] = [
            b"",
            b"ab abcd",
            b"a",
            b"\n",
            b"<s>a</s>",
            "é".as_bytes(),
            b"llama.context_length",
            b"tokenizer.ggml.tokens",
            b"general.architecture",
            b"default",
            b"cd",
            b"[]",
        ];
        match self.u.int_in_range(0..=3u8)? {
            0 => Ok(self.u.arbitrary::<&[u8]>()?.into()),
            _ => Ok((*self.u.choose(&known)?).into()),
        }
    }

    /// The size of a struct as a host may know it.
    fn struct_size<T>(&mut self) -> Result<usize> {
        let size = size_of::<T>();
        Ok(match self.u.int_in_range(0..=9u8)? {
            0 => 0,
            1 => 16.min(size),
            2 => usize::MAX,
            _ => size,
        })
    }

    /// The place for a result, sometimes NULL.
    fn place<T>(&mut self, result: &mut T) -> Result<*mut T> {
        Ok(if self.u.ratio(1, 24)? { null_mut() } else { result })
    }

    /// Frees everything, in an order that the input chooses.
    fn end(mut self) {
        let order = self.u.arbitrary().unwrap_or(0u8);
        let mut groups: [fn(&mut World<'_>); 4] = [
            |w| w.free_all_models(),
            |w| w.free_all_contexts(),
            |w| w.free_all_generators(),
            |w| w.free_all_options(),
        ];
        groups.rotate_left(usize::from(order & 3));
        groups.iter().for_each(|free| free(&mut self));
        assert_eq!(self.heap.n_living(), 0, "blocks of the host's allocator are left");
    }
}

/// A C struct of numbers and addresses, all of them 0.
fn blank<T>() -> T {
    // SAFETY: used for the structs of the header alone, which are plain numbers and addresses.
    unsafe { std::mem::zeroed() }
}
