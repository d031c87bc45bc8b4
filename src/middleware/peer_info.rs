//! The client of a connection.

use std::net::SocketAddr;

use crate::auth::PeerCertificate;

/// The client of a connection.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    /// Address of the client.
    pub addr: SocketAddr,
    /// Verified client certificate, if one was requested and sent.
    pub certificate: Option<PeerCertificate>,
}
