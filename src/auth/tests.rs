//! Which of the things that a request shows counts.

use http::HeaderValue;

use super::*;
use crate::config::{CertificateName, KeySpec};

fn auth(name: CertificateName, allow: Option<&[&str]>) -> Auth {
    let allow = allow.map(|all| all.iter().map(|&it| it.to_owned()).collect());
    Auth {
        keys: vec![KeySpec {
            name: "team-a".to_owned(),
            sha256: digest("a-key"),
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

/// Who calls with this certificate and these headers, and which of them are left.
async fn known(
    auth: &Auth,
    certificate: Option<(&str, &[&str])>,
    headers: &[(&'static str, &'static str)],
) -> (Result<String, AuthError>, Vec<String>) {
    let callers = Callers::build(auth, None).unwrap();
    let pairs = headers.iter().map(|(name, value)| {
        let name = http::HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    let mut left: HeaderMap = pairs.collect();
    let names = certificate.map_or(&[][..], |it| it.1);
    let alternative_names: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
    let shown = Shown {
        headers: &mut left,
        query: "",
        address: None,
        certificate: certificate.map(|(common_name, _)| Certificate {
            common_name: Some(common_name),
            alternative_names: &alternative_names,
        }),
    };
    let (counts, metrics) = (AuthState::default(), Arc::default());
    let identity = callers.identify(shown, &counts, &metrics);
    let name = identity.await.map(|it| it.name);
    (name, left.keys().map(ToString::to_string).collect())
}

#[tokio::test]
async fn a_certificate_names_its_caller() {
    let (common, alternative) = (
        CertificateName::CommonName,
        CertificateName::AlternativeName,
    );
    let shown: (&str, &[&str]) = ("Build server", &["a.example", "b.example"]);
    let cases = [
        (common, None, Ok("mtls:Build server")),
        (common, Some(&["Build server"][..]), Ok("mtls:Build server")),
        (common, Some(&["a.example"]), Err(AuthError::Silent)),
        (alternative, None, Ok("mtls:a.example")),
        (alternative, Some(&["b.example"]), Ok("mtls:b.example")),
        (
            alternative,
            Some(&["B.example", "c"]),
            Err(AuthError::Silent),
        ),
    ];
    for (name, allow, expected) in cases {
        let (who, _) = known(&auth(name, allow), Some(shown), &[]).await;
        assert_eq!(who, expected.map(str::to_owned), "{name:?} {allow:?}");
    }
    let (nobody, _) = known(&auth(alternative, None), None, &[]).await;
    assert_eq!(nobody, Err(AuthError::Silent));
    let odd: (&str, &[&str]) = ("x", &["a\nb", ""]);
    let (nobody, _) = known(&auth(alternative, None), Some(odd), &[]).await;
    assert_eq!(nobody, Err(AuthError::Silent));
}

#[tokio::test]
async fn a_key_for_hookgate_outranks_a_certificate_and_that_outranks_the_rest() {
    let auth = auth(CertificateName::AlternativeName, None);
    let shown: (&str, &[&str]) = ("x", &["a.example"]);
    let with =
        async |headers: &[(&'static str, &'static str)]| known(&auth, Some(shown), headers).await;

    let (who, left) = with(&[("x-hookgate-key", "a-key"), ("x-goog-api-key", "google")]).await;
    assert_eq!(
        (who.as_deref(), left),
        (Ok("team-a"), vec!["x-goog-api-key".to_owned()])
    );
    let (who, left) = with(&[("x-hookgate-key", "wrong")]).await;
    assert_eq!((who, left), (Err(AuthError::Unknown), vec![]));
    // What is the model API's stays, what is hookgate's does not.
    let (who, left) = with(&[
        ("x-goog-api-key", "google"),
        ("authorization", "Bearer a-key"),
    ])
    .await;
    assert_eq!(
        (who.as_deref(), left),
        (Ok("mtls:a.example"), vec!["x-goog-api-key".to_owned()])
    );
}

#[tokio::test]
async fn where_nobody_is_asked_callers_are_told_apart_by_what_they_show() {
    let callers = Callers::build(&Auth::default(), None).unwrap();
    let key = async |name: &'static str, value: &'static str, query| {
        let name = http::HeaderName::from_static(name);
        let mut headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        let shown = Shown {
            headers: &mut headers,
            query,
            address: None,
            certificate: None,
        };
        let (counts, metrics) = (AuthState::default(), Arc::default());
        let identity = callers.identify(shown, &counts, &metrics);
        let identity = identity.await.unwrap();
        assert_eq!(headers.len(), 1, "all of it is the model API's");
        assert!(identity.usage().is_none());
        let Caller { key, name, .. } = identity.caller();
        (key, name)
    };

    let k = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a".to_owned();
    let nobody = String::new;
    assert_eq!(
        key("authorization", "Bearer k", "").await,
        (k.clone(), nobody())
    );
    assert_eq!(key("x-goog-api-key", "k", "").await, (k.clone(), nobody()));
    assert_eq!(
        key("accept", "x", "alt=sse&key=k").await,
        (k.clone(), nobody())
    );
    assert_ne!(key("x-goog-api-key", "k", "key=k").await.0, k);
    assert_eq!(key("accept", "x", "").await, (nobody(), nobody()));
}
