//! Loads certificates and keys, and checks that they match.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

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

use super::loader::Loader;
use crate::{
    config::{
        overrides::MissingSecrets,
        settings::listeners::{ClientCertificates, Tls, TlsSection},
    },
    regular_file::{self, MAX_FILE_BYTES},
};

/// Protocols spoken over TLS, the preferred one first. A listener without HTTP/2 removes that.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Word in the header of a private key that is encrypted (RFC 7468, section 11; RFC 1421).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// The field of [`TlsSection`] with a problem, and the message.
type FieldError = (&'static str, String);

impl Loader {
    /// Loads the TLS settings at `pointer`, if there are any. With placeholders for
    /// secrets, no client connects and the files need not exist.
    pub(super) fn tls(&mut self, pointer: &str) -> Option<Tls> {
        let section: TlsSection = self.section(pointer)?;
        if self.missing_secrets == MissingSecrets::Placeholder {
            return None;
        }
        let requested = section.client_certificates;
        if section.client_ca.is_none() && requested.is_some() {
            let message = "`client_certificates` needs a `client_ca`";
            self.problem(&format!("{pointer}/client_certificates"), message);
            return None;
        }
        let (certificate, key) = (self.file(&section.certificate), self.file(&section.key));
        let client_ca = section.client_ca.as_ref().map(|path| self.file(path));
        let unreadable = [
            ("certificate", certificates(&certificate).err()),
            ("key", private_key(&key).err()),
            (
                "client_ca",
                client_ca.as_ref().and_then(|file| certificates(file).err()),
            ),
        ];
        let unreadable = unreadable.map(|(field, error)| Some((field, error?)));
        let unreadable: Vec<FieldError> = unreadable.into_iter().flatten().collect();
        if !unreadable.is_empty() {
            for error in unreadable {
                self.tls_problem(pointer, &section, error);
            }
            return None;
        }
        let client_certificates = client_ca
            .is_some()
            .then(|| requested.unwrap_or(ClientCertificates::Required));
        let verifier = match (&client_ca, client_certificates) {
            (Some(file), Some(mode)) => verifier(file, mode).map(Some),
            _ => Ok(None),
        };
        match verifier.and_then(|verifier| server(&certificate, &key, verifier)) {
            Ok(mut server) => {
                server.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
                if let Some(warning) = validity_warning(&certificate) {
                    self.warning(&format!("{pointer}/certificate"), warning);
                }
                Some(Tls {
                    server: Arc::new(server),
                    client_certificates,
                })
            }
            Err(error) => {
                self.tls_problem(pointer, &section, error);
                None
            }
        }
    }

    /// Reports a problem of a file, with its setting and path.
    fn tls_problem(&mut self, pointer: &str, section: &TlsSection, error: FieldError) {
        let (field, message) = error;
        let path = match field {
            "certificate" => Some(&section.certificate),
            "key" => Some(&section.key),
            _ => section.client_ca.as_ref(),
        };
        let path = path.map_or(Path::new(""), PathBuf::as_path).display();
        let setting = format!("{pointer}/{field}");
        let name = setting.trim_start_matches('/').replace('/', ".");
        self.problem(&setting, format!("{message} (`{name}` is `{path}`)"));
    }
}

fn server(
    certificate: &Path,
    key: &Path,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, FieldError> {
    let chain = certificates(certificate).map_err(|message| ("certificate", message))?;
    let key = private_key(key).map_err(|message| ("key", message))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let requests_certificates = verifier.is_some();
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ("certificate", error.to_string()))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder
        .with_single_cert(chain, key)
        .map_err(|error| ("key", key_error(&error)))?;
    if requests_certificates {
        // Resumed sessions do not present a certificate again, and it may have expired.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
    }
    let server = Arc::new(server);
    // Some errors occur only when a connection is made.
    ServerConnection::new(Arc::clone(&server))
        .map_err(|error| ("certificate", error.to_string()))?;
    Arc::into_inner(server).ok_or_else(|| ("certificate", "cannot be used".to_owned()))
}

fn verifier(
    client_ca: &Path,
    mode: ClientCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, FieldError> {
    let ca_error = |message| ("client_ca", message);
    let mut roots = RootCertStore::empty();
    for authority in certificates(client_ca).map_err(ca_error)? {
        roots.add(authority).map_err(|error| {
            ca_error(format!(
                "the file contains an invalid certificate authority: {error}"
            ))
        })?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match mode {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| ca_error(error.to_string()))
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = regular_file::read(file, MAX_FILE_BYTES)
        .map_err(|error| unreadable("private key", &pem::Error::Io(error)))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        if pem
            .windows(ENCRYPTED.len())
            .any(|window| window == ENCRYPTED)
        {
            return "the private key is encrypted; hookgate reads keys without a passphrase"
                .to_owned();
        }
        unreadable("private key", &error)
    })
}

/// Returns the certificates of a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = regular_file::read(file, MAX_FILE_BYTES).map_err(pem::Error::Io);
    let found = pem.and_then(|pem| CertificateDer::pem_slice_iter(&pem).collect());
    let found: Vec<_> = found.map_err(|error| unreadable("certificate", &error))?;
    if found.is_empty() {
        return Err("the file contains no certificate in PEM".to_owned());
    }
    Ok(found)
}

/// Returns a warning if a certificate of the file is expired or not valid yet.
fn validity_warning(file: &Path) -> Option<&'static str> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let chain = certificates(file).ok()?;
    let chain = chain
        .iter()
        .filter_map(|der| Certificate::from_der(der).ok());
    let mut validities = chain.map(|certificate| certificate.tbs_certificate.validity);
    validities.find_map(|validity| {
        if validity.not_after.to_unix_duration() < now {
            Some("the certificate or one of its chain has expired: agents will not trust it")
        } else if validity.not_before.to_unix_duration() > now {
            Some("the certificate or one of its chain is not valid yet")
        } else {
            None
        }
    })
}

fn key_error(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "the key does not match the certificate".to_owned(),
        _ => format!("certificate and key cannot be used: {error}"),
    }
}

/// Returns a message without any content of the file.
fn unreadable(what: &str, error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("the {what} cannot be read: {error}"),
        _ => format!("the file contains no {what} in PEM"),
    }
}
