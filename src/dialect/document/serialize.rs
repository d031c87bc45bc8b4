//! Serialization of edited documents.

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::document::field::{Edit, Field};

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

/// Writes the object in `bytes` with the edits of its fields.
pub fn apply_edits(bytes: &[u8], fields: &[Field]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len());
    if fields.iter().any(Field::is_removed) {
        rewrite(bytes, fields, &mut out);
    } else {
        splice(bytes, fields, &mut out);
    }
    out.into()
}

/// Replaces the values of edited fields and appends new fields.
fn splice(bytes: &[u8], fields: &[Field], out: &mut Vec<u8>) {
    let mut copied = 0;
    for field in fields {
        if let (Some(Edit::Set(json)), Some(place)) = (&field.edit, &field.place) {
            out.extend(bytes.get(copied..place.start).unwrap_or_default());
            out.extend(json);
            copied = place.end;
        }
    }
    let end = bytes.iter().rposition(|byte| *byte == b'}');
    let end = end.unwrap_or(copied);
    out.extend(bytes.get(copied..end).unwrap_or_default());
    let had_fields = fields.iter().any(|field| field.place.is_some());
    let mut separator = if had_fields { "," } else { "" };
    for field in fields.iter().filter(|field| field.place.is_none()) {
        if let Some(Edit::Set(json)) = &field.edit {
            write_field(out, separator, &field.key, json);
            separator = ",";
        }
    }
    out.extend(bytes.get(end..).unwrap_or_default());
}

/// Writes field after field. Only white space between fields is lost.
fn rewrite(bytes: &[u8], fields: &[Field], out: &mut Vec<u8>) {
    out.push(b'{');
    let mut separator = "";
    for field in fields {
        let json = match (&field.edit, &field.place) {
            (Some(Edit::Remove), _) | (None, None) => continue,
            (Some(Edit::Set(json)), _) => json.as_ref(),
            (None, Some(place)) => bytes.get(place.clone()).unwrap_or_default(),
        };
        write_field(out, separator, &field.key, json);
        separator = ",";
    }
    out.push(b'}');
}

fn write_field(out: &mut Vec<u8>, separator: &str, key: &str, json: &[u8]) {
    out.extend(separator.as_bytes());
    out.extend(Value::from(key).to_string().as_bytes());
    out.push(b':');
    out.extend(json);
}
