//! Labels that replace secrets.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::MaskError;

/// Hex digits of a hash in a label.
const LABEL_HASH_DIGITS: usize = 12;

/// Format of the labels that replace secrets.
#[derive(Debug, Clone)]
pub enum Style {
    /// The name of the detector: `[REDACTED:<detector>]`.
    Label,
    /// `[REDACTED:<detector>:<12 hex digits>]`, where equal secrets have equal digits.
    /// They are an HMAC-SHA256 with this key, so that secrets cannot be guessed without
    /// it.
    Hash(SecretString),
}

/// Creates labels of one style.
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

    /// Starts a label; writes it at once unless it holds a hash.
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

/// A label whose secret is not complete.
#[derive(Debug, Clone)]
pub(super) enum Label {
    Written,
    Hashed {
        detector: String,
        hash: Box<Hmac<Sha256>>,
    },
}

impl Label {
    /// Adds the next bytes of the secret.
    pub(super) fn take(&mut self, secret: &[u8]) {
        if let Self::Hashed { hash, .. } = self {
            hash.update(secret);
        }
    }

    /// Ends the secret and writes a label with a hash.
    pub(super) fn close(self, out: &mut String) {
        let Self::Hashed { detector, hash } = self else {
            return;
        };
        let digest = hash.finalize().into_bytes();
        out.extend(["[REDACTED:", &detector, ":"]);
        let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let digits = nibbles.filter_map(|nibble| char::from_digit(u32::from(nibble), 16));
        out.extend(digits.take(LABEL_HASH_DIGITS));
        out.push(']');
    }
}
