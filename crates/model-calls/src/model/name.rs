//! Names of models, validated when they are parsed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Name of a model, without the prefix `models/`.
///
/// INVARIANT: 1 to 128 characters of `A-Za-z0-9._@:-` in segments separated by `/`. No segment
/// is empty or consists of dots. Only a name of one segment without `:` is a segment of a URL path:
/// see [`Self::is_path_segment`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelName(String);

impl ModelName {
    /// Parses a name; the prefix `models/` is dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix("models/").unwrap_or(text);
        let mut segments = name.split('/');
        let is_valid = name.len() <= MAX_NAME_BYTES && segments.all(is_valid_segment);
        is_valid.then(|| Self(name.to_owned()))
    }

    /// Returns whether a text is a name as paths of Google's APIs have it: without `/`, and
    /// without `:`, which ends it there.
    pub fn is_path_segment(name: &str) -> bool {
        name.len() <= MAX_NAME_BYTES && !name.contains(['/', ':']) && is_valid_segment(name)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_valid_segment(segment: &str) -> bool {
    let allowed = |byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'@' | b':' | b'-');
    let only_dots = segment.bytes().all(|byte| byte == b'.');
    !only_dots && segment.bytes().all(allowed)
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
    fn names_that_could_change_a_path_are_no_path_segments() {
        for text in ["", "a/b", "..", "a b", "a%2Fb", "a?b", "a:b", "models/a"] {
            assert!(!ModelName::is_path_segment(text), "{text:?}");
        }
        for text in ["gemini-2.5-pro", "claude@2024"] {
            assert!(ModelName::is_path_segment(text), "{text:?}");
        }
    }

    #[test]
    fn names_in_bodies_may_have_an_owner_and_a_version() {
        for text in [
            "gemini-2.5-pro",
            "models/gemini-2.5-pro",
            "qwen/qwen3-coder",
            "ft:gpt-4o:org::id",
            "us.anthropic.claude-v1:0",
        ] {
            assert!(ModelName::parse(text).is_some(), "{text:?}");
        }
        let long = "a".repeat(129);
        for text in [
            "", "a//b", "/a", "a/", "../a", "a/..", "a b", "a%2Fb", "models/", &long,
        ] {
            assert_eq!(ModelName::parse(text), None, "{text:?}");
        }
    }
}
