//! Keyed hashes: nobody outside can make two things look the same, or guess one.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use highway::{HighwayHash, HighwayHasher, Key};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};

/// What something is known by. Equal prints mean equal things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// Half of it: enough to tell the items of one session apart.
    pub const fn short(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half of it is wanted")]
        let half = self.0 as u64;
        half
    }
}

/// For maps and sets whose keys are prints, or halves of them.
pub type FingerprintBuildHasher = BuildHasherDefault<FingerprintHasher>;

/// A print is a hash already, which nobody outside can choose: half of it will do.
#[derive(Debug, Clone, Copy, Default)]
pub struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    /// Of anything but a print. Nobody has that as a key.
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = half;
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = Fingerprint(print).short();
    }
}

/// Makes prints. Gateways that share a store share the secret.
#[derive(Debug, Clone)]
pub struct Fingerprinter {
    secret: [u8; 16],
    bases: [Powers; 2],
    /// For the prints of bytes.
    key: [u64; 4],
}

/// How many bytes of a text are taken at once.
const BLOCK: usize = 8;

/// The powers of a base.
#[derive(Debug, Clone, Copy, Default)]
struct Powers {
    base: u64,
    /// From `BLOCK - 1` down to 0.
    falling: [u64; BLOCK],
    /// `BLOCK`.
    block: u64,
}

impl Fingerprinter {
    /// A printer with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        let mut bare = Self {
            secret,
            bases: [Powers::default(); 2],
            key: [0; 4],
        };
        // INVARIANT: below the prime, and large enough to spread short texts.
        let place = |number: u8| bare.print(&("base", number)).short() % (PRIME >> 1) + (1 << 16);
        bare.bases = [Powers::of(place(0)), Powers::of(place(1))];
        bare.key = [0, 1, 2, 3].map(|it: u8| bare.print(&("key", it)).short());
        bare
    }

    /// The print of a value.
    pub fn print(&self, value: &impl Hash) -> Fingerprint {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        value.hash(&mut hasher);
        Fingerprint(hasher.finish128().into())
    }

    /// The prints of many bytes, as far as they go.
    pub(super) fn prints(&self) -> PrefixHasher {
        PrefixHasher(HighwayHasher::new(Key(self.key)))
    }

    /// The print of a text that can be joined with what follows it.
    pub fn piece(&self, text: &str) -> RollingHash {
        let bases = self.bases.each_ref();
        RollingHash {
            values: bases.map(|it| value(it, text.as_bytes())),
            powers: bases.map(|it| power(it.base, text.len())),
            length: text.len(),
        }
    }
}

/// Takes in bytes, piece by piece. What is long is hashed otherwise than what is
/// short: this begins slowly, and goes on fast.
#[derive(Debug, Clone)]
pub(super) struct PrefixHasher(HighwayHasher);

impl PrefixHasher {
    /// Takes in a piece. Where it ends counts.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.0.append(&piece.len().to_le_bytes());
        self.0.append(piece);
    }

    /// The print of all pieces so far.
    pub(super) fn print(&self) -> Fingerprint {
        let [low, high] = self.0.clone().finalize128();
        Fingerprint(u128::from(high) << 64 | u128::from(low))
    }
}

/// A prime of the form for which remainders are cheap.
const PRIME: u64 = (1 << 61) - 1;

/// The print of a text in pieces: pieces joined have the print of the whole,
/// however the text was cut. A polynomial whose place of evaluation is secret,
/// twice over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingHash {
    values: [u64; 2],
    /// The bases to the power of the length.
    powers: [u64; 2],
    length: usize,
}

impl RollingHash {
    /// No text.
    pub const EMPTY: Self = Self {
        values: [0; 2],
        powers: [1; 2],
        length: 0,
    };

    /// This text and `next` behind it.
    #[must_use]
    pub fn join(self, next: Self) -> Self {
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

    /// How many bytes the text has.
    pub const fn length(self) -> usize {
        self.length
    }
}

impl Hash for RollingHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.values, self.length).hash(state);
    }
}

/// `a + b`, of which neither is more than the prime.
const fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

const fn times(a: u64, b: u64) -> u64 {
    remainder(a as u128 * b as u128)
}

/// The remainder of a number of at most 122 bits.
const fn remainder(number: u128) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "61 bits of it are wanted")]
    let low = number as u64 & PRIME;
    #[expect(clippy::cast_possible_truncation, reason = "122 bits less 61")]
    let high = (number >> 61) as u64;
    add(low, high)
}

/// The polynomial of a text: its bytes are the coefficients.
fn value(powers: &Powers, text: &[u8]) -> u64 {
    let (blocks, rest) = text.as_chunks::<BLOCK>();
    let value = blocks.iter().fold(0, |value, block| {
        // Each product has 69 bits at most, so that one remainder will do for all.
        let [b0, b1, b2, b3, b4, b5, b6, b7] = *block;
        let [p0, p1, p2, p3, p4, p5, p6, p7] = powers.falling;
        let first = product(b0, p0) + product(b1, p1) + product(b2, p2) + product(b3, p3);
        let last = product(b4, p4) + product(b5, p5) + product(b6, p6) + product(b7, p7);
        let products = first + last;
        add(times(value, powers.block), remainder(products))
    });
    let digits = rest.iter().map(|it| u64::from(*it));
    digits.fold(value, |value, byte| add(times(value, powers.base), byte))
}

#[inline]
const fn product(byte: u8, power: u64) -> u128 {
    byte as u128 * power as u128
}

impl Powers {
    fn of(base: u64) -> Self {
        let mut falling = [0; BLOCK];
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
        fn piece_of(&self, byte: u8) -> RollingHash {
            RollingHash {
                values: [byte.into(); 2],
                powers: self.bases.map(|it| it.base),
                length: 1,
            }
        }
    }

    proptest! {
        #[test]
        fn a_text_has_one_print_however_it_is_cut(
            pieces in proptest::collection::vec(".{0,20}", 0..6),
        ) {
            let printer = Fingerprinter::new(*b"0123456789abcdef");
            let joined = pieces.iter().fold(RollingHash::EMPTY, |it, next| it.join(printer.piece(next)));
            prop_assert_eq!(joined, printer.piece(&pieces.concat()));
        }

        #[test]
        fn other_texts_have_other_prints(one in ".{0,9}", other in ".{0,9}") {
            let printer = Fingerprinter::new(*b"0123456789abcdef");
            prop_assert_eq!(one == other, printer.piece(&one) == printer.piece(&other));
        }
    }

    #[test]
    fn a_text_is_worth_what_its_bytes_are_worth_one_by_one() {
        let printer = Fingerprinter::new(*b"0123456789abcdef");
        proptest!(|(text in ".{0,40}")| {
            let bytes = text.bytes().map(|it| printer.piece_of(it));
            let joined = bytes.fold(RollingHash::EMPTY, RollingHash::join);
            prop_assert_eq!(joined, printer.piece(&text));
        });
    }

    #[test]
    fn another_secret_makes_other_prints() {
        let (one, other) = (Fingerprinter::new([1; 16]), Fingerprinter::new([2; 16]));
        assert_ne!(one.print(&"a"), other.print(&"a"));
        assert_ne!(one.piece("ab"), other.piece("ab"));
    }
}
