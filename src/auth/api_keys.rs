//! API keys of configured callers, of which only the SHA-256 is stored.

use std::sync::Arc;

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    digest::{self, SHA256},
    rand,
};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use http::HeaderMap;

use super::{
    credentials::{PresentedKey, presented_key},
    identity::Principal,
};
use crate::config::{Auth, CERTIFICATE_PREFIX, KeySpec, TOKEN_PREFIX};

#[derive(Debug)]
pub(super) struct ApiKeys(Vec<([u8; 32], Principal)>);

impl ApiKeys {
    pub(super) fn new(specs: &[KeySpec]) -> Self {
        let entries = specs.iter().map(|spec| {
            let name: Arc<str> = spec.name.as_str().into();
            let principal = Principal {
                label: Arc::clone(&name),
                name,
                grant: Arc::new(spec.grant.clone()),
            };
            (spec.sha256, principal)
        });
        Self(entries.collect())
    }

    /// Returns the owner of a key. Compares every stored hash in constant time, so
    /// that timing reveals nothing about the keys.
    pub(super) fn find(&self, key: &PresentedKey) -> Option<&Principal> {
        let digest = digest::digest(&SHA256, key.as_bytes());
        self.0.iter().fold(None, |found, (sha256, principal)| {
            let is_equal = verify_slices_are_equal(sha256, digest.as_ref()).is_ok();
            if is_equal { Some(principal) } else { found }
        })
    }

    /// Returns the caller with a name.
    pub(super) fn find_by_name(&self, name: &str) -> Option<&Principal> {
        let mut principals = self.0.iter().map(|(_, principal)| principal);
        principals.find(|principal| &*principal.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, principal)| &*principal.name)
    }
}

/// Lets the caller of a request that presents its name as its key authenticate by that, with the
/// grant of callers that have a token or certificate. For dry runs, which have neither.
pub fn add_named_caller(auth: &mut Auth, headers: &HeaderMap, query: &str) {
    let Some(name) = presented_key(headers, query) else {
        return;
    };
    let jwt = auth.jwt.as_ref().map(|spec| (TOKEN_PREFIX, &spec.grant));
    let mtls = auth.mtls.as_ref();
    let mtls = mtls.map(|spec| (CERTIFICATE_PREFIX, &spec.grant));
    let mut grants = jwt.into_iter().chain(mtls);
    let grant = grants.find(|(prefix, _)| name.starts_with(prefix));
    if let Some((_, grant)) = grant {
        let (sha256, grant) = (digest(&name), grant.clone());
        auth.keys.push(KeySpec {
            name,
            sha256,
            grant,
        });
    }
}

/// Returns the SHA-256 by which a key is stored in the config.
pub fn digest(key: impl AsRef<[u8]>) -> [u8; 32] {
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(digest::digest(&SHA256, key.as_ref()).as_ref());
    sha256
}

/// Generates a random key and its SHA-256 in hex. Returns `None` if the system has no
/// source of randomness.
pub fn new_key() -> Option<(String, String)> {
    let key = format!("hookgate-{}", random_text()?);
    let sha256 = HEXLOWER.encode(&digest(&key));
    Some((key, sha256))
}

/// Returns 256 random bits in URL-safe base64, or `None` if the system has no source of
/// randomness.
pub(super) fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(BASE64URL_NOPAD.encode(&bytes))
}
