//! Context and recorder of one hook event.

use crate::{event::Context, observe::recorder::Recorder};

/// Context and recorder of one hook event.
#[derive(Debug, Clone, Copy)]
pub struct EventScope<'a> {
    /// Fields of hook inputs.
    pub context: &'a Context,
    /// Recorder of the request that the event belongs to.
    pub recorder: &'a Recorder,
}
