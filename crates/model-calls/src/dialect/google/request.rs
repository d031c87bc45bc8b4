//! Request bodies: the stable form that hooks see, and edits.

mod body;
mod envelope;
mod model;
mod parameters;
mod patch;
mod read;
mod system_instruction;
mod text;
mod tool_declarations;
mod tool_selection;

pub use self::{
    body::{append_contents, replace_contents},
    envelope::{close_request, open_bare, open_wrapped, session_in},
    model::check_model,
    parameters::generation_parameters,
    patch::{PatchedRequest, build_request, write_request},
    read::{
        Detail, PromptPrefix, RequestSummary, ResponseExpectation, ResponseFormat, cached_content,
        expected_response, new_prompt, prompt_parts, read_stable_form, summarize_request,
    },
    text::edit_request_texts,
    tool_declarations::{ComputerUse, OfferedTool, withhold_tools},
    tool_selection::{AllowedFunctions, write_tool_selection},
};
