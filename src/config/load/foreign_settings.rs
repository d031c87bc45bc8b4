//! Settings files of Claude Code and Codex, written as those of gemini-cli: other names
//! of events, timeouts in seconds, and matchers that are names.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::{Map, Value, json};

use super::paths::normalized_path;
use crate::{
    config::{
        schema::did_you_mean::did_you_mean,
        source_span::Problem,
        spanned_yaml::{SpannedYaml, escape_key},
        units,
    },
    event::{AgentScope, EventAlias, EventName, SettingsFormat},
    protocol::{self, Protocol},
};

/// Keys of the `hooks` block that are no events.
const SWITCHES: [&str; 3] = ["enabled", "disabled", "notifications"];

/// Keys of a hook that change only what its agent displays.
const DISPLAY_KEYS: [&str; 2] = ["statusMessage", "visibilityHint"];

/// Keys of a hook whose agent does not wait for it.
const ASYNC_KEYS: [&str; 2] = ["async", "asyncRewake"];

/// Timeout above which few hooks are meant to run, in seconds.
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

/// A settings file with the names of hookgate.
#[derive(Debug, Default)]
pub(super) struct Translation {
    pub(super) value: Value,
    /// JSON pointers after the translation, each with that in the document.
    pub(super) moves: Vec<(String, String)>,
    /// JSON pointers of groups, each with the agents for which its hooks run.
    pub(super) scopes: Vec<(String, AgentScope)>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Returns the protocol of a settings file that names none: by the folder of the file,
/// else by the names of its events.
pub(super) fn detect(path: &Path, value: &Value) -> Option<&'static dyn Protocol> {
    let path = normalized_path(path);
    let folder = path.parent();
    let by_folder = |protocol: &&dyn Protocol| {
        let folders = folder.zip(protocol.settings_folder());
        folders.is_some_and(|(folder, own)| folder.ends_with(own))
    };
    let keys = value.get("hooks").and_then(Value::as_object);
    let keys: Vec<&str> = keys
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect();
    let is_own = |name: &&str| EventName::parse(name).is_some();
    let has_events = |format: &SettingsFormat| {
        let mut foreign = keys.iter().filter(|key| !is_own(key));
        foreign.any(|key| format.events.iter().any(|alias| alias.name == *key))
    };
    let by_events = |protocol: &&dyn Protocol| protocol.settings_format().is_some_and(has_events);
    let mut all = protocol::ALL.iter().copied();
    let found = all.clone().find(by_folder);
    found.or_else(|| all.find(by_events))
}

/// Translates a settings file of a family.
pub(super) fn translate(
    document: &SpannedYaml,
    protocol: &str,
    format: &SettingsFormat,
) -> Translation {
    let mut translator = Translator {
        document,
        protocol,
        format,
        events: BTreeMap::new(),
        translation: Translation::default(),
    };
    let mut value = document.value();
    translator.disable_all(&mut value);
    if let Some(Value::Object(hooks)) = value.get_mut("hooks") {
        for (name, groups) in std::mem::take(hooks) {
            let mut aliases = format.events.iter();
            if let Some(alias) = aliases.find(|alias| alias.name == name) {
                translator.add_event(alias, groups);
            } else if SWITCHES.contains(&name.as_str()) {
                hooks.insert(name, groups);
            } else {
                translator.report_unknown(&name);
            }
        }
        let events = std::mem::take(&mut translator.events).into_iter();
        hooks.extend(events.map(|(event, groups)| (event.as_str().to_owned(), groups)));
    }
    Translation {
        value,
        ..translator.translation
    }
}

struct Translator<'a> {
    document: &'a SpannedYaml,
    protocol: &'a str,
    format: &'a SettingsFormat,
    events: BTreeMap<EventName, Value>,
    translation: Translation,
}

impl Translator<'_> {
    /// Translates Claude Code's switch for all hooks.
    fn disable_all(&mut self, value: &mut Value) {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        if fields.shift_remove("disableAllHooks") == Some(Value::Bool(true)) {
            let switch = ("/hooksConfig/enabled", "/disableAllHooks");
            self.translation
                .moves
                .push((switch.0.to_owned(), switch.1.to_owned()));
            let switches = fields.entry("hooksConfig").or_insert_with(|| json!({}));
            if let Some(switches) = switches.as_object_mut() {
                switches.insert("enabled".to_owned(), Value::Bool(false));
            }
        }
    }

    fn report_unknown(&mut self, name: &str) {
        let span = self
            .document
            .key_span(&format!("/hooks/{}", escape_key(name)));
        let (protocol, format) = (self.protocol, self.format);
        if format.unsupported.contains(&name) {
            let message =
                format!("`{protocol}` hooks on {name} never run: a gateway does not see the event");
            self.translation.warnings.push(Problem::at(&span, message));
            return;
        }
        let known = format.events.iter().map(|alias| alias.name);
        let hint = did_you_mean(name, known);
        let message = format!("unknown event `{name}` of the protocol `{protocol}`{hint}");
        self.translation.problems.push(Problem::at(&span, message));
    }

    fn add_event(&mut self, alias: &EventAlias, groups: Value) {
        let (own, foreign) = (
            format!("/hooks/{}", alias.event),
            format!("/hooks/{}", alias.name),
        );
        let Value::Array(groups) = groups else {
            // In front of that of an alias, because the first of equal pointers counts.
            self.translation.moves.insert(0, (own, foreign));
            self.events.insert(alias.event, groups);
            return;
        };
        let mut translated = match self.events.remove(&alias.event) {
            None => Vec::new(),
            Some(Value::Array(groups)) => groups,
            Some(invalid) => {
                // The validation reports it.
                self.events.insert(alias.event, invalid);
                return;
            }
        };
        for (index, mut group) in groups.into_iter().enumerate() {
            let places = (
                format!("{own}/{}", translated.len()),
                format!("{foreign}/{index}"),
            );
            self.add_group(alias, &mut group, places);
            translated.push(group);
        }
        self.translation.moves.push((own, foreign));
        self.events.insert(alias.event, Value::Array(translated));
    }

    fn add_group(&mut self, alias: &EventAlias, group: &mut Value, places: (String, String)) {
        self.translate_group(alias, group, &places.1);
        self.translation
            .scopes
            .push((places.0.clone(), alias.agents));
        self.translation.moves.push(places);
    }

    fn translate_group(&mut self, alias: &EventAlias, group: &mut Value, pointer: &str) {
        let Some(group) = group.as_object_mut() else {
            return;
        };
        if alias.agents == AgentScope::SubAgents
            && group.get("matcher").is_some_and(Value::is_string)
            && let Some(Value::String(matcher)) = group.shift_remove("matcher")
            && !matcher.is_empty()
            && matcher != "*"
        {
            let message = "a gateway does not see the types of sub-agents, so the matcher is ignored and the hooks run for all";
            self.warn(&format!("{pointer}/matcher"), message);
        }
        if let Some(Value::String(matcher)) = group.get_mut("matcher") {
            *matcher = exact(matcher, self.format);
        }
        if let Some(Value::Array(hooks)) = group.get_mut("hooks") {
            for (index, hook) in hooks.iter_mut().enumerate() {
                if let Some(hook) = hook.as_object_mut() {
                    self.translate_hook(hook, &format!("{pointer}/hooks/{index}"));
                }
            }
        }
    }

    fn translate_hook(&mut self, hook: &mut Map<String, Value>, pointer: &str) {
        for key in DISPLAY_KEYS {
            hook.shift_remove(key);
        }
        self.translate_timeout(hook, pointer);
        for key in ASYNC_KEYS {
            if hook.shift_remove(key) == Some(Value::Bool(true)) {
                hook.insert("mode".to_owned(), json!("observe"));
                let message = format!(
                    "the hook is `{key}`, so its decision is not applied; events still wait until it has ended"
                );
                self.warn(&format!("{pointer}/{key}"), &message);
            }
        }
        if hook.shift_remove("if").is_some() {
            let message = "`if` is ignored: the hook runs on all that its matcher matches";
            self.warn(&format!("{pointer}/if"), message);
        }
        self.translate_arguments(hook, pointer);
        self.translate_headers(hook, pointer);
    }

    /// Writes the header with a token of an HTTP hook as `bearer`. Other headers are refused: a
    /// server that misses one may refuse every event, which a hook that fails open lets pass.
    fn translate_headers(&mut self, hook: &mut Map<String, Value>, pointer: &str) {
        let allowed = hook.shift_remove("allowedEnvVars").unwrap_or_default();
        let headers = match hook.shift_remove("headers") {
            None | Some(Value::Null) => return,
            Some(Value::Object(headers)) => headers,
            Some(_) => {
                let message = "expected an object of names and values";
                return self.report(&format!("{pointer}/headers"), message.to_owned());
            }
        };
        for (name, value) in &headers {
            let token = value.as_str().and_then(token_variable);
            let is_allowed = |variable: &&str| {
                let mut allowed = allowed.as_array().into_iter().flatten();
                allowed.any(|name| name == *variable)
            };
            if name.eq_ignore_ascii_case("authorization")
                && let Some(variable) = token.filter(is_allowed)
            {
                hook.insert("bearer".to_owned(), json!({ "env": variable }));
            } else if !name.eq_ignore_ascii_case("content-type") {
                let message = "only `Authorization: Bearer $NAME` is sent to the server of a hook, \
                               with `NAME` in `allowedEnvVars`";
                let pointer = format!("{pointer}/headers/{}", escape_key(name));
                self.report(&pointer, message.to_owned());
            }
        }
    }

    /// Writes a timeout in seconds as one in milliseconds.
    fn translate_timeout(&mut self, hook: &mut Map<String, Value>, pointer: &str) {
        let Some(written) = hook.shift_remove("timeout") else {
            return;
        };
        if let Some(timeout) = milliseconds(&written) {
            hook.insert("timeout".to_owned(), timeout);
            if let Some(message) = long_timeout(&written) {
                self.warn(&format!("{pointer}/timeout"), &message);
            }
            return;
        }
        let written = match written {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let message = format!(
            "`timeout` must be a number of seconds above 0, or a duration such as `5s`, not `{written}`"
        );
        self.report(&format!("{pointer}/timeout"), message);
    }

    /// Writes a program and its arguments as a command for bash.
    fn translate_arguments(&mut self, hook: &mut Map<String, Value>, pointer: &str) {
        let Some(Value::String(program)) = hook.get("command") else {
            return;
        };
        let Some(args) = hook.get("args") else {
            return;
        };
        let args = args.as_array();
        let args = args.and_then(|args| args.iter().map(Value::as_str).collect());
        let args: Option<Vec<&str>> = args;
        if let Some(args) = args {
            let words = std::iter::once(program.as_str()).chain(args);
            let words: Vec<String> = words.map(quote).collect();
            hook.insert("command".to_owned(), json!(words.join(" ")));
        } else {
            let message = "`args` must be a list of strings".to_owned();
            self.report(&format!("{pointer}/args"), message);
        }
        hook.shift_remove("args");
    }

    fn report(&mut self, pointer: &str, message: String) {
        let span = self.document.span(pointer);
        self.translation.problems.push(Problem::at(&span, message));
    }

    fn warn(&mut self, pointer: &str, message: &str) {
        let span = self.document.span(pointer);
        self.translation.warnings.push(Problem::at(&span, message));
    }
}

/// Returns a timeout, in seconds or with a unit, as an integer of milliseconds; `None` if it is
/// not valid.
fn milliseconds(timeout: &Value) -> Option<Value> {
    let duration = match timeout {
        Value::String(text) => units::duration(text)?,
        number => Duration::try_from_secs_f64(number.as_f64()?).ok()?,
    };
    let milliseconds = u64::try_from(duration.as_millis()).ok()?;
    let is_valid = (1..=units::MAX_SAFE_INTEGER).contains(&milliseconds);
    is_valid.then(|| json!(milliseconds))
}

/// Returns a warning about a timeout that is probably meant in milliseconds.
fn long_timeout(timeout: &Value) -> Option<String> {
    let seconds = timeout.as_f64()?;
    let meant = seconds / 1000.0;
    (seconds > MAX_TIMEOUT_SECONDS)
        .then(|| format!("the timeout is {seconds} seconds: in milliseconds it would be {meant}"))
}

/// Returns the variable of a header value `Bearer $NAME` or `Bearer ${NAME}`.
fn token_variable(value: &str) -> Option<&str> {
    let name = value.strip_prefix("Bearer ")?.trim().strip_prefix('$')?;
    let braced = name
        .strip_prefix('{')
        .and_then(|name| name.strip_suffix('}'));
    let name = braced.unwrap_or(name);
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Writes a matcher of nothing but names as a regular expression for these names. One without
/// any name matches everything: a guard that runs too often is safer than one that never runs.
fn exact(matcher: &str, format: &SettingsFormat) -> String {
    let is_separator = |char: char| format.name_separators.contains(&char);
    let is_name = |char: char| char.is_ascii_alphanumeric() || format.name_symbols.contains(&char);
    if !matcher
        .chars()
        .all(|char| is_name(char) || is_separator(char))
    {
        return matcher.to_owned();
    }
    let names = matcher.split(is_separator).map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("^(?:{})$", names.join("|"))
}

/// Quotes a word for bash. Only `${CLAUDE_PROJECT_DIR}` is replaced in it.
fn quote(word: &str) -> String {
    const PROJECT: &str = "${CLAUDE_PROJECT_DIR}";
    let quoted = word.split(PROJECT).map(|text| {
        let special = ['\\', '"', '$', '`'];
        let chars = text.chars();
        chars.fold(String::new(), |mut quoted, char| {
            if special.contains(&char) {
                quoted.push('\\');
            }
            quoted.push(char);
            quoted
        })
    });
    format!("\"{}\"", quoted.collect::<Vec<String>>().join(PROJECT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: SettingsFormat = SettingsFormat {
        events: &[EventAlias::new(
            "PreToolUse",
            EventName::BeforeTool,
            AgentScope::All,
        )],
        unsupported: &[],
        name_separators: &['|', ','],
        name_symbols: &['_', '-', ' '],
    };

    #[test]
    fn a_matcher_of_names_matches_whole_names() {
        for (matcher, expected) in [
            ("Edit|Write", "^(?:Edit|Write)$"),
            ("Edit, Write", "^(?:Edit|Write)$"),
            (" Bash | Write,", "^(?:Bash|Write)$"),
            ("mcp__my-srv__a", "^(?:mcp__my-srv__a)$"),
            ("mcp__gh__.*", "mcp__gh__.*"),
            ("Edit, Write.*", "Edit, Write.*"),
            ("*", "*"),
            ("", ""),
            (" , |", ""),
        ] {
            assert_eq!(exact(matcher, &CLAUDE), expected, "{matcher}");
        }
    }

    #[test]
    fn names_and_separators_are_those_of_the_format() {
        let codex = SettingsFormat {
            name_separators: &['|'],
            name_symbols: &['_'],
            ..CLAUDE
        };
        assert_eq!(exact("Edit|Write", &codex), "^(?:Edit|Write)$");
        for pattern in ["Edit, Write", "my-srv"] {
            assert_eq!(exact(pattern, &codex), pattern);
        }
    }

    /// Translates a file of Claude Code with one hook. Returns the hook, and all problems and
    /// warnings.
    fn translated(hook: &str) -> (Value, Vec<String>) {
        let text = format!(r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{hook}]}}]}}}}"#);
        let document = SpannedYaml::parse(&text, "s.json".as_ref()).unwrap();
        let translation = translate(&document, "claude", &CLAUDE);
        let messages = [translation.problems, translation.warnings].concat();
        let hook = &translation.value["hooks"]["BeforeTool"][0]["hooks"][0];
        let messages = messages.iter().map(|problem| problem.message.clone());
        (hook.clone(), messages.collect())
    }

    #[test]
    fn wrong_settings_of_a_hook_are_reported_as_they_are_written() {
        for (key, value, message) in [
            (
                "timeout",
                "0",
                "`timeout` must be a number of seconds above 0, or a duration such as `5s`, not `0`",
            ),
            ("args", r#"["a", 3]"#, "`args` must be a list of strings"),
            ("args", r#""a""#, "`args` must be a list of strings"),
        ] {
            let hook = format!(r#"{{"command": "c", "{key}": {value}}}"#);

            let (translated, messages) = translated(&hook);

            assert_eq!(translated, json!({ "command": "c" }));
            assert_eq!(messages, [message]);
        }
    }

    #[test]
    fn the_token_of_an_http_hook_is_read_from_an_allowed_variable() {
        let hook = |headers: &str| {
            translated(&format!(
                r#"{{"type": "http", "url": "http://a", "headers": {headers}, "allowedEnvVars": ["TOKEN"]}}"#
            ))
        };
        let expected = json!({ "type": "http", "url": "http://a", "bearer": { "env": "TOKEN" } });
        for value in ["Bearer $TOKEN", "Bearer ${TOKEN}"] {
            let headers = json!({ "authorization": value, "Content-Type": "application/json" });
            assert_eq!(hook(&headers.to_string()), (expected.clone(), Vec::new()));
        }
        for (name, value) in [
            ("Authorization", "Bearer $OTHER"),
            ("Authorization", "Bearer k"),
            ("Authorization", "Basic $TOKEN"),
            ("X-Key", "$TOKEN"),
        ] {
            let (_, problems) = hook(&json!({ name: value }).to_string());
            let [problem] = problems.as_slice() else {
                panic!("{name} {value}: {problems:?}");
            };
            assert!(
                problem.contains("only `Authorization: Bearer $NAME`"),
                "{problem}"
            );
        }
        let (_, problems) = hook(r#"["Authorization: Bearer $TOKEN"]"#);
        assert!(problems[0].contains("expected an object"), "{problems:?}");
    }

    #[test]
    fn hooks_that_run_in_the_background_only_observe() {
        for key in ["async", "asyncRewake"] {
            let (on, warnings) = translated(&format!(r#"{{"command": "c", "{key}": true}}"#));
            let (off, none) = translated(&format!(r#"{{"command": "c", "{key}": false}}"#));

            assert_eq!(on, json!({ "command": "c", "mode": "observe" }));
            assert!(warnings[0].contains("events still wait"), "{warnings:?}");
            assert_eq!((off, none), (json!({ "command": "c" }), Vec::new()));
        }
    }

    #[test]
    fn arguments_are_quoted_for_bash() {
        assert_eq!(
            quote("${CLAUDE_PROJECT_DIR}/a b$c\"`\\"),
            r#""${CLAUDE_PROJECT_DIR}/a b\$c\"\`\\""#
        );
    }

    #[test]
    fn timeouts_are_in_seconds() {
        for (written, expected) in [
            (json!(5), Some(5000)),
            (json!(0.5), Some(500)),
            (json!("5s"), Some(5000)),
            (json!(0), None),
            (json!(-1), None),
            (json!(1e300), None),
            (json!(u64::MAX), None),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            let timeout = milliseconds(&written);
            assert_eq!(timeout, expected.map(Value::from), "{written}");
        }
    }
}
