//! Writes an edited list in the content form back to the list of an API.

use std::{collections::HashMap, ops::Range};

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{
    document::{Document, insert},
    error::Result,
    google::fields::{CANDIDATES, PARTS, SOURCE},
};

/// Returns the candidates with the index 0. APIs with one candidate drop the others, which only
/// hooks make; text that policies held back is in a candidate of its own.
pub fn first_candidates(form: &Document) -> Result<Vec<Document>> {
    let mut first = Vec::new();
    for candidate in form.children(CANDIDATES)?.unwrap_or_default() {
        let index = candidate.get(&["index"])?;
        if index.is_none_or(|index| index.as_u64() == Some(0)) {
            first.push(candidate);
        }
    }
    Ok(first)
}

/// Returns the parts of the content in a field; none if there is no content.
///
/// # Errors
///
/// Fails if the field holds no content.
pub fn parts_in(object: &Document, field: &[&str]) -> Result<Vec<Document>> {
    let content = object.child(field)?.unwrap_or_default();
    Ok(content.children(PARTS)?.unwrap_or_default())
}

/// Returns the index of the element that a content, part or declaration was read from.
pub fn source_of(element: &Document) -> Option<usize> {
    let source = element.get(&[SOURCE]).ok().flatten()?;
    usize::try_from(source.as_u64()?).ok()
}

/// Returns an element with the index of its original.
pub fn with_source(mut element: Value, source: usize) -> Value {
    insert(&mut element, SOURCE, source);
    element
}

/// Returns elements with their positions as sources.
pub fn numbered(elements: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let elements = elements.into_iter().enumerate();
    let numbered = elements.map(|(source, element)| with_source(element, source));
    numbered.collect()
}

/// Writes an edited list back.
///
/// `before` and `after` are elements in the content form, whose sources are indexes into
/// `originals`. Originals without an element in `before` are hidden: they stay where they are, in
/// front of what is inserted. Elements that are missing in `after` go, and equal ones keep the
/// bytes of the original. Others are written as the API has them: edited ones by `rewrite`, with
/// their index, and new ones by `create`.
///
/// # Errors
///
/// Fails if `rewrite` or `create` does.
pub fn splice_list(
    originals: &[Bytes],
    before: &[Document],
    after: &[Document],
    rewrite: impl Fn(usize, &Document, &Document) -> Result<Vec<Bytes>>,
    create: impl Fn(&Document) -> Result<Vec<Bytes>>,
) -> Result<Vec<Bytes>> {
    let shown = before.iter();
    let shown = shown.filter_map(|element| Some((source_of(element)?, element)));
    let shown: HashMap<usize, &Document> = shown.collect();
    let hidden = |indexes: Range<usize>| {
        let indexes = indexes.filter(|index| !shown.contains_key(index));
        indexes.filter_map(|index| originals.get(index).cloned())
    };
    let mut written = Vec::with_capacity(originals.len());
    // New elements, until it is known which hidden ones are in front of them.
    let mut inserted = Vec::new();
    let mut next = 0;
    for element in after {
        let known = source_of(element).filter(|index| *index >= next);
        let known = known.and_then(|index| Some((index, *shown.get(&index)?)));
        let Some((index, unedited)) = known else {
            inserted.extend(create(element)?);
            continue;
        };
        written.extend(hidden(next..index));
        written.append(&mut inserted);
        next = index + 1;
        if unedited.to_bytes() == element.to_bytes() {
            written.extend(originals.get(index).cloned());
        } else {
            written.extend(rewrite(index, unedited, element)?);
        }
    }
    written.extend(hidden(next..originals.len()));
    written.append(&mut inserted);
    Ok(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(value: &Value) -> Document {
        Document::from_checked(value.to_string().into()).unwrap()
    }

    fn shown(index: usize, text: &str) -> Document {
        document(&json!({ "text": text, SOURCE: index }))
    }

    fn new(text: &str) -> Document {
        document(&json!({ "text": text }))
    }

    /// Originals `a` to `e`, of which `b` and `d` are hidden.
    #[track_caller]
    fn check(after: &[Document], expected: &str) {
        let text = |element: &Document| element.string(&["text"]).unwrap().unwrap_or_default();
        let originals = ["a", "b", "c", "d", "e"].map(Bytes::from);
        let before = [shown(0, "a"), shown(2, "c"), shown(4, "e")];
        let spliced = splice_list(
            &originals,
            &before,
            after,
            |index, _, after| Ok(vec![format!("{index}{}", text(after)).into()]),
            |after| Ok(vec![format!("new {}", text(after)).into()]),
        );
        let spliced = spliced.unwrap();
        let texts = spliced.iter().map(|text| String::from_utf8_lossy(text));
        assert_eq!(texts.collect::<Vec<_>>().join(","), expected);
    }

    #[test]
    fn an_unedited_list_keeps_its_elements() {
        let after = [shown(0, "a"), shown(2, "c"), shown(4, "e")];
        check(&after, "a,b,c,d,e");
    }

    #[test]
    fn edited_elements_are_rewritten_and_removed_ones_go() {
        let after = [shown(0, "A"), shown(4, "e")];
        check(&after, "0A,b,d,e");
    }

    #[test]
    fn hidden_elements_stay_in_front_of_what_is_inserted() {
        let after = [
            new("x"),
            shown(0, "a"),
            new("y"),
            shown(2, "c"),
            shown(4, "e"),
        ];
        check(&after, "new x,a,b,new y,c,d,e");
    }

    #[test]
    fn appended_elements_are_last() {
        let after = [shown(0, "a"), new("y")];
        check(&after, "a,b,d,new y");
    }
}
