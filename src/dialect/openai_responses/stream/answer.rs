//! State of an answer while it is written.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::dialect::{
    document::Document,
    openai_responses::{
        chunk_view::ChunkView,
        response::{item::ItemSlot, object::NewIds},
        stream::{
            event::StreamEvent, open_items::OpenItem, piece::WrittenPiece, sender::EventSender,
        },
    },
};

/// Writes the chunks of one answer, which may consist of several responses of the model.
#[derive(Debug, Default)]
pub struct EventWriter {
    pub(super) sender: EventSender,
    /// The response object with which the stream began.
    pub(super) response: Option<Document>,
    pub(super) ids: NewIds,
    /// True if a further response of the model continues the stream.
    pub(super) is_continued: bool,
    /// Output indexes as sent, by those of the model's current response.
    pub(super) indexes: HashMap<u64, u64>,
    pub(super) next_index: u64,
    /// Output index that the model's next item has if none was withheld.
    pub(super) next_upstream: u64,
    pub(super) open: Vec<OpenItem>,
    /// Complete items as sent, by output index.
    pub(super) done: BTreeMap<u64, Document>,
    /// Texts of complete items that are sent otherwise than upstream sent them, by output index.
    pub(super) edited: HashSet<(u64, ItemSlot)>,
    pub(super) ending: Option<Ending>,
    /// The latest piece of a text that was written as it came.
    pub(super) alike: Option<WrittenPiece>,
}

/// The end of the answer, which is written when nothing can follow any more.
#[derive(Debug, Default)]
pub struct Ending {
    /// Upstream's last event; `None` for an end of our own.
    pub event: Option<StreamEvent>,
    /// The last chunk of the content form.
    pub view: ChunkView,
}
