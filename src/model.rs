//! A model call in neutral words: what hooks see, whatever the wire says.
//!
//! Nothing here knows a provider's JSON; dialects translate. Pure.

mod name;
mod problem;
mod request;
mod response;
mod tools;

pub use self::{
    name::ModelName,
    problem::Problem,
    request::{LlmRequest, Message, RequestMutation, Role, read_content},
    response::{
        Candidate, CandidateContent, CandidateMutation, LlmResponse, ResponseMutation, Usage,
    },
    tools::{FunctionCallingMode, ToolConfig},
};
