//! A chunk of an answer in which the model says texts, and nothing else that
//! anybody would judge: most chunks of most streams. It is read off the layout of
//! its JSON, and no document is made of it. Pure.

use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;

use super::{
    AnswerEditor, Channel, Counted, Rest, TextStream,
    json::{self, Wrapping},
};
use strict_json::{Layout, string_end};

/// A chunk in which the first candidate says texts, and nothing else.
#[derive(Debug, Clone)]
pub struct Words {
    /// INVARIANT: one JSON object that means one thing.
    bytes: Bytes,
    said: Said,
}

/// What a chunk of words says.
#[derive(Debug, Clone, Default)]
struct Said {
    texts: Vec<Text>,
    /// Where the model is named, without quotes.
    model: Option<Range<usize>>,
    /// Where it is told what was counted.
    usage: Option<Range<usize>>,
}

/// A text, or a thought.
#[derive(Debug, Clone)]
struct Text {
    /// Where it stands, in quotes.
    place: Range<usize>,
    /// What it says, without escapes.
    says: String,
    is_thought: bool,
    is_edited: bool,
}

impl Words {
    /// Reads a chunk; gives it back if it says anything else, or cannot be read.
    /// `last` are words that stood in the same wrapping.
    ///
    /// INVARIANT: what cannot be read never passes. A chunk that is taken for words
    /// was checked as every document is, each of its keys is to the letter one that
    /// is listed here, and what stands under it is of the kind that it must be. So
    /// there is nothing in it that a document would show, or refuse, beside texts,
    /// the model's name and what was counted.
    pub(super) fn read(
        bytes: Bytes,
        wrapping: Wrapping,
        last: Option<&Self>,
    ) -> Result<Self, Bytes> {
        let alike = last.and_then(|it| it.said_by_one_alike(&bytes));
        match alike.or_else(|| laid_out(&bytes, wrapping)) {
            Some(said) => Ok(Self { bytes, said }),
            None => Err(bytes),
        }
    }

    /// What a chunk says that differs from this one in its only text, and in nothing
    /// else: one string that means one thing stands in the place of another, so that
    /// all that was found out about this chunk is true of it.
    fn said_by_one_alike(&self, bytes: &[u8]) -> Option<Said> {
        let [text] = self.said.texts.as_slice() else {
            return None;
        };
        let (start, old_end) = (text.place.start, text.place.end);
        let (before, rest) = bytes.split_at_checked(start)?;
        if before != self.bytes.get(..start)? {
            return None;
        }
        let end = start + string_end(rest)?;
        if bytes.get(end..)? != self.bytes.get(old_end..)? {
            return None;
        }
        let moved = |it: &Range<usize>| {
            let behind = it.start >= old_end;
            let moved = |at: usize| if behind { at - old_end + end } else { at };
            moved(it.start)..moved(it.end)
        };
        Some(Said {
            texts: vec![Text::read(bytes, start..end, text.is_thought)?],
            model: self.said.model.as_ref().map(moved),
            usage: self.said.usage.as_ref().map(moved),
        })
    }

    /// The model that answered, as upstream names it.
    pub fn model(&self) -> Option<&str> {
        let name = self.bytes.get(self.said.model.clone()?)?;
        std::str::from_utf8(name).ok()
    }

    /// What was counted.
    pub fn usage(&self) -> Option<Counted> {
        let usage = self.said.usage.clone()?;
        Some(Counted(self.bytes.slice(usage)))
    }

    /// Its texts in order, thoughts left out.
    pub fn plain_texts(&self) -> impl Iterator<Item = &str> {
        let plain = self.said.texts.iter().filter(|it| !it.is_thought);
        plain.map(|it| it.says.as_str())
    }

    /// Lets `editor` edit every text. More may come of each.
    pub fn edit_texts(&mut self, editor: &mut dyn AnswerEditor) {
        for text in &mut self.said.texts {
            let channel = Channel {
                candidate: 0,
                stream: if text.is_thought {
                    TextStream::Thought
                } else {
                    TextStream::Speech
                },
            };
            if let Some(new) = editor.piece(&channel, &text.says, Rest::MayCome) {
                text.says = new;
                text.is_edited = true;
            }
        }
    }

    /// Whether it differs from what it came as.
    pub fn is_edited(&self) -> bool {
        self.said.texts.iter().any(|it| it.is_edited)
    }

    /// As it goes out: the bytes it came as, but for edited texts.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited() {
            return self.bytes.clone();
        }
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut done = 0;
        for text in self.said.texts.iter().filter(|it| it.is_edited) {
            out.extend(self.bytes.get(done..text.place.start).unwrap_or_default());
            out.extend(Value::from(text.says.as_str()).to_string().as_bytes());
            done = text.place.end;
        }
        out.extend(self.bytes.get(done..).unwrap_or_default());
        out.into()
    }
}

impl Text {
    fn read(bytes: &[u8], place: Range<usize>, is_thought: bool) -> Option<Self> {
        Some(Self {
            says: json::string(bytes.get(place.clone())?).ok()?,
            place,
            is_thought,
            is_edited: false,
        })
    }
}

/// What a chunk says, if it is nothing but words.
fn laid_out(bytes: &[u8], wrapping: Wrapping) -> Option<Said> {
    let layout = json::lay_out_answer(bytes, wrapping).ok()?;
    let mut reader = Reader {
        bytes,
        layout: &layout,
        said: Said::default(),
    };
    match wrapping {
        Wrapping::None => reader.answer(0)?,
        Wrapping::Response => reader.envelope(0)?,
    }
    Some(reader.said)
}

/// Goes through a layout. Each step gives up at what is no part of words.
struct Reader<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
    said: Said,
}

impl<'a> Reader<'a> {
    /// What stands around an answer.
    fn envelope(&mut self, number: usize) -> Option<()> {
        self.object(number, |it, key, value| match key {
            br#""response""# => it.answer(value),
            br#""traceId""# => Some(()),
            _ => None,
        })
    }

    fn answer(&mut self, number: usize) -> Option<()> {
        self.object(number, |it, key, value| match key {
            br#""candidates""# => it.only(value, Self::candidate),
            br#""modelVersion""# => {
                let place = it.plain(value)?;
                it.said.model = Some(place);
                Some(())
            }
            br#""usageMetadata""# => {
                it.said.usage = it.layout.place(value);
                it.begins(value, b'{')
            }
            br#""responseId""# | br#""createTime""# => it.begins(value, b'"'),
            _ => None,
        })
    }

    /// Candidates that are given no number are counted, from zero.
    fn candidate(&mut self, number: usize) -> Option<()> {
        self.object(number, |it, key, value| match key {
            br#""content""# => it.content(value),
            br#""index""# => (it.text(value)? == b"0").then_some(()),
            br#""safetyRatings""# | br#""avgLogprobs""# | br#""tokenCount""# => Some(()),
            _ => None,
        })
    }

    fn content(&mut self, number: usize) -> Option<()> {
        self.object(number, |it, key, value| match key {
            br#""parts""# => it.each(value, Self::part),
            br#""role""# => it.begins(value, b'"'),
            _ => None,
        })
    }

    fn part(&mut self, number: usize) -> Option<()> {
        let (mut text, mut is_thought) = (None, false);
        self.object(number, |it, key, value| match key {
            br#""text""# => {
                text = Some(it.layout.place(value)?);
                it.begins(value, b'"')
            }
            br#""thought""# => {
                is_thought = it.text(value)? == b"true";
                (is_thought || it.text(value)? == b"false").then_some(())
            }
            br#""thoughtSignature""# => it.begins(value, b'"'),
            _ => None,
        })?;
        if let Some(place) = text {
            let text = Text::read(self.bytes, place, is_thought)?;
            self.said.texts.push(text);
        }
        Some(())
    }

    /// The fields of an object, by their keys in quotes.
    fn object(
        &mut self,
        number: usize,
        mut each: impl FnMut(&mut Self, &'a [u8], usize) -> Option<()>,
    ) -> Option<()> {
        self.begins(number, b'{')?;
        let (layout, bytes) = (self.layout, self.bytes);
        for value in layout.within(number)? {
            each(self, bytes.get(layout.key(value)?)?, value)?;
        }
        Some(())
    }

    /// The elements of an array.
    fn each(
        &mut self,
        number: usize,
        mut each: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        self.begins(number, b'[')?;
        let layout = self.layout;
        for value in layout.within(number)? {
            each(self, value)?;
        }
        Some(())
    }

    /// The one element of an array.
    fn only(
        &mut self,
        number: usize,
        each: impl FnMut(&mut Self, usize) -> Option<()>,
    ) -> Option<()> {
        let layout = self.layout;
        (layout.within(number)?.count() == 1).then_some(())?;
        self.each(number, each)
    }

    /// A string without escapes: where it stands, without quotes.
    fn plain(&self, number: usize) -> Option<Range<usize>> {
        let place = self.layout.place(number)?;
        let [b'"', plain @ .., b'"'] = self.bytes.get(place.clone())? else {
            return None;
        };
        let is_plain = memchr::memchr(b'\\', plain).is_none();
        is_plain.then_some(place.start + 1..place.end - 1)
    }

    fn begins(&self, number: usize, first: u8) -> Option<()> {
        (self.text(number)?.first() == Some(&first)).then_some(())
    }

    fn text(&self, number: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.layout.place(number)?)
    }
}

#[cfg(test)]
mod tests;
