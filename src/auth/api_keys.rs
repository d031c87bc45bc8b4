//! Callers that show a key. Only the key's hash is known here.

use std::sync::Arc;

use aws_lc_rs::rand;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::{Member, credential::Credential};
use crate::config::KeySpec;

/// All keys.
#[derive(Debug)]
pub(super) struct KeyRing(Vec<([u8; 32], Member)>);

impl KeyRing {
    pub(super) fn new(specs: &[KeySpec]) -> Self {
        let entries = specs.iter().map(|spec| {
            let name: Arc<str> = spec.name.as_str().into();
            let member = Member {
                label: Arc::clone(&name),
                name,
                grant: Arc::new(spec.grant.clone()),
            };
            (spec.sha256, member)
        });
        Self(entries.collect())
    }

    /// Whose key it is. All keys are looked at, whichever it is: how long that
    /// takes tells nothing.
    pub(super) fn find(&self, credential: &Credential) -> Option<&Member> {
        let digest: [u8; 32] = Sha256::digest(credential.as_bytes()).into();
        let mut found = u64::MAX;
        for (index, (sha256, _)) in (0..).zip(&self.0) {
            found = u64::conditional_select(&found, &index, sha256.ct_eq(&digest));
        }
        let found = usize::try_from(found).ok()?;
        self.0.get(found).map(|(_, member)| member)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, member)| &*member.name)
    }
}

/// What a key is known by: its SHA-256.
pub fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// A new random key, and its SHA-256 in hex; `None` if the system has no
/// randomness.
pub fn new_key() -> Option<(String, String)> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).ok()?;
    let key = format!("hookgate-{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
    let sha256 = HEXLOWER.encode(&Sha256::digest(&key));
    Some((key, sha256))
}
