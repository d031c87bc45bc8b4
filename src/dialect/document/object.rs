//! Reading of JSON objects.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use compact_str::CompactString;
use serde_json::{Value, value::RawValue};
use strict_json::Layout;

use crate::dialect::{
    document::{
        field::{Edit, Field},
        key::{FieldKey, Likeness, find_one},
        serialize,
        span::LayoutSpan,
    },
    error::DialectError,
    json::{self, from_utf8},
};

/// A JSON object. Its fields are found through the layout of the text that it was parsed
/// from. A list of fields is made only for an edit, or if there is no layout.
#[derive(Debug, Clone)]
pub struct Document {
    /// INVARIANT: valid UTF-8 and one JSON object.
    bytes: Bytes,
    /// Position in the layout, if there is one.
    span: Option<LayoutSpan>,
    /// Fields in order; `None` if there is a layout and no edit.
    /// INVARIANT: no two have the same key.
    pub(crate) listed: Option<Vec<Field>>,
}

/// Current bytes of a field, and its index in the layout if it is unedited.
struct FieldText {
    bytes: Bytes,
    index: Option<usize>,
}

impl Document {
    /// Parses a JSON object from an untrusted source.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no JSON object, or parsers could disagree about them.
    pub fn parse(bytes: Bytes) -> Result<Self, DialectError> {
        let layout = Arc::new(json::document_layout(&bytes)?);
        Self::from_layout(bytes, &layout, 0)
    }

    /// Creates the object at `index` in a layout.
    fn from_layout(bytes: Bytes, layout: &Arc<Layout>, index: usize) -> Result<Self, DialectError> {
        let (Some(place), Some(_)) = (layout.place(index), layout.within(index)) else {
            return Self::split(bytes);
        };
        let text = bytes.trim_ascii_start();
        if text.first() != Some(&b'{') {
            return Err(not_an_object());
        }
        let span = LayoutSpan {
            layout: Arc::clone(layout),
            index,
            start: place.start - (bytes.len() - text.len()),
        };
        Ok(Self {
            bytes,
            span: Some(span),
            listed: None,
        })
    }

    /// Lists the fields of a JSON object that is part of a parsed document, or our own.
    pub(crate) fn split(bytes: Bytes) -> Result<Self, DialectError> {
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(not_an_object());
        }
        let fields = json::split_object(&bytes)?.into_iter();
        let fields = fields.map(|(key, place)| Field {
            key,
            place: Some(place),
            index: None,
            edit: None,
        });
        Ok(Self {
            span: None,
            listed: Some(fields.collect()),
            bytes,
        })
    }

    /// Returns an object without fields.
    pub fn empty() -> Self {
        Self {
            bytes: Bytes::from_static(b"{}"),
            span: None,
            listed: Some(Vec::new()),
        }
    }

    /// Returns the edited document for hooks that receive it whole.
    pub fn to_raw(&self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.to_text()).ok()
    }

    /// Returns the edited document as text.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_bytes()).into_owned()
    }

    /// Returns the edited document: the original bytes with the edits spliced in.
    pub fn to_bytes(&self) -> Bytes {
        if self.is_edited() {
            serialize::apply_edits(&self.bytes, self.listed())
        } else {
            self.bytes.clone()
        }
    }

    /// Returns the value of the field known under `spellings`.
    ///
    /// # Errors
    ///
    /// Fails if two spellings of the field are present, or one that a lenient parser could
    /// take for it. This holds for all lookups below.
    pub fn get(&self, spellings: &[&str]) -> Result<Option<Value>, DialectError> {
        let Some(bytes) = self.bytes_of(spellings)? else {
            return Ok(None);
        };
        json::parse_checked(from_utf8(&bytes)?).map(Some)
    }

    /// Returns a string field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn string(&self, spellings: &[&str]) -> Result<Option<String>, DialectError> {
        let text = self.typed(spellings, b'"', "a string")?;
        text.map(|text| json::unquote(&text.bytes)).transpose()
    }

    /// Returns an object field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn child(&self, spellings: &[&str]) -> Result<Option<Self>, DialectError> {
        let text = self.typed(spellings, b'{', "an object")?;
        text.map(|text| self.object(text)).transpose()
    }

    /// Returns the elements of an array field; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn list(&self, spellings: &[&str]) -> Result<Option<Vec<Bytes>>, DialectError> {
        let array = self.typed(spellings, b'[', "an array")?;
        Ok(array.map(|array| {
            let elements = self.elements(&array).into_iter();
            elements.map(|element| element.bytes).collect()
        }))
    }

    /// Returns the elements of an array of objects; `None` if it is absent or `null`.
    ///
    /// # Errors
    ///
    /// Fails for every other type.
    pub fn children(&self, spellings: &[&str]) -> Result<Option<Vec<Self>>, DialectError> {
        let Some(array) = self.typed(spellings, b'[', "an array")? else {
            return Ok(None);
        };
        let elements = self.elements(&array);
        let mut objects = Vec::with_capacity(elements.len());
        for element in elements {
            if element.bytes.first() != Some(&b'{') {
                return Err(wrong_type(spellings, "an array of objects"));
            }
            objects.push(self.object(element)?);
        }
        Ok(Some(objects))
    }

    /// Returns whether an array field has elements.
    ///
    /// # Errors
    ///
    /// Fails if the field is neither an array nor `null`.
    pub(crate) fn has_elements(&self, spellings: &[&str]) -> Result<bool, DialectError> {
        let array = self.typed(spellings, b'[', "an array")?;
        let inner = array
            .and_then(|array| Some(array.bytes.get(1..)?.trim_ascii_start().first()? != &b']'));
        Ok(inner.unwrap_or_default())
    }

    /// Returns a field whose value begins with `first`; `None` if it is absent or `null`.
    fn typed(
        &self,
        spellings: &[&str],
        first: u8,
        expected: &'static str,
    ) -> Result<Option<FieldText>, DialectError> {
        match self.text(spellings)? {
            Some(text) if text.bytes.first() == Some(&first) => Ok(Some(text)),
            Some(text) if *text.bytes != *b"null" => Err(wrong_type(spellings, expected)),
            Some(_) | None => Ok(None),
        }
    }

    fn elements(&self, array: &FieldText) -> Vec<FieldText> {
        self.elements_by_layout(array).unwrap_or_else(|| {
            let places = json::split(&array.bytes).into_iter();
            let elements = places.map(|place| FieldText {
                bytes: array.bytes.slice(place),
                index: None,
            });
            elements.collect()
        })
    }

    fn elements_by_layout(&self, array: &FieldText) -> Option<Vec<FieldText>> {
        let span = self.span.as_ref()?;
        let indexes = span.layout.within(array.index?)?;
        // Not counted first, because each step may be a cache miss.
        let elements = indexes.map(|index| {
            Some(FieldText {
                bytes: self.bytes.slice(span.place(index)?),
                index: Some(index),
            })
        });
        elements.collect()
    }

    fn object(&self, text: FieldText) -> Result<Self, DialectError> {
        match (&self.span, text.index) {
            (Some(span), Some(index)) => Self::from_layout(text.bytes, &span.layout, index),
            _ => Self::split(text.bytes),
        }
    }

    /// Returns whether any field was edited.
    pub fn is_edited(&self) -> bool {
        self.listed().iter().any(|field| field.edit.is_some())
    }

    /// Returns whether no field is left.
    pub fn is_empty(&self) -> bool {
        self.unlisted().next().is_none() && self.listed().iter().all(Field::is_removed)
    }

    /// Returns whether a field is present under `spellings`, or under a name that a lenient
    /// parser could take for one of them.
    pub fn has(&self, spellings: &[&str]) -> bool {
        let listed = self.listed().iter().filter(|field| !field.is_removed());
        let mut keys = self
            .unlisted()
            .map(|(_, key)| key)
            .chain(listed.map(Field::key));
        keys.any(|key| key.likeness(spellings) != Likeness::None)
    }

    /// Returns the unedited fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (CompactString, Bytes)> {
        let listed = self.listed().iter().filter(|field| field.edit.is_none());
        let listed = listed.map(|field| (field.key(), field.place.clone()));
        let unlisted = self.unlisted().map(|(index, key)| (key, self.place(index)));
        let all = unlisted.chain(listed);
        all.filter_map(|(key, place)| Some((key.text(), self.bytes.slice(place?))))
    }

    /// Returns the JSON of the field known under `spellings`.
    pub(crate) fn bytes_of(&self, spellings: &[&str]) -> Result<Option<Bytes>, DialectError> {
        Ok(self.text(spellings)?.map(|text| text.bytes))
    }

    fn text(&self, spellings: &[&str]) -> Result<Option<FieldText>, DialectError> {
        let slice = |place: Range<usize>, index| FieldText {
            bytes: self.bytes.slice(place),
            index,
        };
        if let (Some(span), None) = (&self.span, &self.listed) {
            let found = span.find(&self.bytes, spellings)?;
            return Ok(found.and_then(|index| Some(slice(span.place(index)?, Some(index)))));
        }
        let Some(field) = self.find(spellings)? else {
            return Ok(None);
        };
        Ok(match (&field.edit, &field.place) {
            (Some(Edit::Set(json)), _) => Some(FieldText {
                bytes: json.clone(),
                index: None,
            }),
            (None, Some(place)) => Some(slice(place.clone(), field.index)),
            (Some(Edit::Remove) | None, _) => None,
        })
    }

    pub(crate) fn find(&self, spellings: &[&str]) -> Result<Option<&Field>, DialectError> {
        let fields = self.listed().iter();
        find_one(fields.map(|field| (field, field.key())), spellings)
    }

    fn listed(&self) -> &[Field] {
        self.listed.as_deref().unwrap_or_default()
    }

    /// Returns layout indexes and keys of the fields, unless they are listed.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = (usize, FieldKey<'_>)> {
        let span = self.span.as_ref().filter(|_| self.listed.is_none());
        let key = move |index| FieldKey::Raw(span.map_or(&[], |span| span.key(&self.bytes, index)));
        let indexes = span.and_then(|span| span.layout.within(span.index));
        let indexes = indexes.into_iter().flatten();
        indexes.map(move |index| (index, key(index)))
    }

    pub(crate) fn place(&self, index: usize) -> Option<Range<usize>> {
        self.span.as_ref()?.place(index)
    }
}

fn not_an_object() -> DialectError {
    DialectError::Json("not a JSON object".to_owned())
}

fn wrong_type(spellings: &[&str], expected: &'static str) -> DialectError {
    let field = spellings.first().copied().unwrap_or_default().to_owned();
    DialectError::Field { field, expected }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(Bytes::from(text.to_owned())).unwrap()
    }

    #[track_caller]
    fn check(text: &str, edit: impl FnOnce(&mut Document), expected: &str) {
        let mut document = document(text);
        edit(&mut document);
        assert_eq!(document.to_bytes(), expected);
    }

    #[test]
    fn an_edit_keeps_every_other_byte() {
        let text = " { \"a\" : 1.0 ,\n \"b\\u0062\":[ 1e5 ] , \"c\" : \"\\u00e9\" }\n";
        check(text, |_| (), text);
        check(
            text,
            |it| it.set(&["c"], &json!(7)).unwrap(),
            " { \"a\" : 1.0 ,\n \"b\\u0062\":[ 1e5 ] , \"c\" : 7 }\n",
        );
        check(
            text,
            |it| it.set(&["d", "dd"], &json!({"x": null})).unwrap(),
            " { \"a\" : 1.0 ,\n \"b\\u0062\":[ 1e5 ] , \"c\" : \"\\u00e9\" ,\"d\":{\"x\":null}}\n",
        );
    }

    #[test]
    fn fields_are_removed_and_added() {
        check(
            "{\"a\": 1, \"b\": 2}",
            |it| it.remove(&["a"]).unwrap(),
            "{\"b\":2}",
        );
        check("{}", |it| it.set(&["a"], &json!(1)).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn a_field_given_twice_is_refused() {
        assert!(Document::parse(Bytes::from_static(b"{\"a\":1,\"a\":2}")).is_err());
        let both = Bytes::from_static(b"{\"toolConfig\":1,\"tool_config\":2}");
        assert!(Document::parse(both.clone()).is_err());
        let odd = document("{\"ToolConfig\":1}");
        assert!(odd.get(&["toolConfig", "tool_config"]).is_err());
        assert!(odd.has(&["toolConfig", "tool_config"]));
        let both = Document::split(both).unwrap();
        assert!(both.get(&["toolConfig", "tool_config"]).is_err());
    }

    #[test]
    fn no_spelling_hides_a_field() {
        for key in [
            "contents",
            "\\u0063ontents",
            "content\\u0073",
            "c\\u006fntents",
        ] {
            let document = document(&format!("{{\"x\":0,\"{key}\":1,\"contentz\":2}}"));
            assert_eq!(
                document.get(&["contents"]).unwrap(),
                Some(json!(1)),
                "{key}"
            );
        }
        for key in [
            "Contents",
            "contentS",
            "contents_",
            "con_tents",
            "\\u0043ontents",
            "content\\u0053",
            "contents\\u005f",
        ] {
            let document = document(&format!("{{\"{key}\":1}}"));
            assert!(document.get(&["contents"]).is_err(), "{key}");
            assert!(document.has(&["contents"]), "{key}");
        }
    }

    #[test]
    fn only_an_object_is_a_document() {
        for text in ["[]", "5", "", "{} x", "{\"a\":}"] {
            assert!(Document::parse(Bytes::from(text)).is_err(), "{text}");
        }
        assert!(Document::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).is_err());
    }
}
