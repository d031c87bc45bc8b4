//! Token counts of an answer.

use serde_json::{Map, Value};

use crate::dialect::{document::Document, error::Result};

/// Token counts in the content form.
pub const USAGE_METADATA: &[&str] = &["usageMetadata"];

/// Names of the token counts in the content form.
const NAMES: [&str; 3] = [
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
];

/// Fields with the details of token counts.
pub const COUNT_DETAILS: &[&str] = &[
    "completion_tokens_details",
    "input_tokens_details",
    "output_tokens_details",
    "prompt_tokens_details",
];

/// Names of the same counts in an API.
#[derive(Debug, Clone, Copy)]
pub struct CountFields(pub [&'static str; 3]);

impl CountFields {
    fn pairs(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMES.into_iter().zip(self.0)
    }

    /// Returns the counts of an answer in the content form.
    pub fn read(self, usage: &Document) -> Result<Value> {
        let mut counts = Map::new();
        for (name, field) in self.pairs() {
            let count = usage.get(&[field])?;
            counts.extend(count.map(|count| (name.to_owned(), count)));
        }
        Ok(Value::Object(counts))
    }

    /// Writes counts that differ from those that were read.
    pub fn write(self, usage: &mut Document, after: &Document) -> Result<()> {
        for (name, field) in self.pairs() {
            if let Some(new) = after.get(&[name])?
                && usage.get(&[field])?.as_ref() != Some(&new)
            {
                usage.set(&[field], &new)?;
            }
        }
        Ok(())
    }

    /// Returns the counts of a synthetic answer, whose counts in the content form may be absent.
    pub fn create(self, counts: &Document) -> Result<Map<String, Value>> {
        let mut usage = Map::new();
        for (name, field) in self.pairs() {
            let count = counts.get(&[name])?.unwrap_or_else(|| 0.into());
            usage.insert(field.to_owned(), count);
        }
        Ok(usage)
    }
}
