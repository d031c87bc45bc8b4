//! Ambiguous input: requests, responses and hook output that two parsers could read differently.
//! None of it is forwarded, on any endpoint whose bodies hooks read.

mod encodings;
mod hook_output;
mod paths_and_headers;
mod requests;
mod responses;

use serde_json::{Value, json};

use crate::harness::{Raw, TestGateway, Upstream};

/// The text that the policy masks.
const SECRET: &str = "SECRET-4711";

/// A config that masks the secret in requests and responses of all operations.
const MASKING_CONFIG: &str = r#"
policies: [{ policy: redact, patterns: { secret: "SECRET-[0-9]+" }, detect: [] }]
upstreams:
  gemini: { url: "{upstream}" }
  vertex: { url: "{upstream}" }
  code_assist: { url: "{upstream}" }
"#;

const JSON_HEADER: &str = "content-type: application/json\r\n";

/// A URL form of the model APIs, and the methods that it has.
#[derive(Debug)]
struct Route {
    /// The path, with `{}` for the method.
    path: &'static str,
    /// True if the body is in the envelope of Code Assist.
    has_envelope: bool,
    methods: &'static [&'static str],
}

const ALL_METHODS: &[&str] = &[
    "generateContent",
    "streamGenerateContent",
    "streamGenerateContent?alt=sse",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
];
const WITHOUT_BATCHES: &[&str] = ALL_METHODS.split_at(5).0;
const WITHOUT_EMBEDDINGS: &[&str] = ALL_METHODS.split_at(4).0;

/// Every route whose bodies hooks read.
const ROUTES: &[Route] = &[
    Route::new("/v1beta/models/m:{}"),
    Route::new("/v1/models/m:{}"),
    Route::new("/v1alpha/models/m:{}"),
    Route::new("/models/m:{}"),
    Route::new("/s/mine/v1beta/models/m:{}"),
    Route::new("/v1/publishers/google/models/m:{}").with_methods(WITHOUT_BATCHES),
    Route::new("/v1beta1/publishers/google/models/m:{}").with_methods(WITHOUT_BATCHES),
    Route::new("/v1/projects/p/locations/l/publishers/google/models/m:{}")
        .with_methods(WITHOUT_BATCHES),
    Route::new("/v1internal:{}")
        .with_methods(WITHOUT_EMBEDDINGS)
        .with_envelope(),
    Route::new("/s/mine/v1internal:{}")
        .with_methods(WITHOUT_EMBEDDINGS)
        .with_envelope(),
];

/// One method of one route.
#[derive(Debug, Clone, Copy)]
struct Endpoint {
    route: &'static Route,
    method: &'static str,
}

impl Route {
    const fn new(path: &'static str) -> Self {
        let (has_envelope, methods) = (false, ALL_METHODS);
        Self {
            path,
            has_envelope,
            methods,
        }
    }

    const fn with_methods(self, methods: &'static [&'static str]) -> Self {
        Self { methods, ..self }
    }

    const fn with_envelope(self) -> Self {
        let has_envelope = true;
        Self {
            has_envelope,
            ..self
        }
    }

    fn endpoints(&'static self) -> impl Iterator<Item = Endpoint> {
        let endpoint = move |method: &&'static str| Endpoint {
            route: self,
            method,
        };
        self.methods.iter().map(endpoint)
    }
}

impl Endpoint {
    fn all() -> impl Iterator<Item = Self> {
        ROUTES.iter().flat_map(Route::endpoints)
    }

    fn path(self) -> String {
        self.route.path.replace("{}", self.method)
    }

    /// A body whose only part is the secret.
    fn body_with_secret(self) -> String {
        self.body_with_part(&json!({ "text": SECRET }).to_string())
    }

    /// A body whose only part is this one.
    fn body_with_part(self, part: &str) -> String {
        let content = format!(r#"{{"role":"user","parts":[{part}]}}"#);
        let body = match self.method {
            "embedContent" => format!(r#"{{"content":{content}}}"#),
            "batchEmbedContents" => {
                format!(r#"{{"requests":[{{"model":"models/m","content":{content}}}]}}"#)
            }
            _ => format!(r#"{{"contents":[{content}]}}"#),
        };
        if self.route.has_envelope {
            format!(r#"{{"model":"m","project":"p","request":{body}}}"#)
        } else {
            body
        }
    }

    async fn post(self, gateway: &TestGateway, lines: &str, body: &[u8]) -> Raw {
        Raw::post(gateway.agents, &self.path(), lines, body).await
    }
}

/// A gateway that masks the secret, and its upstream, which accepts every request.
async fn masking_gateway() -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, MASKING_CONFIG).await;
    (upstream, gateway)
}

/// Checks that the response is this error, and that upstream received no request.
#[track_caller]
fn assert_not_forwarded(upstream: &Upstream, answer: &Raw, expected: (u16, &str), case: &str) {
    let body = String::from_utf8_lossy(&answer.body);
    assert_eq!(
        (answer.status, &*answer.reason()),
        expected,
        "{case}: {body}"
    );
    assert!(
        upstream.requests().is_empty(),
        "{case}: {:#?}",
        upstream.requests()
    );
}

#[tokio::test]
async fn an_unambiguous_secret_is_masked_on_every_endpoint() {
    let (upstream, gateway) = masking_gateway().await;
    let mut endpoints = 0;
    for endpoint in Endpoint::all() {
        let answer = endpoint
            .post(
                &gateway,
                JSON_HEADER,
                endpoint.body_with_secret().as_bytes(),
            )
            .await;

        assert_eq!(answer.status, 200, "{endpoint:?}: {answer:?}");
        endpoints += 1;
        let request = upstream.requests().pop().unwrap();
        assert!(request.body.contains("[REDACTED:secret]"), "{endpoint:?}");
        assert!(
            !request.body.contains(SECRET),
            "{endpoint:?}: {}",
            request.body
        );
        let _json: Value = request.json();
    }
    assert_eq!(upstream.requests().len(), endpoints);
}
