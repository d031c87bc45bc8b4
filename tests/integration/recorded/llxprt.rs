//! Recorded requests of `LLxprt Code` with each of its three providers, and answers parsed as its
//! providers parse them. The program is in no package registry, so it does not run here.

use std::{collections::BTreeMap, fs, io::Read};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::files;
use crate::harness::{Answer, TestGateway, Upstream, hook, respond};

/// A recorded request and the recorded answer of the model.
struct Exchange {
    path: String,
    body: Value,
    sse: String,
}

/// Text of an answer, and names and arguments of its calls, as in the history of `LLxprt Code`.
type ParsedAnswer = (String, Vec<(String, Value)>);

/// A call, and the request with its result, for each provider.
fn recordings() -> Vec<[Exchange; 2]> {
    let recordings = files("dialects", "gz").into_iter().map(|file| {
        let mut text = String::new();
        let packed = fs::File::open(&file).unwrap();
        GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        let recording: Value = serde_json::from_str(&text).unwrap();
        let exchanges = recording["exchanges"].as_array().unwrap();
        let exchanges = exchanges.iter().map(|exchange| Exchange {
            path: exchange["request"]["path"].as_str().unwrap().to_owned(),
            body: exchange["request"]["body"].clone(),
            sse: exchange["response"]["sse"].as_str().unwrap().to_owned(),
        });
        let exchanges: Vec<Exchange> = exchanges.collect();
        exchanges.try_into().ok().expect("a call and its result")
    });
    let recordings: Vec<_> = recordings.collect();
    assert_eq!(recordings.len(), 3, "one for each provider");
    recordings
}

/// A model that sends the second recorded answer to requests with a tool result, and the first,
/// which contains the call, to others.
async fn model(recording: &[Exchange; 2]) -> Upstream {
    let answers = recording.each_ref().map(|exchange| exchange.sse.clone());
    Upstream::with(move |asked| {
        let has_result = !results(&asked.json()).is_empty();
        let answer = answers[usize::from(has_result)].clone();
        respond(200, "text/event-stream", answer)
    })
    .await
}

async fn gateway(upstream: &Upstream, config: &str) -> TestGateway {
    let url = "{ url: \"{upstream}\" }";
    let upstreams = format!("upstreams: {{ openai: {url}, anthropic: {url} }}\n");
    TestGateway::start(upstream, &format!("{upstreams}{config}")).await
}

async fn ask(gateway: &TestGateway, path: &str, body: &Value) -> Answer {
    let answer = gateway.agent().post(path, body.to_string()).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The messages or items of a request.
fn history(body: &Value) -> &[Value] {
    list(body.get("messages").unwrap_or(&body["input"]))
}

/// The texts of the tool results in a request.
fn results(body: &Value) -> Vec<String> {
    let mut results = Vec::new();
    for message in history(body) {
        if message["role"] == "tool" {
            results.push(message["content"].to_string());
        } else if message["type"] == "function_call_output" {
            results.push(message["output"].to_string());
        }
        let blocks = list(&message["content"]).iter();
        let blocks = blocks.filter(|block| block["type"] == "tool_result");
        results.extend(blocks.map(|block| block["content"].to_string()));
    }
    results
}

/// Parses an answer as `parseResponsesStream.ts`, `AnthropicStreamProcessor.ts` and the provider
/// for chat completions do: names of calls from their beginning, arguments from their pieces,
/// and the call at its end.
fn parse(path: &str, answer: &Answer) -> ParsedAnswer {
    let lines = answer.text().lines();
    let events = lines.filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter(|data| *data != "[DONE]");
    let events: Vec<Value> = events
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    match path {
        "/v1/messages" => parse_messages(&events),
        "/v1/responses" => parse_responses(&events),
        _ => parse_chat(&events),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn arguments(json: &str) -> Value {
    serde_json::from_str(json).expect("complete arguments")
}

fn parse_messages(events: &[Value]) -> ParsedAnswer {
    let (mut answer_text, mut calls, mut open) = (String::new(), Vec::new(), None);
    for event in events {
        let (block, delta) = (&event["content_block"], &event["delta"]);
        match (text(&event["type"]), &mut open) {
            ("content_block_start", _) if block["type"] == "tool_use" => {
                open = Some((text(&block["name"]).to_owned(), String::new()));
            }
            ("content_block_delta", Some((_, json))) => json.push_str(text(&delta["partial_json"])),
            ("content_block_delta", None) => answer_text.push_str(text(&delta["text"])),
            ("content_block_stop", _) => {
                calls.extend(open.take().map(|(name, json)| (name, arguments(&json))));
            }
            _ => (),
        }
    }
    (answer_text, calls)
}

fn parse_responses(events: &[Value]) -> ParsedAnswer {
    let (mut answer_text, mut calls) = (String::new(), Vec::new());
    let mut open: BTreeMap<String, (String, String)> = BTreeMap::new();
    for event in events {
        let item = &event["item"];
        let id = event["item_id"].as_str().unwrap_or(text(&item["id"]));
        match text(&event["type"]) {
            "response.output_text.delta" => answer_text.push_str(text(&event["delta"])),
            "response.output_item.added" if item["type"] == "function_call" => {
                let start = (text(&item["name"]), text(&item["arguments"]));
                open.insert(id.to_owned(), (start.0.to_owned(), start.1.to_owned()));
            }
            "response.function_call_arguments.delta" => {
                let (_, json) = open
                    .get_mut(id)
                    .expect("a call starts before its arguments");
                json.push_str(text(&event["delta"]));
            }
            "response.function_call_arguments.done" | "response.output_item.done" => {
                let done = open.remove(id);
                calls.extend(done.map(|(name, json)| (name, arguments(&json))));
            }
            _ => (),
        }
    }
    assert!(open.is_empty(), "calls without an end: {open:?}");
    (answer_text, calls)
}

fn parse_chat(events: &[Value]) -> ParsedAnswer {
    let mut answer_text = String::new();
    let mut calls: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for event in events {
        let delta = &event["choices"][0]["delta"];
        answer_text.push_str(text(&delta["content"]));
        for piece in list(&delta["tool_calls"]) {
            let call = calls.entry(piece["index"].as_u64().unwrap()).or_default();
            let function = &piece["function"];
            call.0.push_str(text(&function["name"]));
            call.1.push_str(text(&function["arguments"]));
        }
    }
    let calls = calls
        .into_values()
        .map(|(name, json)| (name, arguments(&json)));
    (answer_text, calls.collect())
}

/// The next request of the agent: its history, the text of the answer, and a prompt.
fn next_request(exchange: &Exchange, answer_text: &str) -> Value {
    let mut body = exchange.body.clone();
    let list = if body.get("input").is_some() {
        "input"
    } else {
        "messages"
    };
    let turns = body[list].as_array_mut().unwrap();
    turns.push(json!({ "role": "assistant", "content": answer_text }));
    turns.push(json!({ "role": "user", "content": "And now?" }));
    body
}

#[tokio::test]
async fn recorded_requests_of_llxprt_and_their_answers_pass_hooks_unchanged() {
    let quiet = |name: &str| hook::command(name, &format!("cat > {name}.json"));
    let hooks = hook::config(&[
        ("BeforeModel", quiet("model")),
        ("AfterModel", hook::command("answer", "cat > /dev/null")),
        ("BeforeTool", quiet("call")),
        ("AfterTool", quiet("result")),
    ]);
    for recording in recordings() {
        let upstream = model(&recording).await;
        let gateway = gateway(&upstream, &hooks).await;
        let [call, result] = &recording;
        let path = &call.path;

        let answer = ask(&gateway, path, &call.body).await;
        assert_eq!(answer.text(), call.sse, "{path}");
        assert_eq!(upstream.only_request().json(), call.body, "{path}");
        let (_, calls) = parse(path, &answer);
        let [(name, arguments)] = &calls[..] else {
            panic!("{path}: {calls:?}")
        };
        assert_eq!(gateway.json("call.json")["tool_name"], **name, "{path}");
        assert_eq!(
            gateway.json("call.json")["tool_input"],
            *arguments,
            "{path}"
        );

        let answer = ask(&gateway, path, &result.body).await;
        assert_eq!(answer.text(), result.sse, "{path}");
        assert_eq!(upstream.requests()[1].json(), result.body, "{path}");
        let shown = gateway.json("result.json");
        assert_eq!(shown["tool_name"], "read_file", "{path}");
        assert!(
            shown.to_string().contains("alpha contents"),
            "{path}: {shown}"
        );
        let shown = gateway.json("model.json");
        assert!(
            shown.to_string().contains("Read alpha.txt please"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_denied_call_is_hidden_from_llxprt_and_restored_in_its_next_request() {
    let rule = "{ tool: read_file, argument: /file_path, not_matches: alpha }";
    let config =
        format!("policies: [{{ policy: tool_guard, rules: [{rule}], reason: not this file }}]\n");
    for recording in recordings() {
        let upstream = model(&recording).await;
        let gateway = gateway(&upstream, &config).await;
        let [call, _] = &recording;
        let path = &call.path;

        let answer = ask(&gateway, path, &call.body).await;

        let (answer_text, calls) = parse(path, &answer);
        assert!(calls.is_empty(), "{path}: {calls:?}");
        assert!(
            answer_text.ends_with("The file says: alpha contents."),
            "{path}: {answer_text}"
        );
        let reasons = results(&upstream.requests()[1].json());
        assert_eq!(reasons.len(), 1, "{path}");
        assert!(reasons[0].contains("not this file"), "{path}: {reasons:?}");

        ask(&gateway, path, &next_request(call, &answer_text)).await;
        let asked = upstream.requests().pop().unwrap().json();
        assert_eq!(results(&asked), reasons, "{path}");
        assert_eq!(
            history(&asked).last().unwrap()["content"],
            "And now?",
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_recorded_result_that_a_hook_hides_never_reaches_the_model() {
    let hooks = hook::config(&[("AfterTool", hook::denying("hide", "not for models"))]);
    for recording in recordings() {
        let upstream = model(&recording).await;
        let gateway = gateway(&upstream, &hooks).await;
        let [_, result] = &recording;

        let answer = ask(&gateway, &result.path, &result.body).await;

        let asked = upstream.only_request();
        assert!(!asked.body.contains("alpha contents"), "{}", result.path);
        let shown = results(&asked.json());
        assert!(
            shown[0].contains("not for models"),
            "{}: {shown:?}",
            result.path
        );
        let (answer_text, _) = parse(&result.path, &answer);
        assert_eq!(
            answer_text, "The file says: alpha contents.",
            "{}",
            result.path
        );
    }
}
