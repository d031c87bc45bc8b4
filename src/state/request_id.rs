//! What a request is known by.

use std::sync::Arc;

use http::Extensions;

/// The request's id, as the outermost layer made it.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// The id among a request's extensions; empty if no layer made one.
    pub fn of(extensions: &Extensions) -> Arc<str> {
        let id = extensions.get::<Self>();
        id.map(|it| Arc::clone(&it.0)).unwrap_or_default()
    }
}
