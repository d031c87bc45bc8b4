//! Cases of ambiguous and invalid HTTP/1.1 message framing.

use super::{
    BODY,
    Outcome::{self, Forwarded, Refused},
    SMUGGLED_REQUEST, chunked,
};

/// Headers with ambiguous framing, and a body.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(super) fn ambiguous_framings() -> Vec<(&'static str, String, String, Outcome)> {
    let length = BODY.len();
    let te = |coding: &str| format!("transfer-encoding: {coding}\r\n");
    let plain = || BODY.to_owned() + SMUGGLED_REQUEST;
    let chunks = || chunked(BODY) + SMUGGLED_REQUEST;
    vec![
        (
            "content-length and transfer-encoding",
            format!("content-length: 4\r\n{}", te("chunked")),
            chunks(),
            Forwarded,
        ),
        (
            "transfer-encoding and content-length",
            te("chunked") + "content-length: 4\r\n",
            chunks(),
            Forwarded,
        ),
        (
            "two content-length headers",
            format!("content-length: {length}\r\ncontent-length: 3\r\n"),
            plain(),
            Refused,
        ),
        (
            "two lengths in one header",
            format!("content-length: {length}, 3\r\n"),
            plain(),
            Refused,
        ),
        (
            "a length with a sign",
            format!("content-length: +{length}\r\n"),
            plain(),
            Refused,
        ),
        (
            "a negative length",
            "content-length: -1\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a length in hexadecimal",
            "content-length: 0x31\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a length with a space",
            "content-length: 4 9\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "an empty length",
            "content-length: \r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a length over 64 bits",
            "content-length: 99999999999999999999\r\n".to_owned(),
            plain(),
            Refused,
        ),
        (
            "a space after content-length",
            format!("content-length : {length}\r\n"),
            plain(),
            Refused,
        ),
        (
            "a space after transfer-encoding",
            "transfer-encoding : chunked\r\n".to_owned(),
            chunks(),
            Refused,
        ),
        (
            "an unknown transfer coding",
            te("xchunked"),
            chunks(),
            Refused,
        ),
        ("chunked twice", te("chunked, chunked"), chunks(), Refused),
        (
            "chunked before another coding",
            te("chunked, identity"),
            chunks(),
            Refused,
        ),
        (
            "another coding before chunked",
            te("gzip, chunked"),
            chunks(),
            Refused,
        ),
        (
            "two transfer-encoding headers",
            te("chunked") + &te("identity"),
            chunks(),
            Refused,
        ),
        (
            "two transfer-encoding headers, the last one chunked",
            te("identity") + &te("chunked"),
            chunks(),
            Refused,
        ),
        ("chunked in quotes", te("\"chunked\""), chunks(), Refused),
        (
            "chunked with a parameter",
            te("chunked;x"),
            chunks(),
            Refused,
        ),
        (
            "chunked after a control character",
            te("\x0bchunked"),
            chunks(),
            Refused,
        ),
        (
            "chunked before a non-ASCII byte",
            te("chunked\u{a0}"),
            chunks(),
            Refused,
        ),
        (
            "a folded header",
            "transfer-encoding:\r\n chunked\r\n".to_owned(),
            chunks(),
            Refused,
        ),
        (
            "a folded length",
            format!("content-length: {length}\r\n 0\r\n"),
            plain(),
            Refused,
        ),
        (
            "a zero byte in a value",
            "x-a: b\0c\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "a zero byte in a name",
            "x\0a: b\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "an invalid header name",
            "x a: b\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "an empty header name",
            ": b\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "no colon",
            "x\r\n".to_owned() + &te("chunked"),
            chunks(),
            Refused,
        ),
        (
            "a bare CR",
            "x: a\rtransfer-encoding: chunked\r\n".to_owned(),
            plain(),
            Refused,
        ),
    ]
}

/// Bodies with invalid chunked framing.
pub(super) fn invalid_chunks() -> Vec<(&'static str, String)> {
    let size = format!("{:x}", BODY.len());
    vec![
        ("no size", format!("\r\n{BODY}\r\n0\r\n\r\n")),
        (
            "a size with a sign",
            format!("+{size}\r\n{BODY}\r\n0\r\n\r\n"),
        ),
        ("a negative size", format!("-{size}\r\n{BODY}\r\n0\r\n\r\n")),
        ("a size with 0x", format!("0x{size}\r\n{BODY}\r\n0\r\n\r\n")),
        (
            "a size that is not hexadecimal",
            format!("{size}g\r\n{BODY}\r\n0\r\n\r\n"),
        ),
        (
            "a size over 64 bits",
            format!("1{}\r\n{BODY}\r\n0\r\n\r\n", "0".repeat(20)),
        ),
        ("a size too small", format!("5\r\n{BODY}\r\n0\r\n\r\n")),
        (
            "no line end after the data",
            format!("{size}\r\n{BODY}0\r\n\r\n"),
        ),
        (
            "a bare CR after the size",
            format!("{size}\r{BODY}\r\n0\r\n\r\n"),
        ),
        (
            "a bare LF in an extension",
            format!("{size};a\nb\r\n{BODY}\r\n0\r\n\r\n"),
        ),
        (
            "an endless extension",
            format!("{size};{}\r\n{BODY}\r\n0\r\n\r\n", "a".repeat(100_000)),
        ),
        (
            "an unfinished trailer",
            format!("{size}\r\n{BODY}\r\n0\r\nx"),
        ),
    ]
}
