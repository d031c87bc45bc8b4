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
/// `HighwayHash` serves both short values and whole contents, of which it hashes about
/// ten times as many bytes per second as `SipHash`.
#[derive(Debug, Clone)]
pub struct Fingerprinter {
    key: Key,
    bases: [Powers; 2],
}

/// Bytes of a text that are hashed together.
const BLOCK_BYTES: usize = 8;

/// Powers of the base of a polynomial.
#[derive(Debug, Clone, Copy, Default)]
struct Powers {
    base: u64,
    /// Exponents from `BLOCK_BYTES - 1` down to 0.
    falling: [u64; BLOCK_BYTES],
    /// The base to the power of `BLOCK_BYTES`.
    block: u64,
}

impl Fingerprinter {
    /// Returns a fingerprinter with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        let secret = u128::from_le_bytes(secret);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let (low, high) = (secret as u64, (secret >> 64) as u64);
        let mut fingerprinter = Self {
            key: Key([low, high, low.rotate_left(32), high.rotate_left(32)]),
            bases: [Powers::default(); 2],
        };
        // INVARIANT: below the prime, and large enough to spread short texts.
        let base = |number: u8| {
            let hash = fingerprinter.fingerprint(&("base", number)).short();
            hash % (PRIME >> 1) + (1 << 16)
        };
        fingerprinter.bases = [Powers::new(base(0)), Powers::new(base(1))];
        fingerprinter
    }

    /// Returns the fingerprint of a value.
    pub fn fingerprint(&self, value: &impl Hash) -> Fingerprint {
        let mut hasher = HighwayHasher::new(self.key);
        value.hash(&mut hasher);
        finalize(hasher)
    }

    pub(super) fn content_hasher(&self) -> ContentHasher {
        ContentHasher(HighwayHasher::new(self.key))
    }

    /// Returns the hash of a text, which can be joined with that of the next text.
    pub(super) fn rolling_hash(&self, text: &str) -> RollingHash {
        let bases = self.bases.each_ref();
        RollingHash {
            values: bases.map(|base| value(base, text.as_bytes())),
            powers: bases.map(|base| power(base.base, text.len())),
            length: text.len(),
        }
    }
}

/// Hashes a sequence of byte strings, of which each prefix has a fingerprint.
#[derive(Debug, Clone)]
pub(super) struct ContentHasher(HighwayHasher);

impl ContentHasher {
    /// Appends a byte string. Its length is part of the hash.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.append(&bytes.len().to_le_bytes());
        self.0.append(bytes);
    }

    /// Returns the fingerprint of everything so far.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        finalize(self.0.clone())
    }
}

fn finalize(hasher: HighwayHasher) -> Fingerprint {
    let [low, high] = hasher.finalize128();
    Fingerprint(u128::from(high) << 64 | u128::from(low))
}

/// Mersenne prime, for cheap remainders.
const PRIME: u64 = (1 << 61) - 1;

/// Hash of a text that arrives in pieces: the joined hashes of the pieces are the hash
/// of the whole text, however it was cut. Two polynomials modulo `PRIME`, evaluated at
/// secret points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RollingHash {
    values: [u64; 2],
    /// Bases to the power of the length.
    powers: [u64; 2],
    length: usize,
}

impl RollingHash {
    /// Hash of the empty text.
    pub(super) const EMPTY: Self = Self {
        values: [0; 2],
        powers: [1; 2],
        length: 0,
    };

    /// Returns the hash of this text followed by `next`.
    #[must_use]
    pub(super) fn join(self, next: Self) -> Self {
        let [first, second] = self.values;
        let [first_power, second_power] = self.powers;
        let [first_shift, second_shift] = next.powers;
        let [first_next, second_next] = next.values;
        Self {
            values: [
                add(times(first, first_shift), first_next),
                add(times(second, second_shift), second_next),
            ],
            powers: [
                times(first_power, first_shift),
                times(second_power, second_shift),
            ],
            length: self.length + next.length,
        }
    }

    /// Returns the length of the text in bytes.
    pub(super) const fn length(self) -> usize {
        self.length
    }
}

impl Hash for RollingHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.values, self.length).hash(state);
    }
}

/// Returns `a + b` modulo the prime. Neither is larger than the prime.
const fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

const fn times(a: u64, b: u64) -> u64 {
    remainder(a as u128 * b as u128)
}

/// Returns the remainder of a number of at most 122 bits.
const fn remainder(number: u128) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "61 bits of it are wanted")]
    let low = number as u64 & PRIME;
    #[expect(clippy::cast_possible_truncation, reason = "122 bits less 61")]
    let high = (number >> 61) as u64;
    add(low, high)
}

/// Evaluates the polynomial whose coefficients are the bytes of a text.
fn value(powers: &Powers, text: &[u8]) -> u64 {
    let (blocks, rest) = text.as_chunks::<BLOCK_BYTES>();
    let value = blocks.iter().fold(0, |value, block| {
        // Each product has at most 69 bits, so one remainder suffices for the sum.
        let [b0, b1, b2, b3, b4, b5, b6, b7] = *block;
        let [p0, p1, p2, p3, p4, p5, p6, p7] = powers.falling;
        let first = product(b0, p0) + product(b1, p1) + product(b2, p2) + product(b3, p3);
        let last = product(b4, p4) + product(b5, p5) + product(b6, p6) + product(b7, p7);
        let products = first + last;
        add(times(value, powers.block), remainder(products))
    });
    let digits = rest.iter().map(|byte| u64::from(*byte));
    digits.fold(value, |value, byte| add(times(value, powers.base), byte))
}

#[inline]
const fn product(byte: u8, power: u64) -> u128 {
    byte as u128 * power as u128
}

impl Powers {
    fn new(base: u64) -> Self {
        let mut falling = [0; BLOCK_BYTES];
        let mut block = 1;
        for power in falling.iter_mut().rev() {
            *power = block;
            block = times(block, base);
        }
        Self {
            base,
            falling,
            block,
        }
    }
}

fn power(base: u64, mut exponent: usize) -> u64 {
    let (mut square, mut power) = (base, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = times(power, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Fingerprinter {
        fn hash_of_byte(&self, byte: u8) -> RollingHash {
            RollingHash {
                values: [byte.into(); 2],
                powers: self.bases.map(|powers| powers.base),
                length: 1,
            }
        }
    }

    proptest! {
        #[test]
        fn a_text_has_one_hash_however_it_is_cut(
            pieces in proptest::collection::vec(".{0,20}", 0..6),
        ) {
            let fingerprinter = Fingerprinter::new(*b"0123456789abcdef");
            let joined = pieces.iter().fold(RollingHash::EMPTY, |joined, next| joined.join(fingerprinter.rolling_hash(next)));
            prop_assert_eq!(joined, fingerprinter.rolling_hash(&pieces.concat()));
        }

        #[test]
        fn different_texts_have_different_hashes(one in ".{0,9}", other in ".{0,9}") {
            let fingerprinter = Fingerprinter::new(*b"0123456789abcdef");
            prop_assert_eq!(one == other, fingerprinter.rolling_hash(&one) == fingerprinter.rolling_hash(&other));
        }
    }

    #[test]
    fn a_text_hashes_like_its_bytes_one_by_one() {
        let fingerprinter = Fingerprinter::new(*b"0123456789abcdef");
        proptest!(|(text in ".{0,40}")| {
            let bytes = text.bytes().map(|byte| fingerprinter.hash_of_byte(byte));
            let joined = bytes.fold(RollingHash::EMPTY, RollingHash::join);
            prop_assert_eq!(joined, fingerprinter.rolling_hash(&text));
        });
    }

    #[test]
    fn another_secret_gives_other_fingerprints() {
        let (one, other) = (Fingerprinter::new([1; 16]), Fingerprinter::new([2; 16]));
        assert_ne!(one.fingerprint(&"a"), other.fingerprint(&"a"));
        assert_ne!(one.rolling_hash("ab"), other.rolling_hash("ab"));
    }
}
