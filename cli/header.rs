//! Reads `include/ember.h` and writes its declarations in Rust. What it does not know is an error, so that nothing is left out.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The declarations of a header in Rust.
pub fn rust(text: &str) -> Result<String, String> {
    let (body, defines) = preprocess(&without_comments(text)?)?;
    let mut out = String::new();
    for (name, value) in defines {
        match value.as_str() {
            "SIZE_MAX" => writeln!(out, "pub const {name}: usize = usize::MAX;"),
            "UINT32_MAX" => writeln!(out, "pub const {name}: u32 = u32::MAX;"),
            "UINT64_MAX" => writeln!(out, "pub const {name}: u64 = u64::MAX;"),
            number if number.parse::<i32>().is_ok() => writeln!(out, "pub const {name}: i32 = {number};"),
            other => return Err(format!("#define {name} has the value {other}, which is not known here")),
        }
        .map_err(|e| e.to_string())?;
    }
    let mut aliases = BTreeSet::new();
    let mut functions = String::new();
    let mut layouts = String::new();
    for statement in statements(&body)? {
        let words: Vec<&str> = statement.split_whitespace().collect();
        match words.as_slice() {
            ["enum", name, "{", members @ .., "}"] => enumeration(name, members, &mut out)?,
            ["typedef", "struct", name, again] if name == again => {
                let _ = writeln!(out, "#[repr(C)]\npub struct {name} {{\n    _opaque: [u8; 0],\n}}");
            }
            ["typedef", "struct", name, "{", fields @ .., "}", again] if name == again => {
                structure(name, fields, &mut out, &mut layouts)?;
            }
            ["typedef", "int32_t", name] => {
                if aliases.insert(name.to_string()) {
                    let _ = writeln!(out, "pub type {name} = i32;");
                }
            }
            [before @ .., ")"] => {
                let opened = before.iter().rposition(|word| *word == "(").ok_or("a ) too many")?;
                let parameters = list(&before[opened + 1..])?;
                match &before[..opened] {
                    ["typedef", result @ .., "(", "*", name, ")"] => {
                        let result = arrow(&rust_type(result)?);
                        let _ = writeln!(
                            out,
                            "pub type {name} = Option<unsafe extern \"C\" fn({parameters}){result}>;"
                        );
                    }
                    [result @ .., name] if name.starts_with("ember_") => {
                        let result = arrow(&rust_type(result)?);
                        let _ = writeln!(functions, "    pub fn {name}({parameters}){result};");
                    }
                    _ => return Err(format!("this declaration is of no known kind: {statement}")),
                }
            }
            _ => return Err(format!("this declaration is of no known kind: {statement}")),
        }
    }
    let _ = write!(out, "unsafe extern \"C\" {{\n{functions}}}\n");
    let _ = write!(out, "#[cfg(test)]\npub const LAYOUTS: &[(&str, &str, usize)] = &[\n{layouts}];\n");
    Ok(out)
}

fn without_comments(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        let end = rest[start..].find("*/").ok_or("a comment has no end")?;
        rest = &rest[start + end + 2..];
    }
    out.push_str(rest);
    Ok(out.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n"))
}

/// What a C99 compiler sees, and the macros with a value.
fn preprocess(text: &str) -> Result<(String, Vec<(String, String)>), String> {
    let (mut body, mut defines) = (String::new(), Vec::new());
    let mut seen: Vec<bool> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            // Neither C++ nor C23, and nothing is defined when the header begins.
            ["#ifdef" | "#if", ..] => seen.push(false),
            ["#ifndef", ..] => seen.push(true),
            ["#else"] => {
                let last = seen.last_mut().ok_or("an #else without an #if")?;
                *last = !*last;
            }
            ["#endif"] => {
                seen.pop().ok_or("an #endif without an #if")?;
            }
            _ if seen.contains(&false) => {}
            ["#define", name, value] => defines.push((name.to_string(), value.to_string())),
            ["#define", _] | ["#include", _] => {}
            [first, ..] if first.starts_with('#') => {
                return Err(format!("this line is not known here: {line}"));
            }
            _ => {
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    Ok((body, defines))
}

/// The declarations between semicolons, with spaces around all marks.
fn statements(body: &str) -> Result<Vec<String>, String> {
    let (mut found, mut now, mut depth) = (Vec::new(), String::new(), 0usize);
    for c in body.chars() {
        match c {
            ';' if depth == 0 => found.push(std::mem::take(&mut now)),
            '{' | '}' | '(' | ')' | '*' | ',' | ';' | '=' => {
                match c {
                    '{' => depth += 1,
                    '}' => depth = depth.checked_sub(1).ok_or("a } too many")?,
                    _ => {}
                }
                now.extend([' ', c, ' ']);
            }
            c => now.push(c),
        }
    }
    match now.trim() {
        "" => Ok(found),
        rest => Err(format!("the header ends within: {rest}")),
    }
}

fn enumeration(name: &str, members: &[&str], out: &mut String) -> Result<(), String> {
    for member in members.split(|word| *word == ",").filter(|member| !member.is_empty()) {
        let [constant, "=", value] = member else {
            return Err(format!("enum {name} has the member {}", member.join(" ")));
        };
        let _ = writeln!(out, "pub const {constant}: i32 = {value};");
    }
    Ok(())
}

fn structure(name: &str, fields: &[&str], out: &mut String, layouts: &mut String) -> Result<(), String> {
    let _ = writeln!(out, "#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{");
    let _ = writeln!(layouts, "    (\"{name}\", \"\", size_of::<{name}>()),");
    for field in fields.split(|word| *word == ";").filter(|field| !field.is_empty()) {
        let (field_name, kind) = declarator(field)?;
        let _ = writeln!(out, "    pub {field_name}: {kind},");
        let _ = writeln!(
            layouts,
            "    (\"{name}\", \"{field_name}\", std::mem::offset_of!({name}, {field_name})),"
        );
    }
    out.push_str("}\n");
    Ok(())
}

fn list(parameters: &[&str]) -> Result<String, String> {
    if parameters == ["void"] {
        return Ok(String::new());
    }
    let declared = parameters.split(|word| *word == ",").map(declarator);
    let parts: Result<Vec<String>, String> =
        declared.map(|d| d.map(|(name, kind)| format!("{name}: {kind}"))).collect();
    Ok(parts?.join(", "))
}

fn declarator(words: &[&str]) -> Result<(String, String), String> {
    let (name, kind) = words.split_last().ok_or("an empty declarator")?;
    let name =
        if matches!(*name, "type" | "ref" | "in" | "where") { format!("{name}_") } else { name.to_string() };
    Ok((name, rust_type(kind)?))
}

/// `const char * const *` becomes `*const *const c_char`.
fn rust_type(words: &[&str]) -> Result<String, String> {
    let words: Vec<&str> =
        words.iter().copied().filter(|word| *word != "struct" && *word != "enum").collect();
    let (mut constant, mut kind) = (false, None);
    for word in &words {
        match *word {
            "const" => constant = true,
            "*" => {
                let inner: String = kind.ok_or("a pointer to nothing")?;
                kind = Some(format!("*{} {inner}", if constant { "const" } else { "mut" }));
                constant = false;
            }
            base => kind = Some(named(base)?.to_string()),
        }
    }
    kind.ok_or_else(|| format!("there is no type in \"{}\"", words.join(" ")))
}

fn named(base: &str) -> Result<&str, String> {
    Ok(match base {
        "void" => "std::ffi::c_void",
        "char" => "std::ffi::c_char",
        "bool" => "bool",
        "float" => "f32",
        "double" => "f64",
        "size_t" => "usize",
        "int8_t" => "i8",
        "uint8_t" => "u8",
        "int16_t" => "i16",
        "uint16_t" => "u16",
        "int32_t" => "i32",
        "uint32_t" => "u32",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        own if own.starts_with("ember_") => own,
        other => return Err(format!("the type {other} is not known here")),
    })
}

/// ` -> T`, or nothing where a function gives nothing.
fn arrow(result: &str) -> String {
    match result {
        "std::ffi::c_void" => String::new(),
        result => format!(" -> {result}"),
    }
}
