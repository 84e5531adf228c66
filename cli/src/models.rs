//! Where the model lies that a command names: a path, or a model of a hub that `ember pull` fetched.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::hub::cache::Cache;
use crate::hub::choose::{Want, choose};
use crate::hub::name::Name;

/// The path of a model's file or folder.
pub fn find(model: &str) -> Result<PathBuf> {
    let path = Path::new(model);
    if path.exists() {
        return Ok(path.to_owned());
    }
    let Some(name) = Name::parse(model) else {
        return Err(Failure::said(format!("{model}: there is no such file or folder")));
    };
    let pull = format!(
        "there is no such file or folder, and the cache does not have it: `ember pull {model}` fetches it"
    );
    let cache = Cache::from_environment()?.repository(&name.repository);
    let Some(snapshot) = cache.snapshot_of(name.revision()) else {
        return Err(Failure::said(format!("{model}: {pull}")));
    };
    let files = crate::hub::cache::files(&snapshot)?;
    let chosen = match choose(&files, &name.want) {
        Ok(chosen) => chosen,
        // What is wanted may be on the hub, and not have been fetched.
        Err(_) if !matches!(name.want, Want::Any) || files.is_empty() => {
            return Err(Failure::said(format!("{model}: {pull}")));
        }
        Err(why) => return Err(Failure::said(format!("{model}: in the cache {why}"))),
    };
    Ok(snapshot.join(chosen.model))
}
