//! `LLMRequest`: a model request in the stable form (hook protocol, section 6).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value, json};

use super::{
    message::{
        Message, Role, has_conversation, has_value, is_conversation, is_emptied, merge_messages,
        read_content,
    },
    message_parts::{self, MessageParts},
    name::ModelName,
    tools::ToolConfig,
};

/// A model request in the stable form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct LlmRequest {
    /// Name of the requested model.
    pub model: String,
    /// Conversation so far, text only.
    #[serde(alias = "contents", deserialize_with = "read_messages")]
    pub messages: Vec<Message>,
    /// `temperature`, `maxOutputTokens`, `topP` and `topK` as the agent wrote them,
    /// and `stopSequences`, which the stable form omits.
    #[serde(alias = "generationConfig", serialize_with = "write_config")]
    pub config: Map<String, Value>,
    /// Tool selection, if the request has one.
    #[serde(
        rename = "toolConfig",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_tool_config"
    )]
    pub tool_config: Option<ToolConfig>,
    /// Text of the system instruction, for hooks that are shown it.
    #[serde(
        rename = "systemInstruction",
        skip_serializing,
        deserialize_with = "read_system"
    )]
    pub system: Option<String>,
    /// Conversation with all parts, for hooks that are shown more than text; empty
    /// if only the texts are known.
    ///
    /// INVARIANT: the entries with text correspond to `messages`, in order.
    #[serde(skip)]
    pub message_parts: Vec<MessageParts>,
    /// True if contents are left if all text is removed.
    #[serde(skip)]
    pub has_more_than_text: bool,
}

/// Edit of a request: the fields of a hook's `llm_request`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestMutation {
    /// Fields of the stable form to replace; wrongly typed ones are ignored when
    /// they are applied.
    pub fields: Map<String, Value>,
    /// Conversation of earlier edits that `messages` leave without text. It is applied first, and
    /// stays if no content would be left.
    pub earlier_messages: Vec<Message>,
    /// Text to append to the user's last content.
    pub appended_text: Option<String>,
}

/// Returns whether a generation parameter has a value that can be written; `null` deletes it.
pub fn is_valid_parameter(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(_) => name != STOP_SEQUENCES,
        Value::Array(list) => name == STOP_SEQUENCES && list.iter().all(Value::is_string),
        Value::Bool(_) | Value::String(_) | Value::Object(_) => false,
    }
}

/// Names under which hooks return generation parameters.
const CONFIG_KEYS: [&str; 2] = ["config", "generationConfig"];

/// Generation parameter that the stable form omits.
const STOP_SEQUENCES: &str = "stopSequences";

impl LlmRequest {
    /// Returns the request with the system instruction as first message.
    #[must_use]
    pub fn with_system_message(&self) -> Self {
        let mut shown = self.clone();
        if let Some(content) = self.system.clone() {
            let role = Role::System;
            let message = Message { role, content };
            if !shown.message_parts.is_empty() {
                shown.message_parts.insert(0, MessageParts::from(&message));
            }
            shown.messages.insert(0, message);
        }
        shown
    }

    /// Returns whether messages have texts for the system instruction that hooks see as they are,
    /// because the request has no other.
    pub fn lists_system_texts(&self) -> bool {
        let mut messages = self.messages.iter();
        self.system.is_none() && messages.any(|message| message.role == Role::System)
    }

    /// Applies the edit of a sequential hook, so that the next hook sees it.
    pub fn apply(&mut self, mutation: &RequestMutation) {
        if let Some(model) = mutation.model() {
            model.as_str().clone_into(&mut self.model);
        }
        let messages = mutation.messages().unwrap_or_default();
        for messages in [mutation.earlier_messages.clone(), messages] {
            self.apply_messages(messages);
        }
        if let Some(system) = mutation.system() {
            self.system = Some(system);
        }
        let parameters = mutation.config();
        for (key, value) in parameters.filter(|(key, value)| is_valid_parameter(key, value)) {
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

    fn apply_messages(&mut self, mut messages: Vec<Message>) {
        // An edit that leaves no content is not written either.
        if is_emptied(&messages) && !self.has_more_than_text {
            messages.retain(|message| !is_conversation(message));
        }
        if messages.is_empty() {
            return;
        }
        let messages = merge_messages(self.messages.clone(), messages, true);
        self.message_parts = message_parts::update(&self.message_parts, &self.messages, &messages);
        self.messages = messages;
        self.messages.retain(|message| !message.content.is_empty());
    }
}

impl RequestMutation {
    /// Fields that have an effect.
    const FIELDS: [&str; 6] = [
        "model",
        "messages",
        "config",
        "generationConfig",
        "systemInstruction",
        "toolConfig",
    ];

    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.appended_text.is_none()
    }

    /// Merges the fields of a later hook: later keys win, generation parameters key by key, and
    /// texts for the system instruction are added. A value that would change nothing on its own
    /// does not replace an earlier one. Returns the keys of such values. `follows_edits`: the
    /// later hook edited what the earlier ones left; otherwise, the messages in `removed`, which
    /// either of them left out, are no longer there.
    pub fn merge(
        &mut self,
        later: &Map<String, Value>,
        follows_edits: bool,
        removed: &[Message],
    ) -> Vec<String> {
        let mut later = Self {
            fields: later.clone(),
            ..Self::default()
        };
        unite_config(&mut self.fields);
        unite_config(&mut later.fields);
        let (earlier, returned) = (self.messages(), later.messages());
        let mut ignored = Vec::new();
        for (key, value) in &later.fields {
            let Some(old) = self.fields.get_mut(key) else {
                self.fields.insert(key.clone(), value.clone());
                continue;
            };
            match (key.as_str(), old, value) {
                ("config", Value::Object(old), Value::Object(new)) => {
                    ignored.extend(merge_parameters(old, new));
                }
                (_, old, _) if later.is_usable(key) => *old = value.clone(),
                _ => ignored.push(key.clone()),
            }
        }
        if let (Some(earlier), Some(returned)) = (earlier, returned) {
            if is_emptied(&returned) && !is_emptied(&earlier) {
                let conversation = earlier.iter().filter(|message| is_conversation(message));
                self.earlier_messages = conversation.cloned().collect();
            } else if has_conversation(&returned) && !is_emptied(&returned) {
                self.earlier_messages.clear();
            }
            let mut merged = merge_messages(earlier, returned, follows_edits);
            merged.retain(|message| follows_edits || !removed.contains(message));
            self.fields.insert("messages".to_owned(), json!(merged));
        }
        ignored
    }

    /// Returns whether a field has a value of the right type.
    fn is_usable(&self, key: &str) -> bool {
        match key {
            "model" => self.model().is_some(),
            "messages" => self.messages().is_some_and(|list| {
                let mut list = list.iter();
                list.any(|message| is_conversation(message) || !message.content.is_empty())
            }),
            "config" | "generationConfig" => self.fields.get(key).is_some_and(Value::is_object),
            "systemInstruction" => self.system().is_some(),
            "toolConfig" => self.tool_config().is_some(),
            _ => true,
        }
    }

    /// Returns the fields that are ignored because of their value, except for the model and the
    /// messages.
    pub fn unusable_fields(&self) -> Vec<String> {
        let keys = ["config", "generationConfig", "systemInstruction"];
        let is_unusable = |key: &&str| self.fields.contains_key(*key) && !self.is_usable(key);
        let unusable = keys.into_iter().filter(is_unusable);
        let mut unusable: Vec<String> = unusable.map(str::to_owned).collect();
        if let Some(selection) = self.fields.get("toolConfig") {
            unusable.extend(ToolConfig::unusable_fields(selection));
        }
        unusable
    }

    /// Returns all fields that are ignored because of their value, but for empty ones.
    pub fn lost_fields(&self) -> Vec<String> {
        let mut lost = self.unusable_fields();
        // A name that the gateway does not use may be that of a reported call, as it was shown.
        let model = self.fields.get("model");
        if model.is_some_and(|model| !model.is_string()) {
            lost.push("model".to_owned());
        }
        let is_unusable = self.fields.contains_key("messages") && !self.is_usable("messages");
        if is_unusable || self.unreadable_messages().next().is_some() {
            lost.push("messages".to_owned());
        }
        // A field of another name may be meant as one that the edit does not have.
        if !Self::FIELDS
            .iter()
            .any(|field| self.fields.contains_key(*field))
        {
            lost.extend(self.fields.keys().cloned());
        }
        lost.retain(|field| self.fields.get(field).is_none_or(has_value));
        lost
    }

    /// Returns the replacement model, if it is a valid name.
    pub fn model(&self) -> Option<ModelName> {
        ModelName::parse(self.fields.get("model")?.as_str()?)
    }

    /// Returns the replacement messages; `None` for a missing, empty or wrongly
    /// typed list. Entries without a known role or content are ignored.
    pub fn messages(&self) -> Option<Vec<Message>> {
        let list = self.fields.get("messages")?.as_array()?;
        let messages: Vec<Message> = list.iter().filter_map(Message::read).collect();
        (!messages.is_empty()).then_some(messages)
    }

    /// Returns the entries with a value that [`Self::messages`] ignores.
    pub fn unreadable_messages(&self) -> impl Iterator<Item = &Value> {
        let list = self.fields.get("messages").and_then(Value::as_array);
        let list = list.into_iter().flatten();
        list.filter(|entry| has_value(entry) && Message::read(entry).is_none())
    }

    /// Returns the texts for the system instruction among the messages of `request` that its edited
    /// conversation leaves out.
    pub fn removed_system(&self, request: &LlmRequest) -> Vec<Message> {
        let kept = self.messages().unwrap_or_default();
        let is_removed = |message: &&Message| {
            message.role == Role::System && has_conversation(&kept) && !kept.contains(message)
        };
        let removed = request.messages.iter().filter(is_removed);
        removed.cloned().collect()
    }

    /// Returns the generation parameters to set; `null` deletes one.
    pub fn config(&self) -> impl Iterator<Item = (&String, &Value)> {
        CONFIG_KEYS
            .into_iter()
            .filter_map(|key| self.fields.get(key)?.as_object())
            .flatten()
    }

    /// Returns the replacement text of the system instruction.
    pub fn system(&self) -> Option<String> {
        read_parts(self.fields.get("systemInstruction")?)
    }

    /// Turns the first message of role `system` into the replacement of the system
    /// instruction, for hooks that are shown the instruction as first message.
    pub fn extract_system_message(&mut self) {
        let messages = self.fields.get_mut("messages");
        let Some(messages) = messages.and_then(Value::as_array_mut) else {
            return;
        };
        let system = messages.iter().enumerate().find_map(|(index, entry)| {
            let message = Message::read(entry)?;
            (message.role == Role::System).then_some((index, message.content))
        });
        let Some((index, content)) = system else {
            return;
        };
        messages.remove(index);
        if messages.is_empty() {
            self.fields.shift_remove("messages");
        }
        self.fields
            .insert("systemInstruction".to_owned(), Value::String(content));
    }

    /// Returns the replacement tool selection.
    pub fn tool_config(&self) -> Option<ToolConfig> {
        ToolConfig::read(self.fields.get("toolConfig")?)
    }
}

fn read_messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Message>, D::Error> {
    let list = Vec::<Value>::deserialize(deserializer)?;
    let invalid =
        || D::Error::custom("a message needs a `role` of user, model or system and a `content`");
    list.iter()
        .map(|value| Message::read(value).ok_or_else(invalid))
        .collect()
}

fn read_system<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(read_parts(&Value::deserialize(deserializer)?))
}

fn write_config<S: Serializer>(
    config: &Map<String, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(config.iter().filter(|(key, _)| *key != STOP_SEQUENCES))
}

fn read_tool_config<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ToolConfig>, D::Error> {
    Ok(ToolConfig::read(&Value::deserialize(deserializer)?))
}

/// Moves generation parameters under the other name to their name in the stable form.
fn unite_config(fields: &mut Map<String, Value>) {
    let Some(given) = fields.shift_remove("generationConfig") else {
        return;
    };
    match fields.get_mut("config").and_then(Value::as_object_mut) {
        Some(config) => {
            if let Value::Object(given) = given {
                config.extend(given);
            }
        }
        None => {
            fields.insert("config".to_owned(), given);
        }
    }
}

/// Merges generation parameters. Returns the names of invalid ones that did not replace others.
fn merge_parameters(earlier: &mut Map<String, Value>, later: &Map<String, Value>) -> Vec<String> {
    let mut ignored = Vec::new();
    for (name, value) in later {
        if earlier.contains_key(name) && !is_valid_parameter(name, value) {
            ignored.push(name.clone());
        } else {
            earlier.insert(name.clone(), value.clone());
        }
    }
    ignored
}

/// Returns the text of `{parts}`, or of bare parts.
fn read_parts(value: &Value) -> Option<String> {
    read_content(value.get("parts").unwrap_or(value))
}

#[cfg(test)]
mod tests;
