//! Caller names taken from TLS client certificates.

use crate::config::CertificateName;

/// Longest caller name in bytes.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// Names in a client certificate that was verified during the TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Common name of the subject.
    pub common_name: Option<String>,
    /// Subject alternative names: DNS names, URIs and e-mail addresses.
    pub alternative_names: Vec<String>,
}

impl PeerCertificate {
    /// Returns the first name of this kind that `allow` contains; every name is
    /// allowed without a list.
    pub(super) fn name(&self, kind: CertificateName, allow: Option<&[String]>) -> Option<&str> {
        let is_allowed = |name: &&str| {
            is_valid_name(name) && allow.is_none_or(|allowed| allowed.iter().any(|one| one == name))
        };
        match kind {
            CertificateName::CommonName => self.common_name.as_deref().filter(is_allowed),
            CertificateName::AlternativeName => {
                let mut names = self.alternative_names.iter().map(String::as_str);
                names.find(is_allowed)
            }
        }
    }
}

/// Returns whether a caller may have this name, which is written to logs.
pub(super) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}
