//! Interfaces for editing the texts of requests and responses.

/// Kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextKind {
    /// Text of the user or the model, thoughts included.
    Speech,
    /// Argument of a function call, or code to run.
    ToolCall,
    /// Result of a tool, or output of code.
    ToolResult,
    /// Block of an API that hookgate does not interpret: a call or a result of a tool that the
    /// API runs, or a text.
    Block,
}

/// Edits the texts of a request.
pub trait TextEditor {
    /// Edits consecutive texts that a model reads as one. Returns whether any was changed.
    fn edit_joined(&mut self, kind: TextKind, texts: &mut [String]) -> bool;

    /// Returns the replacement of a text, if it has one.
    fn edit(&mut self, kind: TextKind, text: &str) -> Option<String>;
}

/// Edits the texts of a response, which arrive in chunks.
pub trait ResponseTextEditor {
    /// Returns the replacement of the next piece of a text, if it has one. The editor may
    /// hold the end of a text back until the next piece.
    fn edit_piece(&mut self, channel: &TextChannel, text: &str, rest: TextRest) -> Option<String>;

    /// Edits the complete texts of a channel, which an agent may read as one. Returns false if the
    /// first of them has begun before, so that all are its next pieces.
    fn edit_joined(&mut self, _channel: &TextChannel, _texts: &mut [String]) -> bool {
        false
    }

    /// Notes that a text of a channel ends, but that an agent may read it and the next one as one.
    fn end_text(&mut self, _channel: &TextChannel) {}

    /// Ends a text of a channel. Returns what is held back of it, if anything is. The next text is
    /// searched by itself, and as its rest.
    fn release_text(&mut self, channel: &TextChannel) -> Option<String> {
        let text = self.edit_piece(channel, "", TextRest::None);
        text.filter(|text| !text.is_empty())
    }

    /// Returns the replacement of a complete text, if it has one.
    fn edit(&mut self, kind: TextKind, text: &str) -> Option<String>;

    /// Returns the channels whose text has begun and not ended, of one candidate or all.
    fn open_channels(&self, candidate: Option<u64>) -> Vec<TextChannel>;
}

/// Source of the pieces of one text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextChannel {
    /// Index of the candidate.
    pub candidate: u64,
    /// Text within the candidate.
    pub stream: TextStream,
}

/// A text of a candidate that arrives in pieces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextStream {
    /// Plain text of the response.
    Speech,
    /// Thoughts of the model.
    Thought,
    /// Argument of a partial function call, by its JSON path.
    Argument(String),
}

/// End of a text of the first candidate with a chunk of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextEnd {
    /// No text ends with the chunk.
    #[default]
    None,
    /// A text ends. Until it is known what follows, a secret may begin in it and end in the next.
    Possible,
    /// A text ends, but a secret may begin in it and end in the next.
    Joined,
    /// A thought ends with the chunk, or everything does, whatever follows.
    Certain,
}

/// Remainder of a text after a piece: possibly more pieces, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRest {
    /// More pieces may follow.
    MayFollow,
    /// This is the last piece.
    None,
}
