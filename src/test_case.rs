//! Files of test cases: a config, what agents do, and what is expected.

mod action;
mod case_api;
mod expected_verdict;
mod model_answer;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

pub use self::{
    action::{AgentAction, SimulatedCall, SimulatedReport},
    case_api::{DEFAULT_MODEL, model_path, request_line},
    expected_verdict::ExpectedVerdict,
    model_answer::{ModelAnswer, UnreadableAnswer, answering_dialect, read_answer},
};
use self::{
    action::{INVALID_PATH, is_request_path, parse_headers},
    case_api::CaseApi,
};
use crate::{
    config::{
        Config, ConfigError, FilePathSchema, Overrides, Problem, Registry, SourceSpan, SpannedYaml,
        UnknownKeys, escape_key, validate,
    },
    regular_file::{self, MAX_FILE_BYTES, PIPE_TIMEOUT},
};

/// A config and its test cases.
#[derive(Debug)]
pub struct CaseFile {
    /// The config that the file names, or the rest of the file.
    pub config: Config,
    /// All cases, in the order of the file.
    pub cases: Vec<TestCase>,
}

/// One test case of a file.
#[derive(Debug)]
pub struct TestCase {
    /// The behaviour that the case tests.
    pub name: String,
    /// Position of the case in its file.
    pub span: SourceSpan,
    /// Action of the agent: a report of an event, or a model call.
    pub action: AgentAction,
    /// Expected outcome of the action.
    pub expected: Expected,
}

/// The expected outcome of a case. Absent fields are not compared.
#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Expected {
    /// The combined verdict of all hooks.
    pub verdict: Option<ExpectedVerdict>,
    /// A part of the reason, or a regular expression that matches a part.
    pub reason: Option<String>,
    /// The names of all hooks that ran, in order, each once.
    pub hooks: Option<Vec<String>>,
    /// The HTTP status of the response.
    #[schemars(
        range(min = 100, max = 599),
        extend("errorMessage" = "must be an HTTP status, from 100 to 599")
    )]
    pub status: Option<u16>,
    /// For events: part of the output.
    pub output: Option<Map<String, Value>>,
    /// For model calls: part of the request to the model API; `null` if it must not be
    /// called.
    #[serde(deserialize_with = "present")]
    #[schemars(extend("errorMessage" = "must be a mapping or null"))]
    pub upstream: Option<Value>,
    /// For model calls: the model that the model API was called for.
    pub model: Option<String>,
    /// For model calls: part of the agent's response; of a stream, parts of its chunks.
    #[serde(deserialize_with = "present")]
    #[schemars(extend("errorMessage" = "must be a mapping, or a list of chunks"))]
    pub answer: Option<Value>,
    /// For model calls: all text of the agent's response.
    pub text: Option<String>,
}

/// The keys of a file that do not belong to a config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CaseFileKeys {
    /// The path of the config under test.
    #[schemars(with = "Option<FilePathSchema>")]
    #[expect(dead_code, reason = "read before the validation")]
    config: Option<PathBuf>,
    /// Test cases of the file.
    #[schemars(extend("minItems" = 1, "errorMessage" = "must be a list of at least one case"))]
    cases: Vec<CaseEntry>,
}

/// A case as written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CaseEntry {
    /// The behaviour that the case tests.
    name: String,
    /// The event that an agent reports: the input of a hook.
    event: Option<Map<String, Value>>,
    /// The request of a model call.
    request: Option<Map<String, Value>>,
    /// The API of a model call without a `path`. Default: `gemini`.
    api: Option<CaseApi>,
    /// Path and query of the model call.
    #[schemars(extend("pattern" = "^/", "errorMessage" = "must be a path that begins with `/`"))]
    path: Option<String>,
    /// Headers of the event or model call.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The response of the model API: an object, or a list of chunks.
    answer: Option<Value>,
    /// Its response to a second request within the call, after tool calls or a
    /// response were denied.
    then: Option<Value>,
    /// Expected outcome of the case.
    expect: Expected,
}

impl CaseFile {
    /// Reads a file of cases and the config that it names. Its upstreams are optional,
    /// since no model API is called.
    ///
    /// # Errors
    ///
    /// Returns every problem of the cases and of the config.
    pub fn load(
        path: &Path,
        overrides: &Overrides,
        registry: &Registry,
    ) -> Result<Self, ConfigError> {
        let text = regular_file::read_text_or_pipe(path, MAX_FILE_BYTES, PIPE_TIMEOUT);
        let document = parse_text(path, text)?;
        let mut rest = document.value();
        let mut own = Map::new();
        for key in ["config", "cases"] {
            let value = rest
                .as_object_mut()
                .and_then(|fields| fields.shift_remove(key));
            own.extend(value.map(|value| (key.to_owned(), value)));
        }
        let config = own.get("config").and_then(Value::as_str).map(PathBuf::from);
        let cases = read_cases(&document, own, registry);
        let config = match config {
            Some(config) => refuse_config_keys(&document, &rest).and_then(|()| {
                let directory = path.parent().unwrap_or(Path::new(""));
                Config::load(&directory.join(config), overrides, registry)
                    .map_err(|error| error.located_at(&document.span("/config")))
            }),
            None => Config::from_document(&document, rest, overrides, registry),
        };
        match (cases, config) {
            (Ok(cases), Ok(config)) => Ok(Self { config, cases }),
            (Err(problems), Ok(_)) => Err(ConfigError::from(problems)),
            (Ok(_), Err(error)) => Err(error),
            (Err(mut problems), Err(error)) => {
                problems.extend(error.problems);
                problems.sort_by_key(|problem| problem.span.clone());
                problems.dedup();
                Err(ConfigError::from(problems))
            }
        }
    }
}

/// Reads the cases of a file, whose text may be known, without its config.
///
/// # Errors
///
/// All problems of the cases.
pub fn read_file(
    path: &Path,
    text: Option<&str>,
    registry: &Registry,
) -> Result<Vec<TestCase>, ConfigError> {
    let document = match text {
        Some(text) => SpannedYaml::parse(text, path)?,
        None => parse_text(path, regular_file::read_text(path, MAX_FILE_BYTES))?,
    };
    let mut own: Map<_, _> = serde_json::from_value(document.value()).unwrap_or_default();
    own.retain(|key, _| key == "cases");
    read_cases(&document, own, registry).map_err(ConfigError::from)
}

fn parse_text(path: &Path, text: io::Result<String>) -> Result<SpannedYaml, Problem> {
    let text = text.map_err(|error| {
        Problem::without_span(format!("`{}` cannot be read: {error}", path.display()))
    })?;
    SpannedYaml::parse(&text, path)
}

/// Refuses settings beside `config`.
fn refuse_config_keys(document: &SpannedYaml, rest: &Value) -> Result<(), ConfigError> {
    let keys = rest.as_object().into_iter().flat_map(Map::keys);
    let problems = keys.map(|key| {
        let message = format!("`{key}` must be in the config that `config` names");
        Problem::at(&document.key_span(&format!("/{key}")), message)
    });
    ConfigError::check(problems.collect())
}

fn read_cases(
    document: &SpannedYaml,
    own: Map<String, Value>,
    registry: &Registry,
) -> Result<Vec<TestCase>, Vec<Problem>> {
    let own = Value::Object(own);
    let validated = validate::<CaseFileKeys>(document, own, registry, UnknownKeys::Refused);
    if !validated.problems.is_empty() {
        return Err(validated.problems);
    }
    let keys: CaseFileKeys = serde_json::from_value(validated.value)
        .map_err(|error| vec![Problem::at(&document.span(""), error.to_string())])?;
    let mut problems = Vec::new();
    let mut cases = Vec::new();
    for (index, entry) in keys.cases.into_iter().enumerate() {
        match entry.into_case(document, &format!("/cases/{index}")) {
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

impl CaseEntry {
    fn into_case(self, document: &SpannedYaml, pointer: &str) -> Result<TestCase, Problem> {
        self.check().map_err(|(field, message)| {
            Problem::at(&document.key_span(&format!("{pointer}{field}")), message)
        })?;
        let headers = parse_headers(&self.headers).map_err(|name| {
            let span = document.key_span(&format!("{pointer}/headers/{}", escape_key(name)));
            Problem::at(&span, format!("`{name}` is not a valid header"))
        })?;
        let action = match self.event {
            Some(event) => AgentAction::Report(SimulatedReport { event, headers }),
            None => AgentAction::Call(Box::new(SimulatedCall {
                path: self
                    .path
                    .unwrap_or_else(|| self.api.unwrap_or_default().path()),
                headers,
                body: self.request.unwrap_or_default(),
                answer: self.answer,
                then: self.then,
            })),
        };
        if let AgentAction::Call(call) = &action
            && let Err(error) = call.answers()
        {
            let span = document.key_span(&format!("{pointer}/{}", error.field));
            return Err(Problem::at(&span, error.to_string()));
        }
        Ok(TestCase {
            name: self.name,
            span: document.span(pointer),
            action,
            expected: self.expect,
        })
    }

    /// Checks what the schema cannot express. The error has the pointer of a field,
    /// relative to the case.
    fn check(&self) -> Result<(), (&'static str, &'static str)> {
        self.check_kind()?;
        let expect = &self.expect;
        if *expect == Expected::default() {
            return Err((
                "/expect",
                "a case must expect something, such as a `verdict`",
            ));
        }
        let is_response = |value: &Value| value.is_object() || value.is_array();
        let responses = [
            ("/answer", &self.answer),
            ("/then", &self.then),
            ("/expect/answer", &expect.answer),
        ];
        for (field, response) in responses {
            if !response.iter().all(is_response) {
                return Err((field, "a response is a mapping, or a list of chunks"));
            }
        }
        let streams =
            self.path.iter().any(|path| path.contains(":stream")) || self.asks_for_stream();
        for (field, response) in [("/answer", &self.answer), ("/then", &self.then)] {
            if response.iter().any(Value::is_array) && !streams {
                let message = "a list of chunks needs a `path` of `:streamGenerateContent`, or `stream: true` in the request of another API";
                return Err((field, message));
            }
        }
        if self.api.is_some() && self.path.is_some() {
            return Err(("/api", "a case has an `api` or a `path`, not both"));
        }
        if !self.path.as_deref().is_none_or(is_request_path) {
            return Err(("/path", INVALID_PATH));
        }
        if self.then.is_some() && self.answer.is_none() {
            return Err(("/then", "`then` needs an `answer`"));
        }
        let mut upstream = expect.upstream.iter();
        if !upstream.all(|value| value.is_object() || value.is_null()) {
            return Err(("/expect/upstream", "must be a mapping, or null"));
        }
        Ok(())
    }

    /// Returns whether the body of the request asks for a stream.
    fn asks_for_stream(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| request.get("stream") == Some(&Value::Bool(true)))
    }

    /// Checks that the case is an event or a model call, with fields for that.
    fn check_kind(&self) -> Result<(), (&'static str, &'static str)> {
        let expect = &self.expect;
        let call_fields = [
            ("/api", self.api.is_some()),
            ("/path", self.path.is_some()),
            ("/answer", self.answer.is_some()),
            ("/then", self.then.is_some()),
            ("/expect/upstream", expect.upstream.is_some()),
            ("/expect/model", expect.model.is_some()),
            ("/expect/answer", expect.answer.is_some()),
            ("/expect/text", expect.text.is_some()),
        ];
        match (&self.event, &self.request) {
            (Some(_), Some(_)) => Err(("/request", "a case has an event or a request, not both")),
            (None, None) => Err(("", "a case needs an `event` or a `request`")),
            (Some(_), None) => match call_fields.iter().find(|(_, is_present)| *is_present) {
                Some((field, _)) => Err((field, "only for model calls; this case has an event")),
                None => Ok(()),
            },
            (None, Some(_)) if expect.output.is_some() => Err((
                "/expect/output",
                "only for events; this case has a model call",
            )),
            (None, Some(_)) => Ok(()),
        }
    }
}

/// Deserializes a value that is present, though it may be null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
