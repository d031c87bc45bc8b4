//! Fields of hooked requests that refer to what hooks cannot see, and whether a config may allow
//! them by name.

use crate::dialect::{
    error::DialectError,
    method::{
        Access::{self, ByName, Never, Open},
        Api,
        HookCoverage::{self, Hooked, Passed, RequestOnly},
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
    /// An MCP server that the model API calls, where hooks on tools run.
    HostedServer,
    /// Other tools that the model API runs.
    HostedTool,
}

/// One field of an API's requests.
#[derive(Debug)]
pub struct FieldSpec {
    /// API that has the field.
    pub api: Api,
    /// Name in the config.
    pub name: &'static str,
    /// Path of the method that has the field.
    pub path: &'static str,
    /// The field as the API names it.
    pub field: &'static str,
    /// Meaning of the field.
    pub kind: RequestField,
    /// Whether agents may use it.
    pub access: Access,
    /// Coverage of what it refers to, if it is allowed.
    pub if_allowed: HookCoverage,
    /// Completes the sentence "the field must be".
    pub expected: &'static str,
    /// The reason: the rest of a sentence that begins with the name.
    pub why: &'static str,
}

const MESSAGES: &str = "/{version}/messages";
const RESPONSES: &str = "/{version}/responses";
const CHAT: &str = "/{version}/chat/completions";

const MCP_WHY: &str =
    "runs at the model API, where hooks on BeforeTool and AfterTool do not see its calls";
const HOSTED_WHY: &str = "run at the model API: hooks and policies inspect their texts in the response, but BeforeTool and AfterTool do not run; `tool_guard` withholds them";
const FILES_WHY: &str = "is stored upstream, where hooks do not see it";

/// Every field that is not simply inspected.
pub const FIELDS: &[FieldSpec] = &[
    FieldSpec {
        api: Api::Anthropic,
        name: "messages.container",
        path: MESSAGES,
        field: "container, container_upload",
        kind: RequestField::Container,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks do not see files and skills in a container; `coverage.allow` may list `messages.container`",
        why: "holds files and skills that hooks do not see",
    },
    FieldSpec {
        api: Api::Anthropic,
        name: "messages.files",
        path: MESSAGES,
        field: "file_id",
        kind: RequestField::StoredFile,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks do not see files that are stored upstream; `coverage.allow` may list `messages.files`",
        why: FILES_WHY,
    },
    FieldSpec {
        api: Api::Anthropic,
        name: "messages.mcp",
        path: MESSAGES,
        field: "mcp_servers",
        kind: RequestField::HostedServer,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks on BeforeTool and AfterTool do not see calls of MCP servers that run at the model API; `coverage.allow` may list `messages.mcp`",
        why: MCP_WHY,
    },
    FieldSpec {
        api: Api::Anthropic,
        name: "messages.hosted_tools",
        path: MESSAGES,
        field: "tools",
        kind: RequestField::HostedTool,
        access: Open,
        if_allowed: Hooked,
        expected: "inspected",
        why: HOSTED_WHY,
    },
    FieldSpec {
        api: Api::Anthropic,
        name: "messages.thread",
        path: MESSAGES,
        field: "thread",
        kind: RequestField::Thread,
        access: Never(
            "continues a conversation that is stored upstream, whose ids hookgate does not know",
        ),
        if_allowed: Passed,
        expected: "absent, because hooks do not see the conversation that it continues",
        why: "continues a conversation that is stored upstream",
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.state",
        path: RESPONSES,
        field: "previous_response_id",
        kind: RequestField::PreviousResponse,
        access: ByName,
        if_allowed: Hooked,
        expected: "absent, because hooks cannot see the conversation that it continues; `coverage.allow` may list `responses.state`",
        why: "continues a conversation that the request does not contain",
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.conversation",
        path: RESPONSES,
        field: "conversation",
        kind: RequestField::Conversation,
        access: Never(
            "continues a conversation into which other calls put items that hooks never see",
        ),
        if_allowed: Passed,
        expected: "absent, because hooks cannot see the conversation that it continues",
        why: "continues a conversation that is stored upstream",
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.item_reference",
        path: RESPONSES,
        field: "item_reference",
        kind: RequestField::ItemReference,
        access: Never("replaces an item whose text hooks and policies must see in the request"),
        if_allowed: Passed,
        expected: "absent, because hooks cannot see the item that it names",
        why: "names an item that is stored upstream",
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.background",
        path: RESPONSES,
        field: "background",
        kind: RequestField::Background,
        access: ByName,
        if_allowed: RequestOnly,
        expected: "false, because hooks cannot see a response that is fetched later; `coverage.allow` may list `responses.background`",
        why: "makes a response that is fetched later, by methods that hooks do not see",
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.prompt",
        path: RESPONSES,
        field: "prompt",
        kind: RequestField::StoredPrompt,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks cannot see the stored prompt that it names; `coverage.allow` may list `responses.prompt`",
        why: "names a prompt, and maybe tools, that are stored upstream",
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.files",
        path: RESPONSES,
        field: "file_id",
        kind: RequestField::StoredFile,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks do not see files that are stored upstream; `coverage.allow` may list `responses.files`",
        why: FILES_WHY,
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.mcp",
        path: RESPONSES,
        field: "tools[].type: mcp",
        kind: RequestField::HostedServer,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks on BeforeTool and AfterTool do not see calls of MCP servers that run at the model API; `coverage.allow` may list `responses.mcp`",
        why: MCP_WHY,
    },
    FieldSpec {
        api: Api::OpenAiResponses,
        name: "responses.hosted_tools",
        path: RESPONSES,
        field: "tools",
        kind: RequestField::HostedTool,
        access: Open,
        if_allowed: Hooked,
        expected: "inspected",
        why: HOSTED_WHY,
    },
    FieldSpec {
        api: Api::OpenAiChat,
        name: "chat.completions.files",
        path: CHAT,
        field: "file_id",
        kind: RequestField::StoredFile,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks do not see files that are stored upstream; `coverage.allow` may list `chat.completions.files`",
        why: FILES_WHY,
    },
    FieldSpec {
        api: Api::OpenAiChat,
        name: "chat.completions.mcp",
        path: CHAT,
        field: "tools[].type: mcp",
        kind: RequestField::HostedServer,
        access: ByName,
        if_allowed: Passed,
        expected: "absent, because hooks on BeforeTool and AfterTool do not see calls of MCP servers that run at the model API; `coverage.allow` may list `chat.completions.mcp`",
        why: MCP_WHY,
    },
    FieldSpec {
        api: Api::OpenAiChat,
        name: "chat.completions.hosted_tools",
        path: CHAT,
        field: "tools, web_search_options",
        kind: RequestField::HostedTool,
        access: Open,
        if_allowed: Hooked,
        expected: "inspected",
        why: HOSTED_WHY,
    },
];

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
        let field = self.field.split(',').next().unwrap_or_default();
        DialectError::Field {
            field: field.to_owned(),
            expected: self.expected,
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
    /// Fails if the field is not allowed.
    pub fn check(self, api: Api, field: RequestField) -> Result<(), DialectError> {
        if self.contains(field) {
            return Ok(());
        }
        let mut fields = FIELDS.iter();
        let spec = fields.find(|spec| spec.api == api && spec.kind == field);
        spec.map_or(Ok(()), |spec| Err(spec.error()))
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
    fn names_of_fields_are_their_own() {
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
        assert!(!all.contains(RequestField::Container));
        let none = AllowedFields::default();
        let error = none.check(Api::OpenAiResponses, RequestField::Conversation);
        assert!(error.unwrap_err().to_string().contains("conversation"));
    }
}
