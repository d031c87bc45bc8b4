//! Comments in settings.json files, which gemini-cli allows.

/// The syntax around a character.
#[derive(Debug, Clone, Copy)]
enum Syntax {
    Code,
    Text,
    LineComment,
    BlockComment,
}

/// Replaces `//` and `/* */` comments by spaces, so that positions are kept.
pub(super) fn blank_comments(text: &str) -> String {
    let mut blanked = String::with_capacity(text.len());
    let mut syntax = Syntax::Code;
    let mut last = ' ';
    for char in text.chars() {
        let before = std::mem::replace(&mut last, char);
        let shown = match (syntax, before, char) {
            (Syntax::Code, '/', '/' | '*') => {
                syntax = match char {
                    '/' => Syntax::LineComment,
                    _ => Syntax::BlockComment,
                };
                last = ' ';
                blanked.pop();
                blanked.push(' ');
                ' '
            }
            (Syntax::Code, _, '"') => {
                syntax = Syntax::Text;
                char
            }
            // An escaped character neither ends the text nor escapes the next one.
            (Syntax::Text, '\\', _) => {
                last = ' ';
                char
            }
            (Syntax::LineComment, _, '\n') | (Syntax::Text, _, '"') => {
                syntax = Syntax::Code;
                char
            }
            (Syntax::BlockComment, '*', '/') => {
                syntax = Syntax::Code;
                last = ' ';
                ' '
            }
            (Syntax::LineComment, _, _) => ' ',
            (Syntax::BlockComment, _, _) if char != '\n' => ' ',
            (Syntax::Code | Syntax::Text | Syntax::BlockComment, _, _) => char,
        };
        blanked.push(shown);
    }
    blanked
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
