//! Bundle server, and a publisher that builds and signs bundles.

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

use crate::harness::{ReceivedRequest, Upstream};

/// Long polling, which holds requests until another bundle is published, or short polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polling {
    Long,
    Short,
}

/// Server of bundles by name, with entity tags.
pub struct PolicyServer {
    published: watch::Sender<BTreeMap<String, Vec<u8>>>,
    upstream: Upstream,
}

#[derive(Clone)]
struct ServerState {
    published: watch::Receiver<BTreeMap<String, Vec<u8>>>,
    polling: Polling,
}

impl PolicyServer {
    pub async fn start(polling: Polling) -> Self {
        let (published, receiver) = watch::channel(BTreeMap::new());
        let state = ServerState {
            published: receiver,
            polling,
        };
        let router = Router::new().route("/{name}", get(fetch)).with_state(state);
        let upstream = Upstream::with_router(router).await;
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

    /// Returns the requests that it received.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.upstream.requests()
    }
}

async fn fetch(
    State(mut state): State<ServerState>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let known_etag = text("if-none-match");
    let wait = text("prefer").and_then(|value| value.strip_prefix("wait=")?.parse().ok());
    let wait = Duration::from_secs(wait.unwrap_or(0));
    if state.polling == Polling::Long {
        let is_other = |published: &BTreeMap<String, Vec<u8>>| {
            published.get(&name).map(|bundle| etag(bundle)) != known_etag
        };
        let changed = state.published.wait_for(is_other);
        tokio::time::timeout(wait, changed).await.ok();
    }
    let archive = state.published.borrow().get(&name).cloned();
    // Without keep-alive, a dropped server has no open connections.
    let mut response = Response::builder().header("connection", "close");
    if state.polling == Polling::Long {
        response = response.header("preference-applied", "wait");
    }
    let answer = match archive {
        None => response.status(StatusCode::NOT_FOUND).body(Body::empty()),
        Some(archive) if known_etag == Some(etag(&archive)) => response
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

/// Builds bundles and signs them with one key.
pub struct Publisher {
    key: SigningKey,
    /// Creation time of the next bundle.
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

    /// Returns a manifest that is newer than all before.
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

    /// Returns a signed bundle with these files; those in `hooks/` are executable.
    pub fn signed(&self, manifest: Manifest, files: &[(&str, &str)]) -> Vec<u8> {
        let mut bundle = unsigned(manifest, files);
        bundle.sign(&self.key);
        bundle.to_bytes().unwrap()
    }

    /// Returns a bundle with the signature of this publisher in place of the one it has.
    pub fn signed_again(&self, archive: &[u8]) -> Vec<u8> {
        let mut bundle = Bundle::from_bytes(archive).unwrap();
        bundle.sign(&self.key);
        bundle.to_bytes().unwrap()
    }

    /// Returns a signed bundle with a hook that denies prompts with `word`, and a test of it.
    pub fn denying(&self, revision: &str, word: &str) -> Vec<u8> {
        let manifest = self.manifest(revision);
        self.signed(manifest, &denying_files("words", word).as_pairs())
    }
}

/// Returns an unsigned bundle with these files.
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

/// Owned paths and contents of the files of a bundle.
pub struct Files(Vec<(String, String)>);

impl Files {
    pub fn as_pairs(&self) -> Vec<(&str, &str)> {
        let files = self.0.iter();
        files
            .map(|(path, content)| (path.as_str(), content.as_str()))
            .collect()
    }

    /// Appends text to one file.
    pub fn with(mut self, path: &str, more: &str) -> Self {
        let file = self.0.iter_mut().find(|(name, _)| name == path);
        file.unwrap().1.push_str(more);
        self
    }
}

/// Returns the files of a bundle with a hook that denies prompts with `word`, and a test of it.
pub fn denying_files(name: &str, word: &str) -> Files {
    let file = |path: String, content: String| (path, content);
    Files(vec![
        file(
            "hookgate.yaml".to_owned(),
            format!(
                "hooks:\n  BeforeModel:\n    - hooks:\n        - name: {name}\n\
                 \x20         command: ./hooks/{name}.sh\n          on_failure: closed\n"
            ),
        ),
        file(
            format!("hooks/{name}.sh"),
            format!("#!/bin/sh\nif grep -q {word}; then echo \"no {word}\" >&2; exit 2; fi\n"),
        ),
        file(
            "tests/words.yaml".to_owned(),
            format!(
                "cases:\n  - name: {word} is denied\n\
                 \x20   request: {{ contents: [{{ role: user, parts: [{{ text: \"a \
                 {word}\" }}] }}] }}\n    expect: {{ verdict: deny }}\n"
            ),
        ),
    ])
}
