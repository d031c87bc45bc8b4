//! Laws that hold for every dialect.

mod answer_texts;
mod malformed_streams;
mod recording_editor;
