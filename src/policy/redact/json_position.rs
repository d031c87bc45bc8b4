//! Position in a JSON text of a model, so that a label in place of a number becomes a string.

/// Beginning of the labels that replace secrets.
const LABEL_START: &str = "[REDACTED:";

/// Maximum length of a number that is withheld until it ends.
const MAX_NUMBER_BYTES: usize = 64;

/// State at the end of the pieces of a JSON text that were read.
#[derive(Debug, Default)]
pub(super) struct JsonPosition {
    is_in_string: bool,
    /// True if the next character is escaped.
    is_escaped: bool,
    /// The last character that is no blank, outside of strings, `number` and labels.
    last: Option<char>,
    /// Number at the end of the text, which a label may follow.
    number: String,
    /// True if the text ends with a label in place of a number, the rest of which may follow.
    is_masked: bool,
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
                if !self.is_masked {
                    quoted.extend(["\"", label, "\""]);
                }
                self.number.clear();
                self.is_masked = self.is_value();
                rest = behind;
                continue;
            }
            self.pass(next, &mut quoted);
            rest = rest.strip_prefix(next).unwrap_or_default();
        }
        quoted
    }

    /// Returns the number at the end of the text, which is withheld until it ends.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.number)
    }

    /// Returns the number of bytes that are withheld.
    pub(super) const fn held(&self) -> usize {
        self.number.len()
    }

    /// Returns whether a value may begin here. What is no JSON has numbers elsewhere.
    const fn is_value(&self) -> bool {
        matches!(self.last, None | Some(':' | '[' | ','))
    }

    fn pass(&mut self, next: char, quoted: &mut String) {
        if self.is_in_string {
            self.is_in_string = next != '"' || self.is_escaped;
            self.is_escaped = !self.is_escaped && next == '\\';
            quoted.push(next);
            return;
        }
        let is_number = next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E' | '+' | '-');
        if is_number && self.is_value() && self.number.len() < MAX_NUMBER_BYTES {
            if !self.is_masked {
                self.number.push(next);
            }
            return;
        }
        self.is_masked = false;
        self.last = self.number.chars().next_back().or(self.last);
        quoted.push_str(&self.finish());
        quoted.push(next);
        if !next.is_whitespace() {
            self.last = Some(next);
        }
        self.is_in_string = next == '"';
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

    /// Returns a text with quoted labels that is read in pieces, none of which cuts a label.
    fn quoted(text: &str, size: usize) -> String {
        let mut position = JsonPosition::default();
        let mut quoted = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let size = size.min(rest.len());
            let (piece, behind) = split_label(rest).unwrap_or_else(|| {
                let label = rest.get(1..).and_then(|rest| rest.find(LABEL_START));
                rest.split_at(label.map_or(size, |label| size.min(label + 1)))
            });
            quoted += &position.quote_labels(piece);
            rest = behind;
        }
        quoted + &position.finish()
    }

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
    fn text_behind_a_label_in_prose_is_kept() {
        for text in [
            "Mail [REDACTED:email]. Then - [REDACTED:email]-5",
            r#"{"a": 5 [REDACTED:card].0, "b": "x" [REDACTED:card].0}"#,
        ] {
            let expected = text.replace("[R", "\"[R").replace(']', "]\"");
            for size in [1, 2, text.len()] {
                assert_eq!(quoted(text, size), expected);
            }
        }
    }

    #[test]
    fn the_begin_of_a_masked_number_is_left_out() {
        let text = "[-[REDACTED:n], 0.[REDACTED:n]5, 1e5, -7 , {\"a\":12[REDACTED:n]}, 42";
        let expected =
            "[\"[REDACTED:n]\", \"[REDACTED:n]\", 1e5, -7 , {\"a\":\"[REDACTED:n]\"}, 42";
        for size in [1, 2, text.len()] {
            assert_eq!(quoted(text, size), expected);
        }
    }

    #[test]
    fn the_begin_of_a_number_without_end_is_withheld() {
        let mut position = JsonPosition::default();
        let text = format!("{{\"n\": 0.{}", "0".repeat(1000));
        let mut sent = position.quote_labels(&text);
        assert_eq!(position.held(), 0);
        sent += &position.quote_labels("1}");
        assert_eq!(sent, text + "1}");
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
