//! Responses and their chunks: the stable form that hooks see, edits, and responses of our
//! own (hook protocol, section 8).

mod answer_texts;
mod builder;
mod candidate;
mod chunk_merge;
mod chunk_reader;
mod chunk_writer;
pub mod document;
mod edited_candidates;
pub mod ending_error;
pub mod envelope;
mod finish_edits;
mod function_calls;
mod hook_view;
mod hosted_calls;
mod model_step;
mod partial_function_calls;
mod text;
pub mod text_chunk;

pub use self::{
    answer_texts::AnswerTexts,
    builder::{build_response, build_text_response},
    candidate::ProposedCall,
    chunk_reader::{ChunkReader, open_response},
    chunk_writer::ChunkWriter,
    document::ResponseDocument,
    edited_candidates::EditedCandidates,
    finish_edits::FinishEdits,
    function_calls::{denied_calls, denied_step},
    model_step::ModelStep,
    partial_function_calls::{CallDecision, PartialCalls},
};
