//! Extensions that middleware attaches to a request: its id, its client, and its caller.

use std::{net::SocketAddr, sync::Arc};

use http::{Extensions, HeaderName};
use uuid::Uuid;

use crate::{
    auth::{Identity, PeerCertificate},
    dialect::Api,
    state::Snapshot,
};

/// Id of a request, sent back as [`RequestId::HEADER`] and contained in logs.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

impl RequestId {
    /// Response header with the id.
    pub const HEADER: HeaderName = HeaderName::from_static("x-hookgate-request-id");

    /// Generates a random id, a UUID in which no client finds the status of an error.
    ///
    /// Clients search the text of an error, which contains the id, for the statuses that
    /// they retry: opencode repeats a call if its denial contains `429` or `524` anywhere.
    pub fn random() -> Self {
        let mut buffer = Uuid::encode_buffer();
        loop {
            let id = &*Uuid::new_v4().hyphenated().encode_lower(&mut buffer);
            if !contains_retried_status(id) {
                return Self(id.into());
            }
        }
    }

    /// Returns the id of a request; empty without one.
    pub fn from_extensions(extensions: &Extensions) -> Arc<str> {
        let id = extensions.get::<Self>();
        id.map(|id| Arc::clone(&id.0)).unwrap_or_default()
    }
}

/// Reports whether a text contains a status of errors that clients retry.
fn contains_retried_status(text: &str) -> bool {
    text.as_bytes().windows(3).any(|digits| {
        matches!(
            digits,
            b"408" | b"409" | b"425" | b"429" | b"500" | b"502" | b"503" | b"504" | b"524" | b"529"
        )
    })
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
    /// The API that the headers name, with the one that had the caller's key.
    pub named_api: Option<Api>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_contains_a_status_that_clients_retry() {
        for status in ["408", "429", "503", "524"] {
            let found = |id: &str| id.contains(status);
            assert!((0..20_000).all(|_| !found(&RequestId::random().0)));
            assert!((0..20_000).any(|_| found(&Uuid::new_v4().to_string())));
        }
    }
}
