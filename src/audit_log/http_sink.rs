//! HTTP sink: sends the lines of a decision log to an endpoint, each at least once.
//!
//! The log's files are the buffer: the task reads them behind the last line that was
//! accepted, whose place is kept in `PATH.sent`. No call waits for the sink. Only lines
//! that the writer has confirmed are read, so that none is sent that a crash undoes.

mod endpoint;
mod progress;
mod sink_task;

pub(super) use self::{endpoint::SinkEndpoint, progress::load_position, sink_task::SinkTask};
