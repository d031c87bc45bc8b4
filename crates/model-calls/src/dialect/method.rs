//! Rows of the method table: the methods of a model API and whether agents may call
//! them.

use serde::Serialize;

/// The vendor of an API, whose headers and credentials it has. Servers that are compatible
/// with an API have those of its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// Vendor of the Gemini API, Vertex AI and Code Assist.
    Google,
    /// Vendor of the Messages API.
    Anthropic,
    /// Vendor of the Responses and Chat Completions APIs.
    OpenAi,
}

/// A model API with paths and credentials of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Api {
    /// The Gemini API (`generativelanguage.googleapis.com`).
    Gemini,
    /// Vertex AI on Google Cloud.
    Vertex,
    /// Code Assist, which gemini-cli uses after a login with Google.
    CodeAssist,
    /// The Messages API of Anthropic.
    Anthropic,
    /// The Responses API of OpenAI, and its methods without a conversation.
    OpenAiResponses,
    /// The Chat Completions API of OpenAI.
    OpenAiChat,
}

impl Api {
    /// Every API, in the order of the config.
    pub const ALL: [Self; 6] = [
        Self::Gemini,
        Self::Vertex,
        Self::CodeAssist,
        Self::Anthropic,
        Self::OpenAiResponses,
        Self::OpenAiChat,
    ];

    /// Returns the name that conditions and logs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Vertex => "vertex",
            Self::CodeAssist => "code_assist",
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai_responses",
            Self::OpenAiChat => "openai_chat",
        }
    }

    /// Returns the API with a name as returned by [`Api::as_str`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.as_str() == name)
    }

    /// Returns the name of its upstream in the config. The two APIs of OpenAI share one.
    pub const fn upstream(self) -> &'static str {
        match self {
            Self::OpenAiResponses | Self::OpenAiChat => "openai",
            api => api.as_str(),
        }
    }

    /// Returns the vendor of the API.
    pub const fn vendor(self) -> Vendor {
        match self {
            Self::Gemini | Self::Vertex | Self::CodeAssist => Vendor::Google,
            Self::Anthropic => Vendor::Anthropic,
            Self::OpenAiResponses | Self::OpenAiChat => Vendor::OpenAi,
        }
    }

    /// Returns whether it is one of Google's APIs, whose calls are named by their paths.
    pub const fn is_google(self) -> bool {
        matches!(self.vendor(), Vendor::Google)
    }
}

/// The kind of call that a method makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `generateContent`: one complete response.
    Generate,
    /// `streamGenerateContent`: a response in chunks.
    Stream(Framing),
    /// `countTokens`: the size of a request.
    CountTokens,
    /// `embedContent`: the embedding of one text.
    Embed,
    /// `batchEmbedContents`: the embeddings of several texts.
    BatchEmbed,
    /// `cachedContents.create`: content stored for later calls.
    CreateCache,
    /// Reads, changes or deletes cached content.
    UseCache,
    /// A call without hooks.
    Other,
}

impl Operation {
    /// Returns the name that conditions compare with.
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

    /// Returns whether the response holds text of a model.
    pub const fn generates(self) -> bool {
        matches!(self, Self::Generate | Self::Stream(_))
    }

    /// Returns whether the request carries contents to embed.
    pub const fn embeds(self) -> bool {
        matches!(self, Self::Embed | Self::BatchEmbed)
    }

    /// Returns whether the request carries a conversation or a text.
    pub const fn sends_content(self) -> bool {
        !matches!(self, Self::UseCache | Self::Other)
    }
}

/// The wire format of a stream of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events, requested by `alt=sse`.
    Sse,
    /// Elements of one JSON array.
    Array,
}

/// One method of a model API.
#[derive(Debug, PartialEq, Eq)]
pub struct MethodSpec {
    /// API that has the method.
    pub api: Api,
    /// HTTP method in upper case; `ANY` for a family of paths that are refused as a whole.
    pub method: &'static str,
    /// Path template; `{…}` matches one segment, or the part of a segment before `:`. A
    /// `{path*}` at the end matches one or more segments.
    pub path: &'static str,
    /// Name in the API's documentation. Two paths may share one.
    pub name: &'static str,
    /// Kind of call. The query decides on the framing of a stream.
    pub operation: Operation,
    /// Permission for agents to call it.
    pub access: Access,
}

/// Permission for agents to call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Allowed without further configuration.
    Open,
    /// Allowed if the config names it: the method carries content that hooks do not
    /// see.
    ByName,
    /// Refused. Holds the reason: the rest of a sentence that begins with the
    /// method's name.
    Never(&'static str),
    /// Refused with status 426: a session over a websocket. Agents fall back to HTTP at once
    /// for this status only.
    Socket,
}

impl Access {
    /// Returns the reason of a refusal that no config lifts.
    pub const fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Open | Self::ByName => None,
            Self::Never(reason) => Some(reason),
            Self::Socket => Some("is a session over a websocket, which hookgate does not carry"),
        }
    }
}

/// Parts of a call that hooks and policies run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookCoverage {
    /// Request and response are inspected.
    Hooked,
    /// The request. Only the response to [`MethodSpec::answers_with_uninspected_text`] holds
    /// text of a model.
    RequestOnly,
    /// None: request and response are forwarded unparsed.
    Passed,
    /// None: the call is refused.
    Refused,
}

impl HookCoverage {
    /// Returns the name shown to people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hooked => "hooked",
            Self::RequestOnly => "request only",
            Self::Passed => "passed",
            Self::Refused => "refused",
        }
    }
}

/// Ends of the paths of methods that count the tokens of a request and call no model.
const COUNT_PATHS: [&str; 3] = [
    ":countTokens",
    "/messages/count_tokens",
    "/responses/input_tokens",
];

/// Returns whether a path, or the path of a [`MethodSpec`], is that of a method that only counts
/// the tokens of a request.
pub fn counts_tokens(path: &str) -> bool {
    COUNT_PATHS.iter().any(|end| path.ends_with(end))
}

impl MethodSpec {
    /// Returns the coverage under a config that allows the method by name, or not.
    pub const fn coverage(&self, allowed: bool) -> HookCoverage {
        match (self.access, self.operation) {
            (Access::Never(_) | Access::Socket, _) => HookCoverage::Refused,
            (Access::ByName, _) if !allowed => HookCoverage::Refused,
            (_, Operation::Generate | Operation::Stream(_)) => HookCoverage::Hooked,
            (_, Operation::UseCache | Operation::Other) => HookCoverage::Passed,
            (
                _,
                Operation::CountTokens
                | Operation::Embed
                | Operation::BatchEmbed
                | Operation::CreateCache,
            ) => HookCoverage::RequestOnly,
        }
    }

    /// Returns whether the method carries content that hooks never see, even if it is
    /// allowed.
    pub const fn is_uninspected(&self) -> bool {
        matches!(
            (self.access, self.operation),
            (Access::ByName, Operation::Other)
        )
    }

    /// Returns whether its answers hold text of a model that hooks never see, although its
    /// requests are inspected.
    pub fn answers_with_uninspected_text(&self) -> bool {
        self.name == "completions.create"
    }

    /// Returns whether its path names a stored response.
    pub fn names_response(&self) -> bool {
        self.path.contains("{response}")
    }

    /// Returns whether its response is a file, which may be of any type.
    pub fn downloads_file(&self) -> bool {
        let name = self.name.rsplit('.').next();
        name.is_some_and(|name| ["content", "download", "download_content"].contains(&name))
    }

    /// Returns the name used in logs and metrics.
    pub const fn label(&self) -> &'static str {
        match self.operation {
            Operation::UseCache | Operation::CreateCache | Operation::Other => self.name,
            operation if self.api.is_google() => operation.as_str(),
            _ => self.name,
        }
    }
}

/// Declares the methods of one API as `METHODS`, one line for each.
macro_rules! method_table {
    ($api:ident: $($method:ident $path:literal $name:literal $operation:expr, $access:expr;)*) => {
        pub const METHODS: &[MethodSpec] = &[$(MethodSpec {
            api: Api::$api,
            method: stringify!($method),
            path: $path,
            name: $name,
            operation: $operation,
            access: $access,
        }),*];
    };
}
pub(crate) use method_table;
