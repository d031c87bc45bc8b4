//! The Google API family: Gemini API, Vertex AI and Code Assist.
//!
//! The three share request and response bodies. They differ in paths, and Code Assist
//! wraps both bodies in an envelope.

mod canonical_items;
mod code_assist;
mod content;
mod contents;
pub mod error_body;
pub mod fields;
mod gemini;
pub mod google_api;
mod history;
pub mod part;
mod part_text;
mod request;
pub mod response;
mod vertex;

pub use self::{
    canonical_items::{CanonicalItem, ItemKind, canonical_items},
    content::text_content,
    history::{History, HistoryMessage, ToolResult},
    part::{FunctionCall, is_thought},
    request::{
        AllowedFunctions, ComputerUse, Detail, OfferedTool, PatchedRequest, PromptPrefix,
        RequestSummary, ResponseExpectation, ResponseFormat, append_contents, build_request,
        cached_content, check_model, edit_request_texts, expected_response, generation_parameters,
        new_prompt, prompt_parts, read_stable_form, replace_contents, summarize_request,
        withhold_tools, write_request, write_tool_selection,
    },
    response::{
        AnswerTexts, CallDecision, EditedCandidates, FinishEdits, ModelStep, PartialCalls,
        ProposedCall, ResponseDocument, build_response, build_text_response, denied_calls,
        denied_step,
    },
};
