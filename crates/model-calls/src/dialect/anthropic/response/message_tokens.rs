//! Token counts of a response.

use serde_json::{Value, json};

use crate::dialect::{
    document::{Document, integer},
    error::Result,
};

/// Token counts, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageTokens {
    input: u64,
    cache_creation: u64,
    cache_read: u64,
    output: u64,
}

impl MessageTokens {
    /// Updates the counts: later events of a stream name the latest sum of each.
    pub fn update(&mut self, usage: &Document) -> Result<()> {
        for (count, field) in [
            (&mut self.input, "input_tokens"),
            (&mut self.cache_creation, "cache_creation_input_tokens"),
            (&mut self.cache_read, "cache_read_input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            if let Some(new) = integer(usage, &[field])? {
                *count = new;
            }
        }
        Ok(())
    }

    /// Returns the counts in the content form.
    pub fn to_form(self) -> Value {
        let cached = self.cache_creation.saturating_add(self.cache_read);
        let prompt = self.input.saturating_add(cached);
        json!({
            "promptTokenCount": prompt,
            "candidatesTokenCount": self.output,
            "totalTokenCount": prompt.saturating_add(self.output),
        })
    }

    /// Returns the counts of a content form as the API writes them.
    pub fn from_form(usage: &Document) -> Result<Value> {
        let count =
            |field: &str| -> Result<u64> { Ok(integer(usage, &[field])?.unwrap_or_default()) };
        Ok(json!({
            "input_tokens": count("promptTokenCount")?,
            "output_tokens": count("candidatesTokenCount")?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_token_counts_do_not_overflow() {
        let usage = json!({ "input_tokens": u64::MAX, "cache_read_input_tokens": 1, "output_tokens": u64::MAX });
        let usage = Document::from_checked(usage.to_string().into()).unwrap();
        let mut tokens = MessageTokens::default();
        tokens.update(&usage).unwrap();
        assert_eq!(tokens.to_form()["totalTokenCount"], u64::MAX);
    }
}
