//! Position in a JSON text of a model, so that a label in place of a number becomes a string.

/// Beginning of the labels that replace secrets.
const LABEL_START: &str = "[REDACTED:";

/// State at the end of the pieces of a JSON text that were read.
#[derive(Debug, Default)]
pub(super) struct JsonPosition {
    is_in_string: bool,
    /// True if the next character is escaped.
    is_escaped: bool,
    /// True if the text ends with a label in place of a number, the rest of which may follow.
    is_in_number: bool,
}

impl JsonPosition {
    /// Returns the next piece of the text, with quotes around labels that are in no string. The
    /// rest of a number that is masked in part goes with it.
    pub(super) fn quote_labels(&mut self, piece: &str) -> String {
        let mut quoted = String::with_capacity(piece.len());
        let mut rest = piece;
        while let Some(next) = rest.chars().next() {
            // Outside of strings, no JSON begins like a label.
            if !self.is_in_string
                && let Some((label, behind)) = split_label(rest)
            {
                if !self.is_in_number {
                    quoted.extend(["\"", label, "\""]);
                }
                self.is_in_number = true;
                rest = behind;
                continue;
            }
            self.is_in_number &=
                next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E' | '+' | '-');
            if !self.is_in_number {
                self.pass(next);
                quoted.push(next);
            }
            rest = rest.strip_prefix(next).unwrap_or_default();
        }
        quoted
    }

    const fn pass(&mut self, next: char) {
        if self.is_escaped {
            self.is_escaped = false;
        } else if next == '"' {
            self.is_in_string = !self.is_in_string;
        } else {
            self.is_escaped = self.is_in_string && next == '\\';
        }
    }
}

/// Splits a text behind the label with which it begins.
fn split_label(text: &str) -> Option<(&str, &str)> {
    let is_name = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '-' | ':');
    let name = text.strip_prefix(LABEL_START)?;
    let behind = name.trim_start_matches(is_name).strip_prefix(']')?;
    text.split_at_checked(text.len() - behind.len())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn only_labels_outside_of_strings_get_quotes() {
        let text = r#"{"a\\": "[REDACTED:email] \"[REDACTED:card]", "b": [[REDACTED:card], 5], "c":[REDACTED:card]}"#;
        let expected = text
            .replace("[[REDACTED:card],", r#"["[REDACTED:card]","#)
            .replace(":[REDACTED:card]}", r#":"[REDACTED:card]"}"#);
        assert_eq!(JsonPosition::default().quote_labels(text), expected);
        // Labels are never cut.
        let mut position = JsonPosition::default();
        let pieces = text.split_inclusive([' ', '"', '\\']);
        let pieces: String = pieces.map(|piece| position.quote_labels(piece)).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn the_rest_of_a_masked_number_is_left_out() {
        let text = r#"{"a": [REDACTED:card].0, "b": [[REDACTED:n][REDACTED:n]5e+3, 6], "c": "[REDACTED:card].0"}"#;
        let expected =
            r#"{"a": "[REDACTED:card]", "b": ["[REDACTED:n]", 6], "c": "[REDACTED:card].0"}"#;
        assert_eq!(JsonPosition::default().quote_labels(text), expected);
        let mut position = JsonPosition::default();
        let pieces = text.split_inclusive(['.', '5', ']', 'e', '0']);
        let pieces: String = pieces.map(|piece| position.quote_labels(piece)).collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn beginnings_of_labels_are_read_in_linear_time() {
        let text = LABEL_START.repeat(1 << 18);
        let started = Instant::now();
        assert_eq!(JsonPosition::default().quote_labels(&text), text);
        // In quadratic time, it takes half a minute.
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
