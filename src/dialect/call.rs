//! A recognised call, and the path that it has upstream. Pure.

use http::Method;

use super::{DialectError, Row, method_table::PathPart, query};
use crate::model::ModelName;

/// A model API: whose paths and credentials they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Api {
    /// The Gemini API.
    Gemini,
    /// Vertex AI.
    Vertex,
    /// Code Assist: gemini-cli, logged in with Google.
    CodeAssist,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 3] = [Self::Gemini, Self::Vertex, Self::CodeAssist];

    /// Its name, as in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Vertex => "vertex",
            Self::CodeAssist => "code_assist",
        }
    }
}

/// The first line of a request: what calls are recognised by.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// The path as sent, without a session prefix.
    pub path: &'a str,
    /// The query as sent, without `?`; empty if there is none.
    pub query: &'a str,
}

/// A recognised call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its line of the coverage table.
    pub row: &'static Row,
    /// What stands in the places of its path, in order.
    pub(super) parts: Vec<(&'static str, String)>,
    /// The model asked for, if one is. Some calls name it in their bodies only.
    pub model: Option<ModelName>,
    /// What is asked of it.
    pub operation: Operation,
    /// Query parameters for upstream, as sent: no credential among them.
    pub query: Vec<String>,
}

/// The call that stands for one that an agent only reports.
const MADE: Row = Row {
    api: Api::Gemini,
    method: "POST",
    path: "/{version}/models/{model}:generateContent",
    name: "models.generateContent",
    operation: Operation::Generate,
    access: super::method_table::Access::Open,
};

impl Call {
    /// A call of this model, as a reported one is taken for.
    pub(super) fn made(model: Option<ModelName>) -> Self {
        Self {
            row: &MADE,
            parts: vec![("version", "v1beta".to_owned())],
            model,
            operation: Operation::Generate,
            query: Vec::new(),
        }
    }

    /// A call by its row, and what stands in the places of the path.
    pub(super) fn read(
        row: &'static Row,
        parts: &[PathPart<'_>],
        query: &str,
    ) -> Result<Self, DialectError> {
        let model = parts.iter().find(|it| it.0 == "model");
        let owned = |(name, text): &PathPart<'_>| (*name, (*text).to_owned());
        let query = query::read(query, row.operation)?;
        Ok(Self {
            row,
            model: model.and_then(|it| ModelName::parse(it.1)),
            parts: parts.iter().map(owned).collect(),
            operation: match row.operation {
                Operation::Stream(_) => Operation::Stream(query.framing),
                operation => operation,
            },
            query: query.passed,
        })
    }

    /// The model's name; empty if the call has none.
    pub fn model_name(&self) -> &str {
        self.model.as_ref().map_or("", ModelName::as_str)
    }

    /// What it is called in logs and metrics.
    pub fn label(&self) -> &'static str {
        self.row.label()
    }

    /// Path and query under which upstream takes it, made of nothing but what was
    /// understood of the path.
    pub fn target(&self) -> String {
        let mut target = self.path();
        let framing = match self.operation {
            Operation::Stream(Framing::Sse) => Some("alt=sse"),
            _ => None,
        };
        let query = self.query.iter().map(String::as_str);
        for (position, word) in framing.into_iter().chain(query).enumerate() {
            target.push(if position == 0 { '?' } else { '&' });
            target.push_str(word);
        }
        target
    }

    /// What the path names, such as `cachedContents/abc`: all of it behind the
    /// version.
    pub fn resource(&self) -> String {
        let path = self.path();
        let path = path.strip_prefix('/').unwrap_or(&path);
        path.split_once('/').map_or("", |it| it.1).to_owned()
    }

    fn path(&self) -> String {
        let mut path = String::with_capacity(128);
        let mut rest = self.row.path;
        while let Some((before, (name, after))) = rest
            .split_once('{')
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            path.push_str(before);
            path.push_str(self.part(name));
            rest = after;
        }
        path.push_str(rest);
        path
    }

    /// What stands in a place of the path.
    fn part(&self, name: &str) -> &str {
        if name == "model" {
            // Hooks may have chosen another one.
            return self.model_name();
        }
        let part = self.parts.iter().find(|it| it.0 == name);
        part.map_or("", |it| &it.1)
    }

    /// Which model `name`, said in a body, means in this call; none if it is no
    /// model, or one of somewhere else.
    pub(super) fn named(&self, name: &str) -> Option<ModelName> {
        let at = name.rfind('/').map_or(0, |it| it + 1);
        let (place, model) = name.split_at_checked(at)?;
        let full = self.place();
        let express = "publishers/google/models/";
        let known = place.is_empty()
            || place == "models/"
            || place == full
            || (place == express && full.ends_with(express));
        ModelName::parse(model).filter(|_| known)
    }

    /// Where its models are: what stands before a model's name in a full one.
    fn place(&self) -> String {
        let part = |name| self.parts.iter().find(|it| it.0 == name);
        let models = match self.row.api {
            Api::Gemini | Api::CodeAssist => return "models/".to_owned(),
            Api::Vertex => "publishers/google/models/",
        };
        match (part("project"), part("location")) {
            (Some((_, project)), Some((_, location))) => {
                format!("projects/{project}/locations/{location}/{models}")
            }
            _ => models.to_owned(),
        }
    }
}

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `generateContent`: one answer.
    Generate,
    /// `streamGenerateContent`: an answer in chunks.
    Stream(Framing),
    /// `countTokens`.
    CountTokens,
    /// `embedContent`.
    Embed,
    /// `batchEmbedContents`.
    BatchEmbed,
    /// `cachedContents.create`: content that is kept for later calls.
    CreateCache,
    /// One that was kept is shown, changed or deleted.
    UseCache,
    /// Something that hooks have no part in.
    Other,
}

impl Operation {
    /// Its name on the wire, for conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generate => "generateContent",
            Self::Stream(_) => "streamGenerateContent",
            Self::CountTokens => "countTokens",
            Self::Embed => "embedContent",
            Self::BatchEmbed => "batchEmbedContents",
            Self::CreateCache => "createCachedContent",
            Self::UseCache => "useCachedContent",
            Self::Other => "other",
        }
    }

    /// Whether it answers with text of a model.
    pub const fn generates(self) -> bool {
        matches!(self, Self::Generate | Self::Stream(_))
    }

    /// Whether it sends a conversation or a text to upstream.
    pub const fn sends_content(self) -> bool {
        !matches!(self, Self::UseCache | Self::Other)
    }
}

/// How chunks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events, `alt=sse`.
    Sse,
    /// Elements of one JSON array.
    Array,
}
