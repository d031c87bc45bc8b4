//! Callers authenticated by tokens (JWT) of an identity provider.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
        RsaKeyPair,
    },
};
use axum::Router;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

use super::sha256;
use crate::harness::{
    Agent, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, assert_refused, prompt, respond,
};

/// Signing keys of an issuer, one for each algorithm.
struct Issuer {
    elliptic: EcdsaKeyPair,
    edwards: Ed25519KeyPair,
    rsa: RsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        Self {
            elliptic: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            edwards: Ed25519KeyPair::generate().unwrap(),
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
        }
    }

    fn jwks(&self) -> String {
        let point = self.elliptic.public_key().as_ref();
        let der = self.rsa.public_key().as_ref();
        let keys = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "kid": "es", "alg": "ES256", "use": "sig",
              "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..]) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed",
              "x": BASE64.encode(self.edwards.public_key().as_ref()) },
            // DER: a sequence of two integers of known lengths.
            { "kty": "RSA", "kid": "rs", "n": BASE64.encode(&der[9..265]), "e": "AQAB" },
            { "kty": "EC", "crv": "P-256", "kid": "for-encryption", "use": "enc",
              "x": BASE64.encode(&point[1..33]), "y": BASE64.encode(&point[33..]) },
            { "kty": "oct", "kid": "secret", "k": "c2VjcmV0" },
        ]});
        keys.to_string()
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let random = SystemRandom::new();
        let signature = match header["alg"].as_str().unwrap() {
            "ES256" => self
                .elliptic
                .sign(&random, message.as_bytes())
                .unwrap()
                .as_ref()
                .to_vec(),
            "EdDSA" => self.edwards.sign(message.as_bytes()).as_ref().to_vec(),
            "RS256" => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                let signed = self.rsa.sign(
                    &RSA_PKCS1_SHA256,
                    &random,
                    message.as_bytes(),
                    &mut signature,
                );
                signed.unwrap();
                signature
            }
            // Algorithm confusion: the public key is the secret.
            "HS256" => {
                let mut mac =
                    Hmac::<Sha256>::new_from_slice(self.edwards.public_key().as_ref()).unwrap();
                mac.update(message.as_bytes());
                mac.finalize().into_bytes().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// Returns a valid token, except for these fields of header and claims.
    fn token(&self, header: &Value, claims: &Value) -> String {
        let mut valid_header = json!({ "alg": "ES256", "kid": "es", "typ": "JWT" });
        let mut valid_claims = json!({
            "iss": "https://issuer.example", "aud": "hookgate", "sub": "alice",
            "exp": now() + 600, "nbf": now() - 5,
        });
        change(&mut valid_header, header);
        change(&mut valid_claims, claims);
        self.sign(&valid_header, &valid_claims)
    }
}

fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// Sets fields; `null` removes one.
fn change(value: &mut Value, changes: &Value) {
    for (name, new) in changes.as_object().unwrap() {
        if new.is_null() {
            value.as_object_mut().unwrap().remove(name);
        } else {
            value[name] = new.clone();
        }
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

/// Starts a gateway that accepts the tokens of this issuer.
async fn start_gateway(upstream: &Upstream, issuer: &Issuer, more: &str) -> TestGateway {
    let config = format!(
        "auth: {{ jwt: {{ issuer: \"https://issuer.example\", audience: hookgate, \
         jwks: {{ file: jwks.json }}{more} }} }}\n\
         denials: error\n\
         policies: [{{ policy: prompt_guard, deny: [secret], \
         when: caller.name == \"jwt:alice\" }}]\n"
    );
    let jwks = issuer.jwks();
    TestGateway::with_files(upstream, &config, &[("jwks.json", &jwks)]).await
}

fn bearer(gate: &TestGateway, token: &str) -> Agent {
    gate.agent()
        .sending("authorization", format!("Bearer {token}"))
}

#[tokio::test]
async fn a_valid_token_authenticates_its_caller_and_is_not_forwarded() {
    let (upstream, issuer) = (Upstream::mock().await, Issuer::new());
    let gate = start_gateway(&upstream, &issuer, "").await;
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
    let valid = [
        issuer.token(&json!({}), &json!({})),
        issuer.token(&header("EdDSA", "ed"), &json!({})),
        issuer.token(&header("RS256", "rs"), &json!({})),
        issuer.token(&json!({ "kid": null }), &json!({})),
        issuer.token(&json!({}), &json!({ "aud": ["other", "hookgate"] })),
        issuer.token(&json!({}), &json!({ "exp": now() - 30, "nbf": now() + 30 })),
        issuer.token(&json!({}), &json!({ "exp": 4_102_444_800.5, "nbf": null })),
    ];

    for token in valid {
        let answer = bearer(&gate, &token).generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200, "{token}: {}", answer.text());
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(asked.header("authorization"), "");
        let denied = bearer(&gate, &token).generate("m", &prompt("secret")).await;
        assert_refused(&denied, 403, "POLICY_DENIED");
        // The token is not forwarded if it is also in `x-hookgate-key`.
        let in_two_headers = gate.agent().sending("x-hookgate-key", &token);
        let in_two_headers = in_two_headers.sending("x-goog-api-key", &token);
        let answer = in_two_headers.generate("m", &prompt("hi")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            upstream.requests().pop().unwrap().header("x-goog-api-key"),
            ""
        );
    }
    let other = issuer.token(&json!({}), &json!({ "sub": "bob" }));
    let answer = bearer(&gate, &other).generate("m", &prompt("secret")).await;
    assert_eq!(answer.status, 200);
    let metrics = gate.operator().get("/metrics").await;
    assert!(
        metrics
            .text()
            .contains("{caller=\"other\",outcome=\"accepted\"}")
    );
    assert!(!metrics.text().contains("alice"));
}

#[tokio::test]
async fn tokens_with_an_invalid_signature_header_or_claim_are_refused() {
    let (upstream, issuer, other) = (Upstream::mock().await, Issuer::new(), Issuer::new());
    let valid = issuer.token(&json!({}), &json!({}));
    let (unsigned, signature) = valid.rsplit_once('.').unwrap();
    let (head, claims) = unsigned.split_once('.').unwrap();
    let mut flipped = BASE64.decode(signature).unwrap();
    flipped[7] ^= 1;
    let header = |fields: Value| issuer.token(&fields, &json!({}));
    let claim = |fields: Value| issuer.token(&json!({}), &fields);
    let invalid = [
        other.token(&json!({}), &json!({})),
        header(json!({ "alg": "none" })),
        header(json!({ "alg": "none", "kid": null })),
        header(json!({ "alg": "HS256", "kid": "ed" })),
        header(json!({ "alg": "HS256", "kid": "secret" })),
        header(json!({ "alg": "ES256", "kid": "ed" })),
        header(json!({ "alg": "ES256", "kid": "for-encryption" })),
        header(json!({ "alg": "ES384" })),
        header(json!({ "alg": "PS256", "kid": "rs" })),
        header(json!({ "kid": "nobody" })),
        header(json!({ "crit": ["b64"], "b64": false })),
        claim(json!({ "iss": "https://issuer.example/" })),
        claim(json!({ "iss": null })),
        claim(json!({ "aud": "other" })),
        claim(json!({ "aud": null })),
        claim(json!({ "aud": { "hookgate": true } })),
        claim(json!({ "exp": now() - 120 })),
        claim(json!({ "exp": null })),
        claim(json!({ "exp": "4102444800" })),
        claim(json!({ "nbf": now() + 120 })),
        claim(json!({ "nbf": "0" })),
        claim(json!({ "sub": null })),
        claim(json!({ "sub": "" })),
        claim(json!({ "sub": 7 })),
        claim(json!({ "sub": "a\nb" })),
        claim(json!({ "sub": "a".repeat(300) })),
        claim(json!({ "padding": "a".repeat(20_000) })),
        unsigned.to_owned(),
        format!("{unsigned}."),
        format!("{unsigned}.{}", BASE64.encode(flipped)),
        format!("{valid}="),
        format!("{valid}.x"),
        format!("{head}.{claims}.{claims}.{signature}"),
        format!(
            "{head}.{}.{signature}",
            BASE64.encode(r#"{"iss":"https://issuer.example"}"#)
        ),
    ];

    for token in invalid {
        // A gateway for each token, so that none is throttled because of the others.
        let gate = start_gateway(&upstream, &issuer, "").await;
        let answer = bearer(&gate, &token).generate("m", &prompt("hi")).await;
        assert_refused(&answer, 401, "UNAUTHENTICATED");
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_caller_with_a_token_has_its_own_grants_and_rate_limit() {
    let (upstream, issuer) = (Upstream::mock().await, Issuer::new());
    let more = ", name: email, models: [small], requests_per_minute: 2";
    let gate = start_gateway(&upstream, &issuer, more).await;
    let token = |name: &str| issuer.token(&json!({}), &json!({ "email": name }));

    let agent = bearer(&gate, &token("ann@example.com"));
    let denied = agent.generate("large", &prompt("hi")).await;
    assert_refused(&denied, 403, "POLICY_DENIED");
    assert_eq!(agent.generate("small", &prompt("hi")).await.status, 200);
    let limited = agent.generate("small", &prompt("hi")).await;
    assert_refused(&limited, 429, "RATE_LIMIT_EXCEEDED");
    let other = bearer(&gate, &token("bob@example.com"));
    assert_eq!(other.generate("small", &prompt("hi")).await.status, 200);
}

/// Repeats a call until its status is this one, because keys are fetched at a bounded rate.
async fn wait_for_status(agent: &Agent, status: u16) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = agent.generate("m", &prompt("hi")).await;
        if answer.status == status {
            return;
        }
        assert!(Instant::now() < deadline, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn signing_keys_are_fetched_rotated_and_kept_during_an_outage() {
    let (upstream, old, new) = (Upstream::mock().await, Issuer::new(), Issuer::new());
    let published: Arc<Mutex<Option<String>>> = Arc::default();
    let current = Arc::clone(&published);
    let provider = Upstream::with(move |_| match &*current.lock().unwrap() {
        Some(jwks) => respond(200, "application/json", jwks.clone()),
        None => respond(503, "text/plain", "not now"),
    })
    .await;
    let config = format!(
        "auth: {{ jwt: {{ issuer: \"https://issuer.example\", audience: hookgate, jwks: \
         \"http://{}/keys\" }} }}",
        provider.addr
    );
    let gate = TestGateway::start(&upstream, &config).await;
    let old_agent = bearer(&gate, &old.token(&json!({}), &json!({})));
    // Without keys, the gateway is ready and authenticates no caller.
    assert_eq!(gate.operator().get("/readyz").await.status, 200);
    let refused = old_agent.generate("m", &prompt("hi")).await;
    assert_refused(&refused, 503, "ISSUER_UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), "10");

    *published.lock().unwrap() = Some(old.jwks());
    wait_for_status(&old_agent, 200).await;
    // An unknown key id causes a fetch at once, at a bounded rate.
    let jwks = new.jwks().replace("\"es\"", "\"es-2\"");
    *published.lock().unwrap() = Some(jwks);
    let new_token = new.token(&json!({ "kid": "es-2" }), &json!({}));
    wait_for_status(&bearer(&gate, &new_token), 200).await;
    assert_refused(
        &old_agent.generate("m", &prompt("hi")).await,
        401,
        "UNAUTHENTICATED",
    );
    let fetched = provider.requests().len();
    for index in 0..5 {
        let kid = format!("made-up-{index}");
        let token = new.token(&json!({ "kid": kid }), &json!({}));
        bearer(&gate, &token).generate("m", &prompt("hi")).await;
    }
    assert!(
        provider.requests().len() <= fetched + 1,
        "{}",
        provider.requests().len()
    );
    // So does another key under a known id.
    let replaced = Issuer::new();
    let jwks = replaced.jwks().replace("\"es\"", "\"es-2\"");
    *published.lock().unwrap() = Some(jwks);
    let token = replaced.token(&json!({ "kid": "es-2" }), &json!({}));
    wait_for_status(&bearer(&gate, &token), 200).await;
    let answer = bearer(&gate, &new_token).generate("m", &prompt("hi")).await;
    assert_refused(&answer, 401, "UNAUTHENTICATED");
    // The last valid keys are kept while the issuer is unavailable.
    *published.lock().unwrap() = None;
    let answer = bearer(&gate, &token).generate("m", &prompt("hi")).await;
    assert_eq!(answer.status, 200);
}

/// Starts an issuer that publishes these keys after a delay, or is unavailable.
async fn issuer_of(keys: &Arc<Mutex<Option<String>>>, delay: Duration) -> Upstream {
    let keys = Arc::clone(keys);
    let router = Router::new().fallback(async move || {
        let published = keys.lock().unwrap().clone();
        tokio::time::sleep(delay).await;
        match published {
            Some(jwks) => respond(200, "application/json", jwks),
            None => respond(503, "text/plain", "not now"),
        }
    });
    Upstream::with_router(router).await
}

fn jwt_config(issuer: &Upstream, more: &str) -> String {
    format!(
        "auth: {{ jwt: {{ issuer: \"https://issuer.example\", audience: hookgate, jwks: \
         \"http://{}/keys\"{more} }} }}\n",
        issuer.addr
    )
}

#[tokio::test]
async fn an_unreachable_issuer_keeps_its_keys_over_a_reload_of_its_grants() {
    let (upstream, signer) = (Upstream::mock().await, Issuer::new());
    let published = Arc::new(Mutex::new(Some(signer.jwks())));
    let issuer = issuer_of(&published, Duration::ZERO).await;
    let folder = TempDir::new().unwrap();
    let write = |more: &str| {
        let upstreams = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
            upstream.addr
        );
        let config = upstreams + "# Callers.\n" + &jwt_config(&issuer, more);
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    };
    write("");
    let mut served = ServerProcess::folder(folder.path());
    let token = signer.token(&json!({}), &json!({}));
    let agent = Agent::at(served.addr()).sending("authorization", format!("Bearer {token}"));
    assert_eq!(agent.generate("m", &prompt("hi")).await.status, 200);

    *published.lock().unwrap() = None;
    write(", models: [small]");
    let reloaded = Agent::at(served.operators()).post("/reload", "").await;

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!(agent.generate("small", &prompt("hi")).await.status, 200);
    let denied = agent.generate("large", &prompt("hi")).await;
    assert!(!denied.text().contains("You said"), "{}", denied.text());
}

#[tokio::test]
async fn tokens_that_wait_for_keys_take_no_slots_of_other_callers() {
    let (upstream, signer) = (Upstream::mock().await, Issuer::new());
    let issuer = issuer_of(&Arc::default(), Duration::from_mins(1)).await;
    let key = sha256("ann-key");
    let more = jwt_config(&issuer, "").replace(
        "auth: {",
        &format!("auth: {{ keys: [{{ name: ann, sha256: {key} }}],"),
    );
    let gate = TestGateway::start(&upstream, &format!("limits: {{ in_flight: 4 }}\n{more}")).await;
    let token = signer.token(&json!({}), &json!({}));
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let agent = bearer(&gate, &token);
            tokio::spawn(async move { agent.get("/v1beta/models").await })
        })
        .collect();
    let deadline = Instant::now() + TEST_TIMEOUT;
    while gate.operator().metric("hookgate_receiving").await < 8 {
        assert!(Instant::now() < deadline, "no token waits");
    }

    let agent = gate.agent().sending("x-hookgate-key", "ann-key");
    let answer = agent.generate("m", &prompt("hi")).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    for answer in waiting {
        assert_refused(&answer.await.unwrap(), 503, "ISSUER_UNAVAILABLE");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_disconnects_does_not_end_the_fetch_of_keys() {
    let (upstream, old, new) = (Upstream::mock().await, Issuer::new(), Issuer::new());
    let published = Arc::new(Mutex::new(Some(old.jwks())));
    let issuer = issuer_of(&published, Duration::from_millis(500)).await;
    let gate = TestGateway::start(&upstream, &jwt_config(&issuer, "")).await;
    let old_agent = bearer(&gate, &old.token(&json!({}), &json!({})));
    wait_for_status(&old_agent, 200).await;
    let jwks = new.jwks().replace("\"es\"", "\"es-2\"");
    *published.lock().unwrap() = Some(jwks);
    // The shortest time between two fetches.
    tokio::time::sleep(Duration::from_secs(10)).await;

    let unknown = bearer(&gate, &old.token(&json!({ "kid": "made-up" }), &json!({})));
    let body = prompt("hi");
    let left = unknown.generate("m", &body);
    let left = tokio::time::timeout(Duration::from_millis(100), left).await;

    assert!(left.is_err(), "the request must wait for the keys");
    let token = new.token(&json!({ "kid": "es-2" }), &json!({}));
    let answer = bearer(&gate, &token).generate("m", &prompt("hi")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
