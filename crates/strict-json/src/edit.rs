//! Edits of top-level fields, and serialization of the edited object.

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use super::{
    DocumentError,
    document::{Document, FieldEdit},
};

impl Document {
    /// Sets the field known under `spellings`; a new field gets the first one.
    pub fn set(&mut self, spellings: &[&str], value: &Value) -> Result<(), DocumentError> {
        self.set_bytes(spellings, value.to_string().into())
    }

    /// Sets a field to serialized JSON.
    pub fn set_bytes(&mut self, spellings: &[&str], json: Bytes) -> Result<(), DocumentError> {
        let known = self.find(spellings)?.map(|(key, _)| key.to_vec());
        let new = || Value::from(spellings.first().copied()).to_string().into();
        let key = known.map_or_else(new, Bytes::from);
        self.edit(key, Some(json));
        Ok(())
    }

    /// Sets a field to a document.
    pub fn set_child(&mut self, spellings: &[&str], child: &Self) -> Result<(), DocumentError> {
        self.set_bytes(spellings, child.to_bytes())
    }

    /// Sets a field to an array of documents.
    pub fn set_children<'a>(
        &mut self,
        spellings: &[&str],
        list: impl IntoIterator<Item = &'a Self>,
    ) -> Result<(), DocumentError> {
        let elements = list.into_iter().map(Self::to_bytes);
        self.set_bytes(spellings, write_array(elements))
    }

    /// Edits an object field in place, if it is present.
    pub fn edit_child(
        &mut self,
        spellings: &[&str],
        edit: impl FnOnce(&mut Self) -> Result<(), DocumentError>,
    ) -> Result<(), DocumentError> {
        let Some(mut child) = self.child(spellings)? else {
            return Ok(());
        };
        edit(&mut child)?;
        if child.is_edited() {
            self.set_child(spellings, &child)?;
        }
        Ok(())
    }

    /// Edits the elements of an array of objects in place.
    pub fn edit_children(
        &mut self,
        spellings: &[&str],
        edit: impl FnMut(&mut Self) -> Result<(), DocumentError>,
    ) -> Result<(), DocumentError> {
        let mut children = self.children(spellings)?.unwrap_or_default();
        children.iter_mut().try_for_each(edit)?;
        if children.iter().any(Self::is_edited) {
            self.set_children(spellings, &children)?;
        }
        Ok(())
    }

    /// Removes the field known under `spellings`.
    pub fn remove(&mut self, spellings: &[&str]) -> Result<(), DocumentError> {
        if let Some((key, _)) = self.find(spellings)? {
            let key = Bytes::copy_from_slice(key);
            self.edit(key, None);
        }
        Ok(())
    }

    fn edit(&mut self, key: Bytes, json: Option<Bytes>) {
        match self.edits.iter_mut().find(|edit| edit.key == key) {
            Some(edit) => edit.json = json,
            None => self.edits.push(FieldEdit { key, json }),
        }
    }

    /// Returns the bytes that it was parsed from, without edits.
    pub fn original_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Returns the edited document: the original bytes with the edits spliced in.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited() {
            return self.bytes.clone();
        }
        let text = |from: usize, to: usize| self.bytes.get(from..to).unwrap_or_default();
        let mut out = Vec::with_capacity(self.bytes.len());
        let (mut end, mut is_empty) = (0, true);
        let mut new: Vec<&FieldEdit> = self.edits.iter().collect();
        for (key, value) in self.places() {
            let edit = self.edit_of(text(key.start, key.end));
            let is_removed = edit.is_some_and(|edit| edit.json.is_none());
            new.retain(|new| edit.is_none_or(|edit| new.key != edit.key));
            // What precedes the first field is the opening brace, else a comma.
            if end == 0 || !(is_removed || is_empty) {
                out.extend(text(end, key.start));
            }
            end = value.end;
            if !is_removed {
                out.extend(text(key.start, value.start));
                let json = edit.and_then(|edit| edit.json.as_deref());
                out.extend(json.unwrap_or_else(|| text(value.start, value.end)));
                is_empty = false;
            }
        }
        let brace = self.bytes.iter().rposition(|byte| *byte == b'}');
        let brace = brace.unwrap_or(end);
        out.extend(text(end, brace));
        for edit in new {
            if let Some(json) = &edit.json {
                let separator: &[u8] = if is_empty { b"" } else { b"," };
                out.extend([separator, &edit.key, b":", json].concat());
                is_empty = false;
            }
        }
        out.extend(text(brace, self.bytes.len()));
        out.into()
    }

    /// Returns the edited document as text.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_bytes()).into_owned()
    }

    /// Returns the edited document for hooks that receive it whole.
    pub fn to_raw(&self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.to_text()).ok()
    }
}

/// Writes a JSON array of serialized elements.
pub fn write_array(elements: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Bytes {
    let mut out = vec![b'['];
    for (position, element) in elements.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend(element.as_ref());
    }
    out.push(b']');
    out.into()
}
