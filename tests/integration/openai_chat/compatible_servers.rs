//! Answers in the forms of compatible servers, which differ from those of OpenAI.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Form, ask, chat, choices, event, events, finish_reason, gateway, text, upstream_sending,
};
use crate::harness::{Answer, Upstream, hook, respond};

const REDACT: &str = "policies: [{ policy: redact, detect: [email] }]\n";

/// Calls of a stream, as (name, arguments).
type Calls = Vec<(String, String)>;

/// An event that ends the first choice.
fn end(reason: &str) -> Value {
    let mut end = event(&json!({}));
    end["choices"][0]["finish_reason"] = reason.into();
    end
}

/// A stream with a text.
fn greeting() -> String {
    let events = [
        event(&json!({ "role": "assistant", "content": "hi" })),
        end("stop"),
    ];
    let events = events.map(|event| format!("data: {event}\n\n"));
    events.concat() + "data: [DONE]\n\n"
}

/// Asks for a stream of which the model API sends these events.
async fn stream(config: &str, sent: &[Value]) -> Answer {
    let upstream = upstream_sending(sent).await;
    let gate = gateway(&upstream, config).await;
    ask(&gate, Form::Stream, &chat("hi")).await
}

/// The calls of an answer, of which each piece has an index.
#[track_caller]
fn calls(answer: &Answer) -> Calls {
    let mut calls = Calls::new();
    for choice in choices(Form::Stream, answer) {
        for piece in choice["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let index = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
            let of_function = |field: &str| piece["function"][field].as_str().unwrap_or_default();
            if calls.len() == index {
                calls.push((String::new(), String::new()));
            }
            calls[index].0 += of_function("name");
            calls[index].1 += of_function("arguments");
        }
    }
    calls
}

/// An event with pieces of calls.
fn call_event(pieces: &Value) -> Value {
    event(&json!({ "tool_calls": pieces }))
}

fn call_piece(name: &str, arguments: &str) -> Value {
    json!({ "index": 0, "type": "function",
        "function": { "name": name, "arguments": arguments } })
}

#[tokio::test]
async fn thoughts_in_blocks_are_masked_across_pieces() {
    let thinking = |text: &str| {
        let texts = json!([{ "type": "text", "text": text }]);
        event(&json!({ "content": [{ "type": "thinking", "thinking": texts }] }))
    };
    let sent = [
        event(&json!({ "role": "assistant", "content": "" })),
        thinking("mail a@"),
        thinking("example.com or b@"),
        thinking("example.com"),
        event(&json!({ "content": "done" })),
        end("stop"),
    ];
    for mode in ["", "after_model: buffered\n"] {
        let answer = stream(&format!("{REDACT}{mode}"), &sent).await;

        let mut thoughts = String::new();
        let mut texts = String::new();
        for choice in choices(Form::Stream, &answer) {
            let delta = &choice["delta"];
            thoughts += delta["reasoning_content"].as_str().unwrap_or_default();
            texts += delta["content"].as_str().unwrap_or_default();
            for block in delta["content"].as_array().into_iter().flatten() {
                texts += block["text"].as_str().unwrap_or_default();
                assert!(mode.is_empty(), "{block}");
                let pieces = block["thinking"].as_array().into_iter().flatten();
                thoughts.extend(pieces.map(|piece| piece["text"].as_str().unwrap()));
            }
        }
        assert_eq!(
            thoughts, "mail [REDACTED:email] or [REDACTED:email]",
            "{mode}"
        );
        assert_eq!(texts, "done", "{mode}");
    }
}

#[tokio::test]
async fn blocks_of_thoughts_stay_if_nothing_is_masked() {
    let thinking = json!({ "type": "thinking", "closed": true,
        "thinking": [{ "type": "text", "text": "a " }, { "type": "text", "text": "b " }] });
    let piece = event(&json!({ "content": [thinking] }));
    let answer = stream(REDACT, &[piece.clone(), end("stop")]).await;
    assert_eq!(events(&answer), [piece, end("stop")]);
}

#[tokio::test]
async fn thoughts_in_the_blocks_of_a_whole_answer_are_masked() {
    let thinking = json!({ "type": "thinking", "signature": "s",
        "thinking": [{ "type": "text", "text": "mail a@" }, { "type": "text", "text": "b.example" }] });
    let message =
        json!({ "role": "assistant", "content": [thinking, { "type": "text", "text": "c" }] });
    let body = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    let body = body.to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", body.clone())).await;
    let gate = gateway(&upstream, REDACT).await;

    let answer = ask(&gate, Form::Whole, &chat("hi")).await;

    let expected = json!([
        { "type": "thinking", "signature": "s",
          "thinking": [{ "type": "text", "text": "mail [REDACTED:email]" }] },
        { "type": "text", "text": "c" },
    ]);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], expected);
}

#[tokio::test]
async fn thoughts_are_masked_across_pieces_whatever_their_name() {
    for name in ["reasoning", "reasoning_content", "reasoning_text"] {
        let piece = |text: &str| {
            let mut delta = Value::Null;
            delta[name] = text.into();
            event(&delta)
        };
        let sent = [piece("mail a@"), piece("example.com"), end("stop")];
        let answer = stream(REDACT, &sent).await;

        let choices = choices(Form::Stream, &answer);
        let thoughts = choices.iter().map(|choice| &choice["delta"][name]);
        let thoughts: String = thoughts.filter_map(Value::as_str).collect();
        assert_eq!(thoughts, "mail [REDACTED:email]", "{name}");
    }
}

/// A piece of a thought with copies, as LiteLLM sends it.
fn thought_with_copies(text: &str, signature: Option<&str>) -> Value {
    let blocks = json!([{ "type": "thinking", "thinking": text, "signature": signature }]);
    event(
        &json!({ "reasoning_content": text, "thinking_blocks": blocks,
        "provider_specific_fields": { "thinking_blocks": blocks } }),
    )
}

#[tokio::test]
async fn copies_of_thoughts_are_masked_across_pieces() {
    let sent = [
        thought_with_copies("mail a@", None),
        thought_with_copies("example.com", None),
        thought_with_copies("", Some("s")),
        event(&json!({ "content": "done" })),
        end("stop"),
    ];
    for mode in ["", "after_model: buffered\n"] {
        let answer = stream(&format!("{REDACT}{mode}"), &sent).await;

        let sent = answer.text();
        assert!(
            !sent.contains("a@") && !sent.contains("example.com"),
            "{sent}"
        );
        assert!(sent.contains("[REDACTED:email]"), "{sent}");
        assert_eq!(text(Form::Stream, &answer), "done");
    }
}

#[tokio::test]
async fn copies_of_thoughts_are_sent_with_their_signatures() {
    let sent = [
        thought_with_copies("mail a@", None),
        thought_with_copies(" b", None),
        thought_with_copies("", Some("s")),
        event(&json!({ "content": "done" })),
        end("stop"),
    ];
    let answer = stream(REDACT, &sent).await;

    let choices = choices(Form::Stream, &answer);
    let blocks = choices
        .iter()
        .map(|choice| &choice["delta"]["thinking_blocks"]);
    let blocks: Vec<&Value> = blocks.filter_map(Value::as_array).flatten().collect();
    let texts: String = blocks
        .iter()
        .filter_map(|block| block["thinking"].as_str())
        .collect();
    assert_eq!(texts, "mail a@ b", "{}", answer.text());
    assert!(
        blocks.iter().any(|block| block["signature"] == "s"),
        "{blocks:?}"
    );
}

/// A whole answer that repeats a stream in front of it, as MiniMax sends it.
fn repetition(message: &Value, reason: &str) -> Value {
    json!({ "id": "1", "object": "chat.completion", "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": { "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12 } })
}

#[tokio::test]
async fn a_whole_message_behind_its_pieces_is_not_sent_again() {
    let message = json!({ "role": "assistant", "content": "Hello world" });
    let pieces = [
        event(&json!({ "content": "Hello " })),
        event(&json!({ "content": "world" })),
    ];
    let hooks = hook::config(&[("AfterAgent", hook::printing("agent", &json!({})))]);
    for ends_before in [true, false] {
        let mut sent = pieces.to_vec();
        sent.extend(ends_before.then(|| end("stop")));
        sent.push(repetition(&message, "stop"));
        let upstream = upstream_sending(&sent).await;
        let gate = gateway(&upstream, &format!("{hooks}{REDACT}")).await;

        let answer = ask(&gate, Form::Stream, &chat("hi")).await;

        assert_eq!(
            text(Form::Stream, &answer),
            "Hello world",
            "{}",
            answer.text()
        );
        assert_eq!(gate.json("agent.json")["prompt_response"], "Hello world");
        let events = events(&answer);
        let last = events.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "stop", "{last}");
        assert_eq!(last["usage"]["total_tokens"], 12, "{last}");
    }
}

#[tokio::test]
async fn a_call_is_not_repeated_by_a_whole_message_behind_it() {
    let mut call = call_piece("rm", "{}");
    call["id"] = "c".into();
    let message = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
    let sent = [
        call_event(&json!([call])),
        end("tool_calls"),
        repetition(&message, "tool_calls"),
    ];
    let answer = stream(REDACT, &sent).await;
    assert_eq!(calls(&answer), [("rm".to_owned(), "{}".to_owned())]);
}

/// A whole message with a call of `rm`.
fn message_with_call(content: &str) -> Value {
    let mut call = call_piece("rm", "{}");
    call["id"] = "c".into();
    json!({ "role": "assistant", "content": content, "tool_calls": [call] })
}

#[tokio::test]
async fn a_whole_message_with_more_than_its_pieces_is_sent() {
    let thought = event(&json!({ "reasoning_content": "thinking" }));
    let answer = "the whole answer";
    let message =
        json!({ "role": "assistant", "reasoning_content": "thinking", "content": answer });
    for end in [None, Some(end("stop"))] {
        let mut sent = vec![thought.clone()];
        sent.extend(end);
        sent.push(repetition(&message, "stop"));
        let received = stream(REDACT, &sent).await;
        assert_eq!(text(Form::Stream, &received), answer);
        assert_eq!(received.text().matches("thinking").count(), 1);
        assert_eq!(finish_reason(Form::Stream, &received), "stop");
    }
}

#[tokio::test]
async fn a_call_in_a_whole_message_behind_its_text_is_sent_once() {
    let pieces = ["mail ann@", "example.com"].map(|text| event(&json!({ "content": text })));
    let message = message_with_call("mail ann@example.com");
    for end in [None, Some(end("tool_calls"))] {
        let mut sent = pieces.to_vec();
        sent.extend(end);
        sent.push(repetition(&message, "tool_calls"));
        for config in ["", REDACT] {
            let hooks = hook::config(&[("BeforeTool", hook::printing("tool", &json!({})))]);
            let upstream = upstream_sending(&sent).await;
            let gate = gateway(&upstream, &format!("{hooks}{config}")).await;

            let answer = ask(&gate, Form::Stream, &chat("hi")).await;

            let masked = config == REDACT;
            let expected = if masked {
                "mail [REDACTED:email]"
            } else {
                "mail ann@example.com"
            };
            assert_eq!(text(Form::Stream, &answer), expected);
            assert_eq!(calls(&answer), [("rm".to_owned(), "{}".to_owned())]);
            assert_eq!(finish_reason(Form::Stream, &answer), "tool_calls");
            assert_eq!(gate.json("tool.json")["tool_name"], "rm");
        }
    }
}

#[tokio::test]
async fn a_call_in_a_message_beside_a_delta_is_sent() {
    let mut last = event(&json!({ "content": "x" }));
    last["choices"][0]["message"] = message_with_call("mail x");
    last["choices"][0]["finish_reason"] = "tool_calls".into();
    let first = event(&json!({ "role": "assistant", "content": "mail " }));

    let answer = stream(REDACT, &[first, last]).await;

    assert_eq!(text(Form::Stream, &answer), "mail x");
    assert_eq!(calls(&answer), [("rm".to_owned(), "{}".to_owned())]);
    assert_eq!(finish_reason(Form::Stream, &answer), "tool_calls");
}

#[tokio::test]
async fn a_copy_of_the_content_beside_its_delta_is_not_sent() {
    let piece = |text: &str| {
        let mut piece = event(&json!({ "role": "assistant", "content": text }));
        piece["choices"][0]["text"] = text.into();
        piece
    };
    let mut last = end("stop");
    last["choices"][0]["text"] = "".into();
    let sent = [piece("mail a@"), piece("example.com"), piece(" ok"), last];

    let answer = stream(REDACT, &sent).await;

    assert_eq!(text(Form::Stream, &answer), "mail [REDACTED:email] ok");
    let received = answer.text();
    assert!(
        !received.contains("a@") && !received.contains("example.com"),
        "{received}"
    );
}

#[tokio::test]
async fn a_message_beside_each_delta_is_not_sent() {
    let piece = |text: &str, message: &str, reason: Value| {
        let mut piece = event(&json!({ "role": "assistant", "content": text }));
        piece["choices"][0]["message"] = json!({ "role": "assistant", "content": message });
        piece["choices"][0]["finish_reason"] = reason;
        piece
    };
    let sent = [
        piece("mail a@", "mail a@", Value::Null),
        piece("example.com", "mail a@example.com", Value::Null),
        piece("", "mail a@example.com", "stop".into()),
    ];
    let answer = stream(REDACT, &sent).await;

    assert_eq!(text(Form::Stream, &answer), "mail [REDACTED:email]");
    assert_eq!(finish_reason(Form::Stream, &answer), "stop");
    assert!(!answer.text().contains("message"), "{}", answer.text());
}

#[tokio::test]
async fn calls_without_ids_stay_separate() {
    let with_empty_id = |name: &str, arguments: &str| {
        let mut piece = call_piece(name, arguments);
        piece["id"] = "".into();
        piece
    };
    let without_index = |name: &str, arguments: &str| {
        let mut piece = call_piece(name, arguments);
        piece.as_object_mut().unwrap().remove("index");
        piece
    };
    let (one, other) = (r#"{"p":0}"#, r#"{"p":1}"#);
    let separate = |pieces: [Value; 2]| pieces.map(|piece| call_event(&json!([piece]))).to_vec();
    let together = |pieces: [Value; 2]| vec![call_event(&json!(pieces))];
    for (sent, second) in [
        (
            separate([call_piece("read", one), call_piece("write", other)]),
            "write",
        ),
        (
            separate([call_piece("read", one), call_piece("read", other)]),
            "read",
        ),
        (
            together([without_index("read", one), without_index("write", other)]),
            "write",
        ),
        (
            together([without_index("read", one), without_index("read", other)]),
            "read",
        ),
        (
            separate([with_empty_id("read", one), with_empty_id("read", other)]),
            "read",
        ),
    ] {
        let sent = [sent, vec![end("tool_calls")]].concat();
        let answer = stream(REDACT, &sent).await;

        let expected = [("read", one), (second, other)];
        let expected = expected.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
        assert_eq!(calls(&answer), expected, "{}", answer.text());
    }
}

#[tokio::test]
async fn pieces_of_a_call_with_different_ids_stay_one_call() {
    let piece = |id: &str, function: Value| {
        call_event(&json!([{ "index": 0, "id": id, "type": "function", "function": function }]))
    };
    let sent = [
        piece("a", json!({ "name": "read" })),
        piece("b", json!({ "arguments": "{\"p\":" })),
        piece("c", json!({ "arguments": "\"x\"}" })),
        end("tool_calls"),
    ];
    let guard = "policies: [{ policy: tool_guard, deny: [rm] }]\n";
    for config in [REDACT, guard] {
        let answer = stream(config, &sent).await;
        let expected = ("read".to_owned(), r#"{"p":"x"}"#.to_owned());
        assert_eq!(calls(&answer), [expected], "{}", answer.text());
    }
}

#[tokio::test]
async fn the_only_call_of_a_delta_may_be_an_object() {
    let piece = |name: Option<&str>, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        call_event(&json!({ "index": 0, "id": "", "type": "function", "function": function }))
    };
    let sent = [
        piece(Some("read"), "{\"to\":"),
        piece(None, "\"a@example.com\"}"),
        end("tool_calls"),
    ];
    let redact = "policies: [{ policy: redact, detect: [email], on: [tool_calls] }]\n";

    let answer = stream(redact, &sent).await;

    let arguments = r#"{"to":"[REDACTED:email]"}"#.to_owned();
    assert_eq!(calls(&answer), [("read".to_owned(), arguments)]);
}

#[tokio::test]
async fn a_repeated_name_continues_a_call() {
    for pieces in [["{\"p\":", "0}"], ["{\"p\":0}", ""]] {
        let pieces = pieces.map(|arguments| call_event(&json!([call_piece("read", arguments)])));
        let sent = [&pieces[..], &[end("tool_calls")]].concat();
        let answer = stream(REDACT, &sent).await;
        assert_eq!(
            calls(&answer),
            [("read".to_owned(), "{\"p\":0}".to_owned())]
        );
    }
}

#[tokio::test]
async fn an_event_with_empty_data_is_left_out() {
    let body = format!("data:\n\n: ping\n\nevent: ping\ndata: \n\n{}", greeting());
    let upstream = Upstream::with(move |_| respond(200, "text/event-stream", body.clone())).await;
    let gate = gateway(&upstream, REDACT).await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert_eq!(text(Form::Stream, &answer), "hi");
}

#[tokio::test]
async fn arguments_of_a_whole_answer_may_be_an_object() {
    let function = json!({ "name": "send", "arguments": { "to": "a@example.com" } });
    let call = json!({ "id": "0", "type": "function", "function": function });
    let message = json!({ "role": "assistant", "tool_calls": [call] });
    let body =
        json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "tool_calls" }] });
    let body = body.to_string();
    let upstream = Upstream::with(move |_| respond(200, "application/json", body.clone())).await;
    let hooks = hook::config(&[("BeforeTool", hook::printing("tool", &json!({})))]);
    let redact = "policies: [{ policy: redact, detect: [email], on: [tool_calls] }]\n";
    let gate = gateway(&upstream, &format!("{hooks}{redact}")).await;

    let answer = ask(&gate, Form::Whole, &chat("hi")).await;

    let call = &answer.json()["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(
        call["function"]["arguments"],
        r#"{"to":"[REDACTED:email]"}"#
    );
    assert_eq!(
        gate.json("tool.json")["tool_input"]["to"],
        "[REDACTED:email]"
    );
}

#[tokio::test]
async fn a_second_finish_reason_is_sent_as_it_came() {
    let call = json!({ "index": 0, "id": "c1", "type": "function",
        "function": { "name": "rm", "arguments": "{}" } });
    let mut second = event(&json!({ "content": "" }));
    second["choices"][0]["finish_reason"] = "stop".into();
    let first = event(&json!({ "role": "assistant", "tool_calls": [call] }));

    let answer = stream(REDACT, &[first, end("tool_calls"), second]).await;

    let reasons = choices(Form::Stream, &answer).into_iter();
    let reasons = reasons.filter_map(|choice| Some(choice["finish_reason"].as_str()?.to_owned()));
    let reasons: Vec<String> = reasons.collect();
    assert_eq!(reasons, ["tool_calls", "stop"], "{}", answer.text());
}

#[tokio::test]
async fn a_repeated_finish_reason_is_sent_as_it_came() {
    let guard = "policies: [{ policy: tool_guard, deny: [rm] }]\n";
    let mut first = end("stop");
    first["citations"] = json!(["https://example.com"]);
    first["choices"][0]["x"] = "y".into();
    first["choices"][0]["logprobs"] = json!({ "content": [] });
    let mut second = end("stop");
    second["usage"] = json!({ "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12 });
    let sent = [event(&json!({ "content": "hi" })), first, second];

    let answer = stream(guard, &sent).await;

    assert_eq!(events(&answer), sent);
}

#[tokio::test]
async fn an_edited_call_keeps_its_finish_reason_if_another_follows() {
    let mut call = call_piece("send", r#"{"to":"a@example.com"}"#);
    call["id"] = "c".into();
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12 });
    let mut first = end("tool_calls");
    first["usage"] = usage.clone();
    let redact = "policies: [{ policy: redact, detect: [email], on: [tool_calls] }]\n";

    let answer = stream(redact, &[call_event(&json!([call])), first, end("stop")]).await;

    let arguments = r#"{"to":"[REDACTED:email]"}"#.to_owned();
    assert_eq!(calls(&answer), [("send".to_owned(), arguments)]);
    assert_eq!(finish_reason(Form::Stream, &answer), "tool_calls");
    assert_eq!(events(&answer).pop().unwrap()["usage"], usage);
}

#[tokio::test]
async fn an_edited_stream_keeps_the_fields_of_the_first_of_two_ends() {
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12 });
    let mut first = end("stop");
    first["citations"] = json!(["https://example.com"]);
    first["usage"] = usage.clone();
    first["choices"][0]["x"] = "y".into();
    let mut second = end("stop");
    second["usage"] = Value::Null;
    let message = json!({ "role": "assistant", "content": "mail a@example.com" });
    let mut whole = repetition(&message, "stop");
    whole.as_object_mut().unwrap().remove("usage");
    for repeated in [second, whole] {
        let piece = event(&json!({ "content": "mail a@example.com" }));

        let answer = stream(REDACT, &[piece, first.clone(), repeated]).await;

        assert_eq!(text(Form::Stream, &answer), "mail [REDACTED:email]");
        assert_eq!(finish_reason(Form::Stream, &answer), "stop");
        let last = events(&answer).pop().unwrap();
        assert_eq!(last["citations"], first["citations"], "{last}");
        assert_eq!(last["usage"], usage, "{last}");
        assert_eq!(last["choices"][0]["x"], "y", "{last}");
    }
}

#[tokio::test]
async fn very_many_fields_behind_an_end_take_little_time() {
    let mut events = vec![
        event(&json!({ "content": "mail a@example.com" })),
        end("stop"),
    ];
    for number in 0..3000 {
        let mut more = event(&json!({}));
        more["choices"][0][format!("x{number}")] = 1.into();
        events.push(more);
    }

    let answer = timeout(Duration::from_secs(20), stream(REDACT, &events)).await;

    let answer = answer.expect("the stream takes too long");
    assert_eq!(text(Form::Stream, &answer), "mail [REDACTED:email]");
}

#[tokio::test]
async fn the_last_of_two_ends_keeps_its_own_fields() {
    let [mut first, mut second] = [end("stop"), end("stop")];
    first["usage"] = json!({ "total_tokens": 11 });
    second["usage"] = json!({ "total_tokens": 12 });
    first["choices"][0]["logprobs"] = json!({ "content": [] });
    let piece = event(&json!({ "content": "mail a@example.com" }));

    let answer = stream(REDACT, &[piece, first, second]).await;

    let last = events(&answer).pop().unwrap();
    assert_eq!(last["usage"]["total_tokens"], 12, "{last}");
    assert_eq!(last["choices"][0].get("logprobs"), None, "{last}");
}

/// Sends events through a guard that fails closed, and reads the first part of the first candidate.
/// Returns the parts that it has seen.
async fn seen_by_guard(sent: &[Value]) -> String {
    let script = "import json, sys; shown = json.load(sys.stdin)[\"llm_response\"]; \
         parts = shown[\"candidates\"][0][\"content\"][\"parts\"]; \
         print(parts, file=open(\"seen\", \"a\")); parts[0]";
    let mut guard = hook::command("guard", &format!("python3 -c '{script}'"));
    guard["on_failure"] = json!("closed");
    let upstream = upstream_sending(sent).await;
    let gate = gateway(&upstream, &hook::config(&[("AfterModel", guard)])).await;

    let answer = ask(&gate, Form::Stream, &chat("hi")).await;

    assert_eq!(events(&answer), sent);
    gate.file("seen")
}

#[tokio::test]
async fn hooks_see_no_event_with_ratings_padding_and_ids_only() {
    let ratings = json!({ "hate": { "filtered": false, "severity": "safe" } });
    let of_prompt = json!([{ "prompt_index": 0, "content_filter_results": ratings }]);
    // Azure begins with ratings, and rates pieces behind them.
    let first = json!({ "id": "", "object": "", "model": "", "choices": [],
        "prompt_filter_results": of_prompt });
    let mut rated = event(&json!({}));
    rated["choices"][0]["content_filter_results"] = ratings;
    // Mistral pads each event, and Groq names the request.
    let mut padded = event(&json!({ "role": "assistant", "content": "" }));
    padded["p"] = json!("abcdef");
    padded["x_groq"] = json!({ "id": "req_1" });
    let mut last = end("stop");
    last["p"] = json!("abc");
    let text = event(&json!({ "content": "hi" }));
    let sent = [first, padded, text, rated, last];

    assert_eq!(seen_by_guard(&sent).await, "['hi']\n");
}

#[tokio::test]
async fn hooks_see_no_event_with_padding_and_measurements_only() {
    // GitHub Copilot pads each event.
    let mut padded = event(&json!({ "role": "assistant", "content": "" }));
    padded["choices"][0]["delta"]["padding"] = json!("abc");
    let mut rated = event(&json!({}));
    rated["choices"][0]["content_filter_result"] = json!({ "hate": { "severity": "safe" } });
    // SGLang shows the text that ended the answer, and Fireworks measures the answer.
    let mut last = end("stop");
    last["choices"][0]["matched_stop"] = json!("<|im_end|>");
    last["perf_metrics"] = json!({ "server-time-to-first-token": "0.2" });
    let text = event(&json!({ "content": "hi" }));
    let sent = [padded, text, rated, last];

    assert_eq!(seen_by_guard(&sent).await, "['hi']\n");
}

#[tokio::test]
async fn hooks_see_an_empty_text_for_content_without_a_part() {
    let mut cited = event(&json!({ "role": "assistant", "content": "" }));
    cited["citations"] = json!(["https://a.example"]);
    // The filter of Azure OpenAI did not run.
    let failed = json!({ "error": { "code": "content_filter_error", "message": "not filtered" } });
    let mut unrated = event(&json!({}));
    unrated["choices"][0]["content_filter_results"] = failed;
    let text = event(&json!({ "content": "hi" }));
    let sent = [cited, text, unrated, end("stop")];

    assert_eq!(seen_by_guard(&sent).await, "['']\n['hi']\n['']\n");
}
