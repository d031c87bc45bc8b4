//! Collected edits of one content in a conversation.

use bytes::Bytes;
use serde_json::{Value, json};

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
            keep_fields(part, &[FUNCTION_RESPONSE, SIGNATURE, &[SOURCE]].concat())?;
            part.edit_child(FUNCTION_RESPONSE, |result| {
                keep_fields(result, &["name", "id"])?;
                result.set(RESPONSE, response)
            })
        })
    }

    /// Appends a text to a tool result: to `output`, else to its only string, else as
    /// `hook_context`.
    pub fn append_to_result(&mut self, part: usize, text: &str) -> Result<()> {
        self.edit_result(part, |part| {
            part.edit_child(FUNCTION_RESPONSE, |result| {
                let response = match result.get(RESPONSE)? {
                    Some(Value::Object(_)) => result.child(RESPONSE)?,
                    Some(_) | None => None,
                };
                let mut response = response.unwrap_or_default();
                append_text(&mut response, text)?;
                result.set_child(RESPONSE, &response)
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

    /// Removes all parts but gemini-cli's introduction in front of a first prompt.
    pub fn remove_prompt(&mut self, is_first: bool) {
        let may_have_introduction = is_first && self.parts.len() > 1;
        let first = self.parts.first_mut().filter(|_| may_have_introduction);
        let introduction = first.and_then(|part| part.take_if(|part| part.is_introduction()));
        self.retain_parts(|_| false);
        if let (Some(first), Some(introduction)) = (self.parts.first_mut(), introduction) {
            *first = Some(introduction);
            self.is_removed = false;
        }
    }

    /// Removes the parts that `keep` rejects, and the content if none is left.
    pub fn retain_parts(&mut self, keep: impl Fn(&Part) -> bool) {
        for part in &mut self.parts {
            part.take_if(|part| !keep(part));
        }
        self.is_removed |= self.parts.iter().all(Option::is_none);
    }

    /// Appends the edited content and those that follow it to `contents`.
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
        contents.extend(self.following.iter().cloned());
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

fn append_text(response: &mut Document, text: &str) -> Result<()> {
    let mut strings = Vec::new();
    for (key, _) in response.fields() {
        if let Some(Value::String(value)) = response.get(&[&*key])? {
            strings.push((key.into_owned(), value));
        }
    }
    let output = strings.iter().find(|(key, _)| key == "output");
    match (output, strings.as_slice()) {
        (Some((key, value)), _) | (None, [(key, value)]) => {
            response.set(&[key], &json!(format!("{value}\n\n{text}")))
        }
        _ => response.set(&["hook_context"], &json!(text)),
    }
}
