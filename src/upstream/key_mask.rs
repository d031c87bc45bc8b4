//! Masking of configured credentials that the model API echoes in a response.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use memchr::memchr3;

use super::headers::remove_where;
use crate::authorization::bearer_token;

/// Shorter credentials are not masked: they would occur in ordinary text.
const MIN_KEY_BYTES: usize = 8;

/// Backslashes before an escaped character in JSON that is text in JSON that is text in JSON.
const MAX_BACKSLASHES: usize = 7;

/// Replaces configured credentials in a streamed body by asterisks, in each of their spellings:
/// as they are, with the escapes of JSON, and percent-encoded. The length stays the same, so
/// that lengths and ranges stay valid.
#[derive(Debug, Clone)]
pub(super) struct KeyMask {
    keys: Vec<Vec<u8>>,
    /// End of the last chunk that may be the start of a key.
    held: Bytes,
}

/// Keys in a text.
#[derive(Default)]
struct FoundKeys {
    spellings: Vec<Range<usize>>,
    /// Position of the first key that may continue after the end of the text.
    cut_at: Option<usize>,
}

/// Result of reading a key, or one of its characters, at the start of a text.
enum Reading {
    /// It is there, and has so many bytes.
    Found(usize),
    /// The text ends before it does.
    Cut,
    /// Something else is there.
    Different,
}

impl KeyMask {
    /// Collects the credentials of a request to upstream: its header values that are
    /// marked sensitive. `None` if there are none.
    pub(super) fn from_request_headers(headers: &HeaderMap) -> Option<Self> {
        let secrets = headers.values().filter(|value| value.is_sensitive());
        let keys: Vec<Vec<u8>> = secrets
            .map(HeaderValue::as_bytes)
            .map(|value| bearer_token(value).unwrap_or(value))
            .filter(|key| key.len() >= MIN_KEY_BYTES)
            .map(<[u8]>::to_vec)
            .collect();
        let held = Bytes::new();
        (!keys.is_empty()).then_some(Self { keys, held })
    }

    /// Removes headers whose value contains a key.
    pub(super) fn remove_headers(&self, headers: &mut HeaderMap) {
        remove_where(headers, |_, value| {
            !self.find(value.as_bytes()).spellings.is_empty()
        });
    }

    /// Masks the next chunk. Bytes at its end that may begin a key are held back
    /// until the next call.
    pub(super) fn mask(&mut self, chunk: Bytes) -> Bytes {
        let text = self.join_held(chunk);
        let mut found = self.find(&text);
        let held_at = found.cut_at.unwrap_or(text.len());
        found.spellings.retain(|spelling| spelling.start < held_at);
        let mut text = masked(text, &found.spellings);
        self.held = text.split_off(held_at);
        text
    }

    /// Masks the last chunk.
    pub(super) fn mask_last(&mut self, chunk: Bytes) -> Bytes {
        let text = self.join_held(chunk);
        let found = self.find(&text);
        masked(text, &found.spellings)
    }

    /// Returns the number of bytes held back.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn join_held(&mut self, chunk: Bytes) -> Bytes {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            chunk
        } else {
            [held, chunk].concat().into()
        }
    }

    fn find(&self, text: &[u8]) -> FoundKeys {
        let mut found = FoundKeys::default();
        for key in &self.keys {
            find_key(key, text, &mut found);
        }
        found
    }
}

/// Adds the places of a key to those that are found.
fn find_key(key: &[u8], text: &[u8], found: &mut FoundKeys) {
    let Some(first) = key.first() else { return };
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(skipped) = memchr3(*first, b'\\', b'%', rest) else {
            return;
        };
        at += skipped;
        match read_key(key, rest.get(skipped..).unwrap_or_default()) {
            Reading::Found(length) => {
                found.spellings.push(at..at + length);
                at += length;
            }
            Reading::Cut => {
                found.cut_at = Some(found.cut_at.map_or(at, |earlier| earlier.min(at)));
                at += 1;
            }
            Reading::Different => at += 1,
        }
    }
}

/// Reads a key in any spelling.
fn read_key(key: &[u8], text: &[u8]) -> Reading {
    let mut is_cut = false;
    for read_character in [read_plain, read_json, read_percent_encoded] {
        match read_characters(key, text, read_character) {
            Reading::Different => (),
            Reading::Cut => is_cut = true,
            found @ Reading::Found(_) => return found,
        }
    }
    if is_cut {
        Reading::Cut
    } else {
        Reading::Different
    }
}

fn read_characters(key: &[u8], text: &[u8], read_character: fn(u8, &[u8]) -> Reading) -> Reading {
    let mut length = 0;
    for character in key {
        match read_character(*character, text.get(length..).unwrap_or_default()) {
            Reading::Found(bytes) => length += bytes,
            other => return other,
        }
    }
    Reading::Found(length)
}

fn read_plain(character: u8, text: &[u8]) -> Reading {
    match text.first() {
        None => Reading::Cut,
        Some(first) if *first == character => Reading::Found(1),
        Some(_) => Reading::Different,
    }
}

/// Reads a character of a JSON string (RFC 8259, section 7), which may be text in another one.
fn read_json(character: u8, text: &[u8]) -> Reading {
    let max_backslashes = if character == b'\\' {
        1
    } else {
        MAX_BACKSLASHES
    };
    let backslashes = text.iter().take(max_backslashes);
    let backslashes = backslashes.take_while(|byte| **byte == b'\\').count();
    let rest = text.get(backslashes..).unwrap_or_default();
    let reading = match rest.split_first() {
        Some((b'u', digits)) if backslashes > 0 => read_code(character, digits, 4).after(1),
        _ => read_plain(character, rest),
    };
    reading.after(backslashes)
}

/// Reads a character of a URL (RFC 3986, section 2.1).
fn read_percent_encoded(character: u8, text: &[u8]) -> Reading {
    match text.split_first() {
        Some((b'%', digits)) => read_code(character, digits, 2).after(1),
        _ => read_plain(character, text),
    }
}

/// Reads the hexadecimal code of a character.
fn read_code(character: u8, text: &[u8], digits: usize) -> Reading {
    let Some(code) = text.get(..digits) else {
        return Reading::Cut;
    };
    let code = str::from_utf8(code).ok();
    let code = code.and_then(|code| u16::from_str_radix(code, 16).ok());
    if code == Some(character.into()) {
        Reading::Found(digits)
    } else {
        Reading::Different
    }
}

impl Reading {
    /// Result of reading something behind so many bytes.
    const fn after(self, bytes: usize) -> Self {
        match self {
            Self::Found(length) => Self::Found(bytes + length),
            other => other,
        }
    }
}

/// Returns the text with asterisks in these places. A text without any is not copied.
fn masked(text: Bytes, places: &[Range<usize>]) -> Bytes {
    if places.is_empty() {
        return text;
    }
    let mut text = text.to_vec();
    for place in places {
        if let Some(key) = text.get_mut(place.clone()) {
            key.fill(b'*');
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn mask(keys: &[&'static str]) -> Option<KeyMask> {
        let mut headers = HeaderMap::new();
        for key in keys {
            let mut value = HeaderValue::from_static(key);
            value.set_sensitive(true);
            headers.append("x-goog-api-key", value);
        }
        headers.append("x-agent", HeaderValue::from_static("not-a-secret"));
        KeyMask::from_request_headers(&headers)
    }

    fn masked_chunks(mut mask: KeyMask, chunks: &[&str]) -> String {
        let last = chunks.len() - 1;
        let chunks = chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let chunk = Bytes::copy_from_slice(chunk.as_bytes());
            if at == last {
                mask.mask_last(chunk)
            } else {
                mask.mask(chunk)
            }
        });
        String::from_utf8(chunks.collect()).unwrap()
    }

    #[test]
    fn only_sensitive_values_of_some_length_are_keys() {
        assert!(mask(&[]).is_none());
        assert!(mask(&["short"]).is_none());
        for header in ["Bearer token-4711", "bearer token-4711"] {
            let bearer = mask(&[header]).unwrap();
            assert_eq!(masked_chunks(bearer, &["a token-4711"]), "a **********");
        }
    }

    #[test]
    fn a_chunk_without_a_key_is_not_copied() {
        let mut mask = mask(&["key-12345"]).unwrap();
        let chunk = Bytes::from_static(b"data: hello\r\n\r\n");
        let start = chunk.as_ptr();
        assert_eq!(mask.mask(chunk).as_ptr(), start);
        assert_eq!(mask.held_bytes(), 0);
    }

    #[test]
    fn a_key_within_a_longer_one_leaves_no_rest() {
        let mask = mask(&["key-1234", "key-1234-more"]).unwrap();
        assert_eq!(
            masked_chunks(mask, &["key-1234-more key-1234"]),
            "************* ********"
        );
    }

    #[test]
    fn a_key_that_a_longer_one_begins_with_does_not_end_the_mask() {
        let mask = mask(&["key-1234", "key-1234-more"]).unwrap();
        let chunks = ["a key-1234-m", "ore b key-1234", "-mo"];
        assert_eq!(
            masked_chunks(mask, &chunks),
            "a ************* b ********-mo"
        );
    }

    /// Spellings of the key `+k"e/y\\=1u%` that encoders write.
    const SPELLINGS: [&str; 7] = [
        r#"+k"e/y\=1u%"#,
        r#"+k\"e\/y\\=1u%"#,
        r"\u002Bk\u0022e/y\u005c\u003d1u%",
        r"\u002b\u006B\u0022\u0065\u002f\u0079\u005C\u003d\u0031\u0075\u0025",
        "%2Bk%22e%2fy%5C%3D1u%25",
        "%2bk%22e/y%5c=1u%25",
        r#"+k"e/y\u005c=1u%"#,
    ];

    #[test]
    fn a_key_is_masked_in_each_spelling_however_it_is_cut() {
        for spelling in SPELLINGS {
            let text = format!(r#"{{"a":"\n {spelling}\n"}}"#);
            let asterisks = "*".repeat(spelling.len());
            for cut in 0..text.len() {
                let mask = mask(&[r#"+k"e/y\=1u%"#]).unwrap();
                let (start, end) = text.split_at(cut);
                assert_eq!(
                    masked_chunks(mask, &[start, end]),
                    text.replace(spelling, &asterisks),
                    "{cut}"
                );
            }
        }
    }

    #[test]
    fn a_key_is_masked_in_json_that_is_text_in_json() {
        let (once, other) = (r"\/key\/+1234", r"/key/\u002b1234");
        for spelling in [once, other] {
            let inner = json!({"message": "x"}).to_string().replace('x', spelling);
            let outer = json!({ "error": json!({ "message": inner }).to_string() }).to_string();
            let masked = masked_chunks(mask(&["/key/+1234"]).unwrap(), &[&outer]);
            assert_eq!(masked.len(), outer.len());
            let outer: serde_json::Value = serde_json::from_str(&masked).unwrap();
            let inner: serde_json::Value =
                serde_json::from_str(outer["error"].as_str().unwrap()).unwrap();
            let message = inner["message"].as_str().unwrap();
            assert!(
                message.contains("****") && !message.contains("key"),
                "{message}"
            );
        }
    }

    #[test]
    fn few_bytes_of_a_key_are_held_back() {
        let mut mask = mask(&["key-12345"]).unwrap();
        let backslashes = "\\".repeat(10_000);
        let out = mask.mask(backslashes.into());
        assert!(mask.held_bytes() <= MAX_BACKSLASHES);
        assert_eq!(out.len() + mask.held_bytes(), 10_000);
        assert_eq!(mask.mask("a".into()).len(), mask.held_bytes() + 8);
    }

    proptest! {
        #[test]
        fn a_key_is_masked_however_the_body_is_cut(cuts in prop::collection::vec(0_usize..60, 0..9)) {
            let text = "kk-aa-kk-aa-kk-bb kk-aa-kk-bb kk-aa-kk kk-aa-kk-aa-kk-b";
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let ends = cuts.iter().copied().chain([text.len()]);
            let chunks: Vec<&str> = starts.zip(ends).filter_map(|(start, end)| text.get(start..end)).collect();
            let mask = mask(&["kk-aa-kk-bb"]).unwrap();
            prop_assert_eq!(masked_chunks(mask, &chunks), text.replace("kk-aa-kk-bb", "***********"));
        }
    }
}
