//! Handles: made, chosen, set up, freed.

use std::ptr::null_mut;

use arbitrary::Result;
use ember::capi;
use ember::error::ember_status::EMBER_OK;

use super::super::tiny;
use super::{MOST_HANDLES, World, call, host};

/// A living handle of `pool`, or NULL, or (rarely) the address of something else.
macro_rules! pick {
    ($world:expr, $pool:ident) => {{
        match $world.u.int_in_range(0..=31u8)? {
            0 => std::ptr::null_mut(),
            1 => $world.samplers.first().map_or(std::ptr::null_mut(), |other| other.cast()),
            2 => super::host::misaligned(),
            _ if $world.$pool.is_empty() => std::ptr::null_mut(),
            _ => *$world.u.choose(&$world.$pool)?,
        }
    }};
}
pub(super) use pick;

/// Makes a handle by a function that has a place for it first, and keeps it.
macro_rules! make {
    ($world:expr, $pool:ident, $function:ident($($arg:expr),*)) => {{
        let mut made = null_mut();
        let place = $world.place(&mut made)?;
        if $world.$pool.len() < MOST_HANDLES && call!($world, $function($($arg,)* place)) == EMBER_OK {
            assert!(!made.is_null());
            $world.$pool.push(made);
        }
    }};
}

/// Frees one of a pool, or NULL.
macro_rules! free {
    ($world:expr, $pool:ident, $function:ident) => {{
        if $world.$pool.is_empty() {
            // SAFETY: NULL is fine.
            unsafe { capi::$function(null_mut()) };
        } else {
            let at = $world.u.choose_index($world.$pool.len())?;
            let handle = $world.$pool.swap_remove(at);
            // SAFETY: it lives, and is used no more.
            unsafe { capi::$function(handle) };
        }
    }};
}

/// Frees all of a pool.
macro_rules! free_all {
    ($world:expr, $($pool:ident: $function:ident),*) => {
        $(for handle in $world.$pool.drain(..) {
            // SAFETY: it lives, and is used no more.
            unsafe { capi::$function(handle) };
        })*
    };
}

impl World<'_> {
    pub(super) fn make(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=12u8)? {
            0 => self.load()?,
            1 | 2 => {
                let (model, options) = (pick!(self, models), pick!(self, context_options));
                make!(self, contexts, ember_context_new(model, options));
            }
            3 => {
                let seed = self.number()?.into();
                make!(self, samplers, ember_sampler_new(seed));
            }
            4 => {
                let sampler = pick!(self, samplers);
                make!(self, samplers, ember_sampler_clone(sampler));
            }
            5 => make!(self, tokens, ember_cancel_token_new()),
            6 => make!(self, model_options, ember_model_options_new()),
            7 => make!(self, context_options, ember_context_options_new()),
            8 => make!(self, generate_options, ember_generate_options_new()),
            9 => make!(self, embed_options, ember_embed_options_new()),
            10 => make!(self, chat_options, ember_chat_options_new()),
            11 => {
                let model = pick!(self, models);
                // SAFETY: a handle or something that is seen not to be one.
                let again = unsafe { capi::ember_model_retain(model) };
                if !again.is_null() {
                    self.models.push(again);
                }
            }
            _ => self.new_generator()?,
        }
        Ok(())
    }

    /// A model, of bytes that are mostly those of one.
    fn load(&mut self) -> Result<()> {
        let mut file = tiny::llama();
        if self.u.ratio(1, 4)? {
            let at = self.u.choose_index(file.len())?;
            file[at] = self.u.arbitrary()?;
        }
        if self.u.ratio(1, 8)? {
            file.truncate(self.u.choose_index(file.len())?);
        }
        let options = pick!(self, model_options);
        if self.models.len() >= MOST_HANDLES {
            return Ok(());
        }
        let mut model = null_mut();
        let place = self.place(&mut model)?;
        let n_blocks = self.u.int_in_range(0..=30)?;
        self.heap.refill(n_blocks);
        match self.u.int_in_range(0..=2u8)? {
            0 => {
                let lent = Box::into_raw(Box::new(file));
                // SAFETY: just made.
                let bytes = unsafe { &*lent };
                let (data, len) = (bytes.as_ptr(), bytes.len());
                let release = Some(host::release as unsafe extern "C" fn(_));
                let status =
                    call!(self, ember_model_load_borrowed(data, len, release, lent.cast(), options, place));
                if status != EMBER_OK {
                    // SAFETY: nothing was called, so the bytes are the host's as before.
                    drop(unsafe { Box::from_raw(lent) });
                }
            }
            1 => {
                let path = self.bytes()?;
                let (path, len) = (path.as_ptr().cast(), path.len());
                call!(self, ember_model_load(path, len, options, place));
            }
            _ => {
                call!(self, ember_model_load_buffer(file.as_ptr(), file.len(), options, place));
            }
        }
        self.heap.refill(u32::MAX);
        self.models.extend((!model.is_null()).then_some(model));
        Ok(())
    }

    fn new_generator(&mut self) -> Result<()> {
        let (context, sampler) = (pick!(self, contexts), pick!(self, samplers));
        let options = pick!(self, generate_options);
        if self.u.arbitrary()? {
            let text = self.bytes()?;
            let (text, len) = (text.as_ptr().cast(), text.len());
            make!(self, generators, ember_generator_new(context, text, len, options, sampler));
        } else {
            let ids = self.ids()?;
            let (ids, n) = (ids.as_ptr(), ids.len());
            make!(self, generators, ember_generator_new_tokens(context, ids, n, options, sampler));
        }
        Ok(())
    }

    pub(super) fn free(&mut self) -> Result<()> {
        match self.u.int_in_range(0..=9u8)? {
            0 => free!(self, models, ember_model_release),
            1 => free!(self, contexts, ember_context_free),
            2 => free!(self, samplers, ember_sampler_free),
            3 => free!(self, generators, ember_generator_free),
            4 => free!(self, tokens, ember_cancel_token_free),
            5 => free!(self, model_options, ember_model_options_free),
            6 => free!(self, context_options, ember_context_options_free),
            7 => free!(self, generate_options, ember_generate_options_free),
            8 => free!(self, embed_options, ember_embed_options_free),
            _ => free!(self, chat_options, ember_chat_options_free),
        }
        Ok(())
    }

    pub(super) fn free_all_models(&mut self) {
        free_all!(self, models: ember_model_release, model_options: ember_model_options_free);
    }

    pub(super) fn free_all_contexts(&mut self) {
        free_all!(self, contexts: ember_context_free, samplers: ember_sampler_free);
    }

    pub(super) fn free_all_generators(&mut self) {
        free_all!(self, generators: ember_generator_free, tokens: ember_cancel_token_free);
    }

    pub(super) fn free_all_options(&mut self) {
        free_all!(
            self,
            context_options: ember_context_options_free,
            generate_options: ember_generate_options_free,
            embed_options: ember_embed_options_free,
            chat_options: ember_chat_options_free
        );
    }

    pub(super) fn set_model_option(&mut self) -> Result<()> {
        let o = pick!(self, model_options);
        let (number, yes) = (self.number()?, self.u.arbitrary()?);
        match self.u.int_in_range(0..=12u8)? {
            0 => call!(self, ember_model_options_set_use_mmap(o, yes)),
            1 => {
                let isa = *self.u.choose(&["scalar", "avx2", "avx512", "none", ""])?;
                call!(self, ember_model_options_set_isa(o, isa.as_ptr().cast(), isa.len()))
            }
            2 => call!(self, ember_model_options_set_pack(o, number as i32)),
            3 => {
                let token = pick!(self, tokens);
                call!(self, ember_model_options_set_cancel_token(o, token))
            }
            4 => call!(self, ember_model_options_set_lock(o, yes)),
            5 => call!(self, ember_model_options_set_check_tensors(o, yes)),
            6 => {
                let callback = host::Callback::new(number, null_mut());
                let data = callback.user_data();
                self.callbacks.push(callback);
                call!(self, ember_model_options_set_progress(o, yes.then_some(host::progress as _), data))
            }
            7 => {
                let bytes = u64::from(number) * 100;
                call!(self, ember_model_options_set_memory_limit(o, bytes))
            }
            8 | 9 => {
                let heap = (&raw mut *self.heap).cast();
                let give = yes.then_some(host::deallocate as _);
                call!(self, ember_model_options_set_allocator(o, Some(host::allocate), give, heap))
            }
            kind => {
                let key = self.bytes()?;
                let (key, len) = (key.as_ptr().cast(), key.len());
                match kind {
                    10 => call!(self, ember_model_options_set_meta_i64(o, key, len, number.into())),
                    11 => call!(self, ember_model_options_set_meta_bool(o, key, len, yes)),
                    _ => {
                        let value = self.bytes()?;
                        let (value, n) = (value.as_ptr().cast(), value.len());
                        call!(self, ember_model_options_set_meta_string(o, key, len, value, n))
                    }
                }
            }
        };
        Ok(())
    }

    pub(super) fn set_context_option(&mut self) -> Result<()> {
        let o = pick!(self, context_options);
        let (number, yes) = (self.number()?, self.u.arbitrary()?);
        // A call that takes gigabytes because the host asked for them is no defect.
        let size = if number == 0x7fff_ffff { 64 } else { number };
        match self.u.int_in_range(0..=12u8)? {
            0 => call!(self, ember_context_options_set_n_ctx(o, size)),
            1 => call!(self, ember_context_options_set_n_seq(o, number)),
            2 => call!(self, ember_context_options_set_n_batch(o, number)),
            3 => {
                // The library would make so many threads.
                let n = if (4..=512).contains(&number) { 2 } else { number };
                call!(self, ember_context_options_set_n_threads(o, n))
            }
            4 => {
                let cpus = self.ids()?;
                call!(self, ember_context_options_set_worker_cpus(o, cpus.as_ptr(), cpus.len()))
            }
            5 => call!(self, ember_context_options_set_kv_type(o, number as i32)),
            6 => call!(self, ember_context_options_set_k_type(o, number as i32)),
            7 => call!(self, ember_context_options_set_v_type(o, number as i32)),
            8 => call!(self, ember_context_options_set_backend(o, number as i32)),
            9 => call!(self, ember_context_options_set_kv_limit(o, u64::from(number) * 512)),
            10 => call!(self, ember_context_options_set_keep_prefixes(o, yes)),
            11 => call!(self, ember_context_options_set_keep_all_positions(o, yes)),
            _ => call!(self, ember_context_options_set_memory_limit(o, u64::from(number) * 1000)),
        };
        Ok(())
    }

    pub(super) fn set_generate_option(&mut self) -> Result<()> {
        let o = pick!(self, generate_options);
        let (number, yes) = (self.number()?, self.u.arbitrary()?);
        match self.u.int_in_range(0..=14u8)? {
            0 => call!(self, ember_generate_options_set_max_tokens(o, number)),
            1 => call!(self, ember_generate_options_set_sequence(o, number)),
            2 => call!(self, ember_generate_options_set_parse_special(o, yes)),
            3 => call!(self, ember_generate_options_set_render_special(o, yes)),
            4 => call!(self, ember_generate_options_set_ignore_eog(o, yes)),
            5 | 6 => {
                let stop = self.bytes()?;
                call!(self, ember_generate_options_add_stop(o, stop.as_ptr().cast(), stop.len()))
            }
            7 => call!(self, ember_generate_options_set_include_stop(o, yes)),
            8 => call!(self, ember_generate_options_set_reuse_prefix(o, yes)),
            9 => call!(self, ember_generate_options_set_echo(o, yes)),
            10 => call!(self, ember_generate_options_set_logprobs(o, yes)),
            11 => call!(self, ember_generate_options_set_n_top(o, number)),
            12 => {
                let token = pick!(self, tokens);
                call!(self, ember_generate_options_set_cancel_token(o, token))
            }
            kind => {
                let token = pick!(self, tokens);
                if kind == 13 {
                    // SAFETY: a handle or something that is seen not to be one.
                    unsafe { capi::ember_cancel_token_cancel(token) }
                } else {
                    // SAFETY: as above.
                    unsafe { capi::ember_cancel_token_reset(token) }
                }
                return Ok(());
            }
        };
        Ok(())
    }

    pub(super) fn set_sampler(&mut self) -> Result<()> {
        let s = pick!(self, samplers);
        let (x, y, z, n) = (self.float()?, self.float()?, self.float()?, self.number()?);
        match self.u.int_in_range(0..=19u8)? {
            0 => call!(self, ember_sampler_add_greedy(s)),
            1 => call!(self, ember_sampler_add_temperature(s, x)),
            2 => call!(self, ember_sampler_add_top_k(s, n)),
            3 => call!(self, ember_sampler_add_top_p(s, x)),
            4 => call!(self, ember_sampler_add_min_p(s, x)),
            5 => call!(self, ember_sampler_add_typical_p(s, x)),
            6 => call!(self, ember_sampler_add_dynamic_temperature(s, x, y, z)),
            7 => call!(self, ember_sampler_add_xtc(s, x, y)),
            8 => call!(self, ember_sampler_add_penalties(s, n, x, y, z)),
            9 => {
                let (model, text) = (pick!(self, models), self.bytes()?);
                let (texts, lengths) = ([text.as_ptr().cast()], [text.len()]);
                let n_texts = self.u.int_in_range(0..=1usize)?;
                let (texts, lengths) = (texts.as_ptr(), lengths.as_ptr());
                call!(self, ember_sampler_add_dry(s, model, x, y, n, n, texts, lengths, n_texts))
            }
            10 => call!(self, ember_sampler_add_callback(s, Some(host::candidates), null_mut())),
            11 => call!(self, ember_sampler_add_mirostat(s, x, y)),
            12 => {
                let (ids, biases) = (self.ids()?, [x; 70]);
                call!(self, ember_sampler_add_bias(s, ids.as_ptr(), biases.as_ptr(), ids.len()))
            }
            13 => {
                let ids = self.ids()?;
                call!(self, ember_sampler_add_allow(s, ids.as_ptr(), ids.len()))
            }
            14 => {
                let ids = self.ids()?;
                call!(self, ember_sampler_add_deny(s, ids.as_ptr(), ids.len()))
            }
            16 => call!(self, ember_sampler_add_top_n_sigma(s, x)),
            17 => call!(self, ember_sampler_add_adaptive_p(s, x, y)),
            18 => call!(self, ember_sampler_add_mirostat_1(s, x, y, n)),
            19 => {
                let model = pick!(self, models);
                call!(self, ember_sampler_add_infill(s, model))
            }
            _ => {
                let level = self.number()? as i32;
                let callback = self.u.arbitrary::<bool>()?.then_some(host::log as _);
                call!(self, ember_log_set(callback, null_mut(), level))
            }
        };
        Ok(())
    }
}
