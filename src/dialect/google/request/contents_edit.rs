//! Edits of a request's contents for asking the model again.

use bytes::Bytes;

use crate::dialect::{
    document::{Document, write_array},
    error::DialectError,
    google::{content::Content, fields::CONTENTS, part::Part},
};

/// Replaces all contents by texts of the user. gemini-cli's introduction is kept.
pub fn replace_contents(document: &mut Document, texts: &[&str]) -> Result<(), DialectError> {
    let contents = document.list(CONTENTS)?.unwrap_or_default();
    let first = contents.into_iter().next().map(Content::from_bytes);
    let parts = first.transpose()?.map(|first| first.parts);
    let kept = parts.unwrap_or_default().into_iter();
    let kept = kept.filter(Part::is_introduction).map(Ok);
    let new = texts.iter().map(|text| Part::from_text(text));
    let parts: Vec<Part> = kept.chain(new).collect::<Result<_, _>>()?;
    let content = Content::new("user", parts)?;
    document.set_children(CONTENTS, [&content.document])
}

/// Appends contents to those of a request.
pub fn append_contents(document: &mut Document, contents: &[Bytes]) -> Result<(), DialectError> {
    let mut all = document.list(CONTENTS)?.unwrap_or_default();
    all.extend_from_slice(contents);
    document.set_bytes(CONTENTS, write_array(all))
}
