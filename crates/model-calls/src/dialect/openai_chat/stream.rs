//! Streams: events read as chunks of the content form, and chunks written as events.

mod call_collector;
mod delta_edit;
mod event;
mod event_writer;
mod held_events;
mod last_chunk;
pub mod reader;
mod standard_form;
mod text_starts;
mod waiting_details;
pub mod writer;

#[cfg(test)]
mod tests;
