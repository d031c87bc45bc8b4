//! Recordings of exchanges: what the agent sent, what the model API answered, what policies and
//! hooks decided, and what the agent received.
//!
//! A recording is a folder of segments: zstd frames of JSON lines, one [`RecordedExchange`] each.
//! [`RecordingSink`] collects an exchange for an [`ExchangeCollector`]. The writer thread of an
//! [`ExchangeRecorder`] masks, compresses and writes it; the shadow evaluates it in memory. [`read`]
//! returns the exchanges of a folder or a file. This module must not hold credentials, or write
//! what is not masked unless the config asks for it.

mod collector;
mod format;
mod input_hash;
mod memory_budget;
mod raw_exchange;
mod reader;
mod recorder;
mod recording_mask;
mod request_head;
mod segment_writer;
mod sink;

pub use self::{
    collector::{ExchangeCollector, QueueExchange},
    format::{
        AnswerBody, RecordedAnswer, RecordedBody, RecordedChunk, RecordedEvent, RecordedExchange,
        RecordedOutcome, RecordedRefusal, RecordedResponse, RecordedRound, RecordedRun,
        RecordedSession,
    },
    input_hash::input_hash,
    memory_budget::ReservedBytes,
    raw_exchange::CollectedExchange,
    reader::{Damage, DamageCause, Exchanges, ReadError, SegmentReader, read, segments},
    recorder::{ExchangeRecorder, RuleDefinition},
    sink::{RecordingSink, recorded_outcome, recorded_run},
};
