//! The [`Dialect`] trait.

use crate::dialect::{
    call::Call,
    document::Document,
    error::DialectError,
    google::response::envelope::ResponseEnvelope,
    method::{Api, MethodSpec},
};

/// The differences between model APIs: paths, and the envelope around request and
/// response.
pub trait Dialect: std::fmt::Debug + Send + Sync {
    /// Returns the API that it implements.
    fn api(&self) -> Api;

    /// Returns the API's part of the method table.
    fn methods(&self) -> &'static [MethodSpec];

    /// Returns the versions that a path may begin with.
    fn versions(&self) -> &'static [&'static str];

    /// Removes the envelope of a request. Sets the model of `call` if only the body
    /// names it.
    ///
    /// # Errors
    ///
    /// Fails if the body names no model, or another one than the path.
    fn open_request(&self, call: &mut Call, body: Document) -> Result<Unwrapped, DialectError>;

    /// Returns the envelope of responses.
    fn response_envelope(&self) -> ResponseEnvelope {
        ResponseEnvelope::None
    }
}

/// A request without its envelope.
#[derive(Debug)]
pub struct Unwrapped {
    /// Request body of the API family.
    pub document: Document,
    /// Envelope that surrounded it.
    pub envelope: Option<Document>,
    /// Session named in the body.
    pub session: Option<String>,
}
