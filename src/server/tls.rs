//! TLS handshake, and the names in client certificates.

use std::{io, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, rustls::pki_types::CertificateDer, server::TlsStream};
use x509_cert::{
    Certificate,
    der::{
        Any, Decode,
        asn1::{ObjectIdentifier, PrintableStringRef, Utf8StringRef},
    },
    ext::pkix::{SubjectAltName, name::GeneralName},
};

use super::limits::ListenerLimits;
use crate::{auth::PeerCertificate, config::Tls};

/// Object identifier of a subject's common name (X.520).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Name of HTTP/2 in ALPN (RFC 9113, section 3.2).
const HTTP2: &[u8] = b"h2";

/// Performs the TLS handshake, whose timeout is that of the stream. The protocols are those of
/// the listener's limits, which do not change with a reload.
pub(super) async fn accept<S>(
    tls: Tls,
    limits: ListenerLimits,
    stream: S,
) -> io::Result<(TlsStream<S>, Option<PeerCertificate>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut server = tls.server;
    if limits.http2_streams == 0 {
        let protocols = &mut Arc::make_mut(&mut server).alpn_protocols;
        protocols.retain(|name| name != HTTP2);
    }
    let stream = TlsAcceptor::from(server).accept(stream).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = match certificates.and_then(|chain| chain.first()) {
        // It was verified, so it should be readable; if not, the connection is refused.
        Some(certificate) => Some(names(certificate).ok_or(io::ErrorKind::InvalidData)?),
        None => None,
    };
    Ok((stream, certificate))
}

/// Reads the names in a certificate.
fn names(certificate: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let attributes = certificate.subject.0.iter().flat_map(|name| name.0.iter());
    let mut common_names = attributes.filter(|attribute| attribute.oid == COMMON_NAME);
    let common_name = match (common_names.next(), common_names.next()) {
        (Some(only), None) => text(&only.value),
        // Several names are ambiguous.
        (_, _) => None,
    };
    let alternative = certificate.get::<SubjectAltName>().ok()?;
    let alternative = alternative.map(|(_critical, names)| names.0);
    let name = |name: GeneralName| match name {
        GeneralName::DnsName(text)
        | GeneralName::UniformResourceIdentifier(text)
        | GeneralName::Rfc822Name(text) => Some(text.to_string()),
        _ => None,
    };
    let alternative = alternative.into_iter().flatten();
    Some(PeerCertificate {
        common_name,
        alternative_names: alternative.filter_map(name).collect(),
    })
}

/// Reads a string in one of the two encodings that authorities use.
fn text(value: &Any) -> Option<String> {
    let utf8 = value.decode_as::<Utf8StringRef<'_>>();
    let text = utf8.map(|text| text.as_str().to_owned());
    let printable = || value.decode_as::<PrintableStringRef<'_>>();
    text.or_else(|_| printable().map(|text| text.as_str().to_owned()))
        .ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate_names(common_name: &str, others: Vec<SanType>) -> PeerCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "ann");
        if !common_name.is_empty() {
            params
                .distinguished_name
                .push(DnType::CommonName, common_name);
        }
        params.subject_alt_names = others;
        let key = KeyPair::generate().unwrap();
        names(params.self_signed(&key).unwrap().der()).unwrap()
    }

    #[test]
    fn all_names_of_a_certificate_are_read() {
        let ia5 = |text: &str| text.try_into().unwrap();
        let others = vec![
            SanType::DnsName(ia5("ann.example")),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::URI(ia5("spiffe://example/ann")),
            SanType::Rfc822Name(ia5("ann@example")),
        ];

        let read = certificate_names("Änn", others);

        assert_eq!(read.common_name.as_deref(), Some("Änn"));
        let expected = ["ann.example", "spiffe://example/ann", "ann@example"];
        assert_eq!(read.alternative_names, expected);
    }

    #[test]
    fn a_certificate_without_names_has_none() {
        let read = certificate_names("", Vec::new());

        assert_eq!((read.common_name, read.alternative_names.len()), (None, 0));
    }

    #[test]
    fn malformed_certificates_have_no_names() {
        assert_eq!(
            names(&CertificateDer::from(&b"0\x03\x02\x01\x05"[..])),
            None
        );
    }
}
