//! What a response was read from, if its API has another form.

use bytes::Bytes;

/// What a response or chunk in the content form was read from.
#[derive(Debug, Clone)]
pub struct Wire {
    /// The whole body, or the data of each event.
    pub events: Vec<Bytes>,
}
