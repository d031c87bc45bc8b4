//! `BeforeAgent`: prompts are inspected when they start a turn.

use serde_json::{Value, json};

use super::{Chat, MODEL, log, log_command, request_contents};
use crate::harness::{TestGateway, Upstream, hook};

/// Config with a `BeforeAgent` hook that logs prompts, and prints `output` for those with `bad`.
fn guard(output: &Value) -> String {
    let output = output.to_string().replace('"', "\\\"");
    let python = format!(
        "import json,sys; p=json.load(sys.stdin)[\"prompt\"]; print(json.dumps(p), file=open(\"log\",\"a\")); print(\"{output}\" if \"bad\" in p else \"{{}}\")"
    );
    hook::config(&[(
        "BeforeAgent",
        hook::command("guard", &format!("python3 -c '{python}'")),
    )])
}

pub(super) fn first_text(answer: &Value) -> &Value {
    &answer["candidates"][0]["content"]["parts"][0]["text"]
}

#[tokio::test]
async fn a_denied_prompt_is_inspected_once_and_removed_from_later_requests() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "decision": "deny", "reason": "not that" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("bad idea");

    let denial = chat.send(&gate).await;
    let repeated = chat.send(&gate).await;
    let chat = Chat::with_prompt("bad idea").answer(&denial).user("hello");
    let answer = chat.send(&gate).await;
    chat.answer(&answer).user("more").send(&gate).await;

    assert_eq!(
        (first_text(&denial), first_text(&repeated)),
        (&json!("not that"), &json!("not that"))
    );
    assert_eq!(log(&gate), ["bad idea", "hello", "more"]);
    let contents = request_contents(&upstream);
    assert_eq!(
        contents[0],
        [json!({ "role": "user", "parts": [{ "text": "hello" }] })]
    );
    assert_eq!(contents.len(), 2);
    assert!(
        !contents[1]
            .iter()
            .any(|content| content.to_string().contains("bad"))
    );
}

#[tokio::test]
async fn a_denied_prompt_without_its_answer_is_removed_from_later_requests() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "decision": "deny", "reason": "not that" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("bad idea");

    chat.send(&gate).await;
    chat.user("hello").send(&gate).await;

    assert_eq!(log(&gate), ["bad idea", "hello"]);
    assert_eq!(request_contents(&upstream)[0].len(), 1);
}

#[tokio::test]
async fn an_allowed_prompt_without_an_answer_stays_in_front_of_a_denied_one() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let allowed = Chat::with_prompt("look");
    allowed.send(&gate).await;
    let chat = allowed.user("bad idea");

    let denial = chat.send(&gate).await;
    chat.answer(&denial).user("hello").send(&gate).await;

    assert_eq!(log(&gate), ["look", "bad idea", "hello"]);
    assert_eq!(received_texts(&upstream), ["look", "hello"]);
}

#[tokio::test]
async fn tool_calls_in_front_of_a_denied_prompt_stay() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let calls = Chat::with_prompt("look")
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "b" }));
    let expected = calls.contents.clone();
    let chat = calls.user("bad idea");

    let denial = chat.send(&gate).await;
    chat.answer(&denial).user("hello").send(&gate).await;

    assert_eq!(first_text(&denial), "not that");
    let contents = request_contents(&upstream).pop().unwrap();
    assert_eq!(contents[..3], expected);
    assert_eq!(contents[3]["parts"], json!([{ "text": "hello" }]));
}

#[tokio::test]
async fn a_prompt_that_is_denied_behind_its_tool_calls_ends_and_takes_them_with_it() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "decision": "deny", "reason": "not that" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("bad idea")
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "b" }));

    let denial = chat.send(&gate).await;

    assert_eq!(first_text(&denial), "not that");
    assert_eq!(upstream.requests().len(), 0);
    chat.answer(&denial).user("hello").send(&gate).await;
    let contents = request_contents(&upstream);
    let hello = json!({ "role": "user", "parts": [{ "text": "hello" }] });
    assert_eq!(contents, [[hello]]);
}

#[tokio::test]
async fn counting_the_tokens_of_a_denied_prompt_does_not_revoke_the_denial() {
    let guard = json!({
        "when": "request.operation == \"generateContent\"",
        "command": "if grep -q 'bad idea'; then echo no >&2; exit 2; fi",
    });
    let other = hook::command("other", "cat > /dev/null");
    for hooks in [vec![guard.clone()], vec![guard, other]] {
        let upstream = Upstream::mock().await;
        let config = format!(
            "hooks: {}\n",
            json!({ "BeforeModel": [{ "hooks": hooks }] })
        );
        let gate = TestGateway::start(&upstream, &config).await;
        let chat = Chat::with_prompt("bad idea");

        let denial = chat.send(&gate).await;
        let count = format!("/v1beta/models/{MODEL}:countTokens");
        let body = json!({ "contents": chat.contents });
        let counted = gate.agent().post(&count, body.to_string()).await;
        chat.answer(&denial).user("hello").send(&gate).await;

        assert_eq!(counted.status, 200, "{}", counted.text());
        let contents = request_contents(&upstream).pop().unwrap();
        let hello = json!({ "role": "user", "parts": [{ "text": "hello" }] });
        assert_eq!(contents, [hello]);
    }
}

#[tokio::test]
async fn a_stopped_prompt_remains_in_the_history() {
    let upstream = Upstream::mock().await;
    let config = guard(&json!({ "continue": false, "stopReason": "enough" }));
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("bad idea");

    let stopped = chat.send(&gate).await;
    chat.answer(&stopped).user("hello").send(&gate).await;

    assert_eq!(*first_text(&stopped), "enough");
    assert_eq!(request_contents(&upstream)[0].len(), 3);
}

#[tokio::test]
async fn a_prompt_that_is_both_denied_and_stopped_is_removed_from_later_requests() {
    let upstream = Upstream::mock().await;
    let output = json!({ "decision": "deny", "reason": "not that", "continue": false, "stopReason": "enough" });
    let gate = TestGateway::start(&upstream, &guard(&output)).await;
    let chat = Chat::with_prompt("bad idea");

    let stopped = chat.send(&gate).await;
    chat.answer(&stopped).user("hello").send(&gate).await;

    assert_eq!(*first_text(&stopped), "enough");
    let hello = json!({ "role": "user", "parts": [{ "text": "hello" }] });
    assert_eq!(request_contents(&upstream)[0], [hello]);
}

#[tokio::test]
async fn context_is_added_to_all_calls_of_its_turn_and_to_no_other_turn() {
    let upstream = Upstream::mock().await;
    let output = json!({ "hookSpecificOutput": { "additionalContext": "today" } });
    let command = log_command("[\"prompt\"]", &output) + "; sed -i 's/x/x/' log";
    let only_first = format!("if grep -q . log 2>/dev/null; then echo '{{}}'; else {command}; fi");
    let config = hook::config(&[("BeforeAgent", hook::command("log", &only_first))]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("first");

    chat.send(&gate).await;
    let chat = chat
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));
    let answer = chat.send(&gate).await;
    chat.answer(&answer).user("second").send(&gate).await;

    let context = json!({ "text": "<hook_context>today</hook_context>" });
    let contents = request_contents(&upstream);
    for request in &contents[..2] {
        assert_eq!(request[0]["parts"], json!([{ "text": "first" }, context]));
    }
    assert_eq!(contents[2][0]["parts"], json!([{ "text": "first" }]));
}

#[tokio::test]
async fn a_tool_loop_is_no_new_turn() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[(
        "BeforeAgent",
        hook::command("log", &log_command("[\"prompt\"]", &json!({}))),
    )]);
    let gate = TestGateway::start(&upstream, &config).await;
    let chat = Chat::with_prompt("first");

    chat.send(&gate).await;
    let chat = chat
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "x" }));
    chat.send(&gate).await;
    chat.model("done").user("second").send(&gate).await;

    assert_eq!(log(&gate), ["first", "second"]);
}

#[tokio::test]
async fn helper_calls_of_gemini_cli_start_no_turn() {
    let upstream = Upstream::mock().await;
    let config = hook::config(&[(
        "BeforeAgent",
        hook::command("log", &log_command("[\"prompt\"]", &json!({}))),
    )]);
    let gate = TestGateway::start(&upstream, &config).await;
    let agent = gate.agent().sending(
        "user-agent",
        "GeminiCLI-tui/0.61.0/m (linux; x64; terminal)",
    );

    let body = json!({ "contents": [{ "role": "user", "parts": [{ "text": "Summarize" }] }] });
    agent.generate(MODEL, &body).await;

    assert_eq!(log(&gate), [Value::Null; 0]);
    assert_eq!(upstream.requests().len(), 1);
}

/// A gateway with a hook that denies prompts with `bad`.
pub(super) async fn denying_gate(upstream: &Upstream) -> TestGateway {
    let output = json!({ "decision": "deny", "reason": "not that" });
    TestGateway::start(upstream, &guard(&output)).await
}

/// The texts of the last request that upstream received.
pub(super) fn received_texts(upstream: &Upstream) -> Vec<String> {
    let contents = request_contents(upstream).pop().unwrap();
    let parts = contents
        .iter()
        .flat_map(|content| content["parts"].as_array().unwrap());
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_denied_prompt_that_an_unseen_history_has_twice_is_removed_twice() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let twice = Chat::with_prompt("bad idea")
        .model("not that")
        .user("bad idea")
        .model("not that");

    twice.user("hello").send(&gate).await;

    assert_eq!(log(&gate), ["bad idea", "bad idea", "hello"]);
    assert_eq!(received_texts(&upstream), ["hello"]);
}

#[tokio::test]
async fn a_prompt_behind_its_tool_calls_is_denied_if_an_unseen_history_has_it_before() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let chat = Chat::with_prompt("bad idea")
        .model("not that")
        .user("bad idea")
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "b" }));

    let denial = chat.send(&gate).await;

    assert_eq!(first_text(&denial), "not that");
    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn a_prompt_is_inspected_even_if_an_earlier_one_of_its_history_has_the_same_end() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let chat = Chat::with_prompt("continue")
        .model("A")
        .user_texts(&["bad idea", "continue"])
        .model("B");

    chat.user("go").send(&gate).await;

    assert_eq!(log(&gate), ["continue", "bad idea\n\ncontinue", "go"]);
    assert_eq!(received_texts(&upstream), ["continue", "A", "B", "go"]);
}

#[tokio::test]
async fn a_prompt_is_inspected_even_if_an_earlier_request_of_its_session_has_the_same_end() {
    let in_one_message = Chat::new().user_texts(&["bad idea", "continue"]);
    let in_two_messages = Chat::with_prompt("bad idea").user("continue");
    for chat in [in_one_message, in_two_messages] {
        let upstream = Upstream::mock().await;
        let gate = denying_gate(&upstream).await;

        let first = Chat::with_prompt("continue");
        first.send_in_session(&gate).await;
        chat.model("A").user("go").send_in_session(&gate).await;

        assert_eq!(log(&gate), ["continue", "bad idea\n\ncontinue", "go"]);
        assert!(!received_texts(&upstream).contains(&"bad idea".to_owned()));
    }
}

#[tokio::test]
async fn a_denial_does_not_apply_to_another_prompt_with_the_same_end() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let denied = Chat::new().user_texts(&["bad idea", "continue"]);
    let allowed = Chat::new()
        .user_texts(&["my file", "continue"])
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "b" }));

    denied.send_in_session(&gate).await;
    allowed.send_in_session(&gate).await;

    let seen = ["bad idea\n\ncontinue", "my file\n\ncontinue"];
    assert_eq!(log(&gate), seen);
    assert_eq!(received_texts(&upstream), ["my file", "continue"]);
}

#[tokio::test]
async fn a_denied_prompt_of_several_texts_is_inspected_once_if_its_history_is_rewritten() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let denied = Chat::new().user_texts(&["bad idea", "continue"]);
    denied.send_in_session(&gate).await;

    let rewritten = Chat::with_prompt("summary")
        .model("A")
        .user_texts(&["bad idea", "continue"])
        .model("not that");
    rewritten.user("go").send_in_session(&gate).await;

    assert_eq!(log(&gate), ["bad idea\n\ncontinue", "summary", "go"]);
    assert_eq!(received_texts(&upstream), ["summary", "A", "go"]);
}

#[tokio::test]
async fn unanswered_prompts_are_inspected_once_if_their_history_is_rewritten() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    let denied = Chat::with_prompt("bad idea");
    denied.send_in_session(&gate).await;
    let both = denied.user("hello");
    both.send_in_session(&gate).await;

    let rewritten = Chat::with_prompt("summary")
        .model("A")
        .user("bad idea")
        .user("hello")
        .model("B");
    rewritten.user("go").send_in_session(&gate).await;

    assert_eq!(log(&gate), ["bad idea", "hello", "summary", "go"]);
    let received = received_texts(&upstream);
    assert_eq!(received, ["summary", "A", "hello", "B", "go"]);
}

#[tokio::test]
async fn a_prompt_that_an_agent_extends_is_inspected_again_as_a_whole() {
    let upstream = Upstream::mock().await;
    let gate = denying_gate(&upstream).await;
    Chat::with_prompt("look").send_in_session(&gate).await;
    Chat::with_prompt("bad idea").send_in_session(&gate).await;

    let extended = Chat::new()
        .user_texts(&["look", "bad idea"])
        .call("read_file", &json!({}))
        .result("read_file", &json!({ "output": "b" }));
    let denial = extended.send_in_session(&gate).await;

    assert_eq!(log(&gate), ["look", "bad idea", "look\n\nbad idea"]);
    assert_eq!(first_text(&denial), "not that");
}

#[tokio::test]
async fn a_denied_prompt_stays_denied_behind_a_text_that_is_put_in_front_of_it() {
    let upstream = Upstream::mock().await;
    let output = json!({ "decision": "deny", "reason": "not that" });
    // The hook denies prompts that begin with `bad`.
    let config = guard(&output).replace("in p else", "== p[:3] else");
    let gate = TestGateway::start(&upstream, &config).await;
    let helper = gate
        .agent()
        .sending(
            "user-agent",
            "GeminiCLI-tui/0.61.0/m (linux; x64; terminal)",
        )
        .sending("x-hookgate-session", "mine");
    let in_one_message = Chat::new().user_texts(&["summary", "bad idea"]);
    let in_two_messages = Chat::with_prompt("summary").user("bad idea");

    Chat::with_prompt("bad idea").send_in_session(&gate).await;
    for chat in [in_one_message, in_two_messages] {
        let body = json!({ "contents": chat.contents });
        helper.generate(MODEL, &body).await;
        let rewritten = chat.model("not that").user("go");
        rewritten.send_in_session(&gate).await;
    }

    assert!(upstream.requests().len() >= 2);
    for request in upstream.requests() {
        assert!(!request.body.contains("bad idea"), "{}", request.body);
    }
}

#[tokio::test]
async fn context_of_prompts_counts_against_the_memory_limit() {
    let upstream = Upstream::mock().await;
    let context = json!({ "hookSpecificOutput": { "additionalContext": "x".repeat(2000) } });
    let hooks = hook::config(&[("BeforeAgent", hook::printing("long", &context))]);
    let limits = "limits: { body: 64KiB, memory: 64KiB }";
    let gate = TestGateway::start(&upstream, &format!("{limits}\n{hooks}")).await;
    let mut chat = Chat::new();
    for number in 0..40 {
        chat = chat.user(&format!("question {number}")).model("answer");
    }

    let answer = gate
        .agent()
        .generate(MODEL, &chat.user("last").body())
        .await;

    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(upstream.requests().is_empty());
}
