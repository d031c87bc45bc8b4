//! Credentials presented by a request, and their removal from it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;
use secrecy::SecretString;

use super::{error::AuthError, mtls::PeerCertificate};
use crate::{authorization::bearer_token, sha256::sha256_hex};

/// Header for keys that are meant for hookgate alone.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("x-hookgate-key");

/// Header for keys of Google's APIs.
const GOOGLE_KEY_HEADER: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Header for keys of Anthropic's API.
const ANTHROPIC_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// Headers with a key that may be meant for the model API.
const KEY_READERS: [(HeaderName, KeyReader); 3] = [
    (GOOGLE_KEY_HEADER, PresentedKey::from_header),
    (ANTHROPIC_KEY_HEADER, PresentedKey::from_header),
    (header::AUTHORIZATION, PresentedKey::from_authorization),
];

type KeyReader = fn(&HeaderValue) -> Option<PresentedKey>;

/// Part of the `User-Agent` that is kept, in bytes.
const MAX_USER_AGENT_BYTES: usize = 512;

/// Parts of a request that may identify its caller.
#[derive(Debug)]
pub struct Credentials<'a> {
    /// Request headers. The credential that identified the caller is removed.
    pub headers: &'a mut HeaderMap,
    /// Query string as sent; empty if absent.
    pub query: &'a str,
    /// Address of the client, if known.
    pub address: Option<IpAddr>,
    /// Verified client certificate of the connection.
    pub certificate: Option<&'a PeerCertificate>,
}

/// One key or token, without surrounding blanks. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PresentedKey(Vec<u8>);

/// Every key and token of a request, by where it was found.
pub(super) struct PresentedKeys {
    own: Vec<PresentedKey>,
    google_key: Vec<PresentedKey>,
    anthropic_key: Vec<PresentedKey>,
    bearer: Vec<PresentedKey>,
    query: Vec<PresentedKey>,
}

impl PresentedKey {
    fn new(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii();
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    fn from_header(value: &HeaderValue) -> Option<Self> {
        Self::new(value.as_bytes())
    }

    /// Reads `Authorization`: the text after `Bearer`, or all of it for another scheme.
    fn from_authorization(value: &HeaderValue) -> Option<Self> {
        let bytes = value.as_bytes();
        Self::new(bearer_token(bytes).unwrap_or(bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn to_secret(&self) -> Option<SecretString> {
        std::str::from_utf8(&self.0).ok().map(Into::into)
    }
}

impl PresentedKeys {
    pub(super) fn read(headers: &HeaderMap, query: &str) -> Self {
        let keys = |name: HeaderName, read: KeyReader| {
            headers.get_all(name).into_iter().filter_map(read).collect()
        };
        let pairs = query.split('&');
        let parameters = pairs.filter_map(|pair| pair.strip_prefix("key="));
        let parameters = parameters.filter_map(|value| {
            let value: Vec<u8> = percent_decode_str(value).collect();
            PresentedKey::new(&value)
        });
        Self {
            own: keys(KEY_HEADER, PresentedKey::from_header),
            google_key: keys(GOOGLE_KEY_HEADER, PresentedKey::from_header),
            anthropic_key: keys(ANTHROPIC_KEY_HEADER, PresentedKey::from_header),
            bearer: keys(header::AUTHORIZATION, PresentedKey::from_authorization),
            query: parameters.collect(),
        }
    }

    /// Returns the key that is meant for hookgate alone.
    pub(super) fn own(&self) -> Result<Option<&PresentedKey>, AuthError> {
        single(self.own.iter())
    }

    /// Returns the key that is meant for hookgate or for the model API.
    pub(super) fn shared(&self) -> Result<Option<&PresentedKey>, AuthError> {
        single(self.all_shared())
    }

    /// Returns the key in the query; the last one of several.
    pub(super) fn query(&self) -> Option<&PresentedKey> {
        self.query.last()
    }

    fn all_shared(&self) -> impl Iterator<Item = &PresentedKey> {
        let keys = self.google_key.iter().chain(&self.anthropic_key);
        keys.chain(&self.bearer).chain(&self.query)
    }

    /// Returns the SHA-256 of the keys for the model API in hex; for a single key it equals the
    /// output of `sha256sum`. Empty without a key.
    pub(super) fn hash_for_model_api(&self) -> String {
        let keys = [
            self.google_key.first(),
            self.anthropic_key.first(),
            self.bearer.first(),
            self.query.last(),
        ];
        let keys = keys.into_iter().flatten().map(PresentedKey::as_bytes);
        let keys: Vec<&[u8]> = keys.collect();
        if keys.is_empty() {
            return String::new();
        }
        sha256_hex(keys.join(&0))
    }
}

/// Returns the only distinct key.
fn single<'a>(
    mut keys: impl Iterator<Item = &'a PresentedKey>,
) -> Result<Option<&'a PresentedKey>, AuthError> {
    let first = keys.next();
    if keys.any(|key| Some(key) != first) {
        return Err(AuthError::Ambiguous);
    }
    Ok(first)
}

/// Removes the headers for the model API that hold a key for which `is_used` is true.
pub(super) fn strip(headers: &mut HeaderMap, is_used: impl Fn(&PresentedKey) -> bool) {
    for (name, read) in KEY_READERS {
        let mut keys = headers.get_all(&name).into_iter().filter_map(read);
        if keys.any(|key| is_used(&key)) {
            headers.remove(&name);
        }
    }
}

/// Returns the key or token by which a request without a client certificate authenticates;
/// `None` if it has none, or different ones.
pub fn presented_key(headers: &HeaderMap, query: &str) -> Option<String> {
    let keys = PresentedKeys::read(headers, query);
    let key = keys.own().ok()?.or_else(|| keys.shared().ok().flatten())?;
    String::from_utf8(key.0.clone()).ok()
}

/// Returns the start of the `User-Agent`, which is kept with a session; empty without
/// one.
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent.map_or(&[][..], HeaderValue::as_bytes);
    let agent = agent.get(..MAX_USER_AGENT_BYTES).unwrap_or(agent);
    String::from_utf8_lossy(agent).into_owned()
}
