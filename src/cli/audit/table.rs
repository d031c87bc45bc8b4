//! Lines of a decision log for people and for tables. Pure.

use serde_json::Value;

/// The columns of a table: their names, and where a line has them.
const PLACES: &[(&str, &str)] = &[
    ("seq", "/seq"),
    ("time", "/time"),
    ("kind", "/kind"),
    ("request", "/request"),
    ("session", "/session"),
    ("caller", "/caller/name"),
    ("caller_key", "/caller/key"),
    ("event", "/event"),
    ("origin", "/origin"),
    ("subject", "/subject"),
    ("verdict", "/verdict"),
    ("action", "/action"),
    ("error", "/error"),
    ("status", "/status"),
    ("dialect", "/dialect"),
    ("method", "/method"),
    ("requested_model", "/requested_model"),
    ("model", "/model"),
    ("upstream", "/upstream"),
    ("prompt_tokens", "/usage/prompt"),
    ("candidates_tokens", "/usage/candidates"),
    ("total_tokens", "/usage/total"),
    ("duration_ms", "/duration_ms"),
    ("config", "/config"),
    ("hash", "/hash"),
];

/// The names of the columns.
pub(super) fn header() -> String {
    let names: Vec<&str> = PLACES.iter().map(|it| it.0).collect();
    names.join(",")
}

/// A line as a row of a table.
pub(super) fn row(line: &Value) -> String {
    let cells = PLACES.iter().map(|(_, it)| cell(&text(line, it)));
    cells.collect::<Vec<_>>().join(",")
}

/// A line for people.
pub(super) fn person(line: &Value) -> String {
    let mut said = format!("{} #{}", text(line, "/time"), text(line, "/seq"));
    let first = ["kind", "event", "subject", "verdict", "action", "outcome"];
    for key in first {
        let value = text(line, &format!("/{key}"));
        if !value.is_empty() {
            said = format!("{said} {}", plain(&value));
        }
    }
    for hook in line
        .get("hooks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let part = |key: &str| text(hook, &format!("/{key}"));
        let mut words = vec![part("status"), part("would"), format!("{} ms", part("ms"))];
        words.retain(|it| !it.is_empty());
        said = format!("{said} {}({})", plain(&part("name")), words.join(" "));
    }
    let more = [
        ("error", "/error"),
        ("status", "/status"),
        ("method", "/method"),
        ("operation", "/operation"),
        ("path", "/path/text"),
        ("requests", "/requests"),
        ("model", "/model"),
        ("upstream", "/upstream"),
        ("tokens", "/usage/total"),
        ("lines", "/lines"),
        ("bytes", "/bytes"),
        ("caller", "/caller/name"),
        ("key", "/caller/key"),
        ("session", "/session"),
        ("request", "/request"),
    ];
    for (name, pointer) in more {
        let value = text(line, pointer);
        if !value.is_empty() {
            said = format!("{said} {name}={}", plain(&value));
        }
    }
    if let Some(reason) = line.pointer("/reason/text").and_then(Value::as_str) {
        said = format!("{said} {reason:?}");
    }
    said
}

fn text(line: &Value, pointer: &str) -> String {
    match line.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Names that agents made up must not move a terminal's cursor.
fn plain(text: &str) -> String {
    text.escape_debug().to_string()
}

/// A cell of CSV. Spreadsheets take some texts for formulas, and agents make up
/// names.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        assert_eq!(cell("a"), "a");
        assert_eq!(cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(cell("=1+1"), "'=1+1");
    }

    #[test]
    fn a_line_is_told_in_one_line() {
        let line = json!({ "seq": 7, "time": "T", "kind": "event", "event": "BeforeTool",
            "subject": "evil\n\u{1b}[2Jtool", "verdict": "deny",
            "hooks": [{ "name": "guard", "status": "block", "ms": 3 }], "session": "s" });

        let told = person(&line);

        let expected =
            "T #7 event BeforeTool evil\\n\\u{1b}[2Jtool deny guard(block 3 ms) session=s";
        assert_eq!(told, expected);
        assert_eq!(row(&line).matches(',').count(), PLACES.len() - 1);
    }
}
