//! `terminai`: the protocol of `TerminaI`. Hooks see the JSON of what is not text
//! inside of `content`, and context stands in the conversation as it is.

use bytes::Bytes;
use serde_json::{json, value::RawValue};

use super::{Protocol, input};
use crate::{
    event::{Added, Answer, Context, Diagnostic, DiagnosticCode, Event},
    model::{LlmRequest, Message, WholeMessage, align},
};

#[derive(Debug)]
pub(super) struct Terminai;

impl Protocol for Terminai {
    fn name(&self) -> &'static str {
        "terminai"
    }

    fn shows_whole_messages(&self) -> bool {
        true
    }

    fn write(&self, context: &Context, event: Event<'_>, document: Option<&RawValue>) -> Bytes {
        let Some(request) = event.llm_request() else {
            return input::write(context, event, document);
        };
        let shown = LlmRequest {
            messages: whole(request).iter().map(WholeMessage::shown).collect(),
            ..request.clone()
        };
        input::write_with(context, event, document, [("llm_request", json!(shown))])
    }

    fn interpret(&self, answer: &mut Answer, event: Event<'_>) {
        let output = &mut answer.output;
        let context = output.additional_context();
        let context = context.map(|it| Added::Raw(it.to_owned()));
        output.meaning.added = context.into_iter().collect();

        let mut edit = output.request_edit();
        if let (Some(request), Some(returned)) = (event.llm_request(), edit.messages()) {
            let texts = Texts::of(&whole(request), &returned);
            if texts.messages == request.messages {
                edit.fields.shift_remove("messages");
            } else {
                edit.fields
                    .insert("messages".to_owned(), json!(texts.messages));
            }
            output.meaning.llm_request = Some(edit.fields);
            answer.diagnostics.extend(texts.changed_json);
        }
    }
}

fn whole(request: &LlmRequest) -> Vec<WholeMessage> {
    if request.whole.is_empty() {
        return request.messages.iter().map(WholeMessage::from).collect();
    }
    request.whole.clone()
}

/// The texts of the messages that a hook returned.
#[derive(Debug)]
struct Texts {
    messages: Vec<Message>,
    /// The hook tried to change what is not text.
    changed_json: Option<Diagnostic>,
}

impl Texts {
    fn of(shown: &[WholeMessage], returned: &[Message]) -> Self {
        let contents: Vec<Message> = shown.iter().map(WholeMessage::shown).collect();
        let mut sources: Vec<Option<&WholeMessage>> = vec![None; returned.len()];
        for (source, kept) in shown.iter().zip(align(&contents, returned).kept) {
            if let Some(slot) = kept.and_then(|it| sources.get_mut(it)) {
                *slot = Some(source);
            }
        }
        let mut texts = Self {
            messages: Vec::new(),
            changed_json: None,
        };
        for (message, source) in returned.iter().zip(sources) {
            let content = match source {
                Some(source) if source.shown().content == message.content => source.text(),
                Some(source) => texts.without_json(source, &message.content),
                None => message.content.clone(),
            };
            let role = message.role;
            if !content.is_empty() {
                texts.messages.push(Message { role, content });
            }
        }
        texts
    }

    /// Cuts each JSON text out, once, where it stands verbatim.
    fn without_json(&mut self, source: &WholeMessage, content: &str) -> String {
        let mut text = content.to_owned();
        for json in source.json() {
            if !text.contains(json) {
                let kept = "messages: only text can be changed; the rest stays as it is";
                self.changed_json = Some(DiagnosticCode::EditDropped.with(kept));
            }
            text = text.replacen(json, "", 1);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Piece, Role};

    const CALL: &str = r#"{"functionCall":{"name":"f","args":{"n":1.0}}}"#;
    const RESULT: &str = r#"{"functionResponse":{"name":"f"}}"#;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn json(text: &'static str) -> Piece {
        Piece::Json(Bytes::from_static(text.as_bytes()))
    }

    fn talk() -> [WholeMessage; 3] {
        let (user, model) = (Role::User, Role::Model);
        let whole = |role, pieces: &[Piece]| WholeMessage {
            role,
            pieces: pieces.to_vec(),
        };
        [
            whole(user, &[text("quoting "), text(RESULT)]),
            whole(model, &[text("calling "), json(CALL), text(" now")]),
            whole(user, &[json(RESULT)]),
        ]
    }

    /// What is left of `returned` by role and text.
    #[track_caller]
    fn check(returned: &[(Role, String)], expected: &[&str], tried: bool) {
        let returned: Vec<Message> = returned
            .iter()
            .map(|(role, content)| Message {
                role: *role,
                content: content.clone(),
            })
            .collect();

        let texts = Texts::of(&talk(), &returned);

        let left: Vec<&str> = texts
            .messages
            .iter()
            .map(|it| it.content.as_str())
            .collect();
        assert_eq!(left, expected);
        assert_eq!(texts.changed_json.is_some(), tried);
    }

    #[test]
    fn json_is_cut_out_where_it_stands_verbatim() {
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
    fn json_may_be_moved_about_in_its_message() {
        check(
            &[(Role::Model, format!("{CALL} was called"))],
            &[" was called"],
            false,
        );
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
    fn json_that_was_changed_is_told_and_stands_as_text() {
        let changed = CALL.replace("1.0", "2");
        check(
            &[(Role::Model, format!("calling {changed}"))],
            &[&format!("calling {changed}")],
            true,
        );
    }
}
