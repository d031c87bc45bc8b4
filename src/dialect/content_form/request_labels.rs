//! Labels of requests: the body and the objects in one of its fields may have fields that hookgate
//! does not interpret.

use serde_json::{Map, Value};

use super::{
    answer_labels::VisitObjects,
    labels::{read_labels, write_labels, write_next_labels},
};
use crate::dialect::{
    document::{Document, read_json},
    error::Result,
    google::fields::LABELS,
};

/// The fields of an API's requests that are labels.
#[derive(Debug)]
pub struct RequestLabels {
    /// Fields of the body that hooks and policies see otherwise, or that hold no text.
    pub known: &'static [&'static str],
    /// One of them, whose objects may have labels. In the content form, their labels have its name.
    pub inner: &'static str,
    pub visit: VisitObjects,
}

impl RequestLabels {
    /// Returns the labels of a body, with a list of those of its objects, in the order of the
    /// visit.
    pub fn read(&self, body: &Document) -> Result<Map<String, Value>> {
        let mut labels = read_labels(body, self.known)?;
        let mut objects = Vec::new();
        (self.visit)(&mut body.clone(), &mut |object, known| {
            let labels = read_labels(object, known)?;
            objects.extend((!labels.is_empty()).then_some(labels));
            Ok(())
        })?;
        if !objects.is_empty() {
            labels.insert(self.inner.to_owned(), objects.into());
        }
        Ok(labels)
    }

    /// Writes the labels of an edited request in the content form into its body, before any object
    /// of the body is removed or inserted.
    pub fn write(&self, body: &mut Document, before: &Document, after: &Document) -> Result<()> {
        let objects_of = |form: &Document| -> Result<Vec<Map<String, Value>>> {
            let labels = form.child(LABELS)?.unwrap_or_default();
            let objects = labels.bytes_of(&[self.inner])?;
            let objects = objects.map(|objects| read_json(&objects)).transpose()?;
            Ok(objects.unwrap_or_default())
        };
        let edited = objects_of(after)?;
        if objects_of(before)? != edited {
            let mut edited = edited.iter();
            (self.visit)(body, &mut |object, known| {
                write_next_labels(object, known, &mut edited)
            })?;
        }
        let mut before = before.clone();
        before.edit_child(LABELS, |labels| labels.remove(&[self.inner]))?;
        write_labels(body, &before, after)
    }
}
