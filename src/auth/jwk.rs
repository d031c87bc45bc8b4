//! The public keys of an issuer: a JSON Web Key Set (RFC 7517). Pure.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::Deserialize;
use thiserror::Error;

/// How a token may be signed. What a secret is needed for, and what is not signed
/// at all, is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Algorithm {
    #[serde(rename = "RS256")]
    Rs256,
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "EdDSA", alias = "Ed25519")]
    EdDsa,
}

/// All keys of an issuer that can be used. Never empty.
#[derive(Debug)]
pub(super) struct KeySet(Vec<PublicKey>);

/// One key.
#[derive(Debug)]
pub(super) struct PublicKey {
    id: Option<String>,
    algorithm: Algorithm,
    material: Material,
}

enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    Curve(UnparsedPublicKey<Vec<u8>>),
}

/// Why there are no keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwksError {
    /// They are written otherwise.
    #[error("the keys of the issuer are no JSON Web Key Set")]
    Unreadable,
    /// None of them checks a signature that is taken here.
    #[error("none of the issuer's keys is for RS256, ES256 or EdDSA")]
    NoneUsable,
    /// They could not be fetched.
    #[error("the keys of the issuer cannot be fetched: {0}")]
    Unreachable(String),
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    pub(super) fn parse(text: &str) -> Result<Self, JwksError> {
        let raw: RawSet = serde_json::from_str(text).map_err(|_| JwksError::Unreadable)?;
        let keys: Vec<PublicKey> = raw.keys.iter().filter_map(PublicKey::read).collect();
        if keys.is_empty() {
            return Err(JwksError::NoneUsable);
        }
        Ok(Self(keys))
    }

    /// The keys that may have signed: those with this id; without one, the only
    /// one of this kind.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&PublicKey> {
        let mut fitting = self.0.iter().filter(|it| it.algorithm == algorithm);
        match id {
            Some(_) => fitting.find(|it| it.id.as_deref() == id),
            None => fitting.next().filter(|_| fitting.next().is_none()),
        }
    }
}

impl PublicKey {
    /// A key, if it is for signatures that are taken here.
    fn read(raw: &RawKey) -> Option<Self> {
        let bytes = |it: &Option<String>| BASE64_URL_SAFE_NO_PAD.decode(it.as_ref()?).ok();
        let (algorithm, material) = match (raw.kty.as_str(), raw.crv.as_deref()) {
            ("RSA", _) => {
                let (n, e) = (bytes(&raw.n)?, bytes(&raw.e)?);
                let components = RsaPublicKeyComponents { n, e };
                (Algorithm::Rs256, Material::Rsa(components))
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(&raw.x)?, bytes(&raw.y)?);
                let point = [&[4], x.as_slice(), &y].concat();
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                (Algorithm::Es256, Material::Curve(key))
            }
            ("OKP", Some("Ed25519")) => {
                let key = UnparsedPublicKey::new(&ED25519, bytes(&raw.x)?);
                (Algorithm::EdDsa, Material::Curve(key))
            }
            _ => return None,
        };
        let named = raw.alg.clone().map(serde_json::Value::from);
        let named = named.map(serde_json::from_value::<Algorithm>);
        let is_for_it = named.is_none_or(|it| it.is_ok_and(|it| it == algorithm));
        let signs = raw.r#use.as_deref().is_none_or(|it| it == "sig");
        (is_for_it && signs).then(|| Self {
            id: raw.kid.clone(),
            algorithm,
            material,
        })
    }

    /// Whether this key has signed `message`.
    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa(key) => key
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Material::Curve(key) => key.verify(message, signature).is_ok(),
        }
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Material")
    }
}
