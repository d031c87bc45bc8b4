//! HTTP client of the gateway, as agents and operators have one.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Version};
use serde_json::{Value, json};

/// A client that may send additional headers with every request.
#[derive(Clone)]
pub struct Agent {
    pub base: String,
    client: reqwest::Client,
    headers: HeaderMap,
}

impl Agent {
    pub fn at(addr: SocketAddr) -> Self {
        Self::at_base(&format!("http://{addr}"))
    }

    /// Returns a client with its own connections.
    pub fn at_base(base: &str) -> Self {
        let client = client().build().unwrap();
        Self {
            base: base.to_owned(),
            client,
            headers: HeaderMap::new(),
        }
    }

    /// Uses TLS: trusts the authority of `ca` and has the client certificate `identity`
    /// (certificate and key); all in PEM.
    pub fn over_tls(mut self, ca: &str, identity: Option<&str>) -> Self {
        let ca = reqwest::Certificate::from_pem(ca.as_bytes()).unwrap();
        let mut client = reqwest::Client::builder().no_proxy().tls_certs_only([ca]);
        if let Some(identity) = identity {
            let identity = reqwest::Identity::from_pem(identity.as_bytes());
            client = client.identity(identity.unwrap());
        }
        self.client = client.build().unwrap();
        self.base = self.base.replace("http://", "https://");
        self
    }

    /// Adds a header to every request.
    pub fn sending(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.headers.insert(name, value);
        self
    }

    /// Connects from this address.
    pub fn from(mut self, address: IpAddr) -> Self {
        self.client = client().local_address(address).build().unwrap();
        self
    }

    /// Uses HTTP/2 with prior knowledge.
    pub fn over_http2(mut self) -> Self {
        let client = client().http2_prior_knowledge();
        self.client = client.build().unwrap();
        self
    }

    /// Calls the method `generateContent` of the Gemini API.
    pub async fn generate(&self, model: &str, body: &Value) -> Answer {
        let path = format!("/v1beta/models/{model}:generateContent");
        self.post(&path, body.to_string()).await
    }

    /// Calls `streamGenerateContent` with server-sent events.
    pub async fn stream(&self, model: &str, body: &Value) -> Answer {
        let path = format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
        self.post(&path, body.to_string()).await
    }

    /// Calls `streamGenerateContent` with a JSON array of chunks.
    pub async fn array(&self, model: &str, body: &Value) -> Answer {
        let path = format!("/v1beta/models/{model}:streamGenerateContent");
        self.post(&path, body.to_string()).await
    }

    /// Reports an event; `query` is such as `explain=1`.
    pub async fn report(&self, event: &Value, query: &str) -> Answer {
        let path = format!("/hookgate/v1/events?{query}");
        self.post(&path, event.to_string()).await
    }

    /// Sends a POST request with this exact body.
    pub async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.open(path, body).await).await
    }

    /// Sends a request with this exact body, or without a body if it is empty.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let method: http::Method = method.parse().unwrap();
        let request = self.client.request(method, format!("{}{path}", self.base));
        let mut request = request.headers(self.headers.clone());
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
            request = request.body(body.to_owned());
        }
        Answer::of(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        let request = self.client.get(format!("{}{path}", self.base));
        let request = request.headers(self.headers.clone());
        Answer::of(request.send().await.unwrap()).await
    }

    /// Returns the value of one series of `/metrics`, such as `hookgate_requests_total{…}`.
    pub async fn metric(&self, series: &str) -> u64 {
        let metrics = self.get("/metrics").await;
        let mut lines = metrics.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {series} in {}", metrics.text()));
        value.parse().unwrap()
    }

    /// Sends a POST request with this exact body. Returns the response before its body.
    pub async fn open(&self, path: &str, body: impl Into<reqwest::Body>) -> reqwest::Response {
        self.try_open(path, body).await.unwrap()
    }

    /// Sends a request like [`Self::open`]. Returns the error of the connection if there is one.
    pub async fn try_open(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<reqwest::Response> {
        let request = self.client.post(format!("{}{path}", self.base));
        let request = request
            .header("content-type", "application/json")
            .headers(self.headers.clone());
        request.body(body).send().await
    }
}

/// A client of HTTP/1.1; of HTTP/2 if `HOOKGATE_HTTP2` is set, so that all tests can be
/// run over it. It has no certificates: loading them takes longer than most tests.
fn client() -> reqwest::ClientBuilder {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
    match std::env::var_os("HOOKGATE_HTTP2") {
        Some(_) => client.http2_prior_knowledge(),
        None => client,
    }
}

/// A response that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub version: Version,
    pub headers: HeaderMap,
    /// The exact bytes of the body.
    pub body: Bytes,
}

impl Answer {
    async fn of(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            version: response.version(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap(),
        }
    }

    /// Returns the exact text of the body.
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed.unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the chunks of a response in server-sent events.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let data = event_data(self.text());
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        data.into_iter().map(parse).collect()
    }

    /// Returns whether the gateway closes the connection after it. HTTP/2 has a frame for that.
    pub fn is_last(&self) -> bool {
        self.version == Version::HTTP_2 || self.header("connection") == "close"
    }

    /// Returns the value of a header, or the empty text.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// Returns the data of each event of a stream in the form that the gateway and the mock
/// write: `data: …\r\n\r\n`, with bare `\r\n` in between.
#[track_caller]
pub fn event_data(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut data = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("\r\n") {
            rest = after;
            continue;
        }
        let event = rest.strip_prefix("data: ");
        let event = event.and_then(|text| text.split_once("\r\n\r\n"));
        let (line, after) = event.unwrap_or_else(|| panic!("not an event: {rest:?}"));
        assert!(!line.contains(['\r', '\n']), "more than one line: {line:?}");
        data.push(line);
        rest = after;
    }
    data
}

/// Returns a Gemini request with one prompt.
pub fn prompt(text: &str) -> Value {
    json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] })
}
