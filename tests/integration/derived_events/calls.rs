//! `BeforeTool`: calls are judged before the agent sees them.

use serde_json::{Value, json};

use super::{Chat, MODEL, asked, call, log, logging, parts, script, text};
use crate::harness::{TestGateway, Upstream, hook};

const NOT_RUN: &str =
    "Not run, because another call of this step was blocked. Ask for it again if it is needed.";

fn write() -> Value {
    call("write_file", &json!({ "file_path": "a" }))
}

fn read() -> Value {
    call("read_file", &json!({ "file_path": "b" }))
}

/// A hook on `write_file` alone.
fn on_write(command: &str) -> String {
    let hook = hook::running("guard", command);
    format!(
        "hooks: {}\n",
        json!({ "BeforeTool": [{ "matcher": "write_file", "hooks": [hook] }] })
    )
}

const REFUSING: &str = "cat > guard.json; echo 'not here' >&2; exit 2";

#[tokio::test]
async fn a_denied_call_is_answered_to_the_model_and_the_agent_hears_the_next_answer() {
    let signed = json!({ "functionCall": { "id": "c1", "name": "write_file", "args": { "file_path": "a" } }, "thoughtSignature": "c2ln" });
    let first = json!([text("I write."), signed]);
    let upstream = Upstream::scripted(&script(&[first, json!([text("I may not.")])])).await;
    let gate = TestGateway::start(&upstream, &on_write(REFUSING)).await;
    let chat = Chat::asking("write a");

    let unary = chat.ask(&gate).await;
    let streamed = gate.agent().stream(MODEL, &chat.body()).await.events();

    let spoken = json!([{ "text": "I write." }, { "text": "\n\nI may not." }]);
    assert_eq!(json!(parts(&streamed)), spoken);
    let whole = &unary["candidates"][0];
    assert_eq!(
        whole["content"]["parts"],
        json!([{ "text": "I write.\n\nI may not." }])
    );
    assert_eq!(whole["finishReason"], "STOP");
    let finished = |it: &&Value| it["candidates"][0].get("finishReason").is_some();
    assert_eq!(streamed.iter().filter(finished).count(), 1);
    for pair in asked(&upstream).chunks(2) {
        assert_eq!(pair[1][0], pair[0][0]);
        assert_eq!(
            pair[1][1],
            json!({ "role": "model", "parts": [{ "text": "I write." }, signed] })
        );
        let response = json!({ "error": "Tool execution blocked: not here" });
        let response = json!({ "name": "write_file", "response": response, "id": "c1" });
        assert_eq!(
            pair[1][2],
            json!({ "role": "user", "parts": [{ "functionResponse": response }] })
        );
    }
    let seen = gate.json("guard.json");
    assert_eq!(seen["tool_name"], "write_file");
    assert_eq!(seen["tool_input"], json!({ "file_path": "a" }));
}

#[tokio::test]
async fn siblings_of_a_denied_call_are_not_run_and_can_be_asked_for_again() {
    let both = json!([read(), write()]);
    let upstream = Upstream::scripted(&script(&[both, json!([read()])])).await;
    let gate = TestGateway::start(&upstream, &on_write(REFUSING)).await;
    let chat = Chat::asking("go");

    let streamed = gate.agent().stream(MODEL, &chat.body()).await.events();

    assert_eq!(json!(parts(&streamed)), json!([read()]));
    let told = &asked(&upstream)[1][2]["parts"];
    assert_eq!(told[0]["functionResponse"]["response"]["error"], NOT_RUN);
    let blocked = &told[1]["functionResponse"]["response"]["error"];
    assert_eq!(*blocked, "Tool execution blocked: not here");
}

#[tokio::test]
async fn the_model_is_reminded_of_denied_calls_in_later_requests() {
    let answers = [json!([write()]), json!([read()]), json!([text("done")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let gate = TestGateway::start(&upstream, &on_write(REFUSING)).await;
    let chat = Chat::asking("go");
    let heard = chat.ask(&gate).await;
    let chat = chat
        .heard(&heard)
        .result("read_file", &json!({ "output": "b" }));

    chat.ask(&gate).await;

    let last = asked(&upstream).pop().unwrap();
    let calls = |it: &Value| it["parts"][0]["functionCall"]["name"].clone();
    assert_eq!(last.len(), 5, "{last:?}");
    assert_eq!(calls(&last[1]), "write_file");
    assert_eq!(
        last[2]["parts"][0]["functionResponse"]["name"],
        "write_file"
    );
    assert_eq!(calls(&last[3]), "read_file");
}

#[tokio::test]
async fn a_model_that_does_not_listen_ends_the_turn() {
    let again = |at: usize| json!([call("write_file", &json!({ "file_path": at }))]);
    let answers: Vec<Value> = (0..9).map(again).collect();
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(REFUSING) + "events: { max_denied_rounds: 2 }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("go").body())
        .await
        .events();

    assert_eq!(upstream.seen().len(), 3);
    assert_eq!(json!(parts(&events)), json!([{ "text": "not here" }]));
    assert_eq!(events[0]["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test]
async fn the_same_denied_call_again_and_again_ends_the_turn() {
    let answers: Vec<Value> = (0..9).map(|_| json!([write()])).collect();
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(REFUSING) + "events: { max_same_denials: 2, max_denied_rounds: 9 }\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Chat::asking("go").ask(&gate).await;

    assert_eq!(upstream.seen().len(), 2);
    let said = &answer["candidates"][0]["content"]["parts"][0]["text"];
    assert_eq!(*said, "not here");
}

#[tokio::test]
async fn arguments_are_rewritten_in_place() {
    let signed = json!({ "functionCall": { "name": "write_file", "args": { "file_path": "a", "n": 1.50 } }, "thoughtSignature": "c2ln" });
    let upstream = Upstream::scripted(&script(&[json!([signed])])).await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "file_path": "safe/a" } } });
    let config = hook::config(&[("BeforeTool", hook::saying("rewrite", &edit))]);
    let gate = TestGateway::start(&upstream, &config).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("go").body())
        .await
        .events();

    let mut expected = signed;
    expected["functionCall"]["args"]["file_path"] = json!("safe/a");
    assert_eq!(json!(parts(&events)), json!([expected]));
}

#[tokio::test]
async fn policies_have_the_last_look_at_what_hooks_made_of_a_call() {
    let answers = [json!([write()]), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let edit = json!({ "hookSpecificOutput": { "tool_input": { "file_path": "/etc/passwd" } } });
    let rules = "policies: [{ policy: tool_guard, rules: [{ tool: write_file, argument: /file_path, within: [/repo, .] }] }]\n";
    let config = hook::config(&[("BeforeTool", hook::saying("rewrite", &edit))]) + rules;
    let gate = TestGateway::start(&upstream, &config).await;

    let answer = Chat::asking("go").ask(&gate).await;

    assert_eq!(
        answer["candidates"][0]["content"]["parts"],
        json!([text("fine")])
    );
    assert!(!answer.to_string().contains("passwd"));
}

#[tokio::test]
async fn what_a_hook_wants_asked_is_denied_unless_the_config_allows_it() {
    let output = json!({ "decision": "ask", "reason": "sure?", "hookSpecificOutput": { "tool_input": { "file_path": "x" } } });
    let hooks = hook::config(&[("BeforeTool", hook::saying("asking", &output))]);
    for (mode, expected) in [
        ("deny", json!([text("fine")])),
        (
            "allow",
            json!([call("write_file", &json!({ "file_path": "x" }))]),
        ),
    ] {
        let answers = [json!([write()]), json!([text("fine")])];
        let upstream = Upstream::scripted(&script(&answers)).await;
        let gate = TestGateway::start(&upstream, &format!("{hooks}ask: {mode}\n")).await;

        let answer = Chat::asking("go").ask(&gate).await;

        assert_eq!(
            answer["candidates"][0]["content"]["parts"], expected,
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_stopped_turn_waits_for_the_next_prompt() {
    let answers = [json!([text("well"), write()]), json!([text("hello")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let stop = json!({ "continue": false, "stopReason": "enough" });
    let config = hook::config(&[("BeforeTool", hook::saying("stop", &stop))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::asking("go");

    let events = gate.agent().stream(MODEL, &chat.body()).await.events();
    assert_eq!(json!(parts(&events)), json!([text("well"), text("enough")]));
    let looping = Chat::asking("go")
        .calls("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));
    let told = looping.ask(&gate).await;
    let next = chat.model("wellenough").user("hello");

    assert_eq!(
        told["candidates"][0]["content"]["parts"][0]["text"],
        "enough"
    );
    assert_eq!(upstream.seen().len(), 1);
    gate.agent().stream(MODEL, &next.body()).await.events();
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn a_call_for_a_helper_of_gemini_cli_is_judged_too() {
    let answers = [json!([write()]), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(REFUSING) + "coverage: { allow: [\"cachedContents.*\"] }\n";
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("user-agent", "GeminiCLI/0.61.0");
    let tools =
        json!({ "model": format!("models/{MODEL}"), "tools": [{ "functionDeclarations": [] }] });
    let cache = agent
        .post("/v1beta/cachedContents", tools.to_string())
        .await
        .json();
    let body = json!({ "contents": Chat::asking("go").contents, "cachedContent": cache["name"] });

    let answer = agent.generate(MODEL, &body).await.json();

    let said = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(*said, json!([text("fine")]));
}

#[tokio::test]
async fn text_flows_while_calls_wait_for_each_other() {
    let answer = json!([text("a"), text("b"), read(), text("c"), write()]);
    let upstream = Upstream::scripted(&script(std::slice::from_ref(&answer))).await;
    let config = on_write(&logging("[\"tool_name\"]", &json!({})));
    let gate = TestGateway::start(&upstream, &config).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("go").body())
        .await
        .events();

    assert_eq!(json!(parts(&events)), answer);
    assert_eq!(events.len(), 5);
    assert_eq!(log(&gate), ["write_file"]);
}

#[tokio::test]
async fn tools_of_mcp_servers_say_where_they_come_from() {
    let answer = json!([call("mcp_github_search_issues", &json!({}))]);
    let upstream = Upstream::scripted(&script(&[answer])).await;
    let config = hook::config(&[("BeforeTool", hook::saying("guard", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;

    Chat::asking("go").ask(&gate).await;

    let context = json!({ "server_name": "github", "tool_name": "search_issues" });
    assert_eq!(gate.json("guard.json")["mcp_context"], context);
}

#[tokio::test]
async fn arguments_in_pieces_are_refused_where_hooks_would_judge_them() {
    let piece = json!({ "functionCall": { "name": "write_file", "willContinue": true } });
    let rest = json!({ "functionCall": { "partialArgs": [{ "jsonPath": "$.file_path", "stringValue": "a" }] } });
    let answers = [json!([piece, rest]), json!([text("fine")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = hook::config(&[("BeforeTool", hook::saying("guard", &json!({})))]);
    let gate = TestGateway::start(&upstream, &config).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("go").body())
        .await
        .events();

    assert_eq!(json!(parts(&events)), json!([text("fine")]));
    let told = &asked(&upstream)[1];
    let called = &told[1]["parts"];
    assert_eq!(
        *called,
        json!([{ "functionCall": { "name": "write_file" } }])
    );
}

#[tokio::test]
async fn a_buffered_answer_is_judged_the_same() {
    let answers = [json!([text("I write."), write()]), json!([text("No.")])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = on_write(REFUSING) + "after_model: buffered\n";
    let gate = TestGateway::start(&upstream, &config).await;

    let events = gate
        .agent()
        .stream(MODEL, &Chat::asking("go").body())
        .await
        .events();

    assert_eq!(
        json!(parts(&events)),
        json!([text("I write."), text("\n\nNo.")])
    );
}

#[tokio::test]
async fn an_agent_that_reports_its_tools_itself_is_not_asked_twice() {
    let answers = [json!([write()]), json!([write()])];
    let upstream = Upstream::scripted(&script(&answers)).await;
    let config = hook::config(&[(
        "BeforeTool",
        hook::running("log", &logging("[\"tool_name\"]", &json!({}))),
    )]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending("x-hookgate-session", "s-1");
    let body = Chat::asking("go").body();

    agent.generate(MODEL, &body).await;
    let report = json!({ "hook_event_name": "BeforeTool", "session_id": "s-1", "tool_name": "reported", "tool_input": {} });
    gate.agent().report(&report, "").await;
    agent.generate(MODEL, &body).await;

    assert_eq!(log(&gate), ["write_file", "reported"]);
}
