//! The rules of ARCHITECTURE.md, read from the sources. Each rule is a function from source files to violations, so
//! that a test can also show that it fails when somebody breaks it.

use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The layers, from the first on. A module uses only modules before its own.
const LAYERS: [&str; 22] = [
    "error",
    "cancel",
    "memory",
    "gguf",
    "hf",
    "quant",
    "kernels",
    "threads",
    "backend",
    "nn",
    "arch",
    "tokenizer",
    "chat",
    "constrain",
    "sampler",
    "cache",
    "model",
    "context",
    "generate",
    "conversation",
    "engine",
    "capi",
];

/// Layers that may use less than all before them.
const NARROW: [(&str, &[&str]); 8] = [
    ("memory", &["error"]),
    ("gguf", &["error", "cancel", "memory"]),
    ("hf", &["error", "cancel", "memory", "gguf"]),
    ("quant", &["error", "gguf"]),
    ("tokenizer", &["error", "gguf"]),
    ("chat", &["error"]),
    ("constrain", &["error", "memory", "gguf", "threads", "tokenizer"]),
    ("sampler", &["error", "constrain"]),
];

const MOST_LINES: usize = 500;
const MOST_BACKEND_METHODS: usize = 36;

/// One source file; `path` is relative to `src`.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    fn syntax(&self) -> syn::File {
        syn::parse_file(&self.text).unwrap_or_else(|e| panic!("{}: {e}", self.path.display()))
    }

    /// The path of the module in the crate: `a/b.rs` and `a/b/mod.rs` are `[a, b]`.
    fn module(&self) -> Vec<String> {
        let mut parts: Vec<String> =
            self.path.with_extension("").iter().map(|p| p.to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|p| p == "mod" || p == "lib") {
            parts.pop();
        }
        parts
    }

    fn at(&self, span: proc_macro2::Span, what: &str) -> String {
        format!("{}:{}: {what}", self.path.display(), span.start().line)
    }
}

fn sources() -> Vec<Source> {
    fn walk(dir: &Path, root: &Path, found: &mut Vec<Source>) {
        for entry in std::fs::read_dir(dir).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, root, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("a readable file");
                found.push(Source { path: path.strip_prefix(root).expect("below src").to_owned(), text });
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    assert!(found.len() > 50, "the sources are there");
    found
}

/// Collects every `crate::…` and `super::…` path of a file as an absolute path.
struct Paths<'a> {
    source: &'a Source,
    module: Vec<String>,
    found: Vec<(String, proc_macro2::Span)>,
}

impl Paths<'_> {
    fn add(&mut self, segments: &[String], span: proc_macro2::Span) {
        let n_super = segments.iter().take_while(|s| *s == "super").count();
        let absolute: Vec<String> = match segments.first().map(String::as_str) {
            Some("crate") => segments[1..].to_vec(),
            Some("super") => {
                let kept = self.module.len().saturating_sub(n_super);
                [&self.module[..kept], &segments[n_super..]].concat()
            }
            _ => return,
        };
        if let Some(layer) = absolute.first() {
            self.found.push((layer.clone(), span));
        }
    }

    fn add_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(p) => self.add_tree(&[prefix, &[p.ident.to_string()]].concat(), &p.tree),
            syn::UseTree::Group(g) => g.items.iter().for_each(|tree| self.add_tree(prefix, tree)),
            syn::UseTree::Name(n) => self.add(&[prefix, &[n.ident.to_string()]].concat(), n.span()),
            syn::UseTree::Rename(r) => self.add(&[prefix, &[r.ident.to_string()]].concat(), r.span()),
            syn::UseTree::Glob(g) => self.add(prefix, g.span()),
        }
    }
}

impl<'a> Visit<'a> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.add_tree(&[], &item.tree);
    }
    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.add(&segments, path.span());
        visit::visit_path(self, path);
    }
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }
}

/// A module uses only modules before its own layer.
fn layering(sources: &[Source]) -> Vec<String> {
    let mut bad = Vec::new();
    for source in sources {
        let module = source.module();
        let Some(layer) = module.first() else { continue };
        let Some(own) = LAYERS.iter().position(|l| l == layer) else {
            bad.push(format!("{}: \"{layer}\" is no layer", source.path.display()));
            continue;
        };
        let narrow = NARROW.iter().find(|(name, _)| name == layer).map(|(_, allowed)| *allowed);
        let allowed = narrow.unwrap_or(&LAYERS[..own]);
        let mut paths = Paths { source, module: module.clone(), found: Vec::new() };
        paths.visit_file(&source.syntax());
        for (used, span) in &paths.found {
            if used != layer && !allowed.contains(&used.as_str()) {
                bad.push(paths.source.at(*span, &format!("{layer} must not use {used}")));
            }
        }
    }
    bad
}

/// Finds what an export's body may not contain.
#[derive(Default)]
struct Decisions(Vec<proc_macro2::Span>);

impl<'a> Visit<'a> for Decisions {
    fn visit_expr(&mut self, expr: &'a syn::Expr) {
        use syn::Expr;
        if matches!(expr, Expr::If(_) | Expr::Match(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_)) {
            self.0.push(expr.span());
        }
        visit::visit_expr(self, expr);
    }
}

fn is_guard_call(block: &syn::Block) -> bool {
    let [syn::Stmt::Expr(syn::Expr::Call(call), None)] = &block.stmts[..] else { return false };
    let syn::Expr::Path(f) = &*call.func else { return false };
    f.path.is_ident("guard") || f.path.is_ident("guard_value")
}

/// Every `extern "C"` function with a body is exported, named and documented, and its body is one guard call.
fn guarded(sources: &[Source]) -> Vec<String> {
    let mut bad = Vec::new();
    for source in sources {
        for item in source.syntax().items {
            let syn::Item::Fn(f) = item else { continue };
            if f.sig.abi.is_none() {
                continue;
            }
            let mut complain =
                |what: &str| bad.push(source.at(f.sig.span(), &format!("{} {what}", f.sig.ident)));
            let has = |name: &str| {
                f.attrs.iter().any(|a| {
                    a.path().is_ident(name)
                        || a.meta.require_list().is_ok_and(|l| l.tokens.to_string().contains(name))
                })
            };
            if !source.path.starts_with("capi") {
                complain("is an extern function outside capi");
            }
            if !has("no_mangle") {
                complain("is not exported under its own name");
            }
            if !f.sig.ident.to_string().starts_with("ember_") {
                complain("does not begin with ember_");
            }
            if !has("doc") {
                complain("has no documentation");
            }
            if !is_guard_call(&f.block) {
                complain("has a body that is not exactly one guard call");
            }
            let mut decisions = Decisions::default();
            decisions.visit_block(&f.block);
            if !decisions.0.is_empty() {
                complain("decides or loops in its body");
            }
        }
    }
    bad
}

/// The trait stays small: a variation is a field of an argument struct.
fn backend_is_small(sources: &[Source]) -> Vec<String> {
    let mut bad = Vec::new();
    let mut seen = false;
    for source in sources {
        for item in source.syntax().items {
            let syn::Item::Trait(t) = item else { continue };
            if t.ident == "Backend" {
                seen = true;
                let n = t.items.iter().filter(|i| matches!(i, syn::TraitItem::Fn(_))).count();
                if n > MOST_BACKEND_METHODS {
                    bad.push(source.at(t.span(), &format!("Backend has {n} methods")));
                }
            }
        }
    }
    assert!(seen, "the trait Backend exists");
    bad
}

/// A file that has outgrown its limit holds two subjects.
fn files_are_short(sources: &[Source]) -> Vec<String> {
    let long = |s: &&Source| s.text.lines().count() > MOST_LINES;
    sources.iter().filter(long).map(|s| format!("{}: over {MOST_LINES} lines", s.path.display())).collect()
}

/// A file without unsafe code forbids it, unless it is the parent of one that needs it.
fn unsafe_is_forbidden(sources: &[Source]) -> Vec<String> {
    struct Unsafe(bool);
    impl<'a> Visit<'a> for Unsafe {
        fn visit_expr_unsafe(&mut self, _: &'a syn::ExprUnsafe) {
            self.0 = true;
        }
        fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
            self.0 |= item.unsafety.is_some();
            visit::visit_item_impl(self, item);
        }
        fn visit_signature(&mut self, s: &'a syn::Signature) {
            self.0 |= s.unsafety.is_some() || s.abi.is_some();
        }
    }
    let uses_unsafe = |s: &Source| {
        let mut visitor = Unsafe(false);
        visitor.visit_file(&s.syntax());
        // Macros are not parsed, and the C skin's are made of unsafe calls.
        let in_macro = s.text.contains("macro_rules! ") && s.text.contains("unsafe {");
        visitor.0 || in_macro || s.text.contains("handle!(")
    };
    let needed: Vec<Vec<String>> = sources.iter().filter(|s| uses_unsafe(s)).map(Source::module).collect();
    let may = |s: &&Source| needed.iter().any(|module| module.starts_with(&s.module()));
    let forbids = |s: &&Source| s.text.contains("#![forbid(unsafe_code)]");
    let inherits = |s: &&Source| {
        let module = s.module();
        sources
            .iter()
            .any(|p| forbids(&p) && p.module().len() < module.len() && module.starts_with(&p.module()))
    };
    let bad = sources.iter().filter(|s| !s.module().is_empty() && !may(s) && !forbids(s) && !inherits(s));
    bad.map(|s| format!("{}: has no unsafe code but does not forbid it", s.path.display())).collect()
}

/// What distinguishes an architecture stands in its own file.
fn architectures_stay_in_arch(sources: &[Source]) -> Vec<String> {
    struct Names(Vec<proc_macro2::Span>);
    impl<'a> Visit<'a> for Names {
        fn visit_lit_str(&mut self, lit: &'a syn::LitStr) {
            if ember::arch::known().any(|name| name == lit.value()) {
                self.0.push(lit.span());
            }
        }
        fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
            // Tests may name what they load.
            if item.ident != "tests" {
                visit::visit_item_mod(self, item);
            }
        }
    }
    let mut bad = Vec::new();
    for source in sources {
        // "gpt2" and "llama" are also the names of tokenizer kinds in the file format; `hf` writes what files say; forms of calls are
        // named after families, each in its own file.
        let exempt =
            ["arch", "tokenizer", "hf", "chat/reply/families"].iter().any(|dir| source.path.starts_with(dir));
        if exempt || source.path.ends_with("tests.rs") {
            continue;
        }
        let mut names = Names(Vec::new());
        names.visit_file(&source.syntax());
        bad.extend(names.0.iter().map(|span| source.at(*span, "names an architecture outside arch")));
    }
    bad
}

fn assert_clean(rule: fn(&[Source]) -> Vec<String>) {
    let bad = rule(&sources());
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
}

/// The rule must report the broken file, and at the right line.
fn assert_caught(rule: fn(&[Source]) -> Vec<String>, path: &str, text: &str, expected: &str) {
    let bad = rule(&[Source { path: path.into(), text: text.into() }]);
    assert!(
        bad.iter().any(|b| b.contains(expected)),
        "{expected:?} was not reported for {path}, but {bad:?}"
    );
}

#[test]
fn modules_use_only_the_layers_before_them() {
    assert_clean(layering);
    assert_caught(
        layering,
        "quant/q9.rs",
        "use crate::backend::Backend;",
        "quant/q9.rs:1: quant must not use backend",
    );
    assert_caught(
        layering,
        "nn/x.rs",
        "\nfn f() { super::super::capi::g() }",
        "nn/x.rs:2: nn must not use capi",
    );
    assert_caught(layering, "gguf/x.rs", "use crate::{error::Error, threads};", "gguf must not use threads");
    assert_caught(
        layering,
        "sampler/x.rs",
        "mod a { use super::super::super::gguf; }",
        "sampler must not use gguf",
    );
    assert_caught(layering, "magic/mod.rs", "", "\"magic\" is no layer");
}

#[test]
fn every_export_is_one_guarded_call() {
    assert_clean(guarded);
    let export = |doc: &str, name: &str, body: &str| {
        format!("{doc}\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}() {{ {body} }}")
    };
    let caught = |text: &str, expected| assert_caught(guarded, "capi/x.rs", text, expected);
    caught(
        &export("/// D", "ember_x", "f()"),
        "capi/x.rs:3: ember_x has a body that is not exactly one guard call",
    );
    caught(&export("/// D", "ember_x", "guard(err, || f()); g()"), "not exactly one guard call");
    caught(&export("/// D", "ember_x", "guard(err, || if a { f() } else { g() })"), "decides or loops");
    caught(&export("", "ember_x", "guard(err, || f())"), "no documentation");
    caught(&export("/// D", "other", "guard(err, || f())"), "does not begin with ember_");
    caught("/// D\npub extern \"C\" fn ember_x() { guard(err, || f()) }", "not exported");
    assert_caught(guarded, "nn/x.rs", &export("/// D", "ember_x", "guard(err, || f())"), "outside capi");
}

#[test]
fn the_backend_trait_is_small() {
    assert_clean(backend_is_small);
    let methods: String = (0..37).map(|i| format!("fn f{i}();")).collect();
    assert_caught(
        backend_is_small,
        "backend/mod.rs",
        &format!("trait Backend {{ {methods} }}"),
        "37 methods",
    );
}

#[test]
fn no_file_is_two_things() {
    assert_clean(files_are_short);
    assert_caught(files_are_short, "nn/x.rs", &"\n".repeat(501), "over 500 lines");
}

#[test]
fn files_without_unsafe_code_forbid_it() {
    assert_clean(unsafe_is_forbidden);
    assert_caught(unsafe_is_forbidden, "nn/x.rs", "fn f() {}", "does not forbid it");
}

#[test]
fn architectures_are_named_in_arch_only() {
    assert_clean(architectures_stay_in_arch);
    let text = "fn f(a: &str) -> bool { a == \"gpt2\" }";
    assert_caught(architectures_stay_in_arch, "nn/x.rs", text, "nn/x.rs:1: names an architecture");
}

/// The functions of a file: `name` of free ones, `Type::name` of methods, with the trait's name in place of the type's as well.
#[derive(Default)]
struct Functions {
    owners: Vec<String>,
    found: Vec<String>,
}

impl Functions {
    fn of(source: &Source) -> Vec<String> {
        let mut functions = Functions::default();
        functions.visit_file(&source.syntax());
        functions.found
    }

    fn add(&mut self, name: &syn::Ident) {
        match self.owners.is_empty() {
            true => self.found.push(name.to_string()),
            false => self.found.extend(self.owners.iter().map(|owner| format!("{owner}::{name}"))),
        }
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add(&item.sig.ident);
    }
    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add(&item.sig.ident);
    }
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let last = |path: &syn::Path| path.segments.last().map(|segment| segment.ident.to_string());
        let own = if let syn::Type::Path(own) = &*item.self_ty { last(&own.path) } else { None };
        let of = item.trait_.as_ref().and_then(|(_, path, _)| last(path));
        self.owners = own.into_iter().chain(of).collect();
        visit::visit_item_impl(self, item);
        self.owners.clear();
    }
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    std::fs::read_to_string(path).expect("ARCHITECTURE.md")
}

/// What stands in backticks in a line.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The steps of the walk, "`function` … `file`", that are not in the sources. Returns how many there are, too.
fn walk(page: &str, sources: &[Source]) -> (usize, Vec<String>) {
    let section = page.split("\n## ").find(|section| section.starts_with("The walk of one token"));
    let lines = section.expect("a section with the walk").lines();
    let steps = lines.flat_map(|line| {
        let names = quoted(line);
        let pairs: Vec<_> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.into_iter().filter(|(_, file)| file.ends_with(".rs"))
    });
    let steps: Vec<(&str, &str)> = steps.collect();
    let is_missing = |&(function, file): &(&str, &str)| {
        let source = sources.iter().find(|source| source.path == Path::new(file));
        source.is_none_or(|source| !Functions::of(source).iter().any(|found| found == function))
    };
    let missing = steps.iter().copied().filter(is_missing);
    (steps.len(), missing.map(|(function, file)| format!("src/{file} has no {function}")).collect())
}

/// Names such as `nn::mixer::Mixer`, from a layer on, that are in no file.
fn paths_of_the_page(page: &str, sources: &[Source]) -> (usize, Vec<String>) {
    let is_path = |name: &&str| {
        let layer = name.split("::").next().unwrap_or_default();
        name.contains("::") && LAYERS.contains(&layer)
    };
    let names: Vec<&str> = page.lines().flat_map(quoted).filter(is_path).collect();
    let exists = |name: &str| {
        let parts: Vec<&str> = name.split("::").collect();
        let module = |n: usize| sources.iter().find(|source| source.module() == parts[..n]);
        let item = |source: &Source| {
            let last = parts[parts.len() - 1];
            let kinds = ["fn", "struct", "enum", "trait", "static", "const", "mod"];
            let declared = kinds.iter().any(|kind| source.text.contains(&format!("{kind} {last}")));
            let uses = source.text.split("pub use").skip(1).filter_map(|rest| rest.split(';').next());
            declared || uses.into_iter().any(|names| names.contains(last))
        };
        module(parts.len()).is_some() || module(parts.len() - 1).is_some_and(item)
    };
    let missing = names.iter().filter(|name| !exists(name));
    (names.len(), missing.map(|name| format!("src has no {name}")).collect())
}

#[test]
fn the_walk_of_one_token_names_functions_that_exist() {
    let (page, sources) = (page(), sources());
    let (n, missing) = walk(&page, &sources);
    assert!(n > 30, "the walk has {n} steps");
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
    let (n, missing) = paths_of_the_page(&page, &sources);
    assert!(n > 30, "the page names {n} modules");
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
    let broken = "\n## The walk of one token\n| `Decoder::backward` | `nn/decoder.rs` | |\n| `run` | `gone.rs` | |\n\n## X\n";
    let expected = ["src/nn/decoder.rs has no Decoder::backward", "src/gone.rs has no run"];
    assert_eq!(walk(broken, &sources).1, expected);
    assert_eq!(
        paths_of_the_page("`nn::gone`, `nn::mixer::Gone`", &sources).1,
        ["src has no nn::gone", "src has no nn::mixer::Gone"]
    );
}

#[test]
fn the_picture_shows_the_layers() {
    let page = page();
    let picture =
        page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a picture");
    let mut names: Vec<&str> = picture.split('[').skip(1).filter_map(|rest| rest.split(']').next()).collect();
    names.reverse();
    assert_eq!(names, LAYERS, "the picture of ARCHITECTURE.md, from below");
}
