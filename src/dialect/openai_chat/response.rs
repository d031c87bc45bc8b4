//! Whole answers: the content form of a body, edits of it, and answers of our own.

pub mod answer;
pub mod answer_objects;
pub mod envelope;
pub mod finish_reason;
pub mod own;
pub mod preceding;
pub mod whole;

#[cfg(test)]
mod tests;
