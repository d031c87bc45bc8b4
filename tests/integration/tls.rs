//! TLS on both listeners: handshakes, mutual TLS and certificate reloads.

mod config_check;

use std::{fs, path::Path, time::Duration};

use http::Version;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType, date_time_ymd,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::harness::{
    Agent, End, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, chunked_head, prompt,
    read_to_end, send_and_read, wait_until_closed, write_chunk, write_last_chunk,
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// A certificate authority with a name.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Returns its own certificate in PEM.
    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate. Returns it and its key in PEM.
    pub(super) fn issue(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Issues a server certificate for 127.0.0.1.
    fn server(&self) -> (String, String) {
        let mut params = CertificateParams::default();
        let address = "127.0.0.1".parse().unwrap();
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        self.issue(&params)
    }

    /// Issues a client certificate. Returns it and its key as one text.
    fn agent(&self) -> String {
        let (certificate, key) = self.issue(&of_an_agent());
        certificate + &key
    }
}

/// Returns the certificate of an authority for 127.0.0.1, and its key, in PEM.
pub(super) fn self_signed_authority() -> (String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let address = "127.0.0.1".parse().unwrap();
    params.subject_alt_names = vec![SanType::IpAddress(address)];
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

pub(super) fn of_an_agent() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "ann");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

pub(super) const TLS: &str = "tls: { certificate: server.pem, key: server.key }\n";
pub(super) const MUTUAL: &str =
    "tls: { certificate: server.pem, key: server.key, client_ca: agents.pem }\n";

/// Starts a gateway whose certificate is issued by `authority`, as are those of agents.
pub(super) async fn gate(upstream: &Upstream, authority: &Authority, config: &str) -> TestGateway {
    let (certificate, key) = authority.server();
    let ca = authority.pem();
    let files = [
        ("server.pem", certificate.as_str()),
        ("server.key", &key),
        ("agents.pem", &ca),
    ];
    TestGateway::with_files(upstream, config, &files).await
}

/// Returns true if the agent gets a complete response.
async fn is_served(agent: &Agent) -> bool {
    let body = prompt("hi").to_string();
    let answer = agent.try_open("/v1beta/models/m:generateContent", body);
    match answer.await {
        Ok(answer) => answer.status() == 200 && answer.bytes().await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn both_listeners_support_tls() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let admin = "admin: { listen: \"127.0.0.1:0\", \
         tls: { certificate: server.pem, key: server.key } }\n";
    let gate = gate(&upstream, &authority, &format!("{TLS}{admin}")).await;
    let agent = gate.agent().over_tls(&authority.pem(), None);

    let answer = agent.stream("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200);
    let operator = gate.operator().over_tls(&authority.pem(), None);
    assert_eq!(operator.get("/healthz").await.status, 200);
    let other_authority = Authority::new("theirs");
    let misdirected = gate.agent().over_tls(&other_authority.pem(), None);
    assert!(!is_served(&misdirected).await);
}

#[tokio::test]
async fn plain_http_on_a_tls_listener_is_rejected_and_counted() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, TLS).await;

    let request = b"GET /v1beta/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = send_and_read(gate.agents, request).await;

    assert!(!answer.contains("HTTP/"), "{answer}");
    assert!(upstream.requests().is_empty());
    // The counter follows a little after the end of the connection.
    let line = r#"hookgate_connections_rejected_total{reason="tls_handshake"} 1"#;
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !gate.operator().get("/metrics").await.text().contains(line) {
        assert!(Instant::now() < deadline, "not counted");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stalled_tls_handshake_times_out() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let config = format!("{TLS}timeouts: {{ header: 200ms }}");
    let gate = gate(&upstream, &authority, &config).await;
    let mut silent = TcpStream::connect(gate.agents).await.unwrap();
    let mut slow = TcpStream::connect(gate.agents).await.unwrap();
    // The beginning of a handshake that is never completed.
    slow.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();

    timeout(TEST_TIMEOUT, wait_until_closed(&mut silent))
        .await
        .unwrap();
    timeout(TEST_TIMEOUT, wait_until_closed(&mut slow))
        .await
        .unwrap();

    let agent = gate.agent().over_tls(&authority.pem(), None);
    assert!(is_served(&agent).await);
}

#[tokio::test]
async fn mutual_tls_requires_a_valid_client_certificate() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, MUTUAL).await;
    let ca = authority.pem();
    let with = |identity: &str| gate.agent().over_tls(&ca, Some(identity));
    let mut expired = of_an_agent();
    expired.not_after = date_time_ymd(2020, 1, 1);
    let (expired, expired_key) = authority.issue(&expired);
    let mut of_a_server = of_an_agent();
    of_a_server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let (of_a_server, server_key) = authority.issue(&of_a_server);

    assert!(is_served(&with(&authority.agent())).await);
    assert!(
        !is_served(&gate.agent().over_tls(&ca, None)).await,
        "no certificate"
    );
    let theirs = Authority::new("theirs").agent();
    assert!(!is_served(&with(&theirs)).await, "of another authority");
    let same_name = Authority::new("ours").agent();
    assert!(
        !is_served(&with(&same_name)).await,
        "of another authority with the same name"
    );
    assert!(
        !is_served(&with(&(expired + &expired_key))).await,
        "expired"
    );
    assert!(
        !is_served(&with(&(of_a_server + &server_key))).await,
        "for servers"
    );
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn an_optional_client_certificate_must_be_valid() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let config = MUTUAL.replace(" }", ", client_certificates: optional }");
    let gate = gate(&upstream, &authority, &config).await;
    let ca = authority.pem();

    assert!(is_served(&gate.agent().over_tls(&ca, None)).await);
    let ours = authority.agent();
    assert!(is_served(&gate.agent().over_tls(&ca, Some(&ours))).await);
    let theirs = Authority::new("theirs").agent();
    assert!(!is_served(&gate.agent().over_tls(&ca, Some(&theirs))).await);
}

#[tokio::test]
async fn a_truncated_stream_breaks_over_tls() {
    let authority = Authority::new("ours");
    let upstream = Upstream::raw(|asked, mut socket| async move {
        let head = chunked_head("text/event-stream");
        socket.write_all(head.as_bytes()).await.unwrap();
        write_chunk(&mut socket, b"data: 1\n\n").await.unwrap();
        if asked.body.contains("whole") {
            write_last_chunk(&mut socket).await;
        }
    })
    .await;
    let gate = gate(&upstream, &authority, TLS).await;
    let agent = gate.agent().over_tls(&authority.pem(), None);

    for (text, end) in [("whole", End::Clean), ("half", End::Broken)] {
        let mut answer = agent.open(SSE, prompt(text).to_string()).await;
        assert_eq!(read_to_end(&mut answer).await.1, end, "{text}");
    }
}

/// The binary, with certificate files that a test replaces.
struct ReloadableGateway {
    served: ServerProcess,
    agent: std::net::SocketAddr,
    operator: Agent,
    folder: TempDir,
}

impl ReloadableGateway {
    fn start(upstream: &Upstream, authority: &Authority) -> Self {
        Self::with(upstream, authority, "")
    }

    fn with(upstream: &Upstream, authority: &Authority, more: &str) -> Self {
        let folder = TempDir::new().unwrap();
        write_certificate(folder.path(), &authority.server());
        let config = format!(
            "{TLS}{more}upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = ServerProcess::folder(folder.path());
        Self {
            agent: served.addr(),
            operator: Agent::at(served.operators()),
            served,
            folder,
        }
    }

    fn agent(&self, authority: &Authority) -> Agent {
        Agent::at(self.agent).over_tls(&authority.pem(), None)
    }

    async fn wait_for_metric(&self, line: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !self.operator.get("/metrics").await.text().contains(line) {
            assert!(Instant::now() < deadline, "no {line}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Replaces the files of a certificate and its key.
fn write_certificate(folder: &Path, (certificate, key): &(String, String)) {
    for (name, text) in [("server.key", key), ("server.pem", certificate)] {
        fs::write(folder.join("new"), text).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }
}

#[tokio::test]
async fn the_printed_addresses_have_the_scheme_of_their_listener() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let folder = TempDir::new().unwrap();
    write_certificate(folder.path(), &authority.server());
    let ours = "tls: { certificate: server.pem, key: server.key }";
    for (agents, operators) in [("", ours), (ours, ""), (ours, ours)] {
        let config = format!(
            "{agents}\nadmin: {{ {operators} }}\nupstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = ServerProcess::folder(folder.path());

        for (tls, prefix) in [(agents, "listening on"), (operators, "admin on")] {
            let secure = ["s", ""][usize::from(tls.is_empty())];
            let expected = format!("{prefix} http{secure}://127.0.0.1:");
            let line = served.line();
            assert!(line.starts_with(&expected), "{line}");
        }
    }
}

#[tokio::test]
async fn certificates_are_reloaded_under_load() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let upstream = Upstream::mock().await;
    let gateway = ReloadableGateway::start(&upstream, &old);
    let trusting = gateway.agent(&old);
    assert!(is_served(&trusting).await);
    let busy = trusting.clone();
    let load = tokio::spawn(async move {
        // On kept-alive connections.
        while is_served(&busy).await {
            sleep(Duration::from_millis(1)).await;
        }
    });

    // A certificate that does not match its key changes nothing.
    let (certificate, _) = new.server();
    fs::write(gateway.folder.path().join("server.pem"), certificate).unwrap();
    gateway
        .wait_for_metric("hookgate_config_last_reload_successful 0")
        .await;
    assert!(is_served(&gateway.agent(&old)).await);
    write_certificate(gateway.folder.path(), &new.server());
    gateway
        .wait_for_metric("hookgate_config_last_reload_successful 1")
        .await;

    assert!(is_served(&gateway.agent(&new)).await);
    assert!(!is_served(&gateway.agent(&old)).await);
    assert!(!load.is_finished(), "existing connections continue");
    load.abort();
    gateway.served.terminate();
}

#[tokio::test]
async fn a_reload_changes_no_protocol_of_a_listener() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gateway = ReloadableGateway::with(&upstream, &authority, "limits: { http2_streams: 0 }\n");

    let file = gateway.folder.path().join("hookgate.yaml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        config.replace("http2_streams: 0", "http2_streams: 9"),
    )
    .unwrap();
    let reloaded = gateway.operator.post("/reload", "").await;

    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    let agent = gateway.agent(&authority);
    let answer = agent.open(SSE, prompt("hi").to_string()).await;
    assert_eq!(
        (answer.status().as_u16(), answer.version()),
        (200, Version::HTTP_11)
    );
}

#[tokio::test]
async fn tls_1_0_is_refused_with_an_alert() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, TLS).await;
    // A client hello of TLS 1.0.
    let hello = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x01\
        0123456789abcdef0123456789abcdef\x00\x00\x04\x00\x2f\x00\x35\x01\x00";
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(hello).await.unwrap();

    let mut answer = Vec::new();
    let read = timeout(TEST_TIMEOUT, socket.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();

    assert_eq!(answer.first(), Some(&0x15), "an alert: {answer:?}");
}
