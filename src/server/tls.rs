//! TLS on a connection, and who is at its other end.

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

use crate::{auth::PeerCertificate, config::Tls};

/// What the common name of a subject is called.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Agrees on TLS. How long that may take is the connection's to say.
pub(super) async fn accept<S>(
    tls: Tls,
    stream: S,
) -> io::Result<(TlsStream<S>, Option<PeerCertificate>)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stream = TlsAcceptor::from(Arc::clone(&tls.server))
        .accept(stream)
        .await?;
    let shown = stream.get_ref().1.peer_certificates();
    let certificate = match shown.and_then(|it| it.first()) {
        // It was found good, so it can be read; if not, nobody is let in by it.
        Some(shown) => Some(names(shown).ok_or(io::ErrorKind::InvalidData)?),
        None => None,
    };
    Ok((stream, certificate))
}

/// The names in a certificate. Pure.
fn names(certificate: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let attributes = certificate.subject.0.iter().flat_map(|it| it.0.iter());
    let mut common_names = attributes.filter(|it| it.oid == COMMON_NAME);
    let common_name = match (common_names.next(), common_names.next()) {
        (Some(only), None) => text(&only.value),
        // Of several, nobody can tell which one counts.
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

/// A name in one of the two ways in which all authorities write them.
fn text(value: &Any) -> Option<String> {
    let utf8 = value.decode_as::<Utf8StringRef<'_>>();
    let text = utf8.map(|it| it.as_str().to_owned());
    let printable = || value.decode_as::<PrintableStringRef<'_>>();
    text.or_else(|_| printable().map(|it| it.as_str().to_owned()))
        .ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn named(common_name: &str, others: Vec<SanType>) -> PeerCertificate {
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
        let ia5 = |it: &str| it.try_into().unwrap();
        let others = vec![
            SanType::DnsName(ia5("ann.example")),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::URI(ia5("spiffe://example/ann")),
            SanType::Rfc822Name(ia5("ann@example")),
        ];

        let read = named("Änn", others);

        assert_eq!(read.common_name.as_deref(), Some("Änn"));
        let expected = ["ann.example", "spiffe://example/ann", "ann@example"];
        assert_eq!(read.alternative_names, expected);
    }

    #[test]
    fn a_certificate_without_names_has_none() {
        let read = named("", Vec::new());

        assert_eq!((read.common_name, read.alternative_names.len()), (None, 0));
    }

    #[test]
    fn what_is_no_certificate_has_no_names() {
        assert_eq!(
            names(&CertificateDer::from(&b"0\x03\x02\x01\x05"[..])),
            None
        );
    }
}
