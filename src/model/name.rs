//! Validated model names.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of a model, without the prefix `models/`.
///
/// INVARIANT: 1 to 128 characters of `A-Za-z0-9._@-`, and not only dots, so that a
/// name is a valid segment of a URL path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelName(String);

impl ModelName {
    /// Parses a name; the prefix `models/` is dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix("models/").unwrap_or(text);
        Self::is_valid(name).then(|| Self(name.to_owned()))
    }

    /// Whether a text without the prefix `models/` is a valid name.
    pub fn is_valid(name: &str) -> bool {
        let allowed = |byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'@' | b'-');
        let has_valid_length = (1..=128).contains(&name.len());
        let only_dots = name.bytes().all(|byte| byte == b'.');
        has_valid_length && !only_dots && name.bytes().all(allowed)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ModelName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a model name"))
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_change_a_path_are_refused() {
        for text in ["", "a/b", "..", "a b", "a%2Fb", "a?b", "models/"] {
            assert_eq!(ModelName::parse(text), None, "{text:?}");
        }
        for text in ["gemini-2.5-pro", "models/gemini-2.5-pro", "claude@2024"] {
            assert!(ModelName::parse(text).is_some(), "{text:?}");
        }
    }
}
