//! Access that ends: live tails and logins of users whose credential is no longer valid.

use std::{fs, time::Duration};

use reqwest::Response;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::harness::{Agent, Browser, ServerProcess, Upstream, prompt};

const VERA: &str = "{ name: vera, token: { file: vera }, roles: [viewer] }";
const INVESTIGATOR: &str = "{ name: vera, token: { file: vera }, roles: [investigator] }";
const OLGA: &str = "{ name: olga, token: { file: olga }, roles: [operator] }";

/// A gateway that keeps the reasons of denials, and whose users change.
struct Gateway {
    folder: TempDir,
    upstream: Upstream,
    _served: ServerProcess,
    agent: Agent,
    operator: Agent,
    browser: Browser,
}

impl Gateway {
    /// Starts a gateway with these settings of `admin`.
    async fn start(settings: &str) -> Self {
        let upstream = Upstream::mock().await;
        let folder = TempDir::new().unwrap();
        write_config(&folder, &upstream, settings);
        write_token(&folder, "vera-token");
        fs::write(folder.path().join("olga"), "olga-token").unwrap();
        let mut served = ServerProcess::folder(folder.path());
        let agent = Agent::at(served.addr());
        let operators = served.operators();
        let operator = Agent::at(operators).sending("authorization", "Bearer olga-token");
        Self {
            folder,
            upstream,
            _served: served,
            agent,
            operator,
            browser: Browser::at_address(operators),
        }
    }

    /// Reloads the config with these settings of `admin`.
    async fn reload(&self, settings: &str) {
        write_config(&self.folder, &self.upstream, settings);
        assert_eq!(self.operator.post("/reload", "").await.status, 200);
    }

    /// Returns a browser in which vera is logged in.
    async fn logged_in(&self) -> Browser {
        let mut browser = self.browser.clone();
        assert_eq!(browser.log_in("vera-token", "").await.status, 303);
        browser
    }

    /// Opens a live tail with vera's bearer token.
    async fn tail(&self) -> Response {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
        let request = client.build().unwrap();
        let request = request.get(format!("{}/calls/stream", self.operator.base));
        let request = request.header("authorization", "Bearer vera-token");
        opened(request.send().await.unwrap())
    }

    /// Makes a denied call and returns its request id.
    async fn denied_call(&self) -> String {
        let answer = self.agent.generate("m", &prompt("hello")).await;
        answer.header("x-hookgate-request-id").to_owned()
    }
}

fn write_config(folder: &TempDir, upstream: &Upstream, settings: &str) {
    let config = format!(
        "admin: {{ {settings} }}\n\
         upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n\
         trace: {{ content: {{ reasons: true }} }}\n\
         hooks: {{ BeforeModel: [{{ hooks: [{{ name: words, command: \"echo reason-text >&2; exit 2\" }}] }}] }}\n",
        upstream.addr
    );
    let file = folder.path().join("hookgate.yaml");
    // Replaced at once, because the gateway also notices the change by itself.
    fs::write(folder.path().join("new.yaml"), config).unwrap();
    fs::rename(folder.path().join("new.yaml"), file).unwrap();
}

fn write_token(folder: &TempDir, token: &str) {
    fs::write(folder.path().join("new"), token).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("vera")).unwrap();
}

/// Returns a live tail that is open.
fn opened(tail: Response) -> Response {
    assert_eq!(tail.status(), 200);
    tail
}

/// Reads a live tail up to its end or the call with this id.
async fn read(tail: &mut Response, id: &str) -> (String, bool) {
    let mut text = String::new();
    while !text.contains(id) {
        let piece = timeout(Duration::from_secs(5), tail.chunk()).await;
        let piece = piece.unwrap_or_else(|_| panic!("neither a call nor an end: {text}"));
        let Some(piece) = piece.unwrap() else {
            return (text, true);
        };
        text.push_str(str::from_utf8(&piece).unwrap());
    }
    (text, false)
}

#[tokio::test]
async fn live_tails_of_a_removed_user_end() {
    let gateway = Gateway::start(&format!("users: [{VERA}, {OLGA}]")).await;
    let browser = gateway.logged_in().await;
    let mut tails = vec![
        gateway.tail().await,
        opened(browser.open("/calls/stream").await),
        opened(browser.open("/console/calls/stream").await),
    ];
    let first = gateway.denied_call().await;
    for tail in &mut tails {
        let (text, has_ended) = read(tail, &first).await;
        assert!(!has_ended, "{text}");
    }

    gateway.reload(&format!("users: [{OLGA}]")).await;
    let second = gateway.denied_call().await;

    for mut tail in tails {
        let (text, has_ended) = read(&mut tail, &second).await;
        assert!(has_ended, "{text}");
    }
}

#[tokio::test]
async fn a_live_tail_ends_at_logout_and_when_the_login_expires() {
    let gateway = Gateway::start(&format!("users: [{VERA}, {OLGA}]")).await;
    let browser = gateway.logged_in().await;
    let mut tail = opened(browser.open("/calls/stream").await);

    let csrf = browser.csrf("/console/").await;
    browser.post("/console/logout", &[("csrf", &csrf)]).await;
    let (_, has_ended) = read(&mut tail, "event: call").await;
    assert!(has_ended);

    let users = format!("login: {{ lifetime: 12h, idle: 2s }}, users: [{VERA}, {OLGA}]");
    gateway.reload(&users).await;
    let browser = gateway.logged_in().await;
    let mut tail = opened(browser.open("/calls/stream").await);
    let (_, has_ended) = read(&mut tail, "event: call").await;
    assert!(has_ended);
    assert_eq!(browser.get("/calls").await.status, 401);
}

#[tokio::test]
async fn a_demoted_investigator_reads_no_further_reasons_in_an_open_live_tail() {
    let gateway = Gateway::start(&format!("users: [{INVESTIGATOR}, {OLGA}]")).await;
    let mut tail = gateway.tail().await;
    let (text, _) = read(&mut tail, &gateway.denied_call().await).await;
    assert!(text.contains("reason-text"), "{text}");

    gateway.reload(&format!("users: [{VERA}, {OLGA}]")).await;

    let (text, has_ended) = read(&mut tail, &gateway.denied_call().await).await;
    assert!(!has_ended && !text.contains("reason-text"), "{text}");
}

#[tokio::test]
async fn a_login_that_has_ended_does_not_come_back() {
    let users = format!("users: [{VERA}, {OLGA}]");
    let gateway = Gateway::start(&users).await;
    let browser = gateway.logged_in().await;
    let other = gateway.logged_in().await;
    let status = async |browser: &Browser| browser.get("/calls").await.status;
    assert_eq!(status(&browser).await, 200);

    write_token(&gateway.folder, "another-token");
    gateway.reload(&users).await;
    assert_eq!(status(&browser).await, 401);
    write_token(&gateway.folder, "vera-token");
    gateway.reload(&users).await;
    assert_eq!(status(&browser).await, 401);
    assert_eq!(
        status(&other).await,
        401,
        "a login without a refused request"
    );

    let browser = gateway.logged_in().await;
    gateway.reload(&format!("users: [{OLGA}]")).await;
    gateway.reload(&users).await;
    assert_eq!(status(&browser).await, 401);
}

#[tokio::test]
async fn the_scheme_of_a_bearer_token_is_case_insensitive() {
    let gateway = Gateway::start(&format!("users: [{VERA}, {OLGA}]")).await;
    for (value, status) in [
        ("bearer vera-token", 200),
        ("BEARER  vera-token", 200),
        ("Basic vera-token", 401),
        ("vera-token", 401),
        ("bearervera-token", 401),
        ("bearer", 401),
    ] {
        let agent = Agent::at_base(&gateway.operator.base).sending("authorization", value);
        assert_eq!(agent.get("/calls").await.status, status, "{value}");
    }
}
