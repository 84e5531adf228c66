//! Which files of a repository make the model that is wanted.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The quantization that is taken where nobody asks for one, as llama.cpp does.
const USUAL: &str = "Q4_K_M";

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    Any,
    /// A GGUF file with this in its name.
    Quant(String),
    /// A file.
    File(String),
}

/// Files that make a model.
#[derive(Debug, PartialEq, Eq)]
pub struct Chosen {
    pub files: Vec<String>,
    /// What is loaded: the first of the files, or "" for their folder.
    pub model: String,
}

/// Chooses from the files of a repository. A folder's weights are not among those that it gives, but where there is one file of them:
/// [`weights`] says which they are.
///
/// The error continues a sentence that began with the repository.
pub fn choose(files: &[String], want: &Want) -> Result<Chosen, String> {
    let sets = sets(files);
    match want {
        Want::File(file) => return file_of(files, &sets, file),
        Want::Any if sets.is_empty() => return folder(files),
        _ => {}
    }
    let quant = if let Want::Quant(quant) = want { quant } else { USUAL };
    let matching: Vec<&String> = sets.keys().filter(|name| has_quant(name, quant)).collect();
    let name = match (want, matching.as_slice(), sets.len()) {
        (Want::Any, _, 1) => sets.keys().next(),
        (_, [name], _) => Some(*name),
        _ => None,
    };
    match name {
        Some(name) => whole(name, &sets[name]),
        None if sets.is_empty() => Err("there is no GGUF file".into()),
        None => {
            let why = match (want, matching.len()) {
                (Want::Any, _) => "there are several GGUF files; please name one".to_owned(),
                (_, 0) => format!("no GGUF file is called {quant}"),
                _ => format!("several GGUF files are called {quant}"),
            };
            let names: Vec<&str> = sets.keys().map(String::as_str).collect();
            Err(format!("{why}: {}", names.join(", ")))
        }
    }
}

/// GGUF files with text models: the parts of each, by the name that they have in common.
fn sets(files: &[String]) -> BTreeMap<String, Vec<(Option<Part>, String)>> {
    let mut sets = BTreeMap::<String, Vec<_>>::new();
    for file in files {
        let base = file.rsplit('/').next().unwrap_or(file).to_ascii_lowercase();
        // Projectors of images, and measurements that quantizers use.
        let is_other = base.starts_with("mmproj") || base.contains("-mmproj") || base.contains("imatrix");
        if base.ends_with(".gguf") && !is_other {
            let (name, part) = split_name(file);
            sets.entry(name).or_default().push((part, file.clone()));
        }
    }
    sets.values_mut().for_each(|parts| parts.sort());
    sets
}

/// The number of a part, and how many there are.
type Part = (u32, u32);

/// `x-00001-of-00003.gguf` is part 1 of 3 of `x.gguf`.
fn split_name(file: &str) -> (String, Option<Part>) {
    let read = || {
        let stem = file.strip_suffix(".gguf")?;
        let (before, n) = stem.rsplit_once("-of-")?;
        let (name, i) = before.rsplit_once('-')?;
        let number = |text: &str| (text.len() == 5).then(|| text.parse::<u32>().ok())?;
        Some((format!("{name}.gguf"), (number(i)?, number(n)?)))
    };
    match read() {
        Some((name, part)) => (name, Some(part)),
        None => (file.to_owned(), None),
    }
}

/// Whether a quantization is a word of a file's name, or of its folder's: no letter or digit stands at either side, and no `_` after it.
fn has_quant(name: &str, quant: &str) -> bool {
    let (name, quant) = (name.to_ascii_lowercase(), quant.to_ascii_lowercase());
    name.match_indices(&quant).any(|(at, found)| {
        let before = name[..at].chars().next_back();
        let after = name[at + found.len()..].chars().next();
        before.is_none_or(|c| !c.is_ascii_alphanumeric())
            && after.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_')
    })
}

/// All parts of a set.
fn whole(name: &str, parts: &[(Option<Part>, String)]) -> Result<Chosen, String> {
    let n = match parts.first() {
        Some((Some((_, n)), _)) => *n,
        _ => 1,
    };
    let missing = (1..=n).find(|i| !parts.iter().any(|(part, _)| part.is_none_or(|part| part == (*i, n))));
    if let Some(missing) = missing {
        return Err(format!("part {missing} of {n} of {name} is not there"));
    }
    let files: Vec<String> = parts.iter().map(|(_, file)| file.clone()).collect();
    Ok(Chosen { model: files[0].clone(), files })
}

/// A file by its path or its name, with the parts that belong to it.
fn file_of(
    files: &[String],
    sets: &BTreeMap<String, Vec<(Option<Part>, String)>>,
    wanted: &str,
) -> Result<Chosen, String> {
    let named = || {
        let named: Vec<&String> =
            files.iter().filter(|file| file.rsplit('/').next() == Some(wanted)).collect();
        if let [file] = named.as_slice() { Some(*file) } else { None }
    };
    let found = files.iter().find(|file| *file == wanted).or_else(named);
    let found = found.ok_or_else(|| format!("there is no file {wanted}"))?;
    match sets.get(&split_name(found).0) {
        Some(parts) if parts.iter().any(|(_, file)| file == found) => whole(&split_name(found).0, parts),
        _ => Ok(Chosen { files: vec![found.clone()], model: found.clone() }),
    }
}

const WEIGHTS: &str = "model.safetensors";
pub const INDEX: &str = "model.safetensors.index.json";

/// What Ember reads of a Hugging Face folder.
fn folder(files: &[String]) -> Result<Chosen, String> {
    let has = |name: &str| files.iter().any(|file| file == name);
    if !has("config.json") || !(has(WEIGHTS) || has(INDEX)) {
        return Err("there is neither a GGUF file nor a folder with config.json and model.safetensors".into());
    }
    let read = |file: &&String| {
        let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        let (_, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        match folder {
            "" if name == WEIGHTS => !has(INDEX),
            "" if name.ends_with(".safetensors.index.json") => name == INDEX,
            "" => matches!(kind, "json" | "jinja" | "model") || matches!(name, "vocab.txt" | "merges.txt"),
            "additional_chat_templates" => kind == "jinja",
            // Modules of sentence-transformers: `1_Pooling`, `2_Dense`.
            module => {
                module.starts_with(|c: char| c.is_ascii_digit()) && matches!(kind, "json" | "safetensors")
            }
        }
    };
    Ok(Chosen { files: files.iter().filter(read).cloned().collect(), model: String::new() })
}

/// The files that an index of weights names.
pub fn weights(index: &str, files: &[String]) -> Result<Vec<String>, String> {
    let index: serde_json::Value =
        serde_json::from_str(index).map_err(|e| format!("{INDEX} is no JSON: {e}"))?;
    let map = index["weight_map"].as_object().ok_or_else(|| format!("{INDEX} has no weight_map"))?;
    let mut names: Vec<String> = map.values().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    names.sort();
    names.dedup();
    match names.iter().find(|name| !files.contains(name)) {
        Some(name) => Err(format!("{INDEX} names {name}, which is not there")),
        None if names.is_empty() => Err(format!("{INDEX} names no files")),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn chosen(names: &[&str], want: Want) -> Result<Vec<String>, String> {
        choose(&files(names), &want).map(|chosen| chosen.files)
    }

    fn quant(name: &str) -> Want {
        Want::Quant(name.into())
    }

    #[test]
    fn the_only_file_is_taken_and_else_the_usual_one() {
        assert_eq!(chosen(&["a.gguf", "README.md", "mmproj-a.gguf"], Want::Any), Ok(files(&["a.gguf"])));
        assert_eq!(
            chosen(&["a-Q8_0.gguf", "a-q4_k_m.gguf", "a-Q4_K_S.gguf"], Want::Any),
            Ok(files(&["a-q4_k_m.gguf"]))
        );
        let several = chosen(&["a-Q8_0.gguf", "a-F16.gguf"], Want::Any);
        assert_eq!(
            several,
            Err("there are several GGUF files; please name one: a-F16.gguf, a-Q8_0.gguf".into())
        );
    }

    #[test]
    fn quantizations_are_words() {
        let names =
            ["m-Q4_K_M.gguf", "m-IQ4_XS.gguf", "m_Q8_0.gguf", "m.Q4_0.gguf", "Q6_K/m-00001-of-00001.gguf"];
        for (word, file) in [("q4_k_m", 0), ("IQ4_XS", 1), ("Q8_0", 2), ("Q4_0", 3), ("Q6_K", 4)] {
            assert_eq!(chosen(&names, quant(word)), Ok(files(&[names[file]])), "{word}");
        }
        for word in ["Q4_K", "Q4_XS", "8_0", "M"] {
            let expected = match word {
                "8_0" | "M" => continue, // words, too: of names, that is
                word => format!("no GGUF file is called {word}: "),
            };
            assert!(chosen(&names, quant(word)).expect_err(word).starts_with(&expected));
        }
        let two = chosen(&["a-Q4_0.gguf", "b-Q4_0.gguf"], quant("Q4_0"));
        assert_eq!(two, Err("several GGUF files are called Q4_0: a-Q4_0.gguf, b-Q4_0.gguf".into()));
    }

    #[test]
    fn all_parts_are_taken_or_none() {
        let names =
            ["x/a-Q8_0-00002-of-00002.gguf", "x/a-Q8_0-00001-of-00002.gguf", "x/a-F16-00001-of-00002.gguf"];
        let parts = files(&[names[1], names[0]]);
        assert_eq!(chosen(&names, quant("Q8_0")), Ok(parts.clone()));
        assert_eq!(chosen(&names, Want::File(names[0].into())), Ok(parts));
        let incomplete = chosen(&names, quant("F16"));
        assert_eq!(incomplete, Err("part 2 of 2 of x/a-F16.gguf is not there".into()));
    }

    #[test]
    fn files_go_by_path_or_name() {
        let names = ["x/config.json", "config.json", "x/a.gguf"];
        assert_eq!(chosen(&names, Want::File("config.json".into())), Ok(files(&["config.json"])));
        assert_eq!(chosen(&names, Want::File("a.gguf".into())), Ok(files(&["x/a.gguf"])));
        assert_eq!(chosen(&names, Want::File("b.gguf".into())), Err("there is no file b.gguf".into()));
    }

    #[test]
    fn a_folder_has_what_ember_reads() {
        let names = [
            "config.json",
            "model.safetensors",
            "pytorch_model.bin",
            "tokenizer.json",
            "vocab.txt",
            "README.md",
            "1_Pooling/config.json",
            "onnx/config.json",
            "chat_template.jinja",
            "consolidated.safetensors",
        ];
        let taken = [
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "vocab.txt",
            "1_Pooling/config.json",
            "chat_template.jinja",
        ];
        assert_eq!(chosen(&names, Want::Any), Ok(files(&taken)));
        assert!(chosen(&["config.json", "pytorch_model.bin"], Want::Any).is_err());
        assert_eq!(chosen(&names, quant("Q4_0")), Err("there is no GGUF file".into()));
    }

    #[test]
    fn an_index_names_the_weights() {
        let index =
            r#"{"weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}}"#;
        let there = files(&["m-1.safetensors", "m-2.safetensors"]);
        assert_eq!(weights(index, &there), Ok(there.clone()));
        assert!(weights(index, &there[..1]).expect_err("one is missing").contains("m-2.safetensors"));
        assert!(weights("{}", &there).is_err() && weights("[", &there).is_err());
        let sharded = ["config.json", "model.safetensors.index.json", "m-1.safetensors", "model.safetensors"];
        assert_eq!(chosen(&sharded, Want::Any), Ok(files(&["config.json", "model.safetensors.index.json"])));
    }
}
