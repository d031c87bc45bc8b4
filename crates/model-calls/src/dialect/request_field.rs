//! Fields of hooked requests that refer to what hooks cannot see, and whether a config may allow
//! them by name.

use crate::dialect::{
    error::{DialectError, Result},
    method::{
        Access::{self, ByName, Never, Open},
        Api, HookCoverage,
    },
};

/// A field of hooked requests that refers to what hooks cannot see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestField {
    /// A stored response, whose conversation the request continues.
    PreviousResponse,
    /// A conversation that is edited by calls of its own.
    Conversation,
    /// An item of a stored response.
    ItemReference,
    /// A response that is fetched later.
    Background,
    /// A prompt that is stored upstream.
    StoredPrompt,
    /// The id of a file that is stored upstream.
    StoredFile,
    /// A container with files and skills.
    Container,
    /// A thread that is stored upstream.
    Thread,
    /// A token with which the model continues an answer.
    Continuation,
    /// An MCP server that the model API calls.
    HostedServer,
    /// Other tools that the model API runs.
    HostedTool,
}

impl RequestField {
    /// Returns the reason to refuse it: completes the sentence "the field must be absent,
    /// because".
    const fn refusal(self) -> &'static str {
        match self {
            Self::PreviousResponse | Self::Conversation | Self::Thread => {
                "hooks cannot see the conversation that it continues"
            }
            Self::ItemReference => "hooks cannot see the item that it names",
            Self::Continuation => "hooks cannot see the answer that it continues",
            Self::Background => "hooks cannot see a response that is fetched later",
            Self::StoredPrompt => "hooks cannot see the stored prompt that it names",
            Self::StoredFile => "hooks do not see files that are stored upstream",
            Self::Container => "hooks do not see files and skills in a container",
            Self::HostedServer => {
                "hooks and policies do not see calls of MCP servers that run at the model API"
            }
            Self::HostedTool => {
                "hooks on BeforeTool and AfterTool do not see calls of tools that run at the model API"
            }
        }
    }

    /// Returns what it means for hooks: the rest of a sentence that begins with its name.
    const fn meaning(self) -> &'static str {
        match self {
            Self::PreviousResponse => "continues a conversation that the request does not contain",
            Self::Conversation | Self::Thread => "continues a conversation that is stored upstream",
            Self::ItemReference => "names an item that is stored upstream",
            Self::Continuation => "continues an answer that the request does not contain",
            Self::Background => {
                "makes a response that is fetched later, by `responses.retrieve`, where hooks and policies inspect it"
            }
            Self::StoredPrompt => "names a prompt, and maybe tools, that are stored upstream",
            Self::StoredFile => "is stored upstream, where hooks do not see it",
            Self::Container => "holds files and skills that hooks do not see",
            Self::HostedServer => {
                "runs at the model API, which calls it unseen; a `tool_guard` whose `allow` lists it allows it, too, unless enforcing hooks on BeforeTool or AfterTool run"
            }
            Self::HostedTool => {
                "run at the model API: hooks and policies inspect their texts in the response, but BeforeTool and AfterTool do not run; `tool_guard` withholds them"
            }
        }
    }
}

/// Fields with which servers compatible with an API add a stored prompt, and maybe models and
/// tools.
pub const STORED_PROMPTS: &[&str] = &["preset", "prompt_id"];

/// One field of an API's requests.
#[derive(Debug)]
pub struct FieldSpec {
    /// API that has the field.
    pub api: Api,
    /// Path of the method that has the field.
    pub path: &'static str,
    /// Name in the config.
    pub name: &'static str,
    /// The field as the API names it.
    pub field: &'static str,
    /// Meaning of the field.
    pub kind: RequestField,
    /// Permission for agents to use it.
    pub access: Access,
    /// Coverage of what it refers to, if it is allowed.
    pub if_allowed: HookCoverage,
}

/// Declares the fields of all APIs as `FIELDS`, one line for each.
macro_rules! field_table {
    ($($api:ident $path:literal:
        $($name:literal $field:literal $kind:ident $access:expr, $if_allowed:ident;)*)*) => {
        /// Every field that is not simply inspected.
        pub const FIELDS: &[FieldSpec] = &[$($(FieldSpec {
            api: Api::$api,
            path: $path,
            name: $name,
            field: $field,
            kind: RequestField::$kind,
            access: $access,
            if_allowed: HookCoverage::$if_allowed,
        }),*),*];
    };
}

const THREAD: Access =
    Never("continues a conversation that is stored upstream, whose ids are unknown to hookgate");
const CONVERSATION: Access =
    Never("continues a conversation into which other calls put items that hooks never see");
const ITEM_REFERENCE: Access =
    Never("replaces an item whose text hooks and policies must see in the request");

field_table! {
    Gemini "/{version}/models/{model}:generateContent":
        "models.mcp" "tools[].mcpServers" HostedServer ByName, Passed;
        "models.continuation" "continuationToken" Continuation ByName, Passed;
    Vertex "/{version}/publishers/google/models/{model}:generateContent":
        "publishers.models.mcp" "tools[].mcpServers" HostedServer ByName, Passed;
        "publishers.models.continuation" "continuationToken" Continuation ByName, Passed;
    CodeAssist "/v1internal:generateContent":
        "v1internal.mcp" "tools[].mcpServers" HostedServer ByName, Passed;
        "v1internal.continuation" "continuationToken" Continuation ByName, Passed;
    Anthropic "/{version}/messages":
        "messages.container" "container, container_upload" Container ByName, Passed;
        "messages.files" "file_id" StoredFile ByName, Passed;
        "messages.mcp" "mcp_servers, tools[].type: mcp" HostedServer ByName, Passed;
        "messages.prompt" "preset, prompt_id" StoredPrompt ByName, Passed;
        "messages.hosted_tools" "tools" HostedTool Open, Hooked;
        "messages.thread" "thread" Thread THREAD, Passed;
    OpenAiResponses "/{version}/responses":
        "responses.state" "previous_response_id" PreviousResponse ByName, Hooked;
        "responses.conversation" "conversation" Conversation CONVERSATION, Passed;
        "responses.item_reference" "item_reference" ItemReference ITEM_REFERENCE, Passed;
        "responses.background" "background" Background ByName, RequestOnly;
        "responses.prompt" "prompt, preset, prompt_id" StoredPrompt ByName, Passed;
        "responses.files" "file_id, image_generation_call" StoredFile ByName, Passed;
        "responses.container" "container, skills" Container ByName, Passed;
        "responses.mcp" "tools[].type: mcp" HostedServer ByName, Passed;
        "responses.hosted_tools" "tools, search_parameters, plugins" HostedTool Open, Hooked;
    OpenAiChat "/{version}/chat/completions":
        "chat.completions.files" "file_id, file_ids, audio.id" StoredFile ByName, Passed;
        "chat.completions.prompt" "preset, prompt_id" StoredPrompt ByName, Passed;
        "chat.completions.mcp" "tools[].type: mcp" HostedServer ByName, Passed;
        "chat.completions.hosted_tools" "tools, web_search_options, search_parameters, plugins"
            HostedTool Open, Hooked;
}

impl FieldSpec {
    /// Returns the coverage of what the field refers to, under a config that allows the field
    /// by name, or not.
    pub const fn coverage(&self, allowed: bool) -> HookCoverage {
        match self.access {
            Open => self.if_allowed,
            ByName if allowed => self.if_allowed,
            _ => HookCoverage::Refused,
        }
    }

    /// Returns the error for a request that has the field although it may not.
    pub fn error(&self) -> DialectError {
        let (refusal, name) = (self.kind.refusal(), self.name);
        let allow = match self.access {
            ByName => format!("; `coverage.allow` may list `{name}`"),
            Open | Never(_) | Access::Socket => String::new(),
        };
        DialectError::Field {
            field: self.first_name().to_owned(),
            expected: format!("absent, because {refusal}{allow}").into(),
        }
    }

    /// Returns the first of the names that the API has for the field.
    fn first_name(&self) -> &'static str {
        self.field.split(',').next().unwrap_or_default()
    }

    /// Returns the reason for its coverage: the rest of a sentence that begins with its name.
    pub const fn why(&self) -> &'static str {
        match self.access.refusal() {
            Some(refusal) => refusal,
            None => self.kind.meaning(),
        }
    }
}

/// The fields of one API that a caller may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AllowedFields(u16);

impl AllowedFields {
    /// Returns the fields of an API whose names `allows` accepts.
    pub fn of(api: Api, allows: impl Fn(&FieldSpec) -> bool) -> Self {
        let fields = FIELDS.iter().filter(|field| field.api == api);
        let allowed = fields.filter(|field| field.access == ByName && allows(field));
        Self(allowed.fold(0, |set, field| set | bit(field.kind)))
    }

    /// Returns whether requests may have a field.
    pub const fn contains(self, field: RequestField) -> bool {
        self.0 & bit(field) != 0
    }

    /// Checks a field that a request of an API has.
    ///
    /// # Errors
    ///
    /// Fails if the field is not allowed. One that the API is not known to have never is.
    pub fn check(self, api: Api, field: RequestField) -> Result<()> {
        let fields = FIELDS.iter().filter(|spec| spec.kind == field);
        match fields.clone().find(|spec| spec.api == api) {
            Some(spec) if spec.access == Open || self.contains(field) => Ok(()),
            Some(spec) => Err(spec.error()),
            None => {
                let expected = format!("absent, because {}", field.refusal());
                let names = fields.map(FieldSpec::first_name);
                Err(DialectError::Field {
                    field: names.take(1).collect(),
                    expected: expected.into(),
                })
            }
        }
    }

    /// Checks a field that a request of an API has by this name.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::check`] does, with the name.
    pub fn check_named(self, api: Api, field: RequestField, name: &str) -> Result<()> {
        let checked = self.check(api, field);
        checked.map_err(|error| match error {
            DialectError::Field { expected, .. } => DialectError::Field {
                field: name.to_owned(),
                expected,
            },
            error => error,
        })
    }
}

const fn bit(field: RequestField) -> u16 {
    1 << field as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::methods;

    #[test]
    fn field_names_are_unique() {
        for (index, field) in FIELDS.iter().enumerate() {
            let mut others = FIELDS.iter().take(index);
            assert!(
                others.all(|other| other.name != field.name),
                "{}",
                field.name
            );
            assert!(methods().all(|method| method.name != field.name));
        }
    }

    #[test]
    fn only_fields_that_are_allowed_by_name_can_be_allowed() {
        let all = AllowedFields::of(Api::OpenAiResponses, |_| true);
        assert!(all.contains(RequestField::PreviousResponse));
        assert!(!all.contains(RequestField::Conversation));
        assert!(!all.contains(RequestField::Thread));
        let none = AllowedFields::default();
        let error = none.check(Api::OpenAiResponses, RequestField::Conversation);
        assert!(error.unwrap_err().to_string().contains("conversation"));
    }

    #[test]
    fn a_field_passes_only_where_its_api_has_a_row_that_allows_it() {
        let kinds: Vec<RequestField> = FIELDS.iter().map(|spec| spec.kind).collect();
        for api in Api::ALL {
            let all = AllowedFields::of(api, |_| true);
            for kind in &kinds {
                let mut rows = FIELDS.iter();
                let row = rows.find(|spec| spec.api == api && spec.kind == *kind);
                let passes = |access: Access| access == Open || access == ByName;
                let expected = row.is_some_and(|row| passes(row.access));
                assert_eq!(all.check(api, *kind).is_ok(), expected, "{api:?} {kind:?}");
                let by_default = row.is_some_and(|row| row.access == Open);
                let none = AllowedFields::default().check(api, *kind);
                assert_eq!(none.is_ok(), by_default, "{api:?} {kind:?}");
            }
        }
    }

    #[test]
    fn an_error_names_the_field_the_reason_and_the_setting() {
        let none = AllowedFields::default();
        let error = |api, field| none.check(api, field).unwrap_err().to_string();
        assert_eq!(
            error(Api::Anthropic, RequestField::Container),
            "`container` must be absent, because hooks do not see files and skills in a container; \
             `coverage.allow` may list `messages.container`"
        );
        assert_eq!(
            error(Api::Gemini, RequestField::Thread),
            "`thread` must be absent, because hooks cannot see the conversation that it continues"
        );
    }
}
