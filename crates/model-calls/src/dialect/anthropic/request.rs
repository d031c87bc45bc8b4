//! Requests: a body is read into the content form, and edits of that are spliced back.

mod billing_header;
mod block_part;
mod cut_thinking;
mod declared_tools;
mod input_messages;
mod parameters;
mod read;
mod request_labels;
mod stored_content;
mod system_prompt;
mod tool_choice;
mod tool_references;
mod tools_edit;
mod write;

pub use self::{
    read::{agent_session, open_body},
    stored_content::{request_references, response_references},
    write::close_body,
};

#[cfg(test)]
mod tests;
