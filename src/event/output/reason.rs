//! Reasons of denials and stops, which are never empty.

/// Reason if a hook gives none (hook protocol, section 1).
const NO_REASON: &str = "No reason provided";

/// Reason of a denial or stop; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Returns the reason that a hook gave, or the default.
    pub fn new(text: Option<&str>) -> Self {
        let given = text.filter(|text| !text.trim().is_empty());
        Self(given.unwrap_or(NO_REASON).to_owned())
    }

    /// Returns the reason as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
