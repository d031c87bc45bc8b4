//! API keys of configured callers, of which only the SHA-256 is stored.

use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};
use tokio_rustls::rustls::crypto::aws_lc_rs;

use super::{credentials::PresentedKey, identity::Principal};
use crate::config::KeySpec;

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
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut found = u64::MAX;
        for (index, (sha256, _)) in (0..).zip(&self.0) {
            found = u64::conditional_select(&found, &index, sha256.ct_eq(&digest));
        }
        let found = usize::try_from(found).ok()?;
        self.0.get(found).map(|(_, principal)| principal)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, principal)| &*principal.name)
    }
}

/// Returns the SHA-256 by which a key is stored in the config.
pub fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Generates a random key and its SHA-256 in hex. Returns `None` if the system has no
/// source of randomness.
pub fn new_key() -> Option<(String, String)> {
    let mut bytes = [0; 32];
    let random = aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).ok()?;
    let key = format!("hookgate-{}", BASE64URL_NOPAD.encode(&bytes));
    let sha256 = HEXLOWER.encode(&digest(&key));
    Some((key, sha256))
}
