//! What middleware attaches to a request: its id, its client, and its caller.

use std::{net::SocketAddr, sync::Arc};

use http::{Extensions, HeaderName};
use uuid::Uuid;

use crate::{
    auth::{Identity, PeerCertificate},
    state::Snapshot,
};

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

/// The client of a connection.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Address of the client.
    pub addr: SocketAddr,
    /// Verified client certificate, if one was requested and sent.
    pub certificate: Option<PeerCertificate>,
}

/// Caller and snapshot of an authenticated request. Handlers fail without it, so that no
/// request is served unauthenticated.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// Identity of the caller.
    pub identity: Arc<Identity>,
    /// Snapshot by which the caller was authenticated.
    pub snapshot: Arc<Snapshot>,
}
