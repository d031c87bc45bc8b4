//! A model API that records its requests: the embedded mock, a handler of a test, or bytes on a
//! socket.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body_util::BodyExt;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use mock_model_api::{self, MockConfig, Script};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use super::{Running, until_dropped};

/// A request as the model API received it.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    /// The exact text of the body.
    pub body: String,
    /// The received bytes of the body, which may be compressed.
    pub bytes: Bytes,
}

impl ReceivedRequest {
    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the value of a header, or the empty text.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// A model API that records its requests. Stops when dropped.
pub struct Upstream {
    pub addr: SocketAddr,
    seen: Seen,
    connections: Arc<AtomicUsize>,
    _running: Running,
}

type Seen = Arc<Mutex<Vec<ReceivedRequest>>>;

impl Upstream {
    /// Starts the embedded mock, which answers from the request.
    pub async fn mock() -> Self {
        Self::mock_with(MockConfig::default()).await
    }

    /// Starts the embedded mock with a script: one JSON per line.
    pub async fn scripted(lines: &str) -> Self {
        let script = Some(Script::parse(lines).unwrap());
        Self::mock_with(MockConfig {
            script,
            ..MockConfig::default()
        })
        .await
    }

    /// Starts the embedded mock with other settings.
    pub async fn mock_with(config: MockConfig) -> Self {
        Self::with_router(mock_model_api::router(config)).await
    }

    /// Answers every request with `handler`; [`respond`] makes its responses.
    pub async fn with<F>(handler: F) -> Self
    where
        F: Fn(ReceivedRequest) -> Response + Clone + Send + Sync + 'static,
    {
        let answer = |request: Request| async move {
            let asked = request.extensions().get::<ReceivedRequest>().unwrap();
            handler(asked.clone())
        };
        Self::with_router(Router::new().fallback(answer)).await
    }

    /// Answers every request with this JSON, as the only event of a stream if one is requested.
    pub async fn answering(answer: &Value) -> Self {
        let text = answer.to_string();
        Self::with(move |asked| {
            if asked.query.contains("alt=sse") {
                respond(200, "text/event-stream", format!("data: {text}\r\n\r\n"))
            } else {
                respond(200, "application/json", text.clone())
            }
        })
        .await
    }

    /// Answers every request with its cost: a token per four bytes.
    pub async fn counting() -> Self {
        Self::with(|asked| {
            let usage = json!({ "usageMetadata": { "totalTokenCount": asked.body.len() / 4 } });
            respond(200, "application/json", usage.to_string())
        })
        .await
    }

    /// Answers every request with a router.
    pub async fn with_router(router: Router) -> Self {
        let seen = Seen::default();
        let router = router.layer(middleware::from_fn_with_state(Arc::clone(&seen), record));
        Self::accepting(seen, move |socket| {
            let service = TowerToHyperService::new(router.clone());
            async move {
                // HTTP/1.1, or HTTP/2 with prior knowledge.
                let http = auto::Builder::new(TokioExecutor::new());
                // An error is a connection that the gateway broke off.
                let served = http.serve_connection(TokioIo::new(socket), service);
                served.await.ok();
            }
        })
        .await
    }

    /// Reads one request per connection, then leaves the socket to `handler`;
    /// the connection ends when it drops the socket.
    pub async fn raw<F, R>(handler: F) -> Self
    where
        F: Fn(ReceivedRequest, TcpStream) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let seen = Seen::default();
        let recorded = Arc::clone(&seen);
        Self::accepting(seen, move |socket| {
            converse(socket, Arc::clone(&recorded), handler.clone())
        })
        .await
    }

    async fn accepting<F, R>(seen: Seen, serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (running, dropped) = until_dropped();
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let accept = async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(socket));
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = accept => (),
                () = dropped => (),
            }
        });
        Self {
            addr,
            seen,
            connections,
            _running: running,
        }
    }

    /// Returns all requests in order.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the only request.
    #[track_caller]
    pub fn only_request(&self) -> ReceivedRequest {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:#?}");
        requests.remove(0)
    }
}

/// Returns a response of a fake upstream.
pub fn respond(status: u16, media_type: &str, body: impl Into<Body>) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, media_type)
        .body(body.into())
        .unwrap()
}

async fn record(State(seen): State<Seen>, request: Request, next: Next) -> Response {
    if request.uri().path() == "/__requests" {
        return next.run(request).await;
    }
    let (mut head, body) = request.into_parts();
    let Ok(body) = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
    else {
        return respond(400, "text/plain", "the body broke off");
    };
    let asked = ReceivedRequest {
        method: head.method.clone(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
        bytes: body.clone(),
    };
    head.extensions.insert(asked.clone());
    seen.lock().unwrap().push(asked);
    next.run(Request::from_parts(head, Body::from(body))).await
}

async fn converse<F, R>(mut socket: TcpStream, seen: Seen, handler: F)
where
    F: Fn(ReceivedRequest, TcpStream) -> R,
    R: Future<Output = ()>,
{
    if let Some(asked) = read_request(&mut socket).await {
        seen.lock().unwrap().push(asked.clone());
        handler(asked, socket).await;
    }
}

/// Reads one request from a socket: its headers, and its body if it has a length.
async fn read_request(socket: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        (socket.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut line = lines.next()?.split(' ');
    let method = line.next()?.parse().ok()?;
    let (path, query) = line
        .next()
        .map(|target| target.split_once('?').unwrap_or((target, "")))?;
    let headers: HeaderMap = lines
        .filter_map(|field| field.split_once(": "))
        .map(|(name, value)| {
            let name: http::HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        })
        .collect();
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.map_or(0, |value| value.to_str().unwrap().parse().unwrap());
    while bytes.len() < end + length {
        (socket.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    let body = Bytes::from(bytes).slice(end..end + length);
    Some(ReceivedRequest {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        bytes: body,
    })
}
