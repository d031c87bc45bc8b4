//! Request ids.

use std::sync::Arc;

use http::{Extensions, HeaderName};
use uuid::Uuid;

/// Id of a request, sent back as [`RequestId::HEADER`] and contained in logs.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// Response header with the id.
    pub const HEADER: HeaderName = HeaderName::from_static("x-hookgate-request-id");

    /// Generates a random id.
    pub fn random() -> Self {
        let uuid = Uuid::new_v4().hyphenated();
        Self((&*uuid.encode_lower(&mut Uuid::encode_buffer())).into())
    }

    /// Returns the id of a request; empty without one.
    pub fn from_extensions(extensions: &Extensions) -> Arc<str> {
        let id = extensions.get::<Self>();
        id.map(|id| Arc::clone(&id.0)).unwrap_or_default()
    }
}
