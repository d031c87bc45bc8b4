//! Parts of the event that ends a stream: an error, and items that no event had before.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde_json::{Value, json};

use crate::dialect::{
    content_form::with_source,
    document::{Document, to_value},
    error::Result,
    openai_responses::{
        fields::ERROR,
        response::item::{OutputKind, id_of, item_parts},
        stream::event::{EventClass, StreamEvent},
    },
};

/// Id and kind of an item.
#[derive(Debug)]
pub struct ItemIdentity {
    pub id: Option<String>,
    pub kind: OutputKind,
}

impl ItemIdentity {
    /// Reads those of a complete item.
    pub fn of(item: &Document) -> Result<Self> {
        Ok(Self {
            id: id_of(item)?,
            kind: OutputKind::of(item)?,
        })
    }
}

/// Returns the error that ends an answer, for one that is written anew.
pub fn error_of(event: &StreamEvent, response: &Document) -> Result<Option<Value>> {
    let is_failure = event.class == EventClass::Failed;
    let failed = if is_failure {
        &event.document
    } else {
        response
    };
    let error = match failed.get(ERROR)? {
        Some(error @ Value::Object(_)) => error,
        Some(_) | None if is_failure => to_value(failed)?,
        Some(_) | None => return Ok(None),
    };
    let fields = ["code", "message", "param"].map(|field| (field, error.get(field)));
    Ok(Some(json!(BTreeMap::from(fields))))
}

/// Returns, for each item of the last event, the position of the earlier one that it repeats: that
/// with its id, or else the next of its kind, since some servers give items other ids or positions
/// in the last event.
pub fn repeated(output: &[Document], earlier: &[ItemIdentity]) -> Result<Vec<Option<usize>>> {
    let last = output.iter().map(ItemIdentity::of);
    let last: Vec<ItemIdentity> = last.collect::<Result<_>>()?;
    let mut by_id: HashMap<(&str, OutputKind), Option<usize>> = HashMap::new();
    for (position, item) in earlier.iter().enumerate() {
        if let Some(id) = &item.id {
            // An id of two items is that of none.
            let known = by_id.entry((id, item.kind));
            known
                .and_modify(|known| *known = None)
                .or_insert(Some(position));
        }
    }
    let found = last.iter();
    let found = found.map(|item| by_id.get_mut(&(item.id.as_deref()?, item.kind))?.take());
    let found: Vec<Option<usize>> = found.collect();
    let used: HashSet<usize> = found.iter().flatten().copied().collect();
    let mut others: HashMap<OutputKind, VecDeque<usize>> = HashMap::new();
    for (position, item) in earlier.iter().enumerate() {
        if !used.contains(&position) {
            others.entry(item.kind).or_default().push_back(position);
        }
    }
    let items = last.iter().zip(found);
    let items =
        items.map(|(item, found)| found.or_else(|| others.get_mut(&item.kind)?.pop_front()));
    Ok(items.collect())
}

/// Returns the parts of the items that repeat no earlier one, with their positions among the parts
/// of all items as sources.
pub fn unseen_parts(output: &[Document], repeated: &[Option<usize>]) -> Result<Vec<Value>> {
    let (mut parts, mut number) = (Vec::new(), 0);
    for (index, item) in output.iter().enumerate() {
        let is_seen = repeated.get(index).is_some_and(Option::is_some);
        for part in item_parts(item)? {
            if !is_seen {
                parts.push(with_source(part, number));
            }
            number += 1;
        }
    }
    Ok(parts)
}
