//! Dense modules: a layer each, in a safetensors file of its own.
#![forbid(unsafe_code)]

use super::{CONFIG, Module, expect_sentence};
use crate::error::{Error, Result};
use crate::gguf::quoted;
use crate::hf::Folder;
use crate::hf::config::ConfigFile;
use crate::hf::weights::{self, Weights};

/// A layer after the pooling.
#[derive(Debug)]
pub struct Dense {
    /// What the names of its tensors begin with here: its folder.
    prefix: String,
    /// Numbers that go in and come out.
    sizes: (u32, u32),
    /// Whether there is a bias.
    bias: bool,
    /// Whether the hyperbolic tangent comes after it.
    pub tanh: bool,
}

/// The most such layers; real folders have two.
const MOST: usize = 2;
/// The activations: their classes, and whether they are the hyperbolic tangent.
const ACTIVATIONS: [(&str, bool); 4] = [
    ("torch.nn.modules.linear.Identity", false),
    ("torch.nn.Identity", false),
    ("torch.nn.modules.activation.Tanh", true),
    ("torch.nn.Tanh", true),
];

/// Reads the configuration of the module, which comes after `before`.
pub(super) fn read(
    folder: &Folder<'_>,
    module: &Module<'_>,
    before: &[Dense],
    width: usize,
) -> Result<Dense> {
    if module.path.is_empty() {
        return Err(module.refused("has no path, expected that of its folder"));
    }
    if before.len() == MOST {
        return Err(module.refused("is a third one of its kind, supported are two"));
    }
    let file = ConfigFile::read(folder, &module.file(CONFIG))?;
    let config = file.config();
    expect_sentence(&config)?;
    config.expect_bool("use_residual", false)?;
    const ACTIVATION: &str = "activation_function";
    if config.is_null(ACTIVATION) {
        return Err(config.unsupported(ACTIVATION, "null", "the name of a class"));
    }
    let class = config.str(&[ACTIVATION])?.unwrap_or("torch.nn.modules.activation.Tanh");
    let Some((_, tanh)) = ACTIVATIONS.iter().find(|(known, _)| *known == class) else {
        let supported = format!("{}, {}", ACTIVATIONS[0].0, ACTIVATIONS[2].0);
        return Err(config.unsupported(ACTIVATION, &quoted(class.as_bytes()), &supported));
    };
    let sizes = (config.count(&["in_features"])?, config.count(&["out_features"])?);
    let input = before.last().map_or(width, |dense| dense.sizes.1 as usize);
    if sizes.0 as usize != input {
        return Err(config.unsupported("in_features", &sizes.0.to_string(), &input.to_string()));
    }
    let bias = config.bool("bias")?.unwrap_or(true);
    Ok(Dense { prefix: module.file(""), sizes, bias, tanh: *tanh })
}

/// Adds the tensors of `modules` to those of the model, their names after their folder's.
///
/// # Errors
/// `Format` for tensors of other shapes than the configuration says, `Unsupported` for other tensors; those of reading a file.
pub fn add(folder: &Folder<'_>, modules: &[Dense], all: &mut Weights) -> Result<()> {
    for module in modules {
        let (n_in, n_out) = (module.sizes.0 as usize, module.sizes.1 as usize);
        let expected =
            [("linear.weight", Some(vec![n_out, n_in])), ("linear.bias", module.bias.then(|| vec![n_out]))];
        let mut found = weights::single(folder, &module.prefix, all)?;
        for (name, shape) in expected {
            let name = format!("{}{name}", module.prefix);
            match (found.remove(&name), shape) {
                (None, None) => {}
                (Some(entry), Some(shape)) => {
                    if let Ok(stored) = &entry
                        && stored.shape != shape
                    {
                        return Err(Error::Format(format!(
                            "the tensor {} has the shape {:?}, expected {shape:?}",
                            quoted(name.as_bytes()),
                            stored.shape
                        )));
                    }
                    if all.tensors.insert(name.clone(), entry).is_some() {
                        let name = quoted(name.as_bytes());
                        return Err(Error::Format(format!(
                            "the tensor {name} is in the model's own file too"
                        )));
                    }
                }
                (None, Some(_)) => {
                    return Err(Error::Format(format!("the tensor {} is missing", quoted(name.as_bytes()))));
                }
                (Some(_), None) => {
                    return Err(Error::Format(format!(
                        "the tensor {} is there, but the module's \"bias\" is false",
                        quoted(name.as_bytes())
                    )));
                }
            }
        }
        if let Some(name) = found.keys().next() {
            return Err(Error::Unsupported(format!(
                "the tensor {} is not part of a Dense module as this version knows it",
                quoted(name.as_bytes())
            )));
        }
    }
    Ok(())
}

/// GGUF's name of the tensor `stored` of a Dense module.
pub fn name(modules: &[Dense], stored: &str) -> Option<String> {
    modules.iter().zip(2..).find_map(|(module, place)| {
        let part = stored.strip_prefix(module.prefix.as_str())?.strip_prefix("linear.")?;
        Some(format!("dense_{place}.{part}"))
    })
}
