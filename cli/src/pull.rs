//! `ember pull`: fetches a model from a hub into the cache that its clients share.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::hub::cache::Cache;
use crate::hub::choose::{Chosen, INDEX, Want, choose, weights};
use crate::hub::client::{About, Client, Listing};
use crate::hub::download::{Wanted, patiently};
use crate::hub::name::Name;
use crate::output;

#[derive(clap::Args)]
pub struct PullArgs {
    /// OWNER/NAME or OWNER/NAME:QUANT, as in `bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M`, or the address of a file
    model: String,

    /// A file of the repository; one of several that belong together brings the others
    file: Option<String>,

    /// A branch, a tag or a commit [default: main]
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,

    /// Prints the files of the repository and their sizes, and fetches nothing
    #[arg(long)]
    list: bool,

    /// Prints nothing but the path
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(args: &PullArgs) -> Result<()> {
    let name = name(args)?;
    let client = Client::from_environment()?;
    let cache = Cache::from_environment()?.repository(&name.repository);
    let mut listing = patiently(|| client.list(&name.repository, name.revision()))?;
    listing.files.sort_by(|(one, _), (other, _)| one.cmp(other));
    if args.list {
        return list(&listing);
    }
    let files: Vec<String> = listing.files.iter().map(|(file, _)| file.clone()).collect();
    let refused = |why| Failure::Said(format!("{}: {why}", name.repository));
    let Chosen { files: chosen, model } = choose(&files, &name.want).map_err(refused)?;
    if !args.quiet && name.want == Want::Any && !model.is_empty() {
        output::note(format_args!("{}: {model}", name.repository));
    }
    let fetch = |file: &String| -> Result<()> {
        let unknown = About::default();
        let about = listing.files.iter().find(|(name, _)| name == file).map_or(&unknown, |(_, about)| about);
        let (repository, commit) = (&name.repository, &listing.commit);
        Wanted { client: &client, repository, cache: &cache, commit, file, about, quiet: args.quiet }.fetch()
    };
    chosen.iter().try_for_each(&fetch)?;
    let path = cache.snapshot(&listing.commit).join(&model);
    if model.is_empty() && chosen.iter().any(|file| file == INDEX) {
        let index = path.join(INDEX);
        let text = std::fs::read_to_string(&index).map_err(|e| Failure::of(index.display(), &e))?;
        weights(&text, &files).map_err(refused)?.iter().try_for_each(&fetch)?;
    }
    // Last, so that a model that is not whole is not found.
    cache.set_revision(name.revision(), &listing.commit)?;
    output::line(format_args!("{}", without_end(path).display()))
}

/// What is asked for, from all the arguments that say so.
fn name(args: &PullArgs) -> Result<Name> {
    let no_name =
        || Failure::Usage(format!("\"{}\" is no OWNER/NAME, as models of a hub are called", args.model));
    let mut name = Name::parse(&args.model).ok_or_else(no_name)?;
    if let Some(file) = &args.file {
        if name.want != Want::Any {
            return Err(Failure::Usage(format!(
                "{} says already which file it is, so {file} is too much",
                args.model
            )));
        }
        name.want = Want::File(file.clone());
    }
    if let Some(revision) = &args.revision {
        name.set_revision(revision);
    }
    Ok(name)
}

fn list(listing: &Listing) -> Result<()> {
    listing.files.iter().try_for_each(|(file, about)| {
        let size = about.size.map_or_else(String::new, output::size);
        output::line(format_args!("{size:>8}  {}", output::shown(file)))
    })
}

/// A path that was joined with an empty name ends with a slash.
fn without_end(path: PathBuf) -> PathBuf {
    path.components().collect()
}
