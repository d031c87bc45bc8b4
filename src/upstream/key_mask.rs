//! Masking of configured credentials that the model API echoes in a response.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use memchr::{memchr, memmem::Finder};

use super::headers::remove_where;
use crate::authorization::bearer_token;

/// Shorter credentials are not masked: they would occur in ordinary text.
const MIN_KEY_BYTES: usize = 8;

/// Replaces configured credentials in a streamed body by asterisks of the same
/// length, so that lengths and ranges stay valid.
#[derive(Debug, Clone)]
pub(super) struct KeyMask {
    /// Longest first, since one key may contain another.
    keys: Vec<Finder<'static>>,
    /// End of the last chunk that may be the start of a key.
    held: Bytes,
}

impl KeyMask {
    /// Collects the credentials of a request to upstream: its header values that are
    /// marked sensitive. `None` if there are none.
    pub(super) fn from_request_headers(headers: &HeaderMap) -> Option<Self> {
        let secrets = headers.values().filter(|value| value.is_sensitive());
        let mut keys: Vec<&[u8]> = secrets
            .map(HeaderValue::as_bytes)
            .map(|value| bearer_token(value).unwrap_or(value))
            .filter(|key| key.len() >= MIN_KEY_BYTES)
            .collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        let keys: Vec<_> = keys
            .into_iter()
            .map(|key| Finder::new(key).into_owned())
            .collect();
        let held = Bytes::new();
        (!keys.is_empty()).then_some(Self { keys, held })
    }

    /// Removes headers whose value contains a key.
    pub(super) fn remove_headers(&self, headers: &mut HeaderMap) {
        remove_where(headers, |_, value| {
            let mut keys = self.keys.iter();
            keys.any(|key| key.find(value.as_bytes()).is_some())
        });
    }

    /// Masks the next chunk. Bytes at its end that may begin a key are held back
    /// until the next call.
    pub(super) fn mask(&mut self, chunk: Bytes) -> Bytes {
        let mut text = self.mask_last(chunk);
        let overlaps = self.keys.iter().map(|key| overlap(&text, key.needle()));
        let held = overlaps.max().unwrap_or_default();
        self.held = text.split_off(text.len() - held);
        text
    }

    /// Masks the last chunk.
    pub(super) fn mask_last(&mut self, chunk: Bytes) -> Bytes {
        let held = std::mem::take(&mut self.held);
        let mut text = if held.is_empty() {
            chunk
        } else {
            [held, chunk].concat().into()
        };
        for key in &self.keys {
            let starts: Vec<usize> = key.find_iter(&text).collect();
            if !starts.is_empty() {
                text = masked(&text, &starts, key.needle().len());
            }
        }
        text
    }

    /// Returns the number of bytes held back.
    pub(super) const fn held_bytes(&self) -> usize {
        self.held.len()
    }
}

fn masked(text: &[u8], starts: &[usize], length: usize) -> Bytes {
    let mut text = text.to_vec();
    for start in starts {
        if let Some(key) = text.get_mut(*start..start + length) {
            key.fill(b'*');
        }
    }
    text.into()
}

/// Length of the longest proper prefix of `key` that `text` ends with.
fn overlap(text: &[u8], key: &[u8]) -> usize {
    let is_in_key = |last: &u8| memchr(*last, key).is_some();
    if !text.last().is_some_and(is_in_key) {
        return 0;
    }
    let ends_with = |length: &usize| {
        key.get(..*length)
            .is_some_and(|start| text.ends_with(start))
    };
    (1..key.len()).rev().find(ends_with).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
