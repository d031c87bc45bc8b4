//! A message with its texts and the JSON of its other parts, for hooks that are
//! shown more than text (`terminai`).

use bytes::Bytes;

use super::{
    message::{Message, Role},
    message_diff::align,
};

/// One turn of the conversation with all of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageParts {
    /// Author of the message.
    pub role: Role,
    /// In order; never empty.
    pub parts: Vec<MessagePart>,
}

/// A text, or the JSON of another part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessagePart {
    /// Text that hooks may change.
    Text(String),
    /// JSON of a function call, a function response or media, without white space between tokens.
    Json(Bytes),
}

impl From<&Message> for MessageParts {
    fn from(message: &Message) -> Self {
        Self {
            role: message.role,
            parts: vec![MessagePart::Text(message.content.clone())],
        }
    }
}

impl MessageParts {
    /// Returns the text parts, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            MessagePart::Json(_) => None,
        });
        texts.collect()
    }

    /// Returns all parts as one text message.
    pub fn to_message(&self) -> Message {
        let mut content = String::new();
        for part in &self.parts {
            match part {
                MessagePart::Text(text) => content.push_str(text),
                MessagePart::Json(json) => content.push_str(&String::from_utf8_lossy(json)),
            }
        }
        let role = self.role;
        Message { role, content }
    }

    /// Returns the JSON texts, in order.
    pub fn json_parts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(_) => None,
            MessagePart::Json(json) => std::str::from_utf8(json).ok(),
        })
    }

    /// Replaces the first text part by `text` and drops the others; `None` if no
    /// part is left.
    fn with_text(&self, mut text: Option<&str>) -> Option<Self> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            match part {
                MessagePart::Json(_) => parts.push(part.clone()),
                MessagePart::Text(_) => {
                    parts.extend(text.take().map(|text| MessagePart::Text(text.to_owned())));
                }
            }
        }
        let role = self.role;
        (!parts.is_empty()).then_some(Self { role, parts })
    }
}

/// Applies a change of the text messages from `old` to `new` to the messages
/// with all parts. An empty conversation stays empty.
pub(super) fn update(
    conversation: &[MessageParts],
    old: &[Message],
    new: &[Message],
) -> Vec<MessageParts> {
    let mut aligned = align(old, new).into_iter();
    let mut updated = Vec::new();
    let mut next = 0;
    for message in conversation {
        if message.text().is_empty() {
            updated.push(message.clone());
            continue;
        }
        let Some(index) = aligned.next().flatten() else {
            updated.extend(message.with_text(None));
            continue;
        };
        updated.extend(inserted(new.get(next..index)));
        match new.get(index).map(|message| message.content.as_str()) {
            Some(content) if content != message.text() => {
                let text = Some(content).filter(|text| !text.is_empty());
                updated.extend(message.with_text(text));
            }
            Some(_) | None => updated.push(message.clone()),
        }
        next = index + 1;
    }
    if !conversation.is_empty() {
        updated.extend(inserted(new.get(next..)));
    }
    updated
}

fn inserted(new: Option<&[Message]>) -> impl Iterator<Item = MessageParts> {
    let new = new.into_iter().flatten();
    new.filter(|message| !message.content.is_empty())
        .map(MessageParts::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> MessagePart {
        MessagePart::Text(text.to_owned())
    }

    fn call() -> MessagePart {
        MessagePart::Json(Bytes::from_static(br#"{"functionCall":{}}"#))
    }

    fn with_parts(role: Role, parts: &[MessagePart]) -> MessageParts {
        let parts = parts.to_vec();
        MessageParts { role, parts }
    }

    fn message(role: Role, content: &str) -> Message {
        let content = content.to_owned();
        Message { role, content }
    }

    #[test]
    fn parts_that_are_not_text_keep_their_position() {
        let conversation = [
            with_parts(Role::User, &[text("a"), text("b")]),
            with_parts(Role::Model, &[text("c"), call(), text("d")]),
            with_parts(Role::User, &[call()]),
        ];
        let old = [message(Role::User, "ab"), message(Role::Model, "cd")];
        let new = [
            message(Role::User, "new"),
            message(Role::User, "ab"),
            message(Role::Model, "x"),
        ];

        let updated = update(&conversation, &old, &new);

        let expected = [
            with_parts(Role::User, &[text("new")]),
            conversation[0].clone(),
            with_parts(Role::Model, &[text("x"), call()]),
            conversation[2].clone(),
        ];
        assert_eq!(updated, expected);
        assert_eq!(
            update(&conversation, &old, &old[..1]),
            [
                conversation[0].clone(),
                with_parts(Role::Model, &[call()]),
                conversation[2].clone()
            ]
        );
    }
}
