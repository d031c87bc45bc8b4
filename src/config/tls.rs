//! TLS: certificates, keys and authorities, read and found to fit together.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig, ServerConnection,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_cert::{Certificate, der::Decode};

use super::{MissingSecrets, load::Reading, raw::RawPath, raw_tls::RawTls};

/// The only protocol that is spoken over TLS.
const ALPN: &[u8] = b"http/1.1";

/// How a listener speaks TLS.
#[derive(Clone)]
pub struct Tls {
    /// Certificate, key, protocol, and who must show what.
    pub server: Arc<ServerConfig>,
    /// Whether others are asked for a certificate.
    pub client_certificates: Option<ClientCertificates>,
}

/// Whether those who connect must show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// Nobody gets in without.
    Required,
    /// They may; a bad one is refused all the same.
    Optional,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("client_certificates", &self.client_certificates)
            .finish_non_exhaustive()
    }
}

/// What is wrong, and with which field.
type Wrong = (&'static str, String);

/// The TLS settings of agents and of operators.
pub(super) fn read_both(reading: &mut Reading) -> (Option<Tls>, Option<Tls>) {
    (read(reading, "/tls"), read(reading, "/admin/tls"))
}

/// The TLS settings at `pointer`, if there are any. Every problem is noted with
/// its place. Where secrets are made up, nobody outside connects, and none of the
/// files need be there.
fn read(reading: &mut Reading, pointer: &str) -> Option<Tls> {
    let raw: RawTls = reading.section(pointer)?;
    if reading.missing_secrets == MissingSecrets::MadeUp {
        return None;
    }
    let asked = raw.client_certificates;
    if raw.client_ca.is_none() && asked.is_some() {
        let message = "`client_certificates` needs a `client_ca` that they are of";
        reading.problem(&format!("{pointer}/client_certificates"), message);
        return None;
    }
    let mut file = |it: &RawPath| reading.file(&it.0);
    let (certificate, key) = (file(&raw.certificate), file(&raw.key));
    let authorities = raw.client_ca.as_ref().map(file);
    let asked = authorities
        .is_some()
        .then(|| asked.unwrap_or(ClientCertificates::Required));
    let verifier = match (&authorities, asked) {
        (Some(file), Some(asked)) => verifier(file, asked).map(Some),
        _ => Ok(None),
    };
    let server = verifier.and_then(|it| server(&certificate, &key, it));
    if server.is_ok()
        && let Some(why) = out_of_date(&certificate)
    {
        reading.warning(&format!("{pointer}/certificate"), why);
    }
    match server {
        Ok(server) => Some(Tls {
            server: Arc::new(server),
            client_certificates: asked,
        }),
        Err((field, message)) => {
            reading.problem(&format!("{pointer}/{field}"), &message);
            None
        }
    }
}

fn server(
    certificate: &Path,
    key: &Path,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, Wrong> {
    let chain = certificates(certificate).map_err(|it| ("certificate", it))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| ("key", unreadable("private key", &error)))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let asks = verifier.is_some();
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ("certificate", error.to_string()))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder
        .with_single_cert(chain, key)
        .map_err(|error| ("key", misfit(&error)))?;
    server.alpn_protocols = vec![ALPN.to_vec()];
    if asks {
        // A session that is resumed is not asked for its certificate again, which
        // may have expired.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
    }
    let server = Arc::new(server);
    // Some mistakes show only when somebody connects.
    ServerConnection::new(Arc::clone(&server))
        .map_err(|error| ("certificate", error.to_string()))?;
    Arc::into_inner(server).ok_or_else(|| ("certificate", "cannot be used".to_owned()))
}

fn verifier(
    authorities: &Path,
    asked: ClientCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, Wrong> {
    let wrong = |message| ("client_ca", message);
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities).map_err(wrong)? {
        roots
            .add(authority)
            .map_err(|error| wrong(format!("holds what is no authority: {error}")))?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match asked {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| wrong(error.to_string()))
}

/// The certificates in a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unreadable("certificate", &error))?;
    if found.is_empty() {
        return Err("the file holds no certificate in PEM".to_owned());
    }
    Ok(found)
}

/// Why nobody trusts a certificate of the file at this time, if it is for that.
fn out_of_date(file: &Path) -> Option<&'static str> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let chain = certificates(file).ok()?;
    let chain = chain.iter().filter_map(|it| Certificate::from_der(it).ok());
    let mut times = chain.map(|it| it.tbs_certificate.validity);
    times.find_map(|it| {
        if it.not_after.to_unix_duration() < now {
            return Some("the certificate, or one behind it, has expired: no agent trusts it");
        }
        let early = it.not_before.to_unix_duration() > now;
        early.then_some("the certificate, or one behind it, is not valid yet")
    })
}

fn misfit(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "the key is not that of the certificate".to_owned(),
        _ => format!("certificate and key cannot be used: {error}"),
    }
}

/// Says nothing of what the file holds.
fn unreadable(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("the {what} cannot be read: {error}"),
        _ => format!("the file holds no {what} in PEM"),
    }
}
