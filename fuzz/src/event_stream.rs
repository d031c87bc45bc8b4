//! Streams of every API: an unedited stream keeps the data of its events, or can be read
//! again, and an edited one is written without a panic. Input: a byte that selects the API,
//! then an event per line.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use hookgate::dialect::{
    self, Api, CallDecision, Dialect, Framing, ResponseDocument, ResponseTextEditor, TextChannel,
    TextKind, TextRest,
};

/// Editor that replaces every text of a stream.
struct Mask;

impl ResponseTextEditor for Mask {
    fn edit_piece(&mut self, _: &TextChannel, _: &str, _: TextRest) -> Option<String> {
        Some("[masked]".to_owned())
    }

    fn edit(&mut self, _: TextKind, _: &str) -> Option<String> {
        Some("[masked]".to_owned())
    }

    fn open_channels(&self, _: Option<u64>) -> Vec<TextChannel> {
        Vec::new()
    }
}

pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let dialect = dialect::of(Api::ALL[usize::from(*first) % Api::ALL.len()]);
    let lines = rest
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && !is_terminator(line));
    let Some((mut chunks, is_complete)) = read(dialect, lines.clone()) else {
        return;
    };

    let written = write(dialect.chunk_writer(Framing::Sse), &chunks);
    if let (true, Some(written)) = (is_complete, written) {
        let text = String::from_utf8_lossy(&written);
        let data: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|line| !is_terminator(line.as_bytes()))
            .collect();
        if matches!(dialect.api(), Api::OpenAiResponses | Api::OpenAiChat) {
            // Copies of a text that differ from its deltas are corrected, and a second start event
            // is dropped.
            let again = read(dialect, data.iter().map(|line| line.as_bytes()));
            assert!(again.is_some(), "unreadable: {text:?}");
        } else {
            for line in lines {
                // A line break within JSON is written as a space.
                let line = String::from_utf8_lossy(line).replace('\r', " ");
                assert!(data.contains(&&*line), "lost: {line:?} of {text:?}");
            }
        }
    }

    let mut edited = chunks.clone();
    for chunk in &mut edited {
        if chunk.edit_texts(&mut Mask, TextRest::MayFollow).is_err() {
            return;
        }
    }
    write(dialect.chunk_writer(Framing::Sse), &edited);

    let mut with_text = BTreeSet::new();
    for chunk in &mut chunks {
        with_text.extend(chunk.candidates_with_text());
        let Ok(calls) = chunk.calls() else { return };
        let decisions = calls.iter().map(|_| CallDecision::Refuse("no".to_owned()));
        if chunk.decide_calls(decisions.collect()).is_err()
            || chunk.explain_withheld_calls(&with_text).is_err()
        {
            return;
        }
    }
    write(dialect.chunk_writer(Framing::Sse), &chunks);
}

/// Returns whether a line ends a stream of Chat Completions: readers do not receive it.
fn is_terminator(line: &[u8]) -> bool {
    line.trim_ascii() == b"[DONE]"
}

/// Returns the chunks of a stream, and true if it is complete; `None` if it cannot be read.
fn read<'a>(
    dialect: &dyn Dialect,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Option<(Vec<ResponseDocument>, bool)> {
    let mut reader = dialect.chunk_reader();
    let mut chunks = Vec::new();
    for line in lines {
        chunks.extend(reader.read(Bytes::copy_from_slice(line)).ok()?);
    }
    let last = reader.finish();
    let is_complete = last.is_ok();
    chunks.extend(last.ok().flatten());
    Some((chunks, is_complete))
}

fn write(
    mut writer: Box<dyn dialect::WriteChunks>,
    chunks: &[ResponseDocument],
) -> Option<BytesMut> {
    for chunk in chunks {
        writer.write(chunk).ok()?;
    }
    writer.write_end().ok()?;
    Some(writer.output().split())
}
