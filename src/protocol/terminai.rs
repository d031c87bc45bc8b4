//! The `terminai` protocol of `TerminaI`: hooks see the JSON of parts that are not
//! text inside `content`, and context is added verbatim.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{hook_protocol::Protocol, input};
use crate::{
    event::{
        AddedContext, Context, Diagnostic, DiagnosticCode, Event, HookResult, InputExtras,
        OutputPart,
    },
    model::{LlmRequest, Message, MessageParts, Role, align},
};

#[derive(Debug)]
pub(super) struct TerminaiProtocol;

impl Protocol for TerminaiProtocol {
    fn name(&self) -> &'static str {
        "terminai"
    }

    fn settings_folder(&self) -> Option<&'static str> {
        Some(".terminai")
    }

    fn shows_message_parts(&self) -> bool {
        true
    }

    fn write(&self, context: &Context, event: Event<'_>, extras: InputExtras<'_>) -> Bytes {
        let Some(request) = event.llm_request() else {
            return input::write(context, event, extras);
        };
        let parts = message_parts(request);
        let shown = LlmRequest {
            messages: parts.iter().map(MessageParts::to_message).collect(),
            ..request.clone()
        };
        input::write_with(context, event, extras, [("llm_request", json!(shown))])
    }

    fn interpret(&self, result: &mut HookResult, event: Event<'_>) {
        let output = &mut result.output;
        let context = output.additional_context();
        let context = context.filter(|_| event.name().honours(OutputPart::AdditionalContext));
        let context = context.map(|text| AddedContext::Raw(text.to_owned()));
        output.interpretation.added = context.into_iter().collect();

        let mut edit = output.request_edit();
        if let (Some(request), Some(returned)) = (event.llm_request(), edit.messages()) {
            let texts = Texts::new(&message_parts(request), &returned);
            let messages = texts.messages.iter().map(|message| json!(message));
            let messages: Value = messages
                .chain(edit.unreadable_messages().cloned())
                .collect();
            edit.fields.insert("messages".to_owned(), messages);
            output.interpretation.llm_request = Some(edit.fields);
            result.diagnostics.extend(texts.changed_json);
        }
    }
}

fn message_parts(request: &LlmRequest) -> Vec<MessageParts> {
    if request.message_parts.is_empty() {
        return request.messages.iter().map(MessageParts::from).collect();
    }
    request.message_parts.clone()
}

/// Texts of the messages that a hook returned, without the JSON of other parts.
#[derive(Debug)]
struct Texts {
    messages: Vec<Message>,
    /// Set if the hook changed the JSON of a part.
    changed_json: Option<Diagnostic>,
}

impl Texts {
    fn new(shown: &[MessageParts], returned: &[Message]) -> Self {
        let contents: Vec<Message> = shown.iter().map(MessageParts::to_message).collect();
        let mut sources: Vec<Option<&MessageParts>> = vec![None; returned.len()];
        for (source, index) in shown.iter().zip(align(&contents, returned)) {
            if let Some(slot) = index.and_then(|index| sources.get_mut(index)) {
                *slot = Some(source);
            }
        }
        let mut texts = Self {
            messages: Vec::new(),
            changed_json: None,
        };
        for (message, source) in returned.iter().zip(sources) {
            let content = match source {
                Some(source) if source.to_message().content == message.content => source.text(),
                Some(source) => texts.without_json(source, &message.content),
                None => message.content.clone(),
            };
            let role = message.role;
            if !content.is_empty() {
                texts.messages.push(Message { role, content });
            }
        }
        let mut shown = shown.iter().filter(|message| message.role != Role::System);
        let mut returned = returned
            .iter()
            .filter(|message| message.role != Role::System);
        let mut kept = texts.messages.iter();
        // An empty list would change nothing, and a message without text removes all texts.
        if shown.any(|message| !message.text().is_empty())
            && kept.all(|message| message.role == Role::System)
            && let Some(Message { role, .. }) = returned.next()
        {
            let content = String::new();
            texts.messages.push(Message {
                role: *role,
                content,
            });
        }
        texts
    }

    /// Removes the first verbatim occurrence of each JSON text.
    fn without_json(&mut self, source: &MessageParts, content: &str) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for json in source.json_parts() {
            *counts.entry(json).or_default() += 1;
        }
        let text = without_objects(content, &mut counts);
        if counts.values().any(|count| *count > 0) {
            let dropped = "messages: only text can be changed; other parts are kept";
            self.changed_json = Some(DiagnosticCode::EditDropped.with(dropped));
        }
        text
    }
}

/// Returns a text without JSON objects, in one pass. Each is removed as often as `counts` has it,
/// where the number of those that are not in the text remains.
fn without_objects<'a>(text: &'a str, counts: &mut BTreeMap<&'a str, usize>) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, object) = rest.split_at(start);
        kept.push_str(before);
        // No JSON object begins with another one, so only the greatest one up to here can match.
        let last = counts.range_mut::<&str, _>(..=object).next_back();
        if let Some((json, count)) = last
            && *count > 0
            && let Some(behind) = object.strip_prefix(*json)
        {
            *count -= 1;
            rest = behind;
        } else {
            let (brace, behind) = object.split_at(1);
            kept.push_str(brace);
            rest = behind;
        }
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::model::MessagePart;

    const CALL: &str = r#"{"functionCall":{"name":"f","args":{"n":1.0}}}"#;
    const RESULT: &str = r#"{"functionResponse":{"name":"f"}}"#;

    fn text(text: &str) -> MessagePart {
        MessagePart::Text(text.to_owned())
    }

    fn json(text: &'static str) -> MessagePart {
        MessagePart::Json(Bytes::from_static(text.as_bytes()))
    }

    fn conversation() -> [MessageParts; 3] {
        let (user, model) = (Role::User, Role::Model);
        let with_parts = |role, parts: &[MessagePart]| MessageParts {
            role,
            parts: parts.to_vec(),
        };
        [
            with_parts(user, &[text("quoting "), text(RESULT)]),
            with_parts(model, &[text("calling "), json(CALL), text(" now")]),
            with_parts(user, &[json(RESULT)]),
        ]
    }

    /// Checks the texts that remain of `returned`.
    #[track_caller]
    fn check(returned: &[(Role, String)], expected: &[&str], changes_json: bool) {
        let returned: Vec<Message> = returned
            .iter()
            .map(|(role, content)| Message {
                role: *role,
                content: content.clone(),
            })
            .collect();

        let texts = Texts::new(&conversation(), &returned);

        let remaining: Vec<&str> = texts
            .messages
            .iter()
            .map(|message| message.content.as_str())
            .collect();
        assert_eq!(remaining, expected);
        assert_eq!(texts.changed_json.is_some(), changes_json);
    }

    #[test]
    fn verbatim_json_is_removed() {
        let quote = format!("quoting {RESULT}");
        let call = format!("Calling {CALL} now");
        check(
            &[
                (Role::User, quote.clone()),
                (Role::Model, call),
                (Role::User, RESULT.to_owned()),
            ],
            &[&quote, "Calling  now"],
            false,
        );
    }

    #[test]
    fn equal_json_is_removed_as_often_as_it_was_shown() {
        let shown = [MessageParts {
            role: Role::User,
            parts: vec![json(RESULT), text("a"), json(RESULT)],
        }];
        let content = format!("b {RESULT}{{{RESULT}{RESULT}");
        let returned = [Message {
            role: Role::User,
            content,
        }];

        let texts = Texts::new(&shown, &returned);

        assert_eq!(texts.messages[0].content, format!("b {{{RESULT}"));
        assert!(texts.changed_json.is_none());
    }

    #[test]
    fn many_changed_results_are_read_in_one_pass() {
        let results = (0..20_000).map(|id| {
            format!(r#"{{"functionResponse":{{"name":"f","response":{{"output":"{id}"}}}}}}"#)
        });
        let parts = results.map(|result| MessagePart::Json(result.into()));
        let role = Role::User;
        let shown = MessageParts {
            role,
            parts: parts.collect(),
        };
        let content = shown.to_message().content.replace("output", "[x]");
        let returned = Message { role, content };
        let started = Instant::now();

        let texts = Texts::new(&[shown], std::slice::from_ref(&returned));

        assert!(started.elapsed() < Duration::from_secs(10));
        assert_eq!(texts.messages, [returned]);
        assert!(texts.changed_json.is_some());
    }

    #[test]
    fn json_may_be_moved_within_its_message() {
        check(
            &[(Role::Model, format!("{CALL} was called"))],
            &[" was called"],
            false,
        );
    }

    #[test]
    fn a_conversation_without_text_has_one_empty_message() {
        let rest = [
            (Role::Model, CALL.to_owned()),
            (Role::User, RESULT.to_owned()),
        ];
        check(&rest, &[""], false);
        check(&[(Role::System, "s".to_owned())], &["s"], false);
    }

    #[test]
    fn a_text_beside_a_result_becomes_a_message() {
        let first = format!("quoting {RESULT}");
        let call = format!("calling {CALL} now");
        check(
            &[
                (Role::User, first.clone()),
                (Role::Model, call),
                (Role::User, format!("{RESULT} careful")),
            ],
            &[&first, "calling  now", " careful"],
            false,
        );
    }

    #[test]
    fn changed_json_is_reported_and_becomes_text() {
        let changed = CALL.replace("1.0", "2");
        check(
            &[(Role::Model, format!("calling {changed}"))],
            &[&format!("calling {changed}")],
            true,
        );
    }
}
