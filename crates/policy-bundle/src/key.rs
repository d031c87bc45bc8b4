//! Ed25519 keys, and their forms as text.

use std::{fmt, str::FromStr};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use data_encoding::BASE64;
use serde::Deserialize;

use crate::error::KeyError;

/// Start of a public key as text.
const PUBLIC_PREFIX: &str = "ed25519:";

/// Length of a public key in bytes.
const PUBLIC_KEY_BYTES: usize = 32;

/// Length of a signature in bytes.
pub(crate) const SIGNATURE_BYTES: usize = 64;

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// Length of a line of a PEM file (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// A public key: `ed25519:` and 32 bytes in base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicKey([u8; PUBLIC_KEY_BYTES]);

/// A private key. `Debug` shows only its public one.
pub struct SigningKey(Ed25519KeyPair);

impl PublicKey {
    /// Returns whether a signature over `message` is of this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        key.verify(message, signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let base64 = text.strip_prefix(PUBLIC_PREFIX).ok_or(KeyError::Public)?;
        let bytes = BASE64.decode(base64.as_bytes());
        let bytes = bytes.ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(KeyError::Public)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", BASE64.encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl SigningKey {
    /// Generates a key. Returns it as PEM, which is the only copy.
    ///
    /// # Errors
    ///
    /// Fails if the system has no randomness.
    pub fn generate() -> Result<String, KeyError> {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let key = key.map_err(|_| KeyError::Randomness)?;
        let base64 = BASE64.encode(key.as_ref());
        let lines = base64.as_bytes().chunks(PEM_LINE);
        let lines: Vec<_> = lines.map(String::from_utf8_lossy).collect();
        Ok(format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", lines.join("\n")))
    }

    /// Reads a key in PKCS#8 and PEM, such as that of `openssl genpkey -algorithm ed25519`.
    ///
    /// # Errors
    ///
    /// Fails for any other text.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let body = pem.trim().strip_prefix(PEM_BEGIN);
        let body = body.and_then(|body| body.strip_suffix(PEM_END));
        let base64: String = body
            .ok_or(KeyError::Private)?
            .split_ascii_whitespace()
            .collect();
        let bytes = BASE64.decode(base64.as_bytes());
        let bytes = bytes.map_err(|_| KeyError::Private)?;
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes);
        key.map(Self).map_err(|_| KeyError::Private)
    }

    /// Returns the public key, with which signatures are verified.
    ///
    /// # Errors
    ///
    /// Fails if the key has another length than Ed25519 keys have.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        let bytes = self.0.public_key().as_ref().try_into();
        bytes.map(PublicKey).map_err(|_| KeyError::Private)
    }

    /// Returns the signature of a message, in 64 bytes.
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey")
            .field(&self.public_key())
            .finish()
    }
}
