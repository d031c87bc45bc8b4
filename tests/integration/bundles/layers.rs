//! Layers: bundles of an organisation and of a team on one replica.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

use super::{
    replicas::Replica,
    server::{PolicyServer, Polling, Publisher, denying_files},
};
use crate::harness::{TEST_TIMEOUT, Upstream, eventually, prompt, wait_until_closed};

/// Returns the entry of a layer in the config of a replica.
fn layer(server: &PolicyServer, name: &str, publisher: &Publisher) -> String {
    let (url, key) = (server.url(name), publisher.public_key());
    format!("    - {{ name: {name}, url: \"{url}\", keys: [\"{key}\"] }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_cannot_weaken_the_organisation_on_a_replica() {
    let (org, team) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Polling::Long).await;
    let publish_team = |revision: &str, config: &str| {
        let manifest = team.manifest(revision);
        server.publish("team", team.signed(manifest, &[("hookgate.yaml", config)]));
    };
    let models = "policies: [{ name: org, policy: model_allow, models: [\"gemini-*\", m] }]\n";
    server.publish(
        "org",
        org.signed(org.manifest("1"), &[("hookgate.yaml", models)]),
    );
    publish_team(
        "1",
        "policies: [{ name: team, policy: model_allow, models: [m, other] }]\n",
    );
    let layers = layer(&server, "org", &org) + &layer(&server, "team", &team);
    let replica = Replica::start(&format!("  layers:\n{layers}")).await;
    let is_denied = async |model: &str| {
        let answer = replica.agent.generate(model, &prompt("hello")).await;
        !answer.text().contains("You said")
    };
    // Only models on both allow lists pass.
    assert!(!is_denied("m").await);
    assert!(is_denied("gemini-2.5-pro").await && is_denied("other").await);

    publish_team(
        "2",
        "policies: [{ name: org, policy: model_allow, models: [\"*\"], mode: observe }]\n",
    );
    let error = replica
        .wait_for_error("`org` is the name of a policy or hook of the bundle `org`")
        .await;
    assert!(error.contains("hookgate.yaml:1:12: "), "{error}");
    publish_team("3", "ask: allow\n");
    replica
        .wait_for_error("hookgate.yaml:1:1: `ask` applies to all layers")
        .await;
    // The team's key is not valid for the bundle of the organisation.
    server.publish(
        "org",
        team.signed(team.manifest("9"), &[("hookgate.yaml", "policies: []\n")]),
    );
    replica
        .wait_for_error("the signature of `manifest.json`")
        .await;
    assert!(is_denied("gemini-2.5-pro").await && !is_denied("m").await);

    // The organisation's policies inspect what a policy of the team has changed.
    server.publish(
        "org",
        org.signed(org.manifest("2"), &[("hookgate.yaml", models)]),
    );
    publish_team(
        "4",
        "policies: [{ name: swap, policy: model_swap, swap: { m: other } }]\n",
    );
    replica
        .wait_until(|bundles| bundles[1]["revision"] == "4")
        .await;
    assert!(
        is_denied("m").await,
        "`other` is no model of the organisation"
    );
    assert!(!is_denied("gemini-2.5-pro").await);
}

/// Publishes a bundle with a guard that needs a file. The bundle and the guard have one name.
fn publish_needing(server: &PolicyServer, publisher: &Publisher, name: &str, needed: &Path) {
    let hook = format!(
        "#!/bin/sh\ntest -e {} || exit 1\ngrep -q {name} && exit 2\nexit 0\n",
        needed.display()
    );
    let config = format!(
        "hooks: {{ BeforeModel: [{{ hooks: [{{ name: {name}, command: ./hooks/g.sh, \
         must_deny: [{{ prompt: {name} }}] }}] }}] }}\n"
    );
    let files = [("hookgate.yaml", &*config), ("hooks/g.sh", &hook)];
    server.publish(name, publisher.signed(publisher.manifest("2"), &files));
}

/// Starts a replica with two bundles without policies.
async fn replica_without_policies() -> (Replica, PolicyServer, [Publisher; 2]) {
    let (org, team) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Polling::Long).await;
    for (name, publisher) in [("org", &org), ("team", &team)] {
        let files = [("hookgate.yaml", "policies: []\n")];
        server.publish(name, publisher.signed(publisher.manifest("1"), &files));
    }
    let layers = layer(&server, "org", &org) + &layer(&server, "team", &team);
    let replica = Replica::start(&format!("  layers:\n{layers}")).await;
    (replica, server, [org, team])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_is_tried_again_beside_one_whose_tests_fail() {
    let (replica, server, [org, team]) = replica_without_policies().await;
    let more = "  - { name: pears pass, expect: { verdict: proceed }, \
                request: { contents: [{ role: user, parts: [{ text: banana }] }] } }\n";
    let failing = denying_files("words", "banana").with("tests/words.yaml", more);
    server.publish("org", org.signed(org.manifest("2"), &failing.as_pairs()));
    replica.wait_for_error("test `pears pass`").await;
    let needed = replica.folder.path().join("needed");

    publish_needing(&server, &team, "team", &needed);
    replica
        .wait_until(|bundles| {
            let error = bundles[1]["error"].as_str();
            error.is_some_and(|error| error.contains("must deny"))
        })
        .await;
    fs::write(&needed, "").unwrap();
    let bundles = replica
        .wait_until(|bundles| bundles[1]["revision"] == "2")
        .await;

    let error = bundles[0]["error"].as_str().unwrap();
    assert!(error.contains("test `pears pass`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_bundles_that_are_tried_again_are_logged_once_each() {
    let (replica, server, [org, team]) = replica_without_policies().await;
    let needed = replica.folder.path().join("needed");
    publish_needing(&server, &org, "org", &needed);
    replica.wait_for_error("must deny").await;
    publish_needing(&server, &team, "team", &needed);
    replica
        .wait_until(|bundles| !bundles[1]["error"].is_null())
        .await;
    let seen = server.requests().len();
    while server.requests().len() < seen + 6 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let log = replica.stop().await;

    assert_eq!(log.matches("config reload rejected").count(), 2, "{log}");
    assert_eq!(log.matches("bundle refused").count(), 2, "{log}");
}

/// Script of an organisation's hook.
const REFUSE: &str =
    "#!/bin/sh\nif grep -q FORBIDDEN; then echo 'not in this house' >&2; exit 2; fi\n";

/// Returns a script that prints an output if its input has a word.
fn edit(word: &str, specific: &str) -> String {
    format!("#!/bin/sh\nif grep -q {word}; then echo '{{\"hookSpecificOutput\":{specific}}}'; fi\n")
}

/// Starts a replica with a bundle of an organisation and one of a team.
async fn replica_of(org_files: &[(&str, &str)], team_files: &[(&str, &str)]) -> Replica {
    replica_before(Upstream::mock().await, org_files, team_files).await
}

/// Starts a replica with this model API and both bundles.
async fn replica_before(
    upstream: Upstream,
    org_files: &[(&str, &str)],
    team_files: &[(&str, &str)],
) -> Replica {
    let (org, team) = (Publisher::new(), Publisher::new());
    let server = PolicyServer::start(Polling::Short).await;
    server.publish("org", org.signed(org.manifest("1"), org_files));
    server.publish("team", team.signed(team.manifest("1"), team_files));
    let layers = layer(&server, "org", &org) + &layer(&server, "team", &team);
    Replica::start_before(upstream, &format!("  layers:\n{layers}"), &[])
}

/// Hooks of an organisation that deny what those of a team leave.
const ORG_HOOKS: &str = "hooks:\n\
        \x20 BeforeTool:\n\
        \x20   - hooks:\n\
        \x20       - { name: org-tool, command: ./hooks/refuse.sh }\n\
        \x20       - { name: org-when, command: ./hooks/never.sh, when: \"tool.input.command == 'rm'\" }\n\
        \x20 BeforeModel: [{ hooks: [{ name: org-model, command: ./hooks/refuse.sh, when: \"request.model == 'm'\" }] }]\n\
        \x20 BeforeAgent: [{ hooks: [{ name: org-agent, command: ./hooks/refuse.sh }] }]\n\
        \x20 AfterModel: [{ hooks: [{ name: org-answer, command: ./hooks/refuse.sh }] }]\n\
        policies: [{ policy: prompt_guard, deny: [orgword] }]\n";

/// Hooks of a team, each of which edits an event.
const TEAM_HOOKS: &str = "hooks:\n\
        \x20 BeforeTool: [{ hooks: [{ name: t1, command: ./hooks/tool.sh }, { name: t2, command: ./hooks/rm.sh }] }]\n\
        \x20 BeforeModel: [{ hooks: [{ name: t3, command: ./hooks/model.sh }, { name: t4, command: ./hooks/name.sh }] }]\n\
        \x20 BeforeAgent: [{ hooks: [{ name: t5, command: ./hooks/agent.sh }] }]\n\
        \x20 AfterModel: [{ hooks: [{ name: t6, command: ./hooks/answer.sh }] }]\n\
        policies: [{ policy: prompt_guard, deny: [teamword] }]\n";

/// Starts a replica with these hooks and their scripts.
async fn replica_with_edits() -> Replica {
    replica_of(
        &[
            ("hookgate.yaml", ORG_HOOKS),
            ("hooks/refuse.sh", REFUSE),
            ("hooks/never.sh", "#!/bin/sh\necho never >&2; exit 2\n"),
        ],
        &[
            ("hookgate.yaml", TEAM_HOOKS),
            ("hooks/tool.sh", &edit("TRICKTOOL", r#"{"tool_input":{"command":"FORBIDDEN"}}"#)),
            ("hooks/rm.sh", &edit("TRICKRM", r#"{"tool_input":{"command":"rm"}}"#)),
            (
                "hooks/model.sh",
                &edit("TRICKMODEL", r#"{"llm_request":{"messages":[{"role":"user","content":"FORBIDDEN"}]}}"#),
            ),
            (
                "hooks/name.sh",
                &edit(
                    "TRICKNAME",
                    r#"{"llm_request":{"model":"m","messages":[{"role":"user","content":"FORBIDDEN"}]}}"#,
                ),
            ),
            ("hooks/agent.sh", &edit("TRICKAGENT", r#"{"additionalContext":"FORBIDDEN"}"#)),
            (
                "hooks/answer.sh",
                &edit(
                    "TRICKANSWER",
                    r#"{"llm_response":{"candidates":[{"content":{"role":"model","parts":["FORBIDDEN"]},"finishReason":"STOP"}]}}"#,
                ),
            ),
        ],
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_organisations_hooks_inspect_what_those_of_a_team_leave() {
    let replica = replica_with_edits().await;
    let event = async |event: Value| {
        let answer = replica
            .agent
            .post("/hookgate/v1/events?explain=1", event.to_string());
        answer.await.text().to_owned()
    };
    let tool = async |command: &str| {
        event(json!({
            "hook_event_name": "BeforeTool", "session_id": "s", "tool_name": "sh",
            "tool_input": { "command": command },
        }))
        .await
    };
    let passed = tool("ls").await;
    assert!(!passed.contains("deny"), "{passed}");
    for (command, reason) in [("TRICKTOOL", "not in this house"), ("TRICKRM", "never")] {
        let denied = tool(command).await;
        assert!(
            denied.contains("\"deny\"") && denied.contains(reason),
            "{command}: {denied}"
        );
        assert_eq!(denied.matches("\"org-tool\"").count(), 1, "{denied}");
    }
    let prompt_event = json!({
        "hook_event_name": "BeforeAgent", "session_id": "s", "prompt": "TRICKAGENT",
    });
    let denied = event(prompt_event).await;
    assert!(denied.contains("not in this house"), "{denied}");

    for (model, text) in [
        ("m", "TRICKMODEL"),
        ("other", "TRICKNAME"),
        ("m", "TRICKANSWER"),
    ] {
        let answer = replica.agent.generate(model, &prompt(text)).await;
        assert!(
            answer.text().contains("not in this house"),
            "{text}: {}",
            answer.text()
        );
    }
    // Policies without a name replace nothing.
    for (word, is_denied) in [("hello", false), ("orgword", true), ("teamword", true)] {
        let answer = replica.agent.generate("m", &prompt(word)).await;
        assert_eq!(
            !answer.text().contains("You said"),
            is_denied,
            "{word}: {}",
            answer.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_does_not_wait_for_a_hook_that_an_edit_of_the_team_skips() {
    let silent = |_, mut socket| async move { wait_until_closed(&mut socket).await };
    let org = "hooks: { BeforeModel: [{ hooks: [{ command: ./hooks/refuse.sh, when: \"request.model == 'm'\" }] }] }\n";
    let team = "hooks: { BeforeModel: [{ hooks: [{ command: ./hooks/name.sh }] }] }\n";
    let swap = edit("hello", r#"{"llm_request":{"model":"other"}}"#);
    let replica = replica_before(
        Upstream::raw(silent).await,
        &[("hookgate.yaml", org), ("hooks/refuse.sh", REFUSE)],
        &[("hookgate.yaml", team), ("hooks/name.sh", &swap)],
    )
    .await;
    let agent = replica.agent.clone();
    let call = tokio::spawn(async move { agent.generate("m", &prompt("hello")).await });
    let is_sent = || !replica.upstream.requests().is_empty();
    eventually("the call goes upstream", TEST_TIMEOUT, is_sent).await;

    let found = replica.operator.get("/calls/in_flight").await.json();

    call.abort();
    assert_eq!(found["calls"][0]["model"], "other", "{found:#}");
    assert_eq!(found["calls"][0]["waits_for"], Value::Null, "{found:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_a_team_excludes_stay_excluded_by_the_organisation() {
    let hooks = "hooks: { BeforeModel: [{ hooks: [{ command: ./hooks/select.sh }] }] }\n";
    let select = |names: &str| {
        let selection = format!(r#"{{"mode":"ANY","allowedFunctionNames":[{names}]}}"#);
        edit(
            "go",
            &format!(r#"{{"llm_request":{{"toolConfig":{selection}}}}}"#),
        )
    };
    let (org, team) = (select(r#""read","write""#), select(r#""read""#));
    let replica = replica_of(
        &[("hookgate.yaml", hooks), ("hooks/select.sh", &org)],
        &[("hookgate.yaml", hooks), ("hooks/select.sh", &team)],
    )
    .await;
    let mut request = prompt("go");
    request["tools"] =
        json!([{ "functionDeclarations": [{ "name": "read" }, { "name": "write" }] }]);

    replica.agent.generate("m", &request).await;

    let sent = replica.upstream.requests()[0].json();
    let selection = &sent["toolConfig"]["functionCallingConfig"];
    assert_eq!(selection["allowedFunctionNames"], json!(["read"]), "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stricter_mode_of_two_selections_of_tools_holds() {
    let hooks = "hooks: { BeforeToolSelection: [{ hooks: [{ command: ./hooks/select.sh }] }] }\n";
    let select = |selection: &Value| edit("go", &json!({ "toolConfig": selection }).to_string());
    let both = json!({ "allowedFunctionNames": ["read", "write"] });
    let read = json!({ "mode": "ANY", "allowedFunctionNames": ["read"] });
    for (org, team) in [(&both, &read), (&read, &both)] {
        let (org, team) = (select(org), select(team));
        let replica = replica_of(
            &[("hookgate.yaml", hooks), ("hooks/select.sh", &org)],
            &[("hookgate.yaml", hooks), ("hooks/select.sh", &team)],
        )
        .await;
        let mut request = prompt("go");
        request["tools"] =
            json!([{ "functionDeclarations": [{ "name": "read" }, { "name": "write" }] }]);

        replica.agent.generate("m", &request).await;

        let sent = replica.upstream.requests()[0].json();
        let selection = &sent["toolConfig"]["functionCallingConfig"];
        assert_eq!(selection, &read, "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_a_team_selects_stays_in_the_toolset_that_the_organisation_selects() {
    let hooks = "hooks: { BeforeToolSelection: [{ hooks: [{ command: ./hooks/select.sh }] }] }\n";
    let select = |name: &str| {
        let selection = json!({ "mode": "ANY", "allowedFunctionNames": [name] });
        edit("go", &json!({ "toolConfig": selection }).to_string())
    };
    let (org, team) = (select("computer"), select("left_click"));
    let replica = replica_of(
        &[("hookgate.yaml", hooks), ("hooks/select.sh", &org)],
        &[("hookgate.yaml", hooks), ("hooks/select.sh", &team)],
    )
    .await;
    let tools = json!([{ "type": "computer_toolset_20260801" }]);
    let request = json!({
        "model": "m", "max_tokens": 9, "tools": tools,
        "messages": [{ "role": "user", "content": "go" }],
    });

    let agent = replica
        .agent
        .clone()
        .sending("anthropic-version", "2023-06-01");
    let answer = agent.post("/v1/messages", request.to_string()).await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    let sent = replica.upstream.requests()[0].json();
    assert_eq!(sent["tools"], tools, "{sent}");
    assert_eq!(sent["tool_choice"], json!({ "type": "any" }), "{sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_hooks_of_both_inspect_is_counted_once() {
    let replica = replica_with_edits().await;
    let answer = replica.agent.generate("m", &prompt("hello")).await;
    assert!(answer.text().contains("You said"), "{}", answer.text());

    let log = replica.stop().await;

    assert!(log.contains("chunks=1 "), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_organisations_policies_inspect_texts_that_a_team_adds() {
    let org = "policies: [{ name: org-mail, policy: redact, detect: [email] }]\n";
    let team = "policies: [{ name: pong, policy: respond, match: ^ping$, text: write to a@example.com }]\n\
        hooks:\n\
        \x20 BeforeModel: [{ hooks: [{ name: answer, command: ./hooks/answer.sh }] }]\n\
        \x20 BeforeAgent: [{ hooks: [{ name: prompt, command: ./hooks/context.sh }] }]\n\
        \x20 AfterTool: [{ hooks: [{ name: result, command: ./hooks/context.sh }] }]\n";
    let answer = r#"{"llm_response":{"candidates":[{"content":{"role":"model","parts":["write to a@example.com"]},"finishReason":"STOP"}]}}"#;
    let replica = replica_of(
        &[("hookgate.yaml", org)],
        &[
            ("hookgate.yaml", team),
            ("hooks/answer.sh", &edit("SYNTHETIC", answer)),
            (
                "hooks/context.sh",
                &edit(
                    "CONTEXT",
                    r#"{"additionalContext":"write to a@example.com"}"#,
                ),
            ),
        ],
    )
    .await;
    for text in ["SYNTHETIC", "ping"] {
        let agent = &replica.agent;
        for answer in [
            agent.generate("m", &prompt(text)).await,
            agent.stream("m", &prompt(text)).await,
        ] {
            assert!(
                answer.text().contains("write to [REDACTED:email]"),
                "{text}: {}",
                answer.text()
            );
        }
    }
    for event in [
        json!({ "hook_event_name": "BeforeAgent", "prompt": "CONTEXT" }),
        json!({
            "hook_event_name": "AfterTool", "tool_name": "sh", "tool_input": {},
            "tool_response": { "llmContent": "CONTEXT", "returnDisplay": "CONTEXT" },
        }),
    ] {
        let mut event = event;
        event["session_id"] = "s".into();
        let answer = replica
            .agent
            .post("/hookgate/v1/events", event.to_string())
            .await;
        let text = answer.text();
        assert!(
            text.contains("write to [REDACTED:email]"),
            "{event}: {text}"
        );
        assert!(!text.contains("a@example.com"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_of_a_team_has_no_counter_of_the_organisation() {
    let limit = "[{ hooks: [{ type: builtin, policy: request_limits, max_tokens: 3 }] }]";
    let org = format!("hooks: {{ BeforeModel: {limit}, AfterModel: {limit} }}\n");
    let hook = json!({ "type": "builtin", "policy": "request_limits", "max_calls": 1000 });
    let team = json!({ "hooks": { "BeforeModel": [{ "hooks": [hook] }] } });
    let replica = replica_of(
        &[("hookgate.yaml", &org)],
        &[
            ("hookgate.yaml", "hook_files: [{ path: hooks.json }]\n"),
            ("hooks.json", &team.to_string()),
        ],
    )
    .await;
    let agent = replica.agent.sending("x-hookgate-session", "one");

    let mut actions = Vec::new();
    for _ in 0..2 {
        let answer = agent.generate("m", &prompt("hello")).await;
        actions.push(answer.header("x-hookgate-action").to_owned());
    }

    assert_eq!(actions, ["pass", "deny"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_of_a_team_allows_no_mcp_server() {
    let guard = "policies: [{ policy: tool_guard, allow: [\"*\"] }]\n";
    let other = "policies: [{ policy: request_limits, max_calls: 100 }]\n";
    let mut request = prompt("hello");
    request["tools"] = json!([{ "mcpServers": [{ "name": "files" }] }]);
    for (org, team, status) in [(other, guard, 400), (guard, other, 200)] {
        let replica = replica_of(&[("hookgate.yaml", org)], &[("hookgate.yaml", team)]).await;

        let answer = replica.agent.generate("m", &request).await;

        assert_eq!(answer.status, status, "{org}: {}", answer.text());
        let sent = replica.upstream.requests().len();
        assert_eq!(sent, usize::from(status == 200), "{org}");
    }
}
