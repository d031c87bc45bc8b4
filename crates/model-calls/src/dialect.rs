//! Model APIs: paths, documents, and the stable form of requests and responses.
//!
//! A dialect reads the stable form ([`crate::model`]) from a document and splices edits back
//! into it, so that unedited parts keep their bytes. Each API family has a folder: its
//! functions on bodies are exported here, its APIs implement [`Dialect`]. The files beside it
//! are shared by all families: documents, text editing and the method table.
//!
//! To add an API to a family: one file with an implementation of [`Dialect`] and its method
//! table, one entry in [`ALL`], and an arm of [`of`].

mod anthropic;
mod api_dialect;
mod call;
mod content_form;
mod content_reference;
mod detection;
mod document;
mod error;
mod google;
mod json_strings;
mod method;
mod method_table;
mod openai;
mod openai_chat;
mod openai_responses;
mod query;
mod request_field;
mod sse_event;
mod text_edit;

use http::Method;

pub use self::{
    api_dialect::{Dialect, OpenedRequest, ReadChunks, WriteChunks, is_terminator, read_stream},
    call::{Call, ResponseStorage},
    content_form::{
        HostedPart, PRECEDING, SOURCE, hosted_servers, is_hosted_server, other_models,
        shown_to_hooks, source_of, splice_list, without_private_fields,
    },
    content_reference::ContentReference,
    detection::{named_api, split_session},
    document::{Document, check_values, elements, parse, parse_document},
    error::{DialectError, RequestLineError},
    google::{
        AllowedFunctions, AnswerTexts, CallDecision, CanonicalItem, ComputerUse, Detail,
        EditedCandidates, FinishEdits, FunctionCall, History, HistoryMessage, ItemKind, ModelStep,
        OfferedTool, PartialCalls, PatchedRequest, PromptPrefix, ProposedCall, RequestSummary,
        ResponseDocument, ResponseExpectation, ResponseFormat, ToolResult, append_contents,
        build_request, build_response, build_text_response, cached_content, canonical_items,
        check_model, denied_calls, denied_step, edit_request_texts, expected_response,
        generation_parameters, new_prompt, prompt_parts, read_stable_form, replace_contents,
        summarize_request, text_content, withhold_tools, write_request, write_tool_selection,
    },
    json_strings::edit_json_strings,
    method::{Access, Api, Framing, HookCoverage, MethodSpec, Operation, Vendor, counts_tokens},
    method_table::{RecognizedCall, RequestLine},
    openai_responses::{may_have_hosted_shell, refuse_hosted_shell},
    query::is_accepted_parameter,
    request_field::{AllowedFields, FIELDS, FieldSpec, RequestField},
    sse_event::{write_event, write_named_event},
    text_edit::{
        ResponseTextEditor, TextChannel, TextEditor, TextEnd, TextKind, TextRest, TextStream,
    },
};

/// Every dialect, in the order in which paths are matched.
pub const ALL: &[&dyn Dialect] = &[
    &google::google_api::GEMINI,
    &google::google_api::VERTEX,
    &google::google_api::CODE_ASSIST,
    &anthropic::Anthropic,
    &openai_responses::OpenAiResponses,
    &openai_chat::OpenAiChat,
];

/// Returns the dialect of an API.
pub fn of(api: Api) -> &'static dyn Dialect {
    match api {
        Api::Anthropic => &anthropic::Anthropic,
        Api::OpenAiResponses => &openai_responses::OpenAiResponses,
        Api::OpenAiChat => &openai_chat::OpenAiChat,
        Api::Gemini => &google::google_api::GEMINI,
        Api::Vertex => &google::google_api::VERTEX,
        Api::CodeAssist => &google::google_api::CODE_ASSIST,
    }
}

/// Returns every row of the method table.
pub fn methods() -> impl Iterator<Item = &'static MethodSpec> {
    ALL.iter().flat_map(|dialect| dialect.methods())
}

/// Recognizes the call of a request line. Returns `None` for an unknown path.
///
/// # Errors
///
/// Fails if the path exists with other HTTP methods only.
pub fn recognize_call(line: RequestLine<'_>) -> Option<Result<RecognizedCall, RequestLineError>> {
    method_table::find(ALL, line)
}

/// Returns the dialect in which a request is answered that may not be a call at all.
pub fn dialect_of(line: RequestLine<'_>) -> &'static dyn Dialect {
    let (_, path) = split_session(line.path);
    // A path with another HTTP method belongs to the same API.
    let methods = [line.method, &Method::POST, &Method::GET];
    let mut recognized = methods.into_iter().filter_map(|method| {
        let line = RequestLine {
            method,
            path,
            ..line
        };
        method_table::find(ALL, line)?.ok()
    });
    match (recognized.next(), line.api) {
        (Some(recognized), _) => of(recognized.method.api),
        (None, Some(api)) if !detection::is_of_google(path) => of(api),
        (None, _) => of(Api::Gemini),
    }
}

#[cfg(test)]
mod tests;
