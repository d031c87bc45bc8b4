//! Console pages about the gateway's state, and their JSON.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{logged_in, with_users};
use crate::harness::{
    Agent, Browser, ServerProcess, TEST_TIMEOUT, TestGateway, Upstream, closed_port, hook, prompt,
};

const PAGES: [(&str, &str); 10] = [
    ("/console/", "Overview"),
    ("/console/calls", "Calls"),
    ("/console/sessions", "Sessions"),
    ("/console/denials", "Denials"),
    ("/console/rules", "Policies and hooks"),
    ("/console/coverage", "Coverage"),
    ("/console/config", "Config"),
    ("/console/changes", "Changes"),
    ("/console/fleet", "Fleet"),
    ("/console/try", "Try it"),
];

#[tokio::test]
async fn pages_have_a_notice_while_the_trace_is_off() {
    let upstream = Upstream::mock().await;
    for (config, is_off) in [("", false), ("trace: { exchanges: 0 }\n", true)] {
        let gateway = TestGateway::start(&upstream, config).await;
        let browser = Browser::at(&gateway);
        for path in ["/console/", "/console/rules", "/console/denials"] {
            let page = browser.get(path).await.html;
            assert_eq!(page.contains("The trace is off"), is_off, "{path}: {page}");
        }
    }
}

#[tokio::test]
async fn every_page_renders_without_traffic_and_without_inline_scripts() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let browser = logged_in(&gateway, "vera").await;

    for (path, title) in PAGES {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.html);
        assert!(page.html.contains(&format!("<h1>{title}</h1>")), "{path}");
        let current = format!("<a href=\"{path}\" aria-current=\"page\">");
        assert!(page.html.contains(&current), "{path}: {}", page.html);
        assert!(!page.html.contains("<script>"), "{path}");
        assert!(!page.html.contains(" style="), "{path}");
        assert!(!page.html.contains("javascript:"), "{path}");
    }
}

#[tokio::test]
async fn json_endpoints_of_the_pages_are_in_the_openapi_document() {
    let upstream = Upstream::mock().await;
    let gateway = with_users(&upstream, "").await;
    let operator = gateway
        .operator()
        .sending("authorization", "Bearer vera-token");
    let document = hookgate::api::openapi::yaml().unwrap();

    for path in [
        "/overview",
        "/calls",
        "/sessions",
        "/denials",
        "/rules",
        "/coverage",
        "/coverage/unknown",
        "/config",
    ] {
        let answer = operator.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json();
        assert!(document.contains(&format!("\n  {path}:\n")), "{path}");
    }
    assert!(document.contains("\n  /try:\n") && document.contains("\n  /config/diff:\n"));
}

#[tokio::test]
async fn the_coverage_counts_calls_and_refused_paths() {
    let upstream = Upstream::mock().await;
    let gateway = TestGateway::start(&upstream, "").await;
    let agent = gateway.agent();

    agent.generate("m", &prompt("hello")).await;
    agent.generate("m", &prompt("hello")).await;
    agent.get("/v1beta/made-up?key=s3cret").await;

    let rows = gateway.operator().get("/coverage").await.json();
    let calls = |name: &str, api: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == name && row["api"] == api);
        row.unwrap()["calls_last_day"].as_u64().unwrap()
    };
    let generated: u64 = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["api"] == "gemini" && row["name"] == "models.generateContent")
        .map(|row| row["calls_last_day"].as_u64().unwrap())
        .sum();
    assert_eq!(generated, 2, "{rows:#}");
    assert_eq!(calls("models.countTokens", "gemini"), 0);
    let unknown = gateway.operator().get("/coverage/unknown").await.json();
    assert_eq!(unknown[0]["path"], "GET /v1beta/made-up");
    assert_eq!(unknown[0]["requests"], 1);
    let page = Browser::at(&gateway).get("/console/coverage").await;
    assert!(page.html.contains("GET /v1beta/made-up"), "{}", page.html);
    assert!(!page.html.contains("s3cret"));
}

#[tokio::test]
async fn fields_that_pass_uninspected_are_marked_and_have_no_count() {
    let upstream = Upstream::mock().await;
    let config = "upstreams: { anthropic: { url: \"{upstream}\" } }\n\
         coverage: { allow: [messages.files] }\n";
    let gateway = TestGateway::start(&upstream, config).await;

    let rows = gateway.operator().get("/coverage").await.json();
    let page = Browser::at(&gateway).get("/console/coverage").await.html;

    let rows = rows.as_array().unwrap();
    let has_count = |row: &Value| row["calls_last_day"].is_u64();
    assert!(rows.iter().any(has_count));
    assert!(
        rows.iter()
            .all(|row| has_count(row) != row["field"].is_string()),
        "{rows:#?}"
    );
    let (_, fields) = page.split_once("Fields of requests</h2>").unwrap();
    let (_, fields) = fields.split_once("<tbody>").unwrap();
    let (first, others) = fields.split_once("</tr>").unwrap();
    let row = "<tr class=\"warning\"><th scope=\"row\">messages.files</th>";
    assert!(first.starts_with(row), "{first}");
    assert!(first.contains("not inspected"), "{first}");
    assert!(!first.contains("class=\"number\""), "{first}");
    let (others, _) = others.split_once("</table>").unwrap();
    assert!(!others.contains("not inspected"), "{others}");
}

#[tokio::test]
async fn the_overview_lists_problems_with_links_to_their_pages() {
    let upstream = Upstream::mock().await;
    let mut broken = hook::command("broken", "exit 3");
    broken["on_failure"] = json!("open");
    let hooks = hook::config(&[
        ("BeforeModel", broken),
        ("BeforeModel", hook::denying("guard", "no")),
    ]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    gateway.agent().generate("m", &prompt("hello")).await;

    let page = Browser::at(&gateway).get("/console/").await.html;
    let overview = gateway.operator().get("/overview").await.json();
    let config = gateway.operator().get("/config").await.json();

    assert!(
        page.contains("href=\"/console/denials#rule=guard\">guard</a> × 1"),
        "{page}"
    );
    let denials = Browser::at(&gateway).get("/console/denials").await.html;
    assert!(denials.contains("<h2 id=\"rule=guard\">"), "{denials}");
    assert!(page.contains("fails open"), "{page}");
    assert!(page.contains("href=\"/console/config\""), "{page}");
    assert_eq!(overview["guards_without_proof"], json!([]));
    assert!(page.contains("Every guard that fails closed has a proof."));
    let open = overview["guards_failing_open"].as_array().unwrap();
    let names: Vec<&Value> = open.iter().map(|guard| &guard["hook"]).collect();
    assert_eq!(names, ["broken", "guard"]);
    let warnings = config["warnings"].as_array().unwrap();
    let open = warnings.iter().filter_map(Value::as_str);
    assert_eq!(open.filter(|text| text.contains("fails open")).count(), 2);
    assert_eq!(overview["config"]["warnings"], warnings.len());
    assert_eq!(overview["session_store"]["kind"], "memory");
    assert_eq!(
        overview["upstreams"][0],
        json!({ "name": "gemini", "circuit_open": false })
    );
}

#[tokio::test]
async fn only_hooks_that_can_deny_are_shown_as_failing_open() {
    let upstream = Upstream::mock().await;
    let groups = json!([{ "hooks": [{ "type": "command", "command": "true" }] }]);
    let settings = json!({ "hooks": {
        "BeforeTool": groups, "AfterModel": groups, "SessionEnd": groups, "Notification": groups,
    } });
    let settings = settings.to_string();
    let files = [("settings.json", &*settings)];
    let config = "hook_files: [{ path: settings.json }]\n";
    let gateway = TestGateway::with_files(&upstream, config, &files).await;

    let rules = gateway.operator().get("/rules").await.json();

    let rules = rules.as_array().unwrap().iter();
    let open = rules.filter(|rule| {
        let remarks = rule["remarks"].as_array().unwrap();
        remarks.contains(&json!("fails_open"))
    });
    let events = open.flat_map(|rule| rule["events"].as_array().unwrap());
    let events: BTreeSet<&str> = events.filter_map(Value::as_str).collect();
    assert_eq!(events, BTreeSet::from(["AfterModel", "BeforeTool"]));
}

#[tokio::test]
async fn warnings_of_the_config_have_no_secrets_of_commands() {
    let upstream = Upstream::mock().await;
    let command = "echo AKIAIOSFODNN7EXAMPLE";
    let hooks = hook::config(&[("BeforeModel", json!({ "command": command }))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;

    let config = gateway.operator().get("/config").await;

    let warnings = config.json()["warnings"].to_string();
    assert!(warnings.contains("fails open"), "{warnings}");
    assert!(
        !config.text().contains("AKIAIOSFODNN7EXAMPLE"),
        "{}",
        config.text()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn problems_of_a_refused_config_have_no_secrets() {
    let (upstream, folder) = (Upstream::mock().await, TempDir::new().unwrap());
    let file = folder.path().join("hookgate.yaml");
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
        upstream.addr
    );
    fs::write(&file, &config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operators = served.operators();
    let operator = Agent::at(operators);
    // The secret is where the name of its variable belongs.
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let config = format!("{config}admin: {{ token: {{ env: {secret} }} }}\n");
    fs::write(&file, config).unwrap();

    let reload = operator.post("/reload", "").await;
    let config = operator.get("/config").await;
    let page = Browser::at_address(operators).get("/console/config").await;

    assert_eq!(reload.status, 400, "{}", reload.text());
    for shown in [config.text(), &page.html] {
        assert!(shown.contains("is not set"), "{shown}");
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn guards_that_fail_closed_without_a_proof_are_counted() {
    let upstream = Upstream::mock().await;
    let closed = |name: &str| {
        let mut guard = hook::command(name, "true");
        guard["on_failure"] = json!("closed");
        guard
    };
    let mut proven = hook::denying("proven", "no");
    proven["on_failure"] = json!("closed");
    proven["must_deny"] = json!([{ "tool_call": { "name": "shell", "args": {} } }]);
    let hooks = hook::config(&[("BeforeModel", closed("bare")), ("BeforeTool", proven)]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    gateway.agent().generate("m", &prompt("hello")).await;

    let page = Browser::at(&gateway).get("/console/").await.html;
    let rules_page = Browser::at(&gateway).get("/console/rules").await.html;
    let overview = gateway.operator().get("/overview").await.json();
    let rules = gateway.operator().get("/rules").await.json();

    assert!(page.contains("without a proof × 1"), "{page}");
    assert!(rules_page.contains("without a proof"), "{rules_page}");
    let guards = overview["guards_without_proof"].as_array().unwrap();
    assert_eq!(guards.len(), 1, "{overview:#}");
    assert_eq!(
        (&guards[0]["event"], &guards[0]["hook"]),
        (&json!("BeforeModel"), &json!("bare"))
    );
    for (rule, expected) in [("bare", true), ("proven", false)] {
        let mut rules = rules.as_array().unwrap().iter();
        let found = rules.find(|found| found["name"] == rule).unwrap();
        let remarks = found["remarks"].as_array().unwrap();
        assert_eq!(
            remarks.contains(&json!("without_proof")),
            expected,
            "{found:#}"
        );
    }
    let trace = &overview["trace"];
    assert_eq!(trace["records"], 1, "{overview:#}");
    assert!(
        trace["bytes"].as_u64() < trace["max_bytes"].as_u64(),
        "{overview:#}"
    );
    assert!(overview.get("replicas").is_none(), "{overview:#}");
}

#[tokio::test]
async fn a_session_has_the_tools_and_tokens_of_its_kept_calls() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[(
        "BeforeTool",
        hook::command("guard", "grep -q force && exit 2; exit 0"),
    )]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let agent = gateway.agent().sending("x-hookgate-session", "my-session");
    agent.generate("m", &prompt("hello")).await;
    gateway
        .agent()
        .generate("m", &prompt("of another session"))
        .await;
    for command in ["ls", "rm --force", "rm --force"] {
        let event = json!({
            "hook_event_name": "BeforeTool", "session_id": "my-session", "tool_name": "shell",
            "tool_input": { "command": command },
        });
        gateway.agent().report(&event, "wait=1").await;
    }

    let operator = gateway.operator();
    let session = crate::trace::until(&operator, "/sessions/my-session", |session| {
        session["kept"]["records"] == 4
    });
    let kept = session.await["kept"].clone();
    let page = Browser::at(&gateway)
        .get("/console/sessions/my-session")
        .await
        .html;

    assert_eq!(
        kept["tools"],
        json!([{ "name": "shell", "records": 3, "denied": 2 }])
    );
    let total = kept["total_tokens"].as_u64().unwrap();
    assert!(
        total > 0 && kept["prompt_tokens"].as_u64().unwrap() < total,
        "{kept:#}"
    );
    assert!(page.contains(&format!(" {total} tokens")), "{page}");
    let calls = "/console/calls?session=my-session&amp;caller=&amp;tool=shell";
    assert!(page.contains(calls), "{page}");
}

#[tokio::test]
async fn a_session_is_shown_with_its_calls() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::command("look", "true"))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let browser = Browser::at(&gateway);
    let agent = gateway.agent().sending("x-hookgate-session", "my-session");
    agent.generate("m", &prompt("hello")).await;

    let list = browser.get("/console/sessions").await.html;
    let page = browser.get("/console/sessions/my-session").await.html;
    let missing = browser.get("/console/sessions/none").await;

    assert!(list.contains("my-session"), "{list}");
    assert!(page.contains("/console/calls?session=my-session"), "{page}");
    assert_eq!(missing.status, 404);
    assert!(missing.html.contains("no session has this id"));
}

#[tokio::test]
async fn the_list_of_sessions_has_the_number_of_all() {
    let upstream = Upstream::mock().await;
    let config = "policies: [{ policy: prompt_guard, deny: [aurora] }]\n";
    let gateway = TestGateway::start(&upstream, config).await;
    for number in 0..101 {
        let agent = gateway.agent();
        let agent = agent.sending("x-hookgate-session", format!("session-{number}"));
        agent.generate("m", &prompt("hello")).await;
    }

    let list = Browser::at(&gateway).get("/console/sessions").await.html;

    assert!(
        list.contains("The last 100 sessions. This process has 101."),
        "{list}"
    );
}

#[tokio::test]
async fn messages_show_no_backticks() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeModel", hook::denying("guard", "no"))]);
    let gateway = TestGateway::start(&upstream, &hooks).await;
    let browser = Browser::at(&gateway);

    for (path, message) in [
        ("/console/calls?q=made-up:1", "<code>made-up"),
        ("/console/config", "fails open"),
        ("/console/fleet", "<code>"),
    ] {
        let page = browser.get(path).await.html;
        assert!(page.contains(message), "{path}: {page}");
        assert!(!page.contains('`'), "{path}: {page}");
    }
}

#[tokio::test]
async fn the_config_shows_origins_and_no_secret() {
    let upstream = Upstream::mock().await;
    let config = "upstreams:
  gemini: { url: \"{upstream}\", api_key: { file: key }, headers: { x-team: CANARY-header } }
hooks:
  BeforeModel: [{ hooks: [{ command: \"true\", env: { PASSWORD: CANARY-env } }] }]
limits: { body: 1MiB }
";
    let gateway = TestGateway::with_files(&upstream, config, &[("key", "CANARY-key")]).await;

    let page = Browser::at(&gateway).get("/console/config").await.html;
    let view = gateway.operator().get("/config").await.json();

    assert!(!page.contains("CANARY"), "{page}");
    assert!(!view.to_string().contains("CANARY"), "{view:#}");
    let section = |name: &str| {
        let mut sections = view["sections"].as_array().unwrap().iter();
        sections
            .find(|section| section["name"] == name)
            .unwrap()
            .clone()
    };
    let limits = section("limits");
    assert!(
        limits["yaml"].as_str().unwrap().contains("body: 1MiB"),
        "{limits}"
    );
    assert!(
        limits["yaml"]
            .as_str()
            .unwrap()
            .contains("response: 256MiB"),
        "{limits}"
    );
    assert!(
        limits["origin"]
            .as_str()
            .unwrap()
            .contains("hookgate.yaml:"),
        "{limits}"
    );
    assert_eq!(section("timeouts")["origin"], "default");
    let origin_of = |section: &Value, line: &str| {
        let yaml = section["yaml"].as_str().unwrap();
        let number = yaml.lines().position(|found| found.contains(line));
        let origins = section["line_origins"].as_array().unwrap();
        assert_eq!(origins.len(), yaml.lines().count(), "{section:#}");
        let number = number.unwrap_or_else(|| panic!("no `{line}` in {yaml}"));
        origins[number].as_str().unwrap().to_owned()
    };
    assert!(
        origin_of(&limits, "body: 1MiB").ends_with("hookgate.yaml:7"),
        "{limits:#}"
    );
    assert_eq!(origin_of(&limits, "response: 256MiB"), "default");
    let command = origin_of(&section("hooks"), "command: ");
    assert!(command.ends_with("hookgate.yaml:6"), "{command}");
    assert!(page.contains(&format!("<span id=\"{command}\">")), "{page}");
    assert_eq!(view["revisions"][0]["cause"], "start");
}

/// Waits until the metrics count one reload with this outcome.
async fn wait_for_reload(operator: &Agent, outcome: &str) {
    let line = format!("hookgate_config_reloads_total{{outcome=\"{outcome}\"}} 1");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !operator.get("/metrics").await.text().contains(&line) {
        assert!(Instant::now() < deadline, "no {line}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn config_revisions_can_be_compared_and_a_rejected_reload_is_explained() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let write = |limit: &str| {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\nlimits: {{ body: {limit} }}\n",
            upstream.addr
        );
        fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    };
    write("1MiB");
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operator = Agent::at(served.operators());

    write("2MiB");
    wait_for_reload(&operator, "applied").await;
    write("nonsense");
    wait_for_reload(&operator, "rejected").await;

    let view = operator.get("/config").await.json();
    let diff = operator.get("/config/diff?from=1&to=0").await.json();
    let page = operator.get("/console/config?from=1&to=0").await;
    let missing = operator.get("/config/diff?from=1&to=9").await;
    let revisions = view["revisions"].as_array().unwrap();
    let causes: Vec<&Value> = revisions
        .iter()
        .map(|revision| &revision["cause"])
        .collect();
    assert_eq!(causes, ["file change", "start"], "{view:#}");
    let sections = view["sections"].as_array().unwrap();
    let listen = sections.iter().find(|section| section["name"] == "listen");
    assert_eq!(listen.unwrap()["origin"], "command line");
    let text = diff["diff"].as_str().unwrap();
    assert!(text.contains("-  body: 1MiB\n+  body: 2MiB\n"), "{text}");
    let problems = view["refused"]["problems"].to_string();
    assert!(problems.contains("limits.body"), "{problems}");
    assert!(
        page.text().contains("<ins>+  body: 2MiB"),
        "{}",
        page.text()
    );
    assert!(page.text().contains("The last reload was refused"));
    let changes = operator.get("/console/changes").await;
    assert!(changes.text().contains("The last reload was refused"));
    assert_eq!(missing.status, 400);
    let reversed = operator.get("/console/config?from=0&to=1").await;
    let selects: Vec<&str> = reversed.text().split("<select").skip(1).collect();
    for (select, revision) in selects.iter().zip(revisions) {
        let version = revision["version"].as_str().unwrap();
        let option = format!("<option value=\"{version}\" selected>");
        assert!(select.contains(&option), "{option}: {select}");
    }
    assert_eq!(selects.len(), 2);
}

#[tokio::test]
async fn a_reload_without_effective_changes_creates_no_revision() {
    let upstream = Upstream::mock().await;
    let folder = TempDir::new().unwrap();
    let config = format!(
        "upstreams: {{ gemini: {{ url: \"http://{}\" }} }}\n",
        upstream.addr
    );
    let file = folder.path().join("hookgate.yaml");
    fs::write(&file, &config).unwrap();
    let mut served = ServerProcess::folder(folder.path());
    served.addr();
    let operator = Agent::at(served.operators());
    let revisions = async || {
        let view = operator.get("/config").await.json();
        view["revisions"].as_array().unwrap().clone()
    };
    let first = revisions().await;

    assert_eq!(operator.post("/reload", "").await.status, 200);
    fs::write(&file, format!("# a comment\n{config}")).unwrap();
    assert_eq!(operator.post("/reload", "").await.status, 200);

    assert_eq!(revisions().await, first);
    let view = operator.get("/config").await.json();
    let mut sections = view["sections"].as_array().unwrap().iter();
    let upstreams = sections.find(|section| section["name"] == "upstreams");
    assert_eq!(upstreams.unwrap()["origin"], "hookgate.yaml:2", "{view:#}");
}

#[tokio::test]
async fn a_session_has_the_name_of_its_caller() {
    let upstream = Upstream::mock().await;
    // The SHA-256 of `team-a-key`.
    let config = "auth: { keys: [{ name: team-a, sha256: 554a0d05033791f46fede07b724fa246c95235f60a9fb74caad37d1408b4df58 }] }\n\
        hooks: { BeforeModel: [{ hooks: [{ name: look, command: \"true\" }] }] }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let agent = gateway
        .agent()
        .sending("x-hookgate-key", "team-a-key")
        .sending("x-hookgate-session", "my-session");
    agent.generate("m", &prompt("hello")).await;

    let sessions = gateway.operator().get("/sessions").await.json();
    let list = Browser::at(&gateway).get("/console/sessions").await.html;

    assert_eq!(
        sessions["sessions"][0]["caller_name"], "team-a",
        "{sessions:#}"
    );
    assert!(
        list.contains("href=\"/console/calls?caller=team-a\">team-a</a>"),
        "{list}"
    );
}

#[tokio::test]
async fn a_rule_is_not_shown_with_the_proof_of_another_one_of_its_name() {
    let upstream = Upstream::mock().await;
    let config = "policies:
  - { policy: tool_guard, deny: [alpha], must_deny: [{ tool_call: { name: alpha } }] }
  - { policy: tool_guard, deny: [beta] }
";
    let gateway = TestGateway::start(&upstream, config).await;

    let rules = gateway.operator().get("/rules").await.json();

    assert_eq!(rules[0]["proof"]["proven"], true, "{rules:#}");
    assert_eq!(rules[1]["proof"], json!(null), "{rules:#}");
    let remarks = rules[1]["remarks"].as_array().unwrap();
    assert!(!remarks.contains(&json!("proven")), "{rules:#}");
}

#[tokio::test]
async fn a_proven_guard_is_shown_with_its_proof() {
    let upstream = Upstream::mock().await;
    let config = "policies:
  - policy: model_allow
    models: [\"gemini-*\"]
    must_deny: [{ model: other }]
    must_allow: [{ model: gemini-2.5-pro }]
";
    let gateway = TestGateway::start(&upstream, config).await;

    let rules = gateway.operator().get("/rules").await.json();
    let page = Browser::at(&gateway).get("/console/rules").await.html;

    assert_eq!(rules[0]["proof"]["proven"], true, "{rules:#}");
    let remarks = rules[0]["remarks"].as_array().unwrap();
    assert!(remarks.contains(&json!("proven")), "{rules:#}");
    assert!(page.contains("proven"), "{page}");
}

#[tokio::test]
async fn the_overview_names_upstreams_as_metrics_do() {
    let upstream = Upstream::mock().await;
    let unused = closed_port();
    let addr = unused.local_addr().unwrap();
    let config = format!(
        "upstreams: {{ openai: {{ url: \"http://{addr}\", \
         circuit: {{ failures: 1, within: 30s, open: 60s }} }} }}"
    );
    let gateway = TestGateway::start(&upstream, &config).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let agent = gateway.agent();
    let call = agent.post("/v1/chat/completions", body.to_string());
    assert_eq!(call.await.status, 503);

    let overview = gateway.operator().get("/overview").await.json();
    let metrics = gateway.operator();
    let open = metrics.metric("hookgate_circuit_breaker_open{upstream=\"openai\"}");

    assert_eq!(open.await, 1);
    assert_eq!(
        overview["upstreams"],
        json!([{ "name": "openai", "circuit_open": true }])
    );
}
