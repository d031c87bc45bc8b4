//! API keys of configured callers, of which only the SHA-256 is stored.

use std::sync::Arc;

use aws_lc_rs::{constant_time::verify_slices_are_equal, rand};
use data_encoding::BASE64URL_NOPAD;
use http::HeaderMap;

use super::{
    credentials::{PresentedKey, presented_key},
    identity::Principal,
};
use crate::{
    config::{Auth, CERTIFICATE_PREFIX, KeySpec, TOKEN_PREFIX},
    sha256::{sha256, sha256_hex},
};

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
        let presented = sha256(key.as_bytes());
        self.0.iter().fold(None, |found, (stored, principal)| {
            let is_equal = verify_slices_are_equal(stored, &presented).is_ok();
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
/// grant of callers that have a token or certificate. For trials, which have neither.
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
        auth.keys.push(KeySpec {
            sha256: sha256(&name),
            grant: grant.clone(),
            name,
        });
    }
}

/// Generates a random key and its SHA-256 in hex. Returns `None` if the system has no
/// source of randomness.
pub fn new_key() -> Option<(String, String)> {
    let key = format!("hookgate-{}", random_text()?);
    let sha256 = sha256_hex(&key);
    Some((key, sha256))
}

/// Returns 256 random bits in URL-safe base64, or `None` if the system has no source of
/// randomness.
pub(super) fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    Some(BASE64URL_NOPAD.encode(&bytes))
}
