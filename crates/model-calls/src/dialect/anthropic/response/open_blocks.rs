//! The blocks of a stream as the agent receives them: numbered without gaps, and without empty
//! texts.

use bytes::BytesMut;
use serde_json::json;

use crate::dialect::{
    anthropic::{
        fields::CITATIONS,
        response::message_event::{CONTENT_BLOCK, MessageEvent},
    },
    document::is_set,
    error::{DialectError, Result},
};

/// Maximum size of the events that wait for a text, and of the text of a block that they wait for.
const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// Kind of an open block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenBlockKind {
    Text,
    Thinking,
    Other,
}

/// A block that the agent has received, or will receive with its first text.
#[derive(Debug)]
struct OutputBlock {
    /// Index of the model's block; `None` for a synthetic one.
    input: Option<u64>,
    output: u64,
    kind: OpenBlockKind,
    /// Start of the block until its first text.
    start: Option<MessageEvent>,
    /// Events behind the start that wait for the text they belong to.
    waiting: Vec<MessageEvent>,
    /// True if a text of the block was blanked.
    is_blanked: bool,
    /// Text of the model that is not written yet: policies hold it back, or hooks have removed it.
    /// Citations wait until it is written.
    unwritten: String,
    /// True if another text was written than the model's. Citations of the block go.
    is_edited: bool,
}

impl OutputBlock {
    const fn new(input: Option<u64>, output: u64, kind: OpenBlockKind) -> Self {
        Self {
            input,
            output,
            kind,
            start: None,
            waiting: Vec::new(),
            is_blanked: false,
            unwritten: String::new(),
            is_edited: false,
        }
    }

    /// Takes the start of the block, without citations if the text is not written whole.
    fn take_start(&mut self) -> Result<Option<MessageEvent>> {
        let mut start = self.start.take();
        let is_whole = !self.is_edited && self.unwritten.is_empty();
        if let Some(event) = start.as_mut().filter(|_| !is_whole) {
            let mut block = event.child(CONTENT_BLOCK)?;
            if is_set(&block, CITATIONS)? {
                block.set(CITATIONS, &json!([]))?;
                event.document.set_child(CONTENT_BLOCK, &block)?;
            }
        }
        Ok(start)
    }

    /// Drops the citations, because the text that they belong to is not that of the model.
    fn drop_citations(&mut self) {
        self.is_edited = true;
        self.unwritten.clear();
        self.waiting.clear();
    }
}

/// The open blocks of a stream.
#[derive(Debug, Default)]
pub struct OpenBlocks {
    blocks: Vec<OutputBlock>,
    next: u64,
    /// Size of the events that wait for a text.
    waiting_bytes: usize,
    /// Text that waits until no other block is open.
    queued: String,
    pub out: BytesMut,
}

impl OpenBlocks {
    /// Opens a block of the model. A text block is written with its first text.
    pub fn start(&mut self, mut event: MessageEvent, kind: OpenBlockKind) -> Result<()> {
        self.close_synthetic()?;
        self.write_waiting()?;
        let (input, output) = (event.index, self.next);
        event.set_index(output)?;
        let mut block = OutputBlock::new(Some(input), output, kind);
        if kind == OpenBlockKind::Text {
            block.start = Some(event);
        } else {
            event.write(&mut self.out);
            self.next += 1;
        }
        self.blocks.push(block);
        Ok(())
    }

    /// Returns the index of the next block, for one that is written whole.
    pub fn allot(&mut self) -> Result<u64> {
        self.close_synthetic()?;
        self.write_waiting()?;
        let index = self.next;
        self.next += 1;
        Ok(index)
    }

    /// Returns kind and index of an open block of the model; `None` if it is withheld.
    pub fn find(&self, input: u64) -> Option<(OpenBlockKind, u64)> {
        let mut blocks = self.blocks.iter();
        let block = blocks.find(|block| block.input == Some(input))?;
        Some((block.kind, block.output))
    }

    fn find_mut(&mut self, input: u64) -> Option<&mut OutputBlock> {
        let mut blocks = self.blocks.iter_mut();
        blocks.find(|block| block.input == Some(input))
    }

    /// Writes an event of an open block. Drops it if the block is withheld, and citations of a
    /// text that was edited. Others wait until the text in front of them is written.
    pub fn write(&mut self, mut event: MessageEvent) -> Result<()> {
        let Some(block) = self.find_mut(event.index) else {
            return Ok(());
        };
        event.set_index(block.output)?;
        if event.is_citation()? {
            if block.is_edited {
                return Ok(());
            }
            if block.start.is_some() || !block.unwritten.is_empty() {
                let bytes = event.document.to_bytes().len();
                block.waiting.push(event);
                return self.count_waiting(bytes);
            }
        }
        self.write_waiting()?;
        event.write(&mut self.out);
        Ok(())
    }

    /// Returns whether a text of a block is not written yet.
    pub fn holds_text(&self, input: u64) -> bool {
        let mut blocks = self.blocks.iter();
        blocks.any(|block| block.input == Some(input) && !block.unwritten.is_empty())
    }

    /// Notes a piece of a text as the model sent it, and as it is written; `None` if it is removed.
    /// Thoughts have no citations.
    pub fn note_text(&mut self, input: u64, read: &str, written: Option<&str>) {
        let block = self.find_mut(input);
        let Some(block) = block.filter(|block| block.kind == OpenBlockKind::Text) else {
            return;
        };
        block.is_blanked |= written.is_none_or(str::is_empty);
        if block.is_edited {
            return;
        }
        block.unwritten.push_str(read);
        let may_follow = block.unwritten.len() <= MAX_WAITING_BYTES;
        let written = written.filter(|written| may_follow && block.unwritten.starts_with(written));
        match written {
            Some(written) => drop(block.unwritten.drain(..written.len())),
            None => block.drop_citations(),
        }
    }

    /// Keeps an event in order behind those that wait. Returns it if none waits.
    pub fn keep_in_order(&mut self, event: MessageEvent) -> Result<Option<MessageEvent>> {
        let Some(block) = self.blocks.last_mut().filter(|block| block.start.is_some()) else {
            return Ok(Some(event));
        };
        let bytes = event.document.to_bytes().len();
        block.waiting.push(event);
        self.count_waiting(bytes)?;
        Ok(None)
    }

    fn count_waiting(&mut self, bytes: usize) -> Result<()> {
        self.waiting_bytes += bytes;
        if self.waiting_bytes > MAX_WAITING_BYTES {
            let message =
                format!("events that wait for a text are larger than {MAX_WAITING_BYTES} bytes");
            return Err(DialectError::Json(message));
        }
        Ok(())
    }

    /// Closes a block of the model. One of which every text was blanked is dropped.
    pub fn stop(&mut self, event: MessageEvent) -> Result<()> {
        let mut blocks = self.blocks.iter();
        let Some(position) = blocks.position(|block| block.input == Some(event.index)) else {
            return Ok(());
        };
        let block = self.blocks.get(position);
        let is_dropped = block.is_some_and(|block| block.is_blanked && block.start.is_some());
        if !is_dropped {
            self.write(event)?;
        }
        self.blocks.remove(position);
        self.write_queued()
    }

    /// Writes a text that is not the model's: to the open text block, or to a new one as soon as
    /// no other is open.
    pub fn write_text(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.queued.push_str(text);
        self.write_queued()
    }

    /// Writes the end of a thought to its open block. Without one, it has lost its place.
    pub fn write_thought(&mut self, text: &str) -> Result<()> {
        let is_open_thought =
            |block: &&OutputBlock| block.input.is_some() && block.kind == OpenBlockKind::Thinking;
        if let Some(block) = self.blocks.iter().rev().find(is_open_thought)
            && !text.is_empty()
        {
            MessageEvent::block_delta(block.output, "thinking_delta", text)?.write(&mut self.out);
        }
        Ok(())
    }

    fn write_queued(&mut self) -> Result<()> {
        if self.queued.is_empty() {
            return Ok(());
        }
        let has_blocks = !self.blocks.is_empty();
        let mut blocks = self.blocks.iter_mut().rev();
        let text = blocks.find(|block| block.kind == OpenBlockKind::Text);
        let output = match text {
            Some(block) => {
                if block.start.is_some() {
                    block.drop_citations();
                }
                block.output
            }
            None if has_blocks => return Ok(()),
            None => {
                let output = self.next;
                let mut block = OutputBlock::new(None, output, OpenBlockKind::Text);
                block.start = Some(MessageEvent::text_start(output)?);
                self.blocks.push(block);
                output
            }
        };
        self.write_waiting()?;
        let text = std::mem::take(&mut self.queued);
        MessageEvent::block_delta(output, "text_delta", &text)?.write(&mut self.out);
        Ok(())
    }

    /// Writes the events that wait for a text, but for those of a text that is not written yet.
    pub fn write_waiting(&mut self) -> Result<()> {
        for block in &mut self.blocks {
            if let Some(start) = block.take_start()? {
                self.next += 1;
                start.write(&mut self.out);
            }
            if block.unwritten.is_empty() {
                for event in block.waiting.drain(..) {
                    event.write(&mut self.out);
                }
            }
        }
        if self.blocks.iter().all(|block| block.waiting.is_empty()) {
            self.waiting_bytes = 0;
        }
        Ok(())
    }

    /// Closes the synthetic block.
    pub fn close_synthetic(&mut self) -> Result<()> {
        if let Some(position) = self.blocks.iter().position(|block| block.input.is_none()) {
            let block = self.blocks.remove(position);
            MessageEvent::block_stop(block.output)?.write(&mut self.out);
        }
        Ok(())
    }

    /// Closes all blocks, and writes what still waits. An empty text block is dropped.
    pub fn close_all(&mut self) -> Result<()> {
        for block in std::mem::take(&mut self.blocks) {
            if block.start.is_none() {
                MessageEvent::block_stop(block.output)?.write(&mut self.out);
            }
        }
        self.write_queued()?;
        self.close_synthetic()
    }
}
