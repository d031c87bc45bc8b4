//! Edits of hooks, compared with what the hooks were shown: a value that repeats it undoes no edit
//! of a parallel hook.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    arguments_edit::{ArgumentsEdit, ArgumentsMode},
    hook_output::HookOutput,
};
use crate::model::{LlmRequest, LlmResponse, RequestMutation, ResponseMutation};

impl HookOutput {
    /// Returns the edit of a request that the hook wrote as an object.
    pub fn written_request_edit(&self) -> Option<RequestMutation> {
        let is_written = self.specific("llm_request").is_some_and(Value::is_object);
        is_written.then(|| self.request_edit())
    }

    /// Interprets this edit of the request without what repeats it, and records the texts for the
    /// system instruction that it leaves out.
    pub fn interpret_request_edit(&mut self, mut edit: RequestMutation, shown: &LlmRequest) {
        drop_unchanged(&mut edit, shown);
        self.interpretation.removed_system = edit.removed_system(shown);
        self.interpretation.llm_request = Some(edit.fields);
    }

    /// Interprets an edit of this response without what repeats it.
    pub fn compare_with_response(&mut self, shown: &LlmResponse) {
        let Some(mut edit) = self.response_edit() else {
            return;
        };
        let shown = ResponseMutation::read(&json!(shown)).unwrap_or_default();
        for (edit, shown) in edit.candidates.iter_mut().zip(shown.candidates) {
            if edit.parts == shown.parts {
                edit.parts = None;
            }
            if edit.finish_reason == shown.finish_reason {
                edit.finish_reason = None;
            }
            if edit.index == shown.index {
                edit.index = None;
            }
            if edit.safety_ratings == shown.safety_ratings {
                edit.safety_ratings = None;
            }
        }
        let counts = shown.usage_metadata.unwrap_or_default();
        edit.usage_metadata = edit.usage_metadata.and_then(|mut edited| {
            edited.retain(|name, count| counts.get(name) != Some(count));
            (!edited.is_empty()).then_some(edited)
        });
        self.interpretation.llm_response = Some(edit);
    }

    /// Returns whether an edit changes the `text` of the response beside candidates, where it has no
    /// effect, and no part of the first candidate.
    pub fn ignores_edited_text(&self, shown: &LlmResponse) -> bool {
        let written = self.specific("llm_response");
        let text = written.and_then(|response| response.get("text")?.as_str());
        let shown_parts = shown.candidates.first().map(|first| &first.content.parts);
        let keeps_parts = |edit: ResponseMutation| {
            let parts = edit
                .candidates
                .into_iter()
                .next()
                .and_then(|first| first.parts);
            parts.is_none_or(|parts| Some(&parts) == shown_parts)
        };
        text.is_some_and(|text| text != shown.text) && self.response_edit().is_some_and(keeps_parts)
    }

    /// Returns whether a field of the output only repeats what the hook was shown.
    pub fn repeats(&self, field: &str) -> bool {
        let interpretation = &self.interpretation;
        let is_empty = |edit: &Option<Map<String, Value>>| edit.as_ref().is_some_and(Map::is_empty);
        match field {
            "llm_request" => {
                is_empty(&interpretation.llm_request) && interpretation.removed_system.is_empty()
            }
            "llm_response" => {
                let edit = interpretation.llm_response.as_ref();
                edit.is_some_and(ResponseMutation::is_empty)
            }
            "tool_input" => interpretation.tool_input.as_ref() == Some(&ArgumentsEdit::default()),
            _ => false,
        }
    }

    /// Interprets an edit of these arguments without what repeats them.
    pub fn compare_with_arguments(&mut self, shown: &Map<String, Value>) {
        let Some(Value::Object(written)) = self.specific("tool_input") else {
            return;
        };
        let mut edit = ArgumentsEdit {
            changed: written.clone(),
            removed: HashSet::new(),
        };
        let is_changed = |name: &String, value: &mut Value| shown.get(name) != Some(value);
        edit.changed.retain(is_changed);
        if self.interpretation.arguments == ArgumentsMode::Replace {
            let removed = shown.keys().filter(|name| !written.contains_key(*name));
            edit.removed.extend(removed.cloned());
        }
        self.interpretation.tool_input = Some(edit);
    }
}

fn drop_unchanged(edit: &mut RequestMutation, shown: &LlmRequest) {
    for key in ["config", "generationConfig"] {
        if let Some(Value::Object(config)) = edit.fields.get_mut(key) {
            config.retain(|name, value| shown.config.get(name) != Some(value));
            if config.is_empty() {
                edit.fields.shift_remove(key);
            }
        }
    }
    let is_readable = edit.unreadable_messages().next().is_none();
    let model = edit.fields.get("model").and_then(Value::as_str);
    let (system, tools) = (edit.system(), edit.tool_config());
    let unchanged = [
        ("model", model == Some(shown.model.as_str())),
        (
            "messages",
            is_readable && edit.messages().unwrap_or_default() == shown.messages,
        ),
        (
            "systemInstruction",
            system.is_some() && system == shown.system,
        ),
        ("toolConfig", tools.is_some() && tools == shown.tool_config),
    ];
    for (key, is_unchanged) in unchanged {
        if is_unchanged {
            edit.fields.shift_remove(key);
        }
    }
}
