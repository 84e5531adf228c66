//! Calls that work with the objects.

use std::ptr::{null, null_mut};

use arbitrary::Result;
use ember::capi;
use ember::error::ember_status::*;

use super::objects::pick;
use super::{World, blank, call, host};

/// Most states that are kept.
const MOST_STATES: usize = 4;

/// Runs a call that fills a buffer, once to ask for the length, and again with a buffer of that or a smaller length.
/// Gives the last status and the buffer.
macro_rules! fill {
    ($world:expr, $zero:expr, $function:ident($($before:expr),*)($($after:expr),*)) => {{
        let mut n = 0usize;
        let status = call!($world, $function($($before,)* null_mut(), 0, &mut n $(, $after)*));
        if status == EMBER_OK || status == EMBER_E_BUFFER_TOO_SMALL {
            assert_eq!(status == EMBER_OK, n == 0, stringify!($function));
            let mut buffer = vec![$zero; n - usize::from(n > 0 && $world.u.ratio(1, 8)?)];
            let len = buffer.len();
            let place = $world.place(&mut n)?;
            let status = call!($world, $function($($before,)* buffer.as_mut_ptr(), len, place $(, $after)*));
            (status, buffer)
        } else {
            (status, Vec::new())
        }
    }};
}

impl World<'_> {
    pub(super) fn decode(&mut self) -> Result<()> {
        let (context, ids) = (pick!(self, contexts), self.ids()?);
        let mut column = |odds: u8| -> Result<Option<Vec<u32>>> {
            match self.u.ratio(1, odds)? {
                true => (0..ids.len()).map(|_| self.u.int_in_range(0..=3)).collect::<Result<_>>().map(Some),
                false => Ok(None),
            }
        };
        let (positions, sequences) = (column(8)?, column(2)?);
        let wants: Vec<u8> = ids.iter().map(|_| self.u.arbitrary()).collect::<Result<_>>()?;
        let address = |column: &Option<Vec<u32>>| column.as_ref().map_or(null(), |column| column.as_ptr());
        let (positions, sequences) = (address(&positions), address(&sequences));
        let wants = if self.u.arbitrary()? { wants.as_ptr() } else { null() };
        call!(self, ember_context_decode(context, ids.as_ptr(), positions, sequences, wants, ids.len()));
        let index = self.u.int_in_range(0..=ids.len())?;
        let mut logits = null();
        let place = self.place(&mut logits)?;
        if call!(self, ember_context_logits(context, index, place)) == EMBER_OK {
            // SAFETY: every model here has at least one token, and logits for each.
            std::hint::black_box(unsafe { *logits });
            let (sampler, mut token) = (pick!(self, samplers), 0);
            let n = self.u.int_in_range(0..=1usize)?;
            call!(self, ember_sampler_sample(sampler, logits, n, &mut token));
        }
        Ok(())
    }

    pub(super) fn sequences(&mut self) -> Result<()> {
        let context = pick!(self, contexts);
        let (from, to, n) = (self.u.int_in_range(0..=3)?, self.u.int_in_range(0..=3)?, self.number()?);
        match self.u.int_in_range(0..=5u8)? {
            0 => call!(self, ember_context_sequence_copy(context, from, to, n)),
            1 => call!(self, ember_context_sequence_keep(context, from)),
            2 => {
                let (ids, mut n_reused) = (self.ids()?, 0);
                let place = self.place(&mut n_reused)?;
                let (ids, len) = (ids.as_ptr(), ids.len());
                call!(self, ember_context_sequence_reuse(context, from, ids, len, n as usize, place))
            }
            3 => {
                let mut n_past = 0;
                let place = self.place(&mut n_past)?;
                call!(self, ember_context_n_past(context, from, place))
            }
            4 => fill!(self, 0u32, ember_context_tokens(context, from)()).0,
            _ => call!(self, ember_context_rewind(context, from, n)),
        };
        Ok(())
    }

    pub(super) fn states(&mut self) -> Result<()> {
        let context = pick!(self, contexts);
        let sequence = *self.u.choose(&[0, 1, 2, u32::MAX, 3])?;
        let callback = host::Callback::new(self.number()?, context);
        let data = callback.user_data();
        match self.u.int_in_range(0..=7u8)? {
            0..=2 => {
                let (status, state) = fill!(self, 0u8, ember_context_state_save(context, sequence)());
                if status == EMBER_OK && self.states.len() < MOST_STATES {
                    self.states.push(state);
                }
            }
            3 | 4 if !self.states.is_empty() => {
                let at = self.u.choose_index(self.states.len())?;
                let mut state = self.states[at].clone();
                if self.u.ratio(1, 3)? {
                    let place = self.u.choose_index(state.len().max(1))?;
                    state.truncate(place);
                }
                call!(self, ember_context_state_load(context, sequence, state.as_ptr(), state.len()));
            }
            5 => {
                call!(self, ember_context_state_write(context, sequence, Some(host::write), data));
            }
            6 => {
                call!(self, ember_context_state_read(context, sequence, Some(host::read), data));
            }
            _ => {
                // Such a folder rarely exists.
                let path = b"/nonexistent/state";
                let (path, len) = (path.as_ptr().cast(), path.len());
                call!(self, ember_context_state_save_file(context, sequence, path, len));
                call!(self, ember_context_state_load_file(context, sequence, path, len));
            }
        }
        Ok(())
    }

    pub(super) fn generate(&mut self) -> Result<()> {
        if !self.generators.is_empty() && self.u.arbitrary()? {
            return self.next();
        }
        let (context, sampler) = (pick!(self, contexts), pick!(self, samplers));
        let options = pick!(self, generate_options);
        let callback = host::Callback::new(self.u.int_in_range(0..=20)?, context);
        let (data, event) = (callback.user_data(), self.u.ratio(7, 8)?.then_some(host::event as _));
        let mut result: capi::ember_generate_result = blank();
        result.struct_size = self.struct_size::<capi::ember_generate_result>()?;
        let place = self.place(&mut result)?;
        if self.u.arbitrary()? {
            let text = self.bytes()?;
            let (text, len) = (text.as_ptr().cast(), text.len());
            call!(self, ember_generate(context, text, len, options, sampler, event, data, place));
        } else {
            let ids = self.ids()?;
            let (ids, n) = (ids.as_ptr(), ids.len());
            call!(self, ember_generate_tokens(context, ids, n, options, sampler, event, data, place));
        }
        Ok(())
    }

    /// Some events of a generator.
    fn next(&mut self) -> Result<()> {
        let generator = pick!(self, generators);
        for _ in 0..self.u.int_in_range(1..=6)? {
            let mut event: capi::ember_event = blank();
            event.struct_size = self.struct_size::<capi::ember_event>()?;
            let is_whole = event.struct_size == size_of_val(&event);
            let place = self.place(&mut event)?;
            if call!(self, ember_generator_next(generator, place)) == EMBER_OK && is_whole {
                host::look_at(&event);
            }
        }
        let mut usage: capi::ember_generate_result = blank();
        usage.struct_size = self.struct_size::<capi::ember_generate_result>()?;
        call!(self, ember_generator_usage(generator, &mut usage));
        Ok(())
    }

    pub(super) fn score_or_embed(&mut self) -> Result<()> {
        let (context, n) = (pick!(self, contexts), self.number()?);
        match self.u.int_in_range(0..=5u8)? {
            0 | 1 => {
                let options = pick!(self, generate_options);
                let (ids, n_prompt) = (self.ids()?, self.u.int_in_range(0..=5usize)?);
                let (ids, len) = (ids.as_ptr(), ids.len());
                let mut result: capi::ember_score_result = blank();
                result.struct_size = self.struct_size::<capi::ember_score_result>()?;
                let (mut scores, mut n) = ([blank::<capi::ember_token_score>(); 70], 0);
                let (out, size) = (scores.as_mut_ptr(), self.u.int_in_range(0..=70usize)?);
                let (n, result) = (self.place(&mut n)?, self.place(&mut result)?);
                call!(self, ember_score_tokens(context, ids, len, n_prompt, options, out, size, n, result));
            }
            2 => {
                let (options, a, b) = (pick!(self, generate_options), self.bytes()?, self.bytes()?);
                let (mut n, mut result) = (0, blank::<capi::ember_score_result>());
                result.struct_size = self.struct_size::<capi::ember_score_result>()?;
                let mut scores = [blank::<capi::ember_token_score>(); 30];
                let ((a, a_len), (b, b_len)) = ((a.as_ptr().cast(), a.len()), (b.as_ptr().cast(), b.len()));
                let (out, n, result) = (scores.as_mut_ptr(), &raw mut n, &raw mut result);
                call!(self, ember_score(context, a, a_len, b, b_len, options, out, 30, n, result));
            }
            3 => {
                let (options, ids) = (pick!(self, embed_options), self.ids()?);
                let lengths = [ids.len() / 2, ids.len() - ids.len() / 2];
                let n_texts = if self.u.ratio(7, 8)? { 2 } else { 1 };
                let (ids, len, lengths) = (ids.as_ptr(), ids.len(), lengths.as_ptr());
                fill!(self, 0f32, ember_embed_tokens(context, ids, len, lengths, n_texts, options)());
            }
            4 => {
                let (options, text) = (pick!(self, embed_options), self.bytes()?);
                let (texts, lengths) = ([text.as_ptr().cast(); 2], [text.len(), text.len() / 2]);
                let (texts, lengths) = (texts.as_ptr(), lengths.as_ptr());
                fill!(self, 0f32, ember_embed(context, texts, lengths, 2, options)());
            }
            _ => {
                let (o, yes) = (pick!(self, embed_options), self.u.arbitrary()?);
                call!(self, ember_embed_options_set_pooling(o, n as i32));
                call!(self, ember_embed_options_set_normalize(o, yes));
                call!(self, ember_embed_options_set_truncate(o, yes));
            }
        }
        Ok(())
    }

    pub(super) fn text(&mut self) -> Result<()> {
        let (model, text, special) = (pick!(self, models), self.bytes()?, self.u.arbitrary()?);
        let (bytes, len) = (text.as_ptr(), text.len());
        match self.u.int_in_range(0..=5u8)? {
            0 => {
                fill!(self, 0u32, ember_model_tokenize(model, bytes.cast(), len, special, !special)());
            }
            1 => {
                fill!(self, 0u32, ember_model_tokenize_bytes(model, bytes, len, special, !special)());
            }
            2 => {
                let ids = self.ids()?;
                let (ids, n) = (ids.as_ptr(), ids.len());
                fill!(self, 0u8, ember_model_detokenize(model, ids, n, special)());
            }
            3 => {
                let token = self.number()?;
                fill!(self, 0u8, ember_model_token_bytes(model, token)());
                let mut out = false;
                call!(self, ember_model_token_is_eog(model, token, &mut out));
                call!(self, ember_model_token_is_control(model, token, &mut out));
            }
            4 => {
                let (sampler, token) = (pick!(self, samplers), self.number()?);
                call!(self, ember_sampler_accept(sampler, token));
                call!(self, ember_sampler_reset(sampler));
            }
            _ => {
                let (sampler, n) = (pick!(self, samplers), self.u.int_in_range(0..=20usize)?);
                let logits: Vec<f32> = (0..n).map(|_| self.float()).collect::<Result<_>>()?;
                let mut token = 0;
                let place = self.place(&mut token)?;
                let status = call!(self, ember_sampler_sample(sampler, logits.as_ptr(), n, place));
                assert!(status != EMBER_OK || (token as usize) < n, "token {token} of {n}");
            }
        }
        Ok(())
    }

    pub(super) fn chat(&mut self) -> Result<()> {
        let (model, options) = (pick!(self, models), pick!(self, chat_options));
        let (text, yes) = (self.bytes()?, self.u.arbitrary()?);
        let (text, len) = (text.as_ptr().cast(), text.len());
        match self.u.int_in_range(0..=7u8)? {
            0 => call!(self, ember_chat_options_set_tools(options, text, len)),
            1 => call!(self, ember_chat_options_set_variables(options, text, len)),
            2 => call!(self, ember_chat_options_set_template(options, text, len)),
            3 => call!(self, ember_chat_options_set_template_name(options, text, len)),
            4 => call!(self, ember_chat_options_set_add_generation_prompt(options, yes)),
            5 => {
                let now = self.u.arbitrary()?;
                call!(self, ember_chat_options_set_now(options, now))
            }
            6 => fill!(self, 0u8, ember_model_chat_template(model, text, len)()).0,
            _ => {
                let known = br#"[{"role":"user","content":"ab"}]"#;
                let (text, len) = if yes { (known.as_ptr().cast(), known.len()) } else { (text, len) };
                fill!(self, 0u8, ember_chat_apply_template(model, text, len, options)()).0
            }
        };
        Ok(())
    }

    /// Calls that only read.
    pub(super) fn ask(&mut self) -> Result<()> {
        let (context, model) = (pick!(self, contexts), pick!(self, models));
        let (key, index) = (self.bytes()?, self.number()? as usize);
        let (key, len) = (key.as_ptr().cast(), key.len());
        match self.u.int_in_range(0..=8u8)? {
            0 => {
                let mut info: capi::ember_context_info = blank();
                info.struct_size = self.struct_size::<capi::ember_context_info>()?;
                let place = self.place(&mut info)?;
                call!(self, ember_context_info_get(context, place));
            }
            1 => {
                let mut memory: capi::ember_memory = blank();
                memory.struct_size = self.struct_size::<capi::ember_memory>()?;
                let place = self.place(&mut memory)?;
                call!(self, ember_context_memory(context, place));
                call!(self, ember_model_memory(model, place));
            }
            2 => {
                let mut timings: capi::ember_timings = blank();
                timings.struct_size = self.struct_size::<capi::ember_timings>()?;
                let place = self.place(&mut timings)?;
                call!(self, ember_context_timings_get(context, place));
                call!(self, ember_context_timings_reset(context));
            }
            3 => {
                let mut info: capi::ember_model_info = blank();
                info.struct_size = self.struct_size::<capi::ember_model_info>()?;
                let place = self.place(&mut info)?;
                call!(self, ember_model_info_get(model, place));
                // SAFETY: a handle or something that is seen not to be one.
                let _ = unsafe { capi::ember_model_isa(model) };
            }
            4 => {
                let token = pick!(self, tokens);
                call!(self, ember_context_set_cancel_token(context, token));
                // SAFETY: as above.
                let _ = unsafe { capi::ember_cancel_token_is_cancelled(token) };
            }
            5 => {
                let (mut n, mut ty) = (0, 0);
                let place = self.place(&mut n)?;
                call!(self, ember_model_meta_count(model, place));
                call!(self, ember_model_meta_type(model, key, len, &mut ty));
                call!(self, ember_model_meta_array(model, key, len, &mut ty, &mut n));
            }
            6 => {
                let (mut a, mut b, mut c, mut d) = (0, 0, 0.0, false);
                call!(self, ember_model_meta_u64(model, key, len, &mut a));
                call!(self, ember_model_meta_i64(model, key, len, &mut b));
                call!(self, ember_model_meta_f64(model, key, len, &mut c));
                call!(self, ember_model_meta_bool(model, key, len, &mut d));
                call!(self, ember_model_meta_array_u64(model, key, len, index, &mut a));
                call!(self, ember_model_meta_array_i64(model, key, len, index, &mut b));
                call!(self, ember_model_meta_array_f64(model, key, len, index, &mut c));
                call!(self, ember_model_meta_array_bool(model, key, len, index, &mut d));
            }
            7 => {
                fill!(self, 0u8, ember_model_meta_key(model, index)());
                fill!(self, 0u8, ember_model_meta_string(model, key, len)());
                fill!(self, 0u8, ember_model_meta_array_string(model, key, len, index)());
            }
            _ => {
                let (sampler, mut seed) = (pick!(self, samplers), 0);
                call!(self, ember_sampler_seed(sampler, &mut seed));
                assert!(!capi::ember_status_name(index as i32).is_null());
                // SAFETY: text of just that length.
                let has = unsafe { capi::ember_has_feature(key, len) };
                assert!((-1..=1).contains(&has));
            }
        }
        Ok(())
    }
}
