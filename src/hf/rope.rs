//! Rotary positions: one reading of what transformers 5 keeps in `rope_parameters`, earlier versions keep in `rope_scaling`
//! and beside it, and people add by hand. `transformers` decides what counts most: see [`object`].
#![forbid(unsafe_code)]

use std::f64::consts::TAU;

use super::config::Config;
use super::family::{Keys, head_dim};
use crate::error::{Error, Result};
use crate::gguf::quoted;

const PARAMETERS: &str = "rope_parameters";
const SCALING: &str = "rope_scaling";
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";
const ORIGINAL: &str = "original_max_position_embeddings";
pub const PART: &str = "partial_rotary_factor";
const THETA: &str = "rope_theta";
/// Longest head that is rotated: far beyond real models, and little memory.
const MAX_ROTARY: u32 = 1 << 16;

/// What a family's configuration class says where a file does not, and what it calls two keys outside the object.
#[derive(Debug, Clone, Copy)]
pub struct Rotary {
    /// The base of the frequencies.
    pub theta: f64,
    /// What the base is called beside the object.
    pub theta_key: &'static str,
    /// Which part of a head is rotated, and what that is called beside the object; `None` for families that rotate all of it.
    pub part: Option<(&'static str, f64)>,
    /// Of models whose pairs are of three sections for images, which are all the same in a text: how long they are where the
    /// file does not say. A kind called "mrope" is the default one there.
    pub sections: Option<[u32; 3]>,
    /// Whether YaRN mixes from whole pairs on, as in all models but one; the architecture's file says so again.
    pub truncates: bool,
}

/// What most families have.
pub const WHOLE_HEADS: Rotary =
    Rotary { theta: 10_000.0, theta_key: THETA, part: None, sections: None, truncates: true };

impl Rotary {
    /// The same with a part of a head, which is called as in most families.
    pub const fn part(self, default: f64) -> Rotary {
        Rotary { part: Some((PART, default)), ..self }
    }

    /// Refuses a configuration that says nothing of rotary positions, which its class then makes up.
    pub fn expect(config: &Config<'_>) -> Result<()> {
        match object(config)?.is_some_and(|object| !object.is_empty()) {
            true => Ok(()),
            false => Err(config.missing(&[PARAMETERS, SCALING])),
        }
    }

    /// Reads what a configuration of one kind of layers says.
    pub fn read<'a>(&self, config: &Config<'a>) -> Result<Rope<'a>> {
        self.read_for(config, head_dim(config)?)
    }

    /// As [`Rotary::read`] for heads of length `head_dim`.
    pub fn read_for<'a>(&self, config: &Config<'a>, head_dim: u32) -> Result<Rope<'a>> {
        let object = object(config)?;
        for kind in [FULL, SLIDING] {
            if let Some(object) = object.as_ref().filter(|object| object.has(kind) || object.is_null(kind)) {
                return Err(object.unsupported(kind, "there", "one description for all layers"));
            }
        }
        let inside = |key: &str| object.as_ref().map(|object| object.f64(&[key])).transpose();
        if let Some(object) = object.as_ref().filter(|object| object.is_null(THETA)) {
            return Err(object.unsupported(THETA, "null", "a number"));
        }
        let theta = match inside(THETA)?.flatten() {
            Some(theta) => theta,
            None => config.f64(&[self.theta_key])?.unwrap_or(self.theta),
        };
        let kind = match kind(object.as_ref())? {
            "mrope" if self.sections.is_some() => "default",
            kind => kind,
        };
        let key = self.part.map_or(PART, |(key, _)| key);
        let found = match inside(PART)?.flatten() {
            Some(part) => Some(part),
            None => config.f64(&[key])?,
        };
        let part = match (self.part, found) {
            (Some((_, default)), found) => found.unwrap_or(default),
            (None, Some(found)) if found != 1.0 && kind != "default" => {
                return Err(config.unsupported(
                    key,
                    &found.to_string(),
                    "1 in a model that rotates whole heads",
                ));
            }
            (None, Some(found)) if found != 1.0 => {
                log::warn!(
                    "config.json: {key:?} is {found}, which has no effect in a model that rotates whole heads"
                );
                1.0
            }
            (None, _) => 1.0,
        };
        let within = part > 0.0 && part <= 1.0;
        let n_rot = if within { (part * f64::from(head_dim)) as u32 } else { 0 };
        if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > MAX_ROTARY {
            let part = found.map_or_else(|| format!("{part} by default"), |part| part.to_string());
            let whole = format!("{part}, which rotates {n_rot} of {head_dim} elements of a head");
            let expected = format!("an even number from 2 to {MAX_ROTARY}");
            // An absent key is called as today's files call it.
            return Err(match &object {
                _ if config.has(key) => config.unsupported(key, &whole, &expected),
                Some(object) => object.unsupported(PART, &whole, &expected),
                None => config.unsupported(&format!("{PARAMETERS}.{PART}"), &whole, &expected),
            });
        }
        if let Some(default) = self.sections {
            expect_sections(object.as_ref().unwrap_or(config), default, n_rot / 2)?;
        }
        let n_ctx_orig = config.optional_count(&[ORIGINAL])?;
        let truncates = self.truncates;
        Ok(Rope { config: config.clone(), object, n_ctx_orig, kind, theta, n_rot, truncates })
    }

    /// Reads and writes it: the base, how many elements are rotated, and the scaling by `linear`, `yarn` or `llama3`.
    pub fn write(&self, config: &Config<'_>, keys: &mut Keys) -> Result<()> {
        let rope = self.read(config)?;
        rope.write_base(keys);
        rope.write_scaling(keys)
    }
}

/// Refuses sections that are not all `n_pairs` pairs of a head together.
fn expect_sections(object: &Config<'_>, default: [u32; 3], n_pairs: u32) -> Result<()> {
    const KEY: &str = "mrope_section";
    let sections = object.f64s(KEY)?.unwrap_or_else(|| default.map(f64::from).to_vec());
    match sections.iter().sum::<f64>() == f64::from(n_pairs) {
        true => Ok(()),
        false => {
            let by_default = if object.has(KEY) { "" } else { " by default" };
            let expected = format!("sections of {n_pairs} pairs together");
            Err(object.unsupported(KEY, &format!("{sections:?}{by_default}"), &expected))
        }
    }
}

/// The object that describes the rotary positions: `rope_scaling` unless it is empty, or else `rope_parameters`.
fn object<'a>(config: &Config<'a>) -> Result<Option<Config<'a>>> {
    match config.object(&[SCALING])?.filter(|object| !object.is_empty()) {
        Some(scaling) => Ok(Some(scaling)),
        None => config.object(&[PARAMETERS]),
    }
}

/// The kind of scaling.
fn kind<'a>(object: Option<&Config<'a>>) -> Result<&'a str> {
    Ok(object.map(|rope| rope.str(&["rope_type", "type"])).transpose()?.flatten().unwrap_or("default"))
}

/// The rotary positions of a model.
#[derive(Debug)]
pub struct Rope<'a> {
    config: Config<'a>,
    object: Option<Config<'a>>,
    /// The number of positions beside the object, which counts more than the one inside.
    n_ctx_orig: Option<u32>,
    /// The kind of scaling: "default" for none.
    pub kind: &'a str,
    /// The base of the frequencies.
    pub theta: f64,
    /// How many elements of a head are rotated.
    pub n_rot: u32,
    /// Whether YaRN mixes from whole pairs on.
    truncates: bool,
}

impl<'a> Rope<'a> {
    /// Writes the base of the frequencies and how many elements are rotated.
    pub fn write_base(&self, keys: &mut Keys) {
        keys.set_f32("rope.freq_base", Some(self.theta));
        keys.set("rope.dimension_count", self.n_rot);
    }

    /// The object, which is there where a kind is named.
    pub fn object(&self) -> &Config<'a> {
        self.object.as_ref().unwrap_or(&self.config)
    }

    /// The refusal of a kind that is none of `supported`.
    pub fn unsupported(&self, supported: &str) -> Error {
        let key = if self.object().has("rope_type") { "rope_type" } else { "type" };
        self.object().unsupported(key, &quoted(self.kind.as_bytes()), supported)
    }

    /// What DeepSeek multiplies scores with beside what YaRN does to keys and queries.
    pub fn on_scores(&self) -> Result<f64> {
        const ALL: &str = "mscale_all_dim";
        let all = self.object().f64(&[ALL])?.filter(|all| *all != 0.0 && self.kind != "default");
        let Some(all) = all else { return Ok(1.0) };
        let factor = self.object().require_f64(&["factor"])?;
        let mscale = if factor > 1.0 { 0.1 * all * libm::log(factor) + 1.0 } else { 1.0 };
        match mscale > 0.0 {
            true => Ok(mscale * mscale),
            false => {
                Err(self.object().unsupported(ALL, &all.to_string(), "a number that gives a factor above 0"))
            }
        }
    }

    /// How many positions the model saw before it was taught more.
    pub fn n_ctx_orig(&self) -> Result<u32> {
        match self.n_ctx_orig.or(self.object().optional_count(&[ORIGINAL])?) {
            Some(n) => Ok(n),
            None => self.config.count(&["max_position_embeddings"]),
        }
    }

    /// Writes the scaling.
    pub fn write_scaling(&self, keys: &mut Keys) -> Result<()> {
        match self.kind {
            "default" => Ok(()),
            "linear" => {
                keys.set("rope.scaling.type", "linear");
                keys.set_f32("rope.scaling.factor", Some(self.object().require_f64(&["factor"])?));
                Ok(())
            }
            "yarn" => self.write_yarn(keys),
            "llama3" => {
                keys.vectors.push(("rope_freqs.weight", self.llama3()?));
                Ok(())
            }
            _ => Err(self.unsupported("default, linear, llama3, yarn")),
        }
    }

    /// YaRN (Peng et al. 2023). The scores' factor, where the model has its own, is relative to the paper's in GGUF.
    fn write_yarn(&self, keys: &mut Keys) -> Result<()> {
        let rope = self.object();
        rope.expect_bool("truncate", self.truncates)?;
        if rope.is_null("truncate") || (!self.truncates && !rope.has("truncate")) {
            let found = if rope.is_null("truncate") { "null" } else { "absent" };
            return Err(rope.unsupported("truncate", found, &self.truncates.to_string()));
        }
        let n_ctx_orig = self.n_ctx_orig()?;
        let factor = match rope.f64(&["factor"])? {
            Some(factor) => factor,
            None if rope.is_null("factor") => {
                f64::from(self.config.count(&["max_position_embeddings"])?) / f64::from(n_ctx_orig)
            }
            None => return Err(rope.missing(&["factor"])),
        };
        if factor < 1.0 {
            return Err(rope.unsupported("factor", &factor.to_string(), "at least 1"));
        }
        keys.set("rope.scaling.type", "yarn");
        keys.set_f32("rope.scaling.factor", Some(factor));
        keys.set("rope.scaling.original_context_length", n_ctx_orig);
        // 0 stands for the paper's.
        for (name, key) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
            let beta = rope.f64(&[key])?.filter(|beta| *beta != 0.0);
            keys.set_f32(&format!("rope.scaling.{name}"), beta);
        }
        let mscale = |m: f64| 0.1 * m * libm::log(factor) + 1.0;
        let all = "mscale_all_dim";
        let own = match (rope.positive(&["attention_factor"])?, rope.f64(&["mscale"])?, rope.f64(&[all])?) {
            (Some(own), ..) => Some(own),
            (None, Some(m), Some(of_all)) if m != 0.0 && of_all != 0.0 => {
                let own = mscale(m) / mscale(of_all);
                if !(own > 0.0 && own.is_finite()) {
                    let expected = "a number that gives a factor above 0 beside \"mscale\"";
                    return Err(rope.unsupported(all, &of_all.to_string(), expected));
                }
                Some(own)
            }
            _ => None,
        };
        keys.set_f32("rope.scaling.attn_factor", own.map(|own| own / mscale(1.0)));
        Ok(())
    }

    /// What each frequency is divided by under Llama 3.1's rule, one number for each pair of elements of a head that are
    /// rotated.
    fn llama3(&self) -> Result<Vec<f32>> {
        let (rope, theta) = (self.object(), self.theta);
        let factor = rope.require_f64(&["factor"])?;
        let low = rope.require_f64(&["low_freq_factor"])?;
        let high = rope.require_f64(&["high_freq_factor"])?;
        let n_ctx_orig = f64::from(self.n_ctx_orig()?);
        if !(theta > 0.0 && factor > 0.0 && low > 0.0 && high > low) {
            return Err(rope.unsupported(
                "factor",
                &factor.to_string(),
                "positive numbers, \"high_freq_factor\" above \"low_freq_factor\"",
            ));
        }
        let of_pair = |i: u32| {
            let wavelength = TAU * libm::pow(theta, f64::from(2 * i) / f64::from(self.n_rot));
            let divisor = if wavelength < n_ctx_orig / high {
                1.0
            } else if wavelength > n_ctx_orig / low {
                factor
            } else {
                let smooth = (n_ctx_orig / wavelength - low) / (high - low);
                1.0 / ((1.0 - smooth) / factor + smooth)
            };
            divisor as f32
        };
        Ok((0..self.n_rot / 2).map(of_pair).collect())
    }
}

/// What a class with two kinds of layers calls their bases beside the objects, and its defaults.
#[derive(Debug, Clone, Copy)]
pub struct Bases {
    /// Of the layers that see everything.
    pub full: (&'static [&'static str], f64),
    /// Of those with a window.
    pub sliding: (&'static [&'static str], f64),
    /// Whether the class takes nothing in the object but the two kinds, and changes both by `rope_scaling`.
    pub strict: bool,
}

/// Those of Gemma 3.
pub const GEMMA3_BASES: Bases =
    Bases { full: (&[THETA], 1e6), sliding: (&["rope_local_base_freq"], 10_000.0), strict: false };

/// Writes the rotary positions of a model whose layers that see a window have a base of their own, as Gemma 3's class reads
/// them: an object for each kind of layers, in which `rope_scaling` changes that of the layers that see everything. Heads have
/// `head_dim` elements.
pub fn write_by_kind(config: &Config<'_>, keys: &mut Keys, bases: Bases, head_dim: u32) -> Result<()> {
    let both = config.object(&[PARAMETERS])?;
    let of_kind = |kind: &str| Ok(both.as_ref().map(|both| both.object(&[kind])).transpose()?.flatten());
    let [full, sliding] = [of_kind(FULL)?, of_kind(SLIDING)?];
    if let Some((both, key)) = both
        .as_ref()
        .filter(|_| bases.strict)
        .and_then(|both| Some((both, both.keys().find(|key| ![FULL, SLIDING].contains(key))?)))
    {
        return Err(both.unsupported(key, "there", "an object for each kind of layers"));
    }
    let outside = |key| both.as_ref().is_some_and(|both| both.has(key));
    if ["rope_type", "type", THETA].into_iter().any(outside) {
        log::warn!(
            "config.json: {PARAMETERS:?} has no effect outside {FULL:?} and {SLIDING:?} in this model type"
        );
    }
    let full = match (full, config.object(&[SCALING])?) {
        (full, None) => full,
        // It is that of the layers with a window too.
        (_, Some(scaling))
            if bases.strict
                && (kind(Some(&scaling))? != "default"
                    || scaling.keys().any(|key| !["rope_type", "type"].contains(&key))) =>
        {
            return Err(config.unsupported(SCALING, "there", &format!("{PARAMETERS:?} in this model type")));
        }
        (Some(full), Some(scaling)) => Some(full.under(&scaling)),
        (None, Some(_)) if both.is_some() => {
            let key = format!("{PARAMETERS}.{FULL}");
            return Err(config.unsupported(&key, &format!("absent beside {SCALING:?}"), "an object"));
        }
        // The class has a "rope_type" already, which counts more than a "type".
        (None, Some(scaling)) if scaling.has("type") && !scaling.has("rope_type") => {
            return Err(scaling.unsupported("type", "there", "\"rope_type\" in this model type"));
        }
        (None, Some(scaling)) => Some(scaling),
    };
    let theta = |object: &Option<Config<'_>>, (keys, default): (&[&str], f64)| -> Result<f64> {
        let inside = object.as_ref().map(|object| object.f64(&[THETA])).transpose()?.flatten();
        Ok(inside.or(config.f64(keys)?).unwrap_or(default))
    };
    let local = kind(sliding.as_ref())?;
    if let Some(sliding) = sliding.as_ref().filter(|_| local != "default") {
        return Err(sliding.unsupported("rope_type", &quoted(local.as_bytes()), "default"));
    }
    keys.set_f32("rope.freq_base_swa", Some(theta(&sliding, bases.sliding)?));
    let rope = Rope {
        config: config.clone(),
        kind: kind(full.as_ref())?,
        theta: theta(&full, bases.full)?,
        object: full,
        n_ctx_orig: None,
        n_rot: head_dim,
        truncates: true,
    };
    rope.write_base(keys);
    rope.write_scaling(keys)
}

/// Writes the rotary positions of Gemma 4 and LFM3: an object for each kind of layers. Those that see everything turn a part of each
/// head of `head_dim` elements, by frequencies that the whole head would have; `default` is that part where there are no objects.
pub fn proportional(config: &Config<'_>, keys: &mut Keys, head_dim: u32, default: f64) -> Result<()> {
    if config.has(SCALING) {
        return Err(config.unsupported(SCALING, "there", &format!("{PARAMETERS:?}")));
    }
    let both = config.object(&[PARAMETERS])?;
    let of_kind = |kind: &str| match &both {
        Some(both) => both.object(&[kind])?.map(Some).ok_or_else(|| both.missing(&[kind])),
        None => Ok(None),
    };
    let [full, sliding] = [of_kind(FULL)?, of_kind(SLIDING)?];
    let theta = |object: &Option<Config<'_>>, default: f64| match object {
        Some(object) => object.require_f64(&[THETA]),
        None => Ok(default),
    };
    if let Some(sliding) = &sliding
        && let local = kind(Some(sliding))?
        && local != "default"
    {
        return Err(sliding.unsupported("rope_type", &quoted(local.as_bytes()), "default"));
    }
    keys.set_f32("rope.freq_base", Some(theta(&full, 1e6)?));
    keys.set_f32("rope.freq_base_swa", Some(theta(&sliding, 10_000.0)?));
    let Some(full) = full else {
        keys.vectors.push(("rope_freqs.weight", unturned(head_dim, default)));
        return Ok(());
    };
    match kind(Some(&full))? {
        "default" => Ok(()),
        "proportional" => {
            if let Some(factor) = full.f64(&["factor"])?.filter(|factor| *factor != 1.0) {
                return Err(full.unsupported("factor", &factor.to_string(), "1"));
            }
            let part = full.f64(&[PART])?.unwrap_or(1.0);
            if !(0.0..=1.0).contains(&part) {
                return Err(full.unsupported(PART, &part.to_string(), "a number from 0 to 1"));
            }
            keys.vectors.push(("rope_freqs.weight", unturned(head_dim, part)));
            Ok(())
        }
        other => Err(full.unsupported("rope_type", &quoted(other.as_bytes()), "default, proportional")),
    }
}

/// What the frequencies of a head's pairs are divided by so that only the first `part` of them turn.
fn unturned(head_dim: u32, part: f64) -> Vec<f32> {
    let n_turned = (part * f64::from(head_dim) / 2.0) as u32;
    (0..head_dim / 2).map(|i| if i < n_turned { 1.0 } else { 1e30 }).collect()
}
