//! An editor of texts that records what it sees.

use crate::dialect::text_edit::{ResponseTextEditor, TextChannel, TextKind, TextRest};

/// Records the texts that it sees, and edits them with its mask, if it has one.
#[derive(Default)]
pub(super) struct RecordingEditor {
    pub(super) mask: Option<fn(&str) -> Option<String>>,
    pub(super) seen: String,
}

impl RecordingEditor {
    /// Creates an editor that masks texts.
    pub(super) fn masking(mask: fn(&str) -> Option<String>) -> Self {
        Self {
            mask: Some(mask),
            ..Self::default()
        }
    }

    fn see(&mut self, text: &str) -> Option<String> {
        self.seen.push_str(text);
        self.mask.and_then(|mask| mask(text))
    }
}

impl ResponseTextEditor for RecordingEditor {
    fn edit_piece(&mut self, _: &TextChannel, text: &str, _: TextRest) -> Option<String> {
        self.see(text)
    }

    fn edit(&mut self, _: TextKind, text: &str) -> Option<String> {
        self.see(text)
    }

    fn open_channels(&self, _: Option<u64>) -> Vec<TextChannel> {
        Vec::new()
    }
}
