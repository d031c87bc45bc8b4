//! A JSON object as it came, and edits of its top-level fields.
//!
//! Only the fields that somebody asks for are parsed. An edit is spliced into
//! the original bytes, so that everything else leaves as it came.

use std::ops::Range;

use bytes::Bytes;
use indexmap::{IndexMap, map::Entry};
use serde_json::{Value, value::RawValue};

use super::{
    DialectError,
    json::{self, Fields},
};
use crate::json::same_field;

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
    /// By their keys, in order: a document may have very many.
    fields: IndexMap<String, Field>,
}

#[derive(Debug, Clone)]
struct Field {
    /// The old text's place; none if the field is new.
    place: Option<Range<usize>>,
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
        json::check_document(&bytes)?;
        Self::split(bytes)
    }

    /// Finds the fields of the JSON object in `bytes`, which is part of a document
    /// that was read, or our own. A field given twice is an error.
    pub(super) fn split(bytes: Bytes) -> Result<Self, DialectError> {
        let text = text_of(&bytes)?;
        if !text.trim_start().starts_with('{') {
            // Else the parser's message would quote it.
            return Err(DialectError::Json("not a JSON object".to_owned()));
        }
        let found: Fields<'_> =
            serde_json::from_str(text).map_err(|error| DialectError::Json(error.to_string()))?;
        let mut fields = IndexMap::with_capacity(found.0.len());
        for (key, raw) in found.0 {
            let place = Some(place_of(raw, text));
            match fields.entry(key) {
                Entry::Vacant(free) => free.insert(Field { place, edit: None }),
                Entry::Occupied(taken) => {
                    return Err(DialectError::Ambiguous(taken.key().clone()));
                }
            };
        }
        Ok(Self { bytes, fields })
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
        match self.get(spellings)? {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(spellings, "a string")),
        }
    }

    /// An object; `null` is none, anything else an error.
    pub fn child(&self, spellings: &[&str]) -> Result<Option<Self>, DialectError> {
        match self.bytes_of(spellings)? {
            None => Ok(None),
            Some(bytes) if *bytes == *b"null" => Ok(None),
            Some(bytes) if bytes.first() == Some(&b'{') => Self::split(bytes).map(Some),
            Some(_) => Err(wrong(spellings, "an object")),
        }
    }

    /// The elements of an array; `null` is none, anything else an error.
    pub fn list(&self, spellings: &[&str]) -> Result<Option<Vec<Bytes>>, DialectError> {
        match self.bytes_of(spellings)? {
            None => Ok(None),
            Some(bytes) if *bytes == *b"null" => Ok(None),
            Some(bytes) if bytes.first() == Some(&b'[') => {
                let places = json::places(&bytes).into_iter();
                Ok(Some(places.map(|it| bytes.slice(it)).collect()))
            }
            Some(_) => Err(wrong(spellings, "an array")),
        }
    }

    /// The objects of an array; `null` is none, anything else an error.
    pub fn children(&self, spellings: &[&str]) -> Result<Option<Vec<Self>>, DialectError> {
        let Some(list) = self.list(spellings)? else {
            return Ok(None);
        };
        let parse = |it: Bytes| match it.first() {
            Some(b'{') => Self::split(it),
            _ => Err(wrong(spellings, "an array of objects")),
        };
        list.into_iter()
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Some)
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

    /// The document as it goes out: the bytes it came as, but for the edits.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited() {
            return self.bytes.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        let removes = |it: &Field| matches!(it.edit, Some(Edit::Remove));
        if self.fields.values().any(removes) {
            self.write_anew(&mut out);
        } else {
            self.splice(&mut out);
        }
        out.into()
    }

    /// Whether it differs from what it came as.
    pub fn is_edited(&self) -> bool {
        self.fields.values().any(|it| it.edit.is_some())
    }

    /// Whether it has no field left.
    pub fn is_empty(&self) -> bool {
        let removed = |it: &Field| matches!(it.edit, Some(Edit::Remove));
        self.fields.values().all(removed)
    }

    /// Whether it has a field under one of `spellings`, or one that somebody could
    /// take for it.
    pub fn has(&self, spellings: &[&str]) -> bool {
        let present = |it: &Field| !matches!(it.edit, Some(Edit::Remove));
        self.alike(spellings).any(|it| present(it.1))
    }

    /// Every field that came with it, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, Bytes)> {
        let came = self.fields.iter().filter(|it| it.1.edit.is_none());
        came.filter_map(|(key, it)| Some((key.as_str(), self.bytes.slice(it.place.clone()?))))
    }

    /// The text of a field known under one of `spellings`.
    pub(super) fn bytes_of(&self, spellings: &[&str]) -> Result<Option<Bytes>, DialectError> {
        let Some((_, field)) = self.find(spellings)? else {
            return Ok(None);
        };
        Ok(match (&field.edit, &field.place) {
            (Some(Edit::Set(text)), _) => Some(text.clone()),
            (None, Some(place)) => Some(self.bytes.slice(place.clone())),
            (Some(Edit::Remove) | None, _) => None,
        })
    }

    /// INVARIANT: what hookgate takes for unknown, nobody takes for this field. A
    /// parser that ignores case would.
    fn find(&self, spellings: &[&str]) -> Result<Option<(&str, &Field)>, DialectError> {
        if let Some((key, _)) = self.alike(spellings).find(|it| !spellings.contains(&it.0)) {
            return Err(DialectError::Spelling(key.chars().take(64).collect()));
        }
        let mut found: Option<(&str, &Field)> = None;
        for spelling in spellings {
            let Some((key, field)) = self.fields.get_key_value(*spelling) else {
                continue;
            };
            // Some fields have one spelling in both styles.
            if found.is_some_and(|it| it.0 != key) {
                return Err(DialectError::Ambiguous(key.clone()));
            }
            found = Some((key, field));
        }
        Ok(found)
    }

    /// The fields whose keys differ from one of `spellings` in case and underscores
    /// at most.
    fn alike(&self, spellings: &[&str]) -> impl Iterator<Item = (&str, &Field)> {
        let same = |key: &str, it: &str| same_field(key.as_bytes(), it.as_bytes());
        let all = self.fields.iter().map(|(key, field)| (key.as_str(), field));
        all.filter(move |(key, _)| spellings.iter().any(|it| same(key, it)))
    }

    fn edit(&mut self, spellings: &[&str], edit: Edit) -> Result<(), DialectError> {
        let known = self.find(spellings)?.map(|it| it.0.to_owned());
        if known.is_none() && matches!(edit, Edit::Remove) {
            return Ok(());
        }
        let key = known.or_else(|| spellings.first().map(|it| (*it).to_owned()));
        let new = Field {
            place: None,
            edit: None,
        };
        let field = self.fields.entry(key.unwrap_or_default()).or_insert(new);
        field.edit = Some(edit);
        Ok(())
    }

    /// Replaces the texts of edited fields and adds new ones before the end.
    fn splice(&self, out: &mut Vec<u8>) {
        let mut done = 0;
        for field in self.fields.values() {
            if let (Some(Edit::Set(text)), Some(place)) = (&field.edit, &field.place) {
                out.extend(self.bytes.get(done..place.start).unwrap_or_default());
                out.extend(text);
                done = place.end;
            }
        }
        let end = self
            .bytes
            .iter()
            .rposition(|it| *it == b'}')
            .unwrap_or(done);
        out.extend(self.bytes.get(done..end).unwrap_or_default());
        let had_fields = self.fields.values().any(|it| it.place.is_some());
        let mut separator = if had_fields { "," } else { "" };
        for (key, field) in self.fields.iter().filter(|it| it.1.place.is_none()) {
            if let Some(Edit::Set(text)) = &field.edit {
                write_field(out, separator, key, text);
                separator = ",";
            }
        }
        out.extend(self.bytes.get(end..).unwrap_or_default());
    }

    /// Writes field after field; only white space between them is lost.
    fn write_anew(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut separator = "";
        for (key, field) in &self.fields {
            let text = match (&field.edit, &field.place) {
                (Some(Edit::Remove), _) | (None, None) => continue,
                (Some(Edit::Set(text)), _) => text.as_ref(),
                (None, Some(place)) => self.bytes.get(place.clone()).unwrap_or_default(),
            };
            write_field(out, separator, key, text);
            separator = ",";
        }
        out.push(b'}');
    }
}

/// The elements of a JSON array, or the one value that is none. It may come from
/// anybody; what does not mean one thing is an error.
pub fn elements(bytes: &Bytes) -> Result<Vec<Bytes>, DialectError> {
    json::check_document(bytes)?;
    let text = text_of(bytes)?;
    if !text.trim_start().starts_with('[') {
        return Ok(vec![bytes.clone()]);
    }
    let raw: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| DialectError::Json(error.to_string()))?;
    let places = raw.into_iter().map(|it| place_of(it, text));
    Ok(places.map(|it| bytes.slice(it)).collect())
}

/// Where `raw`, parsed out of `text`, stands in it.
fn place_of(raw: &RawValue, text: &str) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

fn wrong(spellings: &[&str], expected: &'static str) -> DialectError {
    let field = spellings.first().copied().unwrap_or_default().to_owned();
    DialectError::Field { field, expected }
}

fn text_of(bytes: &[u8]) -> Result<&str, DialectError> {
    std::str::from_utf8(bytes).map_err(|_| DialectError::Json("not UTF-8".to_owned()))
}

fn write_field(out: &mut Vec<u8>, separator: &str, key: &str, text: &[u8]) {
    out.extend(separator.as_bytes());
    out.extend(Value::String(key.to_owned()).to_string().as_bytes());
    out.push(b':');
    out.extend(text);
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
