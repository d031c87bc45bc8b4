//! TLS as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ClientCertificates, raw::RawPath};

/// How a listener proves who it is, and whom it lets in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub(super) struct RawTls {
    /// The certificate, and those between it and the authority, in PEM.
    pub(super) certificate: RawPath,
    /// Its private key, in PEM.
    pub(super) key: RawPath,
    /// The authorities of certificates that others show, in PEM; nobody is asked
    /// for one if absent.
    pub(super) client_ca: Option<RawPath>,
    /// Whether others must show one; `required` if absent.
    pub(super) client_certificates: Option<ClientCertificates>,
}
