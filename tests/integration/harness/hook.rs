//! Configs of hooks and their outputs.

use serde_json::{Value, json};

const MODEL: &str = "gemini-2.5-pro";

/// Returns a config with hooks, each with its event.
pub fn config(hooks: &[(&str, Value)]) -> String {
    let mut events = json!({});
    for (event, hook) in hooks {
        let groups = &mut events[*event];
        if groups.is_null() {
            *groups = json!([]);
        }
        groups
            .as_array_mut()
            .unwrap()
            .push(json!({ "hooks": [hook] }));
    }
    // JSON is YAML.
    format!("hooks: {events}\n")
}

/// Returns a hook that prints this output and saves its input as `<name>.json`.
pub fn printing(name: &str, output: &Value) -> Value {
    let output = output.to_string().replace('\'', r"'\''");
    command(name, &format!("cat > {name}.json; echo '{output}'"))
}

/// Returns a hook that denies by its exit code and saves its input as `<name>.json`.
pub fn denying(name: &str, reason: &str) -> Value {
    command(
        name,
        &format!("cat > {name}.json; echo '{reason}' >&2; exit 2"),
    )
}

/// Returns a hook that returns a field of its input as it was shown.
pub fn returning(name: &str, field: &str) -> Value {
    let script = format!(
        "import json, sys; shown = json.load(sys.stdin)[\"{field}\"]; \
         print(json.dumps({{\"hookSpecificOutput\": {{\"{field}\": shown}}}}))"
    );
    command(name, &format!("python3 -c '{script}'"))
}

/// Returns a hook that runs this command.
pub fn command(name: &str, command: &str) -> Value {
    json!({ "name": name, "command": command })
}

/// Returns a model call with these messages, as agents report it.
pub fn reported_request(messages: &Value) -> Value {
    let llm_request = json!({ "model": MODEL, "messages": messages, "config": {} });
    json!({ "hook_event_name": "BeforeModel", "llm_request": llm_request })
}

/// Returns the output of a `BeforeModel` hook that edits the request.
pub fn request(llm_request: &Value) -> Value {
    json!({ "hookSpecificOutput": { "llm_request": llm_request } })
}

/// Returns the output of a hook that answers or edits the answer.
pub fn response(llm_response: &Value) -> Value {
    json!({ "hookSpecificOutput": { "llm_response": llm_response } })
}

/// Returns the output of a hook that selects tools.
pub fn tools(selection: &Value) -> Value {
    json!({ "hookSpecificOutput": { "toolConfig": selection } })
}
