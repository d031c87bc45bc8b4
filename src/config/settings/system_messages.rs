//! Option for system messages in a hook's input, written as a boolean.

use serde::{Deserialize, Serialize};

/// Inclusion of the system instruction as a first message in a hook's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum SystemMessages {
    /// The message is not included.
    #[default]
    Hidden,
    /// The message is included.
    Shown,
}

impl From<bool> for SystemMessages {
    fn from(shown: bool) -> Self {
        if shown { Self::Shown } else { Self::Hidden }
    }
}

impl From<SystemMessages> for bool {
    fn from(messages: SystemMessages) -> Self {
        messages == SystemMessages::Shown
    }
}
