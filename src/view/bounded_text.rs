//! Texts of which no more is written than a page shows.

use std::fmt::{self, Display, Write};

/// Maximum size of a text that a page shows as a whole.
pub const MAX_TEXT_BYTES: usize = 8 * 1024 * 1024;

struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_TEXT_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Returns a value in its alternate form, which is that of JSON on many lines; `None` if it is too
/// large for a page.
pub fn bounded_text(value: &impl Display) -> Option<String> {
    let mut text = BoundedText(String::new());
    write!(text, "{value:#}").ok()?;
    Some(text.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_maximum_size_is_complete_and_a_larger_one_is_refused() {
        let text = "a".repeat(MAX_TEXT_BYTES);
        assert_eq!(bounded_text(&text).as_deref(), Some(&*text));
        assert_eq!(bounded_text(&(text + "a")), None);
    }
}
