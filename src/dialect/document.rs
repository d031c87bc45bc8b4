//! A JSON object as it came, and edits of its top-level fields.
//!
//! Only the fields that somebody asks for are looked for and parsed. An edit is
//! spliced into the original bytes, so that everything else leaves as it came.

mod field;
mod keys;
mod serialize;
mod span;

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use compact_str::CompactString;
use serde_json::{Value, value::RawValue};

use self::{
    field::{Edit, Field},
    keys::{Key, Likeness, one_of},
    span::Origin,
};
use super::{DialectError, json};
use strict_json::Layout;

/// How an array is spelled: `[`, elements, `]`.
pub(super) fn array<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut out = vec![b'['];
    for (position, element) in elements.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend(element);
    }
    out.push(b']');
    out.into()
}

/// A JSON object. Its fields are looked for where they stand; they are listed only
/// where one of them is edited, or nobody knows where they stand.
#[derive(Debug, Clone)]
pub struct Document {
    /// INVARIANT: valid UTF-8 and one JSON object.
    bytes: Bytes,
    /// Where its fields stand, if that was taken down.
    origin: Option<Origin>,
    /// Its fields in order; none if they are as they came, with an origin.
    /// INVARIANT: no two have one key.
    listed: Option<Vec<Field>>,
}

/// The text of a field as it stands now, and its number in the layout if it is as
/// it came.
struct Text {
    bytes: Bytes,
    number: Option<usize>,
}

impl Document {
    /// Reads the JSON object in `bytes`, which may come from anybody. What does
    /// not mean one thing is an error.
    pub fn parse(bytes: Bytes) -> Result<Self, DialectError> {
        let layout = Arc::new(json::lay_out_document(&bytes)?);
        Self::laid_out(bytes, &layout, 0)
    }

    /// The object with this number in a layout.
    fn laid_out(bytes: Bytes, layout: &Arc<Layout>, number: usize) -> Result<Self, DialectError> {
        let (Some(place), Some(_)) = (layout.place(number), layout.within(number)) else {
            return Self::split(bytes);
        };
        let text = bytes.trim_ascii_start();
        if text.first() != Some(&b'{') {
            return Err(not_an_object());
        }
        let origin = Origin {
            layout: Arc::clone(layout),
            number,
            start: place.start - (bytes.len() - text.len()),
        };
        Ok(Self {
            bytes,
            origin: Some(origin),
            listed: None,
        })
    }

    /// Finds the fields of the JSON object in `bytes`, which is part of a document
    /// that was read, or our own.
    pub(super) fn split(bytes: Bytes) -> Result<Self, DialectError> {
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(not_an_object());
        }
        let field = |(key, place)| Field {
            key,
            place: Some(place),
            number: None,
            edit: None,
        };
        let fields = json::fields(&bytes)?.into_iter().map(field).collect();
        Ok(Self {
            bytes,
            origin: None,
            listed: Some(fields),
        })
    }

    /// `{}`.
    pub fn empty() -> Result<Self, DialectError> {
        Self::split(Bytes::from_static(b"{}"))
    }

    /// The document as it stands, edits included, for hooks that want to see
    /// it whole.
    pub fn to_raw(&self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.to_text()).ok()
    }

    /// The document as it goes out, as text.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_bytes()).into_owned()
    }

    /// The value of a field known under one of `spellings`. Two spellings of
    /// one field are an error.
    pub fn get(&self, spellings: &[&str]) -> Result<Option<Value>, DialectError> {
        let Some(bytes) = self.bytes_of(spellings)? else {
            return Ok(None);
        };
        json::read(text_of(&bytes)?).map(Some)
    }

    /// A text; `null` is none, anything else an error.
    pub fn string(&self, spellings: &[&str]) -> Result<Option<String>, DialectError> {
        match self.bytes_of(spellings)? {
            None => Ok(None),
            Some(text) if *text == *b"null" => Ok(None),
            Some(text) if text.first() == Some(&b'"') => json::string(&text).map(Some),
            Some(_) => Err(wrong(spellings, "a string")),
        }
    }

    /// An object; `null` is none, anything else an error.
    pub fn child(&self, spellings: &[&str]) -> Result<Option<Self>, DialectError> {
        match self.text(spellings)? {
            None => Ok(None),
            Some(text) if *text.bytes == *b"null" => Ok(None),
            Some(text) if text.bytes.first() == Some(&b'{') => self.object(text).map(Some),
            Some(_) => Err(wrong(spellings, "an object")),
        }
    }

    /// The elements of an array; `null` is none, anything else an error.
    pub fn list(&self, spellings: &[&str]) -> Result<Option<Vec<Bytes>>, DialectError> {
        let texts = self.texts(spellings)?;
        Ok(texts.map(|it| it.into_iter().map(|it| it.bytes).collect()))
    }

    /// The objects of an array; `null` is none, anything else an error.
    pub fn children(&self, spellings: &[&str]) -> Result<Option<Vec<Self>>, DialectError> {
        let Some(texts) = self.texts(spellings)? else {
            return Ok(None);
        };
        let object = |it: Text| match it.bytes.first() {
            Some(b'{') => self.object(it),
            _ => Err(wrong(spellings, "an array of objects")),
        };
        let mut objects = Vec::with_capacity(texts.len());
        for text in texts {
            objects.push(object(text)?);
        }
        Ok(Some(objects))
    }

    /// Whether an array has any element; `null` has none, anything else is an error.
    pub(super) fn lists_any(&self, spellings: &[&str]) -> Result<bool, DialectError> {
        let array = self.array(spellings)?;
        let inner = |it: Text| {
            it.bytes
                .get(1..)
                .map(|it| it.trim_ascii_start().first() != Some(&b']'))
        };
        Ok(array.and_then(inner).unwrap_or_default())
    }

    /// The texts of an array's elements; `null` is none, anything else an error.
    fn texts(&self, spellings: &[&str]) -> Result<Option<Vec<Text>>, DialectError> {
        let array = self.array(spellings)?;
        Ok(array.map(|it| self.elements(&it)))
    }

    fn array(&self, spellings: &[&str]) -> Result<Option<Text>, DialectError> {
        match self.text(spellings)? {
            None => Ok(None),
            Some(text) if *text.bytes == *b"null" => Ok(None),
            Some(text) if text.bytes.first() == Some(&b'[') => Ok(Some(text)),
            Some(_) => Err(wrong(spellings, "an array")),
        }
    }

    fn elements(&self, array: &Text) -> Vec<Text> {
        self.laid_out_elements(array).unwrap_or_else(|| {
            let element = |place| Text {
                bytes: array.bytes.slice(place),
                number: None,
            };
            let places = json::places(&array.bytes).into_iter();
            places.map(element).collect()
        })
    }

    /// The same, if it is known where they stand.
    fn laid_out_elements(&self, array: &Text) -> Option<Vec<Text>> {
        let origin = self.origin.as_ref()?;
        let within = origin.layout.within(array.number?)?;
        let element = |number| {
            let bytes = self.bytes.slice(origin.place(number)?);
            let number = Some(number);
            Some(Text { bytes, number })
        };
        // Not counted first: each step is a look at a place that no cache holds.
        within.map(element).collect()
    }

    fn object(&self, text: Text) -> Result<Self, DialectError> {
        match (&self.origin, text.number) {
            (Some(origin), Some(number)) => Self::laid_out(text.bytes, &origin.layout, number),
            _ => Self::split(text.bytes),
        }
    }

    /// Sets the field known under one of `spellings`; a new one gets the first.
    pub fn set(&mut self, spellings: &[&str], value: &Value) -> Result<(), DialectError> {
        self.set_bytes(spellings, value.to_string().into())
    }

    /// Like [`Document::set`], with JSON that is text already.
    pub fn set_bytes(&mut self, spellings: &[&str], text: Bytes) -> Result<(), DialectError> {
        self.edit(spellings, Edit::Set(text))
    }

    /// Like [`Document::set`], with a document.
    pub fn set_child(&mut self, spellings: &[&str], child: &Self) -> Result<(), DialectError> {
        self.set_bytes(spellings, child.to_bytes())
    }

    /// Like [`Document::set`], with an array of documents.
    pub fn set_children(&mut self, spellings: &[&str], list: &[Self]) -> Result<(), DialectError> {
        let texts: Vec<Bytes> = list.iter().map(Self::to_bytes).collect();
        self.set_bytes(spellings, array(texts.iter().map(AsRef::as_ref)))
    }

    /// Takes the field known under one of `spellings` out.
    pub fn remove(&mut self, spellings: &[&str]) -> Result<(), DialectError> {
        self.edit(spellings, Edit::Remove)
    }

    /// Whether it differs from what it came as.
    pub fn is_edited(&self) -> bool {
        self.listed().iter().any(|it| it.edit.is_some())
    }

    /// Whether it has no field left.
    pub fn is_empty(&self) -> bool {
        let removed = |it: &Field| matches!(it.edit, Some(Edit::Remove));
        self.unlisted().all(|_| false) && self.listed().iter().all(removed)
    }

    /// Whether it has a field under one of `spellings`, or one that somebody could
    /// take for it.
    pub fn has(&self, spellings: &[&str]) -> bool {
        let present = |it: &&Field| !matches!(it.edit, Some(Edit::Remove));
        let listed = self.listed().iter().filter(present);
        let mut keys = self.unlisted().map(|it| it.1).chain(listed.map(Field::key));
        keys.any(|it| it.likeness(spellings) != Likeness::None)
    }

    /// Every field that came with it, in order.
    pub fn fields(&self) -> impl Iterator<Item = (CompactString, Bytes)> {
        let listed = self.listed().iter().filter(|it| it.edit.is_none());
        let listed = listed.map(|it| (it.key(), it.place.clone()));
        let came = self.unlisted().map(|(at, key)| (key, self.place(at)));
        let came = came.chain(listed);
        came.filter_map(|(key, place)| Some((key.text(), self.bytes.slice(place?))))
    }

    /// The text of a field known under one of `spellings`.
    pub(super) fn bytes_of(&self, spellings: &[&str]) -> Result<Option<Bytes>, DialectError> {
        Ok(self.text(spellings)?.map(|it| it.bytes))
    }

    fn text(&self, spellings: &[&str]) -> Result<Option<Text>, DialectError> {
        let slice = |place: Range<usize>, number| Text {
            bytes: self.bytes.slice(place),
            number,
        };
        if let (Some(origin), None) = (&self.origin, &self.listed) {
            let found = origin.find(&self.bytes, spellings)?;
            return Ok(found.and_then(|it| Some(slice(origin.place(it)?, Some(it)))));
        }
        let Some(field) = self.find(spellings)? else {
            return Ok(None);
        };
        Ok(match (&field.edit, &field.place) {
            (Some(Edit::Set(text)), _) => Some(Text {
                bytes: text.clone(),
                number: None,
            }),
            (None, Some(place)) => Some(slice(place.clone(), field.number)),
            (Some(Edit::Remove) | None, _) => None,
        })
    }

    /// The listed field known under one of `spellings`.
    fn find(&self, spellings: &[&str]) -> Result<Option<&Field>, DialectError> {
        one_of(self.listed().iter().map(|it| (it, it.key())), spellings)
    }

    /// Its fields, if they are listed.
    fn listed(&self) -> &[Field] {
        self.listed.as_deref().unwrap_or_default()
    }

    /// The numbers and keys of its fields, if they are not listed: none of them is
    /// edited.
    fn unlisted(&self) -> impl Iterator<Item = (usize, Key<'_>)> {
        let origin = self.origin.as_ref().filter(|_| self.listed.is_none());
        let key = move |number| Key::Written(origin.map_or(&[], |it| it.key(&self.bytes, number)));
        let numbers = origin.and_then(|it| it.layout.within(it.number));
        numbers.into_iter().flatten().map(move |it| (it, key(it)))
    }

    /// Where a value stands that is known by its number.
    fn place(&self, number: usize) -> Option<Range<usize>> {
        self.origin.as_ref()?.place(number)
    }

    /// Its fields as a list.
    fn editable(&mut self) -> &mut Vec<Field> {
        if self.listed.is_none() {
            let field = |(number, key): (usize, Key<'_>)| Field {
                key: key.text(),
                place: self.place(number),
                number: Some(number),
                edit: None,
            };
            self.listed = Some(self.unlisted().map(field).collect());
        }
        self.listed.get_or_insert_default()
    }

    fn edit(&mut self, spellings: &[&str], edit: Edit) -> Result<(), DialectError> {
        self.editable();
        let known = self.find(spellings)?.map(|it| it.key.clone());
        let fields = self.editable();
        let is_known = |it: &&mut Field| Some(&it.key) == known.as_ref();
        if let Some(field) = fields.iter_mut().find(is_known) {
            field.edit = Some(edit);
        } else if let (Edit::Set(_), Some(key)) = (&edit, spellings.first()) {
            fields.push(Field {
                key: (*key).into(),
                place: None,
                number: None,
                edit: Some(edit),
            });
        }
        Ok(())
    }
}

/// The elements of a JSON array, or the one value that is none. It may come from
/// anybody; what does not mean one thing is an error.
pub fn elements(bytes: &Bytes) -> Result<Vec<Bytes>, DialectError> {
    json::check_document(bytes)?;
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        return Ok(vec![bytes.clone()]);
    }
    let places = json::places(bytes).into_iter();
    Ok(places.map(|it| bytes.slice(it)).collect())
}

fn not_an_object() -> DialectError {
    DialectError::Json("not a JSON object".to_owned())
}

fn wrong(spellings: &[&str], expected: &'static str) -> DialectError {
    let field = spellings.first().copied().unwrap_or_default().to_owned();
    DialectError::Field { field, expected }
}

pub(super) fn text_of(bytes: &[u8]) -> Result<&str, DialectError> {
    simdutf8::basic::from_utf8(bytes).map_err(|_| DialectError::Json("not UTF-8".to_owned()))
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
    fn an_edit_leaves_every_other_byte_alone() {
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
    fn fields_go_and_come() {
        check(
            "{\"a\": 1, \"b\": 2}",
            |it| it.remove(&["a"]).unwrap(),
            "{\"b\":2}",
        );
        check("{}", |it| it.set(&["a"], &json!(1)).unwrap(), "{\"a\":1}");
    }

    #[test]
    fn one_field_said_twice_is_refused() {
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
