//! Edits of top-level fields.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{
        field::{Edit, Field},
        object::Document,
        serialize::write_array,
    },
    error::DialectError,
};

impl Document {
    /// Sets the field known under `spellings`; a new field gets the first one.
    pub fn set(&mut self, spellings: &[&str], value: &Value) -> Result<(), DialectError> {
        self.set_bytes(spellings, value.to_string().into())
    }

    /// Sets a field to serialized JSON.
    pub fn set_bytes(&mut self, spellings: &[&str], json: Bytes) -> Result<(), DialectError> {
        self.edit(spellings, Edit::Set(json))
    }

    /// Sets a field to a document.
    pub fn set_child(&mut self, spellings: &[&str], child: &Self) -> Result<(), DialectError> {
        self.set_bytes(spellings, child.to_bytes())
    }

    /// Sets a field to an array of documents.
    pub fn set_children<'a>(
        &mut self,
        spellings: &[&str],
        list: impl IntoIterator<Item = &'a Self>,
    ) -> Result<(), DialectError> {
        let elements = list.into_iter().map(Self::to_bytes);
        self.set_bytes(spellings, write_array(elements))
    }

    /// Edits an object field in place, if it is present.
    pub(crate) fn edit_child(
        &mut self,
        spellings: &[&str],
        edit: impl FnOnce(&mut Self) -> Result<(), DialectError>,
    ) -> Result<(), DialectError> {
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
    pub(crate) fn edit_children(
        &mut self,
        spellings: &[&str],
        edit: impl FnMut(&mut Self) -> Result<(), DialectError>,
    ) -> Result<(), DialectError> {
        let mut children = self.children(spellings)?.unwrap_or_default();
        children.iter_mut().try_for_each(edit)?;
        if children.iter().any(Self::is_edited) {
            self.set_children(spellings, &children)?;
        }
        Ok(())
    }

    /// Removes the field known under `spellings`.
    pub fn remove(&mut self, spellings: &[&str]) -> Result<(), DialectError> {
        self.edit(spellings, Edit::Remove)
    }

    fn list_fields(&mut self) -> &mut Vec<Field> {
        if self.listed.is_none() {
            let fields = self.unlisted().map(|(index, key)| Field {
                key: key.text(),
                place: self.place(index),
                index: Some(index),
                edit: None,
            });
            self.listed = Some(fields.collect());
        }
        self.listed.get_or_insert_default()
    }

    fn edit(&mut self, spellings: &[&str], edit: Edit) -> Result<(), DialectError> {
        self.list_fields();
        let known = self.find(spellings)?.map(|field| field.key.clone());
        let fields = self.list_fields();
        let is_known = |field: &&mut Field| Some(&field.key) == known.as_ref();
        if let Some(field) = fields.iter_mut().find(is_known) {
            field.edit = Some(edit);
        } else if let (Edit::Set(_), Some(key)) = (&edit, spellings.first()) {
            fields.push(Field {
                key: (*key).into(),
                place: None,
                index: None,
                edit: Some(edit),
            });
        }
        Ok(())
    }
}
