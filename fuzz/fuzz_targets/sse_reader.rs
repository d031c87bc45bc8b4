//! Server-sent events: every way of cutting them reads the same, and what is
//! written anew reads as what was read. Input: where to cut, then the stream.

#![no_main]

use bytes::{Bytes, BytesMut};
use hookgate::dialect::write_event;
use hookgate::upstream::sse::{SseError, SseReader};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, stream)) = bytes.split_first() else {
        return;
    };
    let whole = read([stream], LIMIT);
    let cut = read(stream.chunks(usize::from(*cut).max(1)), LIMIT);
    assert_eq!(whole, cut);
    let Ok(events) = whole else {
        return;
    };
    let single = |it: &Bytes| !it.iter().any(|it| matches!(it, b'\r' | b'\n'));
    let events: Vec<Bytes> = events.into_iter().filter(single).collect();
    let mut written = BytesMut::new();
    for event in &events {
        write_event(&mut written, event);
    }
    // A blank more than some are read with.
    assert_eq!(read([&*written], LIMIT + 1), Ok(events));
});

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
