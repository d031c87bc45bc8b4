//! Model requests and responses in the stable form that hooks see, independent of
//! the API. Dialects convert to and from it. Pure.

mod cached_request;
mod error_info;
mod ignored_edit;
mod message;
mod message_diff;
mod message_parts;
mod name;
mod request;
mod response;
mod token_estimate;
mod tools;

pub use self::{
    cached_request::CachedRequest,
    error_info::ErrorInfo,
    ignored_edit::IgnoredEdit,
    message::{Message, Role, has_value, read_content},
    message_diff::align,
    message_parts::{MessagePart, MessageParts},
    name::ModelName,
    request::{LlmRequest, RequestMutation, is_valid_parameter},
    response::{
        Candidate, CandidateContent, CandidateMutation, LlmResponse, ResponseMutation,
        UsageMetadata,
    },
    token_estimate::{CallSize, tokens_of},
    tools::{FunctionCallingMode, ToolConfig},
};
