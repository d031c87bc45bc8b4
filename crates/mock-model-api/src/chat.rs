//! The Chat Completions API of OpenAI and of servers that are compatible with it.

mod check;
mod request;
mod response;

pub(super) use check::check;
pub(super) use request::{content_form, free_text};
pub(super) use response::{chunks, completion};
