//! Samplers, constraints and generations.

use super::*;

impl Sampler {
    pub fn new(seed: u64) -> Result<Sampler> {
        let mut out = null_mut();
        ember!(ember_sampler_new(seed, &raw mut out))?;
        Ok(Sampler(out))
    }

    /// What the model's file proposes; `None` where it proposes nothing.
    pub fn of_model(model: &Model, seed: u64) -> Result<Option<Sampler>> {
        let (mut out, mut error) = (null_mut(), null_mut());
        // SAFETY: the model lives, and both pointers are those of variables.
        let status = unsafe { ffi::ember_model_sampler(model.0, seed, &raw mut out, &raw mut error) };
        if status == ffi::EMBER_E_NOT_FOUND {
            // SAFETY: the error is ours.
            unsafe { ffi::ember_error_free(error) };
            return Ok(None);
        }
        checked(status, error)?;
        Ok(Some(Sampler(out)))
    }

    pub fn penalties(&mut self, last_n: u32, repeat: f32) -> Result<()> {
        ember!(ember_sampler_add_penalties(self.0, last_n, repeat, 0.0, 0.0))
    }

    pub fn top_k(&mut self, k: u32) -> Result<()> {
        ember!(ember_sampler_add_top_k(self.0, k))
    }

    pub fn top_p(&mut self, p: f32) -> Result<()> {
        ember!(ember_sampler_add_top_p(self.0, p))
    }

    pub fn min_p(&mut self, p: f32) -> Result<()> {
        ember!(ember_sampler_add_min_p(self.0, p))
    }

    pub fn temperature(&mut self, temperature: f32) -> Result<()> {
        ember!(ember_sampler_add_temperature(self.0, temperature))
    }

    /// The seed in force, which may be a random one.
    pub fn seed(&self) -> Result<u64> {
        let mut seed = 0;
        ember!(ember_sampler_seed(self.0, &raw mut seed))?;
        Ok(seed)
    }
}

impl Constraint {
    pub fn json_schema(model: &Model, schema: &str) -> Result<Constraint> {
        let mut out = null_mut();
        ember!(ember_constraint_new_json_schema(model.0, chars(schema), schema.len(), null(), &raw mut out))?;
        Ok(Constraint(out))
    }
}

impl GenerateOptions {
    pub fn new(max_tokens: u32, token: &CancelToken) -> Result<GenerateOptions> {
        let mut out = null_mut();
        ember!(ember_generate_options_new(&raw mut out))?;
        let options = GenerateOptions(out);
        ember!(ember_generate_options_set_max_tokens(options.0, max_tokens))?;
        ember!(ember_generate_options_set_cancel_token(options.0, token.0))?;
        Ok(options)
    }

    pub fn stop(&mut self, text: &str) -> Result<()> {
        ember!(ember_generate_options_add_stop(self.0, chars(text), text.len()))
    }

    pub fn constraint(&mut self, constraint: &Constraint) -> Result<()> {
        ember!(ember_generate_options_set_constraint(self.0, constraint.0))
    }

    pub fn parse_special(&mut self, parse: bool) -> Result<()> {
        ember!(ember_generate_options_set_parse_special(self.0, parse))
    }
}

impl Generator {
    pub fn new(
        context: &mut Context,
        prompt: &str,
        options: &GenerateOptions,
        sampler: &mut Sampler,
    ) -> Result<Generator> {
        let mut out = null_mut();
        ember!(ember_generator_new(
            context.0,
            chars(prompt),
            prompt.len(),
            options.0,
            sampler.0,
            &raw mut out
        ))?;
        Ok(Generator(out))
    }

    /// New text, and whether it was the last.
    pub fn next(&mut self) -> Result<(&str, bool)> {
        // SAFETY: numbers and pointers, of which zero is one.
        let mut event: ffi::ember_event = unsafe { std::mem::zeroed() };
        event.struct_size = size_of_val(&event);
        ember!(ember_generator_next(self.0, &raw mut event))?;
        // SAFETY: the text stays until the next call, for which this generator is borrowed.
        let text = unsafe { text_of(event.text, event.text_len) };
        Ok((text, event.kind == ffi::EMBER_EVENT_END))
    }

    pub fn usage(&self) -> Result<ffi::ember_generate_result> {
        // SAFETY: numbers, of which zero is one.
        let mut usage: ffi::ember_generate_result = unsafe { std::mem::zeroed() };
        usage.struct_size = size_of_val(&usage);
        ember!(ember_generator_usage(self.0, &raw mut usage))?;
        Ok(usage)
    }
}

/// Why a text ended, for people.
pub fn finish(reason: i32) -> &'static str {
    match reason {
        ffi::EMBER_FINISH_MAX_TOKENS => "-n allows no more tokens",
        ffi::EMBER_FINISH_EOG => "end of the text",
        ffi::EMBER_FINISH_CONTEXT_FULL => "the context is full, and -c makes a larger one",
        ffi::EMBER_FINISH_STOP_STRING => "stop text",
        ffi::EMBER_FINISH_CANCELLED => "interrupted",
        _ => "not ended",
    }
}
