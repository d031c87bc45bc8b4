//! Fields that refer to content hooks cannot see: refused where hooks or policies run, or allowed
//! by name.

use serde_json::{Value, json};

use super::{
    NO_OP_COMMAND, NO_OP_HOOK,
    family::{ALL, Family, Part, Turn},
    model_api, request_with,
};
use crate::harness::{hook, run};

const ALL_EXCEPT_GEMINI: [Family; 3] = [Family::Anthropic, Family::Responses, Family::Chat];

/// A request with one more block in its message.
fn with_block(family: Family, block: &Value) -> String {
    let mut request = family.request(false, &[Turn::User("hi")]);
    let list = if family == Family::Responses {
        "input"
    } else {
        "messages"
    };
    request[list][0]["content"] = json!([block]);
    request.to_string()
}

/// A request with a tool.
fn with_tool(family: Family, tool: &Value) -> String {
    request_with(family, &json!({ "tools": [tool] }))
}

/// A request with a sound of an earlier answer.
fn with_sound() -> String {
    let mut request = Family::Chat.request(false, &[Turn::User("hi"), Turn::User("again")]);
    request["messages"][0] = json!({ "role": "assistant", "audio": { "id": "audio_1" } });
    request.to_string()
}

/// A request with each field, the field's name in the config, and a text of the error.
fn refused_fields() -> Vec<(Family, &'static str, String, &'static str)> {
    let file = json!({ "type": "file", "file_id": "file_1" });
    let image = json!({ "type": "image", "source": file });
    vec![
        (
            Family::Anthropic,
            "messages.container",
            request_with(Family::Anthropic, &json!({ "container": "c_1" })),
            "container",
        ),
        (
            Family::Anthropic,
            "messages.container",
            with_block(
                Family::Anthropic,
                &json!({ "type": "container_upload", "file_id": "file_1" }),
            ),
            "container",
        ),
        (
            Family::Anthropic,
            "messages.files",
            with_block(Family::Anthropic, &image),
            "file_id",
        ),
        (
            Family::Responses,
            "responses.background",
            request_with(Family::Responses, &json!({ "background": true })),
            "background",
        ),
        (
            Family::Responses,
            "responses.prompt",
            request_with(Family::Responses, &json!({ "prompt": { "id": "pmpt_1" } })),
            "prompt",
        ),
        (
            Family::Responses,
            "responses.files",
            with_block(
                Family::Responses,
                &json!({ "type": "input_file", "file_id": "file_1" }),
            ),
            "file_id",
        ),
        (
            Family::Chat,
            "chat.completions.files",
            with_block(
                Family::Chat,
                &json!({ "type": "file", "file": { "file_id": "file_1" } }),
            ),
            "file_id",
        ),
    ]
}

/// A request with an image that an earlier response holds.
fn with_stored_image() -> String {
    let image = json!({ "type": "image_generation_call", "id": "ig_1" });
    let prompt = json!({ "role": "user", "content": "larger" });
    request_with(Family::Responses, &json!({ "input": [image, prompt] }))
}

/// A request with a skill, whose instructions are in an archive.
fn with_inline_skill() -> String {
    let source = json!({ "type": "base64", "media_type": "application/zip", "data": "UEsDBA==" });
    let skill = json!({ "type": "inline", "name": "n", "description": "d", "source": source });
    let environment = json!({ "type": "container_auto", "skills": [skill] });
    let shell = json!({ "type": "shell", "environment": environment });
    with_tool(Family::Responses, &shell)
}

/// Requests with ids in tools and messages, as [`refused_fields`].
fn refused_ids() -> Vec<(Family, &'static str, String, &'static str)> {
    vec![
        (
            Family::Responses,
            "responses.files",
            with_tool(
                Family::Responses,
                &json!({ "type": "image_generation", "input_image_mask": { "file_id": "file_1" } }),
            ),
            "file_id",
        ),
        (
            Family::Chat,
            "chat.completions.files",
            with_tool(
                Family::Chat,
                &json!({ "type": "code_interpreter", "container": { "type": "auto", "file_ids": ["file_1"] } }),
            ),
            "file_ids",
        ),
        (
            Family::Responses,
            "responses.container",
            with_tool(
                Family::Responses,
                &json!({ "type": "code_interpreter", "container": "cntr_1" }),
            ),
            "container",
        ),
        (
            Family::Responses,
            "responses.container",
            with_inline_skill(),
            "container",
        ),
        (
            Family::Responses,
            "responses.files",
            with_stored_image(),
            "image_generation_call",
        ),
        (
            Family::Chat,
            "chat.completions.files",
            with_sound(),
            "audio.id",
        ),
    ]
}

#[tokio::test]
async fn a_field_is_refused_where_hooks_run_unless_its_name_is_allowed() {
    let refused = refused_fields().into_iter().chain(refused_ids());
    for (family, name, body, expected_text) in refused {
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, NO_OP_HOOK).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(answer.text().contains(expected_text), "{}", answer.text());
        assert!(answer.text().contains(name), "{}", answer.text());
        assert!(upstream.requests().is_empty());

        let config = format!("{NO_OP_HOOK}coverage: {{ allow: [{name}] }}\n");
        let gateway = family.gateway(&upstream, &config).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(upstream.only_request().body, body, "{name}");

        // Without hooks the body is not parsed.
        let gateway = family.gateway(&upstream, "").await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    }
}

#[tokio::test]
async fn texts_of_an_allowed_request_are_masked() {
    let secret = "AKIAIOSFODNN7EXAMPLQ";
    let upstream = model_api(Family::Responses).await;
    let config = "policies: [{ policy: redact, detect: [aws_key] }]\ncoverage: { allow: [\"responses.*\"] }\n";
    let gateway = Family::Responses.gateway(&upstream, config).await;
    let prompt = json!({ "id": "pmpt_1", "variables": { "name": secret } });
    let body = request_with(
        Family::Responses,
        &json!({ "prompt": prompt, "input": secret }),
    );
    let answer = Family::Responses.post(&gateway, false, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let asked = upstream.only_request();
    assert!(!asked.body.contains(secret), "{}", asked.body);
    assert_eq!(asked.json()["prompt"]["id"], "pmpt_1");
}

#[tokio::test]
async fn fields_that_cannot_be_allowed_are_refused_in_requests_and_configs() {
    let item = json!([{ "type": "item_reference", "id": "msg_1" }]);
    for (family, name, body) in [
        (
            Family::Anthropic,
            "messages.thread",
            request_with(
                Family::Anthropic,
                &json!({ "thread": { "type": "create" } }),
            ),
        ),
        (
            Family::Responses,
            "responses.conversation",
            request_with(Family::Responses, &json!({ "conversation": "conv_1" })),
        ),
        (
            Family::Responses,
            "responses.item_reference",
            request_with(Family::Responses, &json!({ "input": item })),
        ),
    ] {
        let upstream = model_api(family).await;
        let config =
            format!("{NO_OP_HOOK}coverage: {{ allow: [\"responses.*\", \"messages.*\"] }}\n");
        let gateway = family.gateway(&upstream, &config).await;
        let answer = family.post(&gateway, false, body).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.text());
        assert!(upstream.requests().is_empty());

        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "upstreams: {{ openai: {{ url: https://example.org }} }}\ncoverage: {{ allow: [{name}] }}\n"
        );
        std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
        let (code, _, stderr) = run(&["check", "hookgate.yaml"], folder.path());
        assert_eq!(code, 78, "{stderr}");
        assert!(stderr.contains(name), "{stderr}");
    }
}

#[tokio::test]
async fn a_caller_with_a_model_list_cannot_use_uninspected_fields() {
    let key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"; // of `test`
    let config = format!(
        "{NO_OP_HOOK}coverage: {{ allow: [\"responses.*\"] }}\nauth: {{ keys: [{{ name: a, sha256: {key}, models: [m] }}] }}\n"
    );
    let upstream = model_api(Family::Responses).await;
    let gateway = Family::Responses.gateway(&upstream, &config).await;
    let agent = gateway.agent().sending("x-hookgate-key", "test");
    let body = request_with(Family::Responses, &json!({ "prompt": { "id": "pmpt_1" } }));
    let answer = agent.post(Family::Responses.path(false), body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let body = request_with(Family::Responses, &json!({}));
    let answer = agent.post(Family::Responses.path(false), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn restricted_callers_cannot_use_uninspected_fields_even_without_hooks_and_policies() {
    let key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"; // of `test`
    let mut cases: Vec<(Family, &str, String)> = refused_fields()
        .into_iter()
        .map(|(family, name, body, _)| (family, name, body))
        .collect();
    for &family in ALL {
        cases.push((family, allowed_server(family), with_server(family)));
    }
    for (family, name, body) in cases {
        for (limit, status) in [
            ("tokens_per_day: 100000", 400),
            ("models: [m]", 400),
            ("requests_per_minute: 100", 200),
        ] {
            let upstream = model_api(family).await;
            let config = format!(
                "auth: {{ keys: [{{ name: a, sha256: {key}, {limit} }}] }}\ncoverage: {{ allow: [{name}] }}\n"
            );
            let gateway = family.gateway(&upstream, &config).await;
            let agent = gateway.agent().sending("x-hookgate-key", "test");
            let agent = match family {
                Family::Anthropic => agent.sending("anthropic-version", "2023-06-01"),
                _ => agent,
            };
            let answer = agent.post(family.path(false), body.clone()).await;
            assert_eq!(answer.status, status, "{name} {limit}: {}", answer.text());
            assert_eq!(upstream.requests().len(), usize::from(status == 200));
            let body = request_with(family, &json!({}));
            let answer = agent.post(family.path(false), body.clone()).await;
            assert_eq!(answer.status, 200, "{limit}: {}", answer.text());
            assert_eq!(upstream.requests().pop().unwrap().body, body, "{limit}");
        }
    }
}

/// A request with an image that a URL names.
fn with_image_url(family: Family) -> String {
    let url = "https://example.org/a.png";
    let block = match family {
        Family::Gemini => {
            let part = json!({ "fileData": { "mimeType": "image/png", "fileUri": url } });
            let content = json!({ "role": "user", "parts": [part] });
            return request_with(family, &json!({ "contents": [content] }));
        }
        Family::Anthropic => json!({ "type": "image", "source": { "type": "url", "url": url } }),
        Family::Responses => json!({ "type": "input_image", "image_url": url }),
        Family::Chat => json!({ "type": "image_url", "image_url": { "url": url } }),
    };
    with_block(family, &block)
}

#[tokio::test]
async fn media_that_a_url_names_pass_unless_a_hook_denies_the_reference() {
    let refuse = "if grep -q fileUri; then echo no references >&2; exit 2; fi";
    let mut refuse = hook::command("refuse", refuse);
    refuse["document"] = true.into();
    let refuse = hook::config(&[("BeforeModel", refuse)]);
    for &family in ALL {
        let body = with_image_url(family);
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, NO_OP_HOOK).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
        assert_eq!(upstream.only_request().body, body, "{family:?}");

        let gateway = family.gateway(&upstream, &refuse).await;
        let answer = family.post(&gateway, false, body).await;
        assert!(
            answer.text().contains("no references"),
            "{family:?}: {}",
            answer.text()
        );
        assert_eq!(upstream.requests().len(), 1, "{family:?}");
    }
}

#[tokio::test]
async fn a_data_url_is_the_same_part_in_both_apis_of_openai() {
    let mut see = hook::printing("seen", &json!({}));
    see["document"] = true.into();
    let hooks = hook::config(&[("BeforeModel", see)]);
    let data = |mime_type: &str| json!({ "inlineData": { "mimeType": mime_type, "data": "AAAA" } });
    for (url, expected) in [
        ("data:image/png;base64,AAAA", data("image/png")),
        (
            "data:image/svg+xml;charset=utf-8;base64,AAAA",
            data("image/svg+xml"),
        ),
        ("data:;base64,AAAA", data("image/*")),
        (
            "data:text/plain,hello",
            json!({ "fileData": { "fileUri": "data:text/plain,hello" } }),
        ),
    ] {
        for (family, block) in [
            (
                Family::Chat,
                json!({ "type": "image_url", "image_url": { "url": url } }),
            ),
            (
                Family::Responses,
                json!({ "type": "input_image", "image_url": url }),
            ),
        ] {
            let upstream = model_api(family).await;
            let gateway = family.gateway(&upstream, &hooks).await;
            family
                .post(&gateway, false, with_block(family, &block))
                .await;
            let seen = &gateway.json("seen.json")["document"];
            assert_eq!(seen["contents"][0]["parts"][0], expected, "{family:?}");
        }
    }
}

/// A request with the hosted MCP server `docs`.
fn with_server(family: Family) -> String {
    let server = match family {
        Family::Anthropic => {
            return request_with(
                family,
                &json!({ "mcp_servers": [{ "type": "url", "name": "docs", "url": "https://example.org" }] }),
            );
        }
        Family::Gemini => {
            let transport = json!({ "url": "https://example.org" });
            json!({ "mcpServers": [{ "name": "docs", "streamableHttpTransport": transport }] })
        }
        _ => json!({ "type": "mcp", "server_label": "docs", "server_url": "https://example.org" }),
    };
    let mut request = family.request(false, &[Turn::User("hi")]);
    request["tools"].as_array_mut().unwrap().push(server);
    request.to_string()
}

fn allowed_server(family: Family) -> &'static str {
    match family {
        Family::Gemini => "models.mcp",
        Family::Anthropic => "messages.mcp",
        Family::Responses => "responses.mcp",
        Family::Chat => "chat.completions.mcp",
    }
}

#[tokio::test]
async fn a_hosted_mcp_server_is_refused_where_hooks_on_tools_run() {
    for &family in ALL {
        let body = with_server(family);
        for event in ["BeforeTool", "AfterTool"] {
            let upstream = model_api(family).await;
            let hooks = hook::config(&[(event, hook::command("guard", NO_OP_COMMAND))]);
            let gateway = family.gateway(&upstream, &hooks).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 400, "{family:?}: {}", answer.text());
            let reason = "do not see calls of MCP servers";
            assert!(answer.text().contains(reason), "{}", answer.text());
            assert!(upstream.requests().is_empty());

            let name = allowed_server(family);
            let config = format!("{hooks}coverage: {{ allow: [{name}] }}\n");
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
            assert_eq!(upstream.only_request().body, body);
        }
    }
}

/// The name of the hosted MCP server `docs` for policies.
fn server_name(family: Family) -> &'static str {
    match family {
        Family::Gemini => "mcpServers",
        _ => "mcp:docs",
    }
}

#[tokio::test]
async fn a_hosted_mcp_server_is_refused_wherever_calls_are_inspected_unless_its_name_is_allowed() {
    let observe =
        "hooks: { BeforeTool: [{ hooks: [{ command: cat > /dev/null, mode: observe }] }] }\n";
    let redact = "policies: [{ policy: redact, detect: [aws_key] }]\n";
    let observing_guard = "policies: [{ policy: tool_guard, allow: [\"*\"], mode: observe }]\n";
    for &family in ALL {
        let body = with_server(family);
        for config in [NO_OP_HOOK, observe, redact, observing_guard] {
            let upstream = model_api(family).await;
            let gateway = family.gateway(&upstream, config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 400, "{family:?}: {}", answer.text());
            let name = allowed_server(family);
            assert!(answer.text().contains(name), "{}", answer.text());
            assert!(upstream.requests().is_empty());

            let config = format!("{config}coverage: {{ allow: [{name}] }}\n");
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
            assert_eq!(upstream.only_request().body, body);
        }
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, "").await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_tool_policy_removes_a_hosted_mcp_server_or_allows_it_by_name() {
    let guard = "policies: [{ policy: tool_guard, deny: [other] }]\n";
    let hooks = hook::config(&[("BeforeTool", hook::command("guard", NO_OP_COMMAND))]);
    for &family in ALL {
        let body = with_server(family);
        let name = server_name(family);
        let allowing =
            format!("policies: [{{ policy: tool_guard, allow: [look, rm, \"{name}\"] }}]\n");
        for (config, status, passes) in [
            (guard.to_owned(), 200, false),
            // A server that a policy removes is not refused.
            (format!("{guard}{hooks}"), 200, false),
            (allowing.clone(), 200, true),
            (format!("{NO_OP_HOOK}{allowing}"), 200, true),
            // Hooks on tools would not see its calls.
            (format!("{allowing}{hooks}"), 400, false),
        ] {
            let upstream = model_api(family).await;
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, status, "{family:?}: {}", answer.text());
            let asked = upstream.requests().pop().map(|asked| asked.body);
            let asked = asked.unwrap_or_default();
            assert_eq!(asked.contains("docs"), passes, "{family:?}: {asked}");
        }
    }
}

/// Declarations of MCP servers in `tools` that servers compatible with an API read.
fn compatible_servers() -> [(Family, Value); 5] {
    let url = "litellm_proxy/mcp/docs";
    let named = json!({ "type": "url", "name": "docs", "url": "https://example.org" });
    let labelled = json!({ "type": "mcp", "server_label": "docs", "server_url": url });
    let unlabelled = json!({ "type": "mcp", "server_url": url, "require_approval": "never" });
    let null_label = json!({ "type": "mcp", "server_label": null, "server_url": url });
    [
        (Family::Chat, named),
        (Family::Chat, unlabelled.clone()),
        (Family::Chat, null_label),
        (Family::Anthropic, labelled),
        (Family::Anthropic, unlabelled),
    ]
}

#[tokio::test]
async fn an_mcp_server_in_tools_is_recognized_in_each_form_and_without_a_label() {
    let guards = [
        ("allow: [look, rm]", false),
        ("deny: [\"mcp:*\"]", false),
        ("allow: [look, rm, \"mcp:*\"]", true),
    ];
    for (family, server) in compatible_servers() {
        let mut request = family.request(false, &[Turn::User("hi")]);
        request["tools"].as_array_mut().unwrap().push(server);
        let body = request.to_string();
        let name = allowed_server(family);
        let upstream = model_api(family).await;
        let gateway = family.gateway(&upstream, NO_OP_HOOK).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().contains(name), "{}", answer.text());
        assert!(upstream.requests().is_empty(), "{body}");

        let config = format!("{NO_OP_HOOK}coverage: {{ allow: [{name}] }}\n");
        let gateway = family.gateway(&upstream, &config).await;
        let answer = family.post(&gateway, false, body.clone()).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        assert_eq!(upstream.only_request().body, body);

        for (rules, passes) in guards {
            let upstream = model_api(family).await;
            let config = format!("policies: [{{ policy: tool_guard, {rules} }}]\n");
            let gateway = family.gateway(&upstream, &config).await;
            let answer = family.post(&gateway, false, body.clone()).await;
            assert_eq!(answer.status, 200, "{body}: {}", answer.text());
            let count = upstream.only_request().json()["tools"]
                .as_array()
                .unwrap()
                .len();
            assert_eq!(count, if passes { 3 } else { 2 }, "{rules}: {body}");
        }
    }
}

#[tokio::test]
async fn metadata_of_a_request_is_masked() {
    let secret = "AKIAIOSFODNN7EXAMPLQ";
    for family in ALL_EXCEPT_GEMINI {
        let upstream = model_api(family).await;
        let config = "policies: [{ policy: redact, detect: [aws_key] }]\n";
        let gateway = family.gateway(&upstream, config).await;
        let body = request_with(
            family,
            &json!({ "metadata": { "user_id": secret, "b": "c" } }),
        );
        let answer = family.post(&gateway, false, body).await;
        assert_eq!(answer.status, 200, "{family:?}: {}", answer.text());
        let asked = upstream.only_request();
        assert!(!asked.body.contains(secret), "{family:?}: {}", asked.body);
        assert_eq!(asked.json()["metadata"]["b"], "c");
    }
}

#[tokio::test]
async fn hooks_that_receive_the_document_receive_no_private_fields() {
    let see = |name: &str| {
        let mut see = hook::printing(name, &json!({}));
        see["document"] = true.into();
        see
    };
    let hooks = hook::config(&[("BeforeModel", see("before")), ("AfterModel", see("after"))]);
    let parts = vec![Part::Thought(vec!["h".into()]), Part::call("look", "a")];
    for family in ALL_EXCEPT_GEMINI {
        let upstream = family.upstream(vec![parts.clone()]).await;
        let gateway = family.gateway(&upstream, &hooks).await;
        let turns = [
            Turn::User("one"),
            Turn::Call("look", "a"),
            Turn::Result("look", "found"),
        ];
        let answer = family.ask(&gateway, false, &turns).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        for (file, expected_text) in [("before.json", "found"), ("after.json", "look")] {
            let seen = gateway.json(file)["document"].to_string();
            assert!(seen.contains(expected_text), "{family:?}: {seen}");
            assert!(!seen.contains("hookgateS"), "{family:?}: {seen}");
            assert!(!seen.contains("hookgateP"), "{family:?}: {seen}");
        }
    }
}

#[tokio::test]
async fn hooks_that_receive_the_document_receive_content_with_names_of_private_fields() {
    let mut see = hook::printing("seen", &json!({}));
    see["document"] = true.into();
    let hooks = hook::config(&[("AfterModel", see)]);
    let arguments = json!({ "command": "ls", "hookgateSource": "rm", "hookgatePreceding": "-r" });
    for family in ALL {
        let upstream = family
            .upstream(vec![vec![Part::call_with("look", &arguments)]])
            .await;
        let gateway = family.gateway(&upstream, &hooks).await;
        family.ask(&gateway, false, &[Turn::User("one")]).await;
        let seen = &gateway.json("seen.json")["document"]["candidates"][0]["content"]["parts"][0];
        assert_eq!(seen["functionCall"]["args"], arguments, "{family:?}");
    }
}

#[test]
fn check_notes_hosted_tools_and_coverage_lists_their_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let hooks = hook::config(&[("BeforeTool", hook::command("guard", NO_OP_COMMAND))]);
    let config = format!("upstreams: {{ anthropic: {{ url: https://example.org }} }}\n{hooks}");
    std::fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let (code, _, notes) = run(&["check", "hookgate.yaml"], folder.path());
    assert_eq!(code, 0, "{notes}");
    let expected = "note: `messages.hosted_tools` run at the model API";
    assert!(notes.contains(expected), "{notes}");
    assert!(!notes.contains("responses.hosted_tools"), "{notes}");

    let (_, table, _) = run(&["coverage", "--config", "hookgate.yaml"], folder.path());
    let row = |name: &str| {
        let mut lines = table.lines();
        let line = lines.find(|line| line.contains(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(row("messages.hosted_tools"), "hooked");
    assert_eq!(row("messages.mcp"), "refused");
    assert_eq!(row("messages.thread"), "refused");
}
