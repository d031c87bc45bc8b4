//! Position in a JSON text of a model, so that a label in place of a number becomes a string.

/// Beginning of the labels that replace secrets.
const LABEL_START: &str = "[REDACTED:";

/// State at the end of the pieces of a JSON text that were read.
#[derive(Debug, Default)]
pub(super) struct JsonPosition {
    is_in_string: bool,
    /// True if the next character is escaped.
    is_escaped: bool,
}

impl JsonPosition {
    /// Returns the next piece of the text, with quotes around labels that are in no string.
    pub(super) fn quote_labels(&mut self, piece: &str) -> String {
        let mut quoted = String::with_capacity(piece.len());
        let mut rest = piece;
        while let Some(next) = rest.chars().next() {
            // Outside of strings, no JSON begins like a label.
            let is_label = !self.is_in_string && rest.starts_with(LABEL_START);
            let label = if is_label { rest.split_once(']') } else { None };
            rest = if let Some((label, behind)) = label {
                quoted.extend(["\"", label, "]\""]);
                behind
            } else {
                self.pass(next);
                quoted.push(next);
                rest.strip_prefix(next).unwrap_or_default()
            };
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

#[cfg(test)]
mod tests {
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
}
