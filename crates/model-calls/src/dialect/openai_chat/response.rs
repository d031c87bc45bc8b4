//! Whole answers: the content form of a body, edits of it, and synthetic answers.

pub mod answer;
pub mod answer_objects;
pub mod envelope;
pub mod finish_reason;
pub mod preceding;
pub mod synthetic;
pub mod whole_answer;

#[cfg(test)]
mod tests;
