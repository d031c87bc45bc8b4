//! Arguments of tools under the names that hooks of another family use: a hook that
//! reads `command` also finds it in a call with `cmd`. Pure.

use serde_json::{Map, Value};

/// Name that a hook uses, and the names in other agents.
type FieldNames = (&'static str, &'static [&'static str]);

/// Names of all arguments. `commands` and `edits` are lists.
const FIELDS: &[FieldNames] = &[
    (
        COMMAND,
        &[
            "cmd",
            "input",
            "script",
            COMMANDS,
            "patch",
            "patchText",
            "patch_content",
        ],
    ),
    (
        FILE_PATH,
        &[
            ABSOLUTE_PATH,
            "filePath",
            "path",
            "filename",
            "notebook_path",
        ],
    ),
    ("content", &["contents", "file_text", "insert_text"]),
    (OLD_STRING, &["oldString", "old_str", EDITS]),
    (
        NEW_STRING,
        &[
            "newString",
            "new_str",
            "insert_text",
            "file_text",
            "new_source",
            EDITS,
        ],
    ),
];

/// Names of a path in tools of LLxprt Code, for hooks that read `file_path`.
const FILE_PATHS: FieldNames = (FILE_PATH, &[ABSOLUTE_PATH]);

/// The same names for hooks that read `absolute_path`, which LLxprt Code prefers.
const ABSOLUTE_PATHS: FieldNames = (ABSOLUTE_PATH, &[FILE_PATH]);

const ABSOLUTE_PATH: &str = "absolute_path";
const COMMAND: &str = "command";
const COMMANDS: &str = "commands";
const EDITS: &str = "edits";
const FILE_PATH: &str = "file_path";
const OLD_STRING: &str = "old_string";
const NEW_STRING: &str = "new_string";

/// Fields of a patch for one file, as the Responses API has it.
const OPERATION: [&str; 3] = ["type", "path", "diff"];

/// Shells that run their last argument.
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];

/// Folders of the system's shells.
const SHELL_FOLDERS: [&str; 3] = ["/bin/", "/usr/bin/", "/usr/local/bin/"];

/// Arguments as a hook sees them, with the fields that agents have under other names.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownArguments {
    /// Arguments of the call, and the added fields.
    pub input: Map<String, Value>,
    fields: Vec<ShownField>,
    /// Verb of an editor, which hooks do not see.
    verb: Option<Value>,
    /// Two arguments that hooks read as one, with different values.
    contradiction: Option<(&'static str, &'static str)>,
}

/// A field that repeats others of the call.
#[derive(Debug, Clone, PartialEq)]
struct ShownField {
    name: &'static str,
    /// The repeated fields, with their values. One of them may have the same name.
    sources: Vec<(&'static str, Value)>,
    /// True if each source has the whole value, and not a part of it.
    is_whole: bool,
}

impl ShownArguments {
    /// Shows arguments as they are.
    pub fn unchanged(original: &Map<String, Value>) -> Self {
        Self {
            input: original.clone(),
            fields: Vec::new(),
            verb: None,
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

    /// Adds the fields that hooks of other families use.
    pub fn new(original: &Map<String, Value>) -> Self {
        let mut shown = Self::unchanged(original);
        for names in FIELDS {
            shown.show_field(original, *names);
        }
        shown.show_operation(original);
        shown
    }

    /// Shows arguments of an editor, whose `command` is a verb such as `insert`: hooks would read
    /// it as a patch.
    pub fn of_editor(original: &Map<String, Value>) -> Self {
        let mut arguments = original.clone();
        let verb = arguments.shift_remove(COMMAND);
        Self {
            verb,
            ..Self::new(&arguments)
        }
    }

    /// Adds `file_path` to arguments with `absolute_path`, and changes no others.
    pub fn with_file_path(original: &Map<String, Value>) -> Self {
        let mut shown = Self::unchanged(original);
        shown.show_field(original, FILE_PATHS);
        shown
    }

    /// Adds `absolute_path` to shown arguments with `file_path`.
    pub fn show_absolute_path(&mut self) {
        let input = self.input.clone();
        self.show_field(&input, ABSOLUTE_PATHS);
    }

    /// Shows an argument under the first of these names.
    fn show_field(&mut self, original: &Map<String, Value>, (name, others): FieldNames) {
        let names = std::iter::once(name).chain(others.iter().copied());
        let given = names.filter_map(|name| {
            let value = original.get(name).filter(|value| !value.is_null())?;
            Some((name, value.clone()))
        });
        let sources: Vec<(&str, Value)> = given.collect();
        let Some((source, value)) = sources.first() else {
            return;
        };
        if let Some((other, _)) = sources.iter().find(|(_, other)| other != value) {
            self.contradiction = Some((*source, *other));
        }
        let text = shown_text(name, source, value);
        if text.is_none() && sources.len() == 1 {
            return;
        }
        if let Some(text) = text {
            self.input.insert(name.to_owned(), Value::String(text));
        }
        self.fields.push(ShownField {
            name,
            is_whole: *source != EDITS,
            sources,
        });
    }

    /// Shows a patch for one file as the text of a patch.
    fn show_operation(&mut self, original: &Map<String, Value>) {
        let Some(patch) = patch_of(original) else {
            return;
        };
        if self
            .input
            .get(COMMAND)
            .is_some_and(|value| !value.is_null())
        {
            self.contradiction = Some((COMMAND, "diff"));
        }
        let fields = OPERATION.into_iter();
        let sources = fields.filter_map(|name| Some((name, original.get(name)?.clone())));
        self.input.insert(COMMAND.to_owned(), Value::String(patch));
        self.fields.push(ShownField {
            name: COMMAND,
            sources: sources.collect(),
            is_whole: false,
        });
    }

    /// Moves the values of shown fields in a hook's `edit` back to the fields of the
    /// call.
    ///
    /// # Errors
    ///
    /// The name of a changed field that has no field of its own in the call.
    pub fn restore(&self, edit: &mut Map<String, Value>) -> Result<(), &'static str> {
        // A field may repeat one that is shown before it.
        for field in self.fields.iter().rev() {
            field.restore(&self.input, edit)?;
        }
        let Some(verb) = &self.verb else {
            return Ok(());
        };
        match edit.insert(COMMAND.to_owned(), verb.clone()) {
            Some(other) if other != *verb => Err(COMMAND),
            Some(_) | None => Ok(()),
        }
    }
}

impl ShownField {
    /// Moves an edit of the field back to all of its sources.
    fn restore(
        &self,
        shown: &Map<String, Value>,
        edit: &mut Map<String, Value>,
    ) -> Result<(), &'static str> {
        if let Some(sources) = self.edited_sources(shown, edit)? {
            edit.shift_remove(self.name);
            edit.extend(sources);
        }
        Ok(())
    }

    /// Returns the sources with their values after an edit; `None` if it leaves the field out.
    fn edited_sources(
        &self,
        shown: &Map<String, Value>,
        edit: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, &'static str> {
        let changed = |name: &str| {
            edit.get(name)
                .filter(|value| shown.get(name) != Some(*value))
        };
        let sources = self.sources.iter();
        if let Some(value) = changed(self.name) {
            if !self.is_whole {
                return Err(self.name);
            }
            let sources = sources.map(|(source, original)| {
                let value = in_form_of(source, original, value.clone());
                ((*source).to_owned(), value)
            });
            return Ok(Some(sources.collect()));
        }
        let mut whole = sources.clone().filter(|_| self.is_whole);
        if let Some(value) = whole.find_map(|(source, _)| changed(source)) {
            let sources = sources.map(|(source, _)| ((*source).to_owned(), value.clone()));
            return Ok(Some(sources.collect()));
        }
        let is_missing = |source: &str| source == self.name || !edit.contains_key(source);
        let missing = sources.filter(|(source, _)| is_missing(source));
        let missing = missing.map(|(source, value)| ((*source).to_owned(), value.clone()));
        Ok(edit.contains_key(self.name).then(|| missing.collect()))
    }
}

/// Returns a changed value in the form of the field that it replaces.
fn in_form_of(source: &str, original: &Value, value: Value) -> Value {
    match original {
        Value::Array(_) if source == COMMANDS => Value::Array(vec![value]),
        Value::Array(words) => changed_list(words, value),
        _ => value,
    }
}

/// Returns the text that hooks read under `name` for the field `source`; `None` if they find it
/// there already, or it has no text.
fn shown_text(name: &str, source: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (source != name).then(|| text.clone()),
        Value::Array(edits) if source == EDITS => text_of_edits(name, edits),
        Value::Array(commands) if source == COMMANDS => {
            let lines = commands.iter().map(|command| match command {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
        Value::Array(words) if name == COMMAND => {
            let texts: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(match texts?.as_slice() {
                [shell, flag, script] if runs_script(shell, flag) => (*script).to_owned(),
                words => words.join(" "),
            })
        }
        _ => None,
    }
}

/// Returns the texts that a list of edits has under `name`, one in each line.
fn text_of_edits(name: &str, edits: &[Value]) -> Option<String> {
    let (_, others) = FIELDS.iter().find(|(field, _)| *field == name)?;
    let names = || std::iter::once(name).chain(others.iter().copied());
    let texts = edits
        .iter()
        .flat_map(|edit| names().filter_map(|name| edit.get(name)?.as_str()));
    let texts: Vec<&str> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Returns the text of a patch for one file.
fn patch_of(arguments: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| arguments.get(name)?.as_str();
    let change = match text("type")? {
        "create_file" => "Add",
        "update_file" => "Update",
        "delete_file" => "Delete",
        _ => return None,
    };
    let (path, diff) = (text("path")?, text("diff").unwrap_or_default());
    let mut lines = vec![
        "*** Begin Patch".to_owned(),
        format!("*** {change} File: {path}"),
    ];
    lines.extend((!diff.is_empty()).then(|| diff.to_owned()));
    lines.push("*** End Patch".to_owned());
    Some(lines.join("\n"))
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

/// Returns whether a program is a shell of the system and runs the argument after `flag` as a
/// script: `-c`, `-lc`. A file with the name of a shell in another folder may be any program.
fn runs_script(program: &str, flag: &str) -> bool {
    let mut folders = SHELL_FOLDERS.iter();
    let name = folders.find_map(|folder| program.strip_prefix(folder));
    let is_script_flag = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c');
    is_script_flag && SHELLS.contains(&name.unwrap_or(program))
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
        arguments.restore(&mut edit).unwrap();
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
    fn commands_are_one_text_and_an_edit_is_the_only_command() {
        let original = json!({ "commands": ["a", "b"], "timeout_ms": 1 });
        let shown = json!({ "commands": ["a", "b"], "timeout_ms": 1, "command": "a\nb" });
        let edited = json!({ "commands": ["c"] });
        check(original.clone(), &shown, json!({ "command": "c" }), &edited);
        let kept = json!({ "timeout_ms": 2, "commands": ["a", "b"] });
        let edit = json!({ "command": "a\nb", "timeout_ms": 2 });
        check(original, &shown, edit, &kept);
    }

    #[test]
    fn a_text_from_several_places_cannot_be_changed() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let edits = json!({ "edits": [{ "old_str": "a", "new_str": "b" }, { "newString": "c" }] });
        let patch = json!({ "type": "update_file", "path": "a", "diff": "+b" });
        let verb = json!({ "command": "insert", "insert_text": "a" });
        for (arguments, name) in [
            (ShownArguments::new(&object(edits)), "new_string"),
            (ShownArguments::new(&object(patch)), "command"),
            (ShownArguments::of_editor(&object(verb)), "command"),
        ] {
            let mut edit = object(json!({ name: "x" }));
            assert_eq!(arguments.restore(&mut edit), Err(name));
        }
    }

    #[test]
    fn known_argument_names_are_unchanged() {
        let same = json!({ "command": "ls", "n": 1 });
        check(same.clone(), &same, json!({ "n": 2 }), &json!({ "n": 2 }));
    }
}
