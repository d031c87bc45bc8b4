//! The listener for operators, and TLS.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use tokio_rustls::rustls::ServerConfig;

use super::admin_users::{AdminUser, LoginSettings};
use crate::config::{
    schema::scalars::{AddressSchema, FilePathSchema},
    secret::Secret,
    source_span::SourceSpan,
};

/// The listener for operators: health, metrics, reload and console.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admin")]
pub struct AdminSettings {
    /// The address to listen on.
    #[schemars(with = "AddressSchema")]
    pub listen: SocketAddr,
    /// TLS. Default: plain text.
    #[serde(deserialize_with = "set_by_loader")]
    #[schemars(with = "Option<TlsSection>")]
    pub tls: Option<Tls>,
    /// The token that operators must send as `Authorization: Bearer …`, with every role.
    /// Default: none is required unless there are users.
    pub token: Option<Secret>,
    /// Users, each with roles.
    #[schemars(extend("default" = []))]
    pub users: Vec<AdminUser>,
    /// True if the console is served.
    pub console: bool,
    /// Lifetime of logins to the console.
    pub login: LoginSettings,
}

impl AdminSettings {
    /// Returns whether requests need a credential.
    pub const fn requires_credential(&self) -> bool {
        self.token.is_some() || !self.users.is_empty()
    }
}

/// Positions of the listeners' addresses in the config, or of what is around them.
#[derive(Debug, Clone, Default)]
pub struct ListenerSpans {
    /// Position of the address for agents, `listen`.
    pub agents: SourceSpan,
    /// Position of the address for operators, `admin.listen`.
    pub operators: SourceSpan,
}

/// TLS of a listener, with certificates loaded.
#[derive(Clone)]
pub struct Tls {
    /// Certificate, key, protocols and client authentication.
    pub server: Arc<ServerConfig>,
    /// Client certificates; not requested without it.
    pub client_certificates: Option<ClientCertificates>,
}

/// Certificate and client authentication of a listener.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tls", extend("dependentSchemas" = { "client_ca": {
    "properties": { "client_certificates": { "default": ClientCertificates::Required } },
} }))]
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
    /// Requirement for clients to present a certificate. Default: `required` if there is a
    /// `client_ca`.
    pub(crate) client_certificates: Option<ClientCertificates>,
}

/// Requirement for clients to present a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// Connections without a valid certificate are refused.
    Required,
    /// A certificate is optional; an invalid one is refused.
    Optional,
}

impl Default for AdminSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8788)),
            tls: None,
            token: None,
            users: Vec::new(),
            console: true,
            login: LoginSettings::default(),
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

/// Skips a setting that the loader resolves and sets itself.
pub(crate) fn set_by_loader<'de, D: Deserializer<'de>, T: Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| T::default())
}
