//! Streams of compatible servers, which number items and blocks otherwise than the API.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    DENY_RM, answering, ask, completed, created, events, gateway, message, stream, streaming, text,
    unindexed_events::piece,
};
use crate::harness::{Upstream, hook, respond};

const LLAMA_CALL: &str = r#"{"path":"/tmp/ann@example.com"}"#;

/// Events of llama.cpp: no index, no id of a call, and items that end behind the last piece.
fn llama_cpp_stream() -> Vec<Value> {
    let reasoning = |text: &[&str]| {
        let content = text.iter();
        let content = content.map(|text| json!({ "type": "reasoning_text", "text": text }));
        json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "",
            "content": content.collect::<Vec<_>>() })
    };
    let message = |content: Value| {
        json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": content })
    };
    let call = |id: &str, name: &str, arguments: &str| {
        json!({ "type": "function_call", "call_id": id, "name": name, "status": "completed",
            "arguments": arguments })
    };
    let added = |item: Value| json!({ "type": "response.output_item.added", "item": item });
    let done = |item: &Value| json!({ "type": "response.output_item.done", "item": item });
    let delta = |name: &str, id: &str, delta: &str| json!({ "type": format!("response.{name}.delta"), "item_id": id, "delta": delta });
    let text = "to ann@example.com";
    let block = json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": text });
    let output = [
        reasoning(&["ask ann@example.com"]),
        message(json!([block])),
        call("fc_a", "read", LLAMA_CALL),
        call("fc_b", "rm", "{}"),
    ];
    let mut sent = vec![
        created(),
        added(reasoning(&[])),
        delta("reasoning_text", "rs_1", "ask ann@"),
        delta("reasoning_text", "rs_1", "example.com"),
        added(message(json!([]))),
        json!({ "type": "response.content_part.added", "item_id": "msg_1",
            "part": { "type": "output_text", "text": "" } }),
        delta("output_text", "msg_1", "to ann@"),
        delta("output_text", "msg_1", "example.com"),
        added(call("fc_a", "read", "")),
        delta("function_call_arguments", "fc_a", &LLAMA_CALL[..9]),
        delta("function_call_arguments", "fc_a", &LLAMA_CALL[9..]),
        added(call("fc_b", "rm", "")),
        delta("function_call_arguments", "fc_b", "{}"),
        done(&output[0]),
        json!({ "type": "response.output_text.done", "item_id": "msg_1", "text": text }),
        json!({ "type": "response.content_part.done", "item_id": "msg_1", "part": block }),
    ];
    sent.extend(output[1..].iter().map(done));
    let mut end = completed(&json!(output));
    end["response"]["id"] = "r".into();
    sent.push(end);
    sent
}

/// A model API that streams these events without numbers, and then a text.
async fn server(first: &[Value]) -> Upstream {
    let then = [
        created(),
        piece("done"),
        completed(&json!([message("done")])),
    ];
    let [first, then] = [first, &then].map(|events| {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        events.collect::<String>()
    });
    Upstream::with(move |asked| {
        let is_second = asked.body.contains("_output\"");
        let events = if is_second { &then } else { &first };
        respond(200, "text/event-stream", events.clone())
    })
    .await
}

fn without_index(event: &Value) -> Value {
    let mut event = event.clone();
    event.as_object_mut().unwrap().remove("output_index");
    event
}

#[tokio::test]
async fn events_of_llama_cpp_have_the_indexes_of_their_items() {
    let sent = llama_cpp_stream();
    let upstream = server(&sent).await;
    let look = hook::config(&[("AfterModel", hook::command("look", "cat >> seen"))]);
    let gateway = gateway(&upstream, &look).await;

    let body = json!({ "model": "m", "input": "hello", "stream": true });
    let answer = ask(&gateway, &body).await;

    // The events of a call are sent when it is complete.
    let (received, sent) = (events(&answer), sent.iter());
    let indexes = received
        .iter()
        .filter_map(|event| event["output_index"].as_u64());
    let expected = [0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3];
    assert_eq!(indexes.collect::<Vec<_>>(), expected, "{}", answer.text());
    let sorted = |events: Vec<String>| events.into_iter().collect::<BTreeSet<_>>();
    let received = received
        .iter()
        .map(|event| without_index(event).to_string());
    let expected = sorted(sent.map(Value::to_string).collect());
    assert_eq!(sorted(received.collect()), expected);
}

#[tokio::test]
async fn texts_of_llama_cpp_are_masked() {
    let upstream = server(&llama_cpp_stream()).await;
    for mode in ["chunk", "buffered"] {
        let config = format!("after_model: {mode}\npolicies: [{{ policy: redact }}]\n");
        let gateway = gateway(&upstream, &config).await;

        let body = json!({ "model": "m", "input": "hello", "stream": true });
        let answer = ask(&gateway, &body).await;

        let (_, response) = stream(&answer);
        assert!(!answer.text().contains("ann@"), "{mode}: {}", answer.text());
        let items = response["output"].as_array().unwrap();
        let of_type = |name: &str| items.iter().find(|item| item["type"] == name).unwrap();
        let text = &of_type("message")["content"][0]["text"];
        assert_eq!(text, "to [REDACTED:email]", "{mode}: {response}");
        let arguments = &of_type("function_call")["arguments"];
        let expected = r#"{"path":"/tmp/[REDACTED:email]"}"#;
        assert_eq!(arguments, expected, "{mode}: {response}");
    }
}

#[tokio::test]
async fn calls_of_llama_cpp_are_guarded() {
    let upstream = server(&llama_cpp_stream()).await;
    let gateway = gateway(&upstream, DENY_RM).await;

    let body = json!({ "model": "m", "input": "hello", "stream": true });
    let answer = ask(&gateway, &body).await;

    let (_, response) = stream(&answer);
    assert!(
        !answer.text().contains("function_call"),
        "{}",
        answer.text()
    );
    assert!(text(&response).ends_with("done"), "{response}");
    let returned = upstream.requests()[1].body.clone();
    assert!(returned.contains("not here"), "{returned}");
}

/// The events of an item with one text, of which `numbers` are the indexes of item and block.
fn text_item(kind: &str, id: &str, numbers: [u64; 2], pieces: &[&str]) -> Vec<Value> {
    let text = pieces.concat();
    let (block, name) = match kind {
        "reasoning" => ("summary_text", "reasoning_summary"),
        _ => ("output_text", "output"),
    };
    let block = json!({ "type": block, "text": text });
    let list = if kind == "reasoning" {
        "summary"
    } else {
        "content"
    };
    let item =
        |blocks: &[&Value]| json!({ "type": kind, "id": id, "role": "assistant", list: blocks });
    let event = |name: &str, field: &str, value: Value| {
        let mut event = json!({ "type": format!("response.{name}"), "output_index": numbers[0],
            field: value });
        if field != "item" {
            event["item_id"] = id.into();
            event[format!("{list}_index")] = numbers[1].into();
        }
        event
    };
    let deltas = pieces.iter();
    let deltas = deltas.map(|piece| event(&format!("{name}_text.delta"), "delta", json!(piece)));
    let mut sent = vec![event("output_item.added", "item", item(&[]))];
    sent.extend(deltas);
    sent.push(event(&format!("{name}_text.done"), "text", json!(text)));
    sent.push(event("output_item.done", "item", item(&[&block])));
    sent
}

fn call_item(index: u64) -> Vec<Value> {
    let item = |arguments: &str| {
        json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read",
            "status": "completed", "arguments": arguments })
    };
    let event = |name: &str, field: &str, value: Value| {
        json!({ "type": format!("response.{name}"), "output_index": index, "item_id": "fc_1",
            field: value })
    };
    vec![
        event("output_item.added", "item", item("")),
        event("function_call_arguments.delta", "delta", json!("{}")),
        event("output_item.done", "item", item("{}")),
    ]
}

const MAIL: &[&str] = &["to ann@", "example.com", " now"];
const MASKED: &str = "to [REDACTED:email] now";

/// Answers of servers, with the texts and calls in them.
fn numbered_answers() -> Vec<(&'static str, Vec<Value>, Value)> {
    let item = |events: &[Value]| events.last().unwrap()["item"].clone();
    let mut ollama = text_item("message", "msg_1", [0, 0], MAIL);
    ollama.truncate(1 + MAIL.len());
    let call = call_item(0);
    let ollama_output = json!([item(&call)]);
    ollama.extend(call);

    let reasoning = text_item("reasoning", "rs_1", [0, 0], MAIL);
    let mut litellm: Vec<Value> = reasoning.clone();
    for event in &mut litellm {
        // Pieces have no index of the summary.
        if event["delta"].is_string() {
            event.as_object_mut().unwrap().remove("summary_index");
        }
    }
    let mut message = text_item("message", "msg_1", [0, 0], MAIL);
    let litellm_output = json!([item(&reasoning), item(&message)]);
    let part = json!({ "type": "reasoning_text", "reasoning": MAIL.concat() });
    let part = json!({ "type": "response.content_part.done", "item_id": "msg_1",
        "output_index": 0, "content_index": 0, "part": part });
    message.insert(message.len() - 1, part);
    litellm.extend(message.into_iter().skip(1));

    let mut vllm = text_item("reasoning", "rs_1", [0, 0], MAIL);
    vllm.extend(text_item("message", "msg_1", [1, 1], MAIL));
    let mut other_ids = text_item("message", "msg_1", [0, 0], MAIL);
    for (number, event) in other_ids.iter_mut().enumerate() {
        if !event["item_id"].is_null() {
            event["item_id"] = format!("chunk_{number}").into();
        }
    }
    let other_ids = [reasoning, other_ids].concat();
    vec![
        ("one index and other ids", other_ids, litellm_output.clone()),
        ("ollama", ollama, ollama_output),
        ("litellm", litellm, litellm_output.clone()),
        ("vllm", vllm, litellm_output),
    ]
}

#[tokio::test]
async fn items_of_servers_with_other_numbers_are_read_by_their_ids() {
    let look = hook::config(&[("AfterModel", hook::command("look", "cat >> seen"))]);
    let redact = "policies: [{ policy: redact }]\n".to_owned();
    for (server, events_of_items, output) in numbered_answers() {
        let mut sent = vec![created()];
        sent.extend(events_of_items);
        sent.push(completed(&output));
        let upstream = self::server(&sent).await;
        for (config, expected) in [(&look, MAIL.concat()), (&redact, MASKED.to_owned())] {
            let gateway = gateway(&upstream, config).await;

            let body = json!({ "model": "m", "input": "hello", "stream": true });
            let answer = ask(&gateway, &body).await;

            let (_, response) = stream(&answer);
            let pieces = |name: &str| -> String {
                let is_it = |event: &&Value| event["type"] == format!("response.{name}.delta");
                let received = events(&answer);
                let pieces = received.iter().filter(is_it);
                pieces.filter_map(|event| event["delta"].as_str()).collect()
            };
            assert_eq!(
                pieces("output_text"),
                expected,
                "{server}: {}",
                answer.text()
            );
            assert_eq!(text(&response), expected, "{server}: {response}");
            let items = response["output"].as_array().unwrap();
            assert_eq!(items.len(), 2, "{server}: {response}");
            let thought = pieces("reasoning_summary_text");
            if server == "ollama" {
                assert_eq!(items[1]["name"], "read", "{response}");
            } else {
                assert_eq!(thought, expected, "{server}: {}", answer.text());
                assert_eq!(items[0]["summary"][0]["text"], expected, "{response}");
            }
        }
    }
}

#[tokio::test]
async fn a_thought_in_place_of_encrypted_content_is_masked() {
    let redact = "policies: [{ policy: redact, detect: [email] }]\n";
    for thought in ["mail ann@example.com it", "ann@example.com"] {
        let summary = json!([{ "type": "summary_text", "text": thought }]);
        let item = json!({ "id": "rs_1", "type": "reasoning", "summary": summary,
            "encrypted_content": thought });
        let start = json!({ "id": "rs_1", "type": "reasoning", "summary": [] });
        let output = json!([item, message("ok")]);
        let events = [
            created(),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": start }),
            json!({ "type": "response.reasoning_summary_text.delta", "item_id": "rs_1",
                "output_index": 0, "summary_index": 0, "delta": thought }),
            json!({ "type": "response.reasoning_summary_text.done", "item_id": "rs_1",
                "output_index": 0, "summary_index": 0, "text": thought }),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
            json!({ "type": "response.output_item.done", "output_index": 1, "item": message("ok") }),
            json!({ "type": "response.completed",
                "response": { "id": "r", "status": "completed", "output": output } }),
        ];
        let masked = thought.replace("ann@example.com", "[REDACTED:email]");
        for mode in ["", "after_model: buffered\n"] {
            let config = format!("{redact}{mode}");
            let upstream = streaming(&events).await;
            let streamed = gateway(&upstream, &config).await;
            let body = json!({ "model": "m", "input": "hello", "stream": true });
            let streamed = ask(&streamed, &body).await;
            let upstream = answering([output.clone(), output.clone()]).await;
            let whole = gateway(&upstream, &config).await;
            let whole = ask(&whole, &json!({ "model": "m", "input": "hello" })).await;

            for answer in [&streamed, &whole] {
                let text = answer.text();
                assert!(!text.contains("ann@example.com"), "{mode}: {text}");
            }
            let (_, streamed) = stream(&streamed);
            let answers = [streamed, whole.json()].into_iter();
            // A buffered stream has no reasoning but that of a call.
            let answers = answers.skip(usize::from(!mode.is_empty()));
            let reasoning = answers.map(|mut answer| answer["output"][0].take());
            for mut reasoning in reasoning {
                let copy = reasoning["encrypted_content"].take();
                let thought = reasoning["summary"][0]["text"].take();
                assert_eq!(
                    (&thought, &copy),
                    (&json!(masked), &json!(masked)),
                    "{mode}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_item_of_the_last_event_is_sent_though_an_event_had_its_id() {
    let search = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed",
        "action": { "type": "search", "query": "ann@example.com" } });
    let searching = json!({ "type": "response.web_search_call.in_progress", "item_id": "ws_1",
        "output_index": 0 });
    let end = completed(&json!([search, message("to ann@example.com now")]));
    let upstream = streaming(&[created(), searching, end]).await;
    let gateway = gateway(&upstream, "policies: [{ policy: redact }]\n").await;

    let body = json!({ "model": "m", "input": "hello", "stream": true });
    let answer = ask(&gateway, &body).await;

    let (_, response) = stream(&answer);
    assert_eq!(
        response["output"][0]["type"], "web_search_call",
        "{response}"
    );
    assert_eq!(text(&response), MASKED, "{response}");
    assert!(!answer.text().contains("ann@"), "{}", answer.text());
}
