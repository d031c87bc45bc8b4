//! Lenses between a model API's JSON and [`crate::model`].
//!
//! A dialect reads the stable form out of a document and writes mutations back
//! into it; what nobody changes keeps its bytes. All dialects here carry the
//! same request and answer; they differ in paths and in what is wrapped around.
//! Pure. To add a dialect: one file here and one line in [`ALL`].

mod call;
mod canonical;
mod chunk_merge;
mod code_assist;
mod content_edit;
mod contents;
mod document;
mod envelope;
mod function_calls;
mod gemini;
mod history;
mod json;
mod json_strings;
pub mod method_table;
mod part;
mod partial_function_calls;
mod query;
mod request;
mod request_patch;
mod request_text;
mod response;
mod response_builder;
mod response_text;
mod system_instruction;
mod text_chunk;
mod text_prescan;
mod tool_result_matching;
mod tool_selection;
mod tools;
mod vertex;

use bytes::Bytes;
use serde_json::{Map, Value};
use thiserror::Error;

pub use self::{
    call::{Api, Call, Framing, Operation, RequestLine},
    canonical::{CanonicalItem, ItemKind, canonical_items},
    chunk_merge::MergedChunks,
    document::{Document, elements},
    envelope::Opened,
    function_calls::{CallDecision, StepCall, append, refused_step, saying, start_over},
    history::{History, Turn},
    json::parse,
    json_strings::edit as edit_leaves,
    method_table::{Recognised, Row, recognise},
    partial_function_calls::PartialCalls,
    request::Detail,
    request_patch::Edited,
    request_text::{TextEditor, TextKind},
    response::{Counted, FunctionCall, ResponseDocument},
    response_text::{AnswerEditor, Channel, Rest, TextStream},
    text_chunk::Words,
    tool_result_matching::ToolResult,
    tool_selection::{Allowed, Selected},
};
use crate::model::{
    ErrorInfo, LlmRequest, ModelName, RequestMutation, ResponseMutation, ToolConfig,
};

/// Every dialect, asked in this order.
pub const ALL: &[&dyn Dialect] = &[&gemini::Gemini, &vertex::Vertex, &code_assist::CodeAssist];

/// One model API's way of writing a call.
pub trait Dialect: std::fmt::Debug + Send + Sync {
    /// The API that it is the way of.
    fn api(&self) -> Api;

    /// Its part of the coverage table.
    fn rows(&self) -> &'static [Row];

    /// Opens a request: takes off what is around it on the wire, and lets `call`
    /// know the model if only the body names it.
    fn open_request(&self, call: &mut Call, body: Document) -> Result<Opened, DialectError> {
        envelope::open_bare(call, body)
    }

    /// Closes a request that was opened: the body as it goes out. `around` is
    /// what stood around it.
    fn close_request(
        &self,
        call: &Call,
        around: Option<&Document>,
        document: &Document,
    ) -> Result<Bytes, DialectError> {
        envelope::close_request(call, around, document)
    }

    /// Opens an answer or a chunk: takes off what is around it on the wire.
    fn open_answer(&self, bytes: Bytes) -> Result<ResponseDocument, DialectError> {
        ResponseDocument::parse(bytes)
    }

    /// Opens a chunk as words, if it is nothing else; gives it back if not. Words that
    /// are like the last ones are opened at once.
    fn open_words(&self, bytes: Bytes, last: Option<&Words>) -> Result<Words, Bytes> {
        Words::read(bytes, json::Wrapping::None, last)
    }

    /// What an answer of our own looks like on the wire.
    fn wrap_answer(&self, inner: Bytes) -> Bytes {
        inner
    }

    /// Closes an answer or a chunk: as the agent gets it.
    fn close_answer(&self, answer: &ResponseDocument) -> Bytes {
        answer.to_bytes()
    }

    /// The stable form of a request, in such detail.
    fn read_request(
        &self,
        call: &Call,
        document: &Document,
        detail: Detail,
    ) -> Result<LlmRequest, DialectError> {
        request::read(call, document, detail)
    }

    /// Writes what hooks changed into a request.
    fn write_request(
        &self,
        call: &Call,
        document: Document,
        mutation: &RequestMutation,
    ) -> Result<Edited, DialectError> {
        request_patch::write(call, document, mutation)
    }

    /// Writes a selection of tools into a request (hook protocol, section 7).
    fn write_selection(
        &self,
        document: &mut Document,
        selection: &ToolConfig,
    ) -> Result<Selected, DialectError> {
        tool_selection::write(document, selection)
    }

    /// Refuses a request whose body names another model than its path.
    fn check_model(&self, call: &Call, document: &Document) -> Result<(), DialectError> {
        request::check_model(call, document)
    }

    /// What the user says anew in a request, text by text; nothing if only tools
    /// answered.
    fn prompt(&self, call: &Call, document: &Document) -> Result<Vec<String>, DialectError> {
        request::prompt(call, document)
    }

    /// The generation parameters of a request, in camelCase: those of the stable
    /// form.
    fn parameters(
        &self,
        call: &Call,
        document: &Document,
    ) -> Result<Map<String, Value>, DialectError> {
        request::generation(call, document)
    }

    /// What can be said of a request in a few words.
    fn outline(&self, call: &Call, document: &Document) -> Result<Outline, DialectError> {
        request::outline(call, document)
    }

    /// Takes every tool out of a request that `keeps` does not keep: declared
    /// functions, and the API's own tools by names such as `googleSearch`. The
    /// names of those taken out.
    fn withhold_tools(
        &self,
        call: &Call,
        document: &mut Document,
        keeps: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, DialectError> {
        request::withhold_tools(call, document, keeps)
    }

    /// Lets `editor` edit every text of a request that a model reads.
    fn edit_texts(
        &self,
        call: &Call,
        document: &mut Document,
        editor: &mut dyn TextEditor,
    ) -> Result<(), DialectError> {
        request_text::edit(call, document, editor)
    }

    /// The content kept by the API that a request builds upon, if it does.
    fn cached_content(&self, document: &Document) -> Result<Option<String>, DialectError> {
        request::cached_content(document)
    }

    /// What kind of answer a request wants.
    fn wish(&self, document: &Document) -> Result<ResponseExpectation, DialectError> {
        request::wish(document)
    }

    /// An answer made by a hook. `id` becomes its response id.
    fn compose_answer(&self, call: &Call, answer: &ResponseMutation, id: &str) -> Value {
        response_builder::compose(call, answer, id)
    }

    /// An answer that only says `text`.
    fn compose_message(&self, call: &Call, text: &str, id: &str) -> Value {
        response_builder::compose(call, &response_builder::saying(text), id)
    }

    /// An error.
    fn compose_error(&self, problem: &ErrorInfo) -> Value {
        google_error(problem)
    }
}

/// A request in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// How many contents it has.
    pub contents: usize,
    /// The names of the declared functions.
    pub functions: Vec<String>,
    /// How long the answer may be, if it says so.
    pub max_output_tokens: Option<i64>,
}

/// What kind of answer a request wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponseExpectation {
    /// Whether it must be JSON.
    pub format: AnswerFormat,
    /// Whether it may hold calls of declared functions.
    pub functions: Functions,
}

/// The form of an answer's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Any text.
    #[default]
    Text,
    /// JSON, because the request has a response schema or a JSON type.
    Json,
}

/// Whether a request declares functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Functions {
    /// At least one.
    Declared,
    /// None.
    #[default]
    Absent,
}

/// Why a request could not be read.
#[derive(Debug, Error)]
pub enum DialectError {
    /// The path is known, the method is another.
    #[error("another method is wanted here: {allowed}")]
    Method {
        /// Those that would do.
        allowed: String,
    },
    /// A query parameter that cannot be passed on.
    #[error("the query parameter `{0}` is not supported here")]
    Query(String),
    /// The document is not JSON, or means two things at once.
    #[error("{0}")]
    Json(String),
    /// One thing is said twice.
    #[error("`{0}` is given twice")]
    Ambiguous(String),
    /// A field is spelled as no API spells it, and could be taken for one that is
    /// known.
    #[error("`{0}` is not how the model API spells this field")]
    Spelling(String),
    /// The body names another model than the path.
    #[error("`model` names another model than the path")]
    OtherModel,
    /// A key is given twice in, or below, a field whose keys anybody names. The
    /// key is not told: it may be a secret.
    #[error("a key in `{0}` is given twice")]
    Twice(&'static str),
    /// A field has the wrong type.
    #[error("`{field}` must be {expected}")]
    Field {
        /// Where.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
}

/// The dialect that has this API's calls.
pub fn of(api: Api) -> &'static dyn Dialect {
    match api {
        Api::Gemini => &gemini::Gemini,
        Api::Vertex => &vertex::Vertex,
        Api::CodeAssist => &code_assist::CodeAssist,
    }
}

/// A call and a document made of the stable form, for an agent that reports no
/// more than that; the dialect they are in.
pub fn made_request(
    llm_request: &LlmRequest,
) -> Result<(&'static dyn Dialect, Call, Document), DialectError> {
    let model = ModelName::parse(&llm_request.model);
    let call = Call::made(model);
    let document = request::made(&call, llm_request)?;
    Ok((&gemini::Gemini, call, document))
}

/// A problem as Google's APIs write it.
pub fn google_error(problem: &ErrorInfo) -> Value {
    let mut info = serde_json::json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": problem.reason,
        "domain": "hookgate",
    });
    if let (false, Some(info)) = (problem.request_id.is_empty(), info.as_object_mut()) {
        let metadata = serde_json::json!({ "request_id": problem.request_id });
        info.insert("metadata".to_owned(), metadata);
    }
    let retry = problem.retry_after.map(|seconds| {
        serde_json::json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}s"),
        })
    });
    let details: Vec<Value> = std::iter::once(info).chain(retry).collect();
    serde_json::json!({ "error": {
        "code": problem.code,
        "message": problem.message,
        "status": problem.status,
        "details": details,
    }})
}
