//! Edits that a document does not take.

/// An edit, or a part of one, that was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredEdit {
    /// A key that no edit has.
    UnknownKey(String),
    /// An edit that does not fit the document, with the reason.
    Inapplicable(String),
}
