//! Responses: whole messages, and the events of a stream.

mod body_events;
mod call_events;
mod chunk_form;
mod chunk_reader;
mod chunk_writer;
mod incoming_block;
mod message;
mod message_end;
mod message_event;
mod message_labels;
mod message_tokens;
mod open_blocks;
mod part_queue;
mod response_part;
mod seen_blocks;
mod stop_reason;

pub use self::{
    body_events::body_events,
    chunk_reader::MessageReader,
    chunk_writer::MessageWriter,
    message::{close_message, open_message},
};

#[cfg(test)]
mod tests;
