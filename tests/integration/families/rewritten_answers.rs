//! Answers that are written anew, because they follow a denied call or a policy masks a stream
//! that it has received whole.

use serde_json::{Value, json};

use super::{
    SECRET,
    family::{Family, Part, Turn, events},
};
use crate::harness::{Answer, Upstream, hook, respond};

/// Reason why an answer is written anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It is joined with an earlier answer, whose call is denied.
    Joined,
    /// A buffered stream with a secret is masked.
    Masked,
    /// A stream is masked that follows an answer with a denied call.
    MaskedBehindDenial,
}

const CAUSES: [Cause; 3] = [Cause::Joined, Cause::Masked, Cause::MaskedBehindDenial];

impl Cause {
    const fn is_stream(self) -> bool {
        matches!(self, Self::Masked | Self::MaskedBehindDenial)
    }
}

/// The answer that an agent receives if the model answers with `body`, or with these events. In
/// front of it may be an answer with a denied call.
async fn ask(family: Family, cause: Cause, body: Value, stream: String) -> Answer {
    let denied = [Part::text(&["I try"]), Part::call("rm", "/")];
    let upstream = Upstream::with(move |asked| {
        let is_first = cause != Cause::Masked && !asked.body.contains("not here");
        if cause.is_stream() {
            let denied = is_first.then(|| family.events(&denied));
            let events = denied.unwrap_or_else(|| stream.clone());
            return respond(200, "text/event-stream", events);
        }
        let denied = is_first.then(|| family.whole(&denied));
        let body = denied.as_ref().unwrap_or(&body);
        respond(200, "application/json", body.to_string())
    })
    .await;
    let guard = "{ policy: tool_guard, deny: [rm], reason: not here }";
    let redact = "{ policy: redact, detect: [aws_key] }";
    let config = format!("after_model: buffered\npolicies: [{guard}, {redact}]\n");
    let gateway = family.gateway(&upstream, &config).await;
    let answer = family
        .ask(&gateway, cause.is_stream(), &[Turn::User("hi")])
        .await;
    assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
    answer
}

/// The documents of an answer: one body, or the data of each event.
fn documents(cause: Cause, answer: &Answer) -> Vec<Value> {
    if !cause.is_stream() {
        return vec![answer.json()];
    }
    let data = events(answer).into_iter();
    data.filter_map(|(_, data)| serde_json::from_str(&data).ok())
        .collect()
}

fn masked(value: &Value) -> Value {
    let text = value.to_string().replace(SECRET, "[REDACTED:aws_key]");
    serde_json::from_str(&text).unwrap()
}

/// A response with settings and counts that are not the usual ones.
fn response(output: &Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m",
        "error": null, "incomplete_details": null, "instructions": "be kind", "metadata": {},
        "output": output, "parallel_tool_calls": false, "store": true, "temperature": 0.2,
        "tool_choice": "auto", "tools": [{ "type": "function", "name": "look" }], "top_p": 0.5,
        "usage": {
            "input_tokens": 30, "input_tokens_details": { "cached_tokens": 20 },
            "output_tokens": 4, "output_tokens_details": { "reasoning_tokens": 1 },
            "total_tokens": 34,
        },
    })
}

/// A stream of the Responses API with complete items.
fn response_events(response: &Value) -> String {
    let mut started = response.clone();
    (started["status"], started["output"]) = ("in_progress".into(), json!([]));
    started["usage"] = Value::Null;
    let mut sent = vec![json!({ "type": "response.created", "response": started })];
    for (index, item) in response["output"].as_array().unwrap().iter().enumerate() {
        for name in ["added", "done"] {
            let name = format!("response.output_item.{name}");
            sent.push(json!({ "type": name, "output_index": index, "item": item }));
        }
    }
    sent.push(json!({ "type": "response.completed", "response": response }));
    let sent = sent.iter().map(|event| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    });
    sent.collect()
}

/// The response that an agent receives for these items, and the one with which it begins.
async fn receive(cause: Cause, output: &Value) -> (Value, Value) {
    let response = response(output);
    let stream = response_events(&response);
    let answer = ask(Family::Responses, cause, response, stream).await;
    let documents = documents(cause, &answer);
    let response_of = |document: Option<&Value>| {
        let document = document.unwrap();
        document.get("response").unwrap_or(document).clone()
    };
    let (first, last) = (documents.first(), documents.last());
    (response_of(last), response_of(first))
}

fn message(text: &str) -> Value {
    let block = json!({ "type": "output_text", "text": text, "annotations": [] });
    json!({ "type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [block] })
}

#[tokio::test]
async fn calls_of_a_response_keep_their_safety_checks_and_their_caller() {
    let reason = format!("it asks for {SECRET}");
    let check = json!({ "id": "sc_1", "code": "malicious_instructions", "message": reason });
    let calls = [
        json!({ "type": "computer_call", "id": "cc_1", "call_id": "c1", "status": "completed",
            "actions": [{ "type": "screenshot" }], "pending_safety_checks": [check] }),
        json!({ "type": "function_call", "id": "fc_1", "call_id": "c2", "status": "completed",
            "name": "look", "arguments": "{}", "agent": { "agent_name": "a" },
            "caller": { "type": "program", "caller_id": "cp" } }),
    ];
    for cause in CAUSES {
        let [computer, function] = &calls;
        let output = json!([message(SECRET), computer, function]);

        let (response, _) = receive(cause, &output).await;

        let received = response["output"].as_array().unwrap();
        for call in &calls {
            let mut received = received.iter();
            let found = received.find(|item| item["call_id"] == call["call_id"]);
            assert_eq!(found, Some(&masked(call)), "{cause:?}");
        }
    }
}

#[tokio::test]
async fn a_response_keeps_its_settings_and_its_token_counts() {
    for cause in CAUSES {
        let (mut last, first) = receive(cause, &json!([message(SECRET)])).await;

        assert!(last.to_string().contains("REDACTED"), "{cause:?}: {last}");
        last["output"] = json!([]);
        assert_eq!(last, response(&json!([])), "{cause:?}");
        if cause == Cause::Masked {
            (last["status"], last["usage"]) = ("in_progress".into(), Value::Null);
            assert_eq!(first, last, "{cause:?}");
        }
    }
}

/// The last token counts that an agent receives if the model reports these.
async fn counts(family: Family, cause: Cause, usage: &Value) -> Value {
    let parts = [Part::text(&["key ", SECRET])];
    let mut body = family.whole(&parts);
    body["usage"] = usage.clone();
    let stream = family.events(&parts);
    let counts = if family == Family::Chat {
        let event = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
            "model": "m", "choices": [], "usage": usage });
        stream.replace("data: [DONE]", &format!("data: {event}\n\ndata: [DONE]"))
    } else {
        stream.replace(r#"{"output_tokens":4}"#, &usage.to_string())
    };
    let answer = ask(family, cause, body, counts).await;
    let documents = documents(cause, &answer);
    let mut usages = documents.iter().rev().map(|document| &document["usage"]);
    usages.find(|usage| !usage.is_null()).unwrap().clone()
}

#[tokio::test]
async fn a_completion_keeps_the_details_of_its_token_counts() {
    let usage = json!({
        "prompt_tokens": 30, "prompt_tokens_details": { "cached_tokens": 20 },
        "completion_tokens": 4, "completion_tokens_details": { "reasoning_tokens": 1 },
        "total_tokens": 34,
    });
    for cause in CAUSES {
        assert_eq!(
            counts(Family::Chat, cause, &usage).await,
            usage,
            "{cause:?}"
        );
    }
}

#[tokio::test]
async fn a_message_keeps_the_details_of_its_token_counts() {
    let iterations = json!([
        { "type": "compaction", "input_tokens": 180_000, "output_tokens": 3500 },
        { "type": "message", "input_tokens": 30, "output_tokens": 4,
            "cache_creation": { "ephemeral_5m_input_tokens": 0 } },
    ]);
    let usage = json!({
        "input_tokens": 30, "output_tokens": 4, "server_tool_use": { "web_search_requests": 2 },
        "iterations": iterations,
    });
    for cause in CAUSES {
        let counts = counts(Family::Anthropic, cause, &usage).await;
        assert_eq!(counts, usage, "{cause:?}");
    }
}

#[tokio::test]
async fn further_candidates_of_a_hook_are_left_out_where_an_answer_has_one() {
    let candidate = |text: &str| json!({ "content": { "role": "model", "parts": [text] } });
    let answer = hook::response(&json!({ "candidates": [candidate("one"), candidate("two")] }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("answer", &answer))]);
    for family in [Family::Anthropic, Family::Responses] {
        let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        for is_stream in [false, true] {
            let answer = family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

            assert_eq!(family.parse(is_stream, &answer).text, "one", "{family:?}");
            assert!(!answer.text().contains("two"), "{}", answer.text());
        }
        assert!(upstream.requests().is_empty());
    }
}
