//! Data of the API that a part does not show and that a conversation must have when it is sent
//! back: the thinking blocks in front of a part, and fields of its call.

use std::collections::HashSet;

use bytes::Bytes;

use crate::dialect::{
    anthropic::fields::{TEXT, type_of},
    content_form::PRECEDING,
    document::{Document, write_array},
    error::Result,
};

/// Maximum size of the blocks that are kept for one part.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The place of a text between thinking blocks.
const TEXT_PLACE: &[u8] = br#"{"type":"text"}"#;

/// Fields of a call that its part shows.
const CALL_FIELDS: &[&str] = &["id", "input", "name", "type"];

/// Appends a piece of thinking or of its signature. What is beyond the limit belongs to a block
/// that is not kept.
pub fn append_thinking(text: &mut String, piece: &str) {
    if text.len() <= MAX_BYTES {
        text.push_str(piece);
    }
}

/// The thinking blocks since the latest call, and the places of the texts between them.
#[derive(Debug, Default)]
pub struct PrecedingBlocks {
    /// Thinking blocks in front of hosted blocks. The call has them, too, because it may be sent
    /// back alone.
    of_hosted: Vec<Bytes>,
    blocks: Vec<Bytes>,
    /// Number of texts behind the latest thinking block.
    texts: usize,
    bytes: usize,
}

impl PrecedingBlocks {
    /// Adds a thinking block. Beyond the limit, none is kept.
    pub fn push(&mut self, block: Bytes) {
        for _ in 0..std::mem::take(&mut self.texts) {
            self.add(Bytes::from_static(TEXT_PLACE));
        }
        self.add(block);
    }

    /// Adds the place of a text block.
    pub const fn push_text(&mut self) {
        self.texts += 1;
    }

    /// Adds the blocks, and the fields of a call that it does not show, to the part of `block`.
    /// Texts and thoughts have none.
    pub fn attach(&mut self, part: &mut Document, block: &Document) -> Result<()> {
        if part.has(TEXT) {
            return Ok(());
        }
        self.texts = 0;
        let is_call = type_of(block)? == "tool_use";
        let mut blocks = std::mem::take(&mut self.blocks);
        if is_call {
            blocks.splice(..0, std::mem::take(&mut self.of_hosted));
            if !block.has_only(CALL_FIELDS) {
                let mut fields = block.clone();
                fields.remove(&["input"])?;
                blocks.push(fields.to_bytes());
            }
        } else {
            let thinking = blocks.iter().filter(|block| **block != TEXT_PLACE);
            self.of_hosted.extend(thinking.cloned());
        }
        if self.bytes <= MAX_BYTES && !blocks.is_empty() {
            part.set_bytes(&[PRECEDING], write_array(blocks))?;
        }
        if is_call {
            self.bytes = 0;
        }
        Ok(())
    }

    fn add(&mut self, block: Bytes) {
        self.bytes = self.bytes.saturating_add(block.len());
        if self.bytes <= MAX_BYTES {
            self.blocks.push(block);
        }
    }
}

/// Returns the thinking blocks in front of a part that are not `written` yet, with `texts` in
/// their places.
pub fn in_front_of(
    part: &Document,
    texts: Vec<Bytes>,
    written: &mut HashSet<Bytes>,
) -> Result<Vec<Bytes>> {
    let mut thinking = Vec::new();
    let mut places = Vec::new();
    for block in part.children(&[PRECEDING])?.unwrap_or_default() {
        match type_of(&block)?.as_str() {
            "text" => places.push(thinking.len()),
            "tool_use" => (),
            _ => {
                let block = block.to_bytes();
                if written.insert(block.clone()) {
                    thinking.push(block);
                }
            }
        }
    }
    if places.len() > texts.len() {
        // Neighbours are merged to one text.
        places.dedup();
    }
    if places.len() > texts.len() {
        // A hook may have removed texts.
        places.clear();
    }
    let mut places = places.into_iter();
    let mut blocks = thinking.clone();
    for (number, text) in texts.into_iter().enumerate() {
        let place = places.next().unwrap_or(thinking.len());
        blocks.insert(place + number, text);
    }
    Ok(blocks)
}

/// Returns the block of a call with the fields that its part does not show.
pub fn add_call_fields(part: &Document, call: Bytes) -> Result<Bytes> {
    let mut preceding = part.children(&[PRECEDING])?.unwrap_or_default();
    let Some(original) = preceding.pop() else {
        return Ok(call);
    };
    if type_of(&original)? != "tool_use" {
        return Ok(call);
    }
    let mut call = Document::from_checked(call)?;
    let known: HashSet<String> = call.fields().map(|(field, _)| field.into_owned()).collect();
    let missing = original.fields();
    let missing = missing.filter(|(field, _)| !known.contains(&**field));
    call.write_fields(missing.map(|(field, value)| (field, Some(value))));
    Ok(call.to_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::document::to_document;

    fn bytes(block: &Value) -> Bytes {
        block.to_string().into()
    }

    #[test]
    fn texts_are_in_their_places_between_thinking() {
        let thinking = |text: &str| json!({ "type": "thinking", "thinking": text });
        let text = |text: &str| bytes(&json!({ "type": "text", "text": text }));
        let call = to_document(&json!({ "type": "tool_use", "id": "t", "name": "f" })).unwrap();
        let mut preceding = PrecedingBlocks::default();
        preceding.push(bytes(&thinking("1")));
        preceding.push_text();
        preceding.push(bytes(&thinking("2")));
        preceding.push_text();
        let mut part = to_document(&json!({ "functionCall": {} })).unwrap();
        preceding.attach(&mut part, &call).unwrap();

        let in_front = |texts| in_front_of(&part, texts, &mut HashSet::new()).unwrap();

        let (one, two) = (bytes(&thinking("1")), bytes(&thinking("2")));
        let (a, b) = (text("a"), text("b"));
        let all = in_front(vec![a.clone(), b.clone()]);
        assert_eq!(all, [one.clone(), a, two.clone(), b]);
        assert_eq!(in_front(Vec::new()), [one, two]);
    }

    #[test]
    fn a_call_keeps_the_fields_that_its_part_does_not_show() {
        let call = json!({ "type": "tool_use", "id": "t", "name": "f", "input": { "a": 1 }, "caller": { "type": "direct" } });
        let mut part = to_document(&json!({ "functionCall": {} })).unwrap();
        let block = to_document(&call).unwrap();
        PrecedingBlocks::default()
            .attach(&mut part, &block)
            .unwrap();
        let edited = json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} });

        let written = add_call_fields(&part, bytes(&edited)).unwrap();

        let written: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written["caller"], call["caller"]);
        assert_eq!(written["input"], json!({}));
    }
}
