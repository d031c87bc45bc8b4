//! Edits of top-level fields, and serialization of the edited object.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use super::{
    DocumentError,
    document::{Document, FieldPosition, NewField},
};

impl Document {
    /// Sets the field known under `spellings`; a new field gets the first one.
    pub fn set(&mut self, spellings: &[&str], value: &Value) -> Result<(), DocumentError> {
        self.set_bytes(spellings, value.to_string().into())
    }

    /// Sets a field to serialized JSON.
    pub fn set_bytes(&mut self, spellings: &[&str], json: Bytes) -> Result<(), DocumentError> {
        let name = spellings.first().copied().unwrap_or_default();
        let position = self.find(spellings)?;
        match position.or_else(|| self.removed(name)) {
            Some(position) => self.edit(position, Some(json)),
            None => self.add(name, json),
        }
        Ok(())
    }

    /// Sets fields, and removes those without a value, by their exact names. It takes linear time:
    /// the other methods search the whole object for each field.
    pub fn write_fields(
        &mut self,
        fields: impl IntoIterator<Item = (impl AsRef<str>, Option<Bytes>)>,
    ) {
        let mut fields = fields.into_iter().peekable();
        if fields.peek().is_none() {
            return;
        }
        let positions = self.positions();
        let positions = positions.map(|(name, position)| (name.into_owned(), position));
        let mut positions: HashMap<String, FieldPosition> = positions.collect();
        for (name, json) in fields {
            let name = name.as_ref();
            match (positions.get(name).copied(), json) {
                (Some(position), json) => self.edit(position, json),
                (None, Some(json)) => {
                    let position = FieldPosition::New(self.new_fields().len());
                    positions.insert(name.to_owned(), position);
                    self.add(name, json);
                }
                (None, None) => (),
            }
        }
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
        if let Some(position) = self.find(spellings)? {
            self.edit(position, None);
        }
        Ok(())
    }

    fn edit(&mut self, position: FieldPosition, json: Option<Bytes>) {
        let edits = self.edits.get_or_insert_default();
        match position {
            FieldPosition::Text(index) => drop(edits.text_fields.insert(index, json)),
            FieldPosition::New(index) => {
                if let Some(field) = edits.new_fields.get_mut(index) {
                    field.json = json;
                }
            }
        }
    }

    fn add(&mut self, name: &str, json: Bytes) {
        let key = Value::from(name).to_string().into();
        let json = Some(json);
        let edits = self.edits.get_or_insert_default();
        edits.new_fields.push(NewField { key, json });
    }

    /// Returns the position of a removed field, which a new one of its name takes.
    fn removed(&self, name: &str) -> Option<FieldPosition> {
        let edits = self.edits.as_ref()?;
        let has_removed = edits.text_fields.values().any(Option::is_none)
            || edits.new_fields.iter().any(|field| field.json.is_none());
        if !has_removed {
            return None;
        }
        let (_, position) = self.positions().find(|(known, _)| known == name)?;
        Some(position)
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
        for (index, key, value) in self.places() {
            let edit = self.text_edit(index);
            let is_removed = edit.is_some_and(Option::is_none);
            // What precedes the first field is the opening brace, else a comma.
            if end == 0 || !(is_removed || is_empty) {
                out.extend(text(end, key.start));
            }
            end = value.end;
            if !is_removed {
                out.extend(text(key.start, value.start));
                let json = edit.and_then(Option::as_deref);
                out.extend(json.unwrap_or_else(|| text(value.start, value.end)));
                is_empty = false;
            }
        }
        let brace = self.bytes.iter().rposition(|byte| *byte == b'}');
        let brace = brace.unwrap_or(end);
        out.extend(text(end, brace));
        for field in self.new_fields() {
            if let Some(json) = &field.json {
                let separator: &[u8] = if is_empty { b"" } else { b"," };
                out.extend([separator, &field.key, b":", json].concat());
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
