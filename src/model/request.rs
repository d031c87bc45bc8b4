//! `LLMRequest`: what the agent asks of the model (hook protocol, section 6).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value};

use super::{
    ModelName, ToolConfig,
    message_parts::{self, WholeMessage},
};

/// What the agent asks of the model, in the stable form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmRequest {
    /// The model asked for.
    pub model: String,
    /// The conversation so far, text only.
    #[serde(alias = "contents", deserialize_with = "read_messages")]
    pub messages: Vec<Message>,
    /// `temperature`, `maxOutputTokens`, `topP`, `topK`, as the agent wrote them;
    /// and `stopSequences`, which the stable form does not show.
    #[serde(alias = "generationConfig", serialize_with = "write_config")]
    pub config: Map<String, Value>,
    /// Only if the request has one.
    #[serde(
        rename = "toolConfig",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_tool_config"
    )]
    pub tool_config: Option<ToolConfig>,
    /// The system instruction's text, for hooks that are shown it.
    #[serde(
        rename = "systemInstruction",
        skip_serializing,
        deserialize_with = "read_system"
    )]
    pub system: Option<String>,
    /// The conversation with all that is not text, for hooks that are shown it;
    /// empty if nobody knows more than the messages.
    ///
    /// INVARIANT: those with text are the messages, in order.
    #[serde(skip)]
    pub whole: Vec<WholeMessage>,
}

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What they say.
    pub content: String,
}

/// Who speaks in a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The human, or the agent on their behalf.
    User,
    /// The model.
    Model,
    /// The system instruction.
    System,
}

/// A hook's change to a request: the fields of `llm_request` as it wrote them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestMutation {
    /// Fields of the stable form to replace; whoever applies them leaves out
    /// what is wrongly typed.
    pub fields: Map<String, Value>,
    /// What to say to the model beside, at the end of the user's last content.
    pub remark: Option<String>,
}

/// The two names under which generation parameters come back.
const CONFIG_KEYS: [&str; 2] = ["config", "generationConfig"];

/// The generation parameter that only some hooks are shown.
const STOP_SEQUENCES: &str = "stopSequences";

impl LlmRequest {
    /// The same request with the system instruction as a first message.
    #[must_use]
    pub fn with_system_message(&self) -> Self {
        let mut shown = self.clone();
        if let Some(content) = self.system.clone() {
            let role = Role::System;
            let message = Message { role, content };
            if !shown.whole.is_empty() {
                shown.whole.insert(0, WholeMessage::from(&message));
            }
            shown.messages.insert(0, message);
        }
        shown
    }

    /// Takes in what a sequential hook changed, so that the next one sees it.
    pub fn absorb(&mut self, mutation: &RequestMutation) {
        if let Some(model) = mutation.model() {
            model.as_str().clone_into(&mut self.model);
        }
        if let Some(messages) = mutation.messages() {
            self.whole = message_parts::follow(&self.whole, &self.messages, &messages);
            self.messages = messages;
            self.messages.retain(|it| !it.content.is_empty());
        }
        if let Some(system) = mutation.system() {
            self.system = Some(system);
        }
        for (key, value) in mutation.config() {
            if value.is_null() {
                self.config.shift_remove(key);
            } else {
                self.config.insert(key.clone(), value.clone());
            }
        }
        if let Some(tools) = mutation.tool_config() {
            self.tool_config = Some(tools);
        }
    }
}

impl RequestMutation {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.remark.is_none()
    }

    /// Folds a later hook's fields in: later keys win, generation parameters
    /// key by key.
    pub fn merge(&mut self, later: &Map<String, Value>) {
        for (key, value) in later {
            let old = self.fields.get_mut(key).and_then(Value::as_object_mut);
            match (old, value.as_object()) {
                (Some(old), Some(new)) if CONFIG_KEYS.contains(&key.as_str()) => {
                    old.extend(new.clone());
                }
                _ => {
                    self.fields.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// The model asked for instead, if it is a model name.
    pub fn model(&self) -> Option<ModelName> {
        ModelName::parse(self.fields.get("model")?.as_str()?)
    }

    /// The messages to use instead; `None` for a missing, empty or wrongly
    /// typed list. Entries without a known role or without content are left out.
    pub fn messages(&self) -> Option<Vec<Message>> {
        let list = self.fields.get("messages")?.as_array()?;
        let messages: Vec<Message> = list.iter().filter_map(read_message).collect();
        (!messages.is_empty()).then_some(messages)
    }

    /// The generation parameters to set; `null` means: delete.
    pub fn config(&self) -> impl Iterator<Item = (&String, &Value)> {
        CONFIG_KEYS
            .into_iter()
            .filter_map(|it| self.fields.get(it)?.as_object())
            .flatten()
    }

    /// The text to put in the place of the system instruction's.
    pub fn system(&self) -> Option<String> {
        read_parts(self.fields.get("systemInstruction")?)
    }

    /// A hook that was shown the system instruction as its first message hands
    /// it back so: then that message stands for the instruction, and what it
    /// says replaces it.
    pub fn take_system_message(&mut self) {
        let messages = self
            .fields
            .get_mut("messages")
            .and_then(Value::as_array_mut);
        let Some(messages) = messages.filter(|it| is_system(it.first())) else {
            return;
        };
        let system = messages.remove(0);
        if let Some(content) = system.get("content").and_then(read_content) {
            self.fields
                .insert("systemInstruction".to_owned(), Value::String(content));
        }
    }

    /// The selection of tools to use instead.
    pub fn tool_config(&self) -> Option<ToolConfig> {
        ToolConfig::read(self.fields.get("toolConfig")?)
    }
}

fn read_messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Message>, D::Error> {
    let list = Vec::<Value>::deserialize(deserializer)?;
    let wrong =
        || D::Error::custom("a message needs a `role` of user, model or system and a `content`");
    list.iter()
        .map(|it| read_message(it).ok_or_else(wrong))
        .collect()
}

fn read_system<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(read_parts(&Value::deserialize(deserializer)?))
}

fn write_config<S: Serializer>(
    config: &Map<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(config.iter().filter(|it| it.0 != STOP_SEQUENCES))
}

fn read_tool_config<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ToolConfig>, D::Error> {
    Ok(ToolConfig::read(&Value::deserialize(deserializer)?))
}

fn read_message(value: &Value) -> Option<Message> {
    let role = match value.get("role")?.as_str()? {
        "user" => Role::User,
        "model" | "assistant" => Role::Model,
        "system" => Role::System,
        _ => return None,
    };
    let content = value.get("content").or_else(|| value.get("parts"))?;
    let content = read_content(content)?;
    Some(Message { role, content })
}

/// The text of `{parts}`, or of parts alone.
fn read_parts(value: &Value) -> Option<String> {
    read_content(value.get("parts").unwrap_or(value))
}

/// The text of a `content` as hooks write it: a string; an array, of which
/// strings and `.text` are joined and anything else stands as its JSON; an
/// object's `.text`. `None` for anything else.
pub fn read_content(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().map(read_item).collect()),
        Value::Object(fields) => fields.get("text")?.as_str().map(str::to_owned),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn is_system(message: Option<&Value>) -> bool {
    let role = message
        .and_then(|it| it.get("role"))
        .and_then(Value::as_str);
    role == Some("system")
}

fn read_item(item: &Value) -> String {
    let text = item
        .as_str()
        .or_else(|| item.get("text").and_then(Value::as_str));
    text.map_or_else(|| item.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn generation_parameters_merge_key_by_key() {
        let mut mutation = RequestMutation::default();
        mutation.merge(&fields(
            &json!({"config": {"temperature": 0, "topK": 4}, "model": "a"}),
        ));
        mutation.merge(&fields(
            &json!({"config": {"temperature": 1}, "model": "b"}),
        ));
        assert_eq!(
            Value::Object(mutation.fields),
            json!({"config": {"temperature": 1, "topK": 4}, "model": "b"})
        );
    }

    #[test]
    fn content_comes_in_three_shapes() {
        let array = json!(["a", {"text": "b"}, {"x": 1}]);
        assert_eq!(read_content(&array).unwrap(), "ab{\"x\":1}");
        assert_eq!(read_content(&json!({"text": "c"})).unwrap(), "c");
        assert_eq!(read_content(&json!(5)), None);
    }
}
