//! A message with all that it carries: texts, and the JSON of everything else.
//! For hooks that are shown more than text.

use bytes::Bytes;

use super::{Message, Role, align};

/// One turn of the conversation, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeMessage {
    /// Who speaks.
    pub role: Role,
    /// What they say, in order. Never empty.
    pub pieces: Vec<Piece>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A text.
    Text(String),
    /// The JSON of a call, a result or a medium, as it is on the wire.
    Json(Bytes),
}

impl From<&Message> for WholeMessage {
    fn from(message: &Message) -> Self {
        Self {
            role: message.role,
            pieces: vec![Piece::Text(message.content.clone())],
        }
    }
}

impl WholeMessage {
    /// Its texts alone, joined.
    pub fn text(&self) -> String {
        let texts = self.pieces.iter().filter_map(|it| match it {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Json(_) => None,
        });
        texts.collect()
    }

    /// All of it as one text.
    pub fn shown(&self) -> Message {
        let mut content = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => content.push_str(text),
                Piece::Json(json) => content.push_str(&String::from_utf8_lossy(json)),
            }
        }
        let role = self.role;
        Message { role, content }
    }

    /// The JSON texts, in order.
    pub fn json(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|it| match it {
            Piece::Text(_) => None,
            Piece::Json(json) => std::str::from_utf8(json).ok(),
        })
    }

    /// Another text where its first one stands; none if `text` is `None`. If
    /// nothing is left, neither is the message.
    fn saying(&self, text: Option<&str>) -> Option<Self> {
        let mut text = text;
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            match piece {
                Piece::Json(_) => pieces.push(piece.clone()),
                Piece::Text(_) => pieces.extend(text.take().map(|it| Piece::Text(it.to_owned()))),
            }
        }
        let role = self.role;
        (!pieces.is_empty()).then_some(Self { role, pieces })
    }
}

/// The whole conversation after its messages changed from `old` to `new`; an
/// empty one says nothing.
pub(super) fn follow(
    whole: &[WholeMessage],
    old: &[Message],
    new: &[Message],
) -> Vec<WholeMessage> {
    let mut kept = align(old, new).kept.into_iter();
    let mut followed = Vec::new();
    let mut next = 0;
    for message in whole {
        if message.text().is_empty() {
            followed.push(message.clone());
            continue;
        }
        let Some(at) = kept.next().flatten() else {
            followed.extend(message.saying(None));
            continue;
        };
        followed.extend(inserted(new.get(next..at)));
        match new.get(at).map(|it| it.content.as_str()) {
            Some(content) if content != message.text() => {
                let text = Some(content).filter(|it| !it.is_empty());
                followed.extend(message.saying(text));
            }
            Some(_) | None => followed.push(message.clone()),
        }
        next = at + 1;
    }
    if !whole.is_empty() {
        followed.extend(inserted(new.get(next..)));
    }
    followed
}

fn inserted(new: Option<&[Message]>) -> impl Iterator<Item = WholeMessage> {
    let new = new.into_iter().flatten();
    new.filter(|it| !it.content.is_empty())
        .map(WholeMessage::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn call() -> Piece {
        Piece::Json(Bytes::from_static(br#"{"functionCall":{}}"#))
    }

    fn whole(role: Role, pieces: &[Piece]) -> WholeMessage {
        let pieces = pieces.to_vec();
        WholeMessage { role, pieces }
    }

    fn said(role: Role, content: &str) -> Message {
        let content = content.to_owned();
        Message { role, content }
    }

    #[test]
    fn what_is_not_text_stays_where_it_was() {
        let talk = [
            whole(Role::User, &[text("a"), text("b")]),
            whole(Role::Model, &[text("c"), call(), text("d")]),
            whole(Role::User, &[call()]),
        ];
        let old = [said(Role::User, "ab"), said(Role::Model, "cd")];
        let new = [
            said(Role::User, "new"),
            said(Role::User, "ab"),
            said(Role::Model, "x"),
        ];

        let followed = follow(&talk, &old, &new);

        let expected = [
            whole(Role::User, &[text("new")]),
            talk[0].clone(),
            whole(Role::Model, &[text("x"), call()]),
            talk[2].clone(),
        ];
        assert_eq!(followed, expected);
        assert_eq!(
            follow(&talk, &old, &old[..1]),
            [
                talk[0].clone(),
                whole(Role::Model, &[call()]),
                talk[2].clone()
            ]
        );
    }
}
