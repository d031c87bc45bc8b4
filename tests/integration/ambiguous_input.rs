//! One meaning: what could be read in two ways goes nowhere, whichever way it
//! comes, on every path that hooks read.

mod answers;
mod encodings;
mod heads;
mod hook_output;
mod requests;

use serde_json::{Value, json};

use crate::harness::{Raw, TestGateway, Upstream};

/// What policies mask, and what no trick may get past them.
const SECRET: &str = "SECRET-4711";

/// Masks the secret in requests and answers, whatever they ask.
const MASKED: &str = r#"
policies: [{ policy: redact, patterns: { secret: "SECRET-[0-9]+" }, detect: [] }]
upstreams:
  gemini: { url: "{upstream}" }
  vertex: { url: "{upstream}" }
  code_assist: { url: "{upstream}" }
"#;

const JSON: &str = "content-type: application/json\r\n";

/// A way in: where a method's path is, and what is around its body.
#[derive(Debug)]
struct Way {
    /// With `{}` in the method's place.
    path: &'static str,
    wraps: bool,
    methods: &'static [&'static str],
}

const ALL: &[&str] = &[
    "generateContent",
    "streamGenerateContent",
    "streamGenerateContent?alt=sse",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
];
const WITHOUT_BATCHES: &[&str] = ALL.split_at(5).0;
const WITHOUT_EMBEDDINGS: &[&str] = ALL.split_at(4).0;

/// Every way in whose bodies hooks read.
const WAYS: &[Way] = &[
    Way::to("/v1beta/models/m:{}"),
    Way::to("/v1/models/m:{}"),
    Way::to("/v1alpha/models/m:{}"),
    Way::to("/models/m:{}"),
    Way::to("/s/mine/v1beta/models/m:{}"),
    Way::to("/v1/publishers/google/models/m:{}").of(WITHOUT_BATCHES),
    Way::to("/v1beta1/publishers/google/models/m:{}").of(WITHOUT_BATCHES),
    Way::to("/v1/projects/p/locations/l/publishers/google/models/m:{}").of(WITHOUT_BATCHES),
    Way::to("/v1internal:{}").of(WITHOUT_EMBEDDINGS).wrapping(),
    Way::to("/s/mine/v1internal:{}")
        .of(WITHOUT_EMBEDDINGS)
        .wrapping(),
];

/// One method at the end of one way.
#[derive(Debug, Clone, Copy)]
struct Door {
    way: &'static Way,
    method: &'static str,
}

impl Way {
    const fn to(path: &'static str) -> Self {
        let (wraps, methods) = (false, ALL);
        Self {
            path,
            wraps,
            methods,
        }
    }

    const fn of(self, methods: &'static [&'static str]) -> Self {
        Self { methods, ..self }
    }

    const fn wrapping(self) -> Self {
        let wraps = true;
        Self { wraps, ..self }
    }

    fn doors(&'static self) -> impl Iterator<Item = Door> {
        let door = move |method: &&'static str| Door { way: self, method };
        self.methods.iter().map(door)
    }
}

impl Door {
    fn all() -> impl Iterator<Item = Self> {
        WAYS.iter().flat_map(Way::doors)
    }

    fn path(self) -> String {
        self.way.path.replace("{}", self.method)
    }

    /// A body whose only part is the secret.
    fn honest(self) -> String {
        self.saying(&json!({ "text": SECRET }).to_string())
    }

    /// A body with this part.
    fn saying(self, part: &str) -> String {
        let content = format!(r#"{{"role":"user","parts":[{part}]}}"#);
        let body = match self.method {
            "embedContent" => format!(r#"{{"content":{content}}}"#),
            "batchEmbedContents" => {
                format!(r#"{{"requests":[{{"model":"models/m","content":{content}}}]}}"#)
            }
            _ => format!(r#"{{"contents":[{content}]}}"#),
        };
        if self.way.wraps {
            format!(r#"{{"model":"m","project":"p","request":{body}}}"#)
        } else {
            body
        }
    }

    async fn post(self, gate: &TestGateway, lines: &str, body: &[u8]) -> Raw {
        Raw::post(gate.agents, &self.path(), lines, body).await
    }
}

/// A gate that masks, and its upstream, which answers anything.
async fn masked() -> (Upstream, TestGateway) {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, MASKED).await;
    (upstream, gate)
}

/// Checks that what was sent has come to nothing but this error.
#[track_caller]
fn assert_stopped(upstream: &Upstream, answer: &Raw, expected: (u16, &str), what: &str) {
    let said = String::from_utf8_lossy(&answer.body);
    assert_eq!(
        (answer.status, &*answer.reason()),
        expected,
        "{what}: {said}"
    );
    assert!(upstream.seen().is_empty(), "{what}: {:#?}", upstream.seen());
}

#[tokio::test]
async fn without_a_trick_the_secret_is_masked_at_every_door() {
    let (upstream, gate) = masked().await;
    let mut doors = 0;
    for door in Door::all() {
        let answer = door.post(&gate, JSON, door.honest().as_bytes()).await;

        assert_eq!(answer.status, 200, "{door:?}: {answer:?}");
        doors += 1;
        let asked = upstream.seen().pop().unwrap();
        assert!(asked.body.contains("[REDACTED:secret]"), "{door:?}");
        assert!(!asked.body.contains(SECRET), "{door:?}: {}", asked.body);
        let _json: Value = asked.json();
    }
    assert_eq!(upstream.seen().len(), doors);
}
