//! Texts of answers beside the model's text and calls: citations, annotations, tokens, and
//! fields that hookgate does not interpret, on every API family.

use serde_json::{Value, json};

use super::{
    QUIET_TOOL_HOOK, REDACT, SECRET,
    family::{ALL, Family, Heard, Said, Turn},
};
use crate::harness::{Answer, Asked, TestGateway, Upstream, hook, respond};

const DENY: &str = "policies: [{ policy: redact, detect: [aws_key], action: deny }]\n";

/// A field of an answer.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// A word of the event that gets the field; `None` for a body.
    event: Option<&'static str>,
    /// The field.
    pointer: &'static str,
}

const fn body(pointer: &'static str) -> Place {
    Place {
        event: None,
        pointer,
    }
}

const fn event(word: &'static str, pointer: &'static str) -> Place {
    Place {
        event: Some(word),
        pointer,
    }
}

const GEMINI: &[Place] = &[
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
];

const ANTHROPIC: &[Place] = &[
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

const RESPONSES: &[Place] = &[
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

const CHAT: &[Place] = &[
    body("/citations"),
    body("/usage/unknown"),
    body("/choices/0/unknown"),
    body("/choices/0/logprobs"),
    body("/choices/0/message/annotations"),
    body("/choices/0/message/unknown"),
    body("/choices/0/message/tool_calls/0/unknown"),
    body("/choices/0/message/tool_calls/0/function/unknown"),
    event("hel", "/citations"),
    event("hel", "/choices/0/unknown"),
    event("hel", "/choices/0/logprobs"),
    event("hel", "/choices/0/delta/annotations"),
    event("tool_calls\":[", "/choices/0/delta/tool_calls/0/unknown"),
    event(
        "tool_calls\":[",
        "/choices/0/delta/tool_calls/0/function/unknown",
    ),
    event("\"finish_reason\":\"tool_calls\"", "/citations"),
    event("\"finish_reason\":\"tool_calls\"", "/choices/0/logprobs"),
];

const fn places(family: Family) -> &'static [Place] {
    match family {
        Family::Gemini => GEMINI,
        Family::Anthropic => ANTHROPIC,
        Family::Responses => RESPONSES,
        Family::Chat => CHAT,
    }
}

fn said() -> Vec<Said> {
    vec![Said::text(&["hel", "lo"]), Said::call("look", "a")]
}

/// What a field holds: tokens that spell the secret in two pieces, or the secret.
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

fn plant(answer: &mut Value, pointer: &str) {
    let (object, key) = pointer.rsplit_once('/').unwrap();
    let object = answer.pointer_mut(object);
    let object = object.unwrap_or_else(|| panic!("no {pointer}"));
    object[key] = value(pointer);
}

/// The answer with the secret at a place.
fn planted(family: Family, said: &[Said], place: Place) -> String {
    let Some(word) = place.event else {
        let mut answer = family.whole(said);
        plant(&mut answer, place.pointer);
        return answer.to_string();
    };
    let events = family.events(said);
    let line = events
        .lines()
        .find(|line| line.starts_with("data: {") && line.contains(word));
    let line = line.unwrap_or_else(|| panic!("no {word} in {events}"));
    let mut event: Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
    plant(&mut event, place.pointer);
    events.replacen(line, &format!("data: {event}"), 1)
}

/// A model API that answers the prompt `3` with the third place.
async fn upstream(family: Family, said: Vec<Said>) -> Upstream {
    Upstream::with(move |asked: Asked| {
        let mut numbers = places(family).iter().enumerate();
        let is_asked = |number: usize| asked.body.contains(&format!("\"place {number}\""));
        let place = numbers.find(|(number, _)| is_asked(*number)).unwrap().1;
        let kind = match place.event {
            Some(_) => "text/event-stream",
            None => "application/json",
        };
        respond(200, kind, planted(family, &said, *place))
    })
    .await
}

async fn ask(family: Family, gateway: &TestGateway, number: usize, place: Place) -> Answer {
    let prompt = format!("place {number}");
    family
        .ask(gateway, place.event.is_some(), &[Turn::User(&prompt)])
        .await
}

/// What a client understands of the answer without the secret.
fn expected() -> Heard {
    Heard {
        text: "hello".to_owned(),
        calls: vec![("look".to_owned(), json!({ "x": "a" }).to_string())],
        ..Heard::default()
    }
}

fn leaks(answer: &Answer) -> bool {
    let (first, second) = SECRET.split_at(9);
    answer.text().contains(first) || answer.text().contains(second)
}

#[tokio::test]
async fn redact_masks_the_secret_and_keeps_the_answer() {
    for family in ALL {
        let upstream = upstream(*family, said()).await;
        let gateway = family.gateway(&upstream, REDACT).await;
        for (number, place) in places(*family).iter().enumerate() {
            let answer = ask(*family, &gateway, number, *place).await;
            assert!(!leaks(&answer), "{family:?} {place:?}: {}", answer.text());
            if (*family, place.event.is_some()) == (Family::Responses, true) {
                // Only one of several copies has the field, so a strict client refuses them.
                assert!(answer.text().contains("response.completed"));
                continue;
            }
            let heard = family.heard(place.event.is_some(), &answer);
            let wants_tools = heard.wants_tools;
            let expected = Heard {
                wants_tools,
                ..expected()
            };
            assert_eq!(heard, expected, "{family:?} {place:?}");
        }
    }
}

#[tokio::test]
async fn redact_masks_the_secret_in_streams_that_are_held() {
    let (first, second) = SECRET.split_at(9);
    let masked = vec![
        Said::text(&["hel", "lo ", first, second]),
        Said::Thought(vec!["my ".to_owned(), SECRET.to_owned()]),
        Said::call("look", "a"),
    ];
    let config = format!("{REDACT}after_model: buffered\n");
    for (family, said) in ALL
        .iter()
        .flat_map(|it| [(*it, said()), (*it, masked.clone())])
    {
        let upstream = upstream(family, said).await;
        let gateway = family.gateway(&upstream, &config).await;
        let in_streams = places(family).iter().enumerate();
        for (number, place) in in_streams.filter(|(_, place)| place.event.is_some()) {
            let answer = ask(family, &gateway, number, *place).await;
            assert!(!leaks(&answer), "{family:?} {place:?}: {}", answer.text());
            if family != Family::Responses {
                let heard = family.heard(true, &answer);
                assert_eq!(heard.calls, expected().calls, "{family:?} {place:?}");
            }
        }
    }
}

#[tokio::test]
async fn redact_denies_the_secret() {
    for family in ALL {
        let upstream = upstream(*family, said()).await;
        let gateway = family.gateway(&upstream, DENY).await;
        for (number, place) in places(*family).iter().enumerate() {
            let answer = ask(*family, &gateway, number, *place).await;
            assert!(!leaks(&answer), "{family:?} {place:?}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn without_policies_on_texts_every_byte_passes() {
    let hooks = hook::config(&[("AfterModel", hook::running("quiet", QUIET_TOOL_HOOK))]);
    for family in ALL {
        let upstream = upstream(*family, said()).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        for (number, place) in places(*family).iter().enumerate() {
            let answer = ask(*family, &gateway, number, *place).await;
            assert_eq!(
                answer.text(),
                planted(*family, &said(), *place),
                "{family:?} {place:?}"
            );
        }
    }
}
