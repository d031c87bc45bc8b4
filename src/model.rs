//! A model call in neutral words: what hooks see, whatever the wire says.
//!
//! Nothing here knows a provider's JSON; dialects translate. Pure.

mod cached_request;
mod error_info;
mod message_diff;
mod message_parts;
mod name;
mod request;
mod response;
mod tools;

pub use self::{
    cached_request::SentRequest,
    error_info::Problem,
    message_diff::{Alignment, align},
    message_parts::{Piece, WholeMessage},
    name::ModelName,
    request::{LlmRequest, Message, RequestMutation, Role, read_content},
    response::{
        Candidate, CandidateContent, CandidateMutation, LlmResponse, ResponseMutation, Usage,
    },
    tools::{FunctionCallingMode, ToolConfig},
};
