//! Requests to a hub. Those that may be tried again say so.
#![forbid(unsafe_code)]

use std::env;
use std::fmt::Write;
use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::cache;
use crate::failure::{Failure, Result};

const HUB: &str = "https://huggingface.co";
const MOST_REDIRECTS: usize = 10;
/// Most bytes of a listing.
const MOST_JSON: u64 = 64 << 20;
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// Why a request failed.
pub enum Trouble {
    /// It will fail again.
    Final(Failure),
    /// It may succeed later: a sentence, and how long the hub asks to wait.
    Passing(String, Option<Duration>),
}

pub struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// What a hub says of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct About {
    pub size: Option<u64>,
    /// A SHA-256, or a SHA-1 of Git's.
    pub checksum: Option<String>,
}

/// A repository at a commit.
pub struct Listing {
    pub commit: String,
    pub files: Vec<(String, About)>,
}

impl Client {
    /// HF_ENDPOINT, HF_TOKEN and SSL_CERT_FILE say which hub, who asks, and which certificates are trusted.
    pub fn from_environment() -> Result<Client> {
        let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        if value("HF_HUB_OFFLINE")
            .is_some_and(|set| ["1", "ON", "YES", "TRUE"].contains(&set.to_uppercase().as_str()))
        {
            return Err(Failure::said("HF_HUB_OFFLINE is set, so nothing is fetched"));
        }
        let endpoint = value("HF_ENDPOINT").unwrap_or_else(|| HUB.into());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        if origin(&endpoint).is_none() {
            return Err(Failure::said(format!(
                "HF_ENDPOINT is {endpoint}, which is no http or https address"
            )));
        }
        let mut tls = TlsConfig::builder();
        if let Some(path) = value("SSL_CERT_FILE") {
            tls = tls.root_certs(certificates(&path)?);
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("ember/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE));
        Ok(Client { agent: config.build().new_agent(), endpoint, token: cache::token()? })
    }

    /// The files of a repository.
    pub fn list(&self, repository: &str, revision: &str) -> Result<Listing, Trouble> {
        let url = format!(
            "{}/api/models/{repository}/revision/{}?blobs=true",
            self.endpoint,
            escaped(revision, "")
        );
        let (mut response, _) = self.request("GET", &url, 0)?;
        self.check(&response, &format!("{repository}, revision {revision}"), repository)?;
        let mut text = String::new();
        let mut body = response.body_mut().with_config().limit(MOST_JSON).reader();
        body.read_to_string(&mut text).map_err(|e| Trouble::Passing(format!("{url}: {e}"), None))?;
        listing(&text).map_err(|why| Trouble::Final(Failure::Said(format!("{url}: {why}"))))
    }

    /// Where a file is fetched from.
    pub fn address(&self, repository: &str, commit: &str, file: &str) -> String {
        format!("{}/{repository}/resolve/{commit}/{}", self.endpoint, escaped(file, "/"))
    }

    /// What the hub says of a file without sending it.
    pub fn about(&self, url: &str, file: &str, repository: &str) -> Result<About, Trouble> {
        let (response, about) = self.request("HEAD", url, 0)?;
        self.check(&response, file, repository)?;
        Ok(about)
    }

    /// The file from a byte on, and what the hub says of it. The first is what of it comes: all of it from a server that knows no ranges.
    pub fn get(
        &self,
        url: &str,
        from: u64,
        file: &str,
        repository: &str,
    ) -> Result<(Response<Body>, About), Trouble> {
        let (response, about) = self.request("GET", url, from)?;
        self.check(&response, file, repository)?;
        Ok((response, about))
    }

    /// Sends a request and follows where it is sent on. The token goes to the hub itself alone.
    fn request(&self, method: &str, url: &str, from: u64) -> Result<(Response<Body>, About), Trouble> {
        let lasting = |why: String| Trouble::Final(Failure::Said(format!("{url}: {why}")));
        let (mut now, mut about) = (url.to_owned(), About::default());
        for _ in 0..=MOST_REDIRECTS {
            let is_hub = origin(&now) == origin(&self.endpoint);
            let mut request = ureq::http::Request::builder().method(method).uri(&now);
            if let Some(token) = self.token.as_ref().filter(|_| is_hub) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
            if from > 0 {
                request = request.header("range", format!("bytes={from}-"));
            }
            let request = request.body(()).map_err(|e| lasting(e.to_string()))?;
            let response = self.agent.run(request).map_err(|e| trouble(&now, e))?;
            let headers = response.headers();
            about.add(headers, is_hub);
            let is_redirect = [301, 302, 303, 307, 308].contains(&response.status().as_u16());
            // Where large files lie does not say more of them.
            if !is_redirect || (method == "HEAD" && about.size.is_some() && about.checksum.is_some()) {
                return Ok((response, about));
            }
            let location =
                text(headers, "location").ok_or_else(|| lasting("it is moved to nowhere".into()))?;
            let next = joined(&now, location).ok_or_else(|| lasting(format!("it is moved to {location}")))?;
            if now.starts_with("https:") && !next.starts_with("https:") {
                return Err(lasting(format!("it is moved to {next}, which is not encrypted")));
            }
            now = next;
        }
        Err(lasting("it is moved too often".into()))
    }

    /// Refuses all but success, with a sentence of what it means.
    fn check(&self, response: &Response<Body>, what: &str, repository: &str) -> Result<(), Trouble> {
        let (status, headers) = (response.status(), response.headers());
        // Of a large file it is enough to know where it lies.
        if status.is_success() || (status.is_redirection() && headers.contains_key("x-linked-etag")) {
            return Ok(());
        }
        let said = text(headers, "x-error-message").map(|said| format!(" ({said})")).unwrap_or_default();
        let code = text(headers, "x-error-code").unwrap_or_default();
        let endpoint = &self.endpoint;
        let sentence = match (status.as_u16(), code) {
            (401 | 403, "GatedRepo") => {
                format!(
                    "{repository}: its owner gives it to those who ask at {endpoint}/{repository}; HF_TOKEN then says who you are{said}"
                )
            }
            (401, _) if self.token.is_some() => {
                format!("{repository}: there is no such model, or not for this HF_TOKEN{said}")
            }
            (401, _) => format!(
                "{repository}: there is no such model, or only for those who say who they are: HF_TOKEN does that{said}"
            ),
            (403, _) => format!("{repository}: the hub refuses it{said}"),
            (404, "EntryNotFound") => format!("{repository}: there is no file {what}{said}"),
            (404, _) => format!("{what}: the hub does not have it{said}"),
            _ => format!("{what}: the hub answers {status}{said}"),
        };
        let is_passing = status.is_server_error() || [408, 429].contains(&status.as_u16());
        Err(match is_passing {
            true => Trouble::Passing(sentence, wait(headers)),
            false => Trouble::Final(Failure::Said(sentence)),
        })
    }
}

impl About {
    /// Adds what an answer says. Where a hub sends on to another place, that place knows nothing of the hub's checksums.
    fn add(&mut self, headers: &HeaderMap, is_hub: bool) {
        let number = |name| text(headers, name).and_then(|text| text.parse().ok());
        let sum = |name| {
            let quoted = text(headers, name)?;
            Some(quoted.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase())
        };
        self.size = self.size.or_else(|| number("x-linked-size"));
        self.checksum = self.checksum.take().or_else(|| sum("x-linked-etag"));
        let sends_on = headers.contains_key("location");
        if is_hub && !sends_on {
            self.checksum = self.checksum.take().or_else(|| sum("etag"));
            if !headers.contains_key("content-range") {
                self.size = self.size.or_else(|| number("content-length"));
            }
        }
    }
}

/// How long a hub asks to wait.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let direct = text(headers, "retry-after").and_then(|text| text.parse().ok());
    // `"api";r=0;t=55`
    let limit = || {
        text(headers, "ratelimit")?.split(';').find_map(|part| part.trim().strip_prefix("t=")?.parse().ok())
    };
    direct.or_else(limit).map(Duration::from_secs)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn trouble(url: &str, error: ureq::Error) -> Trouble {
    let sentence = format!("{url}: {error}");
    match error {
        // Of TLS: a certificate that is not trusted, say.
        ureq::Error::Io(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            Trouble::Final(Failure::Said(sentence))
        }
        ureq::Error::Io(_)
        | ureq::Error::Timeout(_)
        | ureq::Error::ConnectionFailed
        | ureq::Error::BodyStalled
        | ureq::Error::Protocol(_) => Trouble::Passing(sentence, None),
        _ => Trouble::Final(Failure::Said(sentence)),
    }
}

fn certificates(path: &str) -> Result<RootCerts> {
    let bytes = std::fs::read(path).map_err(|e| Failure::of(format_args!("SSL_CERT_FILE is {path}"), &e))?;
    let mut found = Vec::new();
    for item in parse_pem(&bytes) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(e) => return Err(Failure::said(format!("SSL_CERT_FILE is {path}: {e}"))),
        }
    }
    if found.is_empty() {
        return Err(Failure::said(format!("SSL_CERT_FILE is {path}, in which there is no certificate")));
    }
    Ok(RootCerts::new_with_certs(&found))
}

fn listing(text: &str) -> std::result::Result<Listing, String> {
    let json: Value = serde_json::from_str(text).map_err(|e| format!("what the hub says is no JSON: {e}"))?;
    let commit = json["sha"].as_str().ok_or("the hub names no commit")?;
    if !super::name::is_plain(commit) {
        return Err(format!("the hub calls a commit {commit:?}"));
    }
    let siblings = json["siblings"].as_array().ok_or("the hub lists no files")?;
    let mut files = Vec::new();
    for sibling in siblings {
        let name = sibling["rfilename"].as_str().ok_or("the hub lists a file without a name")?;
        // What leads out of the folder cannot be a part of a model.
        if super::name::is_safe_path(name) {
            let large = &sibling["lfs"];
            let checksum = large["sha256"].as_str().or_else(|| large["oid"].as_str());
            let checksum = if large.is_object() { checksum } else { sibling["blobId"].as_str() };
            let size = large["size"].as_u64().or_else(|| sibling["size"].as_u64());
            let checksum = checksum.map(|sum| sum.trim_start_matches("sha256:").to_ascii_lowercase());
            files.push((name.to_owned(), About { size, checksum }));
        }
    }
    Ok(Listing { commit: commit.to_owned(), files })
}

/// A text as a part of an address.
fn escaped(text: &str, kept: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte if kept.as_bytes().contains(&byte) => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    })
}

/// Scheme, host and port.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(usual)))
}

/// Where an answer of `from` sends on to.
fn joined(from: &str, location: &str) -> Option<String> {
    let (scheme, rest) = from.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let url = match location {
        whole if whole.contains("://") && !whole.starts_with('/') => whole.to_owned(),
        other if other.starts_with("//") => format!("{scheme}:{other}"),
        other if other.starts_with('/') => format!("{scheme}://{host}{other}"),
        _ => return None,
    };
    origin(&url).map(|_| url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_joined_and_compared() {
        let from = "https://a.b:8/x/y?z";
        assert_eq!(joined(from, "/c"), Some("https://a.b:8/c".into()));
        assert_eq!(joined(from, "//d.e/f"), Some("https://d.e/f".into()));
        assert_eq!(joined(from, "http://d.e/f?to=https://x"), Some("http://d.e/f?to=https://x".into()));
        assert_eq!([joined(from, "file:///etc/passwd"), joined(from, "c")], [None, None]);
        assert_eq!(origin("https://A.b"), origin("https://a.B:443/x"));
        assert_ne!(origin("https://a.b"), origin("http://a.b"));
    }

    #[test]
    fn names_of_files_are_escaped() {
        assert_eq!(escaped("a b/ü#?.gguf", "/"), "a%20b/%C3%BC%23%3F.gguf");
        assert_eq!(escaped("refs/pr/1", ""), "refs%2Fpr%2F1");
    }

    #[test]
    fn listings_are_read_and_wrong_ones_refused() {
        let text = r#"{"sha": "abc", "siblings": [
            {"rfilename": "a", "size": 1, "blobId": "B1"},
            {"rfilename": "b", "size": 130, "blobId": "b2", "lfs": {"sha256": "f0", "size": 7}},
            {"rfilename": "c"}, {"rfilename": "../d"}]}"#;
        let listing = listing(text).expect("a listing");
        let about = |size, checksum: &str| About { size: Some(size), checksum: Some(checksum.into()) };
        let expected =
            [("a".into(), about(1, "b1")), ("b".into(), about(7, "f0")), ("c".into(), About::default())];
        assert_eq!((listing.commit.as_str(), listing.files), ("abc", expected.to_vec()));
        for wrong in [
            "",
            "{}",
            r#"{"sha": "../x", "siblings": []}"#,
            r#"{"sha": "a"}"#,
            r#"{"sha": "a", "siblings": [{}]}"#,
        ] {
            assert!(super::listing(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hubs_say_how_long_to_wait() {
        let of = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            wait(&headers)
        };
        assert_eq!(of("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(of("ratelimit", "\"api\";r=0;t=55"), Some(Duration::from_secs(55)));
        assert_eq!(of("retry-after", "soon"), None);
    }
}
