//! The parts of a request body that hold a conversation, and edits for asking the model again.

use std::borrow::Cow;

use bytes::Bytes;

use crate::dialect::{
    call::Call,
    document::{Document, repeated, repeated_json, write_array},
    error::{DialectError, Result},
    google::{
        content::Content,
        contents::Contents,
        fields::{
            CONTENT, CONTENTS, CONTINUATION_TOKEN, HAS_STORED_HISTORY, REQUESTS, WRAPPED_REQUEST,
        },
        part::Part,
    },
    method::Operation,
};

/// Returns the request that a `countTokens` request wraps, if it does.
///
/// # Errors
///
/// Fails if there are contents beside it.
pub fn counted_request(call: &Call, document: &Document) -> Result<Option<Document>> {
    if call.operation != Operation::CountTokens {
        return Ok(None);
    }
    let inner = document.child(WRAPPED_REQUEST)?;
    if inner.is_some() && repeated_json(document, CONTENTS)?.is_some() {
        return Err(DialectError::Ambiguous("contents".to_owned()));
    }
    Ok(inner)
}

/// Returns the request that holds the contents of a call: the one that it wraps, or its body.
///
/// # Errors
///
/// Fails like [`counted_request`].
pub fn inner_request<'a>(call: &Call, document: &'a Document) -> Result<Cow<'a, Document>> {
    let counted = counted_request(call, document)?;
    Ok(counted.map_or(Cow::Borrowed(document), Cow::Owned))
}

/// Returns the requests of which each embeds one content; `None` if the call embeds none.
pub fn embeddings(call: &Call, document: &Document) -> Result<Option<Vec<Document>>> {
    match call.operation {
        Operation::Embed => Ok(Some(vec![document.clone()])),
        Operation::BatchEmbed => Ok(Some(repeated(document, REQUESTS)?.unwrap_or_default())),
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CountTokens
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => Ok(None),
    }
}

/// Returns the contents of a request, or those to embed.
pub fn contents(call: &Call, document: &Document) -> Result<Vec<Document>> {
    let Some(requests) = embeddings(call, document)? else {
        return Ok(repeated(document, CONTENTS)?.unwrap_or_default());
    };
    let contents = requests.iter().map(|request| request.child(CONTENT));
    contents.filter_map(Result::transpose).collect()
}

/// Reads the contents of a request, or those to embed.
pub fn read_contents(call: &Call, document: &Document) -> Result<Contents> {
    Contents::read(contents(call, document)?)
}

/// Replaces all contents by texts of the user. gemini-cli's introduction is kept. The request
/// continues no earlier answer then.
pub fn replace_contents(document: &mut Document, texts: &[&str]) -> Result<()> {
    let contents = repeated_json(document, CONTENTS)?.unwrap_or_default();
    let first = contents.into_iter().next().map(Content::from_bytes);
    let parts = first.transpose()?.map(|first| first.parts);
    let kept = parts.unwrap_or_default().into_iter();
    let kept = kept.filter(Part::is_introduction).map(Ok);
    let new = texts.iter().map(|text| Part::from_text(text));
    let parts: Vec<Part> = kept.chain(new).collect::<Result<_, _>>()?;
    let content = Content::new("user", parts)?;
    document.remove(CONTINUATION_TOKEN)?;
    document.remove(&[HAS_STORED_HISTORY])?;
    document.set_children(CONTENTS, [&content.document])
}

/// Appends contents to those of a request, which continues no earlier answer then.
pub fn append_contents(document: &mut Document, contents: &[Bytes]) -> Result<()> {
    let mut all = repeated_json(document, CONTENTS)?.unwrap_or_default();
    all.extend_from_slice(contents);
    document.remove(CONTINUATION_TOKEN)?;
    document.set_bytes(CONTENTS, write_array(all))
}
