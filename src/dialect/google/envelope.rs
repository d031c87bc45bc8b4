//! What stands around a request and an answer on the wire, taken off at the rim
//! and put back there. Pure.

use bytes::Bytes;

use crate::{dialect::{call::{Call, Operation}, DialectError, document::Document, google::{response::{ResponseDocument, CANDIDATES}, request::{CACHED, CONTENTS, GENERATION, MODEL, TOOL_CONFIG, check_model, patch::rename, system_instruction::SYSTEM, tools::TOOLS}}}, model::ModelName};

const REQUEST: &[&str] = &["request"];
const RESPONSE: &[&str] = &["response"];
const SESSION: &[&str] = &["session_id", "sessionId"];

/// What a model reads, and hooks see, stands in the request and nowhere else.
const WITHIN: &[&[&str]] = &[CONTENTS, CACHED, SYSTEM, TOOLS, TOOL_CONFIG, GENERATION];

/// A request that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The request as the Gemini API has it.
    pub document: Document,
    /// What stood around it, if anything did.
    pub around: Option<Document>,
    /// The session that it names itself, if it does.
    pub session: Option<String>,
}

/// A request with nothing around it. What is kept names its model in the body
/// only.
pub fn open_bare(call: &mut Call, body: Document) -> Result<Opened, DialectError> {
    if call.operation == Operation::CreateCache {
        call.model = Some(named(call, &body)?.ok_or_else(unnamed)?);
    }
    check_model(call, &body)?;
    Ok(Opened {
        document: body,
        around: None,
        session: None,
    })
}

/// A request under `request`, and none beside it. The model stands beside it, or in it, or in both
/// places if they agree.
pub fn open_wrapped(call: &mut Call, body: Document) -> Result<Opened, DialectError> {
    let document = body.child(REQUEST)?.ok_or_else(|| DialectError::Field {
        field: "request".to_owned(),
        expected: "an object",
    })?;
    let beside = WITHIN.iter().flat_map(|it| it.iter());
    if let Some(field) = beside.into_iter().find(|it| body.has(&[it])) {
        return Err(DialectError::Ambiguous((*field).to_owned()));
    }
    let outer = named(call, &body)?;
    let inner = if outer.is_none() {
        named(call, &document)?
    } else {
        None
    };
    call.model = Some(outer.or(inner).ok_or_else(unnamed)?);
    check_model(call, &document)?;
    Ok(Opened {
        session: document.string(SESSION)?,
        document,
        around: Some(body),
    })
}

/// The body as it goes out. What nobody changed keeps its bytes.
pub fn close_request(
    call: &Call,
    around: Option<&Document>,
    document: &Document,
) -> Result<Bytes, DialectError> {
    let Some(around) = around else {
        return Ok(document.to_bytes());
    };
    let mut around = around.clone();
    if let Some(model) = &call.model
        && named(call, &around)?.is_some_and(|it| it != *model)
    {
        rename(&mut around, model)?;
    }
    put(&mut around, REQUEST, document.to_bytes())?;
    Ok(around.to_bytes())
}

/// An answer under `response`. Who reads an answer beside it, reads something
/// else than hooks do.
pub fn open_answer(bytes: Bytes) -> Result<ResponseDocument, DialectError> {
    let around = Document::parse(bytes)?;
    if around.has(CANDIDATES) {
        return Err(DialectError::Ambiguous("candidates".to_owned()));
    }
    let inner = around.child(RESPONSE)?.map_or_else(Document::empty, Ok)?;
    let mut answer = ResponseDocument::parse(inner.to_bytes())?;
    answer.around = Some(around);
    Ok(answer)
}

/// An answer or a chunk as it goes out. One of our own gets an envelope of its
/// own.
pub fn close_answer(answer: &ResponseDocument) -> Bytes {
    let inner = answer.to_bytes();
    if let Some(mut around) = answer.around.clone() {
        let says_nothing = matches!(around.child(RESPONSE), Ok(None));
        if says_nothing && *inner == *b"{}" || put(&mut around, RESPONSE, inner.clone()).is_ok() {
            return around.to_bytes();
        }
    }
    wrap(&inner)
}

/// An answer with nothing around it, as the agent gets it.
pub fn wrap(inner: &[u8]) -> Bytes {
    [b"{\"response\":", inner, b"}"].concat().into()
}

/// Sets a field, unless that is what it says.
fn put(around: &mut Document, key: &[&str], text: Bytes) -> Result<(), DialectError> {
    if around.bytes_of(key)?.is_some_and(|it| it == text) {
        return Ok(());
    }
    around.set_bytes(key, text)
}

/// The model that a document names, if it does.
fn named(call: &Call, document: &Document) -> Result<Option<ModelName>, DialectError> {
    let Some(name) = document.string(MODEL)? else {
        return Ok(None);
    };
    call.named(&name).map(Some).ok_or_else(unnamed)
}

fn unnamed() -> DialectError {
    DialectError::Field {
        field: "model".to_owned(),
        expected: "the name of a model",
    }
}
