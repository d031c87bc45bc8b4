//! Reads conversations. A content that was read before is neither parsed nor
//! hashed item by item again.

use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;

use super::{Conversation, Item, Print, Printer, conversation::Chain, print::Piece};
use crate::dialect::{CanonicalItem, DialectError, History, ItemKind, canonical_items};

/// How many bytes of memory contents that were read may take.
const MOST: u64 = 64 << 20;

/// How many bytes of an id make it one that is hardly given twice.
const DISTINCT_ID: usize = 8;

/// Reads conversations, and keeps what it knows of contents.
#[derive(Debug)]
pub struct Reader {
    contents: Cache<Print, Arc<[Known]>>,
}

/// What is known of one item, wherever it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) part: usize,
    pub(super) kind: ItemKind,
    pub(super) by_model: bool,
    pub(super) own: Own,
    /// The print of a call's id, if that is hardly given twice.
    pub(super) id: Option<Print>,
}

/// What an item is known by, alone.
#[derive(Debug, Clone, Copy)]
pub(super) enum Own {
    /// A text, which others may follow.
    Text(Piece),
    /// Anything else.
    Other(Print),
}

impl Default for Reader {
    fn default() -> Self {
        let weigh = |_: &Print, it: &Arc<[Known]>| {
            let bytes = ENTRY + size_of::<Known>() * it.len();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let contents = Cache::builder().weigher(weigh).max_capacity(MOST);
        Self {
            contents: contents.build(),
        }
    }
}

/// About how many bytes an entry takes beside its items.
const ENTRY: usize = 200;

impl Reader {
    /// The conversation of a request.
    pub fn read(
        &self,
        printer: &Printer,
        caller: &str,
        history: &History,
    ) -> Result<Conversation, DialectError> {
        let mut conversation = Conversation::empty(printer, caller);
        for (content, bytes) in history.contents().iter().enumerate() {
            for known in self.known(printer, bytes)?.iter() {
                conversation.push(printer, content, known);
            }
        }
        Ok(conversation)
    }

    fn known(&self, printer: &Printer, content: &Bytes) -> Result<Arc<[Known]>, DialectError> {
        let print = printer.print(&content.as_ref());
        if let Some(known) = self.contents.get(&print) {
            return Ok(known);
        }
        let items = canonical_items(content)?;
        let known: Arc<[Known]> = items.iter().map(|it| Known::of(printer, it)).collect();
        self.contents.insert(print, Arc::clone(&known));
        Ok(known)
    }
}

impl Known {
    pub(super) fn of(printer: &Printer, item: &CanonicalItem) -> Self {
        let own = match item.kind {
            ItemKind::Text | ItemKind::Introduction => Own::Text(printer.piece(&item.text)),
            ItemKind::Call | ItemKind::Result | ItemKind::Other => {
                Own::Other(printer.print(&(item.kind, item.by_model, &item.text)))
            }
        };
        let id = item.id.as_deref().filter(|_| item.kind == ItemKind::Call);
        let id = id.map(plain_id).filter(|it| it.len() >= DISTINCT_ID);
        Self {
            part: item.part,
            kind: item.kind,
            by_model: item.by_model,
            own,
            id: id.map(|it| printer.print(&it)),
        }
    }
}

/// In helper calls gemini-cli writes the tool's name in front of an id.
fn plain_id(id: &str) -> &str {
    id.rsplit_once("__").map_or(id, |it| it.1)
}

impl Conversation {
    /// One in which nothing was said.
    pub(super) fn empty(printer: &Printer, caller: &str) -> Self {
        Self {
            items: Vec::new(),
            chain: Chain::new(printer, caller),
        }
    }

    fn push(&mut self, printer: &Printer, content: usize, known: &Known) {
        let link = self.chain.push(printer, known);
        match self.items.last_mut() {
            Some(item) if link.joins => {
                item.last_content = content;
                item.state = link.state;
                item.own = link.own;
                item.mark = link.mark;
            }
            Some(_) | None => self.items.push(Item {
                content,
                part: known.part,
                last_content: content,
                kind: known.kind,
                by_model: known.by_model,
                state: link.state,
                own: link.own,
                mark: link.mark,
            }),
        }
    }
}
