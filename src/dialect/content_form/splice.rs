//! Writes an edited list in the content form back to the list of an API.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;

use crate::dialect::{document::Document, error::DialectError, google::fields::SOURCE};

/// Handling of elements that the content form does not show, when a list is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// They stay where they are, in front of what is inserted (thinking).
    First,
    /// They belong to the next element: what is inserted goes in front of them, and they go
    /// if that goes (reasoning items).
    OfNext,
}

/// Writes single elements of a list.
pub trait SpliceElements {
    /// Returns an edited element as the API writes it.
    ///
    /// # Errors
    ///
    /// Fails if the edit cannot be written.
    fn rewrite(
        &mut self,
        index: usize,
        before: &Document,
        after: &Document,
    ) -> Result<Vec<Bytes>, DialectError>;

    /// Returns a new element as the API writes it.
    ///
    /// # Errors
    ///
    /// Fails if the API has no form for it.
    fn create(&mut self, after: &Document) -> Result<Vec<Bytes>, DialectError>;
}

/// Returns the index of the element that a content, part or declaration was read from.
pub fn source_of(element: &Document) -> Option<usize> {
    let source = element.get(&[SOURCE]).ok().flatten()?;
    usize::try_from(source.as_u64()?).ok()
}

/// Returns an element with the index of its original.
pub fn with_source(mut element: Value, source: usize) -> Value {
    if let Some(fields) = element.as_object_mut() {
        fields.insert(SOURCE.to_owned(), source.into());
    }
    element
}

/// Returns elements with their positions as sources.
pub fn numbered(elements: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let elements = elements.into_iter().enumerate();
    elements
        .map(|(source, element)| with_source(element, source))
        .collect()
}

/// Writes an edited list back.
///
/// `before` and `after` are elements in the content form, whose sources are indexes into
/// `originals`. Originals without an element in `before` are hidden. Elements that are missing
/// in `after` go, equal ones keep the bytes of the original, others are written by `edit`.
///
/// # Errors
///
/// Fails if `edit` does.
pub fn splice_list(
    originals: &[Bytes],
    before: &[Document],
    after: &[Document],
    hidden: Hidden,
    edit: &mut dyn SpliceElements,
) -> Result<Vec<Bytes>, DialectError> {
    let shown: HashMap<usize, &Document> = before
        .iter()
        .filter_map(|element| Some((source_of(element)?, element)))
        .collect();
    let mut list = SplicedList {
        originals,
        shown,
        hidden,
        next: 0,
        inserted: Vec::new(),
        written: Vec::with_capacity(originals.len()),
    };
    for element in after {
        let known = source_of(element).filter(|index| *index >= list.next);
        let known = known.and_then(|index| Some((index, *list.shown.get(&index)?)));
        match known {
            None => list.inserted.extend(edit.create(element)?),
            Some((index, unedited)) => {
                list.advance(index);
                if unedited.to_bytes() == element.to_bytes() {
                    list.written.extend(originals.get(index).cloned());
                } else {
                    list.written.extend(edit.rewrite(index, unedited, element)?);
                }
            }
        }
    }
    list.finish();
    Ok(list.written)
}

struct SplicedList<'a> {
    originals: &'a [Bytes],
    shown: HashMap<usize, &'a Document>,
    hidden: Hidden,
    /// Index of the first original that is not written yet.
    next: usize,
    /// New elements whose place depends on the hidden ones that follow.
    inserted: Vec<Bytes>,
    written: Vec<Bytes>,
}

impl SplicedList<'_> {
    /// Writes what comes before the original `index`.
    fn advance(&mut self, index: usize) {
        let kept = match self.hidden {
            Hidden::First => self.hidden_before(index),
            Hidden::OfNext => {
                self.written.append(&mut self.inserted);
                self.hidden_before(index)
            }
        };
        self.written.extend(kept);
        self.written.append(&mut self.inserted);
        self.next = index + 1;
    }

    /// Writes what comes after the last shown element.
    fn finish(&mut self) {
        let kept = self.hidden_before(self.originals.len());
        self.written.extend(kept);
        self.written.append(&mut self.inserted);
    }

    /// Returns the hidden originals in front of `end` that stay.
    fn hidden_before(&self, end: usize) -> Vec<Bytes> {
        let mut kept = Vec::new();
        for index in self.next..end {
            if self.shown.contains_key(&index) {
                // It was removed, and what belongs to it goes, too.
                if self.hidden == Hidden::OfNext {
                    kept.clear();
                }
            } else {
                kept.extend(self.originals.get(index).cloned());
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Upper;

    impl SpliceElements for Upper {
        fn rewrite(
            &mut self,
            index: usize,
            _before: &Document,
            after: &Document,
        ) -> Result<Vec<Bytes>, DialectError> {
            let text = after.string(&["text"])?.unwrap_or_default();
            Ok(vec![format!("{index}{text}").into()])
        }

        fn create(&mut self, after: &Document) -> Result<Vec<Bytes>, DialectError> {
            let text = after.string(&["text"])?.unwrap_or_default();
            Ok(vec![format!("new {text}").into()])
        }
    }

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
    fn check(after: &[Document], hidden: Hidden, expected: &str) {
        let originals = ["a", "b", "c", "d", "e"].map(Bytes::from);
        let before = [shown(0, "a"), shown(2, "c"), shown(4, "e")];
        let spliced = splice_list(&originals, &before, after, hidden, &mut Upper).unwrap();
        let texts = spliced.iter().map(|text| String::from_utf8_lossy(text));
        assert_eq!(texts.collect::<Vec<_>>().join(","), expected);
    }

    #[test]
    fn an_unedited_list_keeps_its_elements() {
        let after = [shown(0, "a"), shown(2, "c"), shown(4, "e")];
        check(&after, Hidden::First, "a,b,c,d,e");
        check(&after, Hidden::OfNext, "a,b,c,d,e");
    }

    #[test]
    fn edited_elements_are_rewritten_and_removed_ones_go() {
        let after = [shown(0, "A"), shown(4, "e")];
        check(&after, Hidden::First, "0A,b,d,e");
        check(&after, Hidden::OfNext, "0A,d,e");
    }

    #[test]
    fn hidden_elements_stay_in_front_of_what_is_inserted_or_behind() {
        let after = [
            new("x"),
            shown(0, "a"),
            new("y"),
            shown(2, "c"),
            shown(4, "e"),
        ];
        check(&after, Hidden::First, "new x,a,b,new y,c,d,e");
        check(&after, Hidden::OfNext, "new x,a,new y,b,c,d,e");
    }

    #[test]
    fn appended_elements_are_last() {
        let after = [shown(0, "a"), new("y")];
        check(&after, Hidden::First, "a,b,d,new y");
        check(&after, Hidden::OfNext, "a,new y");
    }
}
