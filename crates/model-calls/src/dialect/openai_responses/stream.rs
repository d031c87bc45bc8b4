//! Streams of server-sent events: events as chunks of the content form, and chunks as events.

mod body_events;
mod end_writer;
mod event;
mod event_labels;
mod item_agreement;
mod item_events;
mod item_places;
mod item_writer;
mod last_event;
mod open_items;
mod read_items;
mod reader;
mod sender;
mod text_piece;
mod texts;
mod unindexed_text;
mod writer;

pub use self::{body_events::body_events, reader::EventReader, writer::EventWriter};

#[cfg(test)]
mod tests;
