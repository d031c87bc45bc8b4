//! The conversation in a request: contents to messages, and edited messages back to
//! contents (hook protocol, section 6).

use bytes::Bytes;

use crate::{
    dialect::{
        document::Document,
        error::Result,
        google::{
            content::{Content, text_content},
            fields::{FUNCTION_CALL, FUNCTION_RESPONSE},
            part::Part,
            part_text::prompt_texts,
        },
    },
    model::{Message, MessageParts, Role, align},
};

/// The contents of a request.
#[derive(Debug, Default)]
pub struct Contents {
    items: Vec<Content>,
}

impl Contents {
    /// Reads a list of contents.
    ///
    /// # Errors
    ///
    /// Fails if a field has the wrong type, since hooks could not see its text.
    pub fn read(list: Vec<Document>) -> Result<Self> {
        let items = list.into_iter().map(Content::read);
        Ok(Self {
            items: items.collect::<Result<_, _>>()?,
        })
    }

    /// Returns one message for each content with text.
    pub fn messages(&self) -> Vec<Message> {
        self.items.iter().filter_map(Content::message).collect()
    }

    /// Returns the user's texts after the model's last content. Contents of the model
    /// behind the user's last one are ignored: an agent put them there itself. Introductions
    /// before the first prompt are omitted, unless they are all there is.
    ///
    /// # Errors
    ///
    /// Fails if a part is ambiguous.
    pub fn new_prompt(&self) -> Result<Vec<String>> {
        let is_by_model = |content: &Content| content.role() == Role::Model;
        let last_by_user = self.items.iter().rposition(|content| !is_by_model(content));
        let asked = self.items.get(..=last_by_user.unwrap_or(0));
        let asked = asked.unwrap_or_default();
        let start = asked.iter().rposition(is_by_model).map_or(0, |at| at + 1);
        let contents = asked.iter().skip(start);
        let parts: Vec<&Part> = contents.flat_map(|content| &content.parts).collect();
        let introductions = parts.iter().take_while(|part| part.is_introduction());
        let prompt = parts.get(introductions.count()..).unwrap_or_default();
        let mut texts = prompt.iter().filter_map(|part| part.text.as_ref());
        let has_prompt = start == 0 && texts.any(|text| !text.trim().is_empty());
        let asked = if has_prompt { prompt } else { &parts };
        prompt_texts(asked)
    }

    /// Returns every content with what is not text. Thoughts are omitted.
    pub fn whole(&self) -> Vec<MessageParts> {
        let all = self.items.iter().map(Content::whole);
        all.filter(|message| !message.parts.is_empty()).collect()
    }

    /// Returns whether contents are left if all text is removed.
    pub fn has_more_than_text(&self) -> bool {
        self.items.iter().any(|content| {
            let mut texts = content.parts.iter().map(|part| content.shown_text(part));
            texts.clone().any(|text| text.is_none()) || texts.all(|text| text == Some(""))
        })
    }

    /// Appends a text to the user's last content, or a new content if there is none.
    pub fn append_text(&mut self, text: &str) -> Result<()> {
        let mut items = self.items.iter_mut().rev();
        if let Some(last) = items.find(|content| content.role() == Role::User) {
            let mut parts = last.parts.clone();
            parts.push(Part::from_text(text)?);
            *last = last.with_parts(parts)?;
            return Ok(());
        }
        let content = Content::from_bytes(text_content(Role::User, text))?;
        self.items.push(content);
        Ok(())
    }

    /// Returns the JSON of each content. Unedited ones keep their bytes.
    pub fn elements(&self) -> Vec<Bytes> {
        let documents = self.items.iter().map(|content| &content.document);
        documents.map(Document::to_bytes).collect()
    }

    /// Applies the messages that hooks returned, without `system` ones. Returns `false`
    /// and changes nothing if no content would be left.
    pub fn write(&mut self, returned: &[Message]) -> Result<bool> {
        let mut kept = align(&self.messages(), returned).into_iter();
        let mut writer = ContentsWriter {
            returned,
            ..ContentsWriter::default()
        };
        for content in &self.items {
            match content.message() {
                None => writer.push(content.clone()),
                Some(old) => writer.push_shown(content, &old, kept.next().flatten())?,
            }
        }
        let written = writer.finish()?;
        if written.is_empty() {
            return Ok(false);
        }
        self.items = written;
        Ok(true)
    }

    /// Applies the messages that hooks returned, with as many contents as before: one whose text
    /// was deleted has an empty text. Returns `false` if messages have no content, and are left
    /// out.
    pub fn write_in_place(&mut self, returned: &[Message]) -> Result<bool> {
        let kept = align(&self.messages(), returned);
        let is_complete = kept.iter().flatten().count() == returned.len();
        let mut kept = kept.into_iter();
        for content in &mut self.items {
            let Some(old) = content.message() else {
                continue;
            };
            let new = kept.next().flatten().and_then(|index| returned.get(index));
            let text = new.map_or("", |new| &new.content);
            if text != old.content {
                *content = content.with_text(text)?;
            }
        }
        Ok(is_complete)
    }
}

/// Writes the new list of contents from start to end.
#[derive(Debug, Default)]
struct ContentsWriter<'a> {
    returned: &'a [Message],
    /// Index of the first returned message without a position.
    next: usize,
    /// Inserted contents that wait for a position.
    pending: Vec<Content>,
    written: Vec<Content>,
}

impl ContentsWriter<'_> {
    /// Adds a content that was shown as `old` and returned at index `new`.
    fn push_shown(&mut self, content: &Content, old: &Message, new: Option<usize>) -> Result<()> {
        let Some(index) = new else {
            return self.push_without_text(content);
        };
        self.insert_until(index)?;
        self.next = index + 1;
        match self.returned.get(index) {
            Some(new) if new.content.is_empty() => self.push_without_text(content)?,
            Some(new) if new.content != old.content => self.push(content.with_text(&new.content)?),
            Some(_) | None => self.push(content.clone()),
        }
        Ok(())
    }

    /// Adds what is left of a content whose text was deleted.
    fn push_without_text(&mut self, content: &Content) -> Result<()> {
        if let Some(content) = content.without_text()? {
            self.push(content);
        }
        Ok(())
    }

    fn insert_until(&mut self, index: usize) -> Result<()> {
        let inserted = self
            .returned
            .get(self.next..index)
            .unwrap_or_default()
            .iter();
        for message in inserted.filter(|message| !message.content.is_empty()) {
            let content = text_content(message.role, &message.content);
            self.pending.push(Content::from_bytes(content)?);
        }
        Ok(())
    }

    /// INVARIANT: nothing is inserted between a functionCall and its functionResponse.
    fn push(&mut self, content: Content) {
        let last = self.written.last();
        let follows_call = last.is_some_and(|last| last.has(FUNCTION_CALL));
        if !(follows_call && content.has(FUNCTION_RESPONSE)) {
            self.written.append(&mut self.pending);
        }
        self.written.push(content);
    }

    fn finish(mut self) -> Result<Vec<Content>> {
        self.insert_until(self.returned.len())?;
        self.written.append(&mut self.pending);
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests;
