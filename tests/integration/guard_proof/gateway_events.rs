//! Events of cases: those that the gateway fires, with the same content.

use serde_json::json;

use super::forms::{assert_problem, assert_proven};
use crate::harness::run;

/// A hook on an event that denies what contains a text, with one case of `must_deny`.
fn hook(event: &str, text: &str, case: &str) -> String {
    format!(
        "hooks:\n  {event}:\n    - hooks:\n        - name: x\n          \
         command: if grep -q '{text}'; then exit 2; fi\n          must_deny: [{case}]\n"
    )
}

/// A call of the Chat Completions API with this answer.
fn chat(choices: &str) -> String {
    format!(
        "{{ path: /v1/chat/completions, request: {{ model: m, n: 2, messages: [{{ role: user, content: hi }}] }}, \
         answer: {{ id: c, object: chat.completion, model: m, created: 1, choices: [{choices}] }} }}"
    )
}

#[test]
fn calls_without_a_prompt_of_the_user_do_not_prove_a_guard_of_prompts() {
    let contents = "contents: [{ role: user, parts: [{ text: secret }] }]";
    let message = "{ role: user, content: secret }";
    let result = "{ role: user, content: hi }, \
        { role: assistant, content: [{ type: tool_use, id: t, name: run, input: {} }] }, \
        { role: user, content: [{ type: tool_result, tool_use_id: t, content: ok }, { type: text, text: secret }] }";
    for (path, agent, request) in [
        (
            "/v1beta/models/gemini-embedding-001:embedContent",
            "x",
            "content: { parts: [{ text: secret }] }",
        ),
        ("/v1beta/models/m:countTokens", "x", contents),
        ("/v1beta/models/m:generateContent", "GeminiCLI/1", contents),
        (
            "/v1/messages",
            "claude-cli/2",
            &format!("model: m, max_tokens: 9, messages: [{message}]"),
        ),
        (
            "/v1/messages",
            "x",
            &format!("model: m, max_tokens: 9, messages: [{result}]"),
        ),
    ] {
        let case = format!(
            "{{ path: \"{path}\", headers: {{ user-agent: {agent} }}, request: {{ {request} }} }}"
        );
        let problem = "did not run: it is on BeforeAgent, and the case fires ";
        assert_problem(&hook("BeforeAgent", "secret", &case), problem);
    }
    let prompt = "{ prompt: secret, headers: { user-agent: GeminiCLI/1 } }";
    assert_proven(&hook("BeforeAgent", "secret", prompt), &[]);
}

#[test]
fn the_parts_of_a_prompt_have_a_blank_line_between_them() {
    let case = "{ request: { contents: [{ role: user, parts: [{ text: drop }] }, { role: user, parts: [{ text: table }] }] } }";

    assert_proven(&hook("BeforeAgent", r"drop\\n\\ntable", case), &[]);
    let problem = "must deny this request, but allowed it";
    assert_problem(&hook("BeforeAgent", r"drop\\ntable", case), problem);
}

#[test]
fn after_agent_has_the_texts_of_all_candidates_without_calls_and_the_prompt_of_the_turn() {
    let one = "{ index: 0, message: { role: assistant, content: one }, finish_reason: stop }";
    let two = "{ index: 1, message: { role: assistant, content: two }, finish_reason: stop }";
    let call = "{ index: 0, message: { role: assistant, content: null, tool_calls: [{ id: t, type: function, \
        function: { name: ls, arguments: \"{}\" } }] }, finish_reason: tool_calls }";
    let both = chat(&format!("{one}, {two}"));
    let beside_call = chat(&format!("{call}, {two}"));
    let result = "{ request: { contents: [{ role: user, parts: [{ text: hi }] }, \
        { role: model, parts: [{ functionCall: { name: ls, args: {} } }] }, \
        { role: user, parts: [{ functionResponse: { name: ls, response: { output: ok } } }] }] }, \
        answer: { candidates: [{ content: { role: model, parts: [{ text: done }] }, finishReason: STOP }] } }";

    assert_proven(&hook("AfterAgent", r"one\\n\\ntwo", &both), &[]);
    assert_proven(&hook("AfterAgent", "two", &beside_call), &[]);
    assert_proven(&hook("AfterAgent", "prompt\":\"hi", result), &[]);
}

#[test]
fn a_call_with_broken_arguments_does_not_prove_a_guard_of_tools() {
    let call = "{ index: 0, message: { role: assistant, content: null, tool_calls: [{ id: t, type: function, \
        function: { name: ls, arguments: '{\"a\":' } }] }, finish_reason: tool_calls }";

    let problem = "did not run: it is on BeforeTool, and the case fires ";
    assert_problem(&hook("BeforeTool", "ls", &chat(call)), problem);
}

#[test]
fn an_event_of_a_case_has_the_fields_that_the_agent_reports() {
    let event = |fields: &str| {
        format!(
            "{{ headers: {{ x-hookgate-session: other }}, \
             event: {{ hook_event_name: BeforeTool, tool_name: run, tool_input: {{}}, {fields} }} }}"
        )
    };
    let when = |condition: &str, case: &str| {
        let config = hook("BeforeTool", "run", case);
        config.replace(
            "must_deny",
            &format!("when: '{condition}'\n          must_deny"),
        )
    };
    let named = event("session_id: s1, cwd: /prod/x");

    assert_proven(&hook("BeforeTool", "\"cwd\":\"/prod/x", &named), &[]);
    let condition = "session.named && session.id == \"s1\"";
    assert_proven(&when(condition, &named), &[]);
    for case in [&named, &event("session_id: ''")] {
        let problem = "did not run: its `when` is false";
        assert_problem(&when("session.id == \"other\"", case), problem);
    }
    let number = hook("BeforeTool", "run", &event("cwd: 1"));
    assert_problem(&number, "`cwd` must be a string");
    let settings = json!({ "hooks": { "Stop": [{ "hooks": [{
        "command": "exit 2",
        "must_deny": [{ "event": {
            "hook_event_name": "AfterAgent", "agent_id": "", "prompt": "p",
            "prompt_response": "r", "stop_hook_active": false,
        } }],
    }] }] } });
    let files = [("settings.json", &*settings.to_string())];
    assert_proven("hook_files: [{ path: settings.json }]\n", &files);
}

#[test]
fn a_masked_result_is_an_edit_in_proofs_and_in_test_cases() {
    let result = "tool_result: { name: x, result: a@b.com }";
    let hook = |list: &str| {
        format!(
            "hooks: {{ AfterTool: [{{ hooks: [{{ {list} type: builtin, policy: redact, detect: [email], name: x }}] }}] }}\n"
        )
    };
    let event = "event: { hook_event_name: AfterTool, tool_name: x, tool_input: {}, tool_response: { llmContent: a@b.com } }";
    let cases = format!(
        "config: c.yaml\ncases: [{{ name: masked, {event}, expect: {{ verdict: proceed, output: {{ decision: deny }} }} }}]\n"
    );

    let problem = "must deny this result of `x`, but allowed it";
    assert_problem(&hook(&format!("must_deny: [{{ {result} }}],")), problem);
    let lists = format!("must_mask: [{{ {result} }}], must_allow: [cases.yaml],");
    assert_proven(&hook(&lists), &[("cases.yaml", &cases)]);

    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("c.yaml"), hook("")).unwrap();
    std::fs::write(folder.path().join("cases.yaml"), &cases).unwrap();
    let (code, out, _) = run(&["test", "cases.yaml"], folder.path());
    assert_eq!(code, 0, "{out}");
}
