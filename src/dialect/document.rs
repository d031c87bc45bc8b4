//! A JSON object as it came, and edits of its top-level fields.
//!
//! Only the fields that somebody asks for are parsed. An edit is spliced into
//! the original bytes, so that everything else leaves as it came.

mod writing;

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use compact_str::CompactString;
use serde_json::{Value, value::RawValue};

use super::{DialectError, json};
use crate::json::{Layout, same_field};

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

/// A JSON object with the places of its fields.
#[derive(Debug, Clone)]
pub struct Document {
    /// INVARIANT: valid UTF-8 and one JSON object.
    bytes: Bytes,
    /// In order. INVARIANT: no two have one key.
    fields: Vec<Field>,
    origin: Option<Origin>,
}

/// What an object was part of when it was read.
#[derive(Debug, Clone)]
struct Origin {
    layout: Arc<Layout>,
    /// Where the object's text stood.
    start: usize,
}

impl Origin {
    /// A place in the object's own text.
    fn own(&self, place: Range<usize>) -> Option<Range<usize>> {
        Some(place.start.checked_sub(self.start)?..place.end.checked_sub(self.start)?)
    }
}

/// The text of a field as it stands now, and its number in the layout if it is as
/// it came.
struct Text {
    bytes: Bytes,
    number: Option<usize>,
}

#[derive(Debug, Clone)]
struct Field {
    key: CompactString,
    /// The old text's place; none if the field is new.
    place: Option<Range<usize>>,
    /// Its number in the layout, if it has one.
    number: Option<usize>,
    /// The new text; none if the field is as it came.
    edit: Option<Edit>,
}

#[derive(Debug, Clone)]
enum Edit {
    Set(Bytes),
    Remove,
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
        let place = layout.place(number);
        let (Some(place), Some(within)) = (place, layout.within(number)) else {
            return Self::split(bytes);
        };
        let text = bytes.trim_ascii_start();
        if text.first() != Some(&b'{') {
            return Err(not_an_object());
        }
        let origin = Origin {
            layout: Arc::clone(layout),
            start: place.start - (bytes.len() - text.len()),
        };
        let field = |number| {
            let own = |it: Option<Range<usize>>| it.and_then(|it| origin.own(it));
            let key = own(layout.key(number)).and_then(|it| bytes.get(it));
            Ok(Field {
                key: json::string(key.unwrap_or_default())?,
                place: own(layout.place(number)),
                number: Some(number),
                edit: None,
            })
        };
        let fields = within.map(field).collect::<Result<_, DialectError>>()?;
        let origin = Some(origin);
        Ok(Self {
            bytes,
            fields,
            origin,
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
            fields,
            origin: None,
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
        let objects = texts.into_iter().map(object);
        objects.collect::<Result<_, _>>().map(Some)
    }

    /// The texts of an array's elements; `null` is none, anything else an error.
    fn texts(&self, spellings: &[&str]) -> Result<Option<Vec<Text>>, DialectError> {
        match self.text(spellings)? {
            None => Ok(None),
            Some(text) if *text.bytes == *b"null" => Ok(None),
            Some(text) if text.bytes.first() == Some(&b'[') => Ok(Some(self.elements(&text))),
            Some(_) => Err(wrong(spellings, "an array")),
        }
    }

    fn elements(&self, array: &Text) -> Vec<Text> {
        let laid_out = || -> Option<Vec<Text>> {
            let origin = self.origin.as_ref()?;
            let element = |number| {
                let place = origin.own(origin.layout.place(number)?)?;
                Some(Text {
                    bytes: self.bytes.slice(place),
                    number: Some(number),
                })
            };
            origin.layout.within(array.number?)?.map(element).collect()
        };
        laid_out().unwrap_or_else(|| {
            let element = |place| Text {
                bytes: array.bytes.slice(place),
                number: None,
            };
            json::places(&array.bytes)
                .into_iter()
                .map(element)
                .collect()
        })
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
        self.fields.iter().any(|it| it.edit.is_some())
    }

    /// Whether it has no field left.
    pub fn is_empty(&self) -> bool {
        let removed = |it: &Field| matches!(it.edit, Some(Edit::Remove));
        self.fields.iter().all(removed)
    }

    /// Whether it has a field under one of `spellings`, or one that somebody could
    /// take for it.
    pub fn has(&self, spellings: &[&str]) -> bool {
        let present = |it: &Field| !matches!(it.edit, Some(Edit::Remove));
        self.alike(spellings).any(present)
    }

    /// Every field that came with it, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, Bytes)> {
        let came = self.fields.iter().filter(|it| it.edit.is_none());
        came.filter_map(|it| Some((it.key.as_str(), self.bytes.slice(it.place.clone()?))))
    }

    /// The text of a field known under one of `spellings`.
    pub(super) fn bytes_of(&self, spellings: &[&str]) -> Result<Option<Bytes>, DialectError> {
        Ok(self.text(spellings)?.map(|it| it.bytes))
    }

    fn text(&self, spellings: &[&str]) -> Result<Option<Text>, DialectError> {
        let Some(field) = self.find(spellings)? else {
            return Ok(None);
        };
        Ok(match (&field.edit, &field.place) {
            (Some(Edit::Set(text)), _) => Some(Text {
                bytes: text.clone(),
                number: None,
            }),
            (None, Some(place)) => Some(Text {
                bytes: self.bytes.slice(place.clone()),
                number: field.number,
            }),
            (Some(Edit::Remove) | None, _) => None,
        })
    }

    /// The field known under one of `spellings`. INVARIANT: what hookgate takes for
    /// unknown, nobody takes for this field. A parser that ignores case would.
    fn find(&self, spellings: &[&str]) -> Result<Option<&Field>, DialectError> {
        let mut found = None;
        for field in self.alike(spellings) {
            if !spellings.contains(&field.key.as_str()) {
                return Err(DialectError::Spelling(field.key.chars().take(64).collect()));
            }
            if found.replace(field).is_some() {
                return Err(DialectError::Ambiguous(field.key.to_string()));
            }
        }
        Ok(found)
    }

    /// The fields whose keys differ from one of `spellings` in case and underscores
    /// at most.
    fn alike(&self, spellings: &[&str]) -> impl Iterator<Item = &Field> {
        let alike = |it: &&Field| {
            let key = it.key.as_bytes();
            spellings
                .iter()
                .any(|known| same_field(key, known.as_bytes()))
        };
        self.fields.iter().filter(alike)
    }

    fn edit(&mut self, spellings: &[&str], edit: Edit) -> Result<(), DialectError> {
        let known = self.find(spellings)?.map(|it| it.key.clone());
        let is_known = |it: &&mut Field| Some(&it.key) == known.as_ref();
        if let Some(field) = self.fields.iter_mut().find(is_known) {
            field.edit = Some(edit);
        } else if let (Edit::Set(_), Some(key)) = (&edit, spellings.first()) {
            self.fields.push(Field {
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
    fn only_an_object_is_a_document() {
        for text in ["[]", "5", "", "{} x", "{\"a\":}"] {
            assert!(Document::parse(Bytes::from(text)).is_err(), "{text}");
        }
        assert!(Document::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).is_err());
    }
}
