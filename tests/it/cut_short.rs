//! A mapped model whose file is cut short by another process while it is used. A packed model reads only rows of its tables, and
//! calls say so where the file has them no longer.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crate::common;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::{TempFolder, bundled_model, context, fixture, load};
use ember::context::{BackendKind, Context, ContextOptions, EmbedOptions, Tokens};
use ember::engine::{Engine, EngineOptions, Sink};
use ember::error::Error;
use ember::generate::{EventKind, GenerateOptions, Prompt};
use ember::gguf::Gguf;
use ember::gguf::writer::Writer;
use ember::model::{LoadOptions, LoadedModel, Pack};
use ember::sampler::{Sampler, Stage};

/// The tables of GPT-2: the rows of tokens and of positions.
const TABLES: [&str; 2] = ["token_embd.weight", "position_embd.weight"];

/// The bundled model with its tables before all other tensors, and how many bytes the file has up to their end.
fn tables_first(folder: &TempFolder) -> (PathBuf, u64) {
    let file = Gguf::open(&bundled_model()).unwrap();
    let mut writer = Writer::new();
    for (key, value) in file.metadata().iter() {
        writer.set(key, value.clone());
    }
    let (tables, others): (Vec<_>, Vec<_>) =
        file.tensors().iter().partition(|tensor| TABLES.contains(&tensor.name.as_str()));
    assert_eq!(tables.len(), TABLES.len());
    for tensor in tables.into_iter().chain(others) {
        writer.tensor(&tensor.name, tensor.ty, &tensor.dims, file.tensor_bytes(tensor).to_vec());
    }
    let path = folder.write("tables-first.gguf", writer.to_bytes().unwrap());
    let file = Gguf::open(&path).unwrap();
    let end = |name| file.tensor(name).map(|tensor| tensor.offset + tensor.n_bytes).unwrap();
    let end = TABLES.into_iter().map(end).max().unwrap() as u64;
    assert!(end < file.file_size() / 2);
    (path, end)
}

fn cut(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn packed(path: &Path) -> Arc<LoadedModel> {
    let options = LoadOptions { pack: Pack::Always, ..LoadOptions::default() };
    Arc::new(LoadedModel::open(path, &options).unwrap())
}

fn decode(context: &mut Context) -> Result<Vec<u32>, Error> {
    context.rewind(0, 0)?;
    context.decode(Tokens::next(&[5, 900, 7, 300, 11]))?;
    Ok(context.logits(4)?.iter().map(|x| x.to_bits()).collect())
}

/// The sentence of an error that blames the file.
fn blame(path: &Path, error: Option<Error>) {
    match error {
        Some(Error::Io(m)) => {
            assert!(m.starts_with(path.to_str().unwrap()) && m.contains("cut short"), "{m}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packed_model_needs_its_tables_alone() {
    let folder = TempFolder::new("tables-alone");
    let (path, end) = tables_first(&folder);
    let model = packed(&path);
    let mut context = context(&model, &ContextOptions { n_threads: 2, ..ContextOptions::default() });
    let expected = decode(&mut context).unwrap();
    cut(&path, end);
    assert_eq!(decode(&mut context).unwrap(), expected);
}

#[test]
fn rows_that_are_gone_are_an_error_and_come_back_with_the_file() {
    let folder = TempFolder::new("rows-gone");
    let (path, _) = tables_first(&folder);
    let bytes = fs::read(&path).unwrap();
    let model = packed(&path);
    for (backend, n_threads) in [(BackendKind::Auto, 1), (BackendKind::Auto, 3), (BackendKind::Scalar, 1)] {
        let options = ContextOptions { backend, n_threads, ..ContextOptions::default() };
        let mut context = context(&model, &options);
        let expected = decode(&mut context).unwrap();
        cut(&path, 5000);
        blame(&path, decode(&mut context).err());
        assert_eq!(context.n_past(0).unwrap(), 0, "a call that fails leaves the sequence as it was");
        fs::write(&path, &bytes).unwrap();
        assert_eq!(decode(&mut context).unwrap(), expected);
    }
}

#[test]
fn an_encoder_gives_no_embeddings_of_rows_that_are_gone() {
    let folder = TempFolder::new("encoder-gone");
    let bytes = fs::read(fixture("models/bert.gguf")).unwrap();
    let path = folder.write("bert.gguf", &bytes);
    let model = load(&path);
    let mut context = context(&model, &ContextOptions { n_threads: 2, ..ContextOptions::default() });
    let mut embed = || context.embed(&[&[3, 5, 7, 9]], &EmbedOptions::default());
    let expected = embed().unwrap();
    cut(&path, 3000);
    blame(&path, embed().err());
    fs::write(&path, &bytes).unwrap();
    assert_eq!(embed().unwrap(), expected);
}

#[test]
fn of_several_files_the_one_that_is_cut_is_named() {
    let folder = TempFolder::new("several-gone");
    for entry in fs::read_dir(fixture("hf/llama3-sharded")).unwrap() {
        let entry = entry.unwrap();
        folder.write(entry.file_name().to_str().unwrap(), fs::read(entry.path()).unwrap());
    }
    let model = load(&folder.0);
    let embd = model.gguf().tensor("token_embd.weight").unwrap();
    let file = model.gguf().file_of(embd);
    let shards = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    let shard = shards.into_iter().find(|path| fs::read(path).unwrap() == file[..]).unwrap();
    let mut context = context(&model, &ContextOptions::default());
    cut(&shard, 100);
    let name = format!("{}: {}: the file", folder.0.display(), shard.file_name().unwrap().display());
    match context.decode(Tokens::next(&[1, 2])) {
        Err(Error::Io(m)) => assert!(m.starts_with(&name) && m.contains("has 100 now"), "{m}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn saving_a_state_looks_at_what_is_left_of_the_file() {
    let folder = TempFolder::new("state-gone");
    let (path, end) = tables_first(&folder);
    let model = packed(&path);
    let mut context = context(&model, &ContextOptions::default());
    decode(&mut context).unwrap();
    cut(&path, end);
    blame(&path, context.save_state(None, &mut |_| Ok(())).err());
}

#[test]
fn an_engine_fails_the_requests_of_a_step_and_lives() {
    let folder = TempFolder::new("engine-gone");
    let (path, _) = tables_first(&folder);
    let bytes = fs::read(&path).unwrap();
    let model = packed(&path);
    let engine = Engine::new(&model, &EngineOptions::default()).unwrap();
    let run = || {
        let mut sampler = Sampler::new(0);
        sampler.push(Stage::Greedy).unwrap();
        let options = GenerateOptions { max_tokens: 8, ..GenerateOptions::default() };
        let request = engine.submit(Prompt::Text("The sea"), &options, sampler, Sink::Pull).unwrap();
        let mut text = String::new();
        loop {
            let event = request.next(Duration::MAX)?.unwrap();
            text.push_str(event.event().text);
            if let EventKind::End(_) = event.event().kind {
                return Ok(text);
            }
        }
    };
    let expected = run().unwrap();
    cut(&path, 5000);
    blame(&path, run().err());
    fs::write(&path, &bytes).unwrap();
    assert_eq!(run().unwrap(), expected);
}
