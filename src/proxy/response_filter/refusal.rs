//! Refusals of responses.

use std::ops::ControlFlow;

use crate::{dialect::ResponseDocument, event::Reason};

/// Decision to cut off a response, with its reason.
#[derive(Debug)]
pub struct Refusal {
    pub reason: Reason,
    /// True if the session stops, too.
    pub stops_session: bool,
}

/// A filtered response or chunk, or the refusal of it and of all that follows.
pub type Filtered = ControlFlow<Refusal, ResponseDocument>;
