//! The parts of a request body that hold a conversation.

use crate::dialect::{
    call::Call,
    document::Document,
    error::DialectError,
    google::{
        contents::Contents,
        fields::{CONTENT, CONTENTS, REQUESTS, WRAPPED_REQUEST},
    },
    method::Operation,
};

/// Returns the request that a `countTokens` request wraps, if it does.
///
/// # Errors
///
/// Fails if there are contents beside it.
pub fn counted_request(call: &Call, document: &Document) -> Result<Option<Document>, DialectError> {
    if call.operation != Operation::CountTokens {
        return Ok(None);
    }
    let inner = document.child(WRAPPED_REQUEST)?;
    if inner.is_some() && document.list(CONTENTS)?.is_some() {
        return Err(DialectError::Ambiguous("contents".to_owned()));
    }
    Ok(inner)
}

/// Reads the contents of a request, or of the texts to embed.
pub fn read_contents(call: &Call, document: &Document) -> Result<Contents, DialectError> {
    let list = match call.operation {
        Operation::Embed => document.child(CONTENT)?.into_iter().collect(),
        Operation::BatchEmbed => {
            let requests = document.children(REQUESTS)?.unwrap_or_default();
            let contents = requests.iter().map(|request| request.child(CONTENT));
            let contents: Vec<Option<Document>> = contents.collect::<Result<_, _>>()?;
            contents.into_iter().flatten().collect()
        }
        Operation::Generate
        | Operation::Stream(_)
        | Operation::CountTokens
        | Operation::CreateCache
        | Operation::UseCache
        | Operation::Other => document.children(CONTENTS)?.unwrap_or_default(),
    };
    Contents::read(list)
}
