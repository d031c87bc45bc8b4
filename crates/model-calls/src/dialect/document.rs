//! Documents of model APIs: strict JSON, with the free-form fields of these APIs.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
pub use strict_json::{Document, write_array};
use strict_json::{FreeField, FreeFields, MAX_VALUES, Names};

use crate::dialect::error::{DialectError, Result, field_error};

/// Fields with free-form keys: arguments, results, schemas, labels. Below them only exact
/// duplicates of keys are refused.
const FREE_FORM: &FreeFields = &FreeFields::new(&[
    free("args"),
    // A block of another API, which was checked by the rules of that.
    free("block"),
    free("customMetadata"),
    free("default"),
    free("example"),
    free("inputSchema"),
    free("labels"),
    free("parameters"),
    free("parametersJsonSchema"),
    free("properties"),
    // At the top level it is the envelope of a model's response, not of a function's.
    FreeField::new("response", 2),
    free("responseJsonSchema"),
    free("responseSchema"),
    free("schema"),
]);

/// Most elements of a conversation or a batch, and most parts of all its elements together. An
/// empty one takes many times its bytes in memory.
const MAX_ELEMENTS: usize = 1 << 16;

const fn free(name: &'static str) -> FreeField {
    FreeField::new(name, 1)
}

/// Parses a request or response.
///
/// # Errors
///
/// Fails if the bytes are no JSON object, or parsers could disagree about them.
pub fn parse_document(bytes: Bytes) -> Result<Document> {
    Document::parse(bytes, Names::Fields(FREE_FORM))
}

/// Checks that parsers cannot disagree about a part of a response.
pub fn check_part(text: &[u8]) -> Result<()> {
    strict_json::check(text, Names::Fields(FREE_FORM))?;
    Ok(())
}

/// Parses a value from an untrusted source. Keys keep their order and numbers their
/// precision.
///
/// # Errors
///
/// Fails for invalid JSON, for JSON that parsers could disagree about, and for too many values.
pub fn parse(text: &str) -> Result<Value> {
    check_count(strict_json::check(text.as_bytes(), Names::Free)?)?;
    serde_json::from_str(text).map_err(|error| DialectError::Json(error.to_string()))
}

/// Reads JSON of a document.
///
/// # Errors
///
/// Fails if it is of another type.
pub fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    serde_json::from_slice(json).map_err(|error| DialectError::Json(error.to_string()))
}

/// Returns a document as JSON.
///
/// # Errors
///
/// Fails if an edit of the document is no JSON.
pub fn to_value(document: &Document) -> Result<Value> {
    read_json(&document.to_bytes())
}

/// Returns a text as it is, and any other value as JSON.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds a field, if there is a value for it.
pub fn add_field(fields: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    fields.extend(value.map(|value| (name.to_owned(), value.into())));
}

/// Adds a field with a list, unless the list is empty.
pub fn add_list(fields: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    add_field(fields, name, Some(list).filter(|list| !list.is_empty()));
}

/// Removes the elements of a list that `keep` rejects by their indexes, and the field if none is
/// left.
///
/// # Errors
///
/// Fails if the field holds anything but a list.
pub fn retain_elements(
    document: &mut Document,
    field: &[&str],
    mut keep: impl FnMut(usize) -> bool,
) -> Result<()> {
    let list = repeated_json(document, field)?.unwrap_or_default();
    let count = list.len();
    let kept = list.into_iter().enumerate();
    let kept = kept.filter(|(index, _)| keep(*index));
    let kept: Vec<Bytes> = kept.map(|(_, element)| element).collect();
    match kept.len() {
        same if same == count => Ok(()),
        0 => document.remove(field),
        _ => document.set_bytes(field, write_array(kept)),
    }
}

/// Creates a document from JSON that hookgate made, or from JSON that was checked.
///
/// # Errors
///
/// Fails if the value is no object.
pub fn to_document(value: &Value) -> Result<Document> {
    Document::from_checked(value.to_string().into())
}

/// Copies a field of another document under another name, if it is present there.
///
/// # Errors
///
/// Fails if either document has the field in another spelling.
pub fn copy_field(to: &mut Document, field: &[&str], from: &Document, name: &[&str]) -> Result<()> {
    match from.bytes_of(name)? {
        Some(value) => to.set_bytes(field, value),
        None => Ok(()),
    }
}

/// Sets a field, or removes it if there is no value for it.
///
/// # Errors
///
/// Fails if the document has the field in another spelling.
pub fn set_or_remove(document: &mut Document, field: &[&str], value: Option<Value>) -> Result<()> {
    match value {
        Some(value) => document.set(field, &value),
        None => document.remove(field),
    }
}

/// Returns an object that must be present.
///
/// # Errors
///
/// Fails if it is absent or has another type.
pub fn required_child(document: &Document, field: &'static str) -> Result<Document> {
    let child = document.child(&[field])?;
    child.ok_or_else(|| field_error(field, "an object"))
}

/// Returns whether two lists of documents are the same JSON, byte for byte.
pub fn same_bytes(one: &[Document], other: &[Document]) -> bool {
    let one = one.iter().map(Document::to_bytes);
    one.eq(other.iter().map(Document::to_bytes))
}

/// Returns whether a condition that may fail holds for any element.
pub fn try_any<T>(
    elements: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool>,
) -> Result<bool> {
    for element in elements {
        if holds(element)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Inserts a field into a JSON object.
pub fn insert(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value.into());
    }
}

/// Returns the objects of a repeated field. An object that is no list counts as the only element,
/// as for the parsers of Google's APIs.
///
/// # Errors
///
/// Fails for every other type.
pub fn repeated(document: &Document, field: &[&str]) -> Result<Option<Vec<Document>>> {
    if is_object(document, field)? {
        return Ok(document.child(field)?.map(|only| vec![only]));
    }
    document.children(field)
}

/// Refuses a request with too many values, before any of them is read.
///
/// # Errors
///
/// Fails for such a request.
pub fn check_values(request: &Document) -> Result<()> {
    check_count(request.all_values())
}

/// Adds the number of values in a part of a request to that of the parts in front of it: values
/// in a string, such as arguments, do not count in [`check_values`].
///
/// # Errors
///
/// Fails if the parts have too many together.
pub fn count_values(total: &mut usize, part: &Value) -> Result<()> {
    *total += 1;
    check_count(*total)?;
    match part {
        Value::Array(items) => items.iter().try_for_each(|item| count_values(total, item)),
        Value::Object(fields) => fields
            .values()
            .try_for_each(|value| count_values(total, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Refuses more values than a request may have: each takes many times its bytes in memory.
fn check_count(values: usize) -> Result<()> {
    if values > MAX_VALUES {
        return Err(DialectError::Json("more than 524,288 values".to_owned()));
    }
    Ok(())
}

/// Refuses a list with too many elements or parts, before any of them is read. The parts are
/// `levels` below the list.
///
/// # Errors
///
/// Fails for such a list.
pub fn check_length(document: &Document, list: &[&str], levels: usize) -> Result<()> {
    // Most requests have fewer values in all, of any kind.
    if document.values() <= MAX_ELEMENTS {
        return Ok(());
    }
    // An only element in the place of a list is a level nearer to its parts.
    let levels = levels - usize::from(is_object(document, list)?);
    if document.count(list, 1)?.max(document.count(list, levels)?) > MAX_ELEMENTS {
        let field = list.first().copied().unwrap_or_default();
        let expected = "a list of at most 65,536 elements with 65,536 parts in all";
        return Err(field_error(field, expected));
    }
    Ok(())
}

/// Returns the elements of a repeated field like [`repeated`], as JSON.
///
/// # Errors
///
/// Fails for every other type.
pub fn repeated_json(document: &Document, field: &[&str]) -> Result<Option<Vec<Bytes>>> {
    if is_object(document, field)? {
        return Ok(document.bytes_of(field)?.map(|only| vec![only]));
    }
    document.list(field)
}

/// Edits the objects of a repeated field in place, see [`repeated`].
///
/// # Errors
///
/// Fails for every other type, and if an edit fails.
pub fn edit_repeated(
    document: &mut Document,
    field: &[&str],
    edit: impl FnMut(&mut Document) -> Result<()>,
) -> Result<()> {
    if is_object(document, field)? {
        return document.edit_child(field, edit);
    }
    document.edit_children(field, edit)
}

fn is_object(document: &Document, field: &[&str]) -> Result<bool> {
    Ok(first_byte(document, field)? == Some(b'{'))
}

/// Returns the first byte of a field's value; `None` for an absent field and for `null`.
///
/// # Errors
///
/// Fails if the document has the field in another spelling.
pub fn first_byte(document: &Document, field: &[&str]) -> Result<Option<u8>> {
    let value = document.bytes_of(field)?;
    let value = value.filter(|value| **value != *b"null");
    Ok(value.and_then(|value| value.first().copied()))
}

/// Returns whether a field is present and not `null`.
///
/// # Errors
///
/// Fails if the document has the field in another spelling.
pub fn is_set(document: &Document, field: &[&str]) -> Result<bool> {
    Ok(first_byte(document, field)?.is_some())
}

/// Refuses two fields of which a server reads one.
///
/// # Errors
///
/// Fails if both are set.
pub fn refuse_pair(document: &Document, one: &[&str], other: &[&str]) -> Result<()> {
    if is_set(document, one)? && is_set(document, other)? {
        let field = one.first().copied().unwrap_or_default();
        return Err(DialectError::Ambiguous(field.to_owned()));
    }
    Ok(())
}

/// Returns a number that is no fraction and not negative.
///
/// # Errors
///
/// Fails if the document has the field in another spelling.
pub fn integer(document: &Document, field: &[&str]) -> Result<Option<u64>> {
    Ok(document.get(field)?.and_then(|value| value.as_u64()))
}

/// Returns the elements of a JSON array, or the value itself if it is no array.
///
/// # Errors
///
/// Fails for invalid JSON, and for JSON that parsers could disagree about.
pub fn elements(bytes: &Bytes) -> Result<Vec<Bytes>> {
    let layout = strict_json::lay_out(bytes, Names::Fields(FREE_FORM), 1)?;
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        return Ok(vec![bytes.clone()]);
    }
    let indexes = layout.within(0).into_iter().flatten();
    let places = indexes.filter_map(|index| layout.place(index));
    Ok(places.map(|place| bytes.slice(place)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_bytes() {
        let elements = |text: &'static str| elements(&Bytes::from_static(text.as_bytes()));
        let found = elements(r#" [ {"a":"],"} , [1.0, 2],"\"," ] "#).unwrap();
        assert_eq!(found, [r#"{"a":"],"}"#, "[1.0, 2]", r#""\",""#]);
        assert_eq!(elements(" 5").unwrap(), [" 5"]);
        assert!(elements("[]").unwrap().is_empty());
        assert!(elements("[1,]").is_err());
    }

    #[test]
    fn numbers_keep_their_precision_and_keys_their_order() {
        for text in [
            r#"{"z":1.0,"a":[-0,12345678901234567890123,0.10],"m":null}"#,
            r#""x""#,
            "true",
            "0",
            "[0,-1,2.5]",
            "[]",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn ambiguous_json_is_refused() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"b":1,"\u0062":2}]}"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            "{} {}",
            "\u{feff}{}",
            "{",
            r#""\ud800""#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
