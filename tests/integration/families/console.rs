//! Console pages for calls of every API: conversation, live tail, sessions, tests and trials.

use std::fs;

use serde_json::{Value, json};

use super::family::{ALL, Family, Part, Turn, each};
use crate::{
    harness::{Browser, TestGateway, next_chunk, run},
    trace::{calls, until},
};

const IMAGE: &str = "iVBORw0KGgo=";

/// Name of the API in records and filters.
fn dialect(family: Family) -> &'static str {
    match family {
        Family::Gemini => "gemini",
        Family::Anthropic => "anthropic",
        Family::Responses => "openai_responses",
        Family::Chat => "openai_chat",
    }
}

/// A request with a system prompt, an image, a thought, a call and its result.
fn long_request(family: Family, is_stream: bool) -> Value {
    let turns = [
        Turn::User("look at this"),
        Turn::Call("look", "apples"),
        Turn::Result("look", "two pears"),
    ];
    let mut request = family.request(is_stream, &turns);
    match family {
        Family::Gemini => {
            request["systemInstruction"] = json!({ "parts": [{ "text": "be kind" }] });
            let parts = request["contents"][0]["parts"].as_array_mut().unwrap();
            parts.push(json!({ "inlineData": { "mimeType": "image/png", "data": IMAGE } }));
            let parts = request["contents"][1]["parts"].as_array_mut().unwrap();
            parts.insert(0, json!({ "text": "an earlier thought", "thought": true }));
        }
        Family::Anthropic => {
            let source = json!({ "type": "base64", "media_type": "image/png", "data": IMAGE });
            request["messages"][0]["content"] = json!([
                { "type": "text", "text": "look at this" },
                { "type": "image", "source": source },
            ]);
            let thinking = json!({
                "type": "thinking", "thinking": "an earlier thought", "signature": "c2ln",
            });
            let blocks = request["messages"][1]["content"].as_array_mut().unwrap();
            blocks.insert(0, thinking);
        }
        Family::Responses => {
            let image = json!({
                "type": "input_image", "image_url": format!("data:image/png;base64,{IMAGE}"),
            });
            request["input"][0]["content"]
                .as_array_mut()
                .unwrap()
                .push(image);
            let summary = json!([{ "type": "summary_text", "text": "an earlier thought" }]);
            let thought = json!({
                "type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "ZW5j",
            });
            request["input"].as_array_mut().unwrap().insert(1, thought);
        }
        Family::Chat => {
            let image = json!({ "url": format!("data:image/png;base64,{IMAGE}") });
            request["messages"][0]["content"] = json!([
                { "type": "text", "text": "look at this" },
                { "type": "image_url", "image_url": image },
            ]);
            request["messages"][1]["reasoning_content"] = "an earlier thought".into();
            let system = json!({ "role": "system", "content": "be kind" });
            request["messages"]
                .as_array_mut()
                .unwrap()
                .insert(0, system);
        }
    }
    request
}

/// Waits until the content of the last call is stored, and returns the id of the call.
async fn last_call_id(gateway: &TestGateway) -> String {
    let call = calls(gateway, "", 1).await["calls"][0]["id"].clone();
    let id = call.as_str().unwrap().to_owned();
    let has_content = |found: &Value| found["has_content"] == true;
    until(&gateway.operator(), &format!("/calls/{id}"), has_content).await;
    id
}

#[tokio::test]
async fn the_conversation_shows_every_kind_of_content() {
    let config = "trace: { content: { sample: 1.0 } }
hooks: { BeforeTool: [{ hooks: [{ name: see, command: cat > /dev/null }] }] }
";
    let parts = vec![
        Part::Thought(vec!["a new ".into(), "thought".into()]),
        Part::text(&["the ans", "wer"]),
        Part::call("rm", "oranges"),
    ];
    for (family, is_stream) in each() {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, config).await;
        let body = long_request(family, is_stream).to_string();
        let answer = family.post(&gateway, is_stream, body).await;
        assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());

        let id = last_call_id(&gateway).await;
        let path = format!("/console/calls/{id}?content=1");
        let page = Browser::at(&gateway).get(&path).await.html;

        let (_, page) = page.split_once("Request of the agent").unwrap();
        let (request, answer) = page.split_once("Answer that the agent received").unwrap();
        let request_parts = [
            "<strong>system</strong><p>be kind</p>",
            "<strong>user</strong><p>look at this</p><p class=\"muted\">",
            "image/png, 9 B</p>",
            "<summary>thought</summary><p>an earlier thought</p>",
            "<p>calls <code>look</code></p><pre tabindex=\"0\">{\n  &quot;x&quot;: &quot;apples&quot;\n}</pre>",
            "<p>result of <code>look</code></p>",
            "two pears",
        ];
        for part in request_parts {
            assert!(request.contains(part), "{family:?}: no {part} in {request}");
        }
        let answer_parts = [
            "<summary>thought</summary><p>a new thought</p>",
            "<p>the answer</p>",
            "<p>calls <code>rm</code></p><pre tabindex=\"0\">{\n  &quot;x&quot;: &quot;oranges&quot;\n}</pre>",
        ];
        for part in answer_parts {
            assert!(
                answer.contains(part),
                "{family:?} {is_stream}: no {part} in {answer}"
            );
        }
        assert!(!page.contains("other part"), "{family:?}: {page}");
    }
}

#[tokio::test]
async fn lists_and_live_tail_are_filtered_by_api() {
    let hooks = "hooks: { BeforeModel: [{ hooks: [{ name: see, command: cat > /dev/null }] }] }\n";
    for (family, is_stream) in each() {
        for config in ["", hooks] {
            let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
            let gateway = family.gateway(&upstream, config).await;
            let name = dialect(family);
            let path = format!("/console/calls/stream?dialect={name}");
            let mut tail = Browser::at(&gateway).open(&path).await;
            family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

            let events = next_chunk(&mut tail).await;
            let id = calls(&gateway, &format!("dialect={name}"), 1).await["calls"][0].clone();
            assert_eq!(id["dialect"], name, "{id:#}");
            assert!(events.contains(id["id"].as_str().unwrap()), "{events}");
            for other in ALL.iter().filter(|other| **other != family) {
                let path = format!("/calls?dialect={}", dialect(*other));
                let none = gateway.operator().get(&path).await.json();
                assert_eq!(none["calls"], json!([]), "{family:?} {other:?}");
            }
        }
    }
}

#[tokio::test]
async fn calls_show_token_counts_and_sessions_show_prompt_counts() {
    let hooks = "hooks: { AfterModel: [{ hooks: [{ name: see, command: cat > /dev/null }] }] }\n";
    for (family, is_stream) in each() {
        // A stream of Chat Completions has counts only if the agent asks for them.
        let expected = match (family, is_stream) {
            (Family::Gemini, _) | (Family::Chat, true) => Value::Null,
            _ => json!(7),
        };
        let upstream = family.upstream(vec![vec![Part::text(&["ok"])]]).await;
        let gateway = family.gateway(&upstream, hooks).await;
        family.ask(&gateway, is_stream, &[Turn::User("hi")]).await;

        let call = calls(&gateway, "", 1).await["calls"][0].clone();
        assert_eq!(call["tokens"], expected, "{family:?} {is_stream}: {call:#}");
        let browser = Browser::at(&gateway);
        let session = call["session"].as_str().unwrap();
        let list = browser.get("/console/sessions").await.html;
        assert!(list.contains(session), "{family:?}: {list}");
        let path = format!("/console/sessions/{session}");
        let page = browser.get(&path).await.html;
        assert!(page.contains("<dt>Prompts</dt><dd>1</dd>"), "{page}");
        let row = format!("/console/calls?session={session}");
        assert!(page.contains(&row), "{family:?}: {page}");
    }
}

/// The unescaped text between two markers of a page.
#[track_caller]
fn text_between(page: &str, start: &str, end: &str) -> String {
    let (_, rest) = page
        .split_once(start)
        .unwrap_or_else(|| panic!("no {start} in {page}"));
    let (text, _) = rest.split_once(end).unwrap();
    let escapes = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ];
    let unescape = |text: String, (escape, char): (&str, &str)| text.replace(escape, char);
    escapes.into_iter().fold(text.to_owned(), unescape)
}

/// A guard on tools or prompts, the answers of the model, and the reason of the denial.
fn denials() -> [(&'static str, Vec<Vec<Part>>, &'static str); 3] {
    let never = vec![vec![Part::text(&["never"])]];
    let called = vec![
        vec![Part::text(&["let me"]), Part::call("rm", "/")],
        vec![Part::text(&["I will ", "not."])],
    ];
    [
        (
            "policies: [{ policy: prompt_guard, deny: [aurora], reason: not this }]",
            never,
            "not this",
        ),
        (
            "policies: [{ policy: tool_guard, deny: [rm], reason: not here }]",
            called.clone(),
            "not here",
        ),
        (
            "hooks: { BeforeTool: [{ matcher: rm, hooks: [{ name: guard, command: \"echo no rm >&2; exit 2\" }] }] }",
            called,
            "no rm",
        ),
    ]
}

#[tokio::test]
async fn a_denial_exports_as_a_passing_test_and_is_denied_again_in_a_trial() {
    for (family, is_stream) in each() {
        for (guard, answers, reason) in denials() {
            let upstream = family.upstream(answers).await;
            let config = format!(
                "trace: {{ content: {{ denied_or_edited: true, reasons: true }} }}\n{guard}\n"
            );
            let gateway = family.gateway(&upstream, &config).await;
            fs::write(gateway.path("hookgate.yaml"), &config).unwrap();
            let turns = [Turn::User("about aurora")];
            let answer = family.ask(&gateway, is_stream, &turns).await;
            assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
            let id = last_call_id(&gateway).await;
            let browser = Browser::at(&gateway);

            let page = browser.get("/console/denials").await.html;
            let link = format!("href=\"/console/calls/{id}/test\">Make a test of this");
            assert!(page.contains(&link), "{family:?} {guard}: {page}");
            let page = browser.get(&format!("/console/calls/{id}/test")).await.html;
            let yaml = text_between(&page, "<pre tabindex=\"0\">", "</pre>");
            let file = gateway.path("denial.yaml");
            fs::write(&file, &yaml).unwrap();
            let (code, out, error) = run(&["test", "denial.yaml"], file.parent().unwrap());
            assert_eq!(code, 0, "{family:?} {is_stream}: {out}{error}\n{yaml}");
            assert!(yaml.contains(family.path(is_stream)), "{yaml}");

            let page = browser.get(&format!("/console/try?call={id}")).await.html;
            let input = text_between(&page, "spellcheck=\"false\">", "</textarea>");
            let csrf = browser.csrf("/console/try").await;
            let fields = [("csrf", &*csrf), ("input", &*input), ("mode", "run")];
            let page = browser.post("/console/try", &fields).await.html;
            assert!(page.contains("Verdict: "), "{family:?}: {page}");
            assert!(page.contains(reason), "{family:?} {is_stream}: {page}");
            let upstream_calls = upstream.requests().len();
            assert!(upstream_calls <= 2, "the trial reached the model API");
        }
    }
}
