//! Segments of recordings: each is read to its end, and its exchanges can be written.
//! Input: a segment.

use std::path::Path;

use hookgate::recording::SegmentReader;

pub fn run(bytes: &[u8]) {
    let reader = SegmentReader::new(Path::new("rec-0-0.hgr"), bytes.to_vec());
    for exchange in reader.flatten() {
        let _bytes = exchange.answer_bytes();
        let line = serde_json::to_string(&exchange).unwrap();
        let again: hookgate::recording::RecordedExchange = serde_json::from_str(&line).unwrap();
        assert_eq!(exchange, again);
    }
}
