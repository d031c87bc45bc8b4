//! Collected edits of one content in a conversation.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::dialect::{
    content_form::keep_fields,
    document::Document,
    error::Result,
    google::{
        canonical_items::ContentItems,
        content::Content,
        fields::{FUNCTION_CALL, FUNCTION_RESPONSE, RESPONSE, SOURCE},
        part::Part,
    },
};

const SIGNATURE: &[&str] = &["thoughtSignature", "thought_signature"];

/// The edits of one content. Part indexes are those of the unedited content.
#[derive(Debug, Clone)]
pub struct ContentEdit {
    pub content: Content,
    /// Edited parts; `None` for removed ones.
    parts: Vec<Option<Part>>,
    /// Parts inserted in front, but behind gemini-cli's introduction.
    pub leading: Vec<Part>,
    /// Parts appended behind all others.
    added: Vec<Part>,
    /// Contents inserted after this one.
    following: Vec<Bytes>,
    /// Part indexes of repeated results, each with the index of the first equal one.
    repeats: Vec<(usize, usize)>,
    /// True if a result was replaced. Media are removed then, since they may belong to it.
    hides_result: bool,
    /// True if the whole content is removed.
    pub is_removed: bool,
    /// True if a denied request was removed. Parts that the agent added to it may be left.
    pub is_denied: bool,
}

impl ContentEdit {
    pub fn new(content: Content) -> Result<Self> {
        Ok(Self {
            parts: content.parts.iter().cloned().map(Some).collect(),
            repeats: ContentItems::read(&content.parts, content.role())?.repeats,
            content,
            leading: Vec::new(),
            added: Vec::new(),
            following: Vec::new(),
            hides_result: false,
            is_removed: false,
            is_denied: false,
        })
    }

    /// Replaces a tool result and its repeats by an error. Media of the content are removed,
    /// since they may belong to the result.
    pub fn replace_result(&mut self, part: usize, reason: &str) -> Result<()> {
        self.set_response(part, &json!({ "error": reason }))
    }

    /// Replaces a tool result and its repeats by a text. Media of the content are removed,
    /// since they may belong to the result.
    pub fn set_result_text(&mut self, part: usize, text: &str) -> Result<()> {
        self.set_response(part, &json!({ "output": text }))
    }

    fn set_response(&mut self, part: usize, response: &Value) -> Result<()> {
        self.hides_result = true;
        self.edit_result(part, |part| {
            keep_fields(part, &[FUNCTION_RESPONSE, SIGNATURE, &[SOURCE]].concat());
            part.edit_child(FUNCTION_RESPONSE, |result| {
                keep_fields(result, &["name", "id"]);
                result.set(RESPONSE, response)
            })
        })
    }

    /// Appends a text to a tool result: to `output`, else to its only string, else as
    /// `hook_context`.
    pub fn append_to_result(&mut self, part: usize, text: &str) -> Result<()> {
        self.edit_result(part, |part| {
            part.edit_child(FUNCTION_RESPONSE, |result| {
                let mut response = match result.get(RESPONSE)? {
                    Some(Value::Object(fields)) => fields,
                    Some(_) | None => Map::new(),
                };
                append_text(&mut response, text);
                result.set(RESPONSE, &response.into())
            })
        })
    }

    /// Appends a text part.
    pub fn append_text(&mut self, text: &str) -> Result<()> {
        self.added.push(Part::from_text(text)?);
        Ok(())
    }

    /// Inserts contents, as JSON, after this one.
    pub fn insert_after(&mut self, new: &[String]) -> Result<()> {
        for json in new {
            let inserted = Document::from_checked(Bytes::from(json.clone()))?;
            self.following.push(inserted.to_bytes());
        }
        Ok(())
    }

    /// Removes the parts of a denied request, and the content if none is kept.
    pub fn remove_request(&mut self, is_kept: impl Fn(usize) -> bool) {
        self.retain_parts(|index, _| is_kept(index));
        self.is_denied = true;
    }

    /// Removes the parts that `keep` rejects, and the content if none is left.
    pub fn retain_parts(&mut self, keep: impl Fn(usize, &Part) -> bool) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            part.take_if(|part| !keep(index, part));
        }
        self.is_removed |= self.parts.iter().all(Option::is_none);
    }

    /// Appends the edited content and those that follow it to `contents`. Those behind a denied
    /// request go with it.
    pub fn write(&self, contents: &mut Vec<Bytes>) -> Result<()> {
        if self.is_removed {
            return Ok(());
        }
        let kept = self.parts.iter().flatten();
        let kept = kept.filter(|part| !self.hides_result || !is_media(part));
        let mut parts: Vec<Part> = kept.cloned().collect();
        let introductions = parts.iter().take_while(|part| part.is_introduction());
        let front = introductions.count();
        parts.splice(front..front, self.leading.iter().cloned());
        parts.extend(self.added.iter().cloned());
        contents.push(self.content.with_parts(parts)?.document.to_bytes());
        if !self.is_denied {
            contents.extend(self.following.iter().cloned());
        }
        Ok(())
    }

    /// Edits the part of a result, and those that repeat it.
    fn edit_result(
        &mut self,
        part: usize,
        edit: impl Fn(&mut Document) -> Result<()>,
    ) -> Result<()> {
        let repeats = self.repeats.iter().filter(|(_, first)| *first == part);
        for index in repeats.map(|(repeat, _)| *repeat).chain([part]) {
            if let Some(Some(part)) = self.parts.get_mut(index) {
                edit(&mut part.document)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a part is neither text nor a call nor a result.
fn is_media(part: &Part) -> bool {
    let known = [FUNCTION_CALL, FUNCTION_RESPONSE];
    part.text.is_none() && !known.iter().any(|field| part.document.has(field))
}

fn append_text(response: &mut Map<String, Value>, text: &str) {
    let has_output = matches!(response.get("output"), Some(Value::String(_)));
    let strings = response.iter_mut().filter_map(|(key, value)| match value {
        Value::String(string) if !has_output || key == "output" => Some(string),
        _ => None,
    });
    let mut strings: Vec<&mut String> = strings.collect();
    if let [only] = strings.as_mut_slice() {
        only.push_str("\n\n");
        only.push_str(text);
    } else {
        response.insert("hook_context".to_owned(), text.into());
    }
}
