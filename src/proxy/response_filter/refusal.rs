//! Refusals of responses: the reason, and the part that may still pass.

use std::ops::ControlFlow;

use crate::{dialect::ResponseDocument, event::Reason};

/// Decision to cut off a response, with its reason.
#[derive(Debug)]
pub struct Refusal {
    pub reason: Reason,
    /// True if the session stops, too.
    pub stops_session: bool,
    /// The chunk whose calls are refused. Its texts pass, and those in front of it.
    pub passed: Option<Box<ResponseDocument>>,
}

/// A filtered response or chunk, or the refusal of it and of all that follows.
pub type Filtered = ControlFlow<Refusal, ResponseDocument>;
