//! Original bytes of a response whose API does not use the content form.

use bytes::Bytes;

/// Original bytes of a response or chunk that was converted to the content form.
#[derive(Debug, Clone)]
pub struct Wire {
    /// The whole body, or the data of each event.
    pub events: Vec<Bytes>,
}
