//! TLS on both ports.

use std::{fs, path::Path, time::Duration};

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
    Agent, End, PATIENCE, Served, TestGateway, Upstream, chunked_head, closed, exchange, prompt,
    rest, write_chunk, write_last_chunk,
};

const SSE: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";

/// An authority, with its own name.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Its certificate in PEM.
    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key, in PEM.
    pub(super) fn issue(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A gateway's.
    fn server(&self) -> (String, String) {
        let mut params = CertificateParams::default();
        let address = "127.0.0.1".parse().unwrap();
        params.subject_alt_names = vec![SanType::IpAddress(address)];
        self.issue(&params)
    }

    /// An agent's: certificate and key in one text.
    fn agent(&self) -> String {
        let (certificate, key) = self.issue(&of_an_agent());
        certificate + &key
    }
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

/// A gateway whose certificate is of `authority`, who is the agents' authority,
/// too.
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

/// Whether somebody gets a whole answer.
async fn is_served(agent: &Agent) -> bool {
    let body = prompt("hi").to_string();
    let answer = agent.try_to_open("/v1beta/models/m:generateContent", body);
    match answer.await {
        Ok(answer) => answer.status() == 200 && answer.bytes().await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn agents_and_operators_are_spoken_to_in_tls() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let admin = "admin: { listen: \"127.0.0.1:0\", \
         tls: { certificate: server.pem, key: server.key } }\n";
    let gate = gate(&upstream, &authority, &format!("{TLS}{admin}")).await;
    let agent = gate.agent().over_tls(&authority.pem(), None);

    let answer = agent.stream("m", &prompt("hello")).await;

    assert_eq!(answer.status, 200);
    let operator = gate.operator().over_tls(&authority.pem(), None);
    assert_eq!(operator.get("/healthz").await.status, 200);
    let stranger = Authority::new("theirs");
    let fooled = gate.agent().over_tls(&stranger.pem(), None);
    assert!(!is_served(&fooled).await);
}

#[tokio::test]
async fn plain_text_is_no_tls() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, TLS).await;

    let request = b"GET /v1beta/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = exchange(gate.agents, request).await;

    assert!(!answer.contains("HTTP/"), "{answer}");
    assert!(upstream.seen().is_empty());
    // It is counted a little after the connection is closed.
    let line = r#"hookgate_connections_rejected_total{reason="tls_handshake"} 1"#;
    let deadline = Instant::now() + PATIENCE;
    while !gate.operator().get("/metrics").await.text().contains(line) {
        assert!(Instant::now() < deadline, "not counted");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_ends() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let config = format!("{TLS}timeouts: {{ header: 200ms }}");
    let gate = gate(&upstream, &authority, &config).await;
    let mut silent = TcpStream::connect(gate.agents).await.unwrap();
    let mut slow = TcpStream::connect(gate.agents).await.unwrap();
    // The head of a handshake whose rest does not come.
    slow.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();

    timeout(PATIENCE, closed(&mut silent)).await.unwrap();
    timeout(PATIENCE, closed(&mut slow)).await.unwrap();

    let agent = gate.agent().over_tls(&authority.pem(), None);
    assert!(is_served(&agent).await);
}

#[tokio::test]
async fn only_agents_with_a_certificate_of_ours_get_in() {
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
    assert!(!is_served(&gate.agent().over_tls(&ca, None)).await, "none");
    let theirs = Authority::new("theirs").agent();
    assert!(!is_served(&with(&theirs)).await, "of another authority");
    let same_name = Authority::new("ours").agent();
    assert!(!is_served(&with(&same_name)).await, "of a namesake");
    assert!(
        !is_served(&with(&(expired + &expired_key))).await,
        "expired"
    );
    assert!(
        !is_served(&with(&(of_a_server + &server_key))).await,
        "for servers"
    );
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_certificate_may_be_optional_but_not_wrong() {
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
async fn a_stream_that_breaks_off_breaks_in_tls_too() {
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
        assert_eq!(rest(&mut answer).await.1, end, "{text}");
    }
}

/// The real binary, whose files change.
struct Reloaded {
    served: Served,
    agent: std::net::SocketAddr,
    operator: Agent,
    folder: TempDir,
}

impl Reloaded {
    fn start(upstream: &Upstream, authority: &Authority) -> Self {
        let folder = TempDir::new().unwrap();
        place(folder.path(), &authority.server());
        let config = format!(
            "{TLS}upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = Served::folder(folder.path());
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

    async fn counts(&self, line: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.operator.get("/metrics").await.text().contains(line) {
            assert!(Instant::now() < deadline, "no {line}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Puts a certificate and its key in place.
fn place(folder: &Path, (certificate, key): &(String, String)) {
    for (name, text) in [("server.key", key), ("server.pem", certificate)] {
        fs::write(folder.join("new"), text).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }
}

#[tokio::test]
async fn what_is_printed_says_how_each_port_is_spoken_to() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let folder = TempDir::new().unwrap();
    place(folder.path(), &authority.server());
    let ours = "tls: { certificate: server.pem, key: server.key }";
    for (agents, operators) in [("", ours), (ours, ""), (ours, ours)] {
        let config = format!(
            "{agents}\nadmin: {{ {operators} }}\nupstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let mut served = Served::folder(folder.path());

        for (tls, says) in [(agents, "listening on"), (operators, "admin on")] {
            let secure = ["s", ""][usize::from(tls.is_empty())];
            let expected = format!("{says} http{secure}://127.0.0.1:");
            let line = served.line();
            assert!(line.starts_with(&expected), "{line}");
        }
    }
}

#[tokio::test]
async fn certificates_change_under_load() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let upstream = Upstream::mock().await;
    let gateway = Reloaded::start(&upstream, &old);
    let trusting = gateway.agent(&old);
    assert!(is_served(&trusting).await);
    let busy = trusting.clone();
    let load = tokio::spawn(async move {
        // On connections that it keeps.
        while is_served(&busy).await {
            sleep(Duration::from_millis(1)).await;
        }
    });

    // A pair that does not fit changes nothing.
    let (certificate, _) = new.server();
    fs::write(gateway.folder.path().join("server.pem"), certificate).unwrap();
    gateway
        .counts("hookgate_config_last_reload_successful 0")
        .await;
    assert!(is_served(&gateway.agent(&old)).await);
    place(gateway.folder.path(), &new.server());
    gateway
        .counts("hookgate_config_last_reload_successful 1")
        .await;

    assert!(is_served(&gateway.agent(&new)).await);
    assert!(!is_served(&gateway.agent(&old)).await);
    assert!(!load.is_finished(), "old connections go on");
    load.abort();
    gateway.served.terminate();
}

#[tokio::test]
async fn what_cannot_be_tls_is_a_bad_config() {
    let authority = Authority::new("ours");
    let (certificate, key) = authority.server();
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("server.pem", certificate.as_str()),
        ("server.key", &key),
        ("other.key", &authority.server().1),
        ("agents.pem", &authority.pem()),
        ("empty.pem", ""),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let cases = [
        ("certificate: server.pem, key: server.key", None),
        (
            "certificate: server.pem, key: other.key",
            Some("2:38: the key does not match the certificate"),
        ),
        (
            "certificate: no.pem, key: server.key",
            Some("the certificate cannot be read"),
        ),
        (
            "certificate: empty.pem, key: server.key",
            Some("2:21: the file contains no certificate"),
        ),
        (
            "certificate: server.pem, key: server.pem",
            Some("the file contains no private key"),
        ),
        (
            "certificate: server.pem, key: server.key, client_ca: empty.pem",
            Some("no certificate"),
        ),
        (
            "certificate: server.pem, key: server.key, client_certificates: optional",
            Some("needs a `client_ca`"),
        ),
        ("certificate: server.pem", Some("key")),
    ];
    for (tls, wrong) in cases {
        let config =
            format!("upstreams: {{ gemini: {{ url: \"http://x\" }} }}\ntls: {{ {tls} }}\n");
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

        let (code, _, stderr) = crate::harness::run(&["check", "hookgate.yaml"], folder.path());

        match wrong {
            None => assert_eq!(code, 0, "{stderr}"),
            Some(wrong) => {
                assert_eq!(code, 78, "{tls}: {stderr}");
                assert!(stderr.contains(wrong), "{tls}: {stderr}");
            }
        }
    }
}

#[test]
fn an_expired_certificate_is_a_warning() {
    let authority = Authority::new("ours");
    let (now, past, future) = (
        CertificateParams::default(),
        date_time_ymd(2020, 1, 1),
        date_time_ymd(2200, 1, 1),
    );
    let (mut expired, mut early) = (now.clone(), now.clone());
    expired.not_after = past;
    early.not_before = future;
    early.not_after = date_time_ymd(2201, 1, 1);
    for (params, said) in [
        (now, ""),
        (expired, "has expired"),
        (early, "is not valid yet"),
    ] {
        let folder = TempDir::new().unwrap();
        place(folder.path(), &authority.issue(&params));
        let config = format!("upstreams: {{ gemini: {{ url: \"https://x\" }} }}\n{TLS}");
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();

        let (code, _, stderr) = crate::harness::run(&["check", "hookgate.yaml"], folder.path());

        assert_eq!(code, 0, "{stderr}");
        let place = "warning: hookgate.yaml:2:21: the certificate";
        assert_eq!(stderr.contains(place), !said.is_empty(), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[tokio::test]
async fn another_protocol_in_tls_is_refused() {
    let (upstream, authority) = (Upstream::mock().await, Authority::new("ours"));
    let gate = gate(&upstream, &authority, TLS).await;
    // A client hello of TLS 1.0.
    let hello = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x01\
        0123456789abcdef0123456789abcdef\x00\x00\x04\x00\x2f\x00\x35\x01\x00";
    let mut socket = TcpStream::connect(gate.agents).await.unwrap();
    socket.write_all(hello).await.unwrap();

    let mut answer = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();

    assert_eq!(answer.first(), Some(&0x15), "an alert: {answer:?}");
}
