//! A server of bundles, and what is published there.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use http::{HeaderMap, StatusCode};
use policy_bundle::{Bundle, BundleFile, Manifest, PublicKey, SigningKey};
use tokio::sync::watch;

use crate::harness::{Asked, Upstream};

/// Whether the server holds requests until something else is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    Held,
    Polled,
}

/// A server of bundles by name, with entity tags.
pub struct PolicyServer {
    published: watch::Sender<BTreeMap<String, Vec<u8>>>,
    upstream: Upstream,
}

#[derive(Clone)]
struct Served {
    published: watch::Receiver<BTreeMap<String, Vec<u8>>>,
    holding: Holding,
}

impl PolicyServer {
    pub async fn start(holding: Holding) -> Self {
        let (published, receiver) = watch::channel(BTreeMap::new());
        let served = Served {
            published: receiver,
            holding,
        };
        let router = Router::new()
            .route("/{name}", get(fetch))
            .with_state(served);
        let upstream = Upstream::serving(router).await;
        Self {
            published,
            upstream,
        }
    }

    pub fn publish(&self, name: &str, archive: Vec<u8>) {
        self.published.send_modify(|published| {
            published.insert(name.to_owned(), archive);
        });
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.upstream.addr)
    }

    /// What it was asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.upstream.seen()
    }
}

async fn fetch(
    State(mut served): State<Served>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap().to_owned());
    let known = text("if-none-match");
    let wait = text("prefer").and_then(|it| it.strip_prefix("wait=")?.parse().ok());
    let wait = Duration::from_secs(wait.unwrap_or(0));
    if served.holding == Holding::Held {
        let is_other = |published: &BTreeMap<String, Vec<u8>>| {
            published.get(&name).map(|it| etag(it)) != known
        };
        let changed = served.published.wait_for(is_other);
        tokio::time::timeout(wait, changed).await.ok();
    }
    let archive = served.published.borrow().get(&name).cloned();
    // A server that is gone has no connections left.
    let mut response = Response::builder().header("connection", "close");
    if served.holding == Holding::Held {
        response = response.header("preference-applied", "wait");
    }
    let answer = match archive {
        None => response.status(StatusCode::NOT_FOUND).body(Body::empty()),
        Some(archive) if known == Some(etag(&archive)) => response
            .status(StatusCode::NOT_MODIFIED)
            .header("etag", etag(&archive))
            .body(Body::empty()),
        Some(archive) => response
            .header("etag", etag(&archive))
            .body(Body::from(archive)),
    };
    answer.unwrap()
}

fn etag(archive: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    archive.hash(&mut hasher);
    format!("\"{:x}\"", hasher.finish())
}

/// Someone who builds bundles and signs them with one key.
pub struct Publisher {
    key: SigningKey,
    /// Time of the next bundle.
    next: AtomicI64,
}

impl Publisher {
    pub fn new() -> Self {
        let pem = SigningKey::generate().unwrap();
        Self {
            key: SigningKey::from_pem(&pem).unwrap(),
            next: AtomicI64::new(1_790_000_000),
        }
    }

    pub fn public_key(&self) -> PublicKey {
        self.key.public_key().unwrap()
    }

    /// A newer manifest than all before.
    pub fn manifest(&self, revision: &str) -> Manifest {
        let created = self.next.fetch_add(1, Ordering::Relaxed);
        Manifest {
            revision: revision.parse().unwrap(),
            created: jiff::Timestamp::from_second(created).unwrap(),
            parent: None,
            allows_parent: false,
            requires: ">=0.1".parse().unwrap(),
            files: BTreeMap::new(),
            executable: Vec::new(),
        }
    }

    /// A signed bundle with these files; those in `hooks/` can be executed.
    pub fn signed(&self, manifest: Manifest, files: &[(&str, &str)]) -> Vec<u8> {
        let mut bundle = unsigned(manifest, files);
        bundle.sign(&self.key);
        bundle.to_bytes().unwrap()
    }

    /// A signed bundle whose hook denies prompts with a word, and whose test shows it.
    pub fn denying(&self, revision: &str, word: &str) -> Vec<u8> {
        let manifest = self.manifest(revision);
        self.signed(manifest, &denying_files("words", word).each())
    }
}

/// The files of a bundle without a signature.
pub fn unsigned(manifest: Manifest, files: &[(&str, &str)]) -> Bundle {
    let files = files.iter().map(|(path, content)| {
        let file = BundleFile {
            content: content.as_bytes().to_vec(),
            is_executable: path.starts_with("hooks/"),
        };
        ((*path).to_owned(), file)
    });
    Bundle::build(manifest, files.collect()).unwrap()
}

/// Files of a bundle, owned.
pub struct Files(Vec<(String, String)>);

impl Files {
    pub fn each(&self) -> Vec<(&str, &str)> {
        let files = self.0.iter();
        files
            .map(|(path, content)| (path.as_str(), content.as_str()))
            .collect()
    }

    /// The same with more text at the end of one file.
    pub fn with(mut self, path: &str, more: &str) -> Self {
        let file = self.0.iter_mut().find(|(name, _)| name == path);
        file.unwrap().1.push_str(more);
        self
    }
}

/// The files of a bundle whose hook denies prompts with a word, and whose test shows it.
pub fn denying_files(name: &str, word: &str) -> Files {
    let file = |path: String, content: String| (path, content);
    Files(vec![
        file(
            "hookgate.yaml".to_owned(),
            format!(
                "hooks:\n  BeforeModel:\n    - hooks:\n        - name: {name}\n          command: ./hooks/{name}.sh\n          on_failure: closed\n"
            ),
        ),
        file(
            format!("hooks/{name}.sh"),
            format!("#!/bin/sh\nif grep -q {word}; then echo \"no {word}\" >&2; exit 2; fi\n"),
        ),
        file(
            "tests/words.yaml".to_owned(),
            format!(
                "cases:\n  - name: {word} is denied\n    request: {{ contents: [{{ role: user, parts: [{{ text: \"a {word}\" }}] }}] }}\n    expect: {{ verdict: deny }}\n"
            ),
        ),
    ])
}
