//! Responses and their chunks: the stable form that hooks see, edits, and responses of our
//! own (hook protocol, section 8).

mod builder;
mod candidate;
mod chunk_merge;
mod chunk_reader;
mod denied_step;
mod document;
pub mod envelope;
mod function_calls;
mod partial_function_calls;
mod text;
mod text_chunk;

pub use self::{
    builder::{build_response, build_text_response},
    chunk_merge::MergedChunks,
    chunk_reader::ChunkReader,
    denied_step::denied_step,
    document::{RawUsage, ResponseDocument},
    envelope::ResponseEnvelope,
    function_calls::ProposedCall,
    partial_function_calls::{CallDecision, PartialCalls},
};
