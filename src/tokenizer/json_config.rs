//! The content of a `tokenizer_config.json`, and of the older files beside it.
#![forbid(unsafe_code)]

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The tokens with a role, in the order in which `transformers` adds missing ones.
pub(super) const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The used fields of `tokenizer_config.json`.
#[derive(Default)]
pub(super) struct ConfigFile {
    /// In the order of [`ROLES`]. Null: there is none; absent: the class decides.
    pub(super) roles: [Option<Option<TokenFile>>; ROLES.len()],
    /// Other fields named `…_token`.
    pub(super) others: Vec<TokenFile>,
    pub(super) extra_special_tokens: Vec<TokenFile>,
    pub(super) additional_special_tokens: Vec<TokenFile>,
    pub(super) added_tokens_decoder: Option<AddedTokens>,
    pub(super) tokenizer_class: Option<String>,
    pub(super) do_lower_case: Option<bool>,
    pub(super) strip_accents: Option<bool>,
    pub(super) tokenize_chinese_chars: Option<bool>,
    pub(super) add_prefix_space: Option<bool>,
    /// Whether it is present and null, which is false to some classes.
    pub(super) null_prefix_space: bool,
    pub(super) legacy: Option<bool>,
    pub(super) split_special_tokens: Option<bool>,
    pub(super) fix_mistral_regex: Option<bool>,
    pub(super) chat_template: Option<TemplateFile>,
    /// The model's inputs beside the tokens, where the file lists them.
    pub(super) model_input_names: Option<InputNames>,
}

/// Names of inputs. Values other than lists of texts are ignored.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum InputNames {
    List(Vec<String>),
    #[allow(dead_code, reason = "read and never looked at")]
    Other(IgnoredAny),
}

impl ConfigFile {
    /// Whether the model gets token types (which text of a pair a token is of), where the file says so.
    pub(super) fn tells_types(&self) -> Option<bool> {
        match &self.model_input_names {
            Some(InputNames::List(names)) => Some(names.iter().any(|name| name == "token_type_ids")),
            Some(InputNames::Other(_)) | None => None,
        }
    }

    /// The token with this role, which is one of [`ROLES`]; `Some(None)` where the file says that there is none.
    pub(super) fn role(&self, role: &str) -> Option<Option<&TokenFile>> {
        let i = ROLES.iter().position(|name| *name == role)?;
        self.roles[i].as_ref().map(Option::as_ref)
    }

    /// Takes over the fields of a `special_tokens_map.json`.
    pub(super) fn update(&mut self, map: ConfigFile) {
        for (own, role) in self.roles.iter_mut().zip(map.roles) {
            *own = role.or_else(|| own.take());
        }
        self.others.extend(map.others);
        self.extra_special_tokens.extend(map.extra_special_tokens);
        if self.extra_special_tokens.is_empty() && !map.additional_special_tokens.is_empty() {
            self.additional_special_tokens = map.additional_special_tokens;
        }
    }

    /// The special tokens without a role. A list under the older name counts where the newer has none.
    pub(super) fn extra(&self) -> impl Iterator<Item = &TokenFile> {
        let extra = match self.extra_special_tokens.is_empty() {
            true => &self.additional_special_tokens,
            false => &self.extra_special_tokens,
        };
        self.others.iter().chain(extra)
    }
}

impl<'de> Deserialize<'de> for ConfigFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = ConfigFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = ConfigFile::default();
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let wrong = |e: A::Error| A::Error::custom(format_args!("the key {key:?}: {e}"));
                    if let Some(i) = ROLES.iter().position(|role| *role == key) {
                        out.roles[i] = Some(map.next_value().map_err(wrong)?);
                        continue;
                    }
                    let flag = match &*key {
                        "do_lower_case" => &mut out.do_lower_case,
                        "strip_accents" => &mut out.strip_accents,
                        "tokenize_chinese_chars" => &mut out.tokenize_chinese_chars,
                        "legacy" => &mut out.legacy,
                        "split_special_tokens" => &mut out.split_special_tokens,
                        "fix_mistral_regex" => &mut out.fix_mistral_regex,
                        other => {
                            match other {
                                "add_prefix_space" => {
                                    out.add_prefix_space = map.next_value().map_err(wrong)?;
                                    out.null_prefix_space = out.add_prefix_space.is_none();
                                }
                                "tokenizer_class" => out.tokenizer_class = map.next_value().map_err(wrong)?,
                                "chat_template" => out.chat_template = map.next_value().map_err(wrong)?,
                                "model_input_names" => {
                                    out.model_input_names = map.next_value().map_err(wrong)?;
                                }
                                "added_tokens_decoder" => {
                                    out.added_tokens_decoder = map.next_value().map_err(wrong)?;
                                }
                                "extra_special_tokens" | "additional_special_tokens" => {
                                    let list: Option<TokenList> = map.next_value().map_err(wrong)?;
                                    let list = list.map_or_else(Vec::new, |list| list.0);
                                    match other == "extra_special_tokens" {
                                        true => out.extra_special_tokens = list,
                                        false => out.additional_special_tokens = list,
                                    }
                                }
                                // Flags: the frame in the tokenizer.json decides this.
                                "add_bos_token" | "add_eos_token" => drop(map.next_value::<IgnoredAny>()?),
                                other if other.ends_with("_token") => {
                                    out.others.extend(map.next_value::<MaybeToken>().map_err(wrong)?.0);
                                }
                                _ => drop(map.next_value::<IgnoredAny>()?),
                            }
                            continue;
                        }
                    };
                    *flag = map.next_value().map_err(wrong)?;
                }
                Ok(out)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// How an added token is found in a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Flags {
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

/// A token: its text, or an object with its text and its flags. (Not an untagged `enum`: serde would first read it into a tree of
/// fifty times its size.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenFile {
    pub(super) content: Box<str>,
    pub(super) flags: Option<Flags>,
}

impl<'de> Deserialize<'de> for TokenFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Token {
            content: Box<str>,
            #[serde(default)]
            single_word: bool,
            #[serde(default)]
            lstrip: bool,
            #[serde(default)]
            rstrip: bool,
            normalized: Option<bool>,
            #[serde(default)]
            special: bool,
        }
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = TokenFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a token: a string, or an object with the key \"content\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TokenFile { content: text.into(), flags: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, token: A) -> Result<Self::Value, A::Error> {
                let token = Token::deserialize(MapAccessDeserializer::new(token))?;
                let Token { content, single_word, lstrip, rstrip, normalized, special } = token;
                let normalized = normalized.unwrap_or(!special);
                Ok(TokenFile {
                    content,
                    flags: Some(Flags { single_word, lstrip, rstrip, normalized, special }),
                })
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A token, if the value is a token.
struct MaybeToken(Option<TokenFile>);

impl<'de> Deserialize<'de> for MaybeToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = MaybeToken;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(MaybeToken(Some(TokenFile { content: text.into(), flags: None })))
            }

            fn visit_map<A: MapAccess<'de>>(self, token: A) -> Result<Self::Value, A::Error> {
                TokenFile::deserialize(MapAccessDeserializer::new(token)).map(|token| MaybeToken(Some(token)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(MaybeToken(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(MaybeToken(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(MaybeToken(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(MaybeToken(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(MaybeToken(None))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(MaybeToken(None))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A list of tokens, or an object whose values are tokens.
struct TokenList(Vec<TokenFile>);

impl<'de> Deserialize<'de> for TokenList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = TokenList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tokens, or an object of them")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(TokenList)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some((_, token)) = map.next_entry::<IgnoredAny, TokenFile>()? {
                    out.push(token);
                }
                Ok(TokenList(out))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Tokens by their numbers, in that order: `"added_tokens_decoder"`, or an `added_tokens.json`, which maps texts to numbers.
#[derive(Debug, Default)]
pub(super) struct AddedTokens(pub(super) Vec<(u32, TokenFile)>);

impl<'de> Deserialize<'de> for AddedTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = AddedTokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                    let id = key
                        .parse()
                        .map_err(|_| A::Error::custom(format_args!("{key:?} is no token's number")))?;
                    out.push((id, map.next_value()?));
                }
                out.sort_by_key(|(id, _)| *id);
                Ok(AddedTokens(out))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// `added_tokens.json`: numbers by texts.
#[derive(Debug, Default)]
pub(super) struct AddedFile(pub(super) Vec<(Box<str>, u32)>);

impl<'de> Deserialize<'de> for AddedFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = AddedFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    out.push(entry);
                }
                Ok(AddedFile(out))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// One chat template, or several with names.
pub(super) enum TemplateFile {
    One(String),
    Named(Vec<NamedTemplate>),
}

impl<'de> Deserialize<'de> for TemplateFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = TemplateFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a chat template: a string, or an array of objects with a name")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TemplateFile::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(TemplateFile::Named)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A chat template with a name.
#[derive(Deserialize)]
pub(super) struct NamedTemplate {
    pub(super) name: String,
    pub(super) template: String,
}

impl TemplateFile {
    /// Names and texts.
    pub(super) fn into_named(self) -> Vec<(String, String)> {
        match self {
            TemplateFile::One(template) => vec![("default".into(), template)],
            TemplateFile::Named(all) => all.into_iter().map(|named| (named.name, named.template)).collect(),
        }
    }
}
