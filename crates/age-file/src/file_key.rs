//! The file key: random bytes from which the keys of header and payload are derived.

use std::io;

use aws_lc_rs::{error::Unspecified, hmac, rand};

use crate::derive_key;

/// Key that the keys of header and payload are derived from.
pub(crate) struct FileKey(pub(crate) [u8; Self::BYTES]);

impl FileKey {
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn generate() -> Result<Self, Unspecified> {
        let mut key = [0; Self::BYTES];
        rand::fill(&mut key)?;
        Ok(Self(key))
    }

    /// Returns the key of the header's authentication code.
    pub(crate) fn mac_key(&self) -> io::Result<hmac::Key> {
        let key = derive_key(&self.0, b"", b"header")?;
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }
}
