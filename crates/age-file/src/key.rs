//! X25519 keys: recipients and identities.

use std::{fmt, str::FromStr};

use aws_lc_rs::{
    aead::{self, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{self, PrivateKey, UnparsedPublicKey, X25519},
    error::Unspecified,
};
use thiserror::Error;

use crate::{KEY_BYTES, bech32, derive_key, file_key::FileKey};

const RECIPIENT_PREFIX: &str = "age";

const IDENTITY_PREFIX: &str = "age-secret-key-";

const WRAP_INFO: &[u8] = b"age-encryption.org/v1/X25519";

const TAG_BYTES: usize = 16;

/// Public key that files are encrypted to, written `age1…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient([u8; KEY_BYTES]);

/// Private key that decrypts files, written `AGE-SECRET-KEY-1…`.
pub struct Identity {
    key: PrivateKey,
    public: [u8; KEY_BYTES],
}

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text is not an X25519 recipient.
    #[error("not an age recipient: expected `age1` and 58 characters")]
    Recipient,
    /// A line of an identity file is no X25519 identity.
    #[error("line {0}: not an age identity: expected `AGE-SECRET-KEY-1` and 58 characters")]
    Identity(usize),
    /// An identity file without a key.
    #[error("no age identity in the file")]
    NoIdentity,
}

/// A file key wrapped for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrappedKey {
    /// Public key that was generated for this recipient and file.
    pub(crate) share: [u8; KEY_BYTES],
    /// File key and authentication tag.
    pub(crate) body: Vec<u8>,
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = bech32::decode(text, RECIPIENT_PREFIX).ok_or(KeyError::Recipient)?;
        // Recipients are written in lower case.
        let is_lower = text.starts_with(RECIPIENT_PREFIX);
        let bytes = <[u8; KEY_BYTES]>::try_from(bytes).map_err(|_| KeyError::Recipient)?;
        is_lower.then_some(Self(bytes)).ok_or(KeyError::Recipient)
    }
}

impl Recipient {
    /// Wraps a file key.
    pub(crate) fn wrap(&self, file_key: &FileKey) -> Result<WrappedKey, Unspecified> {
        let private = PrivateKey::generate(&X25519)?;
        let share = public_key(&private)?;
        let key = wrap_key(&private, (&self.0, &share, &self.0))?;
        let mut body = file_key.0.to_vec();
        key.seal_in_place_append_tag(zero_nonce(), Aad::empty(), &mut body)?;
        Ok(WrappedKey { share, body })
    }
}

impl Identity {
    /// Reads the identities of a file: one per line, with empty lines and comments.
    ///
    /// # Errors
    ///
    /// If a line is no X25519 identity, or there is none.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, KeyError> {
        let lines = text.lines().enumerate();
        let lines = lines.map(|(index, line)| (index + 1, line.trim()));
        let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys: Result<Vec<Self>, KeyError> = keys
            .map(|(number, line)| Self::parse(line).ok_or(KeyError::Identity(number)))
            .collect();
        match keys {
            Ok(keys) if keys.is_empty() => Err(KeyError::NoIdentity),
            keys => keys,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = bech32::decode(text, IDENTITY_PREFIX)?;
        let key = PrivateKey::from_private_key(&X25519, &bytes).ok()?;
        let public = public_key(&key).ok()?;
        Some(Self { key, public })
    }

    /// Unwraps a file key; `None` if it is wrapped for another recipient.
    pub(crate) fn unwrap(&self, wrapped: &WrappedKey) -> Option<FileKey> {
        let key = wrap_key(&self.key, (&wrapped.share, &wrapped.share, &self.public)).ok()?;
        if wrapped.body.len() != FileKey::BYTES + TAG_BYTES {
            return None;
        }
        let mut body = wrapped.body.clone();
        let opened = key.open_in_place(zero_nonce(), Aad::empty(), &mut body);
        opened.ok()?.try_into().ok().map(FileKey)
    }
}

/// Omits the private key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn public_key(private: &PrivateKey) -> Result<[u8; KEY_BYTES], Unspecified> {
    let public = private.compute_public_key()?;
    public.as_ref().try_into().map_err(|_| Unspecified)
}

/// Returns the key that wraps the file key: of a private key and the other side's public key,
/// and of share and recipient.
fn wrap_key(
    private: &PrivateKey,
    (other, share, recipient): (&[u8; 32], &[u8; 32], &[u8; 32]),
) -> Result<LessSafeKey, Unspecified> {
    let salt = [*share, *recipient].concat();
    let other = UnparsedPublicKey::new(&X25519, other);
    let key = agreement::agree(private, other, Unspecified, |shared| {
        derive_key(shared, &salt, WRAP_INFO).map_err(|_| Unspecified)
    })?;
    Ok(LessSafeKey::new(UnboundKey::new(
        &aead::CHACHA20_POLY1305,
        &key,
    )?))
}

/// Returns the nonce of wrapped keys. Each wrap key is used once.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}
