//! What a file imports from another exists: in files for other processors and systems too, which the compiler does not look at here.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Item, UseTree};

/// A module by its names.
#[derive(Default)]
struct Module {
    names: BTreeSet<String>,
    /// Macros or globs bring names that cannot be seen.
    has_more: bool,
    /// What it imports: the segments of a path, the last of which may be `*`.
    imports: Vec<Vec<String>>,
}

type Modules = BTreeMap<Vec<String>, Module>;

/// The paths of an import.
fn paths(tree: &UseTree, before: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    let mut whole = |before: &[String], last: String| out.push([before, &[last]].concat());
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            paths(&path.tree, before, out);
            before.pop();
        }
        UseTree::Name(name) => whole(before, name.ident.to_string()),
        UseTree::Rename(name) => whole(before, name.ident.to_string()),
        UseTree::Glob(_) => whole(before, "*".into()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| paths(tree, before, out)),
    }
}

/// The names that an import brings.
fn leaves(tree: &UseTree, module: &mut Module, parent: &str) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, module, &path.ident.to_string()),
        UseTree::Name(name) if name.ident == "self" => drop(module.names.insert(parent.to_owned())),
        UseTree::Name(name) => drop(module.names.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(module.names.insert(name.rename.to_string())),
        UseTree::Glob(_) => module.has_more = true,
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, module, parent)),
    }
}

/// Reads the items of the module `path`, whose files lie in `folder`, and those of its modules.
fn read(items: &[Item], path: &[String], folder: &Path, modules: &mut Modules) {
    let mut module = Module::default();
    for item in items {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => match &item.ident {
                Some(name) => name,
                None => {
                    module.has_more = true;
                    continue;
                }
            },
            Item::Use(item) => {
                paths(&item.tree, &mut Vec::new(), &mut module.imports);
                leaves(&item.tree, &mut module, "");
                continue;
            }
            Item::Mod(item) => {
                let name = item.ident.to_string();
                let folder = folder.join(&name);
                let mut inner = path.to_vec();
                inner.push(name);
                match &item.content {
                    Some((_, items)) => read(items, &inner, &folder, modules),
                    None => {
                        let files = [folder.with_extension("rs"), folder.join("mod.rs")];
                        let file =
                            files.iter().find(|file| file.exists()).unwrap_or_else(|| panic!("{files:?}"));
                        let source = std::fs::read_to_string(file).unwrap();
                        read(&syn::parse_file(&source).unwrap().items, &inner, &folder, modules);
                    }
                }
                &item.ident
            }
            _ => continue,
        };
        module.names.insert(name.to_string());
    }
    modules.insert(path.to_vec(), module);
}

/// The name in an import of the module `from` that does not exist; none if all do, or the import is of another crate.
fn missing(modules: &Modules, from: &[String], import: &[String]) -> Option<String> {
    let mut at = from.to_vec();
    let rest = match import[0].as_str() {
        "crate" => {
            at.clear();
            &import[1..]
        }
        "self" => &import[1..],
        "super" => {
            at.pop();
            &import[1..]
        }
        name if modules.contains_key(&[from, &[name.to_owned()]].concat()) => import,
        _ => return None,
    };
    for name in rest {
        if name == "super" {
            at.pop();
            continue;
        }
        if name == "*" || name == "self" {
            return None;
        }
        let module = &modules[&at];
        if !module.names.contains(name) {
            return (!module.has_more).then(|| format!("{}::{name}", at.join("::")));
        }
        at.push(name.clone());
        if !modules.contains_key(&at) {
            // An item, or something that is imported there from elsewhere.
            return None;
        }
    }
    None
}

#[test]
fn what_files_import_from_others_exists() {
    let source: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src"].iter().collect();
    let library = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    let mut modules = Modules::new();
    read(&syn::parse_file(&library).unwrap().items, &[], &source, &mut modules);
    let words = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let neon = words("kernels::aarch64::neon::vector");
    assert_eq!(
        missing(&modules, &neon, &words("super::super::numbers")).as_deref(),
        Some("kernels::aarch64::numbers")
    );
    assert_eq!(missing(&modules, &neon, &words("crate::kernels::simd::numbers")), None);
    let mut bad = Vec::new();
    let mut n_imports = 0;
    for (path, module) in &modules {
        for import in &module.imports {
            n_imports += 1;
            let name = missing(&modules, path, import);
            bad.extend(name.map(|name| format!("{} imports {name}, which does not exist", path.join("::"))));
        }
    }
    assert!(modules.len() > 300 && n_imports > 2000, "{} modules, {n_imports} imports", modules.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
