//! Files of cases: what agents do, and what is expected of a config then.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{
    Config, ConfigError, Known, Overrides, Place, Problem,
    load::load_tree,
    raw::RawPath,
    schema_validation::{UnknownKeys, check},
    spanned_yaml::{Tree, escape},
};

/// A config and what is expected of it.
#[derive(Debug)]
pub struct CaseFile {
    /// What is tested: the config that the file names, or the rest of the file.
    pub config: Config,
    /// In the order of the file.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Debug)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// What the agent does.
    pub act: Act,
    /// What must come of it.
    pub expected: Expected,
}

/// What an agent does.
#[derive(Debug, Clone)]
pub enum Act {
    /// It reports an event: a hook's input.
    Report(Map<String, Value>),
    /// It calls a model.
    Call(Box<RehearsedCall>),
}

/// A model call that is rehearsed.
#[derive(Debug, Clone)]
pub struct RehearsedCall {
    /// Path and query.
    pub path: String,
    /// Further headers.
    pub headers: HeaderMap,
    /// The request.
    pub body: Map<String, Value>,
    /// What the model API answers: one object, or the list of its chunks. If
    /// absent, something is made up.
    pub answer: Option<Value>,
    /// What it answers when it is asked again in the same call: told that calls
    /// were refused, or that an answer was.
    pub then: Option<Value>,
}

/// What must come of a case. What is absent may be anything.
#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Expected")]
pub struct Expected {
    /// What all hooks come to, in one word.
    pub verdict: Option<ExpectedVerdict>,
    /// Why: a part of the reason, or a regular expression found in it.
    pub reason: Option<String>,
    /// The names of all hooks that ran, in order, each once.
    pub hooks: Option<Vec<String>>,
    /// The HTTP status of the answer.
    #[schemars(
        range(min = 100, max = 599),
        extend("errorMessage" = "must be an HTTP status, from 100 to 599")
    )]
    pub status: Option<u16>,
    /// For events: what is in the output.
    pub output: Option<Map<String, Value>>,
    /// For model calls: what is in the request that the model API saw; `null` if
    /// it must see none.
    #[serde(deserialize_with = "given")]
    #[schemars(extend("errorMessage" = "must be a mapping or null"))]
    pub upstream: Option<Value>,
    /// For model calls: the model that the model API was asked for.
    pub model: Option<String>,
    /// For model calls: what is in the agent's answer; of a stream, in each of
    /// its chunks.
    #[serde(deserialize_with = "given")]
    #[schemars(extend("errorMessage" = "must be a mapping, or a list of chunks"))]
    pub answer: Option<Value>,
    /// For model calls: all the text that the agent reads.
    pub text: Option<String>,
}

/// What hooks come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExpectedVerdict {
    /// They let it go on, changed or not.
    Proceed,
    /// The human is asked.
    Ask,
    /// A hook answers.
    Respond,
    /// They refuse.
    Deny,
    /// They refuse, and end the agent's loop.
    Stop,
    /// It came to an error before or after any hook.
    Error,
}

impl ExpectedVerdict {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Ask => "ask",
            Self::Respond => "respond",
            Self::Deny => "deny",
            Self::Stop => "stop",
            Self::Error => "error",
        }
    }
}

/// The keys of a file of cases that are no config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CaseFile")]
struct RawCaseFile {
    /// The config that is tested.
    #[expect(dead_code, reason = "read beforehand")]
    config: Option<RawPath>,
    /// The cases.
    #[schemars(extend("minItems" = 1, "errorMessage" = "must be a list of at least one case"))]
    cases: Vec<RawCase>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Case")]
struct RawCase {
    /// What it shows.
    name: String,
    /// The event that an agent reports: a hook's input.
    event: Option<Map<String, Value>>,
    /// The request of a model call.
    request: Option<Map<String, Value>>,
    /// Path and query of the model call.
    #[schemars(extend("pattern" = "^/", "errorMessage" = "must be a path that begins with `/`"))]
    path: Option<String>,
    /// Further headers of the model call.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// What the model API answers: an object, or a list of chunks.
    answer: Option<Value>,
    /// What it answers when it is asked again in the same call: told that calls
    /// were refused, or that an answer was.
    then: Option<Value>,
    /// What must come of it.
    expect: Expected,
}

/// Where a model call goes that does not say.
pub const DEFAULT_MODEL: &str = "gemini-2.5-flash";

impl CaseFile {
    /// Reads a file of cases, and the config that it names. No model API is
    /// called, so the config needs to name none.
    pub fn load(path: &Path, overrides: &Overrides, known: &Known) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|error| {
            Problem::nowhere(format!("`{}` cannot be read: {error}", path.display()))
        })?;
        let tree = Tree::parse(&text, path)?;
        let mut rest = tree.value();
        let mut own = Map::new();
        for key in ["config", "cases"] {
            let value = rest.as_object_mut().and_then(|it| it.shift_remove(key));
            own.extend(value.map(|it| (key.to_owned(), it)));
        }
        let named = own.get("config").and_then(Value::as_str).map(PathBuf::from);
        let read = read_cases(&tree, own, known);
        let config = match named {
            Some(config) => config_beside(&tree, &rest, path, &config)
                .and_then(|config| Config::load(&config, overrides, known)),
            None => load_tree(tree, rest, path, overrides, known),
        };
        match (read, config) {
            (Ok(cases), Ok(config)) => Ok(Self { config, cases }),
            (Err(problems), Ok(_)) => Err(ConfigError { problems }),
            (Ok(_), Err(error)) => Err(error),
            (Err(mut problems), Err(error)) => {
                problems.extend(error.problems);
                problems.sort_by_key(|it| it.place.clone());
                problems.dedup();
                Err(ConfigError { problems })
            }
        }
    }
}

/// The path of a config that a file of cases names; then it holds none itself.
fn config_beside(
    tree: &Tree,
    rest: &Value,
    file: &Path,
    config: &Path,
) -> Result<PathBuf, ConfigError> {
    let keys = rest.as_object().into_iter().flat_map(Map::keys);
    let problems: Vec<Problem> = keys
        .map(|key| {
            let message = format!("`{key}` belongs into the config that `config` names");
            Problem::at(&tree.key_place(&format!("/{key}")), message)
        })
        .collect();
    if problems.is_empty() {
        Ok(file.parent().unwrap_or(Path::new("")).join(config))
    } else {
        Err(ConfigError { problems })
    }
}

fn read_cases(
    tree: &Tree,
    own: Map<String, Value>,
    known: &Known,
) -> Result<Vec<Case>, Vec<Problem>> {
    let own = Value::Object(own);
    let checked = check::<RawCaseFile>(tree, own, known, UnknownKeys::Refused);
    if !checked.problems.is_empty() {
        return Err(checked.problems);
    }
    let raw: RawCaseFile = serde_json::from_value(checked.value)
        .map_err(|error| vec![Problem::at(&tree.place(""), error.to_string())])?;
    let mut problems = Vec::new();
    let mut cases = Vec::new();
    for (index, case) in raw.cases.into_iter().enumerate() {
        let pointer = format!("/cases/{index}");
        match case.read(tree, &pointer) {
            Ok(case) => cases.push(case),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(cases)
    } else {
        Err(problems)
    }
}

impl RawCase {
    fn read(self, tree: &Tree, pointer: &str) -> Result<Case, Problem> {
        self.check(tree, pointer)?;
        let headers = parse_headers(&self.headers).map_err(|name| {
            let place = tree.key_place(&format!("{pointer}/headers/{}", escape(name)));
            Problem::at(&place, format!("`{name}` cannot be sent as a header"))
        })?;
        let act = match (self.event, self.request) {
            (Some(event), _) => Act::Report(event),
            (None, request) => Act::Call(Box::new(RehearsedCall {
                path: self.path.unwrap_or_else(|| model_path(DEFAULT_MODEL)),
                headers,
                body: request.unwrap_or_default(),
                answer: self.answer,
                then: self.then,
            })),
        };
        Ok(Case {
            name: self.name,
            place: tree.place(pointer),
            act,
            expected: self.expect,
        })
    }

    /// What a schema cannot say.
    fn check(&self, tree: &Tree, pointer: &str) -> Result<(), Problem> {
        let problem = |place: &str, message: &str| {
            let place = tree.key_place(&format!("{pointer}{place}"));
            Err(Problem::at(&place, message))
        };
        let expect = &self.expect;
        let for_calls = [
            ("/path", self.path.is_some()),
            ("/headers", !self.headers.is_empty()),
            ("/answer", self.answer.is_some()),
            ("/then", self.then.is_some()),
            ("/expect/upstream", expect.upstream.is_some()),
            ("/expect/model", expect.model.is_some()),
            ("/expect/answer", expect.answer.is_some()),
            ("/expect/text", expect.text.is_some()),
        ];
        match (&self.event, &self.request) {
            (Some(_), Some(_)) => return problem("/request", "a case has an event or a request"),
            (None, None) => return problem("", "a case needs an `event` or a `request`"),
            (Some(_), None) => {
                if let Some((place, _)) = for_calls.iter().find(|it| it.1) {
                    return problem(place, "this is for model calls, and the case has an event");
                }
            }
            (None, Some(_)) if expect.output.is_some() => {
                let message = "this is for events, and the case has a model call";
                return problem("/expect/output", message);
            }
            (None, Some(_)) => (),
        }
        if *expect == Expected::default() {
            return problem("/expect", "a case expects something, such as a `verdict`");
        }
        let is_answer = |it: &Value| it.is_object() || it.is_array();
        let streams = self.path.iter().any(|it| it.contains(":stream"));
        for (place, answer) in [("/answer", &self.answer), ("/then", &self.then)] {
            if !answer.iter().all(is_answer) {
                return problem(place, "an answer is a mapping, or a list of chunks");
            }
            if answer.iter().any(Value::is_array) && !streams {
                let message = "a list of chunks is for a `path` of `:streamGenerateContent`";
                return problem(place, message);
            }
        }
        if self.then.is_some() && self.answer.is_none() {
            return problem("/then", "this follows an `answer`");
        }
        if !expect.answer.iter().all(is_answer) {
            return problem(
                "/expect/answer",
                "an answer is a mapping, or a list of chunks",
            );
        }
        if !expect
            .upstream
            .iter()
            .all(|it| it.is_object() || it.is_null())
        {
            return problem("/expect/upstream", "this is a mapping, or null");
        }
        Ok(())
    }
}

/// Where a model is asked for one answer.
pub fn model_path(model: &str) -> String {
    format!("/v1beta/models/{model}:generateContent")
}

/// Headers by their names; the error is the name of one that cannot be sent.
pub fn parse_headers(headers: &BTreeMap<String, String>) -> Result<HeaderMap, &str> {
    let header = |(name, value): (_, &String)| {
        let name: &String = name;
        let parsed = name.parse::<HeaderName>().ok();
        let parsed = parsed.zip(value.parse::<HeaderValue>().ok());
        parsed.ok_or(name.as_str())
    };
    headers.iter().map(header).collect()
}

/// A value that is there, though it may be null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
