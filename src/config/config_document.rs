//! The config for display: what was written, with the defaults of the schema.

use std::{
    fmt::{self, Display, Formatter},
    path::Path,
};

use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use super::{setting_origins::SettingOrigins, spanned_yaml::SpannedYaml};
use crate::sha256::sha256_hex;

/// Replaces values that may be secret.
const MASKED: &str = "***";

/// Digits of a hash that are shown.
const SHOWN_DIGITS: usize = 8;

/// Mappings whose values may be secret although they are plain text.
const SECRET_MAPPINGS: [&str; 2] = ["env", "headers"];

/// Nesting of schemas that is followed.
const MAX_DEPTH: usize = 16;

/// The config for display, section by section. Secrets are references to variables and files;
/// other texts that may be secret are masked in its YAML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigDocument {
    sections: Vec<ConfigSection>,
}

/// One top-level setting of the config, or the hooks of one settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSection {
    /// Name of the setting.
    pub name: String,
    value: Value,
    origins: SettingOrigins,
}

impl ConfigDocument {
    /// Takes the sections of a document after its references to the command line, and before
    /// its references to secrets, are resolved. Adds the defaults of the schema.
    pub(super) fn new(document: &SpannedYaml, in_use: &Value, schema: &Value) -> Self {
        let effective = with_defaults(in_use, schema, schema, 0);
        let sections = effective.as_object().into_iter().flatten();
        let sections = sections.map(|(name, value)| ConfigSection {
            name: name.clone(),
            value: value.clone(),
            origins: SettingOrigins::new(document, in_use, name),
        });
        Self {
            sections: sections.collect(),
        }
    }

    /// Adds the hooks of a settings file.
    pub(super) fn add_settings_file(&mut self, document: &SpannedYaml) {
        let written = document.value();
        for name in ["hooks", "hooksConfig"] {
            if let Some(value) = written.get(name) {
                self.sections.push(ConfigSection {
                    name: name.to_owned(),
                    value: value.clone(),
                    origins: SettingOrigins::new(document, &written, name),
                });
            }
        }
    }

    /// Returns the sections, those of settings files last.
    pub fn sections(&self) -> &[ConfigSection] {
        &self.sections
    }
}

impl ConfigSection {
    /// Returns the file and line, `command line` or `default`.
    pub fn origin(&self) -> String {
        self.origins.of_section(&self.name)
    }

    /// Returns the origin of each line of `yaml`, which is the section's YAML or a masked form of
    /// it: file and line, `command line` or `default`. Empty if it cannot be parsed.
    pub fn line_origins(&self, yaml: &str) -> Vec<String> {
        self.origins.of_lines(yaml)
    }

    /// Returns the section as YAML, without texts that may be secret.
    pub fn yaml(&self) -> String {
        to_yaml(&self.named(masked(&self.value)))
    }

    /// Returns for each line of `yaml`, which is the section's YAML or a masked form of it, a
    /// hash of the values on it that are masked; empty if none is. To compare two configs, never
    /// for display.
    pub fn masked_value_hashes(&self, yaml: &str) -> Vec<String> {
        let section = self.named(self.value.clone());
        let Ok(parsed) = SpannedYaml::parse(yaml, Path::new("")) else {
            return vec![sha256_hex(section.to_string())];
        };
        let shown = parsed.value();
        let mut hashes = vec![String::new(); yaml.lines().count()];
        for (pointer, line) in parsed.key_lines() {
            let line = usize::try_from(line).unwrap_or_default();
            let hash = line.checked_sub(1).and_then(|line| hashes.get_mut(line));
            let values = (section.pointer(&pointer), shown.pointer(&pointer));
            if let (Some(hash), (Some(value), Some(shown))) = (hash, values)
                && is_masked(value, shown)
            {
                hash.push_str(&sha256_hex(value.to_string()));
            }
        }
        hashes
    }

    fn named(&self, value: Value) -> Value {
        Value::Object(Map::from_iter([(self.name.clone(), value)]))
    }
}

/// Returns whether `shown` hides `value`. The items of a list or mapping are values of their own.
fn is_masked(value: &Value, shown: &Value) -> bool {
    let is_same_container =
        value.is_object() && shown.is_object() || value.is_array() && shown.is_array();
    !is_same_container && value != shown
}

/// Returns a value as YAML.
pub fn to_yaml(value: &Value) -> String {
    // Only texts and numbers are written into a `String`, which cannot fail.
    serde_saphyr::to_string(&YamlValue(value)).unwrap_or_default()
}

/// A value that is displayed as YAML. Serializes numbers that serde would see as `serde_json`'s
/// private mappings.
pub struct YamlValue<'a>(pub &'a Value);

impl Display for YamlValue<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        serde_saphyr::to_fmt_writer(formatter, self).map_err(|_| fmt::Error)
    }
}

impl Serialize for YamlValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => serialize_number(number, serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(YamlValue)),
            Value::Object(fields) => {
                let fields = fields.iter();
                serializer.collect_map(fields.map(|(key, value)| (key, YamlValue(value))))
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

fn serialize_number<S: Serializer>(number: &Number, serializer: S) -> Result<S::Ok, S::Error> {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(number), ..) => serializer.serialize_u64(number),
        (_, Some(number), _) => serializer.serialize_i64(number),
        (_, _, Some(number)) => serializer.serialize_f64(number),
        _ => serializer.collect_str(number),
    }
}

/// Returns `value` with the defaults of `schema`, which is part of `root`.
fn with_defaults(value: &Value, schema: &Value, root: &Value, depth: usize) -> Value {
    let schema = resolved(schema, root);
    match value {
        _ if depth > MAX_DEPTH => value.clone(),
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items
                .iter()
                .map(|item| with_defaults(item, schema, root, depth + 1))
                .collect(),
            None => value.clone(),
        },
        Value::Object(fields) => Value::Object(object_with_defaults(fields, schema, root, depth)),
        scalar => scalar.clone(),
    }
}

fn object_with_defaults(
    fields: &Map<String, Value>,
    schema: &Value,
    root: &Value,
    depth: usize,
) -> Map<String, Value> {
    let mut effective = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let default = property.get("default");
        let default = default.or_else(|| dependent_default(name, fields, schema));
        let value = match (fields.get(name), default) {
            (Some(value), _) => Some(with_defaults(value, property, root, depth + 1)),
            (None, Some(default)) => Some(default.clone()),
            (None, None) => default_section(property, root, depth),
        };
        effective.extend(value.map(|value| (name.clone(), value)));
    }
    for (name, value) in fields {
        if !effective.contains_key(name) {
            let schema = schema.get("additionalProperties").unwrap_or(&Value::Null);
            let value = with_defaults(value, schema, root, depth + 1);
            effective.insert(name.clone(), value);
        }
    }
    effective
}

/// Returns the default that a setting has only beside another one that is written.
fn dependent_default<'a>(
    name: &str,
    fields: &Map<String, Value>,
    schema: &'a Value,
) -> Option<&'a Value> {
    let dependent = schema.get("dependentSchemas")?.as_object()?;
    let mut written = dependent
        .iter()
        .filter(|(key, _)| fields.contains_key(*key));
    written.find_map(|(_, schema)| schema.get("properties")?.get(name)?.get("default"))
}

/// Returns the defaults of a section that is not written, unless its presence is a setting, one
/// of its settings is required, or none has a default.
fn default_section(property: &Value, root: &Value, depth: usize) -> Option<Value> {
    let schema = resolved(property, root);
    let is_section = schema.get("properties").is_some() && schema.get("required").is_none();
    let is_section = is_section && property.get("x-optional").is_none();
    let empty = Value::Object(Map::new());
    let section = is_section.then(|| with_defaults(&empty, schema, root, depth + 1))?;
    (section != empty).then_some(section)
}

fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
    pointer
        .and_then(|pointer| root.pointer(pointer))
        .unwrap_or(schema)
}

/// Returns a value without texts that may be secret. References to secrets are kept.
fn masked(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(masked).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| {
                let value = match value {
                    Value::Object(inner) if SECRET_MAPPINGS.contains(&key.as_str()) => {
                        Value::Object(masked_mapping(inner))
                    }
                    Value::String(hash) if key == "sha256" => {
                        let shown: String = hash.chars().take(SHOWN_DIGITS).collect();
                        format!("{shown}{MASKED}").into()
                    }
                    value => masked(value),
                };
                (key.clone(), value)
            });
            Value::Object(fields.collect())
        }
        Value::String(text) => masked_url(text).into(),
        scalar => scalar.clone(),
    }
}

fn masked_mapping(fields: &Map<String, Value>) -> Map<String, Value> {
    let masked = |value: &Value| match value {
        Value::Object(_) => masked(value),
        _ => MASKED.into(),
    };
    let fields = fields.iter();
    fields
        .map(|(key, value)| (key.clone(), masked(value)))
        .collect()
}

/// Returns a URL without user, password and query; other texts as they are.
fn masked_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let is_scheme = |char: char| char.is_ascii_alphanumeric() || "+.-".contains(char);
    if !scheme.chars().all(is_scheme) || rest.contains(char::is_whitespace) {
        return text.to_owned();
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = path.split_at(path.find('/').unwrap_or(path.len()));
    let host = match host.rsplit_once('@') {
        Some((_, host)) => format!("{MASKED}@{host}"),
        None => host.to_owned(),
    };
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{MASKED}")
    };
    format!("{scheme}://{host}{path}{query}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn document(text: &str) -> ConfigDocument {
        document_with(text, |_| ())
    }

    /// Returns the document of a text after `change`, as by the command line.
    fn document_with(text: &str, change: impl FnOnce(&mut Value)) -> ConfigDocument {
        let schema = json!({
            "properties": {
                "limits": { "$ref": "#/$defs/Limits" },
                "tls": { "$ref": "#/$defs/Tls" },
                "listen": { "default": "127.0.0.1:1" },
                "hooks": { "items": { "$ref": "#/$defs/Limits" } },
            },
            "$defs": {
                "Limits": { "properties": { "body": { "default": "1MiB" }, "max": { "default": 7 } } },
                "Tls": { "properties": { "port": { "default": 1 } }, "required": ["key"] },
            },
        });
        let document = SpannedYaml::parse(text, Path::new("a.yaml")).unwrap();
        let mut value = document.value();
        change(&mut value);
        ConfigDocument::new(&document, &value, &schema)
    }

    fn yaml(document: &ConfigDocument) -> String {
        document
            .sections()
            .iter()
            .map(ConfigSection::yaml)
            .collect()
    }

    #[test]
    fn defaults_are_filled_in_and_each_section_has_its_origin() {
        let document = document("other: true\nlimits: { max: 9 }\nhooks: [{ max: 1 }]\n");

        let sections = document.sections().iter();
        let origins: Vec<(&str, String)> = sections
            .map(|section| (section.name.as_str(), section.origin()))
            .collect();
        let expected = [
            ("limits", "a.yaml:2"),
            ("listen", "default"),
            ("hooks", "a.yaml:3"),
            ("other", "a.yaml:1"),
        ];
        assert_eq!(
            origins,
            expected.map(|(name, origin)| (name, origin.to_owned()))
        );
        let yaml = yaml(&document);
        assert!(yaml.contains("limits:\n  body: 1MiB\n  max: 9\n"), "{yaml}");
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read["hooks"], json!([{ "body": "1MiB", "max": 1 }]));
    }

    #[test]
    fn each_line_has_its_origin() {
        let text = "hooks:\n  - max: 1\n  - { max: 2,\n      body: \"a\\nb\" }\n\nlimits:\n  # a comment\n  max: 9\n";
        let document = document_with(text, |value| {
            value["limits"]["body"] = "2MiB".into();
            value["listen"] = "127.0.0.1:2".into();
        });

        let sections = document.sections().iter();
        let lines = sections.flat_map(|section| {
            let yaml = section.yaml();
            let origins = section.line_origins(&yaml);
            let lines = yaml.lines().map(|line| line.trim().to_owned());
            lines.zip(origins).collect::<Vec<_>>()
        });
        let lines: Vec<(String, String)> = lines.collect();
        let origin = |line: &str| {
            let found = lines.iter().filter(|(text, _)| text == line);
            found.map(|(_, origin)| origin.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(origin("limits:"), ["a.yaml:6"], "{lines:#?}");
        assert_eq!(origin("max: 9"), ["a.yaml:8"]);
        assert_eq!(origin("body: 2MiB"), ["command line"]);
        assert_eq!(origin("listen: 127.0.0.1:2"), ["command line"]);
        assert_eq!(origin("hooks:"), ["a.yaml:1"]);
        assert_eq!(
            origin("- body: 1MiB"),
            ["a.yaml:2"],
            "an item is where it begins"
        );
        assert_eq!(origin("max: 1"), ["a.yaml:2"]);
        assert_eq!(origin("max: 2"), ["a.yaml:3"]);
        assert!(
            lines.iter().all(|(_, origin)| !origin.is_empty()),
            "{lines:#?}"
        );
    }

    #[test]
    fn texts_that_may_be_secret_are_masked() {
        let document = document(
            "other: { sha256: 0123456789abcdef, env: { KEY: s3cret }, headers: { a: s3cret, b: { env: NAME } }, \
             url: \"https://user:s3cret@host/path?key=s3cret\", token: { file: token } }\n",
        );

        let yaml = yaml(&document);
        assert!(!yaml.contains("s3cret"), "{yaml}");
        for shown in [
            "01234567***",
            "https://***@host/path?***",
            "env: NAME",
            "file: token",
        ] {
            assert!(yaml.contains(shown), "no {shown} in {yaml}");
        }
    }

    #[test]
    fn lines_with_masked_values_have_the_hash_of_these() {
        let of = |text: &str| {
            let document = document(text);
            let mut sections = document.sections().iter();
            let section = sections.find(|section| section.name == "hooks").unwrap();
            let yaml = section.yaml();
            let hashes = section.masked_value_hashes(&yaml);
            let lines = yaml.lines().map(str::to_owned);
            lines.zip(hashes).collect::<Vec<(String, String)>>()
        };

        let one = of("hooks: [{ max: 1, env: { A: \"a\\nb\", B: b }, url: \"http://u:p@h/\" }]\n");
        let two = of("hooks: [{ max: 1, env: { A: c, B: b }, url: \"http://u:p@h/\" }]\n");

        let lines = |of: &[(String, String)]| {
            let lines = of.iter().map(|(line, _)| line.clone());
            lines.collect::<Vec<String>>()
        };
        assert_eq!(lines(&one), lines(&two));
        let differing: Vec<&str> = one
            .iter()
            .zip(&two)
            .filter(|(one, two)| one != two)
            .map(|(one, _)| one.0.trim())
            .collect();
        assert_eq!(differing, ["A: \"***\""]);
        let hashed: Vec<&str> = one
            .iter()
            .filter(|(_, hash)| !hash.is_empty())
            .map(|(line, _)| line.trim())
            .collect();
        assert_eq!(hashed.len(), 3, "{hashed:?}");
    }
}
