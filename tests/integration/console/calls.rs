//! Console pages of calls: list, live tail, timeline, content, denials, and tests generated from
//! denials.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{logged_in, with_users};
use crate::{
    callers::auth,
    harness::{
        Agent, Browser, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, hook, hookgate,
        next_chunk, prompt, run,
    },
};

/// Waits until the list of calls has this many rows, and returns the page.
pub(super) async fn wait_for_rows(browser: &Browser, query: &str, rows: usize) -> String {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let page = browser.get(&format!("/console/calls{query}")).await.html;
        if page.matches("data-row href").count() == rows {
            return page;
        }
        assert!(Instant::now() < deadline, "no {rows} rows in {page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts a model API that returns these answers in order.
pub(super) async fn upstream_with_answers(answers: &[Value]) -> Upstream {
    let lines = answers
        .iter()
        .map(|answer| json!({ "method": "generateContent", "response": answer }).to_string());
    Upstream::scripted(&lines.collect::<Vec<String>>().join("\n")).await
}

pub(super) fn text_answer(text: &str) -> Value {
    json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": text }] },
        "finishReason": "STOP",
    }] })
}

pub(super) fn tool_call_answer(tool: &str, arguments: &Value) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": [
        { "functionCall": { "name": tool, "args": arguments } }] }, "finishReason": "STOP", "index": 0 }] })
}

const GUARDS: &str = r#"
trace: { content: { denied_or_edited: true, reasons: true } }
hooks:
  BeforeTool:
    - { matcher: run_shell_command, hooks: [{ name: no shell, command: "echo not allowed here >&2; exit 2" }] }
    - { matcher: write_file, hooks: [{ name: writes, command: "exit 0" }] }
    - { matcher: ".*", hooks: [{ name: look, command: "exit 0" }, { name: never, command: "exit 0", when: 'tool.name == "other"' }] }
"#;

#[tokio::test]
async fn the_timeline_of_a_denied_tool_call_lists_every_hook() {
    let upstream = upstream_with_answers(&[
        tool_call_answer("run_shell_command", &json!({ "command": "ls" })),
        text_answer("ok"),
    ])
    .await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;
    let browser = Browser::at(&gateway);

    let answer = gateway.agent().generate("m", &prompt("list files")).await;
    wait_for_rows(&browser, "?verdict=deny", 1).await;
    let id = answer.header("x-hookgate-request-id");
    let page = browser.get(&format!("/console/calls/{id}")).await.html;

    for name in ["no shell", "writes", "look", "never"] {
        assert!(
            page.contains(&format!(">{name}</a>")),
            "no {name} in {page}"
        );
    }
    assert!(page.contains("not run"), "{page}");
    assert!(
        page.contains("hookgate.yaml:"),
        "the line of the config: {page}"
    );
    assert!(page.contains("round 2"), "{page}");
}

#[tokio::test]
async fn a_filter_is_kept_in_links_and_an_unknown_filter_is_reported() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[(
        "BeforeModel",
        hook::command(
            "guard",
            "grep -q secret && { echo no >&2; exit 2; }; exit 0",
        ),
    )]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent();
    agent.generate("m", &prompt("hello")).await;
    agent.generate("m", &prompt("a secret")).await;
    agent.generate("m", &prompt("another secret")).await;
    wait_for_rows(&browser, "", 3).await;

    let denied = wait_for_rows(&browser, "?q=verdict:deny+rule:guard", 2).await;
    let wrong = browser.get("/console/calls?q=nonsense:1").await;

    assert!(
        denied.contains("?verdict=deny&amp;rule=guard\""),
        "{denied}"
    );
    assert!(
        denied.contains("value=\"verdict:deny rule:guard\""),
        "{denied}"
    );
    assert!(denied.contains("2 of 3 calls"), "{denied}");
    assert_eq!(wrong.status, 200);
    assert!(
        wrong.html.contains("unknown filter <code>nonsense</code>"),
        "{}",
        wrong.html
    );
    let (_, row) = denied.split_once("data-row href=\"").unwrap();
    let address = row.split_once('"').unwrap().0.replace("&amp;", "&");
    let page = browser.get(&address).await.html;
    assert!(
        page.contains(">Older</a>"),
        "the next call that matches the filter: {page}"
    );
    assert!(!page.contains(">Newer</a>"), "{page}");
}

#[tokio::test]
async fn the_json_of_pages_of_calls_has_their_filter_and_cursor() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: prompt_guard, deny: [aurora] }]\n";
    let gateway = TestGateway::start(&upstream, policy).await;
    let answer = gateway.agent().generate("m", &prompt("aurora")).await;
    let id = answer.header("x-hookgate-request-id");
    let browser = Browser::at(&gateway);
    wait_for_rows(&browser, "", 1).await;
    let list = gateway.operator().get("/calls").await.json();
    let older = format!("?verdict=deny&cursor={}", list["last_seq"]);

    for (path, query) in [
        ("/calls".to_owned(), "?verdict=deny"),
        ("/calls".to_owned(), &older),
        (format!("/calls/{id}"), "?verdict=deny"),
    ] {
        let page = browser.get(&format!("/console{path}{query}")).await.html;
        let query = query.replace('&', "&amp;");
        let link = format!("<a href=\"{path}{query}\">JSON</a>");
        assert!(page.contains(&link), "{link}: {page}");
    }
}

#[tokio::test]
async fn the_live_tail_has_the_calls_that_match_the_filter() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[(
        "BeforeModel",
        hook::command(
            "guard",
            "grep -q secret && { echo no >&2; exit 2; }; exit 0",
        ),
    )]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let agent = gateway.agent();
    let mut stream = Browser::at(&gateway)
        .open("/console/calls/stream?verdict=deny")
        .await;
    assert_eq!(stream.headers()["content-type"], "text/event-stream");

    agent.generate("m", &prompt("hello")).await;
    let denied = agent.generate("m", &prompt("a secret")).await;

    let events = next_chunk(&mut stream).await;
    let (position, data) = events.split_once("\nevent: calls\ndata: ").unwrap();
    assert!(position.starts_with("id: "), "{events}");
    let rows: Value = serde_json::from_str(data.trim_end()).unwrap();
    let id = denied.header("x-hookgate-request-id");
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows:#}");
    assert_eq!(rows[0]["href"], format!("/console/calls/{id}?verdict=deny"));
    assert_eq!(rows[0]["cells"][2], "guard");
}

#[tokio::test]
async fn the_live_tail_of_a_page_begins_behind_its_calls() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent();
    let start = gateway.operator().get("/calls").await.json();
    let start = start["last_seq"].as_u64().unwrap();
    agent.generate("m", &prompt("hello")).await;
    wait_for_rows(&browser, "", 1).await;
    let page = browser.get("/console/calls?q=caller:ci").await.html;
    agent.generate("m", &prompt("meanwhile")).await;
    let (_, tail) = page.split_once("data-live=\"").unwrap();
    let (address, tail) = tail.split_once("\" data-after=\"").unwrap();
    let position = tail.split_once('"').unwrap().0;

    let path = format!("/console/calls/stream?&after={position}");
    let mut stream = browser.open(&path).await;
    let events = next_chunk(&mut stream).await;

    assert_eq!(address, "/console/calls/stream?caller=ci");
    assert_eq!(position, (start + 1).to_string());
    let begin = format!("id: {}\nevent: calls", start + 2);
    assert!(events.starts_with(&begin), "{events}");
    assert_eq!(events.matches("\"href\"").count(), 1, "{events}");
}

#[tokio::test]
async fn text_from_agents_and_models_is_html_escaped() {
    let hostile = "<script>alert(1)</script>\u{202e}\"'";
    let call = tool_call_answer(hostile, &json!({ hostile: hostile }));
    let upstream = upstream_with_answers(&[call, text_answer(hostile)]).await;
    let config = "trace: { content: { sample: 1.0, reasons: true } }\n".to_owned()
        + &hook::config(&[(
            "BeforeTool",
            hook::printing("guard", &json!({ "decision": "deny", "reason": hostile })),
        )]);
    let gateway = TestGateway::start(&upstream, &config).await;
    let browser = Browser::at(&gateway);
    let agent = gateway
        .agent()
        .sending("user-agent", "<img src=x onerror=alert(1)>");
    let answer = agent.generate("m", &prompt(hostile)).await;
    wait_for_rows(&browser, "", 1).await;
    let id = answer.header("x-hookgate-request-id");

    for path in [
        "/console/".to_owned(),
        "/console/calls".to_owned(),
        format!("/console/calls/{id}?content=1"),
        format!("/console/calls/{id}/test"),
        "/console/denials".to_owned(),
        "/console/sessions".to_owned(),
        format!("/console/try?call={id}"),
        "/console/calls?q=%3Cscript%3Ealert(1)".to_owned(),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(
            !page.html.contains("<script>alert"),
            "{path}: {}",
            page.html
        );
        assert!(!page.html.contains("<img"), "{path}: {}", page.html);
        assert!(!page.html.contains('\u{202e}'), "{path}: {}", page.html);
    }
    let content = browser
        .get(&format!("/console/calls/{id}?content=1"))
        .await
        .html;
    assert!(
        content.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u202e"),
        "{content}"
    );
}

#[tokio::test]
async fn content_is_shown_to_investigators_and_every_view_is_logged() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "audit: {{ path: audit.jsonl }}\ntrace: {{ content: {{ denied_or_edited: true }} }}\n{}",
        hook::config(&[("BeforeModel", hook::denying("guard", "no"))])
    );
    let gateway = with_users(&upstream, &config).await;
    let (viewer, investigator) = (
        logged_in(&gateway, "vera").await,
        logged_in(&gateway, "ivan").await,
    );
    let answer = gateway
        .agent()
        .generate("m", &prompt("an apple a day"))
        .await;
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&viewer, "", 1).await;
    let path = format!("/console/calls/{id}?content=1");

    let refused = viewer.get(&path).await;
    let without_content = investigator.get(&format!("/console/calls/{id}")).await;
    let deadline = Instant::now() + TEST_TIMEOUT;
    let shown = loop {
        let shown = investigator.get(&path).await;
        if shown.html.contains("an apple a day") || Instant::now() > deadline {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };

    assert_eq!(refused.status, 403);
    assert!(!refused.html.contains("apple"));
    assert!(
        !without_content.html.contains("apple"),
        "content is shown on request only"
    );
    assert!(shown.html.contains("an apple a day"), "{}", shown.html);
    let (path, folder) = (
        gateway.path("audit.jsonl"),
        gateway.stop_and_keep_files().await,
    );
    let log = std::fs::read_to_string(path).unwrap();
    drop(folder);
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let views: Vec<Value> = lines.filter(|line| line["kind"] == "viewed").collect();
    assert!(!views.is_empty(), "{log}");
    for view in views {
        assert_eq!(
            (&view["by"], &view["request"]),
            (&json!("ivan"), &json!(id))
        );
    }
}

#[tokio::test]
async fn a_link_of_another_site_views_no_content() {
    let upstream = Upstream::mock().await;
    let config = format!(
        "audit: {{ path: audit.jsonl }}\ntrace: {{ content: {{ denied_or_edited: true }} }}\n{}",
        hook::config(&[("BeforeModel", hook::denying("guard", "no"))])
    );
    let gateway = with_users(&upstream, &config).await;
    let investigator = gateway.operator();
    let investigator = investigator.sending("authorization", "Bearer ivan-token");
    let answer = gateway.agent().generate("m", &prompt("an apple")).await;
    let id = answer.header("x-hookgate-request-id");
    let own = format!("/calls/{id}/content?reason=own");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while investigator.get(&own).await.status != 200 {
        assert!(Instant::now() < deadline, "no content is kept");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    for site in ["cross-site", "same-site"] {
        let link = investigator.clone().sending("sec-fetch-site", site);
        let link = link.sending("sec-fetch-mode", "navigate");
        let link = link.sending("sec-fetch-dest", "document");
        for path in [
            format!("/calls/{id}/content?reason=chosen"),
            format!("/console/calls/{id}?content=1"),
            format!("/console/calls/{id}/test"),
            format!("/console/try?call={id}"),
        ] {
            let answer = link.get(&path).await;
            assert!(!answer.text().contains("apple"), "{site} {path}");
        }
    }

    let path = gateway.path("audit.jsonl");
    let _folder = gateway.stop_and_keep_files().await;
    let log = std::fs::read_to_string(path).unwrap();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let views: Vec<Value> = lines.filter(|line| line["kind"] == "viewed").collect();
    let reasons: Vec<&Value> = views.iter().map(|view| &view["because"]).collect();
    assert_eq!(reasons, [&json!("own")]);
}

#[tokio::test]
async fn a_test_generated_from_a_denial_passes_unchanged() {
    let upstream = upstream_with_answers(&[
        tool_call_answer("run_shell_command", &json!({ "command": "ls" })),
        text_answer("ok"),
    ])
    .await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;
    std::fs::write(gateway.path("hookgate.yaml"), GUARDS).unwrap();
    let browser = Browser::at(&gateway);
    gateway.agent().generate("m", &prompt("list files")).await;
    wait_for_rows(&browser, "?verdict=deny", 1).await;

    let deadline = Instant::now() + TEST_TIMEOUT;
    let address = loop {
        let page = browser.get("/console/denials").await.html;
        if let Some((before, _)) = page.split_once("\">Make a test of this") {
            break before.rsplit_once('"').unwrap().1.to_owned();
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let yaml = generated_test(&browser, &address).await;
    std::fs::write(gateway.path("denial.yaml"), &yaml).unwrap();

    let file = gateway.path("denial.yaml");
    let (code, out, _) = run(&["test", "denial.yaml"], file.parent().unwrap());

    assert_eq!(code, 0, "{out}\n{yaml}");
    assert!(out.contains("ok 1"), "{out}");
}

#[tokio::test]
async fn a_test_generated_from_a_call_has_its_caller_and_agent() {
    let upstream = Upstream::mock().await;
    // The SHA-256 of `team-a-key`.
    let config = "auth: { keys: [{ name: ci, sha256: 554a0d05033791f46fede07b724fa246c95235f60a9fb74caad37d1408b4df58 }] }
trace: { content: { denied_or_edited: true } }
policies:
  - { policy: prompt_guard, deny: [aurora], when: 'caller.name == \"ci\" && caller.agent == \"tool/1\"' }
";
    let gateway = TestGateway::start(&upstream, config).await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent().sending("x-hookgate-key", "team-a-key");
    let agent = agent.sending("user-agent", "tool/1");
    let answer = agent.generate("m", &prompt("aurora")).await;
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?verdict=deny", 1).await;

    let yaml = generated_test(&browser, &format!("/console/calls/{id}/test")).await;

    assert!(yaml.contains("x-goog-api-key: ci"), "{yaml}");
    assert!(yaml.contains("user-agent: tool/1"), "{yaml}");
}

#[tokio::test]
async fn a_generated_test_holds_invisible_characters_of_the_prompt() {
    let upstream = Upstream::mock().await;
    let config = "\
trace: { content: { denied_or_edited: true } }
policies: [{ policy: prompt_guard, deny: ['[\\x{202A}-\\x{202E}]'] }]
";
    let gateway = TestGateway::start(&upstream, config).await;
    std::fs::write(gateway.path("hookgate.yaml"), config).unwrap();
    let browser = Browser::at(&gateway);
    let agent = gateway.agent();
    let answer = agent.generate("m", &prompt("open \u{202e}fdp.exe")).await;
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?verdict=deny", 1).await;

    let yaml = generated_test(&browser, &format!("/console/calls/{id}/test")).await;
    std::fs::write(gateway.path("denial.yaml"), &yaml).unwrap();
    let file = gateway.path("denial.yaml");
    let (code, out, _) = run(&["test", "denial.yaml"], file.parent().unwrap());

    assert!(yaml.contains(r"\u202efdp.exe"), "{yaml}");
    assert_eq!(code, 0, "{out}\n{yaml}");
}

#[tokio::test]
async fn a_repeated_denial_is_shown_and_tested_as_one() {
    let upstream = Upstream::mock().await;
    let config = "\
trace: { content: { denied_or_edited: true } }
policies: [{ policy: prompt_guard, deny: [aurora] }]
";
    let gateway = TestGateway::start(&upstream, config).await;
    std::fs::write(gateway.path("hookgate.yaml"), config).unwrap();
    let browser = Browser::at(&gateway);
    let agent = gateway.agent();
    agent.generate("m", &prompt("aurora")).await;
    let repeated = agent.generate("m", &prompt("aurora")).await;
    let id = repeated.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?verdict=deny", 2).await;

    let page = browser.get(&format!("/console/calls/{id}")).await.html;
    let yaml = generated_test(&browser, &format!("/console/calls/{id}/test")).await;
    std::fs::write(gateway.path("denial.yaml"), &yaml).unwrap();
    let file = gateway.path("denial.yaml");
    let (code, out, _) = run(&["test", "denial.yaml"], file.parent().unwrap());

    assert_eq!(repeated.header("x-hookgate-action"), "deny");
    let is_named = page.contains("decided <strong>deny</strong>");
    let is_repeated = page.contains("of an earlier call in this session was applied again");
    assert!(is_named || is_repeated, "{page}");
    assert_eq!(code, 0, "{out}\n{yaml}");
}

#[tokio::test]
async fn a_test_of_masked_content_names_the_labels() {
    let upstream = Upstream::mock().await;
    let config = "\
trace: { content: { denied_or_edited: true } }
policies: [{ policy: redact, detect: [email], action: deny }]
";
    let gateway = TestGateway::start(&upstream, config).await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent();
    let answer = agent.generate("m", &prompt("mail bob@example.com")).await;
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?verdict=deny", 1).await;
    let address = format!("/console/calls/{id}/test");
    generated_test(&browser, &address).await;

    let page = browser.get(&address).await.html;

    assert!(
        page.contains("put examples in the place of the labels"),
        "{page}"
    );
}

#[tokio::test]
async fn a_test_of_a_limit_of_the_session_has_a_note() {
    let upstream = Upstream::mock().await;
    let config = "\
trace: { content: { denied_or_edited: true } }
policies: [{ policy: request_limits, max_calls: 1 }]
";
    let gateway = TestGateway::start(&upstream, config).await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent().sending("x-hookgate-session", "s");
    agent.generate("m", &prompt("hello")).await;
    let answer = agent.generate("m", &prompt("again")).await;
    assert_eq!(answer.header("x-hookgate-action"), "deny");
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?verdict=deny", 1).await;
    let address = format!("/console/calls/{id}/test");
    generated_test(&browser, &address).await;

    let page = browser.get(&address).await.html;

    assert!(page.contains("<code>max_calls</code>"), "{page}");
}

/// Waits until the content of a call is kept, and returns the test of its page.
pub(super) async fn generated_test(browser: &Browser, address: &str) -> String {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let page = browser.get(address).await.html;
        if page.contains("<pre tabindex") {
            return test_file(&page);
        }
        assert!(Instant::now() < deadline, "no test in {page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the first test on a page, without HTML escapes.
pub(super) fn test_file(page: &str) -> String {
    let (_, yaml) = page.split_once("<pre tabindex=\"0\">").unwrap();
    let yaml = yaml.split_once("</pre>").unwrap().0;
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(yaml.to_owned(), |text, (escaped, char)| {
        text.replace(escaped, char)
    })
}

#[tokio::test]
async fn the_denials_page_predicts_whether_a_generated_test_passes() {
    let by_name = "policies: [{ policy: tool_guard, name: guard, allow: [read_file] }]\n";
    let by_argument = "policies: [{ policy: tool_guard, name: guard, allow: [run_shell_command], \
        rules: [{ tool: run_shell_command, argument: /command, commands: [ls], optional: true }] }]\n";
    let by_second = "policies: [{ policy: tool_guard, deny: [read_file] }, { policy: tool_guard, deny: [run_shell_command] }]\n";
    let by_hook = "hooks: { BeforeTool: [{ hooks: [{ name: guard, command: \"grep -q 'rm -rf' || exit 0; exit 2\" }] }] }\n";
    for (config, note, passes) in [
        (by_name, "the test passes as it is", true),
        (by_second, "the test passes as it is", true),
        (by_argument, "This test does not pass as it is", false),
        (by_hook, "only if the hook decides by the tool", false),
    ] {
        let upstream = upstream_with_answers(&[
            tool_call_answer("run_shell_command", &json!({ "command": "rm -rf /" })),
            text_answer("ok"),
        ])
        .await;
        let gateway = TestGateway::start(&upstream, config).await;
        std::fs::write(gateway.path("hookgate.yaml"), config).unwrap();
        let browser = Browser::at(&gateway);
        gateway.agent().generate("m", &prompt("delete")).await;
        wait_for_rows(&browser, "?verdict=deny", 1).await;

        let page = browser.get("/console/denials").await.html;

        assert!(page.contains(note), "{config}: {page}");
        std::fs::write(gateway.path("denial.yaml"), test_file(&page)).unwrap();
        let file = gateway.path("denial.yaml");
        let (code, out, _) = run(&["test", "denial.yaml"], file.parent().unwrap());
        assert_eq!(code == 0, passes, "{config}: {out}");
    }
}

#[tokio::test]
async fn a_test_names_no_config_if_the_gateway_has_no_config_file() {
    let upstream = upstream_with_answers(&[
        tool_call_answer("run_shell_command", &json!({ "command": "ls" })),
        text_answer("ok"),
    ])
    .await;
    let folder = tempfile::TempDir::new().unwrap();
    let settings = json!({ "hooks": { "BeforeTool": [{ "hooks": [
        { "type": "command", "name": "guard", "command": "exit 2" },
    ] }] } });
    std::fs::write(folder.path().join("settings.json"), settings.to_string()).unwrap();
    let url = format!("http://{}", upstream.addr);
    let mut command = hookgate(&["serve", "--upstream", &url, "--hooks", "settings.json"]);
    command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    command.current_dir(folder.path());
    let mut served = ServerProcess::start(command);
    let agent = Agent::at(served.addr());
    let operator = Agent::at(served.operators());
    agent.generate("m", &prompt("list files")).await;

    let deadline = Instant::now() + TEST_TIMEOUT;
    let page = loop {
        let page = operator.get("/console/denials").await.text().to_owned();
        if page.contains("<pre tabindex") {
            break page;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };

    assert!(page.contains("has no config file"), "{page}");
    let yaml = test_file(&page);
    assert!(yaml.starts_with("cases:"), "{yaml}");
    let yaml = format!("hook_files: [{{ path: settings.json }}]\n{yaml}");
    std::fs::write(folder.path().join("denial.yaml"), yaml).unwrap();
    let (code, out, _) = run(&["test", "denial.yaml"], folder.path());
    assert_eq!(code, 0, "{out}");
}

#[tokio::test]
async fn only_investigators_see_reasons_of_hooks() {
    let upstream = Upstream::mock().await;
    let guard = hook::command("guard", "echo a private text >&2; exit 2");
    let config = "trace: { content: { reasons: true } }\n\
                  policies: [{ policy: prompt_guard, deny: [aurora], reason: not aurora }]\n"
        .to_owned()
        + &hook::config(&[("BeforeModel", guard)]);
    let gateway = with_users(&upstream, &config).await;
    let (viewer, investigator) = (
        logged_in(&gateway, "vera").await,
        logged_in(&gateway, "ivan").await,
    );
    gateway.agent().generate("m", &prompt("about aurora")).await;
    let answer = gateway.agent().generate("m", &prompt("hello")).await;
    wait_for_rows(&viewer, "", 2).await;
    let id = answer.header("x-hookgate-request-id");

    for (path, has_policy) in [
        ("/calls".to_owned(), true),
        ("/denials".to_owned(), true),
        ("/console/denials".to_owned(), true),
        (format!("/calls/{id}"), false),
        (format!("/console/calls/{id}"), false),
    ] {
        let (seen, all) = (viewer.get(&path).await, investigator.get(&path).await);
        assert!(
            !seen.html.contains("a private text"),
            "{path}: {}",
            seen.html
        );
        assert!(seen.html.contains("sha256"), "{path}: {}", seen.html);
        assert_eq!(seen.html.contains("not aurora"), has_policy, "{path}");
        assert!(all.html.contains("a private text"), "{path}: {}", all.html);
    }
    for (browser, has_reason) in [(viewer, false), (investigator, true)] {
        let mut tail = browser.open("/calls/stream?after=0").await;
        let mut text = String::new();
        while !text.contains(id) {
            text += &next_chunk(&mut tail).await;
        }
        assert_eq!(text.contains("a private text"), has_reason, "{text}");
    }
}

#[tokio::test]
async fn a_session_of_one_caller_is_shown_and_watched_without_those_of_others() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("BeforeModel", hook::command("look", "true"))]);
    let gateway = TestGateway::start(&upstream, &config).await;
    let ask = async |key: &str| {
        let agent = gateway.agent().sending("x-goog-api-key", key);
        let agent = agent.sending("x-hookgate-session", "shared");
        let answer = agent.generate("m", &prompt("hello")).await;
        answer.header("x-hookgate-request-id").to_owned()
    };
    ask("k1").await;
    ask("k2").await;
    let browser = Browser::at(&gateway);
    wait_for_rows(&browser, "?session=shared", 2).await;
    let sessions = gateway.operator().get("/sessions").await.json();
    let key = sessions["sessions"][1]["caller"].as_str().unwrap();

    let address = format!("/console/sessions/shared?caller={key}");
    let page = browser.get(&address).await.html;
    let csrf = browser.csrf(&address).await;
    let fields = [
        ("csrf", &*csrf),
        ("caller", key),
        ("minutes", "5"),
        ("reason", "ticket 7"),
    ];
    let path = "/console/sessions/shared/watch";
    let watched = browser.post(path, &fields).await;
    let other = ask("k2").await;
    let own = ask("k1").await;

    let calls = format!("href=\"/console/calls?session=shared&amp;caller={key}\">Calls of");
    assert!(page.contains(&calls), "{page}");
    assert!(
        page.contains(&format!("name=\"caller\" value=\"{key}\"")),
        "{page}"
    );
    wait_for_rows(&browser, &format!("?session=shared&caller={key}"), 2).await;
    assert_eq!(watched.header("location"), address);
    let content = async |id: &str| browser.get(&format!("/calls/{id}/content")).await.status;
    let deadline = Instant::now() + TEST_TIMEOUT;
    while content(&own).await != 200 {
        assert!(Instant::now() < deadline, "no content is kept");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(content(&other).await, 404);
    for (caller, is_shown) in [
        (key, true),
        (sessions["sessions"][0]["caller"].as_str().unwrap(), false),
    ] {
        let page = browser
            .get(&format!("/console/sessions/shared?caller={caller}"))
            .await
            .html;
        assert_eq!(page.contains("ticket 7"), is_shown, "{page}");
    }
}

#[tokio::test]
async fn the_session_of_an_agent_without_a_credential_is_linked_and_watched_as_such() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("BeforeModel", hook::command("look", "true"))]);
    let gateway = TestGateway::start(&upstream, &config).await;
    let without_key = gateway.agent().sending("x-hookgate-session", "main");
    let with_key = without_key.clone().sending("x-goog-api-key", "k1");
    let without_key = without_key.sending("user-agent", "AgentA");
    let with_key = with_key.sending("user-agent", "AgentB");
    let mut calls = Vec::new();
    for agent in [&without_key, &with_key] {
        let answer = agent.generate("m", &prompt("hello")).await;
        calls.push(answer.header("x-hookgate-request-id").to_owned());
    }
    let browser = Browser::at(&gateway);
    wait_for_rows(&browser, "?session=main", 2).await;

    let list = browser.get("/console/sessions").await.html;
    for (call, own, other) in [
        (&calls[0], "<dd>AgentA</dd>", "AgentB"),
        (&calls[1], "<dd>AgentB</dd>", "AgentA"),
    ] {
        let page = browser.get(&format!("/console/calls/{call}")).await.html;
        let (_, link) = page.split_once("href=\"/console/sessions/main?").unwrap();
        let (query, _) = link.split_once('"').unwrap();
        let address = format!("/console/sessions/main?{query}");
        let session = browser.get(&address).await.html;
        assert!(
            session.contains(own) && !session.contains(other),
            "{session}"
        );
    }

    assert!(
        list.contains("href=\"/console/sessions/main?caller=\""),
        "{list}"
    );
    let address = "/console/sessions/main?caller=";
    let csrf = browser.csrf(address).await;
    let fields = [
        ("csrf", &*csrf),
        ("caller", ""),
        ("minutes", "5"),
        ("reason", "ticket 7"),
    ];
    let watched = browser.post("/console/sessions/main/watch", &fields).await;
    assert_eq!(watched.header("location"), address);
    assert!(browser.get(address).await.html.contains("ticket 7"));
}

#[tokio::test]
async fn watching_a_session_requires_the_investigator_role_and_a_reason() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("BeforeModel", hook::command("look", "true"))]);
    let gateway = with_users(&upstream, &config).await;
    let (viewer, investigator) = (
        logged_in(&gateway, "vera").await,
        logged_in(&gateway, "ivan").await,
    );
    let agent = gateway.agent().sending("x-hookgate-session", "my-session");
    agent.generate("m", &prompt("before the watch")).await;
    let path = "/console/sessions/my-session/watch";
    let fields = |csrf, reason| [("csrf", csrf), ("minutes", "15"), ("reason", reason)];
    let (viewer_csrf, investigator_csrf) = (
        viewer.csrf("/console/").await,
        investigator.csrf("/console/").await,
    );

    let refused = viewer.post(path, &fields(&viewer_csrf, "curious")).await;
    let without_reason = investigator
        .post(path, &fields(&investigator_csrf, " "))
        .await;
    let watched = investigator
        .post(path, &fields(&investigator_csrf, "ticket 7"))
        .await;
    let answer = agent.generate("m", &prompt("after the watch")).await;

    assert_eq!((refused.status, without_reason.status), (403, 400));
    assert_eq!(watched.header("location"), "/console/sessions/my-session");
    let session = investigator.get("/console/sessions/my-session").await.html;
    assert!(session.contains("kept</span> until 2"), "{session}");
    assert!(session.contains(" for ivan: ticket 7"), "{session}");
    let id = answer.header("x-hookgate-request-id");
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let page = investigator
            .get(&format!("/console/calls/{id}?content=1"))
            .await
            .html;
        if page.contains("after the watch") {
            break;
        }
        assert!(Instant::now() < deadline, "{page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let investigator_api = gateway
        .operator()
        .sending("authorization", "Bearer ivan-token");
    let calls = investigator_api.get("/calls").await.text().to_owned();
    assert!(!calls.contains("before the watch"), "{calls}");
}

#[tokio::test]
async fn a_test_of_a_call_with_many_rounds_names_the_answers_that_it_lacks() {
    let call = |number: u8| tool_call_answer("run_shell_command", &json!({ "command": number }));
    let answers = [call(1), call(2), call(3), text_answer("ok")];
    let upstream = upstream_with_answers(&answers).await;
    let gateway = TestGateway::start(&upstream, GUARDS).await;
    let browser = Browser::at(&gateway);
    let answer = gateway.agent().generate("m", &prompt("list files")).await;
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?verdict=deny", 1).await;
    let address = format!("/console/calls/{id}/test");
    generated_test(&browser, &address).await;

    let test = browser.get(&address).await.html;
    let trial = browser.get(&format!("/console/try?call={id}")).await.html;

    let record = gateway.operator().get(&format!("/calls/{id}")).await.json();
    let rounds = record["call"]["rounds"].as_u64().unwrap();
    assert!(rounds > 2, "{record:#}");
    let note = format!("of {rounds} answers of the model API");
    for page in [test, trial] {
        assert!(page.contains(&note), "{note}: {page}");
    }
}

#[tokio::test]
async fn denials_by_caller_count_callers_that_a_group_does_not_list() {
    let upstream = Upstream::mock().await;
    let names: Vec<String> = (0..18).map(|number| format!("caller-{number}")).collect();
    let callers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let config = auth(&callers) + "policies: [{ policy: prompt_guard, deny: [aurora] }]\n";
    let gateway = TestGateway::start(&upstream, &config).await;
    for name in &names {
        let agent = gateway
            .agent()
            .sending("x-hookgate-key", format!("{name}-key"));
        agent.generate("m", &prompt("aurora")).await;
    }

    let page = Browser::at(&gateway).get("/console/denials").await.html;

    let (_, list) = page.split_once("Denials by caller").unwrap();
    let (list, _) = list.split_once("</ul>").unwrap();
    assert_eq!(list.matches(" × 1").count(), 16, "{list}");
    assert!(list.contains("<li>others × 2</li>"), "{list}");
    let of_list = "?caller=caller-0&amp;verdict=deny\"";
    assert!(list.contains(of_list), "{list}");
    let of_group = "?caller=caller-0&amp;rule=prompt_guard\"";
    assert!(page.contains(of_group), "{page}");
}

#[tokio::test]
async fn denials_show_callers_without_a_name_by_their_keys() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: prompt_guard, deny: [aurora] }]\n";
    let gateway = TestGateway::start(&upstream, policy).await;
    let agent = gateway.agent();
    let with_key = |key: &str| gateway.agent().sending("x-goog-api-key", key);
    for agent in [agent, with_key("k1"), with_key("k2")] {
        agent.generate("m", &prompt("aurora")).await;
    }
    let browser = Browser::at(&gateway);
    wait_for_rows(&browser, "", 3).await;

    let calls = gateway.operator().get("/calls").await.json();
    let denials = gateway.operator().get("/denials").await.json();
    let page = browser.get("/console/denials").await.html;

    let calls = calls["calls"].as_array().unwrap();
    let keys = calls.iter().map(|call| call["caller_key"].as_str());
    let keys: BTreeSet<&str> = keys.map(Option::unwrap).collect();
    assert_eq!(keys.len(), 3, "{calls:#?}");
    let expected: Value = keys.iter().map(|key| (*key, 1)).collect();
    assert_eq!(denials["groups"][0]["callers"], expected, "{denials:#}");
    for key in keys {
        let name = if key.is_empty() {
            "without authentication"
        } else {
            key
        };
        let query = format!("?caller={key}&verdict=deny");
        let address = format!("/console/calls{query}").replace('&', "&amp;");
        let link = format!("<a href=\"{address}\">{name}</a> × 1");
        assert!(page.contains(&link), "{link}: {page}");
        wait_for_rows(&browser, &query, 1).await;
    }
}

#[tokio::test]
async fn calls_of_a_session_without_a_credential_exclude_those_of_callers() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[("BeforeModel", hook::command("look", "true"))]);
    let gateway = TestGateway::start(&upstream, &config).await;
    let without_key = gateway.agent().sending("x-hookgate-session", "main");
    let with_key = without_key.clone().sending("x-goog-api-key", "k1");
    for agent in [without_key, with_key] {
        agent.generate("m", &prompt("hello")).await;
    }
    let browser = Browser::at(&gateway);
    wait_for_rows(&browser, "?session=main", 2).await;

    let session = browser.get("/console/sessions/main?caller=").await.html;
    let own = browser
        .get("/console/calls?session=main&caller=")
        .await
        .html;
    let in_words = browser
        .get("/console/calls?q=session:main+caller:")
        .await
        .html;

    let link = "href=\"/console/calls?session=main&amp;caller=\"";
    assert!(session.contains(link), "{session}");
    for page in [own, in_words] {
        assert_eq!(page.matches("data-row href").count(), 1, "{page}");
    }
}

#[tokio::test]
async fn a_session_that_has_ended_leads_to_its_calls() {
    let upstream = Upstream::mock().await;
    let config = "sessions: { idle: 1s }\npolicies: [{ policy: prompt_guard, deny: [aurora] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent().sending("x-hookgate-session", "main");
    let answer = agent.generate("m", &prompt("hello")).await;
    let id = answer.header("x-hookgate-request-id");
    wait_for_rows(&browser, "?session=main", 1).await;
    let page = browser.get(&format!("/console/calls/{id}")).await.html;
    let (_, link) = page.split_once("href=\"/console/sessions/main?").unwrap();
    let address = format!("/console/sessions/main?{}", link.split_once('"').unwrap().0);

    let deadline = Instant::now() + TEST_TIMEOUT;
    let ended = loop {
        let page = browser.get(&address).await;
        if page.status != 200 {
            break page;
        }
        assert!(Instant::now() < deadline, "the session does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    assert_eq!(ended.status, 303, "{}", ended.html);
    let calls = browser.get(ended.header("location")).await.html;
    assert_eq!(calls.matches("data-row href").count(), 1, "{calls}");
}

#[tokio::test]
async fn the_names_of_a_watch_are_bounded() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let investigator = logged_in(&gateway, "ivan").await;
    let csrf = investigator.csrf("/console/").await;
    let watch = async |session: &str, caller: &str| {
        let fields = [
            ("csrf", csrf.as_str()),
            ("caller", caller),
            ("minutes", "15"),
            ("reason", "ticket 7"),
        ];
        let path = format!("/console/sessions/{session}/watch");
        investigator.post(&path, &fields).await.status
    };

    assert_eq!(watch("s", &"a".repeat(256)).await, 303);
    assert_eq!(watch("s", &"a".repeat(257)).await, 400);
    assert_eq!(watch(&"s".repeat(257), "").await, 400);
}
