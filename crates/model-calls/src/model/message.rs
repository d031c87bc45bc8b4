//! One message of the conversation that hooks see (hook protocol, section 6).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One turn of the conversation, text only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Text parts, joined without separator.
    pub content: String,
}

/// Author of a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The human, or the agent on their behalf.
    User,
    /// The model that responds.
    Model,
    /// The system instruction of the request.
    System,
}

impl Message {
    /// Reads `{role, content}` or `{role, parts}`; `None` without a known role
    /// or usable content.
    pub fn read(value: &Value) -> Option<Self> {
        let role = match value.get("role")?.as_str()? {
            "user" => Role::User,
            "model" | "assistant" => Role::Model,
            "system" => Role::System,
            _ => return None,
        };
        let content = value.get("content").or_else(|| value.get("parts"))?;
        let content = read_content(content)?;
        Some(Self { role, content })
    }
}

/// Returns the text of a `content` as hooks write it: a string; an array, of
/// which strings and `.text` are joined and anything else becomes its JSON; an
/// object's `.text`. `None` for anything else.
pub fn read_content(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().map(read_item).collect()),
        Value::Object(fields) => fields.get("text")?.as_str().map(str::to_owned),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Returns whether a value has more in it than `null` and empty texts, lists and objects.
pub fn has_value(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(has_value),
        Value::Object(fields) => fields.values().any(has_value),
    }
}

/// Returns whether any message is not for the system instruction.
pub(super) fn has_conversation(messages: &[Message]) -> bool {
    messages.iter().any(is_conversation)
}

/// Returns whether messages leave the conversation without text.
pub(super) fn is_emptied(messages: &[Message]) -> bool {
    let mut conversation = messages.iter().filter(|message| is_conversation(message));
    has_conversation(messages) && conversation.all(|message| message.content.is_empty())
}

pub(super) fn is_conversation(message: &Message) -> bool {
    message.role != Role::System
}

/// Returns the messages of a later edit over those of an earlier one: texts for the system
/// instruction alone are added to those before. A conversation that is an edit of the earlier
/// messages replaces all of them.
pub(super) fn merge_messages(
    earlier: Vec<Message>,
    later: Vec<Message>,
    follows_edits: bool,
) -> Vec<Message> {
    let replaces = has_conversation(&later);
    if replaces && follows_edits {
        return later;
    }
    let (conversation, mut merged): (Vec<_>, Vec<_>) =
        earlier.into_iter().partition(is_conversation);
    let (replacement, mut added): (Vec<_>, Vec<_>) = later.into_iter().partition(is_conversation);
    added.retain(|message| !merged.contains(message));
    merged.extend(added);
    merged.extend(if replaces { replacement } else { conversation });
    merged
}

fn read_item(item: &Value) -> String {
    let text = item.as_str().or_else(|| item.get("text")?.as_str());
    text.map_or_else(|| item.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_comes_in_three_shapes() {
        let array = json!(["a", {"text": "b"}, {"x": 1}]);
        assert_eq!(read_content(&array).unwrap(), "ab{\"x\":1}");
        assert_eq!(read_content(&json!({"text": "c"})).unwrap(), "c");
        assert_eq!(read_content(&json!(5)), None);
    }
}
