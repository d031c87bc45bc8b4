//! Who is at the other end of a connection. Pure.

use std::net::SocketAddr;

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its address.
    pub addr: SocketAddr,
    /// What it showed, if it was asked for a certificate and has one that holds.
    pub certificate: Option<PeerCertificate>,
}

/// The names in a certificate that was found good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name of its subject.
    pub common_name: Option<String>,
    /// Its alternative names: DNS names, URIs and e-mail addresses.
    pub alternative_names: Vec<String>,
}
