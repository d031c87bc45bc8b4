//! Masking of secrets and credentials in recordings.

use serde_json::{Value, json};

use super::{RECORD, exchanges, only_exchange, plain_text, recorded};
use crate::{
    families::family::{Family, Part, Turn, each},
    harness::{TestGateway, Upstream, hook, prompt, respond},
};

/// A key in AWS's format, which all detectors mask.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLQ";

/// Stops the gateway and returns the decompressed lines of its recording.
async fn recorded_text(gateway: TestGateway) -> String {
    let folder = gateway.stop_and_keep_files().await;
    plain_text(&folder.path().join("recordings"))
}

#[tokio::test]
async fn a_secret_split_over_two_chunks_is_masked_in_every_api() {
    for family in [
        Family::Gemini,
        Family::Anthropic,
        Family::Responses,
        Family::Chat,
    ] {
        let answers = (0..=SECRET.len()).step_by(3).map(|cut| {
            let (first, second) = SECRET.split_at(cut);
            vec![Part::text(&["see ", first, second, " now"])]
        });
        let answers: Vec<Vec<Part>> = answers.collect();
        let upstream = family.upstream(answers.clone()).await;
        let gateway = family.gateway(&upstream, RECORD).await;
        for _ in 0..answers.len() {
            let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
            assert_eq!(answer.status, 200);
        }

        let text = recorded_text(gateway).await;

        assert_eq!(text.lines().count(), answers.len());
        assert!(!text.contains(SECRET), "{family:?}");
        // Each line has the label in place of the secret.
        for line in text.lines() {
            assert!(line.contains("[REDACTED:aws_key]"), "{family:?}: {line}");
        }
    }
}

#[tokio::test]
async fn a_secret_that_chunks_split_is_masked_beside_and_around_thoughts() {
    let (first, second) = SECRET.split_at(7);
    let thought = || Part::Thought(vec!["Hmm".to_owned()]);
    let answers = vec![
        vec![Part::text(&[first]), thought(), Part::text(&[second])],
        vec![Part::text(&[first, second]), thought()],
        vec![thought(), Part::text(&[first, second])],
    ];
    let upstream = Family::Gemini.upstream(answers.clone()).await;
    let gateway = Family::Gemini.gateway(&upstream, RECORD).await;
    for _ in &answers {
        let turns = [Turn::User("hi")];
        Family::Gemini.ask(&gateway, true, &turns).await;
    }

    let text = recorded_text(gateway).await;

    assert_eq!(text.matches("[REDACTED:aws_key]").count(), answers.len());
    assert!(!text.contains(second), "{text}");
}

/// Halves of texts with an e-mail address that adjacent texts split.
const HALVES: [&str; 2] = ["for ann@exa", "mple.com now"];

/// Arguments with an e-mail address in which an escape is cut.
const ARGUMENTS: [&str; 2] = [r#"{"x":"ar\u00"#, r#"40example.com"}"#];

/// Records a call, and asserts that its line has no piece of the e-mail addresses.
async fn assert_nothing_is_spelled(family: Family, request: &Value, answer: String) {
    let media_type = if answer.starts_with('{') {
        "application/json"
    } else {
        "text/event-stream"
    };
    let upstream = Upstream::with(move |_| respond(200, media_type, answer.clone())).await;
    let gateway = family.gateway(&upstream, RECORD).await;
    let is_stream = media_type == "text/event-stream";
    let answer = family.post(&gateway, is_stream, request.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let text = recorded_text(gateway).await;

    assert!(text.contains("REDACTED"), "{text}");
    for piece in ["ann@exa", "mple.com", "40example", "@exa", "[64,"] {
        assert!(!text.contains(piece), "{family:?}: {piece}: {text}");
    }
}

/// Returns events of a stream with their types as names.
fn events(events: &[Value]) -> String {
    let events = events.iter().map(|event| {
        let name = event["type"].as_str().unwrap_or("message");
        format!("event: {name}\ndata: {event}\n\n")
    });
    events.collect()
}

/// Returns the tokens of `HALVES` with their bytes.
fn tokens() -> Value {
    let tokens = ["for ann", "@exa", "mple", ".com now"];
    let tokens = tokens.map(|token| json!({ "token": token, "bytes": token.as_bytes() }));
    json!(tokens)
}

#[tokio::test]
async fn secrets_that_blocks_and_escapes_split_are_masked() {
    let texts = HALVES.map(|text| json!({ "type": "text", "text": text }));
    let mut request = Family::Anthropic.request(true, &[Turn::User("hi")]);
    request["system"] = json!(texts);
    let block = |index: usize, kind: &str, key: &str, texts: &[&str]| {
        let block = json!({ "type": kind, "id": "t", "name": "look", "input": {}, "text": "" });
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": block });
        let deltas = texts.iter().map(|text| {
            let delta = json!({ "type": format!("{key}_delta"), key: text });
            json!({ "type": "content_block_delta", "index": index, "delta": delta })
        });
        let deltas: Vec<Value> = deltas.collect();
        let stop = json!({ "type": "content_block_stop", "index": index });
        [vec![start], deltas, vec![stop]].concat()
    };
    let blocks = [
        block(0, "text", "text", &HALVES[..1]),
        block(1, "text", "text", &HALVES[1..]),
        block(2, "tool_use", "partial_json", &ARGUMENTS),
    ];

    assert_nothing_is_spelled(Family::Anthropic, &request, events(&blocks.concat())).await;
}

#[tokio::test]
async fn secrets_that_output_items_and_tokens_spell_are_masked() {
    let texts = HALVES.map(|text| json!({ "type": "input_text", "text": text }));
    let mut request = Family::Responses.request(false, &[Turn::User("hi")]);
    request["input"] = json!([
        { "type": "function_call", "call_id": "c", "name": "look", "arguments": ARGUMENTS.concat() },
        { "type": "function_call_output", "call_id": "c", "output": texts },
    ]);
    let items = HALVES.map(|text| {
        let content = json!([{ "type": "output_text", "text": text, "logprobs": tokens() }]);
        json!({ "type": "message", "role": "assistant", "content": content })
    });
    let response = json!({ "object": "response", "status": "completed", "output": items });
    let deltas = HALVES.iter().enumerate().map(|(index, text)| {
        json!({
            "type": "response.output_text.delta", "item_id": format!("m{index}"),
            "output_index": index, "content_index": 0, "delta": text, "logprobs": tokens(),
        })
    });
    let mut stream: Vec<Value> = deltas.collect();
    stream.push(json!({ "type": "response.completed", "response": response }));

    for answer in [response.to_string(), events(&stream)] {
        assert_nothing_is_spelled(Family::Responses, &request, answer).await;
    }
}

#[tokio::test]
async fn secrets_that_token_probabilities_spell_are_not_recorded() {
    let user = |family: Family| family.request(false, &[Turn::User(SECRET)]);
    let chat = json!({ "choices": [{
        "index": 0, "message": { "role": "assistant", "content": HALVES.concat() },
        "logprobs": { "content": tokens() }, "finish_reason": "stop",
    }] });
    let gemini = json!({ "candidates": [{
        "content": { "role": "model", "parts": [{ "text": HALVES.concat() }] },
        "logprobsResult": { "chosenCandidates": tokens() }, "finishReason": "STOP",
    }] });
    for (family, answer) in [(Family::Chat, chat), (Family::Gemini, gemini)] {
        assert_nothing_is_spelled(family, &user(family), answer.to_string()).await;
    }
}

#[tokio::test]
async fn secrets_of_requests_tools_and_hooks_are_masked() {
    for (family, is_stream) in each() {
        let upstream = family
            .upstream(vec![vec![Part::call("look", SECRET)]])
            .await;
        let hooks = format!(
            "hooks: {{ BeforeTool: [{{ hooks: [{{ command: 'echo {SECRET} >&2; exit 2' }}] }}] }}\n"
        );
        let gateway = family.gateway(&upstream, &format!("{RECORD}{hooks}")).await;
        let turns = [
            Turn::User(SECRET),
            Turn::Call("look", SECRET),
            Turn::Result("look", SECRET),
        ];
        family.ask(&gateway, is_stream, &turns).await;

        let text = recorded_text(gateway).await;

        assert!(
            text.contains("REDACTED") && !text.contains(SECRET),
            "{family:?}"
        );
    }
}

#[tokio::test]
async fn a_hook_input_with_a_secret_has_no_hash() {
    let upstream = Upstream::mock().await;
    let hooks = hook::config(&[("BeforeAgent", hook::command("note", "cat > /dev/null"))]);
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{hooks}")).await;
    for text in ["my card is 4111 1111 1111 1111 ok", "my card is lost"] {
        let answer = gateway.agent().generate("m", &prompt(text)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    let exchanges = recorded(gateway).await;

    let runs = exchanges
        .iter()
        .map(|exchange| &exchange.events[0].hooks[0]);
    let hashed: Vec<(&str, bool)> = runs
        .map(|run| (run.name.as_str(), run.input.is_some()))
        .collect();
    assert_eq!(hashed, [("note", false), ("note", true)]);
    assert_eq!(exchanges[0].masked, ["card"]);
    assert!(exchanges[1].masked.is_empty());
}

#[tokio::test]
async fn a_match_in_the_input_of_a_hook_is_not_listed_as_masked() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: redact, detect: [], patterns: { field: hook_event_name }, on: [answer] }]\n";
    let hooks = hook::config(&[("BeforeAgent", hook::command("note", "cat > /dev/null"))]);
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{policy}{hooks}")).await;
    let answer = gateway.agent().generate("m", &prompt("hi")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let exchange = only_exchange(recorded(gateway).await);

    let mut runs = exchange.events.iter().flat_map(|event| &event.hooks);
    let run = runs.find(|run| run.name == "note").unwrap();
    assert_eq!(run.input, None);
    assert!(exchange.masked.is_empty(), "{:?}", exchange.masked);
}

#[tokio::test]
async fn a_hook_on_chunks_that_split_a_secret_has_no_hash() {
    let family = Family::Gemini;
    let (first, second) = SECRET.split_at(10);
    let answers = vec![
        vec![Part::text(&["see ", first, second])],
        vec![Part::text(&["no ", "secret"])],
    ];
    let upstream = family.upstream(answers).await;
    let hooks = hook::config(&[("AfterModel", hook::command("note", "cat > /dev/null"))]);
    let gateway = family.gateway(&upstream, &format!("{RECORD}{hooks}")).await;
    for _ in 0..2 {
        let answer = family.ask(&gateway, true, &[Turn::User("hi")]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    let exchanges = recorded(gateway).await;

    let [split, whole] = [0, 1].map(|index: usize| {
        let events = exchanges[index].events.iter();
        let runs = events.flat_map(|event| &event.hooks);
        let hashes = runs.map(|run| run.input.is_some());
        hashes.collect::<Vec<bool>>()
    });
    assert!(!split.is_empty() && !split.contains(&true), "{split:?}");
    assert!(!whole.is_empty() && !whole.contains(&false), "{whole:?}");
}

#[tokio::test]
async fn matches_of_redact_policy_patterns_are_masked() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: redact, detect: [], patterns: { ticket: 'TICKET-[0-9]{4}' }, on: [answer] }]\n";
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{policy}")).await;
    gateway
        .agent()
        .generate("m", &prompt("about TICKET-0042"))
        .await;

    let text = recorded_text(gateway).await;

    assert!(
        text.contains("[REDACTED:ticket]") && !text.contains("TICKET-0042"),
        "{text}"
    );
}

#[tokio::test]
async fn redaction_can_be_disabled() {
    let upstream = Upstream::mock().await;
    let config = "record: { path: recordings, redact: none }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    gateway.agent().generate("m", &prompt(SECRET)).await;

    assert!(recorded_text(gateway).await.contains(SECRET));
}

#[tokio::test]
async fn credentials_are_never_recorded() {
    const CANARIES: [&str; 5] = ["CANARY-1", "CANARY-2", "CANARY-3", "CANARY-4", "CANARY-5"];
    let upstream = Upstream::with(|_| {
        let answer = json!({ "candidates": [{ "content": { "parts": [{ "text": "x" }] } }] });
        let mut response = respond(200, "application/json", answer.to_string());
        let cookie = http::HeaderValue::from_static("CANARY-4");
        response.headers_mut().insert("set-cookie", cookie);
        response
    })
    .await;
    for hooks in ["", "policies: [{ policy: model_allow, models: ['*'] }]\n"] {
        let config = format!(
            "upstreams: {{ gemini: {{ url: \"{{upstream}}\", headers: {{ x-own: {{ file: own }} }} }} }}\n\
             record: {{ path: recordings, redact: none }}\n{hooks}"
        );
        let gateway = TestGateway::with_files(&upstream, &config, &[("own", "CANARY-5")]).await;
        let agent = gateway.agent().sending("cookie", CANARIES[0]);
        let agent = agent.sending("x-other", CANARIES[1]);
        let path = "/v1beta/models/m:generateContent?key=CANARY-3";
        let answer = agent.post(path, prompt("hi").to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let agent = gateway.agent().sending("x-goog-api-key", CANARIES[1]);
        agent.generate("m", &prompt("hi")).await;

        let text = recorded_text(gateway).await;

        assert_eq!(text.lines().count(), 2);
        for canary in CANARIES {
            assert!(!text.contains(canary), "{canary}");
        }
    }
}

#[tokio::test]
async fn the_value_of_a_parameter_that_is_refused_is_not_recorded() {
    let upstream = Upstream::mock().await;
    let config = "record: { path: recordings, redact: none }\n";
    let gateway = TestGateway::start(&upstream, config).await;
    let generate = "/v1beta/models/m:generateContent";
    for name in ["oauth_token", "$key", "api-key", "x-api-key"] {
        let path = format!("{generate}?{name}=CANARY&quotaUser=u");
        let answer = gateway.agent().post(&path, prompt("hi").to_string()).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
    }

    let exchanges = recorded(gateway).await;

    let targets = exchanges.iter().map(|exchange| &*exchange.target);
    let expected = ["oauth_token", "$key", "api-key", "x-api-key"]
        .map(|name| format!("{generate}?{name}=&quotaUser=u"));
    assert_eq!(targets.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_id_of_a_resumable_upload_is_not_recorded() {
    let upstream = Upstream::with(|_| respond(200, "application/json", "{}")).await;
    let config = format!("{RECORD}coverage: {{ allow: [files.create] }}\n");
    let gateway = TestGateway::start(&upstream, &config).await;
    let path = "/upload/v1beta/files?upload_id=CANARY&upload_protocol=resumable";
    let answer = gateway.agent().post(path, "{}").await;
    assert_eq!(answer.status, 200, "{}", answer.text());

    let exchange = only_exchange(recorded(gateway).await);

    let target = "/upload/v1beta/files?upload_protocol=resumable";
    assert_eq!(exchange.target, target);
    assert_eq!(exchange.rounds[0].target, target);
}

#[tokio::test]
async fn percent_encoded_secrets_in_paths_and_queries_are_masked() {
    let upstream = Upstream::with(|_| respond(200, "application/json", "{}")).await;
    let gateway = TestGateway::start(&upstream, RECORD).await;
    let list =
        "/v1beta/models?pageToken=%22ann%40example.com%22%20x%2B&quotaUser=%28ann%40example.com%29";
    let answer = gateway.agent().get(list).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let refused = [
        "/v1beta/models?pageToken=%61nn@example.com&x=1",
        "/v1beta/other/ann%40example.com?a=b%20c",
        "/s/ann%40example.com/v1beta/models",
    ];
    for target in refused {
        let answer = gateway.agent().get(target).await;
        assert!(answer.status >= 400, "{target}: {}", answer.text());
    }

    let exchanges = recorded(gateway).await;

    let targets: Vec<&str> = exchanges.iter().map(|exchange| &*exchange.target).collect();
    let list =
        "/v1beta/models?pageToken=%22[REDACTED:email]%22%20x%2B&quotaUser=%28[REDACTED:email]%29";
    assert_eq!(exchanges[0].rounds[0].target, list);
    let query = "/v1beta/models?pageToken=[REDACTED:email]&x=";
    let path = "/v1beta/other/[REDACTED:email]?a=";
    assert_eq!(targets[..3], [list, query, path]);
    assert!(targets[3].starts_with("/s/masked-"), "{targets:?}");
    for exchange in &exchanges {
        assert_eq!(exchange.masked, ["email"]);
        // A replay needs a valid target.
        assert!(exchange.target.parse::<http::Uri>().is_ok());
    }
}

#[tokio::test]
async fn a_secret_in_the_name_of_a_session_is_masked_and_the_name_stays_valid() {
    let upstream = Upstream::mock().await;
    let policy = "policies: [{ policy: model_allow, models: ['*'] }]\n";
    let gateway = TestGateway::start(&upstream, &format!("{RECORD}{policy}")).await;
    let agent = gateway.agent().sending("x-hookgate-session", SECRET);
    for _ in 0..2 {
        agent.generate("m", &prompt("hi")).await;
    }
    let path = format!("/s/{SECRET}/v1beta/models/m:generateContent");
    let body = prompt("hi").to_string();
    assert_eq!(gateway.agent().post(&path, body).await.status, 200);

    let folder = gateway.stop_and_keep_files().await;

    let recordings = folder.path().join("recordings");
    assert!(!plain_text(&recordings).contains(SECRET));
    let exchanges = exchanges(&recordings);
    let name = exchanges[0].session.as_ref().unwrap().id.clone();
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '-';
    assert!(name.chars().all(is_allowed), "{name}");
    let header = ("x-hookgate-session".to_owned(), name.clone());
    for (place, exchange) in exchanges.iter().enumerate() {
        let session = exchange.session.as_ref().unwrap();
        assert_eq!((&session.id, session.place), (&name, place as u64));
        let prefix = format!("/s/{name}/v1beta/");
        assert!(
            exchange.headers.contains(&header) || exchange.target.starts_with(&prefix),
            "{exchange:?}"
        );
        assert_eq!(exchange.masked, ["aws_key"]);
    }
}
