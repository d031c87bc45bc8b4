//! Words of a filter, which may be quoted.

/// Splits at spaces outside of double quotes, which are removed. Within quotes, `\"` is a quote and
/// `\\` a backslash. `None` if a quote is not closed.
pub fn split(text: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '"' => {
                is_quoted = !is_quoted;
                continue;
            }
            letter if letter.is_whitespace() && !is_quoted => {
                words.push(String::new());
                continue;
            }
            '\\' if is_quoted => letters
                .next_if(|next| matches!(next, '"' | '\\'))
                .unwrap_or('\\'),
            letter => letter,
        };
        if let Some(word) = words.last_mut() {
            word.push(letter);
        }
    }
    words.retain(|word| !word.is_empty());
    (!is_quoted).then_some(words)
}
