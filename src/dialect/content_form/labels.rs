//! Free texts beside the conversation: labels, a predicted answer and fields that hookgate does
//! not interpret. Policies on texts see them as `labels`.

use serde_json::{Map, Value};

use crate::dialect::{
    document::{Document, read_json},
    error::Result,
    google::fields::LABELS,
};

/// Returns the fields of a request that are not among the `known` ones.
pub fn read_labels(body: &Document, known: &[&str]) -> Result<Map<String, Value>> {
    let mut labels = Map::new();
    for (key, value) in body.fields() {
        // A value without a text needs no inspection.
        if !known.contains(&&*key) && value.contains(&b'"') {
            labels.insert(key.into_owned(), read_json(&value)?);
        }
    }
    Ok(labels)
}

/// Writes edited labels into the fields that they were read from.
pub fn write_labels(body: &mut Document, before: &Document, after: &Document) -> Result<()> {
    let Some(before) = before.child(LABELS)? else {
        return Ok(());
    };
    let after = after.child(LABELS)?.unwrap_or_default();
    for (key, known) in before.fields() {
        match after.bytes_of(&[&*key])? {
            Some(value) if value != known => body.set_bytes(&[&*key], value)?,
            Some(_) => (),
            // Its name was edited, or it was removed.
            None => body.remove(&[&*key])?,
        }
    }
    Ok(())
}

/// Writes the next edited labels into an object, if it has any. Fields of which the name was edited
/// are removed.
pub fn write_next_labels<'a>(
    object: &mut Document,
    known: &[&str],
    edited: &mut impl Iterator<Item = &'a Map<String, Value>>,
) -> Result<()> {
    let labels = read_labels(object, known)?;
    if labels.is_empty() {
        return Ok(());
    }
    let edited = edited.next();
    for (key, before) in labels {
        match edited.and_then(|labels| labels.get(&key)) {
            Some(label) if *label == before => (),
            Some(label) => object.set(&[&key], label)?,
            None => object.remove(&[&key])?,
        }
    }
    Ok(())
}

/// Adds the labels of a later piece; different values of one field become a list.
pub fn join_labels(labels: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match (labels.get_mut(&key), value) {
            (Some(known), value) if *known == value => (),
            (Some(Value::Array(known)), Value::Array(list)) => known.extend(list),
            (Some(Value::Array(known)), value) => known.push(value),
            (Some(known), value) => *known = Value::Array(vec![known.take(), value]),
            (None, value) => drop(labels.insert(key, value)),
        }
    }
}

/// Removes the fields that are labels.
pub fn remove_labels(body: &mut Document, known: &[&str]) -> Result<()> {
    let labels = read_labels(body, known)?;
    labels.keys().try_for_each(|key| body.remove(&[key]))
}

/// Removes all but the `known` fields.
pub fn keep_fields(object: &mut Document, known: &[&str]) -> Result<()> {
    let names: Vec<String> = object.fields().map(|(name, _)| name.into_owned()).collect();
    let mut unknown = names.iter().filter(|name| !known.contains(&name.as_str()));
    unknown.try_for_each(|name| object.remove(&[name]))
}
