//! Texts of a response, and those of them that end the turn.

use std::collections::{BTreeMap, BTreeSet};

use crate::dialect::{error::Result, google::response::document::ResponseDocument};

/// Texts of a response so far, without thoughts, by candidate.
#[derive(Debug, Default)]
pub struct AnswerTexts {
    texts: BTreeMap<u64, String>,
    /// Indexes of the candidates with function calls.
    with_calls: BTreeSet<u64>,
}

impl AnswerTexts {
    /// Adds the texts of a chunk.
    ///
    /// # Errors
    ///
    /// Fails if a call in it cannot be read.
    pub fn push(&mut self, chunk: &ResponseDocument) -> Result<()> {
        self.with_calls.extend(chunk.candidates_with_calls()?);
        for (index, text) in chunk.candidate_texts() {
            self.texts.entry(index).or_default().push_str(text);
        }
        Ok(())
    }

    /// Returns the text of the first candidate.
    pub fn first(&self) -> &str {
        self.texts.get(&0).map_or("", String::as_str)
    }

    /// Returns the texts of all candidates, with a blank line between them.
    pub fn all(&self) -> String {
        joined(self.texts.values())
    }

    /// Returns the texts of the candidates without calls, with a blank line between them.
    pub fn without_calls(&self) -> String {
        let texts = self.texts.iter();
        let texts = texts.filter(|(index, _)| !self.with_calls.contains(index));
        joined(texts.map(|(_, text)| text))
    }

    /// Returns whether any candidate has calls.
    pub fn has_calls(&self) -> bool {
        !self.with_calls.is_empty()
    }

    /// Returns the number of bytes in memory.
    pub fn bytes(&self) -> usize {
        self.texts.values().map(String::capacity).sum()
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    let texts = texts.filter(|text| !text.is_empty());
    let texts: Vec<&str> = texts.map(String::as_str).collect();
    texts.join("\n\n")
}
