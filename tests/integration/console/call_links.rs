//! Links on the console pages of calls and denials: they lead to what they name, or are absent.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call_page::call_and_page, logged_in, with_users};
use crate::{
    callers::auth,
    harness::{Agent, Browser, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, hook, prompt},
    trace::{calls, until},
};

/// Returns a policy that denies prompts with a word, on line 2 of the config.
fn guard(word: &str) -> String {
    format!("policies:\n  - {{ policy: prompt_guard, name: guard, deny: [{word}] }}\n")
}

/// Makes a call and waits for its record. Returns its id.
async fn ended_call(agent: &Agent, operator: &Agent, text: &str) -> String {
    let answer = agent.generate("m", &prompt(text)).await;
    let id = answer.header("x-hookgate-request-id").to_owned();
    let has_ended = |found: &Value| found["call"].is_object();
    until(operator, &format!("/calls/{id}"), has_ended).await;
    id
}

/// Waits until a page has a text: content is masked and kept shortly after its call has ended.
async fn wait_for_text(browser: &Browser, path: &str, text: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !browser.get(path).await.html.contains(text) {
        assert!(Instant::now() < deadline, "no {text} on {path}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the settings of a model API.
fn upstreams(upstream: &Upstream) -> String {
    format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
        upstream.addr
    )
}

#[tokio::test]
async fn a_line_of_the_config_is_a_link_only_while_the_rule_is_on_it() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hookgate.yaml");
    let config = format!("{}{}", guard("apple"), upstreams(&upstream));
    fs::write(&file, &config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operators = served.operators();
    let (operator, browser) = (Agent::at(operators), Browser::at_address(operators));
    let id = ended_call(&agent, &operator, "an apple").await;
    let pages = [
        format!("/console/calls/{id}"),
        "/console/denials".to_owned(),
    ];

    for page in &pages {
        let html = browser.get(page).await.html;
        assert!(html.contains("config#hookgate.yaml:2"), "{html}");
        assert!(!html.contains("of another config"), "{html}");
    }
    fs::write(&file, format!("# one\n# two\n{config}")).unwrap();
    assert_eq!(operator.post("/reload", "").await.status, 200);

    for page in &pages {
        let html = browser.get(page).await.html;
        assert!(!html.contains("config#hookgate.yaml"), "{html}");
        assert!(html.contains("hookgate.yaml:2"), "{html}");
        assert!(html.contains("of another config"), "{html}");
    }
    let rules = browser.get("/console/rules").await.html;
    assert!(rules.contains("config#hookgate.yaml:4"), "{rules}");
}

#[tokio::test]
async fn a_line_of_the_config_of_a_rollout_is_no_link() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let rest = format!("{}revisions: {{ path: revisions }}\n", upstreams(&upstream));
    let next = format!("{}{rest}", guard("banana"));
    fs::write(folder.path().join("next.yaml"), next).unwrap();
    let rollout = "rollout: { to: next.yaml, percent: 100 }\n";
    let config = format!("{}{rest}{rollout}", guard("apple"));
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    let agent = Agent::at(served.addr());
    let operators = served.operators();
    let (operator, browser) = (Agent::at(operators), Browser::at_address(operators));

    let id = ended_call(&agent, &operator, "a banana").await;

    for page in ["denials", "rules", &format!("calls/{id}")] {
        let html = browser.get(&format!("/console/{page}")).await.html;
        assert!(html.contains("next.yaml:2"), "{page}: {html}");
        assert!(!html.contains("config#next.yaml"), "{page}: {html}");
    }
}

#[tokio::test]
async fn a_session_without_state_links_to_its_calls() {
    let upstream = Upstream::mock().await;
    let callers = auth(&[("team-a", "")]);
    let config = format!("{callers}policies: [{{ policy: redact, detect: [email] }}]\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-key", "team-a-key");

    let path = "/v1beta/models/m:countTokens";
    let answer = agent.post(path, prompt("hello").to_string()).await;
    let id = answer.header("x-hookgate-request-id");
    let (record, page) = call_and_page(&gateway, id).await;

    let found = &record["detail"]["session_match"]["result"];
    assert_eq!(found, "transient", "{record:#}");
    let session = record["session"].as_str().unwrap();
    let key = record["caller_key"].as_str().unwrap();
    let address = format!("/console/sessions/{session}?caller={key}");
    assert!(page.contains(&address), "{address}: {page}");
    let browser = Browser::at(&gateway);
    let redirect = browser.get(&address).await;
    let calls = format!("/console/calls?session={session}&caller={key}");
    assert_eq!(redirect.header("location"), calls);
    let listed = browser.get(&calls).await.html;
    assert_eq!(listed.matches("data-row href").count(), 1, "{listed}");
}

#[tokio::test]
async fn links_to_content_are_for_investigators() {
    let upstream = Upstream::mock().await;
    let content = "trace: { content: { denied_or_edited: true } }\n";
    let gateway = with_users(&upstream, &format!("{content}{}", guard("apple"))).await;
    let answer = gateway.agent().generate("m", &prompt("an apple")).await;
    let id = answer.header("x-hookgate-request-id");
    let investigator = logged_in(&gateway, "ivan").await;
    let page = format!("/console/calls/{id}");
    wait_for_text(&investigator, &page, "Make a test of this").await;

    for (user, is_offered) in [("ivan", true), ("vera", false), ("olga", false)] {
        let browser = logged_in(&gateway, user).await;
        let call = browser.get(&page).await.html;
        let denials = browser.get("/console/denials").await.html;

        assert_eq!(call.contains("/console/try?call="), is_offered, "{user}");
        let link = format!("{page}/test\"");
        assert_eq!(call.contains(&link), is_offered, "{user}: {call}");
        assert_eq!(denials.contains(&link), is_offered, "{user}: {denials}");
    }
}

#[tokio::test]
async fn a_request_over_a_limit_of_its_caller_is_not_called_evicted() {
    let upstream = Upstream::mock().await;
    let config = auth(&[("team-a", ", requests_per_minute: 1")]);
    let gateway = TestGateway::start(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-key", "team-a-key");
    let kept = agent.generate("m", &prompt("hi")).await;
    let refused = agent.generate("m", &prompt("hi")).await;
    assert_eq!((kept.status, refused.status), (200, 429));
    calls(&gateway, "", 1).await;

    let id = refused.header("x-hookgate-request-id");
    let page = Browser::at(&gateway)
        .get(&format!("/console/calls/{id}"))
        .await;

    assert_eq!(page.status, 404);
    let reason = "refused for their credential or a limit of their caller are not kept";
    assert!(page.html.contains(reason), "{}", page.html);
}

#[tokio::test]
async fn the_denials_of_a_hook_with_a_long_command_link_to_its_line() {
    let upstream = Upstream::mock().await;
    let command = format!("true {}; echo no >&2; exit 2", "x".repeat(300));
    let hooks = hook::config(&[("BeforeModel", json!({ "command": command }))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;

    gateway.agent().generate("m", &prompt("hello")).await;
    calls(&gateway, "", 1).await;
    let page = Browser::at(&gateway).get("/console/denials").await.html;

    assert!(page.contains("href=\"/console/config#"), "{page}");
    assert!(!page.contains("of another config"), "{page}");
}
