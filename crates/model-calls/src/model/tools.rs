//! Tool selection in the stable form (hook protocol, section 7).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::has_value;

/// Names of a selection in a `toolConfig`, in both spellings.
const NESTED: [&str; 2] = ["functionCallingConfig", "function_calling_config"];

/// Names of the list of allowed functions, in both spellings.
const NAMES: [&str; 2] = ["allowedFunctionNames", "allowed_function_names"];

/// Other keys of a `toolConfig`: the mode, and settings that hooks do not change.
const OTHER_KEYS: [&str; 7] = [
    "mode",
    "retrievalConfig",
    "retrieval_config",
    "includeServerSideToolInvocations",
    "include_server_side_tool_invocations",
    "streamFunctionCallArguments",
    "stream_function_call_arguments",
];

/// Function calling mode of a request.
///
/// `Ord` is the precedence when hooks disagree: `None` beats `Any` beats `Auto`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FunctionCallingMode {
    /// The model decides whether to call a tool.
    #[default]
    Auto,
    /// The model must call a tool.
    Any,
    /// The model must not call a tool.
    None,
}

/// Tool selection of one hook, or the merged selection of all hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolConfig {
    /// Mode; `None` counts as `AUTO` where one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<FunctionCallingMode>,
    /// Allowed names, sorted; an empty list restricts nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_function_names: Vec<String>,
}

impl ToolConfig {
    /// Reads `{mode, allowedFunctionNames}` or `{functionCallingConfig: {…}}`,
    /// in camel case or snake case. Wrongly typed fields are ignored; `None` if
    /// nothing usable is left.
    pub fn read(value: &Value) -> Option<Self> {
        let fields = config_fields(value).as_object()?;
        let mode = fields.get("mode").and_then(read_mode);
        let names = names(value).and_then(Value::as_array);
        if mode.is_none() && names.is_none() {
            return None;
        }
        let texts = names.into_iter().flatten().filter_map(Value::as_str);
        Some(Self::new(mode, texts.map(str::to_owned).collect()))
    }

    /// Selects these functions and no others.
    pub fn only(names: &[String]) -> Self {
        let mode = names.is_empty().then_some(FunctionCallingMode::None);
        Self::new(mode, names.to_vec())
    }

    /// Returns whether the list of names is present and empty.
    pub fn has_empty_list(value: &Value) -> bool {
        let names = names(value).and_then(Value::as_array);
        names.is_some_and(Vec::is_empty)
    }

    /// Returns the fields of a hook's `toolConfig` that [`Self::read`] ignores because of their
    /// value or their name; the whole if it selects nothing, but is neither empty nor null.
    pub fn unusable_fields(value: &Value) -> Vec<String> {
        let is_mode = |mode: &Value| mode.is_null() || read_mode(mode).is_some();
        let is_list = |names: &Value| {
            let names = names.as_array();
            names.is_some_and(|names| names.iter().all(Value::is_string))
        };
        let mode = config_fields(value).get("mode");
        let mut unusable = Vec::new();
        if mode.is_some_and(|mode| !is_mode(mode)) {
            unusable.push("toolConfig.mode".to_owned());
        }
        if names(value).is_some_and(|names| !is_list(names)) {
            unusable.push("toolConfig.allowedFunctionNames".to_owned());
        }
        let configs = [Some(value), given(value, NESTED)].into_iter().flatten();
        let entries = configs.filter_map(Value::as_object).flatten();
        let unknown = entries.filter(|(key, value)| !is_known(key) && has_value(value));
        unusable.extend(unknown.map(|(key, _)| format!("toolConfig.{key}")));
        let is_given = match config_fields(value) {
            Value::Object(fields) => !fields.values().all(Value::is_null),
            other => !other.is_null(),
        };
        if is_given && unusable.is_empty() && Self::read(value).is_none() {
            unusable.push("toolConfig".to_owned());
        }
        unusable
    }

    /// Merges two selections: the stricter mode and all names; `NONE` has no
    /// names. Commutative and idempotent.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        let names = [
            self.allowed_function_names.as_slice(),
            other.allowed_function_names.as_slice(),
        ];
        Self::new(self.mode.max(other.mode), names.concat())
    }

    /// Returns what both selections allow: the stricter mode and the common names, `NONE` if they
    /// have no name in common.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let (own, others) = (&self.allowed_function_names, &other.allowed_function_names);
        // An empty list restricts nothing.
        if own.is_empty() || others.is_empty() {
            return self.merge(other);
        }
        let is_common = |name: &&String| others.binary_search(name).is_ok();
        let common: Vec<String> = own.iter().filter(is_common).cloned().collect();
        let mode = if common.is_empty() {
            Some(FunctionCallingMode::None)
        } else {
            self.mode.max(other.mode)
        };
        Self::new(mode, common)
    }

    fn new(mode: Option<FunctionCallingMode>, mut names: Vec<String>) -> Self {
        if mode == Some(FunctionCallingMode::None) {
            names.clear();
        }
        names.sort_unstable();
        names.dedup();
        Self {
            mode,
            allowed_function_names: names,
        }
    }
}

/// Returns the object with the mode and the names.
fn config_fields(value: &Value) -> &Value {
    given(value, NESTED).unwrap_or(value)
}

/// Returns the field with one of these names that is not null.
fn given<'a>(value: &'a Value, names: [&str; 2]) -> Option<&'a Value> {
    let mut given = names.iter().filter_map(|name| value.get(name));
    given.find(|field| !field.is_null())
}

fn is_known(key: &str) -> bool {
    NESTED.contains(&key) || NAMES.contains(&key) || OTHER_KEYS.contains(&key)
}

fn read_mode(value: &Value) -> Option<FunctionCallingMode> {
    let word = Some(value).filter(|value| value.is_string())?;
    FunctionCallingMode::deserialize(word).ok()
}

/// Returns the list of names in either spelling, of any type.
fn names(value: &Value) -> Option<&Value> {
    given(config_fields(value), NAMES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_config() -> impl Strategy<Value = ToolConfig> {
        use FunctionCallingMode as Mode;
        let mode = prop::option::of(prop::sample::select(vec![
            Mode::Auto,
            Mode::Any,
            Mode::None,
        ]));
        (mode, prop::collection::vec("[ab]{1,2}", 0..3))
            .prop_map(|(mode, names)| ToolConfig::new(mode, names))
    }

    proptest! {
        #[test]
        fn merging_is_commutative_and_idempotent_and_none_absorbs(a in any_config(), b in any_config()) {
            prop_assert_eq!(a.merge(&b), b.merge(&a));
            prop_assert_eq!(a.merge(&b).merge(&b), a.merge(&b));
            let none = ToolConfig::new(Some(FunctionCallingMode::None), vec![]);
            prop_assert_eq!(a.merge(&none), none);
        }
    }

    #[test]
    fn an_intersection_has_the_common_names() {
        use FunctionCallingMode as Mode;
        let config = |mode, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            ToolConfig::new(Some(mode), names.collect())
        };
        let own = config(Mode::Auto, &["a", "b"]);

        assert_eq!(
            own.intersect(&config(Mode::Any, &["b", "c"])),
            config(Mode::Any, &["b"])
        );
        assert_eq!(
            own.intersect(&config(Mode::Any, &["c"])),
            config(Mode::None, &[])
        );
        assert_eq!(
            own.intersect(&config(Mode::Any, &[])),
            config(Mode::Any, &["a", "b"])
        );
        assert_eq!(
            config(Mode::None, &[]).intersect(&own),
            config(Mode::None, &[])
        );
    }

    #[test]
    fn both_forms_and_spellings_are_read() {
        let flat = serde_json::json!({"mode": "ANY", "allowedFunctionNames": ["b", "a"]});
        let nested = serde_json::json!({"function_calling_config":
            {"mode": "ANY", "allowed_function_names": ["a", "b", 7]}});
        assert_eq!(ToolConfig::read(&flat), ToolConfig::read(&nested));
        let beside_null = serde_json::json!({"functionCallingConfig": null, "mode": "ANY",
            "allowedFunctionNames": null, "allowed_function_names": ["a", "b"]});
        assert_eq!(ToolConfig::read(&beside_null), ToolConfig::read(&flat));
        assert_eq!(ToolConfig::read(&serde_json::json!({"mode": 5})), None);
    }

    #[test]
    fn fields_with_an_unusable_value_are_found() {
        use serde_json::json;
        let (mode, names) = ("toolConfig.mode", "toolConfig.allowedFunctionNames");
        for (config, expected) in [
            (
                json!({"mode": "ANY", "allowedFunctionNames": ["a"]}),
                vec![],
            ),
            (json!({"mode": null, "allowedFunctionNames": []}), vec![]),
            (json!({"mode": "none"}), vec![mode]),
            (
                json!({"mode": {"NONE": null}, "allowedFunctionNames": []}),
                vec![mode],
            ),
            (
                json!({"mode": "AUTO", "allowed_function_names": "a"}),
                vec![names],
            ),
            (
                json!({"functionCallingConfig": {"allowedFunctionNames": ["a", 7]}}),
                vec![names],
            ),
            (
                json!({"mode": 5, "allowedFunctionNames": 5}),
                vec![mode, names],
            ),
            (json!({"mode": null}), vec![]),
            (json!({"functionCallingConfig": {}}), vec![]),
            (json!({}), vec![]),
            (json!(null), vec![]),
            (json!({"modes": "NONE"}), vec!["toolConfig.modes"]),
            (
                json!({"mode": "AUTO", "allowedFunctionName": ["a"], "retrievalConfig": {}}),
                vec!["toolConfig.allowedFunctionName"],
            ),
            (
                json!({"functionCallingConfig": {"mode": "ANY", "names": ["a"]}}),
                vec!["toolConfig.names"],
            ),
            (
                json!({"functionCallingConfig": null, "mode": 5}),
                vec![mode],
            ),
            (json!("NONE"), vec!["toolConfig"]),
        ] {
            assert_eq!(ToolConfig::unusable_fields(&config), expected, "{config}");
        }
    }
}
