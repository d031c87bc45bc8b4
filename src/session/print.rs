//! Keyed hashes: nobody outside can make two things look the same, or guess one.

use std::hash::Hash;

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
}

impl Printer {
    /// A printer with this secret.
    pub const fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    /// The print of a value.
    pub fn print(&self, value: &impl Hash) -> Print {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        value.hash(&mut hasher);
        Print(hasher.finish128().into())
    }
}
