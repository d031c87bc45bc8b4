//! Blocks and fields of the Messages API that edits empty, that hold further texts, or that only
//! some methods have.

use serde_json::{Value, json};

use super::{
    REDACT, SECRET,
    family::{self, Family, Part, Turn},
};
use crate::harness::{Answer, End, TestGateway, Upstream, hook, read_to_end, respond};

const FAMILY: Family = Family::Anthropic;

/// Sends a request. Returns what upstream received.
async fn forwarded(config: &str, path: &str, request: &Value) -> Value {
    let upstream = FAMILY.upstream(vec![vec![Part::text(&["ok"])]]).await;
    let gateway: TestGateway = FAMILY.gateway(&upstream, config).await;
    let agent = gateway.agent().sending("anthropic-version", "2023-06-01");
    agent.post(path, request.to_string()).await;
    upstream.only_request().json()
}

fn request(turns: &[Turn<'_>]) -> Value {
    FAMILY.request(false, turns)
}

#[tokio::test]
async fn a_text_block_that_masking_empties_is_removed_and_its_cache_mark_moves() {
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let mark = json!({ "type": "ephemeral" });
    let mut body = request(&[Turn::User("")]);
    body["messages"][0]["content"] = json!([
        { "type": "text", "text": "mail jo@exam" },
        { "type": "text", "text": "ple.com", "cache_control": mark },
    ]);
    let sent = forwarded(config, "/v1/messages", &body).await;
    let text = "mail [REDACTED:email]";
    assert_eq!(
        sent["messages"][0]["content"],
        json!([{ "type": "text", "text": text, "cache_control": mark }])
    );
}

#[tokio::test]
async fn a_secret_over_passages_of_a_document_is_masked() {
    let config = "policies: [{ policy: redact, detect: [email] }]\n";
    let text = |text: &str| json!({ "type": "text", "text": text });
    let blocks = |passages: Value| {
        let document = json!({ "type": "content", "content": passages });
        json!([
            { "type": "document", "source": document, "title": "t" },
            { "type": "search_result", "source": "s", "title": "t", "content": passages },
        ])
    };
    let body = |passages: Value| {
        let mut body = request(&[
            Turn::User(""),
            Turn::Call("look", "a"),
            Turn::Result("look", ""),
        ]);
        body["messages"][0]["content"] = blocks(passages.clone());
        body["messages"][2]["content"][0]["content"] = blocks(passages);
        body
    };

    let split = json!([text("mail jo@exam"), text("ple.com"), text(" end")]);
    let sent = forwarded(config, "/v1/messages", &body(split)).await;

    let masked = body(json!([text("mail [REDACTED:email]"), text(" end")]));
    assert_eq!(sent["messages"], masked["messages"]);
}

#[tokio::test]
async fn a_message_that_a_hook_empties_is_removed() {
    let messages = json!([
        { "role": "user", "content": "one" },
        { "role": "model", "content": "" },
        { "role": "user", "content": "two" },
    ]);
    let edit = hook::request(&json!({ "messages": messages }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
    let turns = [Turn::User("one"), Turn::Model("no"), Turn::User("two")];
    let sent = forwarded(&hooks, "/v1/messages", &request(&turns)).await;
    let expected = json!([
        { "role": "user", "content": "one" },
        { "role": "user", "content": "two" },
    ]);
    assert_eq!(sent["messages"], expected);
}

#[tokio::test]
async fn a_message_whose_text_is_emptied_does_not_end_with_thinking() {
    let messages = json!([
        { "role": "user", "content": "one" },
        { "role": "model", "content": "" },
        { "role": "user", "content": "two" },
        { "role": "model", "content": " " },
    ]);
    let edit = hook::request(&json!({ "messages": messages }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": "s" });
    let hidden = json!({ "type": "redacted_thinking", "data": "d" });
    let text = json!({ "type": "text", "text": "no" });
    let mut body = request(&[Turn::User("one"), Turn::Model("no"), Turn::User("two")]);
    body["messages"][1]["content"] = json!([thinking, hidden, text]);
    let sent = forwarded(&hooks, "/v1/messages", &body).await;
    let expected = json!([
        { "role": "user", "content": "one" },
        { "role": "user", "content": "two" },
    ]);
    assert_eq!(sent["messages"], expected);
}

#[tokio::test]
async fn texts_beside_the_text_of_blocks_are_masked() {
    let citation = json!({ "type": "char_location", "cited_text": SECRET, "document_title": "t" });
    let text = json!({ "type": "text", "text": "hi", "citations": [citation] });
    let mut body = request(&[
        Turn::User("hi"),
        Turn::Call("look", "a"),
        Turn::Result("look", "b"),
    ]);
    body["context_management"] =
        json!({ "edits": [{ "type": "compact_20260112", "instructions": SECRET }] });
    body["messages"][0]["content"] = json!([text]);
    body["messages"][0]["note"] = json!(SECRET);
    body["messages"][1]["content"][0]["note"] = json!({ "type": SECRET });
    body["messages"][2]["content"][0]["note"] = json!([SECRET]);
    body["messages"][2]["content"][0]["content"] = json!([text]);
    let sent = forwarded(REDACT, "/v1/messages", &body).await;
    let masked = body.to_string().replace(SECRET, "[REDACTED:aws_key]");
    assert_eq!(sent, serde_json::from_str::<Value>(&masked).unwrap());
}

#[tokio::test]
async fn unknown_fields_of_system_messages_and_tool_changes_are_masked() {
    let mut body = request(&[Turn::User("hi")]);
    let definition = json!({ "name": "f", "input_schema": {} });
    let addition = json!({ "type": "tool_definition", "definition": definition });
    let removal = json!({ "type": "tool_reference", "name": "f" });
    let system = json!({ "role": "system", "note": { "type": SECRET }, "content": [
        { "type": "text", "text": SECRET },
        { "type": "tool_addition", "tool": addition, "note": SECRET },
        { "type": "tool_removal", "tool": removal, "note": [SECRET], "tool_name": SECRET },
    ] });
    let text = json!({ "role": "system", "content": "s", "note": SECRET });
    body["messages"]
        .as_array_mut()
        .unwrap()
        .extend([text, system]);
    let sent = forwarded(REDACT, "/v1/messages", &body).await;
    let masked = body.to_string().replace(SECRET, "[REDACTED:aws_key]");
    assert_eq!(sent, serde_json::from_str::<Value>(&masked).unwrap());
}

#[tokio::test]
async fn masked_changes_of_a_withheld_tool_are_removed() {
    let addition = |name: &str| {
        let definition = json!({ "name": name, "description": SECRET });
        let tool = json!({ "type": "tool_definition", "definition": definition });
        json!({ "type": "tool_addition", "tool": tool, "note": SECRET })
    };
    let summary = |content: &str, tools: &[&str]| {
        let changes: Vec<Value> = tools.iter().map(|name| addition(name)).collect();
        json!({ "type": "compaction", "content": content, "tool_changes": changes })
    };
    let mut body = request(&[Turn::User("hi"), Turn::Model(""), Turn::User("go")]);
    body["messages"][1]["content"] = json!([summary("so far", &["a", "evil", "b"])]);
    let changes = json!([addition("evil"), { "type": "text", "text": SECRET }]);
    let system = json!({ "role": "system", "content": changes });
    body["messages"].as_array_mut().unwrap().push(system);
    let config = "policies:
  - { policy: tool_guard, deny: [evil] }
  - { policy: redact, detect: [aws_key] }\n";
    let sent = forwarded(config, "/v1/messages", &body).await;
    let expected = json!([summary("so far", &["a", "b"])]);
    let masked = expected.to_string().replace(SECRET, "[REDACTED:aws_key]");
    assert_eq!(sent["messages"][1]["content"].to_string(), masked);
    let expected = json!([{ "type": "text", "text": "[REDACTED:aws_key]" }]);
    assert_eq!(sent["messages"][3]["content"], expected);

    // The model may compact the history itself.
    let message = json!({
        "id": "m", "type": "message", "role": "assistant", "model": "m",
        "content": [summary(SECRET, &["a", "b"])], "stop_reason": "compaction",
        "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 },
    });
    let upstream = Upstream::answering(&message).await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    let answer = FAMILY.ask(&gateway, false, &[Turn::User("hi")]).await;
    let masked = message.to_string().replace(SECRET, "[REDACTED:aws_key]");
    assert_eq!(
        answer.json(),
        serde_json::from_str::<Value>(&masked).unwrap()
    );
}

#[tokio::test]
async fn the_citations_of_a_denied_result_reach_no_model() {
    let hooks = hook::config(&[("AfterTool", hook::denying("guard", "hidden"))]);
    let mut body = request(&[
        Turn::User("hi"),
        Turn::Call("look", "a"),
        Turn::Result("look", "b"),
    ]);
    let citation = json!({ "type": "char_location", "cited_text": SECRET });
    let mark = json!({ "type": "ephemeral" });
    let text =
        json!({ "type": "text", "text": SECRET, "citations": [citation], "cache_control": mark });
    body["messages"][2]["content"][0]["content"] = json!([text]);
    let sent = forwarded(&hooks, "/v1/messages", &body).await;
    let block = &sent["messages"][2]["content"][0]["content"][0];
    assert_eq!(block["cache_control"], mark, "{sent}");
    assert!(block["text"].as_str().unwrap().contains("hidden"), "{sent}");
    assert!(!sent.to_string().contains(SECRET), "{sent}");
}

#[tokio::test]
async fn generation_parameters_are_not_added_to_a_token_count() {
    let edit = hook::request(&json!({ "config": { "temperature": 0, "maxOutputTokens": 500 } }));
    let hooks = hook::config(&[("BeforeModel", hook::printing("edit", &edit))]);
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let sent = forwarded(&hooks, "/v1/messages/count_tokens", &body).await;
    assert_eq!(sent, body);
}

#[tokio::test]
async fn pieces_of_blocks_are_no_blocks_of_a_buffered_stream() {
    let citation = json!({ "type": "char_location", "cited_text": "c" });
    let piece = json!({ "type": "citations_delta", "citation": citation });
    let piece = json!({ "type": "content_block_delta", "index": 0, "delta": piece });
    let unknown = json!({ "type": "unknown_event", "index": 0 });
    let added = format!(
        "event: content_block_delta\ndata: {piece}\n\nevent: unknown_event\ndata: {unknown}\n\n"
    );
    let stop = "event: content_block_stop";
    let events = FAMILY.events(&[Part::text(&["key ", SECRET])]);
    let events = events.replacen(stop, &format!("{added}{stop}"), 1);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let config = format!("after_model: buffered\n{REDACT}");
    let gateway = FAMILY.gateway(&upstream, &config).await;
    let answer = FAMILY.ask(&gateway, true, &[Turn::User("hi")]).await;
    assert_eq!(
        FAMILY.parse(true, &answer).text,
        "key [REDACTED:aws_key]",
        "{}",
        answer.text()
    );
    for kind in ["citations_delta", "unknown_event"] {
        assert!(!answer.text().contains(kind), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_compaction_is_whole_in_a_buffered_stream() {
    let begun = json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "compaction", "content": null } });
    let piece = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "compaction_delta", "content": "So far", "encrypted_content": "E" } });
    let ended = json!({ "type": "content_block_stop", "index": 0 });
    let compaction = [begun, piece, ended];
    let added: Vec<String> = compaction
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    let events = FAMILY.events(&[Part::text(&["key ", SECRET])]);
    let events = events.replace("\"index\":0", "\"index\":1");
    let start = "event: content_block_start";
    let events = events.replacen(start, &format!("{}{start}", added.concat()), 1);
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
    let gateway = FAMILY
        .gateway(&upstream, &format!("after_model: buffered\n{REDACT}"))
        .await;

    let answer = FAMILY.ask(&gateway, true, &[Turn::User("hi")]).await;

    let received = family::events(&answer).into_iter();
    let received = received.map(|(_, data)| serde_json::from_str::<Value>(&data).unwrap());
    let of_compaction: Vec<Value> = received.filter(|event| event["index"] == 0).collect();
    assert_eq!(of_compaction, compaction, "{}", answer.text());
    assert!(
        answer.text().contains("[REDACTED:aws_key]"),
        "{}",
        answer.text()
    );
}

/// Sends a request for a stream, which upstream answers with this JSON.
async fn answered_whole(body: &Value) -> Answer {
    let upstream = Upstream::answering(body).await;
    let gateway = FAMILY.gateway(&upstream, REDACT).await;
    FAMILY.ask(&gateway, true, &[Turn::User("hi")]).await
}

/// A message with blocks of each kind.
fn whole_message() -> Value {
    let citation = json!({ "type": "char_location", "cited_text": "c" });
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "redacted_thinking", "data": "d" },
            { "type": "text", "text": "hello", "citations": [citation] },
            { "type": "server_tool_use", "id": "s", "name": "web_search", "input": { "q": 1.0 } },
            { "type": "web_search_tool_result", "tool_use_id": "s", "content": [] },
            { "type": "tool_use", "id": "t", "name": "look", "input": { "x": 1.0 } },
            { "type": "compaction", "content": "so far", "encrypted_content": "E" },
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "container": { "id": "c" },
        "usage": { "input_tokens": 5, "output_tokens": 3 },
    })
}

/// The events of a block that begins as `block`.
fn block_events(index: u64, block: &Value, deltas: &[Value]) -> Vec<Value> {
    let event = |kind: &str| json!({ "type": format!("content_block_{kind}"), "index": index });
    let mut events = vec![event("start")];
    events[0]["content_block"] = block.clone();
    for delta in deltas {
        let mut piece = event("delta");
        piece["delta"] = delta.clone();
        events.push(piece);
    }
    events.push(event("stop"));
    events
}

#[tokio::test]
async fn a_whole_message_becomes_the_events_of_a_stream() {
    let message = whole_message();

    let answer = answered_whole(&message).await;

    let content = &message["content"];
    let mut start = message.clone();
    (start["content"], start["stop_reason"]) = (json!([]), Value::Null);
    start.as_object_mut().unwrap().remove("container");
    let thinking = [
        json!({ "type": "thinking_delta", "thinking": "hm" }),
        json!({ "type": "signature_delta", "signature": "s" }),
    ];
    let text = [
        json!({ "type": "citations_delta", "citation": content[2]["citations"][0] }),
        json!({ "type": "text_delta", "text": "hello" }),
    ];
    let mut calls = [content[3].clone(), content[5].clone()];
    let inputs = calls.each_mut().map(|call| {
        let input = std::mem::replace(&mut call["input"], json!({}));
        json!({ "type": "input_json_delta", "partial_json": input.to_string() })
    });
    let mut end = json!({ "type": "message_delta", "usage": message["usage"], "delta": {} });
    for field in ["stop_reason", "stop_sequence", "container"] {
        end["delta"][field] = message[field].clone();
    }
    let expected = [
        vec![json!({ "type": "message_start", "message": start })],
        block_events(
            0,
            &json!({ "type": "thinking", "thinking": "", "signature": "" }),
            &thinking,
        ),
        block_events(1, &content[1], &[]),
        block_events(
            2,
            &json!({ "type": "text", "text": "", "citations": [] }),
            &text,
        ),
        block_events(3, &calls[0], &inputs[..1]),
        block_events(4, &content[4], &[]),
        block_events(5, &calls[1], &inputs[1..]),
        block_events(
            6,
            &json!({ "type": "compaction", "content": null }),
            &[json!({ "type": "compaction_delta", "content": "so far", "encrypted_content": "E" })],
        ),
        vec![end, json!({ "type": "message_stop" })],
    ];
    let events = family::events(&answer).into_iter().map(|(name, data)| {
        let event: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(event["type"], *name);
        event
    });
    assert_eq!(events.collect::<Vec<_>>(), expected.concat());
}

#[tokio::test]
async fn a_whole_message_within_a_stream_is_refused() {
    let whole = FAMILY.whole(&[Part::call("rm", "/")]);
    let events = FAMILY.events(&[Part::text(&["hello"])]);
    let (first, rest) = events.split_once("\n\n").unwrap();
    for events in [
        format!("event: message\ndata: {whole}\n\n"),
        format!("event: message\ndata: {whole}\n\n{events}"),
        format!("{first}\n\nevent: message\ndata: {whole}\n\n{rest}"),
        format!("{events}event: message\ndata: {whole}\n\n"),
    ] {
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
        let gateway = FAMILY.gateway(&upstream, REDACT).await;
        let body = FAMILY.request(true, &[Turn::User("hi")]).to_string();
        // The connection may break before the head of the response.
        if let Ok(mut response) = gateway.agent().try_open("/v1/messages", body).await {
            let status = response.status();
            let (text, end) = read_to_end(&mut response).await;
            assert!(!text.contains("tool_use"), "{text}");
            assert!(status != 200 || end == End::Broken, "{text}");
        }
    }
}

#[tokio::test]
async fn an_error_in_answer_to_a_stream_is_an_event() {
    let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "x" } });
    let answer = answered_whole(&error).await;
    let events = family::events(&answer);
    assert_eq!(events, [("error".to_owned(), error.to_string())]);
}

/// Streams one block to an agent. Returns its events as the agent receives them.
async fn streamed(config: &str, block: &Value, deltas: &[Value]) -> Vec<Value> {
    let message = json!({ "id": "m", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "usage": { "input_tokens": 1, "output_tokens": 1 } });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    events.extend(block_events(0, block, deltas));
    events.extend([
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
            "usage": { "output_tokens": 2 } }),
        json!({ "type": "message_stop" }),
    ]);
    let named = |event: &Value| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    };
    let stream: String = events.iter().map(named).collect();
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", stream.clone())).await;
    let gateway = FAMILY.gateway(&upstream, config).await;
    let answer = FAMILY.ask(&gateway, true, &[Turn::User("hi")]).await;
    let received = family::events(&answer).into_iter();
    let received = received.filter(|(name, _)| name.starts_with("content_block"));
    received
        .map(|(_, data)| serde_json::from_str(&data).unwrap())
        .collect()
}

fn input_delta(json: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": json })
}

#[tokio::test]
async fn edited_arguments_are_not_in_the_start_of_their_block() {
    let output = json!({ "hookSpecificOutput": { "tool_input": { "x": "edited" } } });
    let hooks = hook::config(&[("BeforeTool", hook::printing("edit", &output))]);
    for (config, kind, edited) in [
        (&*hooks, "tool_use", "edited"),
        (REDACT, "tool_use", "[REDACTED:aws_key]"),
        (REDACT, "server_tool_use", "[REDACTED:aws_key]"),
        (REDACT, "mcp_tool_use", "[REDACTED:aws_key]"),
    ] {
        let input = json!({ "x": SECRET });
        let block =
            |input: &Value| json!({ "type": kind, "id": "t", "name": "look", "input": input });
        let pieces = [input_delta(&input.to_string())];
        for deltas in [&pieces[..0], &pieces[..]] {
            let received = streamed(config, &block(&input), deltas).await;

            let edited = input_delta(&json!({ "x": edited }).to_string());
            let expected = block_events(0, &block(&json!({})), &[edited]);
            assert_eq!(received, expected, "{kind}");
        }
    }
}

#[tokio::test]
async fn masked_arguments_that_are_cut_off_remain_as_they_are() {
    let block = json!({ "type": "tool_use", "id": "t", "name": "look", "input": {} });
    let cut = |secret: &str| input_delta(&format!("{{\"x\":\"key {secret}, th"));

    let received = streamed(REDACT, &block, &[cut(SECRET)]).await;

    let expected = block_events(0, &block, &[cut("[REDACTED:aws_key]")]);
    assert_eq!(received, expected);
}

fn tool_reference(name: &str) -> Value {
    json!({ "type": "tool_reference", "tool_name": name })
}

/// A request with the tools `look` and `rm`, after searches that found these tools.
fn searched(found: &[&str]) -> Value {
    let references: Vec<Value> = found.iter().map(|name| tool_reference(name)).collect();
    let content =
        json!({ "type": "tool_search_tool_search_result", "tool_references": references });
    let mut body = request(&[Turn::User("hi"), Turn::Call("find", "x"), Turn::User("")]);
    body["messages"][2]["content"] =
        json!([{ "type": "tool_result", "tool_use_id": "c1", "content": references }]);
    body["messages"].as_array_mut().unwrap().push(json!({
        "role": "assistant", "content": [
            { "type": "server_tool_use", "id": "s", "name": "tool_search_tool_regex", "input": {} },
            { "type": "tool_search_tool_result", "tool_use_id": "s", "content": content },
            { "type": "text", "text": "ok" },
        ],
    }));
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "role": "user", "content": "go on" }));
    body
}

#[tokio::test]
async fn references_to_withheld_tools_are_removed() {
    let selection = hook::tools(&json!({ "mode": "AUTO", "allowedFunctionNames": ["look"] }));
    let hooks = hook::config(&[("BeforeToolSelection", hook::printing("select", &selection))]);
    for config in ["policies: [{ policy: tool_guard, deny: [rm] }]\n", &hooks] {
        for (found, left) in [
            (&["look", "rm"][..], json!([tool_reference("look")])),
            (
                &["rm"],
                json!([{ "type": "text", "text": "No tools found" }]),
            ),
        ] {
            let body = searched(found);
            let sent = forwarded(config, "/v1/messages", &body).await;
            let found = &sent["messages"][2]["content"][0]["content"];
            assert_eq!(*found, left);
            let hosted = &sent["messages"][3]["content"][1]["content"]["tool_references"];
            assert_eq!(
                hosted.to_string().contains("look"),
                left.to_string().contains("look")
            );
            assert!(!hosted.to_string().contains("rm"), "{hosted}");
        }
        let body = searched(&["look"]);
        let sent = forwarded(config, "/v1/messages", &body).await;
        assert_eq!(sent["messages"], body["messages"]);
    }
}

#[tokio::test]
async fn references_to_withheld_tools_are_removed_from_edited_results() {
    let config =
        "policies: [{ policy: tool_guard, deny: [rm] }, { policy: redact, detect: [aws_key] }]\n";
    let mut body = searched(&["rm"]);
    body["messages"][2]["content"][0]["content"] =
        json!([{ "type": "text", "text": SECRET }, tool_reference("rm"), tool_reference("look")]);
    let sent = forwarded(config, "/v1/messages", &body).await;
    assert_eq!(
        sent["messages"][2]["content"][0]["content"],
        json!([{ "type": "text", "text": "[REDACTED:aws_key]" }, tool_reference("look")])
    );
}
