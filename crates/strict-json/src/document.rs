//! JSON objects whose fields are read on demand and edited in place.

mod layout_span;
mod size;

use std::{borrow::Cow, collections::BTreeMap, ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use self::layout_span::LayoutSpan;
use super::{DocumentError, Layout, Names, layout::Within, names::FieldSearch, unquote};

/// A JSON object. Fields are parsed when they are requested, and edits are spliced into the
/// original bytes, so that everything else keeps its bytes.
///
/// ```
/// use serde_json::json;
/// use strict_json::{Document, Names};
///
/// let text = br#"{ "model": "a", "n": 1.0 }"#;
/// let mut document = Document::parse(text.as_slice().into(), Names::Free)?;
/// assert_eq!(document.string(&["model"])?.as_deref(), Some("a"));
///
/// document.set(&["model"], &json!("b"))?;
/// assert_eq!(document.to_text(), r#"{ "model": "b", "n": 1.0 }"#);
/// # Ok::<(), strict_json::DocumentError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Document {
    /// INVARIANT: valid UTF-8 and one JSON object.
    pub(super) bytes: Bytes,
    /// Position in the layout; `None` for an object without fields.
    span: Option<LayoutSpan>,
    /// Boxed, because most documents have no edits and many are moved.
    pub(super) edits: Option<Box<Edits>>,
}

impl Default for Document {
    fn default() -> Self {
        Self::empty()
    }
}

/// Edits of the fields of a document.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    /// Edited fields of the text by their index in the layout; `None` if one is removed.
    pub text_fields: BTreeMap<usize, Option<Bytes>>,
    /// INVARIANT: no two have the same name, nor one the name of a field of the text.
    pub new_fields: Vec<NewField>,
}

/// A field that the text does not have.
#[derive(Debug, Clone)]
pub struct NewField {
    /// Key as JSON, with quotes.
    pub key: Bytes,
    /// The value; `None` if the field is removed.
    pub json: Option<Bytes>,
}

/// Position of a field.
#[derive(Debug, Clone, Copy)]
pub enum FieldPosition {
    /// Index in the layout of the text.
    Text(usize),
    /// Index in the new fields.
    New(usize),
}

/// Current bytes of a field or an element.
struct FieldText<'a> {
    bytes: Bytes,
    /// Layout and index of an unedited value.
    position: Option<(&'a Arc<Layout>, usize)>,
}

impl<'a> FieldText<'a> {
    /// Returns the value at an index of a layout. `bytes` are those of `span`.
    fn at(span: &'a LayoutSpan, bytes: &Bytes, index: usize) -> Option<Self> {
        Some(Self {
            bytes: bytes.slice(span.place(index)?),
            position: Some((&span.layout, index)),
        })
    }

    fn span(&self) -> Result<LayoutSpan, DocumentError> {
        match self.position {
            Some((layout, index)) if layout.within(index).is_some() => {
                Ok(LayoutSpan::at(layout, index))
            }
            // Edited, or deeper than the layout.
            Some(_) | None => LayoutSpan::new(&self.bytes, Names::Free),
        }
    }

    fn object(self) -> Result<Document, DocumentError> {
        let span = self.span()?;
        Ok(Document::new(self.bytes, Some(span)))
    }
}

impl Document {
    /// Parses a JSON object from an untrusted source. `names` decides which keys are equal.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no JSON object, or parsers could disagree about them.
    pub fn parse(bytes: Bytes, names: Names) -> Result<Self, DocumentError> {
        let span = LayoutSpan::new(&bytes, names)?;
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(DocumentError::Json("not a JSON object".to_owned()));
        }
        Ok(Self::new(bytes, Some(span)))
    }

    /// Reads a JSON object that is part of a parsed document, or was not received at all.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no JSON object.
    pub fn from_checked(bytes: Bytes) -> Result<Self, DocumentError> {
        Self::parse(bytes, Names::Free)
    }

    /// Returns an object without fields.
    pub fn empty() -> Self {
        Self::new(Bytes::from_static(b"{}"), None)
    }

    fn new(bytes: Bytes, span: Option<LayoutSpan>) -> Self {
        Self {
            bytes,
            span,
            edits: None,
        }
    }

    /// Returns the value of the field known under `spellings`.
    ///
    /// # Errors
    ///
    /// Fails if two spellings of the field are present, or one that a lenient parser could
    /// take for it. This holds for all lookups below.
    pub fn get(&self, spellings: &[&str]) -> Result<Option<Value>, DocumentError> {
        let text = self.text(spellings)?;
        let value = text
            .map(|text| serde_json::from_slice(&text.bytes))
            .transpose();
        value.map_err(|error| DocumentError::Json(error.to_string()))
    }

    /// Returns a string field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn string(&self, spellings: &[&str]) -> Result<Option<String>, DocumentError> {
        let Some(text) = self.typed(spellings, b'"', "a string")? else {
            return Ok(None);
        };
        match unquote(&text.bytes) {
            Some(text) => Ok(Some(text.into_owned())),
            None => Err(wrong_type(spellings, "a string")),
        }
    }

    /// Returns an object field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn child(&self, spellings: &[&str]) -> Result<Option<Self>, DocumentError> {
        let text = self.typed(spellings, b'{', "an object")?;
        text.map(FieldText::object).transpose()
    }

    /// Returns the elements of an array field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn list(&self, spellings: &[&str]) -> Result<Option<Vec<Bytes>>, DocumentError> {
        self.elements(spellings, |element| Ok(element.bytes))
    }

    /// Returns the elements of an array of objects; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn children(&self, spellings: &[&str]) -> Result<Option<Vec<Self>>, DocumentError> {
        self.elements(spellings, |element| match element.bytes.first() {
            Some(b'{') => element.object(),
            Some(_) | None => Err(wrong_type(spellings, "an array of objects")),
        })
    }

    fn elements<T>(
        &self,
        spellings: &[&str],
        read: impl Fn(FieldText<'_>) -> Result<T, DocumentError>,
    ) -> Result<Option<Vec<T>>, DocumentError> {
        let Some(array) = self.typed(spellings, b'[', "an array")? else {
            return Ok(None);
        };
        let span = array.span()?;
        // Not counted first, because each step may be a cache miss.
        let elements = span.within();
        let elements = elements.filter_map(|index| FieldText::at(&span, &array.bytes, index));
        elements.map(read).collect::<Result<_, _>>().map(Some)
    }

    /// Returns a field whose value begins with `first`; `None` if it is absent or `null`.
    fn typed(
        &self,
        spellings: &[&str],
        first: u8,
        expected: &'static str,
    ) -> Result<Option<FieldText<'_>>, DocumentError> {
        match self.text(spellings)? {
            Some(text) if text.bytes.first() == Some(&first) => Ok(Some(text)),
            Some(text) if *text.bytes != *b"null" => Err(wrong_type(spellings, expected)),
            Some(_) | None => Ok(None),
        }
    }

    /// Returns whether any field was edited.
    pub fn is_edited(&self) -> bool {
        self.edits.is_some()
    }

    /// Returns whether no field is left.
    pub fn is_empty(&self) -> bool {
        let mut kept = self.indexes().filter_map(|index| self.kept_key(index));
        kept.next().is_none() && self.new_fields().iter().all(|field| field.json.is_none())
    }

    /// Returns whether it has no field but those with the `known` names.
    pub fn has_only(&self, known: &[&str]) -> bool {
        self.fields().all(|(key, _)| known.contains(&&*key))
    }

    /// Returns whether a key at any depth may be spelled with escapes. Without any, a name that
    /// the text does not have is no key either.
    pub fn may_have_escaped_keys(&self) -> bool {
        let span = self.span.as_ref();
        self.is_edited() || span.is_some_and(|span| span.layout.has_escaped_keys)
    }

    /// Returns whether a field is present under `spellings`, or under a name that a lenient
    /// parser could take for one of them.
    pub fn has(&self, spellings: &[&str]) -> bool {
        !matches!(self.find(spellings), Ok(None))
    }

    /// Returns the fields with their current values: those of the text in order, then new ones.
    pub fn fields(&self) -> impl Iterator<Item = (Cow<'_, str>, Bytes)> {
        let original = self.places().filter_map(|(index, key, value)| {
            let json = match self.text_edit(index) {
                Some(edit) => edit.clone()?,
                None => self.bytes.slice(value),
            };
            Some((unquote(self.bytes.get(key)?)?, json))
        });
        let new = self.new_fields().iter();
        original.chain(new.filter_map(|field| Some((unquote(&field.key)?, field.json.clone()?))))
    }

    /// Returns the JSON of the field known under `spellings`.
    pub fn bytes_of(&self, spellings: &[&str]) -> Result<Option<Bytes>, DocumentError> {
        Ok(self.text(spellings)?.map(|text| text.bytes))
    }

    fn text(&self, spellings: &[&str]) -> Result<Option<FieldText<'_>>, DocumentError> {
        let position = self.find(spellings)?;
        Ok(position.and_then(|position| self.text_at(position)))
    }

    fn text_at(&self, position: FieldPosition) -> Option<FieldText<'_>> {
        let json = match position {
            FieldPosition::New(index) => self.new_fields().get(index)?.json.as_ref(),
            FieldPosition::Text(index) => match self.text_edit(index) {
                Some(edit) => edit.as_ref(),
                None => return FieldText::at(self.span.as_ref()?, &self.bytes, index),
            },
        };
        Some(FieldText {
            bytes: json?.clone(),
            position: None,
        })
    }

    /// Returns the position of the field known under `spellings`.
    ///
    /// INVARIANT: a field that is treated as unknown here is unknown to every parser,
    /// including ones that ignore case.
    pub(super) fn find(&self, spellings: &[&str]) -> Result<Option<FieldPosition>, DocumentError> {
        let mut search = FieldSearch::new(spellings);
        for index in self.indexes() {
            if let Some(key) = self.kept_key(index) {
                search.add(key, FieldPosition::Text(index))?;
            }
        }
        for (index, field) in self.new_fields().iter().enumerate() {
            if field.json.is_some() {
                search.add(&field.key, FieldPosition::New(index))?;
            }
        }
        Ok(search.found)
    }

    /// Returns the indexes of the original fields in the layout.
    #[inline]
    fn indexes(&self) -> Within<'_> {
        let span = self.span.as_ref();
        span.map(LayoutSpan::within).unwrap_or_default()
    }

    /// Returns the key of the field at an index, unless it is removed.
    #[inline]
    fn kept_key(&self, index: usize) -> Option<&[u8]> {
        let key = self.bytes.get(self.span.as_ref()?.key(index)?)?;
        let is_removed = self.text_edit(index).is_some_and(Option::is_none);
        (!is_removed).then_some(key)
    }

    /// Returns the edit of the field at an index in the layout, if it has one.
    #[inline]
    pub(super) fn text_edit(&self, index: usize) -> Option<&Option<Bytes>> {
        self.edits.as_ref()?.text_fields.get(&index)
    }

    /// Returns the fields that the text does not have.
    pub(super) fn new_fields(&self) -> &[NewField] {
        let edits = self.edits.as_ref();
        edits.map_or(&[], |edits| edits.new_fields.as_slice())
    }

    /// Returns the names and positions of all fields, removed ones included.
    pub(super) fn positions(&self) -> impl Iterator<Item = (Cow<'_, str>, FieldPosition)> {
        let original = self.places().filter_map(|(index, key, _)| {
            let name = unquote(self.bytes.get(key)?)?;
            Some((name, FieldPosition::Text(index)))
        });
        let new = self.new_fields().iter().enumerate();
        let new = new
            .filter_map(|(index, field)| Some((unquote(&field.key)?, FieldPosition::New(index))));
        original.chain(new)
    }

    /// Returns the index of each field of the text, edited or not, and the places of its key and
    /// its value.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        let span = self.span.as_ref();
        let indexes = self.indexes();
        indexes.filter_map(move |index| Some((index, span?.key(index)?, span?.place(index)?)))
    }
}

fn wrong_type(spellings: &[&str], expected: &'static str) -> DocumentError {
    let field = spellings.first().copied().unwrap_or_default().to_owned();
    let expected = expected.into();
    DocumentError::Field { field, expected }
}

#[cfg(test)]
mod tests;
