//! The choice of a level: the highest that the machine can run, unless the caller or the environment lowers it.
#![forbid(unsafe_code)]

use std::ffi::OsStr;

use super::{ISAS, Isa, Kernels};
use crate::error::{Error, Result};
use crate::gguf::quoted;

/// The environment variable that lowers the level of all models of the process: a name from [`ISAS`].
pub const ISA_VARIABLE: &str = "EMBER_ISA";

impl Isa {
    /// The level of that name, or an error that blames `source`, where the name comes from, and lists the levels of this build.
    pub fn parse(source: &str, name: &str) -> Result<Isa> {
        Isa::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = ISAS.iter().map(|row| row.name).collect();
            Error::InvalidArgument(format!(
                "{source} is {}, expected one of {}",
                quoted(name.as_bytes()),
                names.join(", ")
            ))
        })
    }

    /// The levels that this machine can run, lowest first.
    pub fn supported() -> impl Iterator<Item = Isa> {
        ISAS.iter().filter(|row| (row.supported)()).map(|row| row.isa)
    }
}

impl Kernels {
    /// The table for a new model: [`Kernels::select`] with the lower of `limit` and [`ISA_VARIABLE`]. `InvalidArgument` for a
    /// variable that names no level; an empty one counts as unset.
    pub fn for_model(limit: Option<Isa>) -> Result<&'static Kernels> {
        Ok(Kernels::select(lower(limit, of_variable(std::env::var_os(ISA_VARIABLE).as_deref())?)))
    }
}

fn of_variable(value: Option<&OsStr>) -> Result<Option<Isa>> {
    match value {
        Some(name) if !name.is_empty() => {
            Isa::parse(&format!("the environment variable {ISA_VARIABLE}"), &name.to_string_lossy()).map(Some)
        }
        _ => Ok(None),
    }
}

/// The lower of two limits; `None` is no limit.
fn lower(a: Option<Isa>, b: Option<Isa>) -> Option<Isa> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_level_or_nothing() {
        assert_eq!(of_variable(None), Ok(None));
        assert_eq!(of_variable(Some("".as_ref())), Ok(None));
        for row in ISAS {
            assert_eq!(of_variable(Some(row.name.as_ref())), Ok(Some(row.isa)));
        }
        for bad in ["z80", "SCALAR", " scalar", "scalar,"] {
            let error = of_variable(Some(bad.as_ref())).expect_err(bad);
            let sentence = format!("the environment variable EMBER_ISA is \"{bad}\", expected one of scalar");
            assert!(error.message().starts_with(&sentence), "{error}");
        }
    }

    #[test]
    fn the_lower_limit_holds() {
        let highest = ISAS[ISAS.len() - 1].isa;
        assert_eq!(lower(None, None), None);
        for (a, b) in [(Some(Isa::Scalar), None), (Some(Isa::Scalar), Some(highest))] {
            assert_eq!(lower(a, b), Some(Isa::Scalar));
            assert_eq!(lower(b, a), Some(Isa::Scalar));
        }
    }

    #[test]
    fn every_supported_level_is_selected_by_its_own_limit() {
        assert_eq!(Isa::supported().next(), Some(Isa::Scalar));
        for isa in Isa::supported() {
            assert_eq!(Kernels::select(Some(isa)).isa, isa);
        }
        assert_eq!(Isa::supported().last(), Some(Isa::detect()));
    }
}
