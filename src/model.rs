//! A model call in neutral words: what hooks see, whatever the wire says.
//!
//! Nothing here knows a provider's JSON; dialects translate. Pure.

mod align;
mod name;
mod problem;
mod request;
mod response;
mod sent;
mod tools;
mod whole;

pub use self::{
    align::{Alignment, align},
    name::ModelName,
    problem::Problem,
    request::{LlmRequest, Message, RequestMutation, Role, read_content},
    response::{
        Candidate, CandidateContent, CandidateMutation, LlmResponse, ResponseMutation, Usage,
    },
    sent::SentRequest,
    tools::{FunctionCallingMode, ToolConfig},
    whole::{Piece, WholeMessage},
};
