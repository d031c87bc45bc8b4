//! Arguments of tools under the names that hooks of another family know: a hook that
//! reads `command` also finds it in a call with `cmd`. Pure.

use serde_json::{Map, Value};

/// Names that hooks know, each with the names in other agents.
const FIELDS: &[(&str, &[&str])] = &[
    ("command", &["cmd", "input", "script"]),
    (
        "file_path",
        &["absolute_path", "filePath", "path", "filename"],
    ),
    ("content", &["contents", "file_text"]),
    ("old_string", &["oldString", "old_str"]),
    ("new_string", &["newString", "new_str"]),
];

/// Shells that run their last argument.
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];

/// Arguments as a hook sees them, with the fields that were added.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownArguments {
    /// Arguments of the call, and the added fields.
    pub input: Map<String, Value>,
    added: Vec<AddedField>,
    /// Two arguments that hooks read as one, with different values.
    contradiction: Option<(&'static str, &'static str)>,
}

/// A field that repeats another one of the call.
#[derive(Debug, Clone, PartialEq)]
struct AddedField {
    name: &'static str,
    source: &'static str,
    /// Original value of a command that is a list; its last item is the added field.
    list: Option<Vec<Value>>,
}

impl ShownArguments {
    /// Shows arguments as they are.
    pub fn unchanged(original: &Map<String, Value>) -> Self {
        Self {
            input: original.clone(),
            added: Vec::new(),
            contradiction: None,
        }
    }

    /// Returns why hooks cannot decide about the call: an agent reads one of several names of an
    /// argument and ignores the others, so a hook could read another value than the agent.
    pub fn contradiction(&self) -> Option<String> {
        let (first, second) = self.contradiction?;
        Some(format!(
            "the arguments `{first}` and `{second}` of the call contradict each other"
        ))
    }

    /// Adds the fields that hooks of other families know.
    pub fn new(original: &Map<String, Value>) -> Self {
        let mut shown = Self::unchanged(original);
        shown.show_command_list();
        for (name, others) in FIELDS {
            let names = std::iter::once(name).chain(*others);
            let mut given = names.filter_map(|name| {
                let value = original.get(*name).filter(|value| !value.is_null());
                Some((*name, value?))
            });
            let Some((source, value)) = given.next() else {
                continue;
            };
            if let Some((other, _)) = given.find(|(_, other)| *other != value) {
                shown.contradiction = Some((source, other));
            }
            if source != *name && value.is_string() {
                shown.input.insert((*name).to_owned(), value.clone());
                shown.added.push(AddedField {
                    name,
                    source,
                    list: None,
                });
            }
        }
        shown
    }

    /// Shows a command such as `["bash", "-lc", "ls"]` as text.
    fn show_command_list(&mut self) {
        let Some(Value::Array(words)) = self.input.get("command") else {
            return;
        };
        let words = words.clone();
        let texts: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let Some(texts) = texts else { return };
        let text = match texts.as_slice() {
            [shell, flag, script] if runs_script(shell, flag) => (*script).to_owned(),
            words => words.join(" "),
        };
        self.input.insert("command".to_owned(), Value::String(text));
        self.added.push(AddedField {
            name: "command",
            source: "command",
            list: Some(words),
        });
    }

    /// Moves the values of added fields in a hook's `edit` back to the fields of the
    /// call.
    pub fn restore(&self, edit: &mut Map<String, Value>) {
        for field in &self.added {
            let Some(value) = edit.get(field.name).cloned() else {
                continue;
            };
            let is_changed = self.input.get(field.name) != Some(&value);
            if field.name != field.source {
                edit.shift_remove(field.name);
            }
            let restored = match &field.list {
                None => value,
                Some(words) if !is_changed => Value::Array(words.clone()),
                Some(words) => changed_list(words, value),
            };
            if is_changed || field.list.is_some() || !edit.contains_key(field.source) {
                edit.insert(field.source.to_owned(), restored);
            }
        }
    }
}

/// Returns the list that runs a changed command.
fn changed_list(words: &[Value], command: Value) -> Value {
    if let [Value::String(shell), Value::String(flag), _] = words
        && runs_script(shell, flag)
    {
        return Value::Array(vec![shell.as_str().into(), flag.as_str().into(), command]);
    }
    Value::Array(vec!["bash".into(), "-c".into(), command])
}

/// Returns whether a program is a shell, by its name or path, and runs the argument after `flag`
/// as a script: `-c`, `-lc`.
fn runs_script(program: &str, flag: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let is_script_flag = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c');
    is_script_flag && SHELLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(original: Value, shown: &Value, edit: Value, restored: &Value) {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let arguments = ShownArguments::new(&object(original));
        assert_eq!(&Value::Object(arguments.input.clone()), shown);
        let mut edit = object(edit);
        arguments.restore(&mut edit);
        assert_eq!(&Value::Object(edit), restored);
    }

    #[test]
    fn a_command_has_the_name_that_hooks_know() {
        check(
            json!({ "cmd": "ls", "workdir": "/" }),
            &json!({ "cmd": "ls", "workdir": "/", "command": "ls" }),
            json!({ "command": "ls -l", "workdir": "/" }),
            &json!({ "workdir": "/", "cmd": "ls -l" }),
        );
        check(
            json!({ "absolute_path": "/a" }),
            &json!({ "absolute_path": "/a", "file_path": "/a" }),
            json!({ "absolute_path": "/b", "file_path": "/a" }),
            &json!({ "absolute_path": "/b" }),
        );
    }

    #[test]
    fn a_command_in_a_list_is_text_for_hooks() {
        let original = json!({ "command": ["bash", "-lc", "ls"] });
        let shown = json!({ "command": "ls" });
        let edited = json!({ "command": ["bash", "-lc", "pwd"] });
        check(
            original.clone(),
            &shown,
            json!({ "command": "pwd" }),
            &edited,
        );
        check(original.clone(), &shown, shown.clone(), &original);
        let plain = json!({ "command": ["ls", "-l"] });
        let edited = json!({ "command": ["bash", "-c", "pwd"] });
        check(
            plain,
            &json!({ "command": "ls -l" }),
            json!({ "command": "pwd" }),
            &edited,
        );
    }

    #[test]
    fn known_argument_names_are_unchanged() {
        let same = json!({ "command": "ls", "n": 1 });
        check(same.clone(), &same, json!({ "n": 2 }), &json!({ "n": 2 }));
    }
}
