//! Masking of answer fields other than text and calls: citations, annotations, tokens, and
//! fields that hookgate does not interpret, on every API family.

use serde_json::{Value, json};

use super::{
    NO_OP_COMMAND, REDACT, SECRET,
    family::{ALL, Family, ParsedAnswer, Part, Turn},
};
use crate::harness::{Answer, ReceivedRequest, TestGateway, Upstream, hook, respond};

const REDACT_BY_DENIAL: &str = "policies: [{ policy: redact, detect: [aws_key], action: deny }]\n";

/// A field of an answer.
#[derive(Debug, Clone, Copy)]
struct Field {
    /// Text that selects the event with the field; `None` for a JSON answer.
    event: Option<&'static str>,
    /// JSON pointer of the field.
    pointer: &'static str,
}

const fn body(pointer: &'static str) -> Field {
    Field {
        event: None,
        pointer,
    }
}

const fn event(marker: &'static str, pointer: &'static str) -> Field {
    Field {
        event: Some(marker),
        pointer,
    }
}

const GEMINI: &[Field] = &[
    body("/unknown"),
    body("/candidates/0/citationMetadata"),
    body("/candidates/0/groundingMetadata"),
    body("/candidates/0/urlContextMetadata"),
    body("/candidates/0/logprobsResult"),
    body("/candidates/0/content/parts/0/unknown"),
    event("hel", "/unknown"),
    event("hel", "/candidates/0/citationMetadata"),
    event("hel", "/candidates/0/groundingMetadata"),
    event("hel", "/candidates/0/logprobsResult"),
    event("lo", "/content"),
    event("lo", "/candidates/0/content/unknown"),
];

const ANTHROPIC: &[Field] = &[
    body("/unknown"),
    body("/container"),
    body("/stop_sequence"),
    body("/usage/unknown"),
    body("/content/0/citations"),
    body("/content/0/unknown"),
    body("/content/1/caller"),
    event("message_start", "/message/unknown"),
    event("message_start", "/message/usage/unknown"),
    event("content_block_start", "/content_block/citations"),
    event("content_block_start", "/unknown"),
    event("text_delta", "/unknown"),
    event("text_delta", "/delta/unknown"),
    event("toolu", "/content_block/caller"),
    event("input_json_delta", "/delta/unknown"),
    event("content_block_stop", "/unknown"),
    event("message_delta", "/delta/container"),
    event("message_delta", "/delta/stop_sequence"),
    event("message_delta", "/usage/unknown"),
    event("message_stop", "/unknown"),
];

const RESPONSES: &[Field] = &[
    body("/unknown"),
    body("/error"),
    body("/usage/unknown"),
    body("/output/0/unknown"),
    body("/output/0/content/0/annotations"),
    body("/output/0/content/0/logprobs"),
    body("/output/0/content/0/unknown"),
    body("/output/1/unknown"),
    event("response.created", "/response/unknown"),
    event("output_item.added", "/item/unknown"),
    event("content_part.added", "/part/annotations"),
    event("output_text.delta", "/logprobs"),
    event("output_text.delta", "/unknown"),
    event("output_text.done", "/logprobs"),
    event("content_part.done", "/part/logprobs"),
    event("content_part.done", "/part/annotations"),
    event("output_item.done", "/item/content/0/annotations"),
    event("output_item.done", "/item/content/0/logprobs"),
    event("response.completed", "/response/unknown"),
    event("response.completed", "/response/usage/unknown"),
    event(
        "response.completed",
        "/response/output/0/content/0/annotations",
    ),
    event(
        "response.completed",
        "/response/output/0/content/0/logprobs",
    ),
    event("response.completed", "/response/output/1/unknown"),
];

const CHAT: &[Field] = &[
    body("/citations"),
    body("/usage/unknown"),
    body("/choices/0/unknown"),
    body("/choices/0/logprobs"),
    body("/choices/0/message/annotations"),
    body("/choices/0/message/images"),
    body("/choices/0/message/name"),
    body("/choices/0/message/unknown"),
    body("/choices/0/message/tool_calls/0/unknown"),
    body("/choices/0/message/tool_calls/0/function/unknown"),
    event("hel", "/citations"),
    event("hel", "/choices/0/unknown"),
    event("hel", "/choices/0/logprobs"),
    event("hel", "/choices/0/delta/annotations"),
    event("hel", "/choices/0/delta/images"),
    event("hel", "/choices/0/delta/name"),
    event("tool_calls\":[", "/choices/0/delta/tool_calls/0/unknown"),
    event(
        "tool_calls\":[",
        "/choices/0/delta/tool_calls/0/function/unknown",
    ),
    event("\"finish_reason\":\"tool_calls\"", "/citations"),
    event("\"finish_reason\":\"tool_calls\"", "/choices/0/logprobs"),
    event(
        "\"finish_reason\":\"tool_calls\"",
        "/choices/0/delta/images",
    ),
];

/// Fields of answers and events without a part.
const FIELDS_WITHOUT_PARTS: &[(Family, Field)] = &[
    (Family::Gemini, body("/unknown")),
    (Family::Gemini, body("/candidates/0/citationMetadata")),
    (Family::Gemini, body("/candidates/0/groundingMetadata")),
    (Family::Gemini, body("/candidates/0/content/unknown")),
    (Family::Anthropic, body("/unknown")),
    (
        Family::Anthropic,
        event("message_start", "/message/unknown"),
    ),
    (Family::Anthropic, event("content_block_stop", "/unknown")),
    (Family::Anthropic, event("message_delta", "/usage/unknown")),
    (Family::Responses, body("/unknown")),
    (
        Family::Responses,
        event("response.created", "/response/unknown"),
    ),
    (
        Family::Responses,
        event("content_part.done", "/part/annotations"),
    ),
    (
        Family::Responses,
        event("response.completed", "/response/unknown"),
    ),
    (Family::Chat, body("/citations")),
    (Family::Chat, body("/choices/0/message/annotations")),
    (
        Family::Chat,
        event("\"role\"", "/choices/0/delta/annotations"),
    ),
    (
        Family::Chat,
        event("\"finish_reason\":\"stop\"", "/citations"),
    ),
];

const fn fields(family: Family) -> &'static [Field] {
    match family {
        Family::Gemini => GEMINI,
        Family::Anthropic => ANTHROPIC,
        Family::Responses => RESPONSES,
        Family::Chat => CHAT,
    }
}

fn answer_parts() -> Vec<Part> {
    vec![Part::text(&["hel", "lo"]), Part::call("look", "a")]
}

/// Value of a field: tokens that contain the secret in two pieces, or the secret.
fn value(pointer: &str) -> Value {
    let (first, second) = SECRET.split_at(9);
    let tokens = json!([{ "token": first }, { "token": second }]);
    match pointer.rsplit('/').next() {
        Some("logprobs") if pointer.starts_with("/choices") => json!({ "content": tokens }),
        Some("logprobs") => tokens,
        Some("logprobsResult") => json!({ "chosenCandidates": tokens }),
        Some("stop_sequence") => json!(SECRET),
        _ => {
            json!([{ "type": "a", "title": SECRET, "deep": { "url": format!("http://{SECRET}/") } }])
        }
    }
}

fn insert_secret(answer: &mut Value, pointer: &str) {
    let (object, key) = pointer.rsplit_once('/').unwrap();
    let object = answer.pointer_mut(object);
    let object = object.unwrap_or_else(|| panic!("no {pointer}"));
    object[key] = value(pointer);
}

/// The answer with the secret in one field.
fn answer_with_secret(family: Family, parts: &[Part], field: Field) -> String {
    let insert = |object: &mut Value| insert_secret(object, field.pointer);
    let Some(marker) = field.event else {
        let mut answer = family.whole(parts);
        insert(&mut answer);
        return answer.to_string();
    };
    events_with(&family.events(parts), marker, insert)
}

/// The events of a stream, of which the first with this text is changed.
fn events_with(events: &str, marker: &str, change: impl FnOnce(&mut Value)) -> String {
    let line = events
        .lines()
        .find(|line| line.starts_with("data: {") && line.contains(marker));
    let line = line.unwrap_or_else(|| panic!("no {marker} in {events}"));
    let mut event: Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
    change(&mut event);
    events.replacen(line, &format!("data: {event}"), 1)
}

/// A model API that answers the prompt `place 3` with the secret in field 3.
async fn upstream(family: Family, parts: Vec<Part>) -> Upstream {
    Upstream::with(move |asked: ReceivedRequest| {
        let mut numbers = fields(family).iter().enumerate();
        let is_asked = |number: usize| asked.body.contains(&format!("\"place {number}\""));
        let field = numbers.find(|(number, _)| is_asked(*number)).unwrap().1;
        let kind = match field.event {
            Some(_) => "text/event-stream",
            None => "application/json",
        };
        respond(200, kind, answer_with_secret(family, &parts, *field))
    })
    .await
}

async fn ask(family: Family, gateway: &TestGateway, number: usize, field: Field) -> Answer {
    let prompt = format!("place {number}");
    family
        .ask(gateway, field.event.is_some(), &[Turn::User(&prompt)])
        .await
}

/// The answer without the secret, as a client parses it.
fn expected() -> ParsedAnswer {
    ParsedAnswer {
        text: "hello".to_owned(),
        calls: vec![("look".to_owned(), json!({ "x": "a" }).to_string())],
        ..ParsedAnswer::default()
    }
}

fn contains_secret(answer: &Answer) -> bool {
    let (first, second) = SECRET.split_at(9);
    answer.text().contains(first) || answer.text().contains(second)
}

#[tokio::test]
async fn redact_masks_the_secret_and_keeps_the_answer() {
    for family in ALL {
        let upstream = upstream(*family, answer_parts()).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        for (number, field) in fields(*family).iter().enumerate() {
            let answer = ask(*family, &gateway, number, *field).await;
            assert!(
                !contains_secret(&answer),
                "{family:?} {field:?}: {}",
                answer.text()
            );
            if (*family, field.event.is_some()) == (Family::Responses, true) {
                // Only one of several copies has the field, which the strict parser rejects.
                assert!(answer.text().contains("response.completed"));
                continue;
            }
            let parsed = family.parse(field.event.is_some(), &answer);
            let wants_tools = parsed.wants_tools;
            let expected = ParsedAnswer {
                wants_tools,
                ..expected()
            };
            assert_eq!(parsed, expected, "{family:?} {field:?}");
        }
    }
}

#[tokio::test]
async fn redact_masks_the_secret_in_buffered_streams() {
    let (first, second) = SECRET.split_at(9);
    let masked = vec![
        Part::text(&["hel", "lo ", first, second]),
        Part::Thought(vec!["my ".to_owned(), SECRET.to_owned()]),
        Part::call("look", "a"),
    ];
    let config = format!("{REDACT}after_model: buffered\n");
    for (family, parts) in ALL
        .iter()
        .flat_map(|family| [(*family, answer_parts()), (*family, masked.clone())])
    {
        let upstream = upstream(family, parts).await;
        let gateway = family.gateway(&upstream, &config).await;
        let in_streams = fields(family).iter().enumerate();
        for (number, field) in in_streams.filter(|(_, field)| field.event.is_some()) {
            let answer = ask(family, &gateway, number, *field).await;
            assert!(
                !contains_secret(&answer),
                "{family:?} {field:?}: {}",
                answer.text()
            );
            if family != Family::Responses {
                let parsed = family.parse(true, &answer);
                assert_eq!(parsed.calls, expected().calls, "{family:?} {field:?}");
            }
        }
    }
}

#[tokio::test]
async fn redact_denies_the_secret() {
    for family in ALL {
        let upstream = upstream(*family, answer_parts()).await;
        let gateway = family.gateway(&upstream, REDACT_BY_DENIAL).await;
        for (number, field) in fields(*family).iter().enumerate() {
            let answer = ask(*family, &gateway, number, *field).await;
            assert!(
                !contains_secret(&answer),
                "{family:?} {field:?}: {}",
                answer.text()
            );
        }
    }
}

#[tokio::test]
async fn without_policies_on_texts_every_byte_passes() {
    let hooks = hook::config(&[("AfterModel", hook::command("quiet", NO_OP_COMMAND))]);
    for family in ALL {
        let upstream = upstream(*family, answer_parts()).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        for (number, field) in fields(*family).iter().enumerate() {
            let answer = ask(*family, &gateway, number, *field).await;
            assert_eq!(
                answer.text(),
                answer_with_secret(*family, &answer_parts(), *field),
                "{family:?} {field:?}"
            );
        }
    }
}

/// A model API with this answer.
async fn upstream_of(is_stream: bool, answer: String) -> Upstream {
    let kind = if is_stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    Upstream::with(move |_| respond(200, kind, answer.clone())).await
}

/// Sends a prompt to a model API with this answer.
async fn ask_with(family: Family, is_stream: bool, answer: String, hooks: &str) -> Answer {
    let upstream = upstream_of(is_stream, answer).await;
    let gateway = family.gateway(&upstream, hooks).await;
    family.ask(&gateway, is_stream, &[Turn::User("go")]).await
}

#[tokio::test]
async fn a_hook_denies_a_field_of_an_answer_or_event_without_a_part() {
    let command = format!("if grep -q {SECRET}; then echo no >&2; exit 2; fi");
    let guard = json!({ "name": "guard", "command": command, "document": true });
    let hooks = hook::config(&[("AfterModel", guard)]);
    for (family, field) in FIELDS_WITHOUT_PARTS {
        let is_stream = field.event.is_some();
        let parts = if is_stream {
            vec![Part::text(&["hel", "lo"])]
        } else {
            Vec::new()
        };
        let answer = answer_with_secret(*family, &parts, *field);

        let answer = ask_with(*family, is_stream, answer, &hooks).await;

        assert!(
            !contains_secret(&answer),
            "{family:?} {field:?}: {}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn a_fail_closed_hook_denies_images_and_sound_without_a_text() {
    let failing = json!({ "name": "guard", "command": "exit 1", "on_failure": "closed" });
    let hooks = hook::config(&[("AfterModel", failing)]);
    let data = "QVVST1JB";
    let url = format!("data:image/png;base64,{data}");
    let images = json!([{ "type": "image_url", "image_url": { "url": url } }]);
    let mut whole = Family::Chat.whole(&[]);
    whole["choices"][0]["message"]["images"] = images.clone();
    let delta = json!({ "role": "assistant", "content": null, "images": images });
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
    let event = json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
        "model": "m", "choices": [choice] });
    let with_images = format!("data: {event}\n\n{}", Family::Chat.events(&[]));
    let event = json!({ "type": "response.audio.delta", "delta": data });
    let event = format!("\n\nevent: response.audio.delta\ndata: {event}\n\n");
    let with_sound = Family::Responses.events(&[]).replacen("\n\n", &event, 1);
    for (family, is_stream, answer) in [
        (Family::Chat, false, whole.to_string()),
        (Family::Chat, true, with_images),
        (Family::Responses, true, with_sound),
    ] {
        let answer = ask_with(family, is_stream, answer, &hooks).await;

        assert!(!answer.text().contains(data), "{}", answer.text());
    }
}

/// Config of a hook that returns this part of an answer as it was shown.
fn returning_shown(part: &str) -> String {
    let script = format!(
        "import json, sys; shown = json.load(sys.stdin)[\"llm_response\"]; \
         print(json.dumps({{\"hookSpecificOutput\": {{\"llm_response\": {part}}}}}))"
    );
    let echo = hook::command("echo", &format!("tee seen | python3 -c '{script}'"));
    hook::config(&[("AfterModel", echo)])
}

#[tokio::test]
async fn content_without_a_part_is_sent_as_it_is_if_a_hook_returns_it() {
    check_content_without_a_part(&returning_shown("shown")).await;
}

#[tokio::test]
async fn content_without_a_part_is_sent_as_it_is_if_a_hook_returns_its_text() {
    check_content_without_a_part(&returning_shown("{\"text\": shown[\"text\"]}")).await;
}

/// Checks that answers without a part are sent as they are, and that hooks see an empty text.
async fn check_content_without_a_part(hooks: &str) {
    let bodies = FIELDS_WITHOUT_PARTS
        .iter()
        .filter(|(_, field)| field.event.is_none());
    let bodies =
        bodies.map(|(family, field)| (*family, false, answer_with_secret(*family, &[], *field)));
    let citations = json!({ "citations": [{ "uri": "https://source.test" }] });
    let candidate = json!({ "index": 0, "finishReason": "STOP", "groundingMetadata": value(""),
        "citationMetadata": citations });
    let grounded = json!({ "candidates": [candidate], "usageMetadata": { "totalTokenCount": 5 } });
    let chunk = format!("data: {grounded}\r\n\r\n");
    for (family, is_stream, sent) in bodies.chain([
        (Family::Gemini, false, grounded.to_string()),
        (Family::Gemini, true, chunk),
    ]) {
        let upstream = upstream_of(is_stream, sent.clone()).await;
        let gateway = family.gateway(&upstream, hooks).await;

        let answer = family.ask(&gateway, is_stream, &[Turn::User("go")]).await;

        assert_eq!(answer.text(), sent, "{family:?}");
        let seen = gateway.file("seen");
        assert!(seen.contains(r#""parts":[""]"#), "{family:?}: {seen}");
    }
}

#[tokio::test]
async fn an_empty_text_of_a_hook_is_not_added_in_front_of_a_call() {
    let hooks = returning_shown("{\"text\": shown[\"text\"]}");
    for family in ALL {
        let sent = family.whole(&[Part::call("look", "a")]).to_string();

        let answer = ask_with(*family, false, sent.clone(), &hooks).await;

        assert_eq!(answer.text(), sent, "{family:?}");
    }
}

#[tokio::test]
async fn hooks_do_not_run_for_an_event_with_a_container_of_skills() {
    let hooks = hook::config(&[(
        "AfterModel",
        hook::command("seen", "cat > /dev/null; echo run >> seen"),
    )]);
    let skill = json!({ "type": "anthropic", "skill_id": "pptx", "version": "latest" });
    let container = json!({ "id": "container_1", "expires_at": "2026-12-01T00:00:00Z",
        "skills": [skill] });
    let events = Family::Anthropic.events(&[Part::text(&["hel", "lo"])]);
    let sent = events_with(&events, "message_delta", |event| {
        event["delta"]["container"] = container;
    });
    let upstream = upstream_of(true, sent).await;
    let gateway = Family::Anthropic.gateway(&upstream, &hooks).await;

    let answer = Family::Anthropic
        .ask(&gateway, true, &[Turn::User("go")])
        .await;

    assert!(answer.text().contains("pptx"), "{}", answer.text());
    assert_eq!(gateway.file("seen").lines().count(), 2);
}

#[tokio::test]
async fn hooks_run_only_for_the_events_of_a_stream_that_have_a_text() {
    let hooks = hook::config(&[(
        "AfterModel",
        hook::command("seen", "cat > /dev/null; echo run >> seen"),
    )]);
    for family in ALL {
        let upstream = family
            .upstream(vec![vec![Part::text(&["hel", "lo"])]])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;

        family.ask(&gateway, true, &[Turn::User("go")]).await;

        let seen = gateway.file("seen");
        assert_eq!(seen.lines().count(), 2, "{family:?}");
    }
}
