//! Keyed hashes of conversations. Agents can neither forge nor predict them.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use highway::{HighwayHash, HighwayHasher, Key};
use serde::{Deserialize, Serialize};

/// Keyed 128-bit hash. Equal fingerprints mean equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// Returns the lower half, which distinguishes the items of one session.
    pub const fn short(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half of it is wanted")]
        let half = self.0 as u64;
        half
    }
}

/// Hasher for maps and sets whose keys are fingerprints, or halves of them.
pub type FingerprintBuildHasher = BuildHasherDefault<FingerprintHasher>;

/// Hasher that uses half of a fingerprint as its hash: agents cannot choose it.
#[derive(Debug, Clone, Copy, Default)]
pub struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    /// For keys other than fingerprints, of which there are none.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = Fingerprint(fingerprint).short();
    }
}

/// Computes fingerprints. Gateways that share a store share the secret.
///
/// `HighwayHash` serves short values, texts and whole contents, of which it hashes about
/// ten times as many bytes per second as `SipHash`.
#[derive(Debug, Clone)]
pub struct Fingerprinter(Key);

impl Fingerprinter {
    /// Returns a fingerprinter with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        let secret = u128::from_le_bytes(secret);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let (low, high) = (secret as u64, (secret >> 64) as u64);
        Self(Key([low, high, low.rotate_left(32), high.rotate_left(32)]))
    }

    /// Returns the fingerprint of a value.
    pub fn fingerprint(&self, value: &impl Hash) -> Fingerprint {
        let mut hasher = self.stream_hasher();
        value.hash(&mut hasher.hasher);
        hasher.fingerprint()
    }

    /// Returns a hasher of a value that arrives in pieces.
    pub(super) fn stream_hasher(&self) -> StreamHasher {
        StreamHasher {
            hasher: HighwayHasher::new(self.0),
            length: 0,
        }
    }
}

/// Hashes bytes that arrive in pieces: the fingerprint is the same however they were
/// cut, and each prefix has one.
#[derive(Debug, Clone)]
pub(super) struct StreamHasher {
    hasher: HighwayHasher,
    length: usize,
}

impl StreamHasher {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.hasher.append(bytes);
        self.length += bytes.len();
    }

    /// Returns the number of bytes so far.
    pub(super) const fn length(&self) -> usize {
        self.length
    }

    /// Returns the fingerprint of everything so far.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let [low, high] = self.hasher.clone().finalize128();
        Fingerprint(u128::from(high) << 64 | u128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(pieces: &[impl AsRef<str>]) -> Fingerprint {
        let mut hasher = Fingerprinter::new(*b"0123456789abcdef").stream_hasher();
        for piece in pieces {
            hasher.push(piece.as_ref().as_bytes());
        }
        hasher.fingerprint()
    }

    proptest! {
        #[test]
        fn a_text_has_one_hash_however_it_is_cut(
            pieces in proptest::collection::vec(".{0,20}", 0..6),
        ) {
            prop_assert_eq!(hash(&pieces), hash(&[pieces.concat()]));
        }

        #[test]
        fn different_texts_have_different_hashes(one in ".{0,9}", other in ".{0,9}") {
            prop_assert_eq!(one == other, hash(&[one]) == hash(&[other]));
        }
    }

    #[test]
    fn another_secret_gives_other_fingerprints() {
        let (one, other) = (Fingerprinter::new([1; 16]), Fingerprinter::new([2; 16]));
        assert_ne!(one.fingerprint(&"a"), other.fingerprint(&"a"));
    }
}
