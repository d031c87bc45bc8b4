//! Session ids, turns and prompts of agents on every API.

use serde_json::{Value, json};

use super::{
    family::{ALL, Family, Part, Turn},
    model_api, post,
};
use crate::harness::{TestGateway, Upstream, hook, respond};

/// A config with a hook that appends the session and the prompt to a file.
fn prompt_hook() -> String {
    let script = "cat >> prompts; echo >> prompts";
    hook::config(&[("BeforeAgent", hook::command("see", script))])
}

/// Sessions and prompts that the hook has recorded so far.
fn recorded_prompts(gateway: &TestGateway) -> Vec<(String, String)> {
    let lines = gateway.file("prompts");
    let lines = lines.lines().filter(|line| !line.is_empty());
    let parsed = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    parsed
        .map(|input| (text(&input["session_id"]), text(&input["prompt"])))
        .collect()
}

/// An API family, the headers of an agent, and the expected session id.
type SessionCase<'a> = (Family, &'a [(&'static str, &'a str)], &'a str);

#[tokio::test]
async fn session_ids_come_from_agent_headers_and_differ_for_sub_agents() {
    let claude = ("x-claude-code-session-id", "c-1");
    let cases: [SessionCase<'_>; 6] = [
        (Family::Anthropic, &[claude], "c-1"),
        (
            Family::Anthropic,
            &[claude, ("x-claude-code-agent-id", "sub")],
            "c-1:sub",
        ),
        (
            Family::Anthropic,
            &[claude, ("x-hookgate-session", "mine")],
            "mine",
        ),
        (
            Family::Responses,
            &[("session-id", "x-1"), ("thread-id", "x-1")],
            "x-1",
        ),
        (
            Family::Responses,
            &[("session-id", "x-1"), ("thread-id", "x-2")],
            "x-1:x-2",
        ),
        (Family::Responses, &[("x-session-id", "ses_1")], "ses_1"),
    ];
    for (family, headers, expected) in cases {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, &prompt_hook()).await;
        let mut agent = gateway.agent();
        for (name, value) in headers {
            agent = agent.sending(name, value);
        }
        // The same prompt again is one turn of the same session.
        for _ in 0..2 {
            post(family, &agent).await;
        }
        let seen = recorded_prompts(&gateway);
        assert_eq!(
            seen,
            [(expected.to_owned(), "hi".to_owned())],
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn a_session_id_in_the_body_is_used_unless_users_may_share_it() {
    let uuid = "2e5bf39a-41ec-499f-9883-d64499ab6084";
    let user = json!({ "device_id": "d", "account_uuid": "", "session_id": "s-9" }).to_string();
    for (family, field, value, expected) in [
        (
            Family::Responses,
            "prompt_cache_key",
            json!(uuid),
            Some(uuid),
        ),
        (Family::Responses, "prompt_cache_key", json!("my-app"), None),
        (
            Family::Anthropic,
            "metadata",
            json!({ "user_id": user }),
            Some("s-9"),
        ),
        (
            Family::Anthropic,
            "metadata",
            json!({ "user_id": "someone" }),
            None,
        ),
    ] {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, &prompt_hook()).await;
        let mut request = family.request(false, &[Turn::User("hi")]);
        request[field] = value.clone();
        let agent = gateway.agent();
        agent.post(family.path(false), request.to_string()).await;
        let (session, _) = recorded_prompts(&gateway).remove(0);
        match expected {
            Some(expected) => assert_eq!(session, expected),
            None => assert!(!value.to_string().contains(&session), "{session}"),
        }
    }
}

#[tokio::test]
async fn helper_calls_of_agents_start_no_turn_and_get_errors_for_denials() {
    let agent_header = "claude-cli/2.1.330 (external, cli)";
    for tools in [
        json!([]),
        json!([{ "type": "web_search_20250305", "name": "web_search" }]),
    ] {
        let family = Family::Anthropic;
        let upstream = model_api(family).await;
        let deny = "  BeforeModel: [{ matcher: \"*\", hooks: [{ command: 'grep -q secret && { echo no >&2; exit 2; }; exit 0' }] }]\n";
        let config =
            "hooks:\n  BeforeAgent: [{ hooks: [{ command: 'cat >> prompts; echo >> prompts' }] }]\n"
                .to_owned() + deny;
        let gateway = family.gateway(&upstream, &config).await;
        let agent = gateway
            .agent()
            .sending("user-agent", agent_header)
            .sending("x-claude-code-session-id", "c-1");
        let mut helper = family.request(false, &[Turn::User("a title, please")]);
        helper["tools"] = tools;
        let answer = agent.post("/v1/messages", helper.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        post(family, &agent).await;

        let expected = ("c-1".to_owned(), "hi".to_owned());
        assert_eq!(recorded_prompts(&gateway), [expected]);
        helper["messages"][0]["content"] = json!("a secret");
        let answer = agent.post("/v1/messages", helper.to_string()).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
        // A call without tools from any other client starts a turn.
        let sdk = gateway
            .agent()
            .sending("user-agent", "Anthropic/Python 2.12.0");
        helper["messages"][0]["content"] = json!("from an SDK");
        sdk.post("/v1/messages", helper.to_string()).await;
        assert_eq!(recorded_prompts(&gateway).len(), 2);
    }
}

#[tokio::test]
async fn pieces_of_a_streamed_block_beside_its_text_belong_to_no_other_session() {
    let citation = json!({ "type": "char_location", "cited_text": "page", "document_index": 0,
        "document_title": "t", "start_char_index": 0, "end_char_index": 4 });
    for delta in [
        json!({ "type": "citations_delta", "citation": citation }),
        json!({ "type": "new_delta", "new": "x" }),
    ] {
        let text = "The page has it that the day is fine.";
        let piece = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
        let stop = "event: content_block_stop";
        let piece = format!("event: content_block_delta\ndata: {piece}\n\n{stop}");
        let events = Family::Anthropic.events(&[Part::text(&[text])]);
        let events = events.replacen(stop, &piece, 1);
        assert!(events.contains("new_delta") || events.contains("citations_delta"));
        let upstream =
            Upstream::with(move |_| respond(200, "text/event-stream", events.clone())).await;
        let gateway = Family::Anthropic.gateway(&upstream, &prompt_hook()).await;
        let mut turns = Vec::new();
        for prompt in ["one", "two", "three"] {
            turns.push(Turn::User(prompt));
            Family::Anthropic.ask(&gateway, true, &turns).await;
            turns.push(Turn::Model(text));
        }

        let seen = recorded_prompts(&gateway);
        assert_eq!(seen.len(), 3);
        let is_same = |(session, _): &(String, String)| *session == seen[0].0;
        assert!(seen.iter().all(is_same), "{seen:?}");
    }
}

#[tokio::test]
async fn context_that_agents_add_around_a_prompt_is_not_part_of_it() {
    let environment = "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>";
    let reminder = "<system-reminder>\nbe brief\n</system-reminder>\n";
    let item = |text: &str| json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] });
    let block = |text: &str| json!({ "type": "text", "text": text });
    for (family, field, content) in [
        (
            Family::Responses,
            "input",
            json!([item(environment), item("read alpha")]),
        ),
        (
            Family::Anthropic,
            "messages",
            json!([
                { "role": "user", "content": [block(reminder), block(reminder), block("one")] },
                { "role": "assistant", "content": "ok" },
                { "role": "user", "content": [block(reminder), block("read alpha")] },
            ]),
        ),
    ] {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, &prompt_hook()).await;
        let mut request = family.request(false, &[]);
        request[field] = content;
        let agent = gateway.agent();
        let answer = agent.post(family.path(false), request.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let prompts: Vec<String> = recorded_prompts(&gateway)
            .into_iter()
            .map(|(_, prompt)| prompt)
            .collect();
        assert_eq!(prompts.last().unwrap(), "read alpha", "{family:?}");
        assert!(
            prompts.iter().all(|prompt| !prompt.contains('<')),
            "{prompts:?}"
        );
    }
}

#[tokio::test]
async fn prompts_with_the_same_reminder_behind_them_are_all_inspected() {
    let reminder = json!({ "type": "text", "text": "<system-reminder>be brief</system-reminder>" });
    let prompt = |text: &str| json!({ "role": "user", "content": [{ "type": "text", "text": text }, reminder] });
    let answer = json!({ "role": "assistant", "content": "ok" });
    let family = Family::Anthropic;
    let upstream = model_api(family).await;
    let gateway = family.gateway(&upstream, &prompt_hook()).await;
    let agent = gateway.agent().sending("x-hookgate-session", "mine");
    let send = async |messages: Value| {
        let mut request = family.request(false, &[]);
        request["messages"] = messages;
        let answer = agent.post(family.path(false), request.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };

    send(json!([prompt("one")])).await;
    send(json!([prompt("two"), answer, prompt("three")])).await;

    let prompts = recorded_prompts(&gateway).into_iter();
    let prompts: Vec<String> = prompts.map(|(_, prompt)| prompt).collect();
    assert_eq!(prompts, ["one", "two", "three"]);
}

/// Configs that deny prompts with `bad idea`: by the prompt alone, and by the whole request.
fn denying_configs() -> [String; 2] {
    let command = "if grep -q 'bad idea'; then echo no >&2; exit 2; fi";
    let hooks = hook::config(&[("BeforeAgent", hook::command("guard", command))]);
    let policy = "policies: [{ policy: prompt_guard, deny: [bad idea], reason: no }]\n";
    [hooks, policy.to_owned()]
}

#[tokio::test]
async fn the_environment_in_front_of_a_denied_prompt_stays_if_hooks_decide_without_it() {
    let environment = Turn::User("<environment_context>in /x</environment_context>");
    let denied = [environment, Turn::User("bad idea")];
    let later = [&denied[..], &[Turn::Model("no"), Turn::User("go on")]].concat();
    for family in ALL.iter().copied() {
        for (config, kept) in denying_configs().iter().zip([1, 0]) {
            let upstream = model_api(family).await;
            let gateway = family.gateway(&upstream, config).await;

            let denial = family.ask(&gateway, false, &denied).await;
            family.ask(&gateway, false, &later).await;

            assert_eq!(family.parse(false, &denial).text, "no", "{family:?}");
            let asked = upstream.only_request().json();
            let expected = [&denied[..kept], &[Turn::User("go on")]].concat();
            assert_eq!(asked, family.request(false, &expected), "{config}");
        }
    }
}

#[tokio::test]
async fn a_secret_in_the_environment_denies_the_first_request_only() {
    let config = "policies: [{ policy: redact, detect: [email], action: deny }]\n";
    let environment = "<environment_context>ann@example.com</environment_context>";
    let denied = [Turn::User(environment), Turn::User("fix it")];
    for family in ALL.iter().copied() {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, config).await;

        let denial = family.ask(&gateway, false, &denied).await;
        let reason = family.parse(false, &denial).text;
        let later = [&denied[..], &[Turn::Model(&reason), Turn::User("go on")]].concat();
        family.ask(&gateway, false, &later).await;

        let asked = upstream.only_request().json();
        let expected = family.request(false, &[Turn::User("go on")]);
        assert_eq!(asked, expected, "{family:?}: {reason}");
    }
}

#[tokio::test]
async fn reminders_in_front_of_a_denied_prompt_stay_unless_they_are_the_prompt() {
    let block = |text: &str| json!({ "type": "text", "text": text });
    let reminder = |text: &str| block(&format!("<system-reminder>{text}</system-reminder>"));
    let reminders = [reminder("one"), reminder("two")];
    let user = |blocks: &[Value]| json!({ "role": "user", "content": blocks });
    let prompt = [&reminders[..], &[block("bad idea")]].concat();
    let next = user(&[block("go on")]);
    // Of a whole request, only the first reminder stays.
    let cases = [
        (user(&prompt), [2, 1]),
        (user(&[reminder("bad idea")]), [0, 0]),
        (user(&[reminder("bad idea"), reminder("two")]), [0, 0]),
    ];
    let family = Family::Anthropic;
    for (denied, kept) in cases {
        for (config, kept) in denying_configs().iter().zip(kept) {
            let upstream = model_api(family).await;
            let gateway = family.gateway(&upstream, config).await;
            let send = async |messages: Value| {
                let mut request = family.request(false, &[]);
                request["messages"] = messages;
                // A reminder alone does not identify a session.
                let headers = [("x-hookgate-session", "mine")];
                let body = request.to_string();
                family.post_with(&gateway, false, body, &headers).await
            };

            let denial = send(json!([denied])).await;
            send(json!([denied, { "role": "assistant", "content": "no" }, next])).await;

            assert_eq!(family.parse(false, &denial).text, "no", "{denied}");
            let kept = (kept > 0).then(|| user(&reminders[..kept]));
            let expected: Vec<Value> = kept.into_iter().chain([next.clone()]).collect();
            let asked = upstream.only_request().json();
            assert_eq!(asked["messages"], json!(expected), "{config}");
        }
    }
}
