//! The Responses API of OpenAI.

mod check;
mod items;
mod request;
mod response;

pub(super) use check::check;
pub(super) use request::content_form;
pub(super) use response::{compaction, events, response};
