//! Server-sent events: the events are the same for every chunk size, and written events are read
//! back unchanged. Input: the chunk size, then the stream.

use bytes::{Bytes, BytesMut};
use hookgate::dialect::write_event;
use hookgate::upstream::sse::{SseError, SseReader};

const LIMIT: usize = 256;

pub fn run(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else {
        return;
    };
    let whole = read([stream], LIMIT);
    let chunked = read(stream.chunks(usize::from(*size).max(1)), LIMIT);
    assert_eq!(whole, chunked);
    let Ok(events) = whole else {
        return;
    };
    let is_single_line = |event: &Bytes| !event.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    let events: Vec<Bytes> = events.into_iter().filter(is_single_line).collect();
    let mut written = BytesMut::new();
    for event in &events {
        write_event(&mut written, event);
    }
    // Written lines may have an additional space.
    assert_eq!(read([&*written], LIMIT + 1), Ok(events));
}

fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> Result<Vec<Bytes>, SseError> {
    let mut reader = SseReader::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(reader.push(piece)?);
    }
    events.extend(reader.finish()?);
    for event in &events {
        assert!(event.len() <= limit);
    }
    Ok(events)
}
