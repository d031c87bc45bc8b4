//! Options for the form of a hook's input, written as booleans.

use serde::{Deserialize, Serialize};

/// The form in which a hook receives a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum HookView {
    /// The stable form only.
    #[default]
    StableForm,
    /// The stable form, and the whole request or chunk as on the wire.
    Document,
}

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

impl From<bool> for HookView {
    fn from(document: bool) -> Self {
        if document {
            Self::Document
        } else {
            Self::StableForm
        }
    }
}

impl From<HookView> for bool {
    fn from(view: HookView) -> Self {
        view == HookView::Document
    }
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
