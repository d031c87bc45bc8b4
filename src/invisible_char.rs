//! Invisible characters, which change what a terminal or a page shows of the others.

use std::borrow::Cow;

/// Returns whether a character is a control character, or one of those of Unicode that change
/// the direction of text or have no width.
pub fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns whether a character is invisible and no end of a line or tab, which shape a text.
pub fn is_hidden(char: char) -> bool {
    is_invisible(char) && !matches!(char, '\n' | '\t')
}

/// Replaces invisible characters by escapes as in Rust: a line feed by `\n`, others by such as
/// `\u{202e}`.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_invisible) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for char in text.chars() {
        if is_invisible(char) {
            escaped.extend(char.escape_default());
        } else {
            escaped.push(char);
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invisible_characters_are_escaped() {
        let text = "a\n\t\u{1b}[31m\u{202e}\u{9b}b";
        assert_eq!(escape_invisible(text), r"a\n\t\u{1b}[31m\u{202e}\u{9b}b");
        let visible = "\"é\u{301}\\n\" 👩\u{200d}👩";
        assert!(matches!(escape_invisible(visible), Cow::Borrowed(text) if text == visible));
    }
}
