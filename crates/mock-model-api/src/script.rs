//! Scripted responses, in the format in which gemini-cli records them. Gemini's APIs get
//! them byte for byte. Other APIs get the same parts, finish reason and usage in their own
//! form, so that one script serves all of them. A native response, which is already in the form
//! of its API, is sent as it is.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::call::Framing;

/// Responses to give in order: one queue for whole ones, one for streams.
#[derive(Debug, Default)]
pub struct Script {
    answers: VecDeque<ScriptedResponse>,
    streams: VecDeque<ScriptedResponse>,
}

/// A response to give.
#[derive(Debug)]
pub(super) struct ScriptedResponse {
    /// JSON texts: one, or one for each chunk or event of a stream.
    pub(super) chunks: Vec<String>,
    pub(super) form: ResponseForm,
}

/// Form in which a response is scripted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseForm {
    /// That of the Gemini API, in which any API can be answered.
    Gemini,
    /// That of the API that is called.
    Native,
}

/// Error of parsing a script of responses.
#[derive(Debug, Error)]
#[error("line {line} is no scripted answer: {cause}")]
pub struct MockError {
    line: usize,
    cause: serde_json::Error,
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
                script.push(line).map_err(|cause| MockError {
                    line: index + 1,
                    cause,
                })?;
            }
        }
        Ok(script)
    }

    /// Adds a whole response, which is JSON.
    pub fn push_answer(&mut self, answer: String, form: ResponseForm) {
        let chunks = vec![answer];
        self.answers.push_back(ScriptedResponse { chunks, form });
    }

    /// Adds the chunks or events of a stream, each of which is JSON.
    pub fn push_stream(&mut self, chunks: Vec<String>, form: ResponseForm) {
        self.streams.push_back(ScriptedResponse { chunks, form });
    }

    fn push(&mut self, line: &str) -> Result<(), serde_json::Error> {
        let ScriptLine { method, response } = serde_json::from_str(line)?;
        match method {
            Method::GenerateContent => {
                let _object: BTreeMap<String, &RawValue> = serde_json::from_str(response.get())?;
                self.push_answer(response.get().to_owned(), ResponseForm::Gemini);
            }
            Method::GenerateContentStream => {
                let chunks: Vec<&RawValue> = serde_json::from_str(response.get())?;
                let chunks = chunks.iter().map(|chunk| chunk.get().to_owned()).collect();
                self.push_stream(chunks, ResponseForm::Gemini);
            }
        }
        Ok(())
    }

    /// Returns the next response, or an error message if none is left.
    pub(super) fn next(&mut self, framing: Framing) -> Result<ScriptedResponse, &'static str> {
        match framing {
            Framing::Object => self.answers.pop_front(),
            Framing::Array | Framing::Events => self.streams.pop_front(),
        }
        .ok_or("The script has no response left for this method.")
    }
}
