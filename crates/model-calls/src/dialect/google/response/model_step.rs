//! An answer as it is sent back to the model if the agent does not receive its calls.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dialect::{
    content_form::AnswerLabels,
    document::{Document, write_array},
    error::Result,
    google::{
        fields::{CONTAINER, FUNCTION_CALL, PARTS, SOURCE},
        part::Part,
        response::{candidate::ProposedPart, document::ResponseDocument},
    },
    text_edit::TextEnd,
};

/// The parts of an answer in the model's order, with the calls that are withheld from the agent.
#[derive(Debug, Default)]
pub struct ModelStep {
    parts: Vec<Bytes>,
    /// Text that the next chunk may continue.
    text: String,
    /// First piece of the text.
    first: Option<Part>,
    parts_bytes: usize,
    /// Id of the container in which the model runs code.
    container: Option<String>,
}

impl ModelStep {
    /// Adds the parts of a chunk or a whole response. Pieces of one text are joined. Thoughts are
    /// omitted, as agents do: no API requires them. A call stays, even if it is marked as one.
    pub fn push(&mut self, chunk: &ResponseDocument) -> Result<()> {
        if chunk.is_text() {
            match chunk.plain_texts().next() {
                Some(text) if self.has_plain_text() => self.text.push_str(text),
                Some(text) => self.push_text(&Part::from_text(text)?)?,
                None => self.end_text()?,
            }
        }
        for (index, proposed) in chunk.proposed_parts().iter().enumerate() {
            if index > 0 {
                self.end_text()?;
            }
            self.push_part(proposed)?;
        }
        if chunk.text_end() != TextEnd::None {
            self.end_text()?;
        }
        if let Some(container) = container_in(chunk)? {
            self.container = Some(container);
        }
        Ok(())
    }

    /// Returns the number of buffered bytes.
    pub const fn bytes(&self) -> usize {
        self.parts_bytes + self.text.capacity()
    }

    /// Returns the step as a content of the model.
    pub fn to_content(&self) -> Result<Bytes> {
        let mut parts = self.parts.clone();
        parts.extend(self.open_text()?);
        let mut content = Document::empty();
        content.set(&["role"], &json!("model"))?;
        content.set_bytes(PARTS, write_array(parts))?;
        Ok(content.to_bytes())
    }

    /// Writes the container of the step into the next request: the API requires it if code in it
    /// waits for a result.
    pub fn write_container(&self, request: &mut Document) -> Result<()> {
        let Some(container) = &self.container else {
            return Ok(());
        };
        request.set(&[CONTAINER], &json!(container))
    }

    fn push_part(&mut self, proposed: &ProposedPart<'_>) -> Result<()> {
        if let ProposedPart::Sent(part) = proposed
            && part.continues_call()?
        {
            return Ok(());
        }
        let part = proposed.part().complete_call()?;
        if part.is_thought && !part.document.has(FUNCTION_CALL) {
            return self.end_text();
        }
        if part.is_text_only() {
            return self.push_text(&part);
        }
        // A piece of a block, such as a citation, is in the middle of a text.
        if part.document.has(&["event"]) && !is_compaction(&part)? {
            return Ok(());
        }
        self.end_text()?;
        self.add(part.document.to_bytes());
        Ok(())
    }

    fn push_text(&mut self, piece: &Part) -> Result<()> {
        let continues = |first: &Part| first.can_join(piece);
        if !self.first.as_ref().is_some_and(continues) {
            self.end_text()?;
            self.first = Some(piece.clone());
        }
        self.text
            .push_str(piece.text.as_deref().unwrap_or_default());
        Ok(())
    }

    /// Returns whether a piece without other fields continues the text.
    fn has_plain_text(&self) -> bool {
        let first = self.first.as_ref();
        first.is_some_and(|first| first.document.has_only(&["text", SOURCE]))
    }

    fn end_text(&mut self) -> Result<()> {
        if let Some(text) = self.open_text()? {
            self.add(text);
        }
        self.text.clear();
        self.first = None;
        Ok(())
    }

    /// Returns the part of the text that has not ended.
    fn open_text(&self) -> Result<Option<Bytes>> {
        let first = self.first.as_ref().filter(|_| !self.text.is_empty());
        let text = first.map(|first| first.with_text(&self.text)).transpose()?;
        Ok(text.map(|part| part.document.to_bytes()))
    }

    fn add(&mut self, part: Bytes) {
        self.parts_bytes += part.len();
        self.parts.push(part);
    }
}

/// Returns the id of the container that an answer names; `None` for Google's APIs, whose `labels`
/// are no fields of an answer.
fn container_in(chunk: &ResponseDocument) -> Result<Option<String>> {
    if chunk.original_events().is_none() && chunk.merged_end().is_empty() {
        return Ok(None);
    }
    let labels = AnswerLabels::of_form(chunk.document())?;
    let container = labels.last("container");
    let id = container.and_then(|container| container.get("id"));
    Ok(id.and_then(Value::as_str).map(str::to_owned))
}

/// Returns whether a part is the piece that holds all of a compaction.
fn is_compaction(part: &Part) -> Result<bool> {
    let block = part.document.child(&["block"])?.unwrap_or_default();
    Ok(block.string(&["type"])?.as_deref() == Some("compaction_delta"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(parts: &Value) -> ResponseDocument {
        let content = json!({ "role": "model", "parts": parts });
        let chunk = json!({ "candidates": [{ "content": content }] });
        ResponseDocument::parse(chunk.to_string().into()).unwrap()
    }

    #[track_caller]
    fn check(chunks: &[Value], expected: &Value) {
        let mut step = ModelStep::default();
        for parts in chunks {
            step.push(&chunk(parts)).unwrap();
        }
        let content: Value = serde_json::from_slice(&step.to_content().unwrap()).unwrap();
        assert_eq!(content["parts"], *expected);
    }

    #[test]
    fn pieces_of_a_text_are_joined_and_everything_else_keeps_its_place() {
        let code = json!({ "executableCode": { "code": "1" }, "thoughtSignature": "s" });
        let call = json!({ "functionCall": { "name": "f" }, "hookgateSource": 4 });
        check(
            &[
                json!([{ "text": "a" }]),
                json!([{ "text": "b" }]),
                json!([code]),
                json!([{ "text": "c" }]),
                json!([call]),
            ],
            &json!([{ "text": "ab" }, code, { "text": "c" }, { "functionCall": { "name": "f" } }]),
        );
    }

    #[test]
    fn thoughts_are_omitted() {
        let signed = json!({ "text": "t", "thought": true, "thoughtSignature": "s" });
        check(
            &[json!([{ "text": "t", "thought": true }, signed, { "text": "a" }])],
            &json!([{ "text": "a" }]),
        );
    }

    #[test]
    fn a_withheld_call_keeps_its_place() {
        let call = |name: &str| json!({ "functionCall": { "name": name } });
        let parts = json!([{ "text": "a" }, call("rm"), { "text": "b" }, call("ls")]);
        let mut document = chunk(&parts);
        let mut partial = crate::dialect::PartialCalls::default();
        let mut refuse =
            |call: &crate::dialect::FunctionCall| (call.name == "rm").then(|| "no".to_owned());
        document.withhold_calls(&mut partial, &mut refuse).unwrap();
        let mut step = ModelStep::default();
        step.push(&document).unwrap();
        let content: Value = serde_json::from_slice(&step.to_content().unwrap()).unwrap();
        assert_eq!(content["parts"], parts);
    }
}
