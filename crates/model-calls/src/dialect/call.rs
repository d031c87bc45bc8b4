//! A recognized call and its path upstream.

use serde_json::Value;

use crate::{
    dialect::{
        document::Document,
        error::{RequestLineError, Result, field_error},
        method::{Access, Api, Framing, MethodSpec, Operation},
        query::{self, Query},
        request_field::AllowedFields,
    },
    model::ModelName,
};

/// Name and value of a path parameter.
pub type PathParameter<'a> = (&'static str, &'a str);

/// A call whose path is in the method table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Row of the method table.
    pub method: &'static MethodSpec,
    /// Path parameters, in order.
    parameters: Vec<(&'static str, String)>,
    /// Requested model. Some calls name it in their body only.
    pub model: Option<ModelName>,
    /// Kind of call, with the framing that the query asks for.
    pub operation: Operation,
    /// Query parameters to forward, as sent. Holds no credential.
    pub query: Vec<String>,
    /// Fields that the request may have although hooks do not see what they refer to.
    pub allowed_fields: AllowedFields,
    /// Permission for the model API to store the response.
    pub storage: ResponseStorage,
    /// True if the agent expects no token counts in the response.
    pub omits_usage: bool,
    /// Length of the body that was read less that of its content form, in bytes.
    pub(crate) excess_bytes: isize,
}

/// Permission for the model API to store the response to a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResponseStorage {
    /// As the request asks.
    #[default]
    AsSent,
    /// Never, whatever the request asks.
    Never,
}

/// Row of a call that an agent only reports.
const REPORTED: MethodSpec = MethodSpec {
    api: Api::Gemini,
    method: "POST",
    path: "/{version}/models/{model}:generateContent",
    name: "models.generateContent",
    operation: Operation::Generate,
    access: Access::Open,
};

impl Call {
    /// Creates the call of a matched row.
    ///
    /// # Errors
    ///
    /// Fails if the query holds an unsupported parameter, or one twice.
    pub(crate) fn new(
        method: &'static MethodSpec,
        parameters: &[PathParameter<'_>],
        query: &str,
    ) -> Result<Self, RequestLineError> {
        let is_stored = method.names_response();
        // Nothing asks a model for a stored response, so that parameters change no prompt.
        let kind = if is_stored {
            Operation::Other
        } else {
            method.operation
        };
        let Query { framing, forwarded } = query::parse(query, method.api, kind)?;
        let model = parameters.iter().find(|(name, _)| *name == "model");
        let owned = parameters.iter();
        let owned = owned.map(|(name, value)| (*name, (*value).to_owned()));
        Ok(Self {
            method,
            model: model.and_then(|(_, value)| ModelName::parse(value)),
            parameters: owned.collect(),
            operation: match method.operation {
                Operation::Stream(_) => Operation::Stream(framing),
                Operation::Generate if is_stored && query::asks_for_stream(&forwarded)? => {
                    Operation::Stream(Framing::Sse)
                }
                operation => operation,
            },
            query: forwarded,
            allowed_fields: AllowedFields::default(),
            storage: ResponseStorage::AsSent,
            omits_usage: false,
            excess_bytes: 0,
        })
    }

    /// Creates the call that represents a reported one.
    pub(crate) fn reported(model: Option<ModelName>) -> Self {
        Self {
            method: &REPORTED,
            parameters: vec![("version", "v1beta".to_owned())],
            model,
            operation: Operation::Generate,
            query: Vec::new(),
            allowed_fields: AllowedFields::default(),
            storage: ResponseStorage::AsSent,
            omits_usage: false,
            excess_bytes: 0,
        }
    }

    /// Returns the length of the request's body by its content form, in bytes. Of an edited form it
    /// is an estimate.
    pub fn body_bytes(&self, form: &Document) -> usize {
        let form_bytes = form.to_bytes().len();
        form_bytes.saturating_add_signed(self.excess_bytes)
    }

    /// Returns the model's name; empty if the call has none.
    pub fn model_name(&self) -> &str {
        self.model.as_ref().map_or("", ModelName::as_str)
    }

    /// Returns the name used in logs and metrics.
    pub fn label(&self) -> &'static str {
        self.method.label()
    }

    /// Returns path and query for upstream, built from parsed values only.
    pub fn target(&self) -> String {
        let mut target = self.path();
        let framing = match self.operation {
            // Other APIs name the framing in the body.
            Operation::Stream(Framing::Sse) if self.method.api.is_google() => Some("alt=sse"),
            _ => None,
        };
        let query = self.query.iter().map(String::as_str);
        for (position, parameter) in framing.into_iter().chain(query).enumerate() {
            target.push(if position == 0 { '?' } else { '&' });
            target.push_str(parameter);
        }
        target
    }

    /// Returns the id of the stored response that the path names.
    pub fn stored_response(&self) -> Option<&str> {
        self.parameter("response")
    }

    /// Returns whether the answer is a stored response, for which no model is asked.
    pub fn retrieves(&self) -> bool {
        self.operation.generates() && self.stored_response().is_some()
    }

    /// Returns the resource that the path names, such as `cachedContents/abc`: the
    /// path after the version.
    pub fn resource(&self) -> String {
        let path = self.path();
        let path = path.strip_prefix('/').unwrap_or(&path);
        path.split_once('/').map_or("", |(_, rest)| rest).to_owned()
    }

    fn path(&self) -> String {
        let mut path = String::with_capacity(128);
        let mut rest = self.method.path;
        while let Some((before, (name, after))) = rest
            .split_once('{')
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            path.push_str(before);
            // Hooks may have changed the model.
            path.push_str(match name {
                "model" => self.model_name(),
                name => self.parameter(name).unwrap_or_default(),
            });
            rest = after;
        }
        path.push_str(rest);
        path
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Resolves a model name in a body. Returns `None` if it is malformed, or belongs to
    /// another project, location or publisher.
    pub(crate) fn resolve_model(&self, name: &str) -> Option<ModelName> {
        let start = name.rfind('/').map_or(0, |slash| slash + 1);
        let (prefix, model) = name.split_at_checked(start)?;
        let full_prefix = self.model_prefix();
        let express_prefix = "publishers/google/models/";
        let is_known = prefix.is_empty()
            || prefix == "models/"
            || prefix == full_prefix
            || (prefix == express_prefix && full_prefix.ends_with(express_prefix));
        let is_valid = is_known && ModelName::is_path_segment(model);
        is_valid.then(|| ModelName::parse(model))?
    }

    /// Returns whether the call may ask for a model of this name. Google's APIs have it in the
    /// path.
    pub(crate) fn accepts_model(&self, model: &ModelName) -> bool {
        !self.method.api.is_google() || ModelName::is_path_segment(model.as_str())
    }

    /// Makes a call that generates one with a stream, if the body wants that.
    ///
    /// # Errors
    ///
    /// Fails for anything but true and false: some servers take `1` and `"true"` for true, others
    /// do not.
    pub(crate) fn read_stream(&mut self, body: &Document) -> Result<()> {
        match body.get(&["stream"])? {
            None | Some(Value::Null | Value::Bool(false)) => Ok(()),
            Some(Value::Bool(true)) => {
                if self.operation == Operation::Generate {
                    self.operation = Operation::Stream(Framing::Sse);
                }
                Ok(())
            }
            Some(_) => Err(field_error("stream", "true or false")),
        }
    }

    /// Writes the model, which hooks may have changed, into a body that names another one.
    pub(crate) fn write_model(&self, body: &mut Document) -> Result<()> {
        let named = body.string(&["model"])?;
        let named = named.as_deref().and_then(ModelName::parse);
        match &self.model {
            Some(model) if named.as_ref() != Some(model) => {
                body.set(&["model"], &model.as_str().into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the prefix of a fully qualified model name.
    fn model_prefix(&self) -> String {
        let models = match self.method.api {
            Api::Vertex => "publishers/google/models/",
            Api::Gemini
            | Api::CodeAssist
            | Api::Anthropic
            | Api::OpenAiResponses
            | Api::OpenAiChat => return "models/".to_owned(),
        };
        match (self.parameter("project"), self.parameter("location")) {
            (Some(project), Some(location)) => {
                format!("projects/{project}/locations/{location}/{models}")
            }
            _ => models.to_owned(),
        }
    }
}
