//! Comments in settings.json files, which gemini-cli allows.

use regex::{Captures, Regex};

/// Texts, which may contain `//`, and comments. Each may end with the file.
const TEXTS_AND_COMMENTS: &str = r#""(?s:\\.|[^"\\])*"?|//[^\n]*|/\*(?s:.*?)(?:\*/|\z)"#;

/// Replaces `//` and `/* */` comments by spaces, so that positions are kept.
pub(super) fn blank_comments(text: &str) -> String {
    let Ok(pattern) = Regex::new(TEXTS_AND_COMMENTS) else {
        return text.to_owned();
    };
    let blanked = pattern.replace_all(text, |found: &Captures<'_>| {
        let found = found.get_match().as_str();
        if found.starts_with('"') {
            return found.to_owned();
        }
        let blank = |char| if char == '\n' { char } else { ' ' };
        found.chars().map(blank).collect()
    });
    blanked.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_spaces_and_positions_are_kept() {
        let text = "{ // a \"b\"\n\"url\": \"http://x/*y*/\", /* c\n /*/ \"d\\\"//\": 1 }";

        let expected = "{         \n\"url\": \"http://x/*y*/\",     \n     \"d\\\"//\": 1 }";
        assert_eq!(blank_comments(text), expected);
    }
}
