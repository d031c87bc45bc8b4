//! Cross-origin requests and DNS rebinding from browsers on this machine.

use crate::harness::{Agent, TestGateway, Upstream, assert_refused, prompt, send_and_read};

const GENERATE: &str = "/v1beta/models/m:generateContent";

#[tokio::test]
async fn cross_origin_requests_are_refused_on_both_listeners() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let cross_origin_headers = [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];

    for (name, value) in cross_origin_headers {
        let agent = gate.agent().sending(name, value);
        let refused = [
            agent.post(GENERATE, prompt("hi").to_string()).await,
            agent.post("/hookgate/v1/events", "{}").await,
            agent.get("/v1beta/models").await,
            gate.operator().sending(name, value).get("/hooks").await,
            gate.operator()
                .sending(name, value)
                .post("/reload", "")
                .await,
        ];
        for answer in refused {
            assert_refused(&answer, 403, "FOREIGN_ORIGIN");
        }
    }
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn same_origin_and_configured_origins_are_allowed() {
    let upstream = Upstream::mock().await;
    let config = "browsers: { origins: [\"https://console.example\"] }";
    let gate = TestGateway::start(&upstream, config).await;
    let own = format!("http://{}", gate.operators);

    for (origin, site) in [
        (own.as_str(), "same-origin"),
        ("https://console.example", "same-site"),
    ] {
        let operator = gate.operator().sending("origin", origin);
        let operator = operator.sending("sec-fetch-site", site);
        assert_eq!(operator.get("/hooks").await.status, 200, "{origin}");
    }
    let agent = gate.agent().sending("origin", "https://console.example");
    assert_eq!(agent.generate("m", &prompt("hi")).await.status, 200);
    let operator = gate.operator().sending("sec-fetch-site", "same-origin");
    assert_eq!(operator.get("/hooks").await.status, 200);
}

#[tokio::test]
async fn an_origin_with_another_scheme_is_refused_unless_it_is_that_of_a_proxy() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let with_tls = format!("https://{}", gate.operators);
    let operator = gate.operator().sending("origin", &with_tls);

    for site in ["cross-site", "same-site"] {
        let other = operator.clone().sending("sec-fetch-site", site);
        assert_refused(&other.get("/hooks").await, 403, "FOREIGN_ORIGIN");
    }
    // A proxy for TLS forwards `Host`.
    let proxied = operator.sending("sec-fetch-site", "same-origin");
    assert_eq!(proxied.get("/hooks").await.status, 200);
}

/// Sends a GET of `path` with this `host` header; returns the raw response.
async fn get_with_host(agent: &Agent, path: &str, host: &str) -> String {
    let addr = agent.base.strip_prefix("http://").unwrap().parse().unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    send_and_read(addr, request.as_bytes()).await
}

#[tokio::test]
async fn dns_rebinding_through_unknown_host_names_is_refused() {
    let upstream = Upstream::mock().await;
    let config = "browsers: { hosts: [Gateway.example] }";
    let gate = TestGateway::start(&upstream, config).await;
    let listeners = [
        (gate.agent(), "/v1beta/models"),
        (gate.operator(), "/hooks"),
    ];

    for (agent, path) in listeners {
        for host in [
            "evil.example",
            "evil.example:8787",
            "127.0.0.1.evil.example",
            "evil.localhost",
            "@",
            "",
        ] {
            let answer = get_with_host(&agent, path, host).await;
            assert!(answer.starts_with("HTTP/1.1 40"), "{host}: {answer}");
            assert!(!answer.contains("\"models\""), "{host}: {answer}");
        }
        for host in [
            "localhost",
            "LOCALHOST:1",
            "hookgate.localhost:8788",
            "127.0.0.1",
            "[::1]:8787",
            "10.0.0.7",
            "gateway.example:80",
        ] {
            let answer = get_with_host(&agent, path, host).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
        }
    }
}

#[tokio::test]
async fn the_admin_port_refuses_a_second_host_and_a_malformed_one() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;
    let heads = [
        ("http://evil.example/hooks", "host: localhost\r\n", 400),
        ("http://localhost/hooks", "host: localhost\r\n", 400),
        ("/hooks", "host: localhost\r\nhost: evil.example\r\n", 400),
        ("/hooks", "", 400),
        ("/hooks", "host: localhost:evil.example\r\n", 403),
        ("/hooks", "host: evil.example@localhost\r\n", 403),
        ("/hooks", "host: localhost@localhost\r\n", 403),
        ("/hooks", "host: localhost:\r\n", 200),
        ("/hooks", "host: localhost:8788\r\n", 200),
    ];

    for (target, lines, status) in heads {
        let request = format!("GET {target} HTTP/1.1\r\n{lines}connection: close\r\n\r\n");
        let answer = send_and_read(gate.operators, request.as_bytes()).await;

        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{target} {lines}: {answer}");
    }
}

#[tokio::test]
async fn both_ports_refuse_a_host_that_differs_from_the_authority() {
    let upstream = Upstream::mock().await;
    let gate = TestGateway::start(&upstream, "").await;

    for (agent, path) in [
        (gate.agent(), "/v1beta/models"),
        (gate.operator(), "/hooks"),
    ] {
        let agent = agent.over_http2();
        let refused = agent.clone().sending("host", "localhost").get(path).await;

        assert_refused(&refused, 400, "INVALID_HEADERS");
        assert_eq!(agent.get(path).await.status, 200, "{path}");
    }
}
