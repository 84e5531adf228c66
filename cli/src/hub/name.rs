//! What a person calls a model of a hub.
#![forbid(unsafe_code)]

use super::choose::Want;

/// A repository, and which of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// `OWNER/NAME`.
    pub repository: String,
    revision: Option<String>,
    pub want: Want,
}

impl Name {
    /// Reads `OWNER/NAME`, `OWNER/NAME:QUANT`, `OWNER/NAME/FILE`, each also with `hf.co/` or the hub's address before it, and addresses of
    /// files as a browser shows them. `None` for what is none of these.
    pub fn parse(text: &str) -> Option<Name> {
        let bare = text.strip_prefix("https://").unwrap_or(text);
        let hosts = ["hf.co/", "huggingface.co/", "www.huggingface.co/"];
        let bare =
            hosts.iter().find_map(|host| bare.strip_prefix(host)).unwrap_or(bare).trim_end_matches('/');
        let mut parts = bare.splitn(3, '/');
        let (owner, name, rest) = (parts.next()?, parts.next()?, parts.next());
        let (name, quant) = match name.split_once(':') {
            Some((name, quant)) => (name, Some(quant)),
            None => (name, None),
        };
        if !is_plain(owner) || !is_plain(name) {
            return None;
        }
        let repository = format!("{owner}/{name}");
        let mut revision = None;
        let want = match (quant, rest) {
            (None, None) => Want::Any,
            (Some(quant), None) if is_plain(quant) => Want::Quant(quant.to_owned()),
            (None, Some(rest)) => {
                let file = match rest.split_once('/') {
                    Some(("blob" | "resolve" | "tree", after)) => {
                        let (named, file) = after.split_once('/').unwrap_or((after, ""));
                        revision = Some(named.to_owned());
                        file.split('?').next().unwrap_or(file)
                    }
                    _ => rest,
                };
                match file {
                    "" => Want::Any,
                    file if is_safe_path(file) => Want::File(file.to_owned()),
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(Name { repository, revision, want })
    }

    /// A branch, a tag or a commit.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }

    pub fn set_revision(&mut self, revision: &str) {
        self.revision = Some(revision.to_owned());
    }
}

/// Whether a text is a name of its own in an address and in a path.
pub fn is_plain(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !text.is_empty()
        && text.len() <= 96
        && !text.starts_with(['.', '-'])
        && text.chars().all(fits)
        && !text.contains("..")
}

/// Whether a path of a repository stays in its folder, on every system.
pub fn is_safe_path(path: &str) -> bool {
    path.len() <= 1024
        && path.split('/').all(|part| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && !part.ends_with(['.', ' '])
                && !part.contains(['\\', ':', '*', '?', '"', '<', '>', '|'])
                && !part.chars().any(char::is_control)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String, Want) {
        let name = Name::parse(text).unwrap_or_else(|| panic!("{text} is a name"));
        (name.repository.clone(), name.revision().to_owned(), name.want)
    }

    #[test]
    fn names_and_addresses_are_read() {
        let of = |revision: &str, want| ("a/b-GGUF".to_owned(), revision.to_owned(), want);
        let file = || Want::File("x/b-Q4_0.gguf".into());
        assert_eq!(parsed("a/b-GGUF"), of("main", Want::Any));
        assert_eq!(parsed("hf.co/a/b-GGUF/"), of("main", Want::Any));
        assert_eq!(
            parsed("https://huggingface.co/a/b-GGUF:Q4_K_M"),
            of("main", Want::Quant("Q4_K_M".into()))
        );
        assert_eq!(parsed("a/b-GGUF/x/b-Q4_0.gguf"), of("main", file()));
        assert_eq!(
            parsed("https://huggingface.co/a/b-GGUF/blob/v1/x/b-Q4_0.gguf?download=true"),
            of("v1", file())
        );
        assert_eq!(parsed("huggingface.co/a/b-GGUF/tree/v1"), of("v1", Want::Any));
    }

    #[test]
    fn what_is_no_name_is_none() {
        for text in [
            "",
            "a",
            "a/",
            "/b",
            "../b",
            "a/..",
            "a/b:",
            "a/b/../c",
            "a b/c",
            "./a/b",
            "a/b/c:d",
            "http://x.y/a/b",
            "a/b/\u{7}",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }

    #[test]
    fn paths_stay_in_their_folder() {
        assert!(is_safe_path("1_Pooling/config.json") && is_safe_path("a..b"));
        for path in
            ["", "/etc/passwd", "a//b", "../a", "a/../b", "c:\\a", "a\\b", "a\n", "a/.", "nul:", "a. "]
        {
            assert!(!is_safe_path(path), "{path}");
        }
    }
}
