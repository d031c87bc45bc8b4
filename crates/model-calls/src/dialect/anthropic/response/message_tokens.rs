//! Token counts of a response.

use serde_json::{Map, Value, json};

use crate::dialect::{
    document::{Document, insert, integer},
    error::Result,
};

/// Input tokens of the cache, which the prompt's tokens of the content form include: their names
/// there and in the API.
const CACHE_COUNTS: [(&str, &str); 2] = [
    ("cacheCreationTokenCount", "cache_creation_input_tokens"),
    ("cachedContentTokenCount", "cache_read_input_tokens"),
];

/// Token counts, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageTokens {
    input: u64,
    /// In the order of [`CACHE_COUNTS`], as far as the API counts them.
    cache: [Option<u64>; 2],
    output: u64,
}

impl MessageTokens {
    /// Updates the counts: later events of a stream name the latest sum of each.
    pub fn update(&mut self, usage: &Document) -> Result<()> {
        for (count, field) in [
            (&mut self.input, "input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            if let Some(new) = integer(usage, &[field])? {
                *count = new;
            }
        }
        for (count, (_, field)) in self.cache.iter_mut().zip(CACHE_COUNTS) {
            *count = integer(usage, &[field])?.or(*count);
        }
        Ok(())
    }

    /// Returns the counts in the content form.
    pub fn to_form(self) -> Value {
        let cached = self.cache.iter().flatten();
        let prompt = cached.fold(self.input, |sum, count| sum.saturating_add(*count));
        let mut form = json!({
            "promptTokenCount": prompt,
            "candidatesTokenCount": self.output,
            "totalTokenCount": prompt.saturating_add(self.output),
        });
        for (count, (name, _)) in self.cache.iter().zip(CACHE_COUNTS) {
            if let Some(count) = count {
                insert(&mut form, name, *count);
            }
        }
        form
    }

    /// Returns the counts of a content form as the API writes them. If a hook has set fewer tokens
    /// of the prompt than the cache had, they are all input.
    pub fn from_form(usage: &Document) -> Result<Value> {
        let prompt = integer(usage, &["promptTokenCount"])?.unwrap_or_default();
        let output = integer(usage, &["candidatesTokenCount"])?.unwrap_or_default();
        let mut counts = Map::new();
        let mut cached: u64 = 0;
        for (name, field) in CACHE_COUNTS {
            if let Some(count) = integer(usage, &[name])? {
                cached = cached.saturating_add(count);
                counts.insert(field.to_owned(), count.into());
            }
        }
        if cached > prompt {
            counts.clear();
            cached = 0;
        }
        counts.insert("input_tokens".to_owned(), (prompt - cached).into());
        counts.insert("output_tokens".to_owned(), output.into());
        Ok(Value::Object(counts))
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
