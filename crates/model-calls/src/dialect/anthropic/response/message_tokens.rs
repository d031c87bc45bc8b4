//! Token counts of a response.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    anthropic::{
        fields::{USAGE, USAGE_METADATA, parse_strict},
        response::message_labels::{ITERATIONS, visit_usage},
    },
    content_form::remove_labels,
    document::{Document, insert, integer, set_or_remove, try_any},
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
        self.input = total(usage, "input_tokens")?.unwrap_or(self.input);
        self.output = total(usage, "output_tokens")?.unwrap_or(self.output);
        for (count, (_, field)) in self.cache.iter_mut().zip(CACHE_COUNTS) {
            *count = total(usage, field)?.or(*count);
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

    /// Reads the counts of a content form. If a hook has set fewer tokens of the prompt than the
    /// cache had, they are all input.
    pub fn of_form(usage: &Document) -> Result<Self> {
        let prompt = integer(usage, &["promptTokenCount"])?.unwrap_or_default();
        let output = integer(usage, &["candidatesTokenCount"])?.unwrap_or_default();
        let mut cache = [None; 2];
        for (count, (name, _)) in cache.iter_mut().zip(CACHE_COUNTS) {
            *count = integer(usage, &[name])?;
        }
        let cached = cache.into_iter().flatten().fold(0, u64::saturating_add);
        Ok(match prompt.checked_sub(cached) {
            Some(input) => Self {
                input,
                cache,
                output,
            },
            None => Self {
                input: prompt,
                cache: [None; 2],
                output,
            },
        })
    }

    /// Writes the counts into those of a message, unless they are the same.
    pub fn write(self, usage: &mut Document) -> Result<()> {
        let counts = [
            ("input_tokens", Some(self.input)),
            ("output_tokens", Some(self.output)),
        ];
        let cache = CACHE_COUNTS.iter().zip(self.cache);
        let cache = cache.map(|((_, field), count)| (*field, count));
        let counts: Vec<_> = counts.into_iter().chain(cache).collect();
        if !try_any(&counts, |(field, count)| Ok(total(usage, field)? != *count))? {
            return Ok(());
        }
        usage.remove(ITERATIONS)?;
        counts
            .iter()
            .try_for_each(|(field, count)| set_or_remove(usage, &[field], count.map(Value::from)))
    }
}

/// Returns the token counts of an answer that is written anew. `end` is the message, or the events,
/// with which the answers end that it is merged from.
pub fn new_usage(form: &Document, end: &[Bytes]) -> Result<Document> {
    let mut usage = Document::empty();
    for data in end {
        usage = parse_strict(data.clone())?.child(USAGE)?.unwrap_or(usage);
    }
    visit_usage(&mut usage, &mut remove_labels)?;
    let counts = form.child(USAGE_METADATA)?.unwrap_or_default();
    MessageTokens::of_form(&counts)?.write(&mut usage)?;
    Ok(usage)
}

/// Returns a count of all iterations. That of the usage itself leaves out some, such as a
/// compaction.
fn total(usage: &Document, field: &str) -> Result<Option<u64>> {
    let mut sum: Option<u64> = None;
    for iteration in usage.children(ITERATIONS)?.unwrap_or_default() {
        let count = integer(&iteration, &[field])?;
        sum = count.map_or(sum, |count| {
            Some(sum.unwrap_or_default().saturating_add(count))
        });
    }
    Ok(sum.max(integer(usage, &[field])?))
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
