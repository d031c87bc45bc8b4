//! The listener for operators, and TLS.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::ServerConfig;

use crate::config::{
    schema::scalars::{AddressSchema, FilePathSchema},
    secret::Secret,
};

/// The listener for operators: health, metrics and reload.
#[derive(Debug, Clone)]
pub struct AdminSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// TLS; plain text without it.
    pub tls: Option<Tls>,
    /// The required bearer token, if any.
    pub token: Option<Secret>,
}

/// TLS of a listener, with certificates loaded.
#[derive(Clone)]
pub struct Tls {
    /// Certificate, key, protocols and client authentication.
    pub server: Arc<ServerConfig>,
    /// Client certificates; not requested without it.
    pub client_certificates: Option<ClientCertificates>,
}

/// The section `admin` of a config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admin")]
pub(crate) struct AdminSection {
    /// The address to listen on.
    #[schemars(with = "AddressSchema")]
    pub(crate) listen: SocketAddr,
    /// TLS. Default: plain text.
    pub(crate) tls: Option<TlsSection>,
    /// The token that operators must send as `Authorization: Bearer …`. Default: none
    /// is required.
    pub(crate) token: Option<Secret>,
}

/// Certificate and client authentication of a listener.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub(crate) struct TlsSection {
    /// Path of the certificate chain, in PEM.
    #[schemars(with = "FilePathSchema")]
    pub(crate) certificate: PathBuf,
    /// Path of the private key, in PEM.
    #[schemars(with = "FilePathSchema")]
    pub(crate) key: PathBuf,
    /// Path of the certificate authorities of clients, in PEM. Default: no client
    /// certificates are requested.
    #[schemars(with = "Option<FilePathSchema>")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Whether clients must present a certificate. Default: `required`.
    pub(crate) client_certificates: Option<ClientCertificates>,
}

/// Whether clients must present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// Connections without a valid certificate are refused.
    Required,
    /// A certificate is optional; an invalid one is refused.
    Optional,
}

impl Default for AdminSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8788)),
            tls: None,
            token: None,
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("client_certificates", &self.client_certificates)
            .finish_non_exhaustive()
    }
}
