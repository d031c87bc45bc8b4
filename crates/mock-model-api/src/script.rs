//! Scripted responses, in the format in which gemini-cli records them. Gemini's APIs get
//! them byte for byte. Other APIs get the same parts, finish reason and usage in their own
//! form, so that one script serves all of them.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::call::Framing;

/// Responses to give in order: one queue for whole ones, one for streams.
#[derive(Debug, Default)]
pub struct Script {
    answers: VecDeque<String>,
    streams: VecDeque<Vec<String>>,
}

/// Error of parsing a script of responses.
#[derive(Debug, Error)]
pub enum MockError {
    /// A line is not a scripted response.
    #[error("line {line} is no scripted answer: {cause}")]
    ScriptLine {
        /// Line number, from 1.
        line: usize,
        /// Error message of the parser.
        cause: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct ScriptLine<'a> {
    method: Method,
    #[serde(borrow)]
    response: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Method {
    GenerateContent,
    GenerateContentStream,
}

impl Script {
    /// Parses JSON lines
    /// `{"method":"generateContent"|"generateContentStream","response":…}`. The
    /// response of a stream is the array of its chunks. Blank lines are skipped.
    ///
    /// # Errors
    ///
    /// Returns the first line that is not a scripted response.
    pub fn parse(text: &str) -> Result<Self, MockError> {
        let mut script = Self::default();
        for (index, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                script.push(line).map_err(|cause| MockError::ScriptLine {
                    line: index + 1,
                    cause,
                })?;
            }
        }
        Ok(script)
    }

    fn push(&mut self, line: &str) -> Result<(), serde_json::Error> {
        let ScriptLine { method, response } = serde_json::from_str(line)?;
        match method {
            Method::GenerateContent => {
                let _object: BTreeMap<String, &RawValue> = serde_json::from_str(response.get())?;
                self.answers.push_back(response.get().to_owned());
            }
            Method::GenerateContentStream => {
                let chunks: Vec<&RawValue> = serde_json::from_str(response.get())?;
                let chunks = chunks.iter().map(|chunk| chunk.get().to_owned()).collect();
                self.streams.push_back(chunks);
            }
        }
        Ok(())
    }

    /// Returns the chunks of the next response, or an error message if none is left.
    pub(super) fn next(&mut self, framing: Framing) -> Result<Vec<String>, &'static str> {
        match framing {
            Framing::Object => self.answers.pop_front().map(|answer| vec![answer]),
            Framing::Array | Framing::Events => self.streams.pop_front(),
        }
        .ok_or("The script has no response left for this method.")
    }
}
