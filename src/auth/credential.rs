//! What a request shows, and where. Pure.

use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;
use secrecy::{SecretSlice, SecretString};
use sha2::{Digest, Sha256};

use super::AuthError;

/// Where a caller shows what is for hookgate alone.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("x-hookgate-key");

/// How much of a `User-Agent` is read, in bytes.
const LONGEST_AGENT: usize = 512;

const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// Something that a caller shows. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credential(Vec<u8>);

/// Everything that a request shows.
pub(super) struct Found {
    own: Vec<Credential>,
    api_key: Vec<Credential>,
    bearer: Vec<Credential>,
    query: Vec<Credential>,
}

impl Credential {
    fn of(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii();
        (!bytes.is_empty()).then(|| Self(bytes.to_vec()))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn to_secret(&self) -> Option<SecretString> {
        std::str::from_utf8(&self.0).ok().map(Into::into)
    }
}

impl Found {
    pub(super) fn read(headers: &HeaderMap, query: &str) -> Self {
        let all = |name: HeaderName| headers.get_all(name).into_iter();
        let plain = |it: &HeaderValue| Credential::of(it.as_bytes());
        let pairs = query.split('&').filter_map(|it| it.strip_prefix("key="));
        let decoded = pairs.map(|it| percent_decode_str(it).collect::<Vec<u8>>());
        Self {
            own: all(KEY_HEADER).filter_map(plain).collect(),
            api_key: all(API_KEY).filter_map(plain).collect(),
            bearer: all(header::AUTHORIZATION).filter_map(bearer).collect(),
            query: decoded.filter_map(|it| Credential::of(&it)).collect(),
        }
    }

    /// What is for hookgate alone.
    pub(super) fn own(&self) -> Result<Option<Credential>, AuthError> {
        one(self.own.iter())
    }

    /// What is for hookgate or for the model API.
    pub(super) fn only(&self) -> Result<Option<Credential>, AuthError> {
        one(self.shared())
    }

    /// What came in the query; of several, the last one.
    pub(super) fn query(&self) -> Option<Credential> {
        self.query.last().cloned()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Credential> {
        self.own.iter().chain(self.shared())
    }

    fn shared(&self) -> impl Iterator<Item = &Credential> {
        self.api_key.iter().chain(&self.bearer).chain(&self.query)
    }

    /// All that is for the model API; empty if nothing is.
    pub(super) fn shown(&self) -> SecretSlice<u8> {
        let first = [self.api_key.first(), self.bearer.first(), self.query.last()];
        let first: Vec<&[u8]> = first
            .into_iter()
            .flatten()
            .map(Credential::as_bytes)
            .collect();
        first.join(&0).into()
    }
}

/// The SHA-256 of what [`Found::shown`] tells, in hex; of one credential it is what
/// `sha256sum` prints. Empty without one.
pub(super) fn print(shown: &[u8]) -> String {
    if shown.is_empty() {
        return String::new();
    }
    HEXLOWER.encode(&Sha256::digest(shown))
}

/// The one credential among these: said twice, it is still one.
fn one<'a>(mut all: impl Iterator<Item = &'a Credential>) -> Result<Option<Credential>, AuthError> {
    let first = all.next();
    if all.any(|it| Some(it) != first) {
        return Err(AuthError::Ambiguous);
    }
    Ok(first.cloned())
}

/// What follows `Bearer`; all of it, where another scheme is named.
fn bearer(value: &HeaderValue) -> Option<Credential> {
    let bytes = value.as_bytes().trim_ascii();
    let scheme = bytes
        .get(..7)
        .filter(|it| it.eq_ignore_ascii_case(b"bearer "));
    match scheme {
        Some(_) => Credential::of(bytes.get(7..)?),
        None if bytes.eq_ignore_ascii_case(b"bearer") => None,
        None => Credential::of(bytes),
    }
}

/// Takes out of the headers what `used` says is used up, with all that stands in
/// the same header.
pub(super) fn strip(headers: &mut HeaderMap, used: impl Fn(&Credential) -> bool) {
    for (name, read) in [
        (
            API_KEY,
            (|it| Credential::of(it.as_bytes())) as fn(&HeaderValue) -> _,
        ),
        (header::AUTHORIZATION, bearer),
    ] {
        let found = headers.get_all(&name).into_iter().filter_map(read);
        if found.into_iter().any(|it| used(&it)) {
            headers.remove(&name);
        }
    }
}

/// The begin of the `User-Agent`, which is remembered with a session; empty
/// without one.
pub(super) fn agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent.map_or(&[][..], HeaderValue::as_bytes);
    let agent = agent.get(..LONGEST_AGENT).unwrap_or(agent);
    String::from_utf8_lossy(agent).into_owned()
}
