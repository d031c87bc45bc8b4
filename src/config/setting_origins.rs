//! Origins of the settings of a section: lines of a file, the command line, or defaults.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::spanned_yaml::{SpannedYaml, escape_key};

/// Origins of the settings of one section that are not defaults, by JSON pointer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SettingOrigins(BTreeMap<String, SettingOrigin>);

/// Origin of a setting. Displayed as `file:line`, `command line` or `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SettingOrigin {
    /// A line of a file.
    Line(PathBuf, u64),
    CommandLine,
    Default,
}

impl SettingOrigin {
    /// Returns the line of a key in a document.
    fn of_key(document: &SpannedYaml, pointer: &str) -> Self {
        let span = document.key_span(pointer);
        Self::Line(span.file, span.line)
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::CommandLine => f.write_str("command line"),
            Self::Default => f.write_str("default"),
        }
    }
}

impl SettingOrigins {
    /// Reads the origins of the section `name`. `value` is what is in use of `document`, after
    /// settings of the command line.
    pub(super) fn new(document: &SpannedYaml, value: &Value, name: &str) -> Self {
        let mut origins = Self::default();
        let written = document.value();
        if let Some(value) = value.get(name) {
            let pointer = format!("/{}", escape_key(name));
            origins.read(document, &pointer, written.get(name), value);
        }
        origins
    }

    /// Returns the origin of the section as a whole: `file:line`, `command line` or `default`.
    pub(super) fn of_section(&self, name: &str) -> String {
        self.of_pointer(&format!("/{}", escape_key(name)))
    }

    fn of_pointer(&self, pointer: &str) -> String {
        let origin = self.0.get(pointer);
        origin.unwrap_or(&SettingOrigin::Default).to_string()
    }

    /// Returns the origin of each line of a section's YAML: `file:line`, `command line` or
    /// `default`. Empty if the YAML cannot be parsed.
    pub(super) fn of_lines(&self, yaml: &str) -> Vec<String> {
        let Ok(parsed) = SpannedYaml::parse(yaml, Path::new("")) else {
            return Vec::new();
        };
        let mut starts = parsed.key_lines().into_iter().peekable();
        let mut origin = String::new();
        let lines = (1..).zip(yaml.lines()).map(|(number, _)| {
            // Of the settings that begin on a line, the first one contains the others.
            if let Some((pointer, _)) = starts.next_if(|(_, line)| *line <= number) {
                origin = self.of_pointer(&pointer);
            }
            while starts.next_if(|(_, line)| *line <= number).is_some() {}
            origin.clone()
        });
        lines.collect()
    }

    fn read(
        &mut self,
        document: &SpannedYaml,
        pointer: &str,
        written: Option<&Value>,
        value: &Value,
    ) {
        let is_container = |value: &Value| value.is_object() || value.is_array();
        let is_written = written.is_some_and(|written| {
            written == value || is_container(written) && is_container(value)
        });
        let origin = if is_written {
            SettingOrigin::of_key(document, pointer)
        } else {
            SettingOrigin::CommandLine
        };
        self.0.insert(pointer.to_owned(), origin);
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let written = written.and_then(|written| written.get(index));
                    self.read(document, &format!("{pointer}/{index}"), written, item);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    let written = written.and_then(|written| written.get(key));
                    let pointer = format!("{pointer}/{}", escape_key(key));
                    self.read(document, &pointer, written, field);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
        }
    }
}
