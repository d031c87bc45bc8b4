//! Precedence of certificates, keys and tokens in one request.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::{
    config::{Auth, CertificateName, Grant, KeySpec, MtlsSpec},
    event::Caller,
    sha256::sha256,
};

fn auth(name: CertificateName, allow: Option<&[&str]>) -> Auth {
    let allow = allow.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    Auth {
        keys: vec![KeySpec {
            name: "team-a".to_owned(),
            sha256: sha256("a-key"),
            grant: Grant::default(),
        }],
        mtls: Some(MtlsSpec {
            name,
            allow,
            grant: Grant::default(),
        }),
        ..Auth::default()
    }
}

fn header_map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = headers.iter().map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    pairs.collect()
}

/// Returns the caller with this certificate and these headers, and the headers left.
async fn authenticate(
    auth: &Auth,
    certificate: Option<(&str, &[&str])>,
    headers: &[(&'static str, &'static str)],
) -> (Result<String, AuthError>, Vec<String>) {
    let authenticator = Authenticator::new(auth, None, None).unwrap();
    let mut headers = header_map(headers);
    let certificate = certificate.map(|(common_name, names)| PeerCertificate {
        common_name: Some(common_name.to_owned()),
        alternative_names: names.iter().map(|&name| name.to_owned()).collect(),
    });
    let credentials = Credentials {
        headers: &mut headers,
        query: "",
        address: None,
        certificate: certificate.as_ref(),
    };
    let (state, metrics) = (AuthState::default(), Arc::default());
    let identity = authenticator.authenticate(credentials, &state, &metrics);
    let name = identity.await.map(|identity| identity.name.to_string());
    (name, headers.keys().map(ToString::to_string).collect())
}

#[tokio::test]
async fn a_certificate_names_its_caller() {
    let (common, alternative) = (
        CertificateName::CommonName,
        CertificateName::AlternativeName,
    );
    let names: (&str, &[&str]) = ("Build server", &["a.example", "b.example"]);
    let cases = [
        (common, None, Ok("mtls:Build server")),
        (common, Some(&["Build server"][..]), Ok("mtls:Build server")),
        (
            common,
            Some(&["a.example"]),
            Err(AuthError::CertificateNotAllowed),
        ),
        (alternative, None, Ok("mtls:a.example")),
        (alternative, Some(&["b.example"]), Ok("mtls:b.example")),
        (
            alternative,
            Some(&["B.example", "c"]),
            Err(AuthError::CertificateNotAllowed),
        ),
    ];
    for (name, allow, expected) in cases {
        let (caller, _) = authenticate(&auth(name, allow), Some(names), &[]).await;
        assert_eq!(caller, expected.map(str::to_owned), "{name:?} {allow:?}");
    }
    let (caller, _) = authenticate(&auth(alternative, None), None, &[]).await;
    assert_eq!(caller, Err(AuthError::Missing));
    let invalid: (&str, &[&str]) = ("x", &["a\nb", ""]);
    let (caller, _) = authenticate(&auth(alternative, None), Some(invalid), &[]).await;
    assert_eq!(caller, Err(AuthError::CertificateNotAllowed));
}

#[tokio::test]
async fn an_own_key_precedes_a_certificate_and_that_precedes_shared_keys() {
    let auth = auth(CertificateName::AlternativeName, None);
    let names: (&str, &[&str]) = ("x", &["a.example"]);
    let with = async |headers: &[(&'static str, &'static str)]| {
        authenticate(&auth, Some(names), headers).await
    };

    let (caller, left) = with(&[("x-hookgate-key", "a-key"), ("x-goog-api-key", "google")]).await;
    assert_eq!(
        (caller.as_deref(), left),
        (Ok("team-a"), vec!["x-goog-api-key".to_owned()])
    );
    let (caller, left) = with(&[("x-hookgate-key", "wrong")]).await;
    assert_eq!((caller, left), (Err(AuthError::Unknown), vec![]));
    // The model API's key is kept, hookgate's is removed.
    let (caller, left) = with(&[
        ("x-goog-api-key", "google"),
        ("authorization", "Bearer a-key"),
    ])
    .await;
    assert_eq!(
        (caller.as_deref(), left),
        (Ok("mtls:a.example"), vec!["x-goog-api-key".to_owned()])
    );
}

#[tokio::test]
async fn anonymous_callers_are_kept_apart_by_their_keys_for_the_model_api() {
    let authenticator = Authenticator::new(&Auth::default(), None, None).unwrap();
    let key = async |name: &'static str, value: &'static str, query| {
        let mut headers = header_map(&[(name, value)]);
        let credentials = Credentials {
            headers: &mut headers,
            query,
            address: None,
            certificate: None,
        };
        let (state, metrics) = (AuthState::default(), Arc::default());
        let identity = authenticator.authenticate(credentials, &state, &metrics);
        let identity = identity.await.unwrap();
        assert_eq!(headers.len(), 1, "the model API's key is kept");
        assert!(identity.usage().is_none());
        let Caller { key, name, .. } = identity.caller();
        (key, name)
    };

    let k = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a".to_owned();
    let anonymous = String::new;
    assert_eq!(
        key("authorization", "Bearer k", "").await,
        (k.clone(), anonymous())
    );
    assert_eq!(
        key("x-goog-api-key", "k", "").await,
        (k.clone(), anonymous())
    );
    assert_eq!(
        key("accept", "x", "alt=sse&key=k").await,
        (k.clone(), anonymous())
    );
    assert_ne!(key("x-goog-api-key", "k", "key=k").await.0, k);
    assert_eq!(key("accept", "x", "").await, (anonymous(), anonymous()));
}
