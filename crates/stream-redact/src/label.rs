//! What stands in the place of a secret.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::MaskError;

/// How many digits of a hash are shown.
const SHOWN: usize = 12;

/// What stands in the place of a secret.
#[derive(Debug, Clone)]
pub enum Style {
    /// `[REDACTED:<detector>]`.
    Label,
    /// `[REDACTED:<detector>:<12 hex digits>]`: equal secrets have equal
    /// digits. They are of an HMAC with this key, so that without it nobody can
    /// try out which secret it was.
    Hash(SecretString),
}

/// A style that is ready to be used.
#[derive(Debug)]
pub(super) struct Labels {
    keyed: Option<Hmac<Sha256>>,
}

impl Labels {
    pub(super) fn new(style: &Style) -> Result<Self, MaskError> {
        let keyed = match style {
            Style::Label => None,
            Style::Hash(key) if key.expose_secret().is_empty() => return Err(MaskError::NoKey),
            Style::Hash(key) => {
                let keyed = Hmac::new_from_slice(key.expose_secret().as_bytes());
                Some(keyed.map_err(|_| MaskError::NoKey)?)
            }
        };
        Ok(Self { keyed })
    }

    /// Begins a label, which is written at once unless it holds a hash.
    pub(super) fn open(&self, detector: &str, out: &mut String) -> Label {
        match &self.keyed {
            None => {
                out.extend(["[REDACTED:", detector, "]"]);
                Label::Written
            }
            Some(keyed) => Label::Hashed {
                detector: detector.to_owned(),
                hash: Box::new(keyed.clone()),
            },
        }
    }
}

/// A label whose secret is not whole yet.
#[derive(Debug)]
pub(super) enum Label {
    Written,
    Hashed {
        detector: String,
        hash: Box<Hmac<Sha256>>,
    },
}

impl Label {
    /// Takes the next bytes of the secret.
    pub(super) fn take(&mut self, secret: &[u8]) {
        if let Self::Hashed { hash, .. } = self {
            hash.update(secret);
        }
    }

    /// The secret is whole.
    pub(super) fn close(self, out: &mut String) {
        let Self::Hashed { detector, hash } = self else {
            return;
        };
        let digest = hash.finalize().into_bytes();
        out.extend(["[REDACTED:", &detector, ":"]);
        let nibbles = digest.iter().flat_map(|it| [it >> 4, it & 0xf]);
        let digits = nibbles.filter_map(|it| char::from_digit(u32::from(it), 16));
        out.extend(digits.take(SHOWN));
        out.push(']');
    }
}
