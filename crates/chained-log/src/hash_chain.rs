//! The hash chain that links the lines of a log.
//!
//! A line is `{"seq":N,"prev":"P",…,"hash":"H"}`. `H` is the SHA-256, in lower-case
//! hex, of the line up to `,"hash":`; `P` is the `H` of the previous line. An edited,
//! removed, added or moved line breaks the chain, and `sha256sum` is enough to check it.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// `prev` of the first line.
pub(crate) const GENESIS_HASH: &str =
    "0000000000000000000000000000000000000000000000000000000000000000";

const HASH_LENGTH: usize = GENESIS_HASH.len();
const HASH_FIELD: &[u8] = b",\"hash\":\"";
const LINE_END: &[u8] = b"\"}";

/// The last line of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// Sequence number of the line; 0 in an empty chain.
    pub seq: u64,
    /// Hash of the line.
    pub hash: String,
}

/// Position of a line in its chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineLink {
    pub(crate) head: ChainHead,
    pub(crate) prev: String,
}

impl Default for ChainHead {
    fn default() -> Self {
        Self {
            seq: 0,
            hash: GENESIS_HASH.to_owned(),
        }
    }
}

impl ChainHead {
    /// Appends a line to `out` and moves the head to it. `fields` is a JSON object
    /// without its braces.
    pub fn append_line(&mut self, out: &mut Vec<u8>, fields: &[u8]) {
        let start = out.len();
        let seq = self.seq + 1;
        out.extend_from_slice(format!("{{\"seq\":{seq},\"prev\":\"{}\",", self.hash).as_bytes());
        out.extend_from_slice(fields);
        let hashed = out.get(start..).unwrap_or_default();
        let hash = HEXLOWER.encode(&Sha256::digest(hashed));
        out.extend_from_slice(HASH_FIELD);
        out.extend_from_slice(hash.as_bytes());
        out.extend_from_slice(LINE_END);
        out.push(b'\n');
        *self = Self { seq, hash };
    }
}

impl LineLink {
    /// Parses a line without its line break; returns `None` if its hash does not match.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let link = Self::parse_unchecked(text)?;
        let hashed_length = text.len() - HASH_FIELD.len() - HASH_LENGTH - LINE_END.len();
        let hashed = text.get(..hashed_length)?;
        (HEXLOWER.encode(&Sha256::digest(hashed)) == link.head.hash).then_some(link)
    }

    /// Parses a line without its line break; does not check its hash.
    pub(crate) fn parse_unchecked(text: &[u8]) -> Option<Self> {
        let rest = text.strip_suffix(LINE_END)?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HASH_LENGTH)?)?;
        let hashed = rest.strip_suffix(HASH_FIELD)?;
        let rest = hashed.strip_prefix(b"{\"seq\":")?;
        let comma = memchr::memchr(b',', rest)?;
        let (seq, rest) = rest.split_at_checked(comma)?;
        let prev = rest.strip_prefix(b",\"prev\":\"")?.get(..HASH_LENGTH)?;
        let owned = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        Some(Self {
            head: ChainHead {
                seq: owned(seq)?.parse().ok()?,
                hash: owned(hash)?,
            },
            prev: owned(prev)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(lines: &[&str]) -> (Vec<u8>, ChainHead) {
        let (mut out, mut head) = (Vec::new(), ChainHead::default());
        for fields in lines {
            head.append_line(&mut out, fields.as_bytes());
        }
        (out, head)
    }

    #[test]
    fn the_hash_of_a_line_is_what_sha256sum_prints() {
        let (out, head) = chain(&["\"a\":1"]);

        // printf '{"seq":1,"prev":"000…","a":1' | sha256sum
        let hashed = format!("{{\"seq\":1,\"prev\":\"{GENESIS_HASH}\",\"a\":1");
        let hash = HEXLOWER.encode(&Sha256::digest(&hashed));
        let line = format!("{hashed},\"hash\":\"{hash}\"}}\n");
        assert_eq!(String::from_utf8(out).unwrap(), line);
        assert_eq!(head, ChainHead { seq: 1, hash });
    }

    #[test]
    fn each_line_has_the_hash_of_the_previous_one() {
        let (out, head) = chain(&["\"a\":1", "\"b\":\",\\\"hash\\\":\\\"\""]);

        let links: Vec<LineLink> = out
            .trim_ascii_end()
            .split(|byte| *byte == b'\n')
            .map(|line| LineLink::parse(line).unwrap())
            .collect();

        assert_eq!(links[0].prev, GENESIS_HASH);
        assert_eq!(links[1].prev, links[0].head.hash);
        assert_eq!(links[1].head, head);
    }

    #[test]
    fn a_line_with_a_changed_byte_is_rejected() {
        let (out, _) = chain(&["\"a\":1"]);
        let line = out.trim_ascii_end();
        assert!(LineLink::parse(line).is_some());

        for at in 0..line.len() {
            for byte in [b'0', b'x', b'"', line[at] ^ 1] {
                let mut changed = line.to_vec();
                changed[at] = byte;
                let parsed = LineLink::parse(&changed);
                assert!(changed == line || parsed.is_none(), "{at} {byte}");
            }
            assert!(LineLink::parse(&line[..at]).is_none(), "{at}");
        }
    }
}
