//! What becomes of one content of a conversation: edits, collected until all of
//! it is written. Pure.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    DialectError, Document,
    canonical::Items,
    contents::Content,
    part::{FUNCTION_CALL, FUNCTION_RESPONSE, Part},
};

const SIGNATURE: &[&str] = &["thoughtSignature", "thought_signature"];

/// What becomes of one content.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) content: Content,
    /// Its parts in their places; none for one that goes.
    parts: Vec<Option<Part>>,
    /// Parts in front of them, but behind what gemini-cli tells of itself.
    pub(super) leading: Vec<Part>,
    /// Parts behind them.
    pub(super) added: Vec<Part>,
    /// Contents behind it.
    pub(super) following: Vec<Bytes>,
    /// Results that are said more than once: the places of the later ones and of
    /// the first.
    repeats: Vec<(usize, usize)>,
    /// Whether a result of it is hidden. Media go with it: they may be a part of
    /// what is hidden.
    hides: bool,
    /// Whether all of it goes.
    pub(super) gone: bool,
}

impl Change {
    /// None yet.
    pub(super) fn new(content: Content) -> Result<Self, DialectError> {
        Ok(Self {
            parts: content.parts.iter().cloned().map(Some).collect(),
            repeats: Items::of(&content.parts, content.role())?.repeats,
            content,
            leading: Vec::new(),
            added: Vec::new(),
            following: Vec::new(),
            hides: false,
            gone: false,
        })
    }

    /// Says an error in the place of a result, wherever the content says that
    /// result.
    pub(super) fn replace_result(&mut self, part: usize, reason: &str) -> Result<(), DialectError> {
        self.hides = true;
        self.edit_result(part, |part| {
            keep_only(part, &[FUNCTION_RESPONSE, SIGNATURE].concat())?;
            edit_child(part, |result| {
                keep_only(result, &["name", "id"])?;
                result.set(&["response"], &json!({ "error": reason }))
            })
        })
    }

    /// Appends a text to a result: to `output`, else to its only text, else as
    /// `hook_context`.
    pub(super) fn append(&mut self, part: usize, text: &str) -> Result<(), DialectError> {
        self.edit_result(part, |part| {
            edit_child(part, |result| {
                let response = match result.get(&["response"])? {
                    Some(Value::Object(_)) => result.child(&["response"])?,
                    Some(_) | None => None,
                };
                let mut response = response.map_or_else(Document::empty, Ok)?;
                append(&mut response, text)?;
                result.set_child(&["response"], &response)
            })
        })
    }

    /// Takes out all but what gemini-cli tells of itself in front of a first prompt.
    pub(super) fn take_out_prompt(&mut self, is_first: bool) {
        let introduced = is_first && self.parts.len() > 1;
        let first = self.parts.first_mut().filter(|_| introduced);
        let first = first.and_then(|it| it.take_if(|it| it.is_introduction()));
        self.take_out(|_| false);
        if let (Some(place), Some(first)) = (self.parts.first_mut(), first) {
            *place = Some(first);
            self.gone = false;
        }
    }

    /// Takes out the parts that `keep` does not keep; all of it, if none is left.
    pub(super) fn take_out(&mut self, keep: impl Fn(&Part) -> bool) {
        for part in &mut self.parts {
            part.take_if(|it| !keep(it));
        }
        self.gone |= self.parts.iter().all(Option::is_none);
    }

    /// Writes what is left of it, and what follows it, behind `all`.
    pub(super) fn write(&self, all: &mut Vec<Bytes>) -> Result<(), DialectError> {
        if self.gone {
            return Ok(());
        }
        let kept = self.parts.iter().flatten();
        let kept = kept.filter(|it| !self.hides || !is_media(it));
        let mut parts: Vec<Part> = kept.cloned().collect();
        let front = parts.iter().take_while(|it| it.is_introduction()).count();
        parts.splice(front..front, self.leading.iter().cloned());
        parts.extend(self.added.iter().cloned());
        all.push(self.content.with_parts(parts)?.document().to_bytes());
        all.extend(self.following.iter().cloned());
        Ok(())
    }

    /// Edits the part of a function response, and those that repeat it.
    fn edit_result(
        &mut self,
        part: usize,
        edit: impl Fn(&mut Document) -> Result<(), DialectError>,
    ) -> Result<(), DialectError> {
        let repeats = self.repeats.iter().filter(|it| it.1 == part);
        for same in repeats.map(|it| it.0).chain([part]) {
            let Some(part) = self.parts.get_mut(same).and_then(Option::as_mut) else {
                continue;
            };
            edit(&mut part.document)?;
        }
        Ok(())
    }
}

/// Edits the function response of a part.
fn edit_child(
    part: &mut Document,
    edit: impl FnOnce(&mut Document) -> Result<(), DialectError>,
) -> Result<(), DialectError> {
    let Some(mut result) = part.child(FUNCTION_RESPONSE)? else {
        return Ok(());
    };
    edit(&mut result)?;
    part.set_child(FUNCTION_RESPONSE, &result)
}

/// Takes out every other field.
fn keep_only(document: &mut Document, kept: &[&str]) -> Result<(), DialectError> {
    let fields = document.fields().map(|it| it.0.to_string());
    let others: Vec<String> = fields.filter(|it| !kept.contains(&it.as_str())).collect();
    for field in others {
        document.remove(&[&field])?;
    }
    Ok(())
}

/// Neither text nor a call nor a result.
fn is_media(part: &Part) -> bool {
    let known = [FUNCTION_CALL, FUNCTION_RESPONSE];
    part.text.is_none() && !known.iter().any(|it| part.document.has(it))
}

fn append(response: &mut Document, text: &str) -> Result<(), DialectError> {
    let mut texts = Vec::new();
    for (key, _) in response.fields() {
        if let Some(Value::String(said)) = response.get(&[&key])? {
            texts.push((key, said));
        }
    }
    let output = texts.iter().find(|it| it.0 == "output");
    let only = if texts.len() == 1 {
        texts.first()
    } else {
        None
    };
    match output.or(only) {
        Some((key, said)) => response.set(&[key], &json!(format!("{said}\n\n{text}"))),
        None => response.set(&["hook_context"], &json!(text)),
    }
}
