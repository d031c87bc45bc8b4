//! Reads conversations. Agents send all of it again with every request, so the
//! longest start that was read before is neither parsed nor read item by item.

use std::sync::Arc;

use bytes::Bytes;
use moka::{policy::EvictionPolicy, sync::Cache};

use super::{
    Conversation, Fingerprint, Fingerprinter, Item, YieldBudget,
    conversation::FingerprintChain,
    fingerprint::{PrefixHasher, RollingHash},
};
use crate::dialect::{CanonicalItem, DialectError, History, ItemKind, canonical_items};

/// How many bytes of memory the starts of conversations may take.
const MOST: u64 = 64 << 20;

/// About how many bytes a start takes beside its items.
const ENTRY: usize = 300;

/// How many bytes of an id make it one that is hardly given twice.
const DISTINCT_ID: usize = 8;

/// Reads conversations, and keeps those that it read.
#[derive(Debug)]
pub struct ConversationCache {
    /// By the print of their contents' bytes.
    starts: Cache<Fingerprint, Arc<CachedPrefix>>,
}

/// The start of a conversation.
#[derive(Debug)]
struct CachedPrefix {
    items: Box<[Item]>,
    chain: FingerprintChain,
}

/// What is known of one item, wherever it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedItem {
    pub(super) part: usize,
    pub(super) kind: ItemKind,
    pub(super) by_model: bool,
    pub(super) own: OwnHash,
    /// The print of a call's id, if that is hardly given twice.
    pub(super) id: Option<Fingerprint>,
}

/// What an item is known by, alone.
#[derive(Debug, Clone, Copy)]
pub(super) enum OwnHash {
    /// A text, which others may follow.
    Text(RollingHash),
    /// Anything else.
    Other(Fingerprint),
}

impl Default for ConversationCache {
    fn default() -> Self {
        let weigh = |_: &Fingerprint, it: &Arc<CachedPrefix>| {
            let bytes = ENTRY + size_of::<Item>() * it.items.len();
            u32::try_from(bytes).unwrap_or(u32::MAX)
        };
        let starts = Cache::builder().weigher(weigh).max_capacity(MOST);
        // A start is asked for once or twice, and then a longer one.
        let starts = starts.eviction_policy(EvictionPolicy::lru());
        Self {
            starts: starts.build(),
        }
    }
}

impl ConversationCache {
    /// The conversation of a request. A long one that nobody has read before takes
    /// its time; others get their turns in between.
    pub async fn read(
        &self,
        printer: &Fingerprinter,
        caller: &str,
        history: &History,
    ) -> Result<Conversation, DialectError> {
        let prints = prints(printer, caller, history);
        let mut conversation = Conversation::empty(printer, caller);
        let (mut read, mut turns) = (0, YieldBudget::default());
        for (at, print) in prints.iter().enumerate().rev() {
            turns.step().await;
            if let Some(start) = self.starts.get(&print.print()) {
                conversation.items.extend_from_slice(&start.items);
                conversation.chain.clone_from(&start.chain);
                read = at + 1;
                break;
            }
        }
        // An agent may take its last step back, so that what was said before it is
        // kept, too.
        let mut answered = None;
        for (content, bytes) in history.contents().iter().enumerate().skip(read) {
            turns.step().await;
            for mut item in canonical_items(bytes)? {
                item.kind = placed(item.kind, conversation.items.is_empty());
                conversation.push(printer, content, &HashedItem::of(printer, &item));
            }
            if conversation.items.last().is_some_and(|it| it.by_model) {
                answered = Some((
                    content,
                    conversation.items.len(),
                    conversation.chain.clone(),
                ));
            }
        }
        if let Some((content, items, chain)) = answered {
            let items = conversation.items.get(..items).unwrap_or_default();
            self.keep(prints.get(content), items, chain);
        }
        if read < prints.len() {
            let chain = conversation.chain.clone();
            self.keep(prints.last(), &conversation.items, chain);
        }
        Ok(conversation)
    }

    fn keep(&self, prints: Option<&PrefixHasher>, items: &[Item], chain: FingerprintChain) {
        if let Some(prints) = prints {
            let items = items.into();
            let start = Arc::new(CachedPrefix { items, chain });
            self.starts.insert(prints.print(), start);
        }
    }
}

/// What an item is in its place: gemini-cli tells of itself before all else, and
/// once.
const fn placed(kind: ItemKind, is_first: bool) -> ItemKind {
    match kind {
        ItemKind::Introduction if !is_first => ItemKind::Text,
        kind => kind,
    }
}

/// For each content all bytes up to its end. Few of the prints are asked for.
fn prints(printer: &Fingerprinter, caller: &str, history: &History) -> Vec<PrefixHasher> {
    let mut prints = printer.prints();
    prints.push(caller.as_bytes());
    let next = |content: &Bytes| {
        prints.push(content);
        prints.clone()
    };
    history.contents().iter().map(next).collect()
}

impl HashedItem {
    pub(super) fn of(printer: &Fingerprinter, item: &CanonicalItem) -> Self {
        let own = match item.kind {
            ItemKind::Text | ItemKind::Introduction => OwnHash::Text(printer.piece(&item.text)),
            ItemKind::Call | ItemKind::Result | ItemKind::Other => {
                OwnHash::Other(printer.print(&(item.kind, item.by_model, &item.text)))
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
    pub(super) fn empty(printer: &Fingerprinter, caller: &str) -> Self {
        Self {
            items: Vec::new(),
            chain: FingerprintChain::new(printer, caller),
        }
    }

    fn push(&mut self, printer: &Fingerprinter, content: usize, known: &HashedItem) {
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
