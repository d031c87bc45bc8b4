//! Bech32 (BIP 173), without its limit of 90 characters.

const CHARSET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

const CHECKSUM_CHARS: usize = 6;

/// Decodes a text whose human-readable part is `prefix` in lower case. Returns `None` if it is
/// malformed or its checksum is wrong.
pub(crate) fn decode(text: &str, prefix: &str) -> Option<Vec<u8>> {
    let lower = text.to_ascii_lowercase();
    if text != lower && text != text.to_ascii_uppercase() {
        return None;
    }
    let data = lower.strip_prefix(prefix)?.strip_prefix('1')?;
    let values: Option<Vec<u8>> = data.bytes().map(value).collect();
    let values = values?;
    let checked = expanded(prefix).chain(values.iter().copied());
    if checksum(checked) != 1 {
        return None;
    }
    let length = values.len().checked_sub(CHECKSUM_CHARS)?;
    to_bytes(values.get(..length)?)
}

fn value(char: u8) -> Option<u8> {
    let position = CHARSET.iter().position(|known| *known == char)?;
    u8::try_from(position).ok()
}

/// Returns the human-readable part as values of five bits.
fn expanded(prefix: &str) -> impl Iterator<Item = u8> {
    let high = prefix.bytes().map(|byte| byte >> 5);
    high.chain([0]).chain(prefix.bytes().map(|byte| byte & 31))
}

fn checksum(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [
        0x3b6a_57b2,
        0x2650_8e6d,
        0x1ea1_19fa,
        0x3d42_33dd,
        0x2a14_62b3,
    ];
    values.fold(1, |sum, value| {
        let top = sum >> 25;
        let sum = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        let terms = GENERATOR.iter().enumerate();
        terms
            .filter(|(bit, _)| (top >> bit) & 1 == 1)
            .fold(sum, |sum, (_, term)| sum ^ term)
    })
}

/// Joins values of five bits to bytes. The rest must be less than five zero bits.
fn to_bytes(values: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut length) = (Vec::new(), 0_u32, 0);
    for value in values {
        bits = (bits << 5) | u32::from(*value);
        length += 5;
        if length >= 8 {
            length -= 8;
            let [.., byte] = (bits >> length).to_be_bytes();
            bytes.push(byte);
            bits &= (1 << length) - 1;
        }
    }
    (length < 5 && bits == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_standard_are_decoded() {
        let text = "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw";
        let bytes = decode(text, "abcdef").unwrap();
        assert_eq!(bytes[..4], [0x00, 0x44, 0x32, 0x14]);
        assert_eq!(bytes.len(), 20);
        assert_eq!(decode(&text.to_uppercase(), "abcdef"), Some(bytes));
        assert_eq!(decode("A12UEL5L", "a"), Some(Vec::new()));
    }

    #[test]
    fn malformed_texts_are_refused() {
        for text in [
            "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxx",
            "abcdef1Qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
            "abcdef1bpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
            "abcdefqpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
            "abcdef1",
            "",
        ] {
            assert_eq!(decode(text, "abcdef"), None, "{text}");
        }
    }
}
