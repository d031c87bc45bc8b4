//! Hooks, as a config has them.

use serde_json::{Value, json};

/// A config with hooks: each is an event and the hook that runs on it.
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

/// A hook that prints this output, and saves its input as `<name>.json`.
pub fn saying(name: &str, output: &Value) -> Value {
    let output = output.to_string().replace('\'', r"'\''");
    running(name, &format!("cat > {name}.json; echo '{output}'"))
}

/// A hook that refuses by its exit code, and saves its input as `<name>.json`.
pub fn refusing(name: &str, reason: &str) -> Value {
    running(
        name,
        &format!("cat > {name}.json; echo '{reason}' >&2; exit 2"),
    )
}

/// A hook that runs this command.
pub fn running(name: &str, command: &str) -> Value {
    json!({ "name": name, "command": command })
}

/// The output of a `BeforeModel` hook that changes the request.
pub fn request(llm_request: &Value) -> Value {
    json!({ "hookSpecificOutput": { "llm_request": llm_request } })
}

/// The output of a hook that answers, or changes the answer.
pub fn response(llm_response: &Value) -> Value {
    json!({ "hookSpecificOutput": { "llm_response": llm_response } })
}

/// The output of a hook that selects tools.
pub fn tools(selection: &Value) -> Value {
    json!({ "hookSpecificOutput": { "toolConfig": selection } })
}
