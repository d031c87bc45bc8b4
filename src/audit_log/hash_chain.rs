//! How lines hang together. Pure.
//!
//! A line is `{"seq":N,"prev":"P",…,"hash":"H"}`. `H` is the SHA-256, in
//! lower-case hex, of all of the line before `,"hash":`; `P` is the `H` of the
//! line before. So a line that is edited, left out, added or moved breaks the
//! chain, and `sha256sum` is all it takes to see that.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The `prev` of the first line.
pub(super) const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const HASH: &[u8] = b",\"hash\":\"";
const HEX: usize = NOTHING.len();
/// `"}` after the hash.
const TAIL: &[u8] = b"\"}";

/// Where a chain has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The number of its last line; 0 if it has none.
    pub(super) seq: u64,
    /// The hash of that.
    pub(super) hash: String,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            seq: 0,
            hash: NOTHING.to_owned(),
        }
    }
}

/// Appends a line to `out`. `fields` is a JSON object without its braces.
pub(super) fn seal(out: &mut Vec<u8>, head: &mut Head, fields: &[u8]) {
    let from = out.len();
    let seq = head.seq + 1;
    out.extend_from_slice(format!("{{\"seq\":{seq},\"prev\":\"{}\",", head.hash).as_bytes());
    out.extend_from_slice(fields);
    let sealed = out.get(from..).unwrap_or_default();
    let hash = HEXLOWER.encode(&Sha256::digest(sealed));
    out.extend_from_slice(HASH);
    out.extend_from_slice(hash.as_bytes());
    out.extend_from_slice(TAIL);
    out.push(b'\n');
    *head = Head { seq, hash };
}

/// What a line says of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) head: Head,
    pub(super) prev: String,
}

/// Reads a line without its line break; `None` if it is not what was sealed.
pub(super) fn read(line: &[u8]) -> Option<Link> {
    let rest = line.strip_suffix(TAIL)?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HEX)?)?;
    let sealed = rest.strip_suffix(HASH)?;
    if HEXLOWER.encode(&Sha256::digest(sealed)).as_bytes() != hash {
        return None;
    }
    let rest = sealed.strip_prefix(b"{\"seq\":")?;
    let comma = memchr::memchr(b',', rest)?;
    let (number, rest) = rest.split_at_checked(comma)?;
    let prev = rest.strip_prefix(b",\"prev\":\"")?.get(..HEX)?;
    let text = |it: &[u8]| String::from_utf8(it.to_vec()).ok();
    Some(Link {
        head: Head {
            seq: text(number)?.parse().ok()?,
            hash: text(hash)?,
        },
        prev: text(prev)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(fields: &[&str]) -> (Vec<u8>, Head) {
        let (mut out, mut head) = (Vec::new(), Head::default());
        for fields in fields {
            seal(&mut out, &mut head, fields.as_bytes());
        }
        (out, head)
    }

    #[test]
    fn a_line_is_what_sha256sum_says_it_is() {
        let (out, head) = sealed(&["\"a\":1"]);

        // printf '{"seq":1,"prev":"000…","a":1' | sha256sum
        let before = format!("{{\"seq\":1,\"prev\":\"{NOTHING}\",\"a\":1");
        let hash = HEXLOWER.encode(&Sha256::digest(&before));
        let line = format!("{before},\"hash\":\"{hash}\"}}\n");
        assert_eq!(String::from_utf8(out).unwrap(), line);
        assert_eq!(head, Head { seq: 1, hash });
    }

    #[test]
    fn lines_hang_together() {
        let (out, head) = sealed(&["\"a\":1", "\"b\":\",\\\"hash\\\":\\\"\""]);

        let lines: Vec<Link> = out
            .trim_ascii_end()
            .split(|it| *it == b'\n')
            .map(|it| read(it).unwrap())
            .collect();

        assert_eq!(lines[0].prev, NOTHING);
        assert_eq!(lines[1].prev, lines[0].head.hash);
        assert_eq!(lines[1].head, head);
    }

    #[test]
    fn no_byte_of_a_line_can_change() {
        let (out, _) = sealed(&["\"a\":1"]);
        let line = out.trim_ascii_end();
        assert!(read(line).is_some());

        for at in 0..line.len() {
            for with in [b'0', b'x', b'"', line[at] ^ 1] {
                let mut changed = line.to_vec();
                changed[at] = with;
                assert!(changed == line || read(&changed).is_none(), "{at} {with}");
            }
            assert!(read(&line[..at]).is_none(), "{at}");
        }
    }
}
