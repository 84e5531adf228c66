//! Takes the header that cbindgen writes apart and puts it together again, section by section: all that belongs to one noun stands in one
//! place. Which declaration belongs where, and each section's overview and example, stand in `sections.txt` beside this file.

use std::collections::{HashMap, HashSet};

/// Columns of a line of the header; names alone may make one longer.
const WIDTH: usize = 80;

/// How the parts of a comment begin after its text; each part has an empty line before it.
const PARTS: [&str; 3] = ["@param ", "- ", "@return "];

/// A part of the header.
struct Section {
    id: String,
    title: String,
    /// Names of declarations, or their beginnings with a `*` after them.
    claims: Vec<String>,
    overview: Vec<String>,
    example: Vec<String>,
}

/// What a declaration is. Within a section they stand in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// `typedef struct x x;`: declared in the first section, whoever claims it.
    Opaque,
    Macro,
    Enum,
    /// A struct with fields, or the type of a callback.
    Type,
    Function,
}

/// A comment and its declaration.
struct Item {
    kind: Kind,
    name: String,
    comment: Vec<String>,
    declaration: Vec<String>,
}

/// The header, in order. `written` is cbindgen's output and `sections` the text of `sections.txt`. An error names the declaration that
/// no section claims, or that stands before a type that it needs.
pub fn order(written: &str, sections: &str) -> Result<String, String> {
    let sections = parse_sections(sections)?;
    let (head, items) = parse_header(written)?;
    let mut placed: Vec<Vec<((usize, usize), Item)>> = sections.iter().map(|_| Vec::new()).collect();
    let mut used = HashSet::new();
    for item in items {
        let (section, claim) = claimant(&sections, &item.name)?;
        used.insert((section, claim));
        let home = if item.kind == Kind::Opaque { 0 } else { section };
        placed[home].push(((section, claim), item));
    }
    for (s, section) in sections.iter().enumerate() {
        if let Some(claim) = (0..section.claims.len()).find(|&c| !used.contains(&(s, c))) {
            return Err(format!(
                "section {} claims {}, which the header does not declare",
                section.id, section.claims[claim]
            ));
        }
    }
    for items in &mut placed {
        // Stable: types, and what one claim takes, stay in cbindgen's order, in which types precede their uses.
        let by_claim = |kind| matches!(kind, Kind::Opaque | Kind::Function);
        items.sort_by_key(|(claim, item)| (item.kind, by_claim(item.kind).then_some(*claim)));
    }
    check_order(&sections, &placed)?;

    let mut out = head;
    out.push_str("\n#ifdef __cplusplus\nextern \"C\" {\n#endif // __cplusplus\n");
    for (section, items) in sections.iter().zip(&placed) {
        write_banner(&mut out, section);
        for (_, item) in items {
            out.push('\n');
            write_item(&mut out, item);
        }
        out.push_str("\n/** @} */\n");
    }
    out.push_str(
        "\n#ifdef __cplusplus\n}  // extern \"C\"\n#endif  // __cplusplus\n\n#endif  /* EMBER_H */\n",
    );
    Ok(out)
}

/// Reads `sections.txt`: `[id] Title`, lines `claims …`, the overview, and the example indented by four spaces.
fn parse_sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines() {
        if let Some((id, title)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            let (id, title) = (id.into(), title.into());
            sections.push(Section {
                id,
                title,
                claims: Vec::new(),
                overview: Vec::new(),
                example: Vec::new(),
            });
            continue;
        }
        // Before the first section stands what the file is.
        let Some(section) = sections.last_mut() else { continue };
        if let Some(claims) = line.strip_prefix("claims ") {
            section.claims.extend(claims.split(' ').map(str::to_owned));
        } else if let Some(code) = line.strip_prefix("    ") {
            section.example.push(code.into());
        } else if !line.is_empty() {
            section.overview.push(line.into());
        }
    }
    for section in &sections {
        if section.overview.is_empty() || section.example.is_empty() {
            return Err(format!("section {} has no overview or no example", section.id));
        }
        if let Some(line) = section.example.iter().find(|line| line.len() + 3 > WIDTH || line.contains("*/"))
        {
            return Err(format!(
                "the example of section {} has a line that is too long or ends a comment: {line}",
                section.id
            ));
        }
    }
    if sections.is_empty() { Err("there are no sections".into()) } else { Ok(sections) }
}

/// The head of the header (its comment, guard and includes), and its items.
fn parse_header(written: &str) -> Result<(String, Vec<Item>), String> {
    let at = written.find("/**").ok_or("cbindgen wrote no declaration")?;
    let (head, body) = written.split_at(at);
    let mut items: Vec<Item> = Vec::new();
    let mut in_comment = false;
    for line in body.lines() {
        if line.starts_with("/**") {
            items.push(Item {
                kind: Kind::Macro,
                name: String::new(),
                comment: Vec::new(),
                declaration: Vec::new(),
            });
            in_comment = true;
        }
        let item = items.last_mut().ok_or("cbindgen wrote no declaration")?;
        // `extern "C"` is written anew around everything; an enum has lines of its own about C++, which begin with `#ifndef`.
        if !in_comment && line.starts_with("#ifdef __cplusplus") {
            items.push(Item {
                kind: Kind::Macro,
                name: String::new(),
                comment: Vec::new(),
                declaration: Vec::new(),
            });
            continue;
        }
        if in_comment { &mut item.comment } else { &mut item.declaration }.push(line.to_owned());
        in_comment &= !line.ends_with("*/");
    }
    // Items without a comment are what was between these lines about C++.
    items.retain(|item| !item.comment.is_empty());
    for item in &mut items {
        while item.declaration.last().is_some_and(String::is_empty) {
            item.declaration.pop();
        }
        (item.kind, item.name) = identify(&item.declaration).ok_or_else(|| {
            format!("this is no declaration: {} {}", item.comment.join(" "), item.declaration.join(" "))
        })?;
        let extra = item.declaration.iter().position(String::is_empty);
        if let Some(next) = extra.and_then(|at| item.declaration.get(at + 1)) {
            return Err(format!("a declaration after {} has no comment: {next}", item.name));
        }
    }
    Ok((head.to_owned(), items))
}

/// What a declaration declares.
fn identify(declaration: &[String]) -> Option<(Kind, String)> {
    let first = declaration.first()?;
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    if let Some(rest) = first.strip_prefix("#define ") {
        return Some((Kind::Macro, word(rest)));
    } else if let Some(rest) = first.strip_prefix("enum ") {
        return Some((Kind::Enum, word(rest)));
    } else if let Some(rest) = first.strip_prefix("typedef struct ") {
        let name = word(rest);
        let kind = if rest.ends_with('{') { Kind::Type } else { Kind::Opaque };
        return Some((kind, name));
    } else if first.starts_with("typedef ") {
        return Some((Kind::Type, word(first.split_once("(*")?.1)));
    }
    let before = first.split_once('(')?.0;
    Some((Kind::Function, before.rsplit([' ', '*']).next()?.to_owned()))
}

/// The section and the claim in it that fit `name` best: the whole name, else the longest beginning.
fn claimant(sections: &[Section], name: &str) -> Result<(usize, usize), String> {
    let mut best: Option<((usize, usize), usize)> = None;
    for (s, section) in sections.iter().enumerate() {
        for (c, claim) in section.claims.iter().enumerate() {
            let fit = match claim.strip_suffix('*') {
                Some(prefix) if name.starts_with(prefix) => prefix.len(),
                None if name == claim => usize::MAX,
                _ => continue,
            };
            match best {
                Some(((other, _), so_far)) if so_far == fit => {
                    return Err(format!(
                        "sections {} and {} both claim {name}",
                        sections[other].id, section.id
                    ));
                }
                Some((_, so_far)) if so_far > fit => {}
                _ => best = Some(((s, c), fit)),
            }
        }
    }
    let (place, _) = best.ok_or_else(|| format!("no section of header/sections.txt claims {name}"))?;
    Ok(place)
}

/// Fails when an item stands before a type that its declaration names.
fn check_order(sections: &[Section], placed: &[Vec<((usize, usize), Item)>]) -> Result<(), String> {
    let mut home = HashMap::new();
    for (section, items) in sections.iter().zip(placed) {
        home.extend(items.iter().map(|(_, item)| (item.name.as_str(), section.id.as_str())));
    }
    let mut declared = HashSet::new();
    for (section, items) in sections.iter().zip(placed) {
        for (_, item) in items {
            declared.insert(item.name.as_str());
            let code = without_comments(&item.declaration);
            let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(needed) = names.into_iter().find(|n| home.contains_key(n) && !declared.contains(n)) {
                let (here, there) = (&section.id, home[needed]);
                return Err(format!(
                    "{} in section {here} needs {needed}, which section {there} declares later",
                    item.name
                ));
            }
        }
    }
    Ok(())
}

fn without_comments(lines: &[String]) -> String {
    let mut code = String::new();
    for line in lines {
        let line = line.trim();
        if !line.starts_with("/*")
            && !line.starts_with('*')
            && !line.starts_with("#if")
            && !line.starts_with("#endif")
        {
            code.push_str(line);
            code.push(' ');
        }
    }
    code
}

fn write_banner(out: &mut String, section: &Section) {
    let line = "=".repeat(WIDTH - 6);
    out.push_str(&format!("\n/* {line}\n * {}\n * {line} */\n\n", section.title));
    out.push_str(&format!("/**\n * @defgroup {} {}\n", section.id, section.title));
    write_paragraph(out, "", &section.overview.join(" "), "");
    out.push_str(" *\n * @code{.c}\n");
    for line in &section.example {
        out.push_str(&format!(" * {line}\n"));
    }
    out.push_str(" * @endcode\n * @{\n */\n");
}

fn write_item(out: &mut String, item: &Item) {
    write_comments(out, &item.comment);
    let flat = item.declaration.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    // The type of a callback has its name in parentheses, and a struct has braces.
    let parts = if item.kind == Kind::Function { flat.split_once('(') } else { flat.split_once(")(") };
    if item.kind != Kind::Function && (item.kind != Kind::Type || parts.is_none() || flat.contains('{')) {
        return write_comments(out, &item.declaration);
    }
    match parts {
        Some((name, parameters)) if flat.len() > WIDTH => {
            let close = if item.kind == Kind::Type { ")" } else { "" };
            out.push_str(&format!("{name}{close}(\n    {}\n", parameters.replace(", ", ",\n    ")));
        }
        _ => out.push_str(&format!("{flat}\n")),
    }
}

/// Writes lines, the comments among them at the width of the header.
fn write_comments(out: &mut String, lines: &[String]) {
    let mut at = 0;
    while at < lines.len() {
        let line = &lines[at];
        let indent = &line[..line.len() - line.trim_start().len()];
        at += 1;
        if !line.trim_start().starts_with("/**") {
            out.push_str(&format!("{line}\n"));
            continue;
        }
        let mut text = vec![line.trim_start().trim_start_matches("/**")];
        while !lines[at - 1].ends_with("*/") {
            text.push(lines[at].trim_start().trim_start_matches('*'));
            at += 1;
        }
        if let Some(last) = text.last_mut() {
            *last = last.trim_end_matches('/').trim_end_matches('*');
        }
        let text: Vec<&str> =
            text.iter().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
        let text = text.join("\n");
        write_comment(out, indent, text.trim_matches('\n'));
    }
}

/// Writes one comment: on one line if it fits, else wrapped. Lists, `@` commands and empty lines begin new paragraphs.
fn write_comment(out: &mut String, indent: &str, text: &str) {
    if !text.contains('\n') && indent.len() + text.chars().count() + 7 <= WIDTH {
        out.push_str(&format!("{indent}/** {text} */\n"));
        return;
    }
    out.push_str(&format!("{indent}/**\n"));
    let (mut paragraph, mut last_kind) = (String::new(), None);
    for line in text.lines().chain([""]) {
        let trimmed = line.trim_start();
        let begins = trimmed.is_empty() || trimmed.starts_with("- ") || trimmed.starts_with('@');
        if begins && !paragraph.is_empty() {
            // In Rust parameters are a list, since rustdoc knows no `@param`.
            let text = if paragraph.starts_with("- @") { &paragraph[2..] } else { &paragraph };
            let kind = PARTS.iter().position(|mark| text.starts_with(mark));
            if kind != last_kind && !out.ends_with("*\n") {
                out.push_str(&format!("{indent} *\n"));
            }
            last_kind = kind;
            write_paragraph(out, indent, text, if text.starts_with(['@', '-']) { "  " } else { "" });
            paragraph.clear();
        }
        if trimmed.is_empty() {
            out.push_str(&format!("{indent} *\n"));
        } else {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(trimmed);
        }
    }
    // The empty line at the end ended the last paragraph.
    out.truncate(out.len() - indent.len() - 3);
    out.push_str(&format!("{indent} */\n"));
}

/// Writes a paragraph; all lines but the first begin with `hanging`.
fn write_paragraph(out: &mut String, indent: &str, text: &str, hanging: &str) {
    let mut line = String::new();
    for word in text.split(' ') {
        let columns = indent.len() + 3 + line.chars().count() + 1 + word.chars().count();
        if !line.trim().is_empty() && columns > WIDTH {
            out.push_str(&format!("{indent} * {line}\n"));
            line = hanging.to_owned();
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{indent} * {line}\n"));
}
