//! Keyed hashes: nobody outside can make two things look the same, or guess one.

use std::hash::Hash;

use highway::{HighwayHash, HighwayHasher, Key};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};

/// What something is known by. Equal prints mean equal things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Print(pub u128);

impl Print {
    /// Half of it: enough to tell the items of one session apart.
    pub const fn short(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half of it is wanted")]
        let half = self.0 as u64;
        half
    }
}

/// Makes prints. Gateways that share a store share the secret.
#[derive(Debug, Clone)]
pub struct Printer {
    secret: [u8; 16],
    bases: [u64; 2],
    /// For the prints of bytes.
    key: [u64; 4],
}

impl Printer {
    /// A printer with this secret.
    pub fn new(secret: [u8; 16]) -> Self {
        let mut bare = Self {
            secret,
            bases: [0; 2],
            key: [0; 4],
        };
        // INVARIANT: below the prime, and large enough to spread short texts.
        let place = |number: u8| bare.print(&("base", number)).short() % (PRIME >> 1) + (1 << 16);
        bare.bases = [place(0), place(1)];
        bare.key = [0, 1, 2, 3].map(|it: u8| bare.print(&("key", it)).short());
        bare
    }

    /// The print of a value.
    pub fn print(&self, value: &impl Hash) -> Print {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        value.hash(&mut hasher);
        Print(hasher.finish128().into())
    }

    /// The prints of many bytes, as far as they go.
    pub(super) fn prints(&self) -> Prints {
        Prints(HighwayHasher::new(Key(self.key)))
    }

    /// The print of a text that can be joined with what follows it.
    pub fn piece(&self, text: &str) -> Piece {
        let [one, two] = self.bases;
        let mut piece = Piece::EMPTY;
        for byte in text.bytes() {
            let [first, second] = piece.values;
            let byte = u64::from(byte);
            piece.values = [add(times(first, one), byte), add(times(second, two), byte)];
        }
        piece.powers = [power(one, text.len()), power(two, text.len())];
        piece.length = text.len();
        piece
    }
}

/// Takes in bytes, piece by piece. What is long is hashed otherwise than what is
/// short: this begins slowly, and goes on fast.
#[derive(Debug)]
pub(super) struct Prints(HighwayHasher);

impl Prints {
    /// The print of all pieces up to this one. Where one ends counts.
    pub(super) fn next(&mut self, piece: &[u8]) -> Print {
        self.0.append(&piece.len().to_le_bytes());
        self.0.append(piece);
        let [low, high] = self.0.clone().finalize128();
        Print(u128::from(high) << 64 | u128::from(low))
    }
}

/// A prime of the form for which remainders are cheap.
const PRIME: u64 = (1 << 61) - 1;

/// The print of a text in pieces: pieces joined have the print of the whole,
/// however the text was cut. A polynomial whose place of evaluation is secret,
/// twice over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    values: [u64; 2],
    /// The bases to the power of the length.
    powers: [u64; 2],
    length: usize,
}

impl Piece {
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

impl Hash for Piece {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.values, self.length).hash(state);
    }
}

/// `a + b`, of which neither is more than the prime.
const fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

const fn times(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    #[expect(clippy::cast_possible_truncation, reason = "61 bits of it are wanted")]
    let low = product as u64 & PRIME;
    #[expect(clippy::cast_possible_truncation, reason = "122 bits less 61")]
    let high = (product >> 61) as u64;
    add(low, high)
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

    proptest! {
        #[test]
        fn a_text_has_one_print_however_it_is_cut(
            pieces in proptest::collection::vec(".{0,20}", 0..6),
        ) {
            let printer = Printer::new(*b"0123456789abcdef");
            let joined = pieces.iter().fold(Piece::EMPTY, |it, next| it.join(printer.piece(next)));
            prop_assert_eq!(joined, printer.piece(&pieces.concat()));
        }

        #[test]
        fn other_texts_have_other_prints(one in ".{0,9}", other in ".{0,9}") {
            let printer = Printer::new(*b"0123456789abcdef");
            prop_assert_eq!(one == other, printer.piece(&one) == printer.piece(&other));
        }
    }

    #[test]
    fn another_secret_makes_other_prints() {
        let (one, other) = (Printer::new([1; 16]), Printer::new([2; 16]));
        assert_ne!(one.print(&"a"), other.print(&"a"));
        assert_ne!(one.piece("ab"), other.piece("ab"));
    }
}
